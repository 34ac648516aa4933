"""`fedbnsl attack`: why replies need protection."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="See what a curious coordinator can do, and what stops it.", no_args_is_help=True, add_completion=False
)


@app.callback()
def attack() -> None:
    """See what a curious coordinator can do, and what stops it."""


@app.command()
def reconstruct(
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file a silo.")],
    epsilon: Annotated[
        float, typer.Option(metavar="E", help="Privacy budget ε of the private run that is attacked, too.")
    ] = 1.0,
) -> None:
    """Reconstruct every silo's covariance from one plain round of notears-admm.

    The same attack then fails on a run with --secure, and on a run with a privacy budget.
    """
    from ..terminal.attack import show_attack

    show_attack(folder, epsilon)
