"""`fedbnsl tune`: learn with the best of the candidate settings of an algorithm, compared on halves of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedbnsl.algorithms.errors import BadInput

from ..options.learn import LearnOptions
from .learn import Engine, Verbose, run_learn
from .options_from_model import options_from_model


def with_candidates(options: LearnOptions) -> LearnOptions:
    """`options` with the lists of values in its settings as candidates; raises `BadInput` if there is no list."""
    listed = {name: value for name, value in options.params.items() if "," in str(value)}
    if not listed:
        raise BadInput("nothing to tune: give a setting several values, such as -p alpha=.001,.01,.05")
    fixed = {name: value for name, value in options.params.items() if name not in listed}
    tune = ";".join(f"{name}={value}" for name, value in listed.items())
    return options.model_copy(update={"params": fixed, "tune": tune})


app = typer.Typer(add_completion=False)


@app.command()
@options_from_model(LearnOptions, without=("tune",))
def tune(
    options: LearnOptions,
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file per silo.")],
    engine: Engine = "prefect",
    verbose: Verbose = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only a JSON document: metrics, folder.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show neither progress nor results.")] = False,
) -> None:
    """Compare settings of an algorithm without a true graph, and learn with the best.

    Each value in a list such as -p alpha=.001,.01,.05 is a candidate; with several lists, each combination is a
    candidate. The comparison uses random halves of each silo's rows.

    Example: fedbnsl tune my_folder -a fed-pc -p alpha=.001,.01,.05
    """
    from ..servers.environment import prestart

    with prestart(engine, quiet=not verbose) as server:
        run_learn(
            with_candidates(options),
            folder,
            None,
            engine=engine,
            server=server,
            as_json=as_json,
            quiet=quiet,
            details=verbose,
        )
