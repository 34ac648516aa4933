"""`fedbnsl inspect`: how the tables of a folder are read."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.learn import LearnOptions
from .from_model import taking

app = typer.Typer(add_completion=False)


@app.command()
@taking(LearnOptions, only=("ignore", "only", "missing"))
def inspect(
    options: LearnOptions,
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file a silo.")],
) -> None:
    """Say how the tables of FOLDER are read: kinds, levels, empty cells, what is set aside; nothing is learned.

    Example: fedbnsl inspect my_folder --ignore comment
    """
    from ..terminal.inspect import show_folder

    show_folder(folder, options)
