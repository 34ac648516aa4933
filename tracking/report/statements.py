"""A learned graph in sentences: its strongest edges with the size of their direct effects.

An edge X → Y is described by the direct effect of X on Y in the fitted model, with the other causes of Y held fixed. If
X is a number, the effect is that of one standard deviation; if X is a label, it is the greatest effect of a level
compared with the first level. Edges are sorted by this effect, in standard deviations of Y or as a change of a
probability. The intervals of `algorithms/effects` take the graph as true; the share of resamples with the edge measures
the certainty of the edge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from fedbnsl.algorithms.effects.answer import (
    Effect,
    Estimator,
    FromMoments,
    effect_of,
    model_estimator,
)
from fedbnsl.algorithms.effects.units import SAMPLED_ROWS, DataUnits, Scale
from fedbnsl.algorithms.graphs.edges import Edge, key_of, weighted
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode, ratio

from ..result import RunResult, strengths_in

MAX_STATEMENTS = 12
"""maximum number of edges that are described"""
MAX_ESTIMATED = 150
"""number of edges up to which all effects are computed to find the largest"""
ALL_SHARE = 0.995
"""share of the resamples above which a sentence says that all resamples have the edge"""
DENIALS = ("no", "none", "never", "false", "absent", "negative", "n", "f", "0")
"""labels that mean the absence of the variable's property"""
MIN_LEVEL_SHARE = 0.01
"""minimum share of the rows of a level whose effect is described"""


@dataclass(frozen=True)
class Statement:
    """An edge in words; `size` is its effect in standard deviations or as a probability, None without an effect."""

    edge: Edge
    text: str
    size: float | None = None


@dataclass(frozen=True)
class Statements:
    """The sentences, and the numbers of edges without a sentence.

    `weaker` edges have smaller effects, and `unstable` edges are in at most half of the resamples.
    """

    sentences: tuple[Statement, ...] = ()
    weaker: int = 0
    unstable: int = 0
    intervals: bool = False
    """whether a sentence has an interval"""


def statements(result: RunResult) -> Statements:
    """The strongest edges of the graph of `result` in sentences."""
    strengths = strengths_in(result)
    edges = [one for one in result.edges if not (one.lag and one.own)]
    stable = [one for one in edges if strengths is None or not strengths.unstable(one)]
    found = sorted(_described(result, stable), key=lambda one: -abs(one.size or abs(one.edge.weight or 0.0)))
    shown = tuple(found[:MAX_STATEMENTS])
    intervals = any("95 % interval" in one.text for one in shown)
    return Statements(shown, len(found) - len(shown), len(edges) - len(stable), intervals)


def _described(result: RunResult, edges: list[Edge]) -> Iterator[Statement]:
    """A statement for each edge: its effect or, in a PAG, the meaning of its marks."""
    network, sizes = result.parameters.network, _Sizes(result)
    for edge in edges:
        if edge.directed and (reason := result.doubted.get((edge.source, edge.target))):
            doubt = f"{reason}, so the direction of the graph is doubtful"
            yield Statement(edge, f": the two variables depend on each other; {doubt}{_support(result, edge)}.")
        elif node := next((one.node for one in result.survival if one.node and one.name == edge.target), None):
            yield _to_survival(result, edge, node)
        elif result.structure.kind == "pag":
            yield Statement(edge, f"{_pag_sentence(edge)}{_evidence(result, edge)}{_support(result, edge)}.")
        elif network is not None and network.lags and network.linear:
            yield _over_time(result, network, edge)
        else:
            one = (sizes.largest(edge) if len(edges) <= MAX_ESTIMATED else None) or _by_weight(result, edge)
            yield Statement(edge, f"{_direction(result, edge, one.arc)}{one.text}{_support(result, edge)}.", one.size)


@dataclass(frozen=True)
class _Size:
    """An effect in words, its size as in `Statement`, and its cause and outcome."""

    text: str
    size: float | None = None
    arc: tuple[str, str] | None = None


