"""How an effect varies: over graphs learned from resamples, and between silos.

**Resamples.** If a graph is learned from the same rows, the interval of an effect in this graph is too narrow. Here a
graph is learned from each resample, and the effect is estimated in this graph from the moments of the same resample. If
X is not a cause of Y in the graph, the effect is zero. If the graph leaves a range, the estimates of the range share
the weight of the resample. A resample is a random half of the rows, drawn without replacement. A statistic of a half
varies about the statistic of all rows as much as a statistic of n rows drawn with replacement does (Bühlmann & Yu 2002,
"Analyzing bagging"). So the quantiles of the estimates are a percentile interval (Efron & Tibshirani 1993, "An
introduction to the bootstrap", §13).

**Silos.** The effects b_p of silos p with standard errors s_p are compared by Cochran's Q = Σ (b_p − b̄)² / s_p², where
b̄ is their mean with weights 1 / s_p². If all silos have the same effect, Q is χ² with P − 1 degrees of freedom. I² =
max(0, 1 − (P − 1) / Q) is the share of the variation that is not sampling error (Higgins & Thompson 2002).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.structure import Structure
from .identification import EffectKind, identify
from .linear import LEVEL, Estimate, WithinMoments, adjusted_effect


@dataclass(frozen=True)
class Resampled:
    """An effect over graphs: those learned from resamples, or those sampled from the posterior."""

    resamples: int
    interval: tuple[float, float] | None
    """the 2.5 % and 97.5 % quantiles of the estimates; None if no graph identifies the effect"""
    median: float | None
    no_cause: float
    """share of graphs in which X is not a cause of Y, among the graphs that identify the effect or a range"""
    not_identified: float
    """share of the graphs that identify neither the effect nor a range"""

    def scaled(self, factor: float) -> "Resampled":
        """The effect of a change of the treatment by `factor` units."""
        ends = None if self.interval is None else sorted(factor * end for end in self.interval)
        middle = None if self.median is None else factor * self.median
        interval = None if ends is None else (ends[0], ends[1])
        return Resampled(self.resamples, interval, middle, self.no_cause, self.not_identified)


def over_resamples(
    graphs: Sequence[Structure], moments: Sequence[WithinMoments], x: int, y: int, kind: EffectKind
) -> Resampled:
    """The effect of one unit of `x` on `y` over resamples, from the graph and the moments of each resample.

    If the effect cannot be estimated in a resample, for instance because a regressor is constant, the graph of this
    resample counts as not identifying the effect.
    """
    values: list[float] = []
    weights: list[float] = []
    causal: list[bool] = []
    for graph, own in zip(graphs, moments, strict=True):
        try:
            found = [
                (one.causal, adjusted_effect(own, x, y, one.covariates).value if one.causal else 0.0)
                for one in identify(graph, x, y, kind).sets
            ]
        except ValueError:
            found = []
        for is_causal, value in found:
            values.append(value)
            weights.append(1 / len(found))
            causal.append(is_causal)
    identified = sum(weights)
    share = np.asarray(weights) / identified if identified else np.empty(0)
    missing = 1 - identified / len(graphs)
    if not values:
        return Resampled(len(graphs), None, None, 0.0, missing)
    tails = (1 - LEVEL) / 2
    low, middle, high = _quantiles(np.array(values), share, (tails, 0.5, 1 - tails))
    no_cause = float(share[~np.array(causal)].sum())
    return Resampled(len(graphs), (low, high), middle, no_cause, missing)


def over_graphs(values: FloatArray, causal: NDArray[np.bool_]) -> Resampled:
    """An effect over graphs from their posterior, from its value in each graph and whether X is a cause of Y in it."""
    tails = (1 - LEVEL) / 2
    low, middle, high = (float(one) for one in np.quantile(values, (tails, 0.5, 1 - tails)))
    return Resampled(len(values), (low, high), middle, float(1 - causal.mean()), 0.0)


def _quantiles(values: np.ndarray, weights: np.ndarray, levels: Sequence[float]) -> list[float]:
    """The quantiles of the distribution with these `weights`, which add up to 1."""
    order = np.argsort(values, kind="stable")
    position = np.cumsum(weights[order]) - weights[order] / 2
    return [float(np.interp(level, position, values[order])) for level in levels]


@dataclass(frozen=True)
class BetweenSilos:
    """An effect by silo, with its heterogeneity, and the estimates from all silos but one."""

    estimates: Mapping[str, Estimate]
    q: float
    p_value: float
    """the p-value of Cochran's test that all silos have the same effect"""
    i_squared: float
    without_one: Mapping[str, Estimate]
    """by silo, the estimate from all other silos"""
    left_out: tuple[str, ...] = ()
    """silos without an estimate, because they have too few rows or too little variation"""

    def scaled(self, factor: float) -> "BetweenSilos":
        """The effects of a change of the treatment by `factor` units."""
        own, others = (
            {silo: one.scaled(factor) for silo, one in each.items()} for each in (self.estimates, self.without_one)
        )
        return BetweenSilos(own, self.q, self.p_value, self.i_squared, others, self.left_out)


