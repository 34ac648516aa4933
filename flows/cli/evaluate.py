"""`fedbnsl evaluate`: a graph against another."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.learn import LearnOptions
from .from_model import taking

app = typer.Typer(add_completion=False)


@app.command()
@taking(LearnOptions, only=("allow_cyclic_truth",))
def evaluate(
    options: LearnOptions,
    structure: Annotated[Path, typer.Argument(help="The learned structure: source,target[,weight][,lag].")],
    truth: Annotated[Path, typer.Argument(help="The true one, in the same form.")],
    own_lags: Annotated[
        bool, typer.Option("--own-lags", help="Let AUROC and AUPR of lagged edges count each variable's own past.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a learned structure against the truth."""
    from ..terminal.listing import show_evaluation

    show_evaluation(structure, truth, allow_cyclic_truth=options.allow_cyclic_truth, own_lags=own_lags, as_json=as_json)
