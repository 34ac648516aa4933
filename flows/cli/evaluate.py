"""`fedbnsl evaluate`: a graph against another."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.learn import LearnOptions
from .options_from_model import options_from_model

app = typer.Typer(add_completion=False)


@app.command()
@options_from_model(LearnOptions, only=("allow_cyclic_truth",))
def evaluate(
    options: LearnOptions,
    structure: Annotated[Path, typer.Argument(help="The learned structure: a CSV file source,target[,weight][,lag].")],
    truth: Annotated[Path, typer.Argument(help="The true graph, in the same format.")],
    own_lags: Annotated[
        bool, typer.Option("--own-lags", help="Include each variable's own past in AUROC and AUPR of lagged edges.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Compare a learned structure with the true graph."""
    from ..terminal.summary import show_evaluation

    show_evaluation(structure, truth, allow_cyclic_truth=options.allow_cyclic_truth, own_lags=own_lags, as_json=as_json)
