"""Tables for the terminal: a structure and its scores."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fedbnsl.algorithms.core.names import pluralize
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.edges import SYMBOLS, Edge, LaggedEdge, classify, classify_lagged, weighted
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure


def console() -> Console:
    """Return a console for stdout, as wide as the terminal, else 120; brackets are printed as they are."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False, soft_wrap=False)


def show_evaluation(structure: Path, truth: Path, *, allow_cyclic_truth: bool, own_lags: bool, as_json: bool) -> None:
    """Print the scores of the structure in one file against the truth in another.

    The variables are those that either file names: one without any edge makes no difference to the counts.
    """
    from fedbnsl.data.folder.folder import read_structure

    named = dict.fromkeys((*read_structure(truth).variables, *read_structure(structure).variables))
    learned, true = (read_structure(path, tuple(named)) for path in (structure, truth))
    scores = compare(learned, true, allow_cyclic_truth=allow_cyclic_truth, own_lags=own_lags)
    if as_json:
        print(json.dumps(scores, indent=1))
        return
    show_scores({**scores, "acyclic": learned.acyclic})


def show_scores(scores: Mapping[str, Any]) -> None:
    """Print scores, one a line, those that are not known left out."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for key, value in scores.items():
        if value is not None:
            table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value))
    console().print(table)


def show_structure(structure: Structure, most: int = 40, strengths: Strengths | None = None) -> None:
    """Print the edges, those with the largest weights first, no more than `most` of them.

    Those of a dynamic structure are printed apart, within one time and across time. Beside each edge stands how many of
    the resamples have it, and how many of these the same way round, where `strengths` tell.
    """
    within = " within one time step" * bool(structure.lags)
    _show_edges(classify(structure, None), within, most, strengths, weighted=weighted(structure))
    if structure.lags:
        lagged = classify_lagged(structure, None)
        _show_edges(lagged, " across time", most, strengths, weighted=weighted(structure))


def _show_edges(edges: Sequence[Edge], where: str, most: int, strengths: Strengths | None, *, weighted: bool) -> None:
    edges = sorted(edges, key=lambda edge: -abs(edge.weight or 0.0))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for edge in edges[:most]:
        weight = [f"{edge.weight:+.3f}"] if weighted and edge.weight is not None else []
        table.add_row(
            edge.cause, SYMBOLS[edge.at_source, edge.at_target], edge.target, *weight, *_sure(edge, strengths)
        )
    which = "strongest" if weighted else "first"
    console().print(
        f"{pluralize(len(edges), 'edge')}{where}" + (f", the {most} {which}:" if len(edges) > most else ":")
    )
    console().print(table)


def _sure(edge: Edge, strengths: Strengths | None) -> list[str]:
    """Return how many of the resamples have `edge`, and of those of an edge that has a direction how many this way."""
    if strengths is None:
        return []
    strength, direction = strengths.of(edge)
    timed = isinstance(edge, LaggedEdge) or not edge.one_way or direction is None
    return [f"strength {strength:.2f}", "" if timed else f"direction {direction:.2f}"]