class _Sizes:
    """The direct effects in the model of a run."""

    def __init__(self, result: RunResult) -> None:
        """Store the graph and the estimator of the run's model; without a model there are no effects."""
        network, silos = result.parameters.network, [one for one in result.schema.silos if one not in result.lost]
        self.estimator: Estimator | None = None
        self.has_intervals = result.privacy is None
        if network is None or (network.lags and network.linear):
            return
        network = network.unrolled()
        self.graph = network.structure
        self.estimator = model_estimator(network, sum(result.schema.rows[one] for one in silos), len(silos))
        d = len(network.variables)
        self.mean, self.sd, self.rows = np.zeros(d), np.ones(d), np.empty((0, d))
        if result.schema.transforms or not isinstance(self.estimator, FromMoments):
            self.rows, _ = network.sample(SAMPLED_ROWS, np.random.default_rng(0))
        self.units = DataUnits.of(result.schema, network, self.rows)
        if isinstance(self.estimator, FromMoments):
            self.sd = np.sqrt(np.diag(self.estimator.moments.covariance))
        elif not network.discrete:
            self.mean, self.sd = self.rows.mean(axis=0), self.rows.std(axis=0)

    def largest(self, edge: Edge) -> _Size | None:
        """The greatest effect among the contrasts of the edge's levels; None if it cannot be computed."""
        if self.estimator is None:
            return None
        x, y = edge.cause, edge.target
        i, j = (self.graph.variables.index(name) for name in (x, y))
        if not self.graph.adjacency[i, j]:
            x, y, i, j = y, x, j, i
        numeric = not self.estimator.levels(x)
        if not self.graph.adjacency[i, j] or (numeric and not self.sd[i] > 0):
            return None
        one_sd = (float(self.mean[i]), float(self.mean[i] + self.sd[i]))
        found = [
            one
            for values in ([one_sd] if numeric else self._contrasts(i, self.estimator.levels(x)))
            for one in effect_of(self.graph, self.estimator, x, y, "direct", values)
            if one.value is not None
        ]
        if not found:
            return None
        best = max(found, key=lambda one: abs(one.value or 0.0))
        scale = 1.0 if self.estimator.levels(y) else float(self.sd[j]) or 1.0
        return _Size(f" {self._sentence(best, numeric=numeric)}", abs(best.value or 0.0) / scale, (x, y))

    def _contrasts(self, i: int, levels: tuple[str, ...]) -> list[tuple[str, str] | None]:
        """Pairs of levels of variable `i` that are not rare; None stands for each level against the first level."""
        counts = np.bincount(self.rows[:, i].astype(np.int64), minlength=len(levels))
        common = [level for level, n in zip(levels, counts, strict=True) if n >= MIN_LEVEL_SHARE * len(self.rows)]
        if len(common) == len(levels) or len(common) < 2:
            return [None]
        return [(common[0], level) for level in common[1:]]

    def _sentence(self, one: Effect, *, numeric: bool) -> str:
        """The sentence on an effect: the change, its size, and the variables that are held fixed."""
        assert self.estimator is not None
        turned, (before, after), level = _affirmed(one, self.estimator.levels(one.outcome))
        change = f"with {one.treatment} = {after} instead of {before}"
        if numeric:
            change = f"with {self._raised(one.treatment, float(one.change or 0.0))}"
        scale, measure = self.units.scale(one.outcome), f"the mean of {one.outcome}"
        if level:
            scale, measure = Scale(), f"the probability of {one.outcome} = {level}"
        elif scale.score:
            measure = f"the mean {scale.score} of {one.outcome}"
        base = self.units.outcomes(one, before, self.estimator.levels(one.treatment))
        value = scale.change(turned * (one.value or 0.0), base)
        sign = 1 if value >= 0 else -1
        interval = ""
        if one.interval and self.has_intervals:
            ends = (scale.change(turned * end, base) for end in one.interval)
            low, high = sorted(sign * end for end in ends)
            interval = f" (95 % interval {low:.3g} to {high:.3g})"
        covariates = one.candidates[0].covariates
        given = f", {_listed(covariates)} held fixed" if covariates else ""
        size = f"{abs(value):.3g}{scale.suffix}"
        return f"{change}, {measure} is {'higher' if value >= 0 else 'lower'} by {size}{interval}{given}"

    def _raised(self, name: str, change: float) -> str:
        """A variable of numbers raised by a standard deviation: by how much, or from where to where, in its unit."""
        scale, rows = self.units.scale(name), self.units.sample.get(name)
        if scale.score:
            return f"the {scale.score} of {name} higher by {change:.3g} (one standard deviation)"
        if not scale.transform or rows is None:
            return f"{name} higher by {change:.3g}{scale.suffix} (one standard deviation)"
        low, high = scale.original(np.array([rows.mean(), rows.mean() + change]))
        return f"{name} = {high:.3g}{scale.suffix} instead of {low:.3g}{scale.suffix} (one standard deviation)"


def _affirmed(one: Effect, levels: tuple[str, ...]) -> tuple[int, tuple[object, object], str]:
    """A sign (−1 or 1), the contrast, and the level of the outcome, without denials such as "no" if possible.

    The effect must be multiplied by the sign. "with smoke = no instead of yes, the probability of lung = no is higher"
    has the same content as "with smoke = yes instead of no, the probability of lung = yes is higher", but is harder to
    read.
    """
    turned, (before, after) = 1, one.values
    level = one.measure[len(f"P({one.outcome} = ") : -1] if one.measure.startswith("P(") else ""
    if str(after).lower() in DENIALS and str(before).lower() not in DENIALS:
        turned, before, after = -turned, after, before
    if len(levels) == 2 and level.lower() in DENIALS:
        other = levels[0] if level == levels[1] else levels[1]
        if other.lower() not in DENIALS:
            turned, level = -turned, other
    return turned, (before, after), level


