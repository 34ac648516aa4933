"""Findings on the data of a run and the limits of its result, each a sentence with advice.

Reports, terminal, `metrics.json` and MLflow show the same findings. Silos with numbers send the figures of
`exchange.py`, and silos with labels send the figures of `tables.py`. For each figure, a `Rule` decides which silos
disagree with the other silos.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import dag_extension

from ..core.schema import FloatArray, Schema
from ..graphs.edges import edge_count
from ..graphs.structure import Structure
from ..moments.model_fit import Misfit
from ..privacy.disclosure_control import MIN_COUNT, share_class
from ..statistics.count_tables import one_to_one
from ..statistics.moments import regression_weights, residual_variances
from ..statistics.rows import cardinalities_of
from .exchange import COMMON_FIGURES, MIN_CHANCE_RATIO, Server
from .silo_faults import resting_on_one_silo
from .tables import Server as TableServer
from .tables import tables_of

MAX_STANDARDISED_RATIO = 1.05
"""maximum ratio of the largest to the smallest variance of columns that count as standardised"""
MIN_UNIT_RATIO = 100.0
"""minimum ratio of standard deviations for the finding that columns are in different units"""
MIN_MEAN_DEVIATIONS = 3.0
"""minimum distance from zero, in standard deviations, of a mean that is reported"""
MIN_SPREAD = 0.05
"""minimum spread of residual variances (ln of the mean minus the mean of the ln) that count as unequal"""
MIN_CORRELATION = 1 - 1e-6
"""minimum correlation of two columns that count as the same"""
ROWS_PER_PARAMETER = 5.0
"""minimum number of rows for each weight or variance"""
MIN_OUTLIER_RATIO = 1.5
"""minimum ratio of the largest figure to the second largest with which one silo alone disagrees"""


@dataclass(frozen=True)
class Finding:
    """A finding: a name for programs, a sentence and advice for people, and the silos that it concerns."""

    name: str
    message: str
    advice: str
    silos: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    """pairs of variables that seem to share a hidden cause, so that an edge between them may be wrong"""


def scale_findings(server: Server, *, equal_variances: bool, centred: bool) -> list[Finding]:
    """Findings on the columns' means and variances, for a learner that relies on them."""
    names = server.schema.variables
    total = np.maximum(np.diag(server.within)[: len(names)], 1e-300)
    sd, found = np.sqrt(total), list[Finding]()
    small, large = int(np.argmin(sd)), int(np.argmax(sd))
    if equal_variances and total[large] < MAX_STANDARDISED_RATIO * total[small]:
        sentence = "All columns have nearly the same variance, as after standardising: variances cannot direct edges."
        found.append(Finding("standardised", sentence, f"{OTHERWISE} Or supply the columns as they were measured."))
    elif equal_variances and sd[large] > MIN_UNIT_RATIO * sd[small]:
        ratio = sd[large] / sd[small]
        sentence = (
            f"The standard deviation of {names[large]} is {ratio:,.0f} times that of {names[small]}: units differ."
        )
        found.append(Finding("units", sentence, OTHERWISE))
    far = np.abs(server.means[: len(names)]) / sd
    most = int(np.argmax(far))
    if not centred and far[most] > MIN_MEAN_DEVIATIONS:
        sentence = f"The mean of {names[most]} is {far[most]:.3g} standard deviations from 0 and was not subtracted."
        found.append(
            Finding(
                "means",
                sentence,
                "Subtract each silo's means (parameter center or center_series): otherwise they look like effects.",
            )
        )
    return found


OTHERWISE = "Use --algorithm auto or secure-linear: they rely on variances only where the data support it."


