"""`fedbnsl audit`: verify the signed records of a run, for the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbnsl.algorithms.errors import BadInput, pluralize


def show_audit(run: Path, trusted: Path | None, owners: tuple[Path, ...]) -> None:
    """Print the audit of the run in the folder `run`; raises `BadInput` after it if it has a fault."""
    from ..inference.audit import audit as audit_of

    found = audit_of(run, trusted, owners)
    for line in found.lines:
        print(line)
    for fault in found.faults:
        print(f"fault: {fault}")
    if found.faults:
        raise BadInput(f"{run}: the audit found {pluralize(len(found.faults), 'fault')}")


app = typer.Typer(add_completion=False)


@app.command()
def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, such as runs/NAME.")],
    trusted: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Certificates of authorities that you trust, such as coordinator/trusted.pem."
        ),
    ] = None,
    silo: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="An owner's silo.toml: compare its policy and the keys that it knows. Repeatable."
        ),
    ] = None,
) -> None:
    """Verify, offline, what the silos of a run have signed: what left them, under which policy, and the result.

    Names each changed file, statement, signature, key and policy, and each missing silo; exit code 2 if there is any.

    Example: fedbnsl audit runs/NAME --trusted coordinator/trusted.pem
    """
    show_audit(run, trusted, tuple(silo or ()))