def _by_weight(result: RunResult, edge: Edge) -> _Size:
    """The effect of an edge without a model: its weight, if it has one."""
    if edge.weight is None or not weighted(result.structure):
        return _Size(f" {edge.source} is a direct cause of {edge.target}" * edge.directed)
    if result.schema.kind == "events":
        return _Size(
            f" an event {edge.source} is followed by {edge.weight:.3g} further events {edge.target} on average"
        )
    more = "higher" if edge.weight >= 0 else "lower"
    return _Size(
        f" with {edge.source} higher by one unit, the mean of {edge.target} is {more} by {abs(edge.weight):.3g}, by "
        "the learned weight"
    )


def _direction(result: RunResult, edge: Edge, arc: tuple[str, str] | None) -> str:
    """The begin of a sentence on an edge; without a believed direction, the effect is that of `arc`, if it is true."""
    strengths = strengths_in(result)
    if edge.directed and not (strengths is not None and strengths.doubtful(edge)):
        return ":"
    why = "the direction is doubtful" if edge.directed else "the data do not determine the direction"
    read = f" If the direction is {arc[0]} → {arc[1]}, then" if arc else ""
    return f": the two variables depend on each other, but {why}.{read}"


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _over_time(result: RunResult, network: Network, edge: Edge) -> Statement:
    names = network.variables
    i, j = names.index(edge.source), names.index(edge.target)
    weight = edge.weight or 0.0
    spread = float(np.sqrt(network.spreads[i]))
    steps = f"{edge.lag} step{'s' * (edge.lag > 1)} earlier" if edge.lag else "at the same step"
    more = "higher" if weight >= 0 else "lower"
    text = (
        f"{_direction(result, edge, (edge.source, edge.target))} with {edge.source} higher by {spread:.3g} (one "
        f"standard deviation) {steps}, {edge.target} "
        f"is {more} by {abs(weight) * spread:.3g} on average, its other causes held fixed{_support(result, edge)}."
    )
    total = float(np.sqrt(network.spreads[j])) or 1.0
    return Statement(edge, text, abs(weight) * spread / total)


def _to_survival(result: RunResult, edge: Edge, node: SurvivalNode) -> Statement:
    """The hazard ratio of an edge to a survival outcome: for a number, that of one standard deviation."""
    own = [k for k, one in enumerate(node.terms) if one.variable == edge.source]
    if not own:
        return Statement(edge, f": {edge.source} is required as a cause of {edge.target}.", 0.0)
    k = max(own, key=lambda k: abs(node.terms[k].coefficient * node.terms[k].spread))
    term = node.terms[k]
    step = 1.0 if term.level else term.spread
    found = ratio(step * term.coefficient, step * float(node.errors[k]))
    change = f"{edge.source} higher by {step:.3g} (one standard deviation)"
    if term.level:
        change = f"{edge.source} = {term.level} instead of {node.levels[edge.source][0]}"
    others = [name for name in node.parents if name != edge.source]
    given = f", {_listed(others)} held fixed" if others else ""
    low, high = found.interval
    text = f"the hazard of {edge.target} is {found.value:.3g} times as high (95 % interval {low:.3g} to {high:.3g})"
    size = abs(term.coefficient * term.spread)
    return Statement(edge, f": with {change}, {text}{given}{_support(result, edge)}.", size)


def _pag_sentence(edge: Edge) -> str:
    at_source, at_target = edge.at_source, edge.at_target
    if (at_source, at_target) == (ARROW, ARROW):
        return ": an unmeasured common cause; neither causes the other"
    if edge.directed:
        return f": {edge.source} causes {edge.target}, perhaps through other variables"
    if ARROW in (at_source, at_target):
        cause, effect = (edge.source, edge.target) if at_target == ARROW else (edge.target, edge.source)
        return f": {effect} does not cause {cause}; {cause} causes {effect}, or they have an unmeasured common cause"
    if CIRCLE in (at_source, at_target):
        return ": they depend on each other; the data leave open why"
    return ": they depend on each other in rows that were selected by a common effect"


def _evidence(result: RunResult, edge: Edge) -> str:
    """The largest p-value of the independence tests of an edge of a PAG, as a part of a sentence, if it is known."""
    tested = result.edge_figures.get(key_of(edge))
    largest = tested and tested.largest_p_value
    return "" if largest is None else f"; the largest p-value of their tests is {largest:.2g}"


def _support(result: RunResult, edge: Edge) -> str:
    """The share of resamples with the edge and its direction, as the end of a sentence; empty without resamples."""
    strengths = strengths_in(result)
    if strengths is None:
        return ""
    strength, direction = strengths.strength_and_direction(edge)
    if strength is None:
        return "; not examined in resamples"
    joined = f"; found in {_share(strength, '')}{strengths.structures} resamples"
    if direction is None or not edge.directed or edge.lag:
        return joined
    return f"{joined}, {_share(direction, 'them ')}with this direction"


def _share(share: float, of: str) -> str:
    return "all " if share > ALL_SHARE else f"{100 * share:.0f} % of {of}"
