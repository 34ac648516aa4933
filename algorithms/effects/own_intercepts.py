"""Regressions with an intercept per silo, by Newton's method on sums over the silos.

The mean of a number is linear in the regressors, and the probability of the second of two labels is logistic. Every
silo p has its own intercept α_p, so differences between silos do not confound an effect. The silo does not send α_p: it
maximises the likelihood over α_p for the current slopes β. The profile log-likelihood L(β) = Σ_p max_α L_p(α, β) is a
sum over silos. Let z be the regressors of a row, π its fitted mean or probability, and z̄ the silo's mean of z weighted
by w = π(1 − π) (by 1 for numbers). Then the gradient of L and minus the Hessian of L are sums over silos, too:

    Σ (z − z̄)(y − π)   and   Σ w (z − z̄)(z − z̄)ᵀ.

Newton's method with gradient and Hessian ends at the regression of the pooled rows with an indicator for each silo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..statistics.packing import Block
from .linear import MIN_OWN_SHARE

MAX_NEWTON_STEPS = 30
"""maximum number of Newton steps"""
MAX_FINAL_STEP = 1e-7
"""maximum Newton step, in standard errors of one row, of a regression that has converged"""
MAX_INTERCEPT_STEPS = 100
"""maximum number of steps for a silo's intercept"""
FLAT = 1e-6
"""minimum curvature of a slope as a share of its initial curvature; below, labels count as predicted without error"""
INTERCEPT_ACCURACY = 1e-13
"""maximum relative change of a silo's intercept in its last step"""
ROUNDING = 1e-8
"""maximum difference that the fixed-point rounding of masked sums may cause between two equal sums"""


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, d]`, the schema, and the key of what the silo draws."""

    table: FloatArray
    schema: Schema
    key: int
    clusters: NDArray[np.int64] | None = None
    """the number of the cluster of each row, `[n_rows]`, if a column names clusters"""

    def complete_rows(self, columns: Sequence[int]) -> FloatArray:
        """The rows of these `columns` without an empty cell, `[n, columns]`."""
        return np.asarray(self.table[:, columns].astype(np.float64)[self.complete(columns)])

    def complete(self, columns: Sequence[int]) -> NDArray[np.bool_]:
        """Whether each row has no empty cell in these `columns`, `[n_rows]`."""
        family = self.table[:, columns].astype(np.float64)
        return np.asarray(~(np.isnan(family) | ((family < 0) & self.schema.discrete[columns])).any(axis=1))


def newton_blocks(q: int) -> tuple[Block, ...]:
    """The sums of a regression with `q` slopes: numbers of rows and silos, likelihood, gradient, minus the Hessian."""
    return (
        Block("rows", ()),
        Block("silos", ()),
        Block("likelihood", ()),
        Block("gradient", (q,)),
        Block("curvature", (q, q), symmetric=True),
    )


def newton_units(outcome: float, columns: FloatArray) -> dict[str, FloatArray | float]:
    """The units of `newton_blocks`, from the unit of the outcome and those of the `columns` `[q]`."""
    return {
        "rows": 1.0,
        "silos": 1.0,
        "likelihood": outcome**2,
        "gradient": outcome * columns,
        "curvature": np.outer(columns, columns),
    }


@dataclass(frozen=True, eq=False)
class OwnFit:
    """A regression in the rows of one silo, for given slopes: the silo's intercept, and the sums of `newton_blocks`."""

    labels: bool
    """whether the outcome has two labels, the codes 0 and 1"""
    slopes: FloatArray
    means: FloatArray
    """the means of the regressors, which the intercept is about, `[q]`"""
    intercept: float
    """infinite if all labels are the same: then the silo has no information about slopes"""
    sums: Mapping[str, FloatArray | float]
    risk: FloatArray
    """the fitted mean or probability of each row, `[n]`"""
    predictor: FloatArray
    """the linear predictor of each row, `[n]`"""
    centre: FloatArray
    """the weighted mean z̄, minus the means, `[q]`"""
    about: FloatArray
    """the regressors minus z̄, `[n, q]`"""
    errors: FloatArray
    """the outcomes minus the fitted means or probabilities, `[n]`"""

    @classmethod
    def of(cls, coded: FloatArray, y: FloatArray, slopes: FloatArray, *, labels: bool) -> "OwnFit":
        """The fit to the regressors `coded` `[n, q]` and the outcomes `y` `[n]` of at least one row."""
        means, counted = coded.mean(axis=0), {"rows": float(len(y)), "silos": 1.0}
        columns = coded - means
        linear = columns @ slopes
        if labels and y.min() == y.max():
            nowhere = np.full(len(y), inf if y[0] else -inf)
            return cls(labels, slopes, means, float(nowhere[0]), counted, y, nowhere, 0 * means, columns, 0 * y)
        intercept = _intercept(linear, y) if labels else float(y.mean())
        predictor = intercept + linear
        risk = expit(predictor) if labels else predictor
        weight = risk * (1 - risk) if labels else np.ones(len(y))
        centre = weight @ columns / weight.sum()
        about = columns - centre
        errors = y - risk
        likelihood = -np.logaddexp(0, (1 - 2 * y) * predictor).sum() if labels else -0.5 * errors @ errors
        sums = counted | {
            "likelihood": float(likelihood),
            "gradient": about.T @ errors,
            "curvature": (about * weight[:, None]).T @ about,
        }
        return cls(labels, slopes, means, intercept, sums, risk, predictor, centre, about, errors)

    def predicted(self, coded: FloatArray) -> FloatArray:
        """The means or probabilities `[n]` of other rows of the silo, from their regressors `[n, q]`."""
        predictor = self.intercept + (coded - self.means) @ self.slopes
        return expit(predictor) if self.labels else np.asarray(predictor)


def expit(x: FloatArray) -> FloatArray:
    """The logistic function, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _intercept(linear: FloatArray, y: FloatArray) -> float:
    """The intercept of greatest likelihood, given the linear predictors `[n]` of rows `y` with both labels.

    The gradient decreases with the intercept, so its sign shows on which side the solution is. This brackets the
    solution. Steps of Newton's method that leave the bracket are replaced by its middle.
    """
    odds = log(y.mean() / (1 - y.mean()))
    low, high = odds - float(linear.max()), odds - float(linear.min())
    middle = 0.5 * (low + high)
    for _ in range(MAX_INTERCEPT_STEPS):
        risk = expit(middle + linear)
        gradient, curvature = float((y - risk).sum()), float((risk * (1 - risk)).sum())
        low, high = (middle, high) if gradient > 0 else (low, middle)
        step = gradient / curvature if curvature > 0 else np.inf
        further = middle + step if low <= middle + step <= high else 0.5 * (low + high)
        if abs(further - middle) <= INTERCEPT_ACCURACY * (1 + abs(middle)):
            return further
        middle = further
    return middle


@dataclass(frozen=True)
class Newton:
    """The state of Newton's method in m regressions, whose slopes are one after another in a vector."""

    direction: FloatArray
    """the last step of the slopes"""
    likelihood: FloatArray
    """the greatest log-likelihood of each regression so far, `[m]`"""
    finished: NDArray[np.bool_]
    """whether each regression has converged, `[m]`"""
    rows: FloatArray
    """the rows in the last sums of each regression, `[m]`; not a number before the first sums"""
    first_curvature: FloatArray
    """the diagonal of minus the Hessian at slopes of zero, of each regression, concatenated"""

    @classmethod
    def begin(cls, slopes: int, m: int) -> "Newton":
        """The state before the first sums of `m` regressions with this number of `slopes` in all."""
        zero = np.zeros(slopes)
        return cls(zero, np.full(m, -np.inf), np.zeros(m, np.bool_), np.full(m, np.nan), zero)

    def after(
        self,
        slopes: FloatArray,
        parts: Sequence[tuple[slice, Mapping[str, FloatArray]]],
        labels: Sequence[bool],
    ) -> tuple["Newton", FloatArray]:
        """The state, and the `slopes`, after a step in each regression that has not converged.

        If the likelihood fell, the last step is halved instead. If the number of rows has changed, because a silo was
        lost, the comparison of likelihoods starts again. `parts` has the position of the slopes of each regression and
        its sums, which are divided by the same number; `labels` is whether its outcome has labels.
        """
        slopes, direction, first = slopes.copy(), self.direction.copy(), self.first_curvature.copy()
        likelihood, finished, rows = self.likelihood.copy(), self.finished.copy(), self.rows.copy()
        for r, (place, sums) in enumerate(parts):
            began, same_rows = np.isfinite(rows[r]), abs(float(rows[r] - sums["rows"])) < ROUNDING
            rows[r] = float(sums["rows"])
            if not same_rows:
                likelihood[r], finished[r] = -np.inf, False
            if finished[r]:
                continue
            rise = float(sums["likelihood"]) - likelihood[r]
            if rise < -ROUNDING * (1 + abs(likelihood[r])):
                direction[place] *= 0.5
                slopes[place] -= direction[place]
                continue
            likelihood[r] = float(sums["likelihood"])
            inverse, scale = _inverse(sums["curvature"])
            direction[place] = inverse @ sums["gradient"]
            if not began:
                first[place] = scale**2
            small = np.abs(direction[place]) * scale <= MAX_FINAL_STEP * sqrt(_noise(sums, labels=labels[r]))
            finished[r] = bool(small.all()) or bool((scale**2 < FLAT * first[place]).any())
            if not finished[r]:
                slopes[place] += direction[place]
        return Newton(direction, likelihood, finished, rows, first), slopes

    def unsolved(self, r: int, place: slice, sums: Mapping[str, FloatArray]) -> bool:
        """Whether regression `r`, with slopes at `place`, has no finite best slopes: risks are near 0 and 1."""
        flat = np.diag(sums["curvature"]) < FLAT * self.first_curvature[place]
        return not self.finished[r] or bool(flat.any())


def _inverse(curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The inverse of a `curvature` `[q, q]`, zero in combinations of columns that do not vary, and its scale `[q]`."""
    scale = np.sqrt(np.diag(curvature))
    usable = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(curvature / np.outer(usable, usable))
    inverse = (vectors * np.where(values > MIN_OWN_SHARE, 1 / np.maximum(values, MIN_OWN_SHARE), 0.0)) @ vectors.T
    return inverse / np.outer(usable, usable), scale


def _noise(sums: Mapping[str, FloatArray], *, labels: bool) -> float:
    """The scale of a squared step: 1 for labels, the residual variance for numbers."""
    tiny = float(np.finfo(float).tiny)
    return 1.0 if labels or not sums["rows"] else max(-2 * float(sums["likelihood"] / sums["rows"]), tiny)
