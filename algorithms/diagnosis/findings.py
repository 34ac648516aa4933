"""What a run should tell its user of the data and of its own limits, in plain words, each with what to do (ours).

A finding is a value: reports, terminal, `metrics.json` and MLflow show the same ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..core.schema import FloatArray, Schema
from ..graphs.edges import edge_count
from ..graphs.structure import Structure
from ..parameters.refit import refit
from ..statistics.moments import residual_variances
from .exchange import SURE, Server

NEARLY = 1.05
"""variances whose largest is no more than this many times the smallest are equal by construction"""
UNITS = 100.0
"""standard deviations that differ by this factor or more are in different units"""
FAR_MEAN = 3.0
"""standard deviations from zero at which a mean is far"""
UNEQUAL = 0.05
"""spread of residual variances (ln of the mean less the mean of the ln) that equal ones do not have"""
SAME = 1 - 1e-6
"""a correlation beyond this one makes two columns one"""
ROWS_PER_PARAMETER = 5.0
"""rows a weight or a variance should have behind it"""
STANDS_OUT = 1.5
"""by how much a silo's figure exceeds the next one's if it is the one that disagrees"""


@dataclass(frozen=True)
class Finding:
    """One thing to know: a name for programs, a sentence for people, what to do, and the silos it is about."""

    name: str
    said: str
    advice: str
    silos: tuple[str, ...] = ()


def of_scales(server: Server, *, equal_variances: bool, centred: bool) -> list[Finding]:
    """Return what the columns' means and variances say to a learner that leans on them."""
    names, total = server.schema.variables, np.maximum(np.diag(server.within), 1e-300)
    sd, found = np.sqrt(total), list[Finding]()
    small, large = int(np.argmin(sd)), int(np.argmax(sd))
    if equal_variances and total[large] < NEARLY * total[small]:
        said = "All columns have nearly the same variance, as after standardising: it can tell no direction."
        found.append(Finding("standardised", said, f"{OTHERWISE} Or give the columns as they were measured."))
    elif equal_variances and sd[large] > UNITS * sd[small]:
        ratio = sd[large] / sd[small]
        said = f"The standard deviation of {names[large]} is {ratio:,.0f} times that of {names[small]}: units differ."
        found.append(Finding("units", said, OTHERWISE))
    far = np.abs(server.means) / sd
    most = int(np.argmax(far))
    if not centred and far[most] > FAR_MEAN:
        said = f"The mean of {names[most]} is {far[most]:.3g} standard deviations from 0, and stayed in."
        found.append(
            Finding(
                "means",
                said,
                "Have each silo's means subtracted (parameter center or center_series): else they pass for effects.",
            )
        )
    return found


OTHERWISE = "Take --algorithm auto, or secure-linear: they rely on variances only where the data bear them out."


def of_fit(server: Server, structure: Structure, *, equal_variances: bool) -> list[Finding]:
    """Return what the learned structure looks like beside the second moments it is held against."""
    S, rows, names = server.within, server.rows - len(server.schema.silos), server.schema.variables
    found = same_columns(S, names)
    if structure.kind == "pag" or rows < 2:
        return found
    joined = structure.adjacency
    parameters = len(S) + (edge_count(structure) if len(S) == len(joined) else int(np.triu(server.parents).sum()))
    if rows < ROWS_PER_PARAMETER * parameters:
        said = f"{parameters} weights and variances were learned from {rows:,} rows: many edges may be chance."
        found.append(Finding("few rows", said, "Trust the strengths of --bootstrap 100, or bring more rows."))
    if structure.kind != "dag" or not structure.acyclic or len(S) != len(joined):
        return found
    variances = residual_variances(S, refit(S, joined))
    spread = float(np.log(variances.mean()) - np.log(variances).mean())
    if equal_variances and spread > UNEQUAL:
        low, high = int(np.argmin(variances)), int(np.argmax(variances))
        said = (
            f"The edges leave {names[high]} {variances[high] / variances[low]:.3g} times the variance that they leave "
            f"{names[low]}: errors are not equally large, and the directions rest on that."
        )
        found.append(Finding("unequal errors", said, OTHERWISE))
    gain = 0.5 * rows * float(np.log(np.diag(S) / variances).sum()) - 0.5 * np.log(rows) * float(joined.sum())
    if joined.any() and gain <= 0:
        said = f"By BIC the structure is no better than a graph without edges ({gain:.3g})."
        found.append(Finding("no better than empty", said, "Do not read these edges as effects."))
    return found


def of_caps(structure: Structure, most_parents: int | None) -> list[Finding]:
    """Return whether variables have as many parents as the settings allow, and perhaps more in truth."""
    if most_parents is None or structure.kind != "dag":
        return []
    full = [structure.variables[j] for j in np.flatnonzero(structure.adjacency.sum(axis=0) >= most_parents)]
    if not full:
        return []
    said = f"{', '.join(full[:5])}: {most_parents} parents, as many as most_parents allows; there may be more."
    return [Finding("cap reached", said, f"Try -p most_parents={2 * most_parents}.")]


def same_columns(S: FloatArray, names: Sequence[str]) -> list[Finding]:
    """Return the pairs of columns that are one and the same but for their scale."""
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    same = np.argwhere(np.triu(np.abs(S / np.outer(scale, scale)) > SAME, k=1))
    if not len(same):
        return []
    return [one_to_one_pairs([(names[i], names[j]) for i, j in same])]


