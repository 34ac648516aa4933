"""`fedbnsl benchmark`: compare algorithms on data sets with several seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbnsl.algorithms.errors import BadInput

from .completion import one_algorithm

if TYPE_CHECKING:
    from ..benchmark.spec import Spec

YAML = (".yaml", ".yml")

app = typer.Typer(add_completion=False)


@app.command()
def benchmark(
    data: Annotated[list[Path], typer.Argument(help="A specification in YAML, or folders with a truth.csv.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results; an interrupted benchmark resumes.")],
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAMES",
            help="Algorithms, separated by commas; repeatable.",
            autocompletion=one_algorithm,
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of seeds; default: 1.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Number of processes; default: one for each core; 0: run in this process."
        ),
    ] = None,
    track: Annotated[bool, typer.Option("--track", help="Log the runs to MLflow, as children of one run.")] = False,
) -> None:
    """Compare algorithms on data sets with several seeds; write a tidy CSV file, tables and pictures.

    Each result is compared with the true graph of its data set. docs/benchmarking.md has the keys of a spec.

    Example: fedbnsl benchmark study -a fed-sparse,secure-linear --seeds 10 --out comparison
    """
    from ..benchmark.runner import run_benchmark

    found = run_benchmark(requested(data, algorithm, seeds), out, workers=workers, track=track, listener=show_progress)
    print((found.folder / "tables.md").read_text("utf-8"))
    print(f"results: {found.folder}")


def requested(data: list[Path], algorithms: list[str] | None, seeds: int | None) -> Spec:
    """The specification of the benchmark: from a YAML file, or from folders, `algorithms` and `seeds`.

    Raises `BadInput` for folders without algorithms, and for a YAML file together with any of the others.
    """
    from ..benchmark.spec import read_spec, spec_of

    names = [name.strip() for one in algorithms or [] for name in one.split(",") if name.strip()]
    if any(one.suffix in YAML for one in data):
        if len(data) > 1 or names or seeds is not None:
            raise BadInput(f"{data[0]}: a spec has the data, algorithms and seeds: give nothing else")
        return read_spec(data[0])
    if not names:
        raise BadInput("name the algorithms to compare, such as -a fed-sparse,secure-linear")
    return spec_of(data, names, seeds or 1)


def show_progress(row: dict[str, Any], done: int, of: int) -> None:
    """Print a line on a finished run to stderr."""
    what = f"SHD {row['shd']}" if row.get("shd") is not None else row["reason"] or "no true graph"
    typer.echo(f"{done} of {of}: {row['algorithm']} on {row['data']}, seed {row['seed']}: {what}", err=True)