def fit_findings(server: Server, structure: Structure, *, equal_variances: bool) -> list[Finding]:
    """Findings from the comparison of the learned structure with the second moments."""
    S, rows, names = server.within, server.rows - len(server.schema.silos), server.schema.variables
    d = len(names)
    found = same_columns(S[:d, :d], structure.variables, server.owners)
    if structure.kind == "pag" or rows < 2:
        return found
    joined = server.parents[:, :d] if structure.lags else structure.adjacency
    coded = len(S) != len(joined)
    parameters = d + (int(np.triu(server.parents).sum()) if coded else edge_count(structure))
    if rows < ROWS_PER_PARAMETER * parameters:
        sentence = (
            f"{parameters} weights and variances were learned from {rows:,} rows: many edges may be due to chance."
        )
        found.append(Finding("few rows", sentence, RESAMPLE))
    if structure.kind != "dag" or not structure.acyclic or coded:
        return found
    every = residual_variances(S, regression_weights(S, joined))
    some = np.flatnonzero(every > 0)  # a declared level may have no row
    variances, total = every[some], np.diag(S)[some]
    spread = float(np.log(variances.mean()) - np.log(variances).mean())
    if equal_variances and spread > MIN_SPREAD:
        low, high = int(some[np.argmin(variances)]), int(some[np.argmax(variances)])
        sentence = (
            f"The error variance of {names[high]} is {every[high] / every[low]:.3g} times that of "
            f"{names[low]}: error variances are unequal, but the directions rest on equal ones."
        )
        found.append(Finding("unequal errors", sentence, OTHERWISE))
    gain = 0.5 * rows * float(np.log(total / variances).sum()) - 0.5 * np.log(rows) * float(joined.sum())
    if joined.any() and gain <= 0:
        sentence = f"By BIC the structure is no better than a graph without edges ({gain:.3g})."
        found.append(Finding("no better than empty", sentence, "Do not interpret these edges as effects."))
    return found


def parent_cap_findings(structure: Structure, max_parents: int | None) -> list[Finding]:
    """A finding if variables have as many parents as the settings allow: the true number may be larger."""
    if max_parents is None or structure.kind != "dag" or max_parents >= len(structure.variables) - 1:
        return []
    full = [structure.variables[j] for j in np.flatnonzero(structure.adjacency.sum(axis=0) >= max_parents)]
    if not full:
        return []
    sentence = f"{', '.join(full[:5])}: {max_parents} parents, as many as max_parents allows; there may be more."
    return [Finding("cap reached", sentence, f"Try -p max_parents={2 * max_parents}.")]


MISFIT = "misfit"
"""the name of the finding on data that no sparse DAG explains"""
CAUSES_OF_MISFIT = (
    "outliers",
    "rows from elsewhere",
    "not linear",
    "errors depend on causes",
    "weights differ",
    "silo with different weights",
    "skewed columns",
)
"""the names of findings that explain a misfit"""
PASSING = ("trend", "season", "unit root", "weights change")
"""the names of findings on time series that leave dependence on earlier steps"""


def with_misfit(
    found: Sequence[Finding], misfit: Misfit, names: Sequence[str], *, over_time: bool = False
) -> list[Finding]:
    """The findings with one more if no DAG with few edges explains the second moments, unless they explain it.

    For time series, weights that seem to differ do not explain it: errors that depend on earlier errors look like this.
    """
    causes = {*CAUSES_OF_MISFIT, *PASSING} - ({*WEIGHTS_DIFFER} if over_time else set())
    if misfit.evidence <= 1 or any(one.name in causes for one in found):
        return list(found)
    sentence = "No DAG with few edges explains all dependences, so edges and directions may be wrong. "
    advice = "Learn again with --algorithm fed-bfci, which allows for hidden common causes."
    reasons = "Hidden common causes, feedback or rounded values can be the reason."
    if over_time:
        advice = "Do not rely on single edges. Series in shorter steps may tell causes from effects."
        reasons = "Hidden common causes, or steps that are longer than the time to an effect, can be the reason."
    groups = [" and ".join(names[v] for v in group) for group in misfit.groups]
    if groups:
        more = f", and {len(groups) - 3} more groups" if len(groups) > 3 else ""
        sentence += f"Hidden common causes fit better than edges: of {'; of '.join(groups[:3])}{more}."
    else:
        sentence += reasons
    pairs = tuple((names[a], names[b]) for group in misfit.groups for a, b in combinations(group, 2))
    return [*found, Finding(MISFIT, sentence, advice, pairs=pairs)]


