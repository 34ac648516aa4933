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
from ..parameters.inference import joint_table
from ..parameters.networks import Linear, Network, Tabular

# Linear effects from second moments: adjustment, joint interventions, and sensitivity to an unmeasured cause.
#
# The moments are about each silo's own means, so a regression from them is least squares over all rows with one
# intercept per silo. With A = {X} ∪ Z, k = |A| and P silos,
#
#     b = S_AA⁻¹ S_AY,   σ² = n (S_YY − S_YA b) / (n − k − P),   Var(b_X) = σ² (S_AA⁻¹)_XX / n,
#
# and intervals come from Student's t with n − k − P degrees of freedom. This needs only the moments of the pairs in A ∪
# {Y}, which are sums over the silos.
#
# Joint interventions set several variables and remove the edges into them. The effects are sums over directed paths, T
# = (I − W)⁻¹, where the columns of the treatments in W are set to zero. The estimates of W are uncorrelated between
# children in large samples, so the delta method gives the variance as a sum over children.
#
# An unmeasured common cause: the partial R² of X with Y is t²/(t² + df). The robustness value is the share of the
# residual variance of both X and Y that a common cause must explain to reduce the effect to zero, or to make its
# interval include zero (Cinelli & Hazlett 2020, "Making sense of sensitivity", §4.2).


LEVEL = 0.95
"""coverage of the intervals"""
MIN_OWN_SHARE = 1e-10
"""minimum share of a regressor's variance that the other regressors do not explain"""


@dataclass(frozen=True)
class WithinMoments:
    """The covariance `[d, d]` about the silos' own means, over all rows, and the numbers of rows and of silos."""

    covariance: FloatArray
    rows: int
    silos: int


@dataclass(frozen=True)
class OddsRatio:
    """The odds of an outcome in all rows under one value of the treatment, divided by the odds under another value."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """An estimated effect with its interval and degrees of freedom; the interval is None if it cannot be computed."""

    value: float
    interval: tuple[float, float] | None = None
    standard_error: float | None = None
    degrees: int | None = None
    odds_ratio: OddsRatio | None = None
    """the odds ratio of two probabilities whose difference is the effect, if both are between 0 and 1"""

    def scaled(self, factor: float) -> "Estimate":
        """The effect of a change of the treatment by `factor` units."""
        ends = None if self.interval is None else sorted(factor * end for end in self.interval)
        error = None if self.standard_error is None else abs(factor) * self.standard_error
        return Estimate(factor * self.value, None if ends is None else (ends[0], ends[1]), error, self.degrees)


ZERO = Estimate(0.0)
"""the effect of a variable that is not a cause in the graph"""


@dataclass(frozen=True)
class Sensitivity:
    """How strong an unmeasured common cause must be to explain an effect away (Cinelli & Hazlett 2020)."""

    partial_r2: float
    """share of the residual variance of Y that X explains"""
    robustness: float
    """share of both residual variances that a common cause must explain for an effect of zero"""
    robustness_interval: float
    """share of both residual variances that a common cause must explain for an interval that includes zero"""


def quantile(degrees: float, level: float = LEVEL) -> float:
    """The quantile of Student's t that bounds a two-sided interval of this `level`."""
    from scipy.special import stdtrit  # imported late, because listing the commands must not import SciPy

    return float(stdtrit(degrees, 0.5 + level / 2))


def adjusted_effect(moments: WithinMoments, x: int, y: int, covariates: Sequence[int]) -> Estimate:
    """The coefficient of `x` in the regression of `y` on `x` and the `covariates`, with its 95 % interval.

    Method: see the module. Raises `ValueError` if there are too few rows, or if a regressor is constant or a linear
    combination of the others.
    """
    b, variances, degrees = regression(moments, y, (x, *covariates))
    error = sqrt(variances[0, 0])
    half = quantile(degrees) * error
    return Estimate(float(b[0]), (float(b[0]) - half, float(b[0]) + half), error, degrees)


