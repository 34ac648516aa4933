"""Answers to "what happens to Y if X is changed": an effect for each contrast, or the reason for having none.

An `Estimator` has the statistics of the data: second moments, fitted tables, or a mixed network. `effect_of` identifies
the adjustment sets in the graph and lets the estimator compute the effect for each of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..core.schema import FloatArray
from ..errors import BadInput, choices_text, quoted
from ..graphs.structure import Structure
from ..parameters.networks import Network
from ..parameters.survival_node import LEVEL_QUANTILE, SurvivalNode, ratio
from .g_formula import direct_mixed_effect, discrete_effect, mixed_effect
from .identification import AdjustmentSet, EffectKind, identify
from .linear import ZERO, Estimate, OddsRatio, Sensitivity, WithinMoments, adjusted_effect, joint_effects, sensitivity
from .variability import BetweenSilos, Placebo, Resampled, placebo_line

Values = tuple[float | str, float | str]
"""the values of a treatment that are compared"""
Status = Literal["identified", "range", "zero", "not identified"]
DRAWN_ROWS = 20_000
"""rows drawn from a mixed network for its direct effects"""
MIN_EXPECTED_ROWS = 5.0
"""minimum expected number of rows with a value of the treatment in a stratum; below, the overlap of labels is small"""


@dataclass(frozen=True)
class Candidate:
    """The effect under one adjustment set; it is zero without an interval if the treatment is not a cause."""

    adjustment: AdjustmentSet
    covariates: tuple[str, ...]
    estimate: Estimate
    sensitivity: Sensitivity | None = None
    sparse: bool = False
    """whether a value of the treatment is expected in fewer than `MIN_EXPECTED_ROWS` rows of some stratum"""


@dataclass(frozen=True)
class InUnits:
    """An effect in the units of the data, if the model is on another scale; see `units.py`."""

    values: Values
    bounds: tuple[float, float] | None = None
    """the least and the greatest estimate; None if the outcome is on the scale of the data already"""
    interval: tuple[float, float] | None = None
    unit: str = ""

    @property
    def text(self) -> str:
        """What follows the estimate on the scale of the model: the change in the units of the data."""
        if self.bounds is None:
            return ""
        low, high = self.bounds
        size = f"{low:+.4g}" if low == high else f"between {low:+.4g} and {high:+.4g}"
        ends = f" ({self.interval[0]:+.4g} to {self.interval[1]:+.4g})" if self.interval else ""
        return f", on the scale of the model; in the data {size}{' ' * bool(self.unit)}{self.unit}{ends}"


@dataclass(frozen=True)
class Effect:
    """The effect of changing a treatment between two values on a mean or a probability of the outcome."""

    treatment: str
    outcome: str
    kind: EffectKind
    values: Values
    measure: str
    reason: str
    """the reason why the adjustment is valid, the effect is a range or zero, or the effect is not identified"""
    candidates: tuple[Candidate, ...] = ()
    resampled: Resampled | None = None
    """the effect over resamples, each with a graph learned from that resample"""
    averaged: Resampled | None = None
    """the effect over the graphs of the posterior"""
    silos: BetweenSilos | None = None
    """the effect by silo"""
    placebo: Placebo | None = None
    """the estimates with the treatment permuted within each silo"""
    original: InUnits | None = None
    """the effect in the units of the data, if silos transformed the treatment or the outcome"""

    @property
    def change(self) -> float:
        """The difference of the two values of a treatment that is a number."""
        return float(self.values[1]) - float(self.values[0])

    @property
    def status(self) -> Status:
        """Whether the graph identifies the effect, leaves a range, says that it is zero, or does not identify it."""
        if len(self.candidates) != 1:
            return "range" if self.candidates else "not identified"
        return "identified" if self.candidates[0].adjustment.causal else "zero"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest estimate over the class; equal if the effect is identified, None if not at all."""
        values = [one.estimate.value for one in self.candidates]
        return (min(values), max(values)) if values else None

    @property
    def value(self) -> float | None:
        """The estimate, None unless the graph identifies the effect."""
        return self.candidates[0].estimate.value if len(self.candidates) == 1 else None

    @property
    def odds_ratio(self) -> OddsRatio | None:
        """The odds ratio of an identified effect on a probability; None for other effects."""
        return self.candidates[0].estimate.odds_ratio if len(self.candidates) == 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; for a range, the span of all intervals; None if one is missing, or the effect is zero."""
        ends: list[float] = []
        for one in self.candidates:
            if one.estimate.interval is None and one.adjustment.causal:
                return None
            ends += one.estimate.interval or (0.0, 0.0)
        return (min(ends), max(ends)) if ends and self.status != "zero" else None

    def as_json(self) -> dict[str, Any]:
        """The effect as JSON: the numbers above, and each adjustment set with its estimate and sensitivity."""
        sets = [
            {
                "causal": one.adjustment.causal,
                "covariates": list(one.covariates),
                "estimate": one.estimate.value,
                "interval": one.estimate.interval,
                "standard_error": one.estimate.standard_error,
                **_ratios(one.estimate),
                "sensitivity": vars(one.sensitivity) if one.sensitivity else None,
                "by": [
                    {"rows": level, "estimate": own.value, "interval": own.interval}
                    for level, own in one.estimate.groups
                ],
                "overlap": vars(one.estimate.overlap) if one.estimate.overlap else None,
            }
            for one in self.candidates
        ]
        return {
            "treatment": self.treatment,
            "outcome": self.outcome,
            "kind": self.kind,
            "compare": list(self.values),
            "measure": self.measure,
            "status": self.status,
            "reason": self.reason,
            "estimate": self.value,
            "bounds": self.bounds,
            "interval": self.interval,
            "adjustment_sets": sets,
            "resamples": asdict(self.resampled) if self.resampled else None,
            "posterior": asdict(self.averaged) if self.averaged else None,
            "silos": asdict(self.silos) if self.silos else None,
            "placebo": asdict(self.placebo) if self.placebo else None,
            "in_units": asdict(self.original) if self.original else None,
        }


@dataclass(frozen=True)
class FromMoments:
    """Linear effects from second moments; the regression on the covariates gives total and direct effects alike."""

    variables: tuple[str, ...]
    moments: WithinMoments
    ranges: bool = True
    """whether effects can be computed for any adjustment set, and not only for the set of the fitted network"""

    def levels(self, name: str) -> tuple[str, ...]:
        """The empty tuple, because all variables are numbers."""
        return ()

    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """The change of the mean of `y`."""
        place = {name: number for number, name in enumerate(self.variables)}
        slope = adjusted_effect(self.moments, place[x], place[y], [place[name] for name in covariates])
        return {"": (slope.scaled(_change(values)), False)}


@dataclass(frozen=True)
class WithoutModel:
    """No estimates, because a PAG has no model and no rows were given; `remedy` states how to get estimates."""

    label_levels: Mapping[str, tuple[str, ...]]
    remedy: str
    ranges: bool = True

    def levels(self, name: str) -> tuple[str, ...]:
        """The levels of a variable; empty for a number."""
        return self.label_levels.get(name, ())

    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """Raise `ValueError` with the covariates and the remedy."""
        given = ", ".join(covariates) or "no covariate"
        raise ValueError(f"a PAG has no model for this effect, given {given}: {self.remedy}")


@dataclass(frozen=True)
class FromTables:
    """Effects between labels by the g-formula over fitted tables of `rows` rows."""

    network: Network
    rows: int
    ranges: bool = True

    def levels(self, name: str) -> tuple[str, ...]:
        """The levels of a variable."""
        return self.network.levels[name]

    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """The change of the probability of each level of `y`."""
        found = discrete_effect(self.network, x, y, covariates, (str(values[0]), str(values[1])), self.rows)
        return {one.level: (one.estimate, one.overlap * self.rows < MIN_EXPECTED_ROWS) for one in found}


@dataclass(frozen=True)
class FromMixed:
    """Effects by simulation of a mixed network, whose own graph determines the adjustment."""

    network: Network
    rows: int
    """the number of rows from which the network was fitted"""
    ranges: bool = False

    @cached_property
    def drawn(self) -> FloatArray:
        """Rows of the network, over which direct effects are averaged."""
        return self.network.sample(DRAWN_ROWS, np.random.default_rng(0))[0]

    def levels(self, name: str) -> tuple[str, ...]:
        """The levels of a variable; empty for a number."""
        return self.network.levels.get(name, ())

    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """The change of the mean of `y`, or of the probability of each of its levels."""
        if kind == "direct":
            found = direct_mixed_effect(self.network, x, y, values, self.drawn, self.rows)
        else:
            found = mixed_effect(self.network, x, y, values)
        return {level: (one, False) for level, one in found.items()}


@dataclass(frozen=True)
class FromRegressions:
    """Effects on one outcome from regressions over the rows (`adjusted_regressions.py`, `doubly_robust.py`)."""

    label_levels: Mapping[str, tuple[str, ...]]
    outcome: str
    found: Mapping[tuple[str, tuple[str, ...], Values], Estimate | str]
    """by treatment, adjustment set and contrast, the estimate or the reason why there is none"""
    gaps: bool = False
    """whether rows may have empty cells, which are then left out"""
    doubly_robust: bool = False
    """whether the treatment was modelled, too (`doubly_robust.py`)"""
    clustered: bool = False
    """whether intervals allow for rows of one cluster that depend on each other"""
    ranges: bool = True

    def levels(self, name: str) -> tuple[str, ...]:
        """The levels of a variable; empty for a number."""
        return self.label_levels.get(name, ())

    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """The change of the mean of `y`, or of the probability of its second label."""
        found = self.found[x, tuple(covariates), values]
        if isinstance(found, str):
            raise ValueError(found)
        return {(self.levels(y) or ("", ""))[1]: (found, False)}


@dataclass(frozen=True)
class FromSurvival:
    """Log hazard ratios of a survival outcome, from its node or from nodes that were fitted to the rows again."""

    label_levels: Mapping[str, tuple[str, ...]]
    node: SurvivalNode | None
    """the node of the run"""
    fitted: Mapping[tuple[str, tuple[str, ...]], SurvivalNode | str] = field(default_factory=dict)
    """by treatment and adjustment set, the node with both as parents, or the reason why there is none"""
    ranges: bool = True

    def levels(self, name: str) -> tuple[str, ...]:
        """The levels of a variable; empty for a number and for the outcome."""
        return self.label_levels.get(name, ())

    def estimates(
        self, x: str, y: str, covariates: Sequence[str], kind: EffectKind, values: Values
    ) -> dict[str, tuple[Estimate, bool]]:
        """The change of the logarithm of the hazard of `y`, and the hazard ratio.

        Raises `ValueError` if no node has these parents.
        """
        node = self.fitted.get((x, tuple(covariates)), self.node)
        if isinstance(node, str) or node is None:
            raise ValueError(node or f"{y} has no model")
        if (x, tuple(covariates)) not in self.fitted and set(node.parents) != {x, *covariates}:
            raise ValueError(
                f"the run's model has the hazard given {', '.join(node.parents)}: give --data FOLDER to fit it given "
                f"{', '.join((x, *covariates))}, or --direct for the direct effect"
            )
        change, error = node.contrast(x, values)
        found = ratio(change, error)
        half = LEVEL_QUANTILE * error
        hazards = OddsRatio(found.value, found.interval)
        return {"": (Estimate(change, (change - half, change + half), error, hazard_ratio=hazards), False)}


Estimator = FromMoments | WithoutModel | FromTables | FromMixed | FromRegressions | FromSurvival
"""the statistics of the data from which effects are computed"""


def model_estimator(network: Network, rows: int, silos: int) -> Estimator:
    """The estimator of effects from a fitted `network` alone, which was fitted to this number of `rows` and `silos`.

    The covariance that a linear network implies is the maximum-likelihood covariance under the graph. So in large
    samples, effects from it are at least as precise as effects from the moments of the rows, and intervals are not too
    narrow if the graph is true. Raises `ValueError` for a network over time (a programming error).
    """
    if network.lags:
        raise ValueError(f"effects are not computed from a {network.kind}")
    if network.linear:
        _, covariance = network.joint_normal()
        return FromMoments(network.variables, WithinMoments(covariance, rows, silos))
    return FromTables(network, rows) if network.discrete else FromMixed(network, rows)


def effect_of(
    structure: Structure, estimator: Estimator, x: str, y: str, kind: EffectKind = "total", values: Values | None = None
) -> list[Effect]:
    """The effects of treatment `x` on outcome `y`, one for each contrast and each level of the outcome.

    Parameters
    ----------
    structure
        The learned graph.
    estimator
        The moments or the model of the same variables.
    x, y
        The names of treatment and outcome.
    kind
        "total" or "direct".
    values
        The values of `x` to compare. By default 0 and 1 for numbers, and each level with the first one for labels.

    Raises
    ------
    BadInput
        For values that `x` does not have.
    """
    variables = structure.variables
    found = identify(structure, variables.index(x), variables.index(y), kind)
    levels, reason = estimator.levels(y), found.reason
    shown_levels = ("",) if not levels else levels[1:] if len(levels) == 2 else levels
    sets = found.sets
    if len(sets) > 1 and not estimator.ranges:
        sets, reason = (), f"{reason}, and in mixed data no range over them is computed"
    effects = []
    for contrast in contrasts(x, estimator.levels(x), values):
        why = reason
        try:
            per_set = [_by_level(estimator, x, y, one, kind, contrast, structure) for one in sets]
        except ValueError as error:
            per_set, why = [], f"{reason}; it cannot be estimated: {error}"
        for level in shown_levels:
            measure = f"P({y} = {level})" if level else f"{estimator_scale(estimator)} of {y}"
            candidates = tuple(one[level] for one in per_set)
            effects.append(Effect(x, y, kind, contrast, measure, why, candidates))
    return effects


def estimator_scale(estimator: Estimator) -> str:
    """What an effect on a number is the change of."""
    return "log hazard" if isinstance(estimator, FromSurvival) else "mean"


def _ratios(one: Estimate) -> dict[str, Any]:
    """The odds ratio of an estimate, and its hazard ratio if it has one, as JSON."""
    hazards = {"hazard_ratio": asdict(one.hazard_ratio)} if one.hazard_ratio else {}
    return {"odds_ratio": asdict(one.odds_ratio) if one.odds_ratio else None, **hazards}


def _by_level(
    estimator: Estimator,
    x: str,
    y: str,
    one: AdjustmentSet,
    kind: EffectKind,
    values: Values,
    structure: Structure,
) -> dict[str, Candidate]:
    """The effect under one adjustment set by level of the outcome."""
    covariates = tuple(structure.variables[v] for v in one.covariates)
    if not one.causal:
        return dict.fromkeys(estimator.levels(y) or ("",), Candidate(one, covariates, ZERO))
    found = estimator.estimates(x, y, covariates, kind, values)
    return {
        level: Candidate(one, covariates, value, sensitivity(value) if value.degrees else None, sparse)
        for level, (value, sparse) in found.items()
    }


def joint_effect_of(
    structure: Structure, estimator: FromMoments, xs: Sequence[str], y: str, values: Values | None = None
) -> list[Effect]:
    """The effects on `y` of changing each of several treatments while the others are held fixed, by path products.

    Raises `BadInput` for a graph that is not a DAG, for values that are not numbers, and if there is no estimate.
    """
    if structure.kind != "dag" or not structure.acyclic:
        raise BadInput("joint interventions need a directed acyclic graph: in this one directions are open")
    place = {name: number for number, name in enumerate(structure.variables)}
    try:
        slopes = joint_effects(estimator.moments, structure.adjacency, [place[x] for x in xs], place[y])
    except ValueError as error:
        raise BadInput(f"the joint effect cannot be estimated: {error}") from None
    found = []
    for x, slope in zip(xs, slopes, strict=True):
        (contrast,) = contrasts(x, (), values)
        others = tuple(one for one in xs if one != x)
        reason = f"path products in the DAG, {', '.join(others)} held fixed"
        one = Candidate(AdjustmentSet(causal=slope is not ZERO), others, slope.scaled(_change(contrast)))
        found.append(Effect(x, y, "total", contrast, f"mean of {y}", reason, (one,)))
    return found


def contrasts(x: str, levels: tuple[str, ...], values: Values | None) -> list[Values]:
    """The pairs of values of `x` to compare; raises `BadInput` for values that `x` does not have."""
    if levels:
        for value in values or ():
            if str(value) not in levels:
                raise BadInput(f"{x} has no label {quoted(str(value))}: {choices_text(str(value), levels)}")
        return [(str(values[0]), str(values[1]))] if values else [(levels[0], level) for level in levels[1:]]
    numbers = []
    for value in values or (0.0, 1.0):
        try:
            numbers.append(float(value))
        except ValueError:
            raise BadInput(f"{x} has numbers, and the value to compare is {quoted(str(value))}") from None
    return [(numbers[0], numbers[1])]


def _change(values: Values) -> float:
    return float(values[1]) - float(values[0])


@dataclass(frozen=True)
class EffectReport:
    """Effects with their assumptions."""

    effects: tuple[Effect, ...]
    rests_on: tuple[str, ...] = field(default=())
    """the graph, the adjustment, the model and the assumptions on which the effects rest, one sentence each"""

    def __str__(self) -> str:
        """The effects with their variability, followed by their assumptions."""
        effects = (line for one in self.effects for line in (" ".join(effect_row(one)), *variability_lines(one)))
        return "\n".join([*effects, *self.rests_on])

    def __repr__(self) -> str:
        """The first effect in one line; `print` shows all effects and their assumptions."""
        return f"EffectReport({' '.join(effect_row(self.effects[0]))}; {len(self.effects)} in all)"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the whole report in a notebook."""
        printer.text(str(self))

    @property
    def value(self) -> float | None:
        """The estimate of the first effect, None unless it is identified."""
        return self.effects[0].value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the first effect; None if the effect has no interval."""
        return self.effects[0].interval

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest estimate of the first effect over the class, None if it is not identified."""
        return self.effects[0].bounds

    def as_json(self) -> dict[str, Any]:
        """The effects and their assumptions, as JSON."""
        return {"effects": [one.as_json() for one in self.effects], "rests_on": list(self.rests_on)}


