"""`fedbnsl choose`: which algorithm suits a folder, and why."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def choose(
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file a silo.")],
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="Privacy budget ε that the run is to keep.")
    ] = None,
    secure: Annotated[bool, typer.Option("--secure", help="Mask all replies, as in `learn`.")] = False,
) -> None:
    """Say which algorithm `learn` takes by itself for FOLDER, on what evidence, and two others; nothing is learned.

    Example: fedbnsl choose my_folder --epsilon 2
    """
    from ..terminal.choose import show_choice

    show_choice(folder, epsilon, secure=secure)