ERRORS_DEPEND = "errors depend on causes"
"""the name of the finding on errors whose size depends on the causes"""
ROWS_DEPEND = "rows depend on each other"
"""the name of the finding on rows that are not independent"""


ROWS_ELSEWHERE = "rows from elsewhere"
"""the name of the finding on rows that seem to be from another population"""


def error_findings(dependent: int, families: int, min_share: float) -> list[Finding]:
    """The finding that the errors of `dependent` variables among `families` with causes depend on these causes.

    An edge had to explain `min_share` of a residual variance.
    """
    more = f" An edge had to explain {100 * min_share:.0f} % of a residual variance." if min_share else ""
    sentence = (
        f"The size of the errors of {dependent} of {families} variables depends on their causes, so neither a linear "
        f"nor an additive model holds. Directions rest on conditional independences only.{more}"
    )
    return [Finding(ERRORS_DEPEND, sentence, "Read the graph as one of dependences: a weight is only a mean slope.")]


def dependent_rows_findings(share: float, rows: int, column: str | None) -> list[Finding]:
    """The finding that only a `share` of `rows` rows counts as independent, because rows resemble rows before them.

    `column` is the one whose ids recur, if there is one.
    """
    sentence = (
        f"Rows resemble the rows before them, so {rows:,} rows have as much evidence as about "
        f"{float(f'{share * rows:.2g}'):,.0f} independent ones; scores and strengths count those. Repeated rows, "
        "several rows of one person, or an order in time can be the reason."
    )
    advice = f"Learn again with --cluster {column}." if column else LEARN_CLUSTERS
    return [Finding(ROWS_DEPEND, sentence, advice)]


LEARN_CLUSTERS = (
    "If rows have a time, learn again with --time and its column; if several are of one person, with --cluster and the "
    "column of persons."
)
"""the advice if rows depend on each other for an unknown reason"""


def clustered_rows_findings(column: str, design_effect: float, rows: int) -> list[Finding]:
    """The finding that rows with the same id in `column` resemble each other, which the scores do not count.

    There is none if the `design_effect` of these rows is small.
    """
    sentence = (
        f"Rows with the same {column} resemble each other: the design effect is {design_effect:.2g}, so {rows:,} rows "
        f"have as much evidence as about {float(f'{rows / design_effect:.2g}'):,.0f} independent ones, and scores and "
        "intervals count all of them."
    )
    found = [Finding(ROWS_DEPEND, sentence, f"Learn again with --cluster {column}.")]
    return found * (design_effect >= MIN_DESIGN_EFFECT)


MIN_DESIGN_EFFECT = 1.2
"""design effect from which a finding names it"""


def elsewhere_findings(share: float) -> list[Finding]:
    """The finding that a `share` of the rows seems to be from another population."""
    sentence = (
        f"{share_class(share)[:1].upper()}{share_class(share)[1:]} of the rows are far from all other rows, as if they "
        "were from another population: a few such rows can add and reverse many edges."
    )
    return [Finding(ROWS_ELSEWHERE, sentence, SET_ASIDE)]


def apart_findings(pairs: Sequence[tuple[str, str]]) -> list[Finding]:
    """A finding on pairs of variables that no row has together, so that an edge between them is not identified."""
    if not pairs:
        return []
    named = ", ".join(f"{one} and {other}" for one, other in pairs[:5])
    more = f" and {len(pairs) - 5} more pairs" if len(pairs) > 5 else ""
    sentence = (
        f"{named}{more}: no row has both variables, so an edge between them is not identified, and none was allowed."
    )
    advice = "Do not trust directions that follow from a missing edge between them. Add rows with both variables."
    return [Finding("not identified", sentence, advice)]