def effect_row(one: Effect) -> tuple[str, str, str, str]:
    """Four texts: the change, the measure, the estimate with its interval, and the adjustment or the reason."""
    values = one.original.values if one.original else one.values
    change = f"{one.treatment}: {' → '.join(value_text(value) for value in values)}"
    if one.bounds is None:
        return change, one.measure, "not identified", one.reason
    ends = f"95 % interval {one.interval[0]:+.4g} to {one.interval[1]:+.4g}" if one.interval else "no interval"
    ends += one.original.text if one.original else ""
    if one.status == "zero":
        return change, one.measure, "0 by the graph", one.reason
    if one.status == "range":
        return change, one.measure, f"between {one.bounds[0]:+.4g} and {one.bounds[1]:+.4g}, {ends}", one.reason
    only = one.candidates[0]
    adjusted = f"adjusted for {', '.join(only.covariates)}" if only.covariates else "nothing to adjust for"
    ratios = {"odds ratio": only.estimate.odds_ratio, "hazard ratio": only.estimate.hazard_ratio}
    odds = "".join(
        f"; {name} {own.value:.4g}, {own.interval[0]:.4g} to {own.interval[1]:.4g}"
        for name, own in ratios.items()
        if own
    )
    return change, one.measure, f"{one.value:+.4g}, {ends}{odds}", f"{adjusted}: {one.reason}"


