"""`fedbnsl predict`: the empty cells of a table, predicted by the model of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from .query import Run, SampleSeed

app = typer.Typer(add_completion=False)


@app.command()
def predict(
    run: Run,
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A table with columns of the model.")],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="X", help="Predict this variable in every row; repeatable. Default: predict empty cells."),
    ] = None,
    seed: SampleSeed = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="New CSV file; default: print the rows.")] = None,
) -> None:
    """Predict cells of TABLE, each from the filled cells of its row: means, or the most probable labels.

    The column sd(X) has the standard deviation of predicted numbers, and P(X) the probability of predicted labels.

    Example: fedbnsl predict runs/NAME patients.csv --target disease --out predicted.csv
    """
    from ..api.loading import load
    from ..inference.queries import predict as fill
    from ..inference.queries import write_table

    write_table(fill(load(run).result, table, target or [], seed=seed), out)