def same_columns(S: FloatArray, names: Sequence[str], owners: NDArray[np.int64]) -> list[Finding]:
    """A finding if columns of different variables differ only in scale.

    `owners` has the variable of each column of `S` `[d, d]`, and `names` has the names of the variables.
    """
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    collinear = np.abs(S / np.outer(scale, scale)) > MIN_CORRELATION
    same = np.argwhere(np.triu(collinear & (owners[:, None] != owners), k=1))
    if not len(same):
        return []
    return [one_to_one_pairs([(names[owners[i]], names[owners[j]]) for i, j in same])]


ONE_TO_ONE = "one-to-one"
"""the name of the finding on columns that determine each other"""


def one_to_one_pairs(pairs: Sequence[tuple[str, str]]) -> Finding:
    """The finding on `pairs` of columns that determine each other."""
    sentence = ", ".join(f"{first} and {second}" for first, second in pairs[:5])
    more = f", and {len(pairs) - 5} more pairs" * (len(pairs) > 5)
    sentence = f"Each of {sentence}{more} determines the other: the data cannot distinguish A → B from B → A."
    return Finding(ONE_TO_ONE, sentence, f"Learn again with --ignore {pairs[0][1]}, or drop another one of each pair.")


class Compared(Protocol):
    """The result of the exchange in which each silo compares itself with the other silos."""

    @property
    def schema(self) -> Schema:
        """The silos, and the columns."""
        ...

    @property
    def figures(self) -> FloatArray:
        """The value and the column of each figure of each silo, in sorted order; NaN for a lost silo."""
        ...


@dataclass(frozen=True)
class Rule:
    """The condition on a figure under which a silo disagrees with the others, and the finding on such silos."""

    least: float
    """the minimum figure of a silo that disagrees"""
    chance: Callable[[FloatArray, int], FloatArray]
    """(rows by silo, number of columns) -> the approximate size of the figure by chance"""
    says: Callable[[tuple[str, ...], str, float, bool, int], Finding]
    """(silos, column, largest value, whether one silo alone disagrees, number of all silos) -> the finding"""
    cells: Callable[[FloatArray, int], FloatArray] | None = None
    """(rows by silo, number of columns) -> the number of cells of which the figure is a share, or None"""
    relative: bool = False
    """whether only what exceeds twice the median of the silos' figures counts, because all data may have such rows"""
    of_one: bool = False
    """whether only a silo that disagrees alone is reported"""


def uncompared_findings(silos: Sequence[str], *, numbers: bool) -> list[Finding]:
    """The finding that the owners of `silos` allow no figure of a single silo, so that silos were not compared.

    With `numbers` only, the errors of the model were not checked either, because this needs weights in the request.
    """
    unchecked = " Nor was it checked whether errors depend on causes, or rows on each other." if numbers else ""
    return [
        Finding(
            "silos not compared",
            f"The owners of {', '.join(silos)} allow only masked sums (level sums), so no silo was compared with the "
            f"others.{unchecked}",
            'Whether a silo disagrees is unknown; owners who want to know can set level = "trusted".',
        )
    ] * bool(silos)


def silo_findings(server: Compared, rules: Mapping[str, Rule]) -> list[Finding]:
    """Findings on silos that disagree with the other silos; `rules` are in the order of the figures."""
    silos, names, found = server.schema.silos, server.schema.variables, list[Finding]()
    for place, (name, excess) in enumerate(excesses(server, rules).items()):
        loud, rule, values = np.flatnonzero(excess > 1), rules[name], np.nan_to_num(server.figures[:, place, 0])
        if not len(loud):
            continue
        order = np.argsort(-np.where(excess > 0, values, 0.0))
        alone = len(silos) > 1 and values[order[0]] > MIN_OUTLIER_RATIO * values[order[1]]
        if rule.of_one and not alone:
            continue
        who = (silos[order[0]],) if alone else tuple(silos[s] for s in loud)
        column = names[int(server.figures[order[0], place, 1])]
        found.append(rule.says(who, column, float(values[order[0]]), alone, len(silos)))
    return _of_one_cause(found)


