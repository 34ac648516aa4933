"""Findings on time series: trend, season, random walks, and weights that change over time (ours)."""

from collections.abc import Sequence

import numpy as np

from .change import children_of
from .exchange import Server
from .findings import RULES, Finding, Rule, autocorrelations

MIN_RETURN_ROWS, MIN_UNIT_ROOT_ROWS = 7.0, 40
"""rows of a series times 1 − autocorrelation below which it counts as a random walk, whose mean is about 5; and rows"""
CHANGE = "weights change"
"""the name of the finding on weights that change over time"""
SEGMENTS = (
    "Learn again with --algorithm secure-boss -p weights=own -p segments=2, which adds up the scores of both halves of "
    "each series."
)
"""its advice"""
COMPARE_HALVES = "Compare the graphs of the first and the second half of the series: they may share a structure."
"""the advice where secure-boss cannot add up own scores"""


def series_findings(server: Server, others: Sequence[Finding] = (), labels: Sequence[bool] = ()) -> list[Finding]:
    """A finding on series that return to their level too slowly to be distinguished from random walks.

    A trend or season among the `others` explains it until it is removed. Variables with `labels` have states, which may
    last long.
    """
    names = server.schema.variables
    if len(server.within) == len(names) or any(one.name in ("trend", "season") for one in others):
        return []
    states = np.array(labels, np.bool_)[server.owners] if len(labels) else np.zeros(len(names), np.bool_)
    mean_rows = server.rows / max(sum(map(len, server.schema.stretches.values())), 1)
    slow = np.flatnonzero((mean_rows * (1 - autocorrelations(server)) < MIN_RETURN_ROWS) & ~states)
    if mean_rows < MIN_UNIT_ROOT_ROWS or not len(slow):
        return []
    named = ", ".join(names[v] for v in slow[:5]) + (f" and {len(slow) - 5} more" if len(slow) > 5 else "")
    sentence = f"{named}: without a level to return to in these series, like a random walk (unit root)."
    return [Finding("unit root", sentence, "Learn again with --difference: random walks look related by chance.")]


def change_findings(server: Server, others: Sequence[Finding]) -> list[Finding]:
    """The `others`, and a finding on weights that change in all silos instead of one on single silos.

    A trend, a season or series like random walks explain either, until they are removed.
    """
    rest = [one for one in others if one.name != CHANGE]
    if any(one.name in ("trend", "season", "unit root") for one in rest):
        return rest
    changes, present = server.changes, len(server.schema.variables)
    loud = np.flatnonzero(changes.ratios > 1)
    if not len(loud):
        return list(others)
    order = loud[np.argsort(-changes.ratios[loud])]
    names = [server.schema.variables[v] for v in children_of(server.parents, present)[order]]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    sentence = (
        f"The weights of the causes of {', '.join(names[:5])}{more} change over time, most about "
        f"{100 * changes.when[order[0]]:.0f} % into the series."
    )
    return [*rest, Finding(CHANGE, sentence, SEGMENTS)]


def _trend(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = (
        f"{len(who)} of {silos} silos: series have a trend, most {column}: a trend looks like effects of all lags."
    )
    return Finding("trend", sentence, "Learn again with --detrend.", who)


def _season(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = f"{len(who)} of {silos} silos: series have a season of {value:.0f} rows, most {column}."
    return Finding("season", sentence, f"Learn again with --deseasonalise {value:.0f}.", who)


def _change(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = f"{', '.join(who[:5])}: weights change over time within the series, most for {column}."
    return Finding(CHANGE, sentence, SEGMENTS, who)


SERIES_RULES = RULES | {
    "trend": Rule(6.0, lambda rows, d: np.zeros(len(rows)), _trend),
    "season": Rule(1.5, lambda rows, d: np.zeros(len(rows)), _season),
    "change": Rule(1.0, lambda rows, d: np.zeros(len(rows)), _change),
}
"""the rules of the figures of time series, in the order of `exchange.SERIES_FIGURES`"""