def regression(moments: WithinMoments, y: int, regressors: Sequence[int]) -> tuple[FloatArray, FloatArray, int]:
    """The coefficients `[k]` of `y` on the `regressors`, their covariance `[k, k]`, and the degrees of freedom.

    Raises `ValueError` as `adjusted_effect` does.
    """
    A, n = list(regressors), moments.rows
    degrees = n - len(A) - moments.silos
    if degrees < 1:
        raise ValueError(f"{n} rows in {moments.silos} silos are too few for {len(A)} regressors")
    S = moments.covariance
    scale = np.sqrt(np.diag(S)[A])
    if not scale.all():
        raise ValueError("a regressor is constant within the silos")
    R = S[np.ix_(A, A)] / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(R)
    if values[0] < MIN_OWN_SHARE:
        raise ValueError("a regressor is a linear combination of the others")
    inverse = (vectors / values) @ vectors.T / np.outer(scale, scale)
    b = inverse @ S[A, y]
    residual = max(float(S[y, y] - S[y, A] @ b), 0.0)
    return b, inverse * (residual / degrees), degrees


def joint_effects(moments: WithinMoments, dag: NDArray[np.bool_], xs: Sequence[int], y: int) -> list[Estimate]:
    """The effects on `y` of one unit of each treatment in `xs` while the others are held fixed, from path products.

    `dag` is `[d, d]`. Raises `ValueError` as `adjusted_effect` does.
    """
    d = len(dag)
    W, spread = np.zeros((d, d)), {}
    fewest = moments.rows - moments.silos
    for child in range(d):
        parents = np.flatnonzero(dag[:, child])
        if child in xs or not len(parents):
            continue
        b, covariance, degrees = regression(moments, child, parents.tolist())
        W[parents, child], spread[child], fewest = b, (parents, covariance), min(fewest, degrees)
    T = np.linalg.inv(np.eye(d) - W)
    found = []
    for x in xs:
        variance = sum(
            T[child, y] ** 2 * float(T[x, parents] @ covariance @ T[x, parents])
            for child, (parents, covariance) in spread.items()
        )
        value, half = float(T[x, y]), quantile(fewest) * sqrt(variance)
        found.append(Estimate(value, (value - half, value + half), sqrt(variance), fewest) if variance else ZERO)
    return found


def sensitivity(estimate: Estimate) -> Sensitivity:
    """The sensitivity of a regression coefficient; `estimate` must have a standard error and degrees of freedom."""
    assert estimate.standard_error is not None
    assert estimate.degrees is not None
    df = estimate.degrees
    f = abs(estimate.value) / max(estimate.standard_error, np.finfo(float).tiny) / sqrt(df)
    critical = quantile(df - 1) / sqrt(df - 1) if df > 1 else np.inf
    excess = f - critical
    if excess <= 0:
        interval = 0.0
    elif f * critical > 1:  # a common cause that explains X suffices, whatever share of Y it explains
        interval = (f**2 - critical**2) / (1 + f**2)
    else:
        interval = _robustness(excess)
    return Sensitivity(f**2 / (1 + f**2), _robustness(f), float(interval))


def _robustness(f: float) -> float:
    """The robustness value of Cohen's partial f (Cinelli & Hazlett 2020, Eq. 18), stable for large f."""
    return 2 / (1 + sqrt(1 + 4 / f**2)) if f > 0 else 0.0


MAX_JOINT_CELLS = 2_000_000
"""maximum number of cells of a table while variables are eliminated"""
SIMULATED_ROWS = 200_000
"""number of simulated rows for an effect in a mixed network"""
NORMAL_QUANTILE = 1.959963984540054
"""the 0.975 quantile of the normal distribution, for intervals of coverage `LEVEL`"""
assert LEVEL == 0.95


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
    n, width = design.shape
    free = shares.shape[1] - 1
    information = np.empty((free, width, free, width))
    for m in range(free):
        for k in range(free):
            weight = shares[:, m + 1] * ((m == k) - shares[:, k + 1])
            information[m, :, k] = design.T @ (weight[:, None] * design) / n
    inverse = np.linalg.pinv(information.reshape(free * width, -1)) / rows
    errors = []
    for level in range(free + 1):
        gradient = [
            (
                (after[:, level] * ((m == level) - after[:, m]))[:, None] * of_after
                - (before[:, level] * ((m == level) - before[:, m]))[:, None] * of_before
            ).mean(axis=0)
            for m in range(1, free + 1)
        ]
        joined = np.concatenate(gradient)
        errors.append(float(np.sqrt(max(joined @ inverse @ joined, 0.0))))
    return np.array(errors)


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
