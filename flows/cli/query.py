"""`fedbnsl query`: probabilities and distributions in the model of a finished run."""

import json
from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, such as runs/NAME.")]
SampleSeed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of drawn samples.")]

app = typer.Typer(add_completion=False)


@app.command()
def query(
    run: Run,
    text: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="'P(X | Y=value, do(Z=value))', 'P(X=label)', 'P(X>number | ...)' or, of a "
            "survival outcome, 'P(X within time | ...)'.",
        ),
    ],
    seed: SampleSeed = 0,
    samples: Annotated[
        int,
        typer.Option(min=1000, max=10_000_000, metavar="N", help="Number of samples if no exact answer is possible."),
    ] = 100_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Compute a probability or a distribution in the model of a finished run, and state whether it is exact.

    Conditions are evidence (Y=value) or interventions (do(Z=value)). Nothing leaves a silo.

    Example: fedbnsl query runs/NAME 'P(disease | smoke=yes, do(age=40))'
    """
    from ..api.loading import load
    from ..inference.queries import query as ask
    from ..terminal.console import console

    found = ask(load(run).result, text, seed=seed, samples=samples)
    if as_json:
        print(json.dumps({"run": str(run), "query": text, **found.as_json()}, indent=1, ensure_ascii=False))
    else:
        console().print(str(found), soft_wrap=True)
