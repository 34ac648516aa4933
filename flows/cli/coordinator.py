"""`fedbnsl coordinator`: where the silos of a federation meet."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Run the meeting point of a federation.", no_args_is_help=True, add_completion=False)


@app.callback()
def coordinator() -> None:
    """Run the meeting point of a federation."""


@app.command()
def start(
    federation: Annotated[
        Path, typer.Option(metavar="FILE", help="The coordinator's file, as `fedbnsl federation init` makes it.")
    ] = Path("federation.toml"),
) -> None:
    """Let the silos in that have a certificate, and runs of `fedbnsl learn --federation`, until told to end."""
    from ..terminal import coordinator as terminal

    terminal.start(federation)
