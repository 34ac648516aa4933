"""`fedbnsl clean`: remove what old runs have left."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def clean(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder with silos' files: also look into the journals beside them.")
    ] = None,
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", help="Remove what is older than so many days, 1 or more.")
    ] = 30.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without, it is only shown.")] = False,
) -> None:
    """Show what old runs have left, in Prefect's database and in silos' journals; with --yes, remove it.

    Privacy ledgers, results and MLflow runs stay. A run that was interrupted so long ago cannot be resumed afterwards.
    """
    from ..terminal.clean import clean as cleaned

    lines = list(cleaned(folder, older_than, really=yes))
    for line in lines:
        print(f"{'removed from' if yes else 'old, in'} {line}")
    if not lines:
        print("nothing is that old")
    elif not yes:
        print("nothing was removed: say --yes")
