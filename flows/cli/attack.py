"""`fedbnsl attack reconstruct`: how well a curious coordinator reconstructs the silos' moments, as a table."""

from pathlib import Path
from statistics import median
from typing import Annotated

import typer


def show_attack(folder: Path, epsilon: float) -> None:
    """Print how close the attacker comes to each silo's second moments, under each protection."""
    from rich.table import Table

    from fedbnsl.data.folder.folder import read_folder

    from ..attack import run_attack
    from ..terminal.summary import console

    found = run_attack(read_folder(folder), epsilon)
    out = console()
    out.print(
        "Relative error of the second moments that a curious coordinator reconstructs for a silo (median over the "
        "silos), and the error of the mean of all silos, which any result reveals."
    )
    table = Table("what the coordinator sees", "reconstruction", "mean of all silos", "the attack")
    for one in found:
        error, public = median(one.error.values()), median(one.public.values())
        succeeds = error < public / 2
        table.add_row(one.protection, f"{error:.3g}", f"{public:.3g}", "succeeds" if succeeds else "fails")
    out.print(table)


app = typer.Typer(
    help="Show what a curious coordinator can infer, and what prevents it.", no_args_is_help=True, add_completion=False
)


@app.callback()
def attack() -> None:
    """Show what a curious coordinator can infer, and what prevents it."""


@app.command()
def reconstruct(
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file per silo.")],
    epsilon: Annotated[
        float, typer.Option(metavar="E", help="Privacy budget ε of the private run that is attacked as well.")
    ] = 1.0,
) -> None:
    """Reconstruct every silo's covariance from one unprotected round of notears-admm.

    The same attack then fails on a run with --secure, and on a run with a privacy budget.
    """
    show_attack(folder, epsilon)
