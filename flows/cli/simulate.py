"""`fedbnsl simulate`: rows drawn from the model of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from .query import Run, SampleSeed

app = typer.Typer(add_completion=False)


@app.command()
def simulate(
    run: Run,
    rows: Annotated[int, typer.Option(metavar="N", help="Number of rows.")] = 1000,
    do: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set a variable by an intervention; repeatable.")
    ] = None,
    seed: SampleSeed = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="New CSV file; default: print the rows.")] = None,
) -> None:
    """Draw rows from the model of a finished run, in the units and labels of its data, as a CSV table.

    No row is copied from a silo. But a model with many parameters, learned from few rows, can reveal some of these
    rows: share simulated rows only with those who may have the model.

    Example: fedbnsl simulate runs/NAME --rows 5000 --do smoke=no --out simulated.csv
    """
    from ..api.loading import load
    from ..inference.queries import interventions, write_table
    from ..inference.queries import simulate as draw

    write_table(draw(load(run).result, rows, do=interventions(do or []), seed=seed), out)
