"""Effects in networks with labels, by the g-formula over the fitted model.

- Discrete networks: P(y | do(x)) = Σ_z P(y | x, z) P(z) over the adjustment set Z (Robins 1986, "A new approach to
  causal inference in mortality studies"; Pearl 2009, Eq. 3.19). The joint table of X, Y and Z is computed exactly from
  the fitted tables by variable elimination.
- Networks of mixed variables: for total effects, rows are simulated from the network with X set to a value and the
  edges into X removed. For direct effects, rows are simulated from the unchanged network, and X is replaced in them.
  Instead of Y, its mean given its parents is averaged. Both values of X use the same random numbers.

The interval of a discrete effect is the interval of the adjusted plug-in estimator in n rows, whose variance is (Hahn
1998, "On the role of the propensity score", Theorem 1)

    n⁻¹ Σ_z P(z) [ p₁(1 − p₁) / π₁ + p₀(1 − p₀) / π₀ + (p₁ − p₀ − effect)² ],   p_a = P(y | x_a, z), π_a = P(x_a | z).

The averages of p₁ and p₀ have the covariance n⁻¹ Σ_z P(z) (p₁ − mean)(p₀ − mean), which also gives the interval of
their odds ratio. In large samples, tables that are fitted under the true graph give effects that are at least as
precise as the plug-in estimator. So the interval is not too narrow if the graph is true.

The interval of a direct effect in a mixed network comes from the delta method. It uses the gradient of the effect in
the parameters of Y given its parents, and the inverse of the Fisher information of these parameters in n rows. Both are
means over simulated rows. (The covariance is σ² (n E zzᵀ)⁻¹ for linear Y, the inverse of n E (diag p − ppᵀ) ⊗ zzᵀ for
multinomial logistic Y, and p(1 − p) / (n P(x, z)) for tables.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..parameters.distributions import Linear, Tabular
from ..parameters.inference import joint_table
from ..parameters.mixed_families import logistic_curvature
from ..parameters.networks import Network
from .linear import Estimate, OddsRatio

MAX_JOINT_CELLS = 2_000_000
"""maximum number of cells of a table while variables are eliminated"""
SIMULATED_ROWS = 200_000
"""number of simulated rows for an effect in a mixed network"""
NORMAL_QUANTILE = 1.959963984540054
"""the 0.975 quantile of the normal distribution, for intervals of coverage `LEVEL`"""


@dataclass(frozen=True)
class LabelEffect:
    """The change in the probability of one level of Y; `overlap` is the smallest P(x | z) over z and both values x."""

    level: str
    estimate: Estimate
    overlap: float


def discrete_effect(
    network: Network, x: str, y: str, covariates: Sequence[str], values: tuple[str, str], rows: int
) -> list[LabelEffect]:
    """The effect of changing `x` from the first to the second of `values` on the probability of each level of `y`.

    Parameters
    ----------
    network
        The fitted tables.
    x, y
        The names of treatment and outcome.
    covariates
        The adjustment set.
    values
        The levels of `x` to compare.
    rows
        The number of rows from which the tables were estimated, for the intervals.

    Raises
    ------
    ValueError
        If the joint table of all these variables would be too large.
    """
    joint = joint_table(network, (x, *covariates, y), max_cells=MAX_JOINT_CELLS)
    levels_x, levels_y = network.levels[x], network.levels[y]
    cells = joint.reshape(len(levels_x), -1, len(levels_y))  # [x, z, y]
    stratum = cells.sum(axis=(0, 2))
    cells, stratum = cells[:, stratum > 0], stratum[stratum > 0]
    before, after = (cells[levels_x.index(value)] for value in values)
    given = [np.divide(one, one.sum(axis=1, keepdims=True)) for one in (before, after)]
    share = [one.sum(axis=1) / stratum for one in (before, after)]
    found = []
    for level, label in enumerate(levels_y):
        risks = np.stack([one[:, level] for one in given])
        average = risks @ stratum
        about = risks - average[:, None]
        variances = np.diag((risks * (1 - risks) / np.stack(share)) @ stratum) + (about * stratum) @ about.T
        estimate = risk_difference(average, variances / rows)
        found.append(LabelEffect(label, estimate, float(min(one.min() for one in share))))
    return found


def risk_difference(risks: FloatArray, covariance: FloatArray) -> Estimate:
    """The difference of two average `risks` `[2]` with this `covariance` `[2, 2]`, and their odds ratio.

    The interval of the odds ratio is computed for its logarithm (delta method).
    """
    error = sqrt(max(float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]), 0.0))
    effect, half = float(risks[1] - risks[0]), NORMAL_QUANTILE * error
    ratio = None
    if (risks > 0).all() and (risks < 1).all():
        slope = np.array([-1.0, 1.0]) / (risks * (1 - risks))
        logarithm = float(np.diff(np.log(risks / (1 - risks)))[0])
        spread = NORMAL_QUANTILE * sqrt(max(float(slope @ covariance @ slope), 0.0))
        ratio = OddsRatio(exp(logarithm), (exp(logarithm - spread), exp(logarithm + spread)))
    return Estimate(effect, (max(effect - half, -1.0), min(effect + half, 1.0)), error, odds_ratio=ratio)


def direct_mixed_effect(
    network: Network, x: str, y: str, values: tuple[float | str, float | str], table: FloatArray, rows: int
) -> dict[str, Estimate]:
    """The direct effect of changing the parent `x` of `y` from the first to the second of `values`, with its interval.

    `table` `[n, d]` has rows drawn from the network, over which the effect is averaged; `rows` is the number of rows
    from which the network was fitted. Keys are the levels of `y`, or "" for a mean. There is no interval if the rows
    have a value or a combination of values too rarely. Raises `BadInput` for an unknown name or label.
    """
    v, w = network.index(x), network.index(y)
    own, local = list(network.parent_numbers[w]), network.local[w]
    tables = []
    for value in values:
        changed = table.copy()
        changed[:, v] = network.code(x, value)
        tables.append(changed)
    before, after = (np.atleast_2d(network.given_parents(w, one).T).T for one in tables)
    effects = (after - before).mean(axis=0)
    if isinstance(local, Tabular):
        strata = table[:, [one for one in own if one != v]]
        treated = [table[:, v] == network.code(x, value) for value in values]
        errors = _tabular_errors(strata, treated, (before, after), rows)
    else:
        coding = network.coding.subset(own)
        designs = [np.column_stack([np.ones(len(one)), coding.rows(one[:, own])]) for one in (table, *tables)]
        errors = (
            _linear_errors(designs, local.variance, rows)
            if isinstance(local, Linear)
            else _logistic_errors(designs, network.given_parents(w, table), before, after, rows)
        )
    labels = network.levels.get(y, ("",))
    lowest = -1.0 if y in network.levels else -np.inf
    found = {}
    for label, effect, error in zip(labels, effects.tolist(), errors.tolist(), strict=True):
        half = NORMAL_QUANTILE * error
        interval = (max(effect - half, lowest), min(effect + half, -lowest)) if np.isfinite(error) else None
        found[label] = Estimate(effect, interval, error if interval else None)
    return found


def _linear_errors(designs: Sequence[FloatArray], variance: float, rows: int) -> FloatArray:
    """The standard error `[1]` of a direct effect on a mean; `designs` are of all rows, and under both values."""
    design, before, after = designs
    gradient = (after - before).mean(axis=0)
    inverse = np.linalg.pinv(design.T @ design / len(design))
    return np.array([sqrt(max(variance / rows * float(gradient @ inverse @ gradient), 0.0))])


def _logistic_errors(
    designs: Sequence[FloatArray], shares: FloatArray, before: FloatArray, after: FloatArray, rows: int
) -> FloatArray:
    """The standard errors `[levels]` of direct effects on probabilities; the first level has no parameters."""
    design, of_before, of_after = designs
    inverse = np.linalg.pinv(logistic_curvature(design, shares[:, 1:]) / len(design)) / rows
    slopes = _mean_slopes(after, of_after) - _mean_slopes(before, of_before)
    return np.asarray(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, inverse, slopes, optimize=True), 0.0)))


def _mean_slopes(shares: FloatArray, design: FloatArray) -> FloatArray:
    """The derivatives of the mean probabilities, `shares` `[n, levels]`, by the weights, `[levels, weights]`."""
    n, width = design.shape
    levels = shares.shape[1]
    products = (shares[:, 1:, None] * design[:, None, :]).reshape(n, -1)
    slopes = -(shares.T @ products / n)
    for level in range(1, levels):
        slopes[level, (level - 1) * width : level * width] += shares[:, level] @ design / n
    return np.asarray(slopes)


def _tabular_errors(
    strata: FloatArray, treated: Sequence[NDArray[np.bool_]], shares: Sequence[FloatArray], rows: int
) -> FloatArray:
    """The standard errors `[levels]` of direct effects on the probabilities of a table.

    `strata` `[n, k]` are the other parents of simulated rows. `treated` says for both values of the treatment which
    rows have the value, and `shares` `[n, levels]` are the probabilities under both values. The errors are infinite if
    less than one row is expected in some stratum.
    """
    n = len(strata)
    if strata.shape[1]:
        _, first, at = np.unique(strata, axis=0, return_index=True, return_inverse=True)
    else:
        first, at = np.zeros(1, np.int64), np.zeros(n, np.int64)
    weight = np.bincount(at.ravel(), minlength=len(first)) / n
    variance = np.zeros(shares[0].shape[1])
    for has_value, share in zip(treated, shares, strict=True):
        count = np.bincount(at.ravel()[has_value], minlength=len(first)) / n * rows
        if (count < 1).any():
            return np.full(shares[0].shape[1], np.inf)
        variance += (weight**2 / count) @ (share[first] * (1 - share[first]))
    return np.sqrt(variance)


def mixed_effect(
    network: Network, x: str, y: str, values: tuple[float | str, float | str], *, seed: int = 0
) -> dict[str, Estimate]:
    """The total effect of changing `x` from the first to the second of `values`: on the mean of `y`, or on its levels.

    The effect is computed from `SIMULATED_ROWS` simulated rows. The standard errors are errors of the simulation alone,
    and there is no interval. Keys are the levels of `y`, or "" for a mean. Raises `BadInput` for an unknown name or
    label.
    """
    v, w = network.index(x), network.index(y)
    results = []
    for value in values:
        table, _ = network.intervened({x: value}).sample(SIMULATED_ROWS, np.random.default_rng(seed))
        table[:, v] = network.code(x, value)
        results.append(network.given_parents(w, table))
    difference = np.atleast_2d((results[1] - results[0]).T)
    labels = network.levels.get(y, ("",))
    errors = difference.std(axis=1) / sqrt(SIMULATED_ROWS)
    means: NDArray[np.float64] = difference.mean(axis=1)
    return {
        label: Estimate(float(mean), None, float(error))
        for label, mean, error in zip(labels, means, errors, strict=True)
    }