def variability_lines(one: Effect) -> Iterator[str]:
    """One line each for groups of rows, the posterior over graphs, resamples, silos, and placebos."""
    for level, own in one.candidates[0].estimate.groups if one.status == "identified" else ():
        ends = "" if own.interval is None else f", 95 % interval {own.interval[0]:+.4g} to {own.interval[1]:+.4g}"
        yield f"{level}: {own.value:+.4g}{ends}"
    if one.averaged is not None:
        yield _over_graphs_line(f"averaged over {one.averaged.resamples} graphs of the posterior", one.averaged)
    if one.resampled is not None:
        graphs = f"the graph learned again from each of {one.resampled.resamples} resamples"
        yield _over_graphs_line(graphs, one.resampled)
    if one.silos is not None:
        yield from _silo_lines(one.silos)
    if one.placebo is not None:
        yield placebo_line(one.placebo)


def _over_graphs_line(graphs: str, found: Resampled) -> str:
    if found.interval is None:
        return f"{graphs}: in none is the effect identified"
    unknown = f", not identified in {100 * found.not_identified:.3g} %" if found.not_identified else ""
    return (
        f"{graphs}: 95 % interval {found.interval[0]:+.4g} to {found.interval[1]:+.4g}, median {found.median:+.4g}; "
        f"no cause in {100 * found.no_cause:.3g} % of the graphs{unknown}"
    )


def _silo_lines(found: BetweenSilos) -> Iterator[str]:
    for silo, one in found.estimates.items():
        assert one.interval is not None
        yield f"{silo}: {one.value:+.4g}, 95 % interval {one.interval[0]:+.4g} to {one.interval[1]:+.4g}"
    if found.left_out:
        yield f"too few rows, or too little variation, for an estimate of their own: {', '.join(found.left_out)}"
    values = [one.value for one in found.without_one.values()]
    without = f"; without one silo between {min(values):+.4g} and {max(values):+.4g}" if values else ""
    yield (
        f"heterogeneity: I² {100 * found.i_squared:.0f} %, p = {found.p_value:.2g} if all silos have the same effect"
        f"{without}"
    )


def value_text(value: float | str) -> str:
    """A value of a treatment: a label, or a number in short."""
    return value if isinstance(value, str) else f"{value:g}"
