"""`fedbnsl federation`: begin a federation over machines."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Begin a federation over machines.", no_args_is_help=True, add_completion=False)


@app.callback()
def federation() -> None:
    """Begin a federation over machines."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="New folder, or that of a federation to which silos are added.")],
    silos: Annotated[str, typer.Option(metavar="NAMES", help="The silos; commas between them.")],
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where silos and runs reach the coordinator.")
    ] = "127.0.0.1:8786",
) -> None:
    """Make certificates and files: a folder for the coordinator and one for the owner of each silo.

    Example: fedbnsl federation init study --silos clinic,lab,ward --address coordinator.example.org:8786
    """
    from ..terminal import federation as terminal

    terminal.init(folder, [name.strip() for name in silos.split(",") if name.strip()], address)
