"""`fedbnsl silo`: take part in a federation with rows that stay where they are."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Take part in a federation, with rows that stay here.", no_args_is_help=True, add_completion=False
)

Config = Annotated[Path, typer.Option(metavar="FILE", help="The owner's file, as `fedbnsl federation init` makes it.")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="The silo's name, in place of the file's.")]
Data = Annotated[Path | None, typer.Option(metavar="PATH", help="The silo's rows, in place of the file's.")]


@app.command()
def start(config: Config = Path("silo.toml"), name: Name = None, data: Data = None) -> None:
    """Join the federation over mutual TLS and answer within the owner's policy, until told to end."""
    from ..terminal import silo as terminal

    terminal.start(config, name, data)


@app.command()
def check(config: Config = Path("silo.toml"), name: Name = None, data: Data = None) -> None:
    """Say what a coordinator learns before round 1, what the policy allows, and whether the coordinator answers."""
    from ..terminal import silo as terminal

    terminal.check(config, name, data)
