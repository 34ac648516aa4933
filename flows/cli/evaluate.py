"""`fedbnsl evaluate`: the scores of a graph in comparison with another graph."""

import json
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from fedbnsl.tracking.metrics import METRICS

from ..options.learn import LearnOptions
from .options_from_model import options_from_model

app = typer.Typer(add_completion=False)


SCORES = [
    fill(f"{one.name:<22}{one.label}", 76, subsequent_indent=24 * " ")
    for one in METRICS.values()
    if one.table in ("score", "count")
]
SCORE_HELP = "\b\nThe names of scores, also in metrics.json of a run:\n" + "\n".join(SCORES)


@app.command(epilog=SCORE_HELP)
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
    """Compare a learned structure with the true graph.

    The variables are all variables that the two files name. Further variables, without edges, would only change AUROC
    and AUPR.
    """
    from ..api.evaluation import as_structure, evaluate
    from ..terminal.console import show_scores

    allow_cyclic_truth = options.allow_cyclic_truth
    scores = evaluate(structure, truth, allow_cyclic_truth=allow_cyclic_truth, own_lags=own_lags)
    if as_json:
        print(json.dumps(scores, indent=1))
    else:
        show_scores({**scores, "acyclic": as_structure(structure).acyclic})