def one_to_one_pairs(pairs: Sequence[tuple[str, str]]) -> Finding:
    """Return what to know of `pairs` of columns that determine each other."""
    said = ", ".join(f"{first} and {second}" for first, second in pairs[:5])
    more = f", and {len(pairs) - 5} more pairs" * (len(pairs) > 5)
    said = f"Each of {said}{more} determines the other: nothing in the data can tell A → B from B → A."
    return Finding("one-to-one", said, "Leave one of each pair out, or say which comes first by --knowledge.")


class Compared(Protocol):
    """What is known once each silo has compared itself with the others."""

    @property
    def schema(self) -> Schema:
        """The silos, and the columns."""
        ...

    @property
    def figures(self) -> FloatArray:
        """By silo, in sorted order, and by figure: its value and its column; NaN for a silo that is lost."""
        ...


@dataclass(frozen=True)
class Rule:
    """When a figure says that a silo disagrees, and in which words."""

    least: float
    """below it a silo does not disagree, whatever the others say"""
    chance: Callable[[FloatArray, int], FloatArray]
    """(rows by silo, number of columns) -> about how large the figure is by chance"""
    says: Callable[[tuple[str, ...], str, float, bool, int], Finding]
    """(silos, column, greatest value, whether it is one silo alone, number of all silos) -> the finding"""


def of_silos(server: Compared, rules: Mapping[str, Rule]) -> list[Finding]:
    """Return which silos disagree with the others, and in what: `rules` are those of the figures, in their order."""
    silos, names, found = server.schema.silos, server.schema.variables, list[Finding]()
    rows = np.array([server.schema.rows[silo] for silo in silos], np.float64)
    for place, rule in enumerate(rules.values()):
        values = np.nan_to_num(server.figures[:, place, 0])
        loud = np.flatnonzero(values > np.maximum(rule.least, SURE * rule.chance(rows, len(names))))
        if not len(loud):
            continue
        order = np.argsort(-values)
        alone = len(silos) > 1 and values[order[0]] > STANDS_OUT * values[order[1]]
        who = (silos[order[0]],) if alone else tuple(silos[s] for s in loud)
        column = names[int(server.figures[order[0], place, 1])]
        found.append(rule.says(who, column, float(values[order[0]]), alone, len(silos)))
    return _of_one_cause(found)


def _of_one_cause(found: list[Finding]) -> list[Finding]:
    """Return the findings without weights that differ everywhere because of the outliers of one silo."""
    alone = any(one.name == "outliers" and len(one.silos) == 1 for one in found)
    return [one for one in found if not (alone and one.name == "weights differ")]


def _chance_of_shift(rows: FloatArray, d: int) -> FloatArray:
    """Return about how far the greatest of d means is from that of the others by chance, in standard deviations."""
    return np.asarray(np.sqrt(2 * np.log(2 * d) / rows) / 2)


def chance_of_fit(rows: FloatArray, d: int) -> FloatArray:
    """Return about how much better per row, in nats, the greatest of d fits is by chance."""
    return np.asarray(np.log(2 * d) / rows)


def _shift(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    if alone:
        said = f"{who[0]} is shifted: its mean of {column} is {value:.3g} standard deviations from that of the others."
        return Finding("shifted silo", said, f"Ask its owner how it measures {column}.", who)
    said = f"Means differ between the silos, most that of {column}, by {value:.3g} standard deviations."
    return Finding(
        "site means",
        said,
        "Nothing, where each silo's own means are subtracted, as they are by default: they are then no effects.",
        who,
    )


def _weights(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    advice = "Learn with and without, and compare: one structure need not have one set of weights."
    left = 100 * (1 - float(np.exp(-value)))
    if alone:
        said = (
            f"{who[0]} has other weights: a regression on its own rows leaves {left:.0f} % less of {column} "
            "unexplained than one on those of the others."
        )
        return Finding("silo of other weights", said, advice, who)
    said = f"{len(who)} of {silos} silos have weights of their own, most for {column} ({', '.join(who[:5])})."
    return Finding("weights differ", said, advice, who)


def _outliers(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    at = who[0] if alone else f"{len(who)} of {silos} silos"
    said = f"{at}: {100 * value:.2g} % of the cells lie far out, most of them in {column}."
    advice = "Look for wrong units and codes for missing values; squares give such cells all the weight."
    return Finding("outliers", said, advice, who)


def _bend(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    at = who[0] if alone else f"{len(who)} of {silos} silos"
    said = (
        f"{at}: the square of what the edges predict explains {100 * value:.2g} % of what they leave of {column}: not"
    )
    advice = "Take logarithms of skewed columns, or notears-mlp-admm; where the model is wrong, edges may be, too."
    return Finding("not linear", f"{said} all effects are linear.", advice, who)


RULES = {
    "shift": Rule(0.1, _chance_of_shift, _shift),
    "weights": Rule(0.02, chance_of_fit, _weights),
    "outliers": Rule(0.002, lambda rows, d: np.zeros(len(rows)), _outliers),
    "bend": Rule(0.02, chance_of_fit, _bend),
}
"""those of the figures that silos with numbers send, in the order of `exchange.FIGURES`"""
