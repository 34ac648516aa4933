"""`fedbnsl learn`: learn from a folder, or go on with an interrupted run."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.learn import LearnOptions
from .completion import engines
from .from_model import taking

app = typer.Typer(add_completion=False)

Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=engines,
        help="prefect, or inline: in this process, without Prefect, Dask and MLflow.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also show Prefect's own messages.")]


@app.command()
@taking(LearnOptions)
def learn(
    options: LearnOptions,
    folder: Annotated[Path | None, typer.Argument(help="Federated data set: a folder with one file a silo.")] = None,
    engine: Engine = "prefect",
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Continue the interrupted run whose results are in DIR.")
    ] = None,
    verbose: Verbose = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print metrics, folder and ε spent as one JSON document, and nothing else.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show neither progress nor results; with --json, print only the document.")
    ] = False,
) -> None:
    """Learn a structure from the silos of FOLDER; print it, its scores, and where the report is.

    The results are written to runs/<name>. If FOLDER has a truth.csv, the structure is compared with it.

    Example: fedbnsl learn my_folder -a fed-pc -p alpha=0.01 --seed 1
    """
    from ..terminal import learn as terminal

    terminal.learn(options, folder, resume, engine=engine, verbose=verbose, as_json=as_json, quiet=quiet)