def between_silos(
    moments: Mapping[str, WithinMoments], x: int, y: int, covariates: Sequence[int]
) -> BetweenSilos | None:
    """The effect of one unit of `x` on `y` in each silo; None if fewer than two silos allow an estimate.

    `moments` has each silo's own moments about its means, with the pairs among `x`, `y` and the `covariates`.
    """
    from scipy.special import chdtrc  # imported late, because listing the commands must not import SciPy

    estimates: dict[str, Estimate] = {}
    for silo, own in moments.items():
        try:
            estimates[silo] = adjusted_effect(own, x, y, covariates)
        except ValueError:
            continue
    usable = {silo: one for silo, one in estimates.items() if one.standard_error}
    if len(usable) < 2:
        return None
    b = np.array([one.value for one in usable.values()])
    precision = np.array([1 / (one.standard_error or 1.0) ** 2 for one in usable.values()])
    q = float(precision @ (b - precision @ b / precision.sum()) ** 2)
    degrees = len(usable) - 1
    without = {}
    for silo in moments:
        try:
            others = [own for name, own in moments.items() if name != silo]
            without[silo] = adjusted_effect(pooled(others), x, y, covariates)
        except ValueError:
            continue
    i_squared = max(0.0, 1 - degrees / q) if q > 0 else 0.0
    left_out = tuple(silo for silo in moments if silo not in usable)
    return BetweenSilos(usable, q, float(chdtrc(degrees, q)), i_squared, without, left_out)


@dataclass(frozen=True)
class Placebo:
    """Estimates for a treatment that has no effect, because it is permuted within each silo."""

    estimates: tuple[float, ...]
    """one for each permutation that could be estimated"""
    excluding_zero: int
    """number of estimates whose 95 % interval does not include zero; 5 % are expected"""


def placebo_of(estimates: Sequence[Estimate]) -> Placebo | None:
    """The summary of the `estimates` with a permuted treatment; None if there are no estimates."""
    if not estimates:
        return None
    apart = sum(one.interval is not None and not one.interval[0] <= 0 <= one.interval[1] for one in estimates)
    return Placebo(tuple(one.value for one in estimates), apart)


def pooled(moments: Sequence[WithinMoments]) -> WithinMoments:
    """The moments of the rows of several silos, about each silo's own means."""
    rows = sum(one.rows for one in moments)
    covariance = sum((one.rows / rows * one.covariance for one in moments), np.zeros_like(moments[0].covariance))
    return WithinMoments(np.asarray(covariance), rows, sum(one.silos for one in moments))


def placebo_line(found: Placebo) -> str:
    """One line on the estimates of the placebos, with the number of intervals that exclude zero."""
    low, high, n = min(found.estimates), max(found.estimates), len(found.estimates)
    return (
        f"placebo, the treatment permuted within each silo {n} times: between {low:+.4g} and {high:+.4g}; "
        f"{found.excluding_zero} of {n} intervals exclude zero, {n * (1 - LEVEL):.2g} expected by chance"
    )
