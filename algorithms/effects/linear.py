"""Linear effects from second moments: adjustment, joint interventions, and sensitivity to an unmeasured cause.

The moments are about each silo's own means, so a regression from them is least squares over all rows with one
intercept per silo. With A = {X} ∪ Z, k = |A| and P silos,

    b = S_AA⁻¹ S_AY,   σ² = n (S_YY − S_YA b) / (n − k − P),   Var(b_X) = σ² (S_AA⁻¹)_XX / n,

and intervals come from Student's t with n − k − P degrees of freedom. This needs only the moments of the pairs in A ∪
{Y}, which are sums over the silos.

Joint interventions set several variables and remove the edges into them. The effects are sums over directed paths, T
= (I − W)⁻¹, where the columns of the treatments in W are set to zero. The estimates of W are uncorrelated between
children in large samples, so the delta method gives the variance as a sum over children.

An unmeasured common cause: the partial R² of X with Y is t²/(t² + df). The robustness value is the share of the
residual variance of both X and Y that a common cause must explain to reduce the effect to zero, or to make its
interval include zero (Cinelli & Hazlett 2020, "Making sense of sensitivity", §4.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray

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
    """The odds (or the hazard) of an outcome under one value of the treatment, divided by those under another value."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Overlap:
    """How far the values of a treatment occur among the same covariates, for a doubly robust estimate."""

    silos: int
    """the silos that have both values of the treatment in enough rows, and took part"""
    clipped: str
    """share of the rows whose probability of treatment was clipped, as a class such as `1-5 %`"""


@dataclass(frozen=True)
class Estimate:
    """An estimated effect with its interval and degrees of freedom; the interval is None if it cannot be computed."""

    value: float
    interval: tuple[float, float] | None = None
    standard_error: float | None = None
    degrees: int | None = None
    odds_ratio: OddsRatio | None = None
    """the odds ratio of two probabilities whose difference is the effect, if both are between 0 and 1"""
    hazard_ratio: OddsRatio | None = None
    """the hazard ratio whose logarithm is the effect, of a survival outcome"""
    overlap: Overlap | None = None
    """the overlap, if the estimate is doubly robust"""
    groups: "tuple[tuple[str, Estimate], ...]" = ()
    """the estimates among rows such as "stage = ii", for each level of a modifier, if they are requested"""

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

    Raises `ValueError` if there are too few rows, or if a regressor is constant or a linear
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