def excesses(server: Compared, rules: Mapping[str, Rule]) -> dict[str, FloatArray]:
    """For each rule, the figures of the silos `[silos]`, divided by the value above which a silo disagrees."""
    names, silos, found = server.schema.variables, server.schema.silos, dict[str, FloatArray]()
    rows = np.array([server.schema.rows[silo] for silo in silos], np.float64) * independent_share(server)
    for place, (name, rule) in enumerate(rules.items()):
        values = np.nan_to_num(server.figures[:, place, 0])
        if rule.cells is not None:
            # A share of 1 or 2 cells would disclose these cells.
            values = np.where(values * rule.cells(rows, len(names)) < MIN_COUNT - 0.5, 0.0, values)
        if rule.relative:
            values = np.maximum(values - 2 * np.sort(values)[(len(values) - 1) // 2], 0.0)
        found[name] = values / np.maximum(rule.least, MIN_CHANCE_RATIO * rule.chance(rows, len(names)))
    return found


def independent_share(server: Compared) -> float:
    """The share of rows that count as independent in comparisons of means.

    With clusters, it is that of their design effect. For time series it is (1 − ρ)/(1 + ρ), where ρ is the largest
    autocorrelation of a column at lag 1 (Bartlett 1946).
    """
    if not isinstance(server, Server) or not server.rows:
        return server.schema.independent_share
    if len(server.within) == len(server.schema.variables):
        return 1 / server.inflation
    largest = float(np.clip(autocorrelations(server).max(), 0.0, 0.99))
    return (1 - largest) / (1 + largest)


def autocorrelations(server: Server) -> FloatArray:
    """The autocorrelation of each variable at lag 1, `[d]`, from the sums over windows."""
    S, d = server.within, len(server.schema.variables)
    both = np.sqrt(np.maximum(np.diag(S)[:d] * np.diag(S)[d : 2 * d], 1e-300))
    return np.asarray(np.diag(S[:d, d : 2 * d]) / both)


def _of_one_cause(found: list[Finding]) -> list[Finding]:
    """The findings without those that the outliers, the scale or the sign of one silo explain.

    If the values of one silo are much larger, those of all others are smaller than the rest.
    """
    named = {one.name for one in found if len(one.silos) == 1}
    explained = {"weights differ"} if named & {OUTLIERS, OTHER_SCALE} else set()
    explained |= {SCALES} if OTHER_SCALE in named else set()
    return [one for one in found if one.name not in explained]


def _chance_of_shift(rows: FloatArray, d: int) -> FloatArray:
    """The approximate largest distance, by chance, of d means from the other silos' means, in standard deviations."""
    return np.asarray(np.sqrt(2 * np.log(2 * d) / rows) / 2)


def chance_of_fit(rows: FloatArray, d: int) -> FloatArray:
    """The approximate largest gain per row of d fits by chance, in nats."""
    return np.asarray(np.log(2 * d) / rows)


def _shift(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    if alone:
        sentence = (
            f"{who[0]} is shifted: its mean of {column} is {value:.3g} standard deviations from the other silos' mean."
        )
        return Finding("shifted silo", sentence, f"Ask its owner how it measures {column}.", who)
    sentence = f"Means differ between the silos, most for {column}, by {value:.3g} standard deviations."
    return Finding(
        "site means",
        sentence,
        "By default, each silo's own means are subtracted and do not affect any edge.",
        who,
    )


def _weights(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    left = 100 * (1 - float(np.exp(-value)))
    if alone:
        sentence = (
            f"{who[0]} has different weights: the residual variance of {column} on its rows is {left:.0f} % "
            "smaller with weights fitted to these rows than with weights fitted to the rows of the others."
        )
        return Finding("silo with different weights", sentence, OWN_WEIGHTS, who)
    sentence = f"{len(who)} of {silos} silos have different weights, most for {column} ({', '.join(who[:5])})."
    return Finding("weights differ", sentence, OWN_WEIGHTS, who)


WEIGHTS_DIFFER = ("weights differ", "silo with different weights")
"""the names of the findings on silos with different weights"""
OWN_WEIGHTS = (
    "Learn again with --algorithm secure-boss -p weights=own, which adds up the silos' own scores of one structure."
)
"""the advice of these findings"""
COMPARE_SILOS = "Compare the graphs with and without such silos: silos may share a structure and differ in its weights."
"""the advice if secure-boss cannot add up the silos' own scores"""


OUTLIERS = "outliers"
"""the name of the finding on outliers"""
SET_ASIDE = "Learn again with --outliers set-aside."
LOOK = "Look for wrong units and codes for missing values."
ADVISED_RESAMPLES = 100
RESAMPLE = f"Rely on the strengths of --bootstrap {ADVISED_RESAMPLES}, or add rows."
RESAMPLED = "Rely on the strengths of the resamples, or add rows."
ADD_ROWS = "Add rows: resamples, which have strengths of edges, need rows in memory."


def revised_advice(
    found: Sequence[Finding], *, may_set_aside: bool, numbers: bool, complete: bool, resampled: bool, streamed: bool
) -> list[Finding]:
    """The findings, with advice that is possible for the data and not yet followed.

    Parameters
    ----------
    found
        The findings.
    may_set_aside
        Whether outliers can be set aside and were not.
    numbers
        Whether all columns are continuous and rows are independent.
    complete
        Whether no cell is empty.
    resampled
        Whether the run has the advised number of resamples.
    streamed
        Whether a silo reads its rows in passes, so that resamples are not possible.
    """
    advice = {
        OUTLIERS: f"{SET_ASIDE} {LOOK}" if may_set_aside else LOOK,
        NOT_LINEAR: TRANSFORM if not numbers else ADDITIVE if complete else ADDITIVE_ON_COMPLETE_ROWS,
    }
    revised = [replace(one, advice=advice.get(one.name, one.advice)) for one in found]
    instead = ADD_ROWS if streamed else RESAMPLED if resampled else RESAMPLE
    return [replace(one, advice=instead) if one.advice == RESAMPLE else one for one in revised]


def _outliers(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    at = who[0] if alone else f"{len(who)} of {silos} silos"
    sentence = f"{at}: {share_class(value)} of the cells are outliers, most of them in {column}."
    return Finding(OUTLIERS, sentence, f"{SET_ASIDE} {LOOK}", who)


NOT_LINEAR = "not linear"
"""the name of the finding on curved effects"""
OF_LINEAR_MODELS = (NOT_LINEAR, "no better than empty")
"""the names of findings that concern only linear models"""
ADDITIVE = "Learn again with --algorithm secure-additive, which allows curved effects."
"""the advice of the finding on curved effects"""
ADDITIVE_ON_COMPLETE_ROWS = (
    "Learn again with --algorithm secure-additive --missing complete-rows: it allows curved effects but needs complete "
    "rows."
)
TRANSFORM = "Take logarithms of skewed columns; under a wrong model, edges may be wrong."
"""the advice if secure-additive cannot learn from the data"""


def _bend(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    at = who[0] if alone else f"{len(who)} of {silos} silos"
    sentence = (
        f"{at}: squares and cubes explain {100 * value:.2g} % of the residual of {column}: not all effects are linear."
    )
    return Finding(NOT_LINEAR, sentence, ADDITIVE, who)


OTHER_SCALE, SCALES = "silo with another scale", "scales differ"
MIN_SCALE_RATIO, MIN_SIGN_DEVIATIONS, MIN_FAULTY_SHARE, MIN_REPEATED_SHARE = 10.0, 2.0, 0.02, 0.05
"""least ratio of standard deviations, least distance of both means from zero in standard deviations, least share of far
rows beyond twice the median share, and of repeated rows"""
MIN_SIGN_SIGNIFICANCE = 5.0
"""least significance, in standard errors, of two correlations that have opposite signs"""


def _scale(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int, *, larger: bool) -> Finding:
    ratio = f"{np.exp(value):.3g} times {'' if larger else 'smaller than '}that of the other silos"
    ask = f"Ask its owner in which unit it measures {column}."
    if alone:
        return Finding(OTHER_SCALE, f"{who[0]}: the standard deviation of {column} is {ratio}.", ask, who)
    sentence = f"Standard deviations differ between the silos: that of {column} at {who[0]} is {ratio}."
    return Finding(SCALES, sentence, f"Ask the owners in which units they measure {column}.", who)


def _larger(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    return _scale(who, column, value, alone, silos, larger=True)


def _smaller(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    return _scale(who, column, value, alone, silos, larger=False)


def _sign(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = (
        f"{who[0]}: the mean of {column} has another sign than elsewhere, {value:.2g} standard deviations from 0."
    )
    return Finding("silo with another sign", sentence, f"Ask how {column} is defined there.", who)


def _correlations(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    sentence = f"{who[0]}: {column} has correlations with another sign than at the other silos."
    return Finding("silo with another sign", sentence, f"Ask how {column} is defined there.", who)


def _far_rows(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    at = who[0] if alone else f"{len(who)} of {silos} silos"
    sentence = f"{at}: {share_class(value)} of the rows are far from what the other silos' rows make likely."
    advice = "Compare with a graph learned without it (--silos), and ask where these rows come from."
    return Finding("silo with far rows", sentence, advice, who)


def _repeated_rows(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    at = who[0] if alone else f"{len(who)} of {silos} silos"
    sentence = f"{at}: {share_class(value)} of the rows repeat another row, so they count more than once."
    return Finding("silo with repeated rows", sentence, "Ask its owner to remove repeated rows.", who)


def _no_chance(rows: FloatArray, d: int) -> FloatArray:
    return np.zeros(len(rows))


def _rows(rows: FloatArray, d: int) -> FloatArray:
    return rows


COMMON_RULES = {
    "shift": Rule(0.1, _chance_of_shift, _shift),
    "weights": Rule(0.02, lambda rows, d: np.zeros(len(rows)), _weights),
    "outliers": Rule(0.003, lambda rows, d: 1 / (rows * d), _outliers, lambda rows, d: rows * d),
    "bend": Rule(0.1, lambda rows, d: np.zeros(len(rows)), _bend),
}
"""the rules of the figures that all silos with numbers send, in the order of `exchange.COMMON_FIGURES`"""
assert tuple(COMMON_RULES) == COMMON_FIGURES
RULES = COMMON_RULES | {
    "larger": Rule(float(np.log(MIN_SCALE_RATIO)), _no_chance, _larger),
    "smaller": Rule(float(np.log(MIN_SCALE_RATIO)), _no_chance, _smaller),
    "sign": Rule(MIN_SIGN_DEVIATIONS, _no_chance, _sign, of_one=True),
    "correlations": Rule(MIN_SIGN_SIGNIFICANCE, _no_chance, _correlations, of_one=True),
    "far rows": Rule(MIN_FAULTY_SHARE, _no_chance, _far_rows, _rows, relative=True),
    "repeated rows": Rule(MIN_REPEATED_SHARE, _no_chance, _repeated_rows, _rows),
}
"""the rules of the figures of independent rows of numbers, in the order of `exchange.FIGURES`"""
SAME = 1e-6
"""largest relative difference of figures that are the same, which the rounding of masked sums causes"""


def same_rows_findings(server: Server) -> list[Finding]:
    """The finding on silos with the same rows: all their figures are the same."""
    silos, rows, figures = server.schema.silos, server.schema.rows, server.figures
    if figures.shape[1:] != (len(RULES), 2) or len(silos) < 3:  # two silos have each other as their rest
        return []
    found = [
        (silos[a], silos[b])
        for a, b in combinations(range(len(silos)), 2)
        if rows[silos[a]] == rows[silos[b]]
        and figures[a, 0, 0] > SAME
        and np.allclose(figures[a], figures[b], rtol=SAME, atol=SAME)
    ]
    return [
        Finding("same rows", f"{a} and {b} have the same rows.", f"Learn again without {b} (--silos).", (a, b))
        for a, b in found[:1]
    ]


INFLUENCE = "edges that fall without one silo"
"""the name of the finding on edges that rest on one silo"""


def influence_findings(server: Server) -> list[Finding]:
    """A finding for each silo without which edges fall that have much evidence from all silos together."""
    if not len(server.fallen):
        return []
    names = server.schema.variables
    resting = resting_on_one_silo(server.within, server.rows, server.parents, server.fallen)
    found = []
    for slot in sorted(set(resting.values())):
        silo = server.schema.silos[slot]
        pairs = [(names[i], names[j]) for (i, j), at in resting.items() if at == slot]
        listed = ", ".join(f"{one} and {other}" for one, other in pairs[:5])
        more = f" and {len(pairs) - 5} more pairs" if len(pairs) > 5 else ""
        found.append(
            Finding(
                INFLUENCE,
                f"Without {silo}, the rows do not support an edge between {listed}{more} (BIC).",
                f"Do not interpret these edges before you know why {silo} differs.",
                (silo,),
            )
        )
    return found


def table_fit_findings(server: TableServer, structure: Structure) -> list[Finding]:
    """Findings from the comparison of the learned structure with the counts of its pairs."""
    names, levels = server.schema.variables, cardinalities_of(server.schema)
    d, counted = len(names), tables_of(server.counts, server.sets, levels)
    rows = int(counted[0].sum())
    pairs = zip(server.sets[d:], counted[d:], strict=True)
    # A single row could otherwise decide whether the finding is published.
    same = [(names[i], names[j]) for (i, j), table in pairs if one_to_one(np.where(table < MIN_COUNT, 0, table))]
    found = [one_to_one_pairs(same)] if same else []
    dag = dag_extension(structure).dag
    if dag is None:
        return found
    free = sum((int(levels[v]) - 1) * prod(int(levels[p]) for p in np.flatnonzero(dag[:, v])) for v in range(d))
    if rows < ROWS_PER_PARAMETER * free:
        sentence = (
            f"The structure's tables have {free:,} free parameters, learned from {rows:,} rows: many are estimated "
            "from few rows."
        )
        found.append(Finding("few rows", sentence, RESAMPLE))
    return found


def _table_chance_of_shift(rows: FloatArray, d: int) -> FloatArray:
    """The approximate largest distance by chance of d margins of two levels from the other silos' margins."""
    return np.asarray(np.sqrt(2 * np.log(2 * d) / rows) / 4)


def _table_shift(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    if alone:
        sentence = (
            f"{who[0]} is shifted: {share_class(value)} of its rows would have to change their level of {column} "
            "for the shares to equal the other silos' shares."
        )
        return Finding(
            "shifted silo", sentence, f"Ask its owner how {column} is coded there, and where its rows come from.", who
        )
    sentence = (
        f"Shares of levels differ between the silos, most for {column}, by {share_class(value)} of a silo's rows."
    )
    return Finding(
        "site shares",
        sentence,
        "Differences between sites can look like effects: compare with a graph learned without some of the silos.",
        who,
    )


def _table_weights(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    advice = "Compare the graphs with and without such silos: silos may share a structure and differ in its tables."
    if alone:
        sentence = (
            f"{who[0]} has different dependences: {column} depends differently on a neighbour ({value:.2g} nats a row)."
        )
        return Finding("silo with different weights", sentence, advice, who)
    sentence = f"{len(who)} of {silos} silos have different dependences, most for {column} ({', '.join(who[:5])})."
    return Finding("weights differ", sentence, advice, who)


TABLE_RULES = {
    "shift": Rule(0.05, _table_chance_of_shift, _table_shift, lambda rows, d: rows),
    "weights": Rule(0.01, chance_of_fit, _table_weights),
}
"""the rules of the figures that silos with labels send, in the order of `tables.FIGURES`"""
