"""`fedbnsl compare`: a finished run against an earlier one."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="EARLIER", help="The folder of a finished run, runs/NAME.")],
    after: Annotated[Path, typer.Argument(metavar="LATER", help="That of a later one over the same variables.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Say what has changed from one run to a later one: edges gained, lost, turned, and parameter drift."""
    from ..terminal.compare import show_comparison

    show_comparison(before, after, as_json=as_json)
