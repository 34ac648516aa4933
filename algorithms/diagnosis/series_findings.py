"""Findings on time series, which may make a learned graph wrong: trend, season, random walks, and changing weights.

A trend, a season or a random walk makes unrelated series look related, so each finding advises to remove it and learn
again. Each of them also explains later findings, so the functions are called in this order, each with the findings
before it (`others`):

1. `SERIES_RULES`, applied as the rules of `findings.py` are: trend, season, and weights that change in single silos;
2. `series_findings`: random walks, unless a trend or a season was found (`unit_root.py`);
3. `change_findings`: weights that change in all silos, unless one of these was found (`change.py`);
4. `adjustment_findings`: the advice, extended by what the run itself has already removed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.adjustment import Adjustment
from .change import children_of
from .columns import without_causes
from .exchange import Server
from .findings import COMMON_RULES, WEIGHTS_DIFFER, Finding, Rule
from .over_time import LINE
from .unit_root import own_t_values, unit_roots

MIN_MEAN_ROWS = 40
"""minimum mean number of rows of a series for the test for random walks"""
UNIT_ROOT, SLOW = "unit root", "slow series"
"""the names of the findings on random walks, and on series that are too short for a decision"""
SEASON = "season"
"""the name of the finding on seasons"""
CHANGE = "weights change"
"""the name of the finding on weights that change over time"""
SEGMENTS = (
    "Learn again with --algorithm secure-boss -p weights=own -p segments=2, which adds up the scores of both halves of "
    "each series."
)
"""the advice of the finding on weights that change"""
COMPARE_HALVES = "Compare the graphs of the first and the second half of the series: they may share a structure."
"""the advice if secure-boss cannot add up the silos' own scores"""


def series_findings(server: Server, others: Sequence[Finding] = (), labels: Sequence[bool] = ()) -> list[Finding]:
    """A finding on random walks or, if there are none, on series too short for a decision (`unit_root.py`).

    There is no finding if the findings `others` report a trend or a season. Until it is removed, it explains slow
    series. Variables with `labels` are not tested, because their states may last long.
    """
    names = server.schema.variables
    if len(server.within) == len(names) or any(one.name in ("trend", SEASON) for one in others):
        return []
    states = np.array(labels, np.bool_)[server.owners] if len(labels) else np.zeros(len(names), np.bool_)
    counted = [silo for silo, there in zip(server.schema.silos, server.counted, strict=True) if there]
    stretches = [server.schema.stretches[silo] for silo in counted]
    if sum(map(sum, stretches)) < MIN_MEAN_ROWS * sum(map(len, stretches)):
        return []
    model = server.schema.imputation_model
    rows = server.rows * model.rows / model.windows if model.windows else server.rows
    t = own_t_values(server.within, server.parents, len(names), rows)
    roots = unit_roots(t, stretches, ~states)
    if len(roots.walks):
        sentence = f"{_named(names, roots.walks)}: without a level to return to, like a random walk (unit root)."
        return [Finding(UNIT_ROOT, sentence, DIFFERENCE)]
    if len(roots.undecided):
        who = _named(names, roots.undecided)
        return [Finding(SLOW, f"{who}: the series are too short to tell slow change from a random walk.", COMPARE)]
    return []


DIFFERENCE = "Learn again with --difference: random walks look related by chance."
COMPARE = "Compare with a run with --difference: random walks look related by chance."
"""the advice on random walks, and on series too short for a decision"""


def adjustment_findings(server: Server, others: Sequence[Finding]) -> list[Finding]:
    """The findings `others`, with advice that also has the adjustments of the run, and silos with long enough series.

    If the run has subtracted a season, the advice on a further season has a period that is a multiple of both periods.
    """
    schema = server.schema
    walks = Adjustment(difference=True)
    removed = {"trend": Adjustment(detrend=True), UNIT_ROOT: walks, SLOW: walks}
    if any(one.name == SEASON for one in others):
        removed[SEASON] = Adjustment(period=season_of(server))
    longest = {silo: max(schema.recorded_stretches(silo), default=0) for silo in schema.silos}
    revised = []
    for one in others:
        if one.name in removed:
            own = removed[one.name]
            both = own | schema.adjustment
            fit = [silo for silo, rows in longest.items() if rows >= both.min_rows]
            advice = one.advice.replace(own.options, both.options)
            if own.options in one.advice and 0 < len(fit) < len(longest):
                advice = one.advice.replace(own.options, f"{both.options} --silos {','.join(fit)}")
                advice += " The series of all other silos are too short for it."
            one = replace(one, advice=advice)
        revised.append(one)
    return revised


def season_of(server: Server) -> int:
    """The longest period that a silo reports for the season of its series, in rows."""
    return int(np.nanmax(server.figures[:, [*SERIES_RULES].index(SEASON), 0]))


def _named(names: Sequence[str], which: NDArray[np.intp]) -> str:
    return ", ".join(names[v] for v in which[:5]) + (f" and {len(which) - 5} more" if len(which) > 5 else "")


def change_findings(server: Server, others: Sequence[Finding]) -> list[Finding]:
    """The findings `others`, with one on weights that change in all silos instead of one on single silos.

    Trends, seasons and random walks explain both findings, and weights that differ between silos, until they are
    removed.
    """
    rest = [one for one in others if one.name != CHANGE]
    if any(one.name in ("trend", SEASON, UNIT_ROOT, SLOW) for one in rest):
        return [one for one in rest if one.name not in WEIGHTS_DIFFER]
    changes, present = server.changes, len(server.schema.variables)
    loud = np.flatnonzero(changes.ratios > 1)
    if not len(loud):
        return list(others)
    order = loud[np.argsort(-changes.ratios[loud])]
    changed = children_of(server.parents, present)[order]
    sentence = (
        f"The weights of the causes of {_named(server.schema.variables, changed)} change over time, most about "
        f"{100 * changes.when[order[0]]:.0f} % into the series."
    )
    return [*rest, Finding(CHANGE, sentence, SEGMENTS)]


def _trend(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    if value >= LINE:
        sentence = f"{len(who)} of {silos} silos: series have a trend: {column} is a straight line, like a row number."
        return Finding("trend", sentence, f"Learn again with --ignore {column}.", who)
    sentence = (
        f"{len(who)} of {silos} silos: series have a trend, most {column}: a trend looks like effects of all lags."
    )
    return Finding("trend", sentence, f"Learn again with {Adjustment(detrend=True).options}.", who)


def _season(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = f"{len(who)} of {silos} silos: series have a season of {value:.0f} rows, most {column}."
    # Without its season, the hour of the day would be constant.
    ignored = f" --ignore {column}" if without_causes([column]) else ""
    return Finding(SEASON, sentence, f"Learn again with {Adjustment(period=int(value)).options}{ignored}.", who)


def _change(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = f"{', '.join(who[:5])}: weights change over time within the series, most for {column}."
    return Finding(CHANGE, sentence, SEGMENTS, who)


SERIES_RULES = COMMON_RULES | {
    "trend": Rule(6.0, lambda rows, d: np.zeros(len(rows)), _trend),
    SEASON: Rule(1.5, lambda rows, d: np.zeros(len(rows)), _season),
    "change": Rule(1.0, lambda rows, d: np.zeros(len(rows)), _change),
}
"""the rules of the figures of time series, in the order of `exchange.SERIES_FIGURES`"""
