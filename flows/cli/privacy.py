"""`fedbnsl privacy`: what a budget will buy, and what has been spent. `fedbnsl attack`: why it is needed."""

from pathlib import Path
from typing import Annotated

import typer

privacy_app = typer.Typer(help="What a privacy budget will buy, and what has been spent.", no_args_is_help=True)
attack_app = typer.Typer(help="What a curious coordinator can do, and what stops it.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Federated data set: a folder, one file a silo.")]


@privacy_app.command()
def plan(
    folder: Folder,
    epsilon: Annotated[float, typer.Option(metavar="E", help="The ε that a run may spend.")],
    delta: Annotated[float, typer.Option(metavar="D", help="δ; default: 1/n² of the smallest silo.")] = 0.0,
) -> None:
    """Say what a run with this budget is likely to find, and with which algorithm; nothing is spent."""
    from ..terminal.privacy_plan import show_plan

    show_plan(folder, epsilon, delta)


@privacy_app.command()
def ledger(
    folder: Folder,
    delta: Annotated[float, typer.Option(metavar="D", help="δ; default: 1/n² of the smallest silo.")] = 0.0,
) -> None:
    """Show what each silo has spent, in every run on these rows."""
    from ..terminal.privacy import show_ledger

    show_ledger(folder, delta)


@attack_app.command()
def reconstruct(
    folder: Folder,
    epsilon: Annotated[float, typer.Option(metavar="E", help="ε of the private run that is attacked, too.")] = 1.0,
) -> None:
    """Rebuild every silo's covariance from one plain round of notears-admm; fail at it under --secure and under DP."""
    from ..terminal.privacy import show_attack

    show_attack(folder, epsilon)
