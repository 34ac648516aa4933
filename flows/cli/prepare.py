"""`fedbnsl prepare`: make a federated data set and write it as a folder. Every recipe is a command."""

from inspect import getdoc
from pathlib import Path
from typing import Annotated

import typer

from ..options.prepare import KINDS, Recipe
from .options_from_model import options_from_model

app = typer.Typer(
    help="Create a federated data set: a folder with one file per silo.", no_args_is_help=True, add_completion=False
)


def write(
    recipe: Recipe,
    out: Annotated[Path, typer.Argument(help="Folder to write; it must be new or empty.")],
) -> None:
    """Make the data set that `recipe` describes, write it to the folder `out`, and print a summary.

    If the user has a Prefect server or runs `fedbnsl ui`, the server shows this as a run of the flow `prepare`.
    """
    from fedbnsl.algorithms.graphs.edges import edge_count

    from ..start import make_and_write

    data = make_and_write(recipe, out)
    rows = sum(data.schema.rows.values())
    true = "no truth" if data.truth is None else f"{edge_count(data.truth)} true edges"
    if data.truth is not None and data.truth.lagged is not None:
        true += f" within a time step, {(data.truth.lagged != 0).sum()} lagged"
    for note in data.notes:
        print(f"note: {note}")
    print(f"{out}: {len(data.tables)} silos, {rows} rows, {len(data.schema.variables)} variables, {true}")


for kind, model in KINDS.items():
    app.command(kind, help=getdoc(model))(options_from_model(model, without=("kind",))(write))
