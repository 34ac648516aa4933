"""`fedbnsl privacy`: what a budget will buy, and what has been spent."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.learn import LearnOptions
from .from_model import taking

app = typer.Typer(
    help="Plan a privacy budget, and see what has been spent.", no_args_is_help=True, add_completion=False
)

Folder = Annotated[Path, typer.Argument(help="Federated data set: a folder with one file a silo.")]


@app.command()
@taking(LearnOptions, only=("delta",))
def plan(
    options: LearnOptions,
    folder: Folder,
    epsilon: Annotated[float, typer.Option(metavar="E", help="The privacy budget ε that a run may spend.")],
) -> None:
    """Say what a run with this privacy budget is likely to find, and with which algorithm; nothing is spent."""
    from ..terminal.privacy_plan import show_plan

    show_plan(folder, epsilon, options.delta or 0.0)


@app.command()
@taking(LearnOptions, only=("delta",))
def ledger(options: LearnOptions, folder: Folder) -> None:
    """Show what each silo has spent of its privacy budget, in every run on these rows."""
    from ..terminal.ledger import show_ledger

    show_ledger(folder, options.delta or 0.0)
