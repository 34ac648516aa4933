"""Piecewise-exponential nodes of survival outcomes: hazard ratios, and risks up to a time.

`survival.py` has the model and its fit. The hazard of a row with the terms x is λ_j exp((x − c)ᵀβ) in interval j, where
c are the means of the terms over all rows. So the risk up to time t is 1 − exp(−Λ(t) exp((x − c)ᵀβ)), with Λ(t) the sum
of λ_j times the part of interval j before t.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from ..core.schema import FloatArray
from ..errors import BadInput

LEVEL_QUANTILE = 1.959963984540054
"""the quantile of the standard normal distribution that bounds 95 % intervals"""
DRAWS = 400
"""draws of the parameters for the interval of a risk"""


@dataclass(frozen=True)
class Term:
    """A term of the log hazard: the indicator of a level, or a number."""

    variable: str
    level: str
    """the level; empty for a number"""
    coefficient: float
    """the logarithm of the hazard ratio"""
    centre: float
    """the mean of the term over all rows"""
    spread: float
    """its standard deviation over all rows"""

    @property
    def name(self) -> str:
        """The name of the term, such as age or smoking=yes."""
        return f"{self.variable}={self.level}" if self.level else self.variable


@dataclass(frozen=True)
class HazardRatio:
    """A hazard ratio with its 95 % interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class SurvivalNode:
    """The fitted node of a survival outcome. Counts of events are multiples of the grid of published counts."""

    outcome: str
    time: str
    """the column of times"""
    event: str
    """the column of events"""
    parents: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    """the levels of the parents that have labels"""
    terms: tuple[Term, ...]
    covariance: tuple[tuple[float, ...], ...]
    """of the coefficients"""
    limits: tuple[float, ...]
    """the ends of the intervals, in the unit of the times"""
    hazards: tuple[float, ...]
    """the hazard in each interval at the means of the terms"""
    interval_events: tuple[int, ...]
    """the number of events in each interval"""
    events: int
    rows: int
    """the rows that enter the fit"""
    silos: int
    independent_share: float = 1.0
    """the share of the rows that counts as independent, if clusters of rows depend on each other"""

    @property
    def _independent_events(self) -> FloatArray:
        """The effective number of events in each interval, `[J]`, at least 1."""
        return np.maximum(self.independent_share * np.array(self.interval_events, np.float64), 1.0)

    @property
    def errors(self) -> FloatArray:
        """The standard errors of the coefficients."""
        return np.sqrt(np.diag(np.reshape(self.covariance, (len(self.terms),) * 2)))

    def contrast(self, variable: str, values: tuple[float | str, float | str]) -> tuple[float, float]:
        """The log hazard ratio of the second to the first of two values of a parent, and its standard error.

        Raises `BadInput` for a value that the parent does not have.
        """
        step = self._terms_at({variable: values[1]}) - self._terms_at({variable: values[0]})
        b = np.array([one.coefficient for one in self.terms])
        variance = float(step @ np.reshape(self.covariance, (len(b),) * 2) @ step)
        return float(step @ b), sqrt(max(variance, 0.0))

    def hazard_ratio(self, term: int) -> HazardRatio:
        """The hazard ratio of a term: of its level to the first level, or of one unit of a number."""
        return ratio(self.terms[term].coefficient, float(self.errors[term]))

    def p_value(self, parent: str) -> float:
        """The p-value of the Wald test that no coefficient of a parent differs from zero."""
        from scipy.stats import chi2  # imported late, because listing the commands must not import SciPy

        own = [k for k, one in enumerate(self.terms) if one.variable == parent]
        b = np.array([self.terms[k].coefficient for k in own])
        covariance = np.reshape(self.covariance, (len(self.terms),) * 2)[np.ix_(own, own)]
        return float(chi2.sf(b @ np.linalg.solve(covariance, b), len(own))) if own else 1.0

    def _terms_at(self, values: Mapping[str, float | str]) -> FloatArray:
        """The terms at these values of parents, and at their means for other parents."""
        found = np.array([one.centre for one in self.terms])
        for k, one in enumerate(self.terms):
            if one.variable not in values:
                continue
            value = values[one.variable]
            if one.level and str(value) not in self.levels[one.variable]:
                available = ", ".join(self.levels[one.variable])
                raise BadInput(f"{one.variable}: there is no label '{value}': available: {available}")
            try:
                found[k] = float(str(value) == one.level) if one.level else float(value)
            except ValueError:
                raise BadInput(f"{one.variable}: '{value}' is not a number") from None
        return found

    def cumulative_parts(self, until: float) -> FloatArray:
        """The part of the cumulative hazard Λ(`until`) that each interval contributes, `[J]`.

        Raises `BadInput` for a time that is not positive, or after the end of follow-up.
        """
        if not 0 < until <= self.limits[-1]:
            raise BadInput(
                f"{self.outcome} within {until:g}: follow-up ended at {self.limits[-1]:.4g}, and times are above 0"
            )
        begins = np.append(0.0, self.limits[:-1])
        return np.array(self.hazards) * np.clip(until - begins, 0.0, np.array(self.limits) - begins)

    def risk(
        self, until: float, columns: Mapping[str, FloatArray], weights: FloatArray | None = None
    ) -> tuple[float, tuple[float, float]]:
        """The mean probability of the event until a time over rows, with its 95 % interval.

        `columns` has the values `[n]` of each parent, labels as codes, and `weights` `[n]` those of the rows. The
        interval is that of the fit: coefficients are drawn from their normal distribution, and the logarithm of each
        hazard from one with the variance 1/d for d events. Raises `BadInput` as `cumulative_parts`.
        """
        parts, x = self.cumulative_parts(until), self._coded(columns)
        share = np.full(len(x), 1 / len(x)) if weights is None else weights / weights.sum()
        b, rng = np.array([one.coefficient for one in self.terms]), np.random.default_rng(0)
        value = float(share @ -np.expm1(-parts.sum() * np.exp(x @ b)))
        covariance = np.reshape(self.covariance, (len(b),) * 2)
        drawn = rng.multivariate_normal(b, covariance, DRAWS, method="eigh") if len(b) else np.zeros((DRAWS, 0))
        spread = 1 / np.sqrt(self._independent_events)
        hazards = np.exp(spread * rng.standard_normal((DRAWS, len(parts)))) @ parts
        distinct, number = np.unique(x, axis=0, return_inverse=True)
        mass = np.bincount(number.ravel(), share, len(distinct))
        means = [
            float(mass @ -np.expm1(-scale * np.exp(distinct @ one))) for scale, one in zip(hazards, drawn, strict=True)
        ]
        low, high = np.quantile(means, (0.025, 0.975)).tolist()
        return value, (low, high)

    def _coded(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """The terms about their means, `[n, terms]`, of rows with these columns, whose labels are codes."""
        rows = len(next(iter(columns.values()))) if columns else 1
        found = np.empty((rows, len(self.terms)))
        for k, one in enumerate(self.terms):
            column = columns[one.variable]
            value = column == self.levels[one.variable].index(one.level) if one.level else column
            found[:, k] = value - one.centre
        return found

    def curves(self) -> tuple[str, list["Curve"]]:
        """The adjusted curves of the parent with the smallest p-value, and the name of this parent.

        There is a curve for each level or, for a number, for its mean and one standard deviation below and above it;
        the other parents have their means. Without parents there is one curve.
        """
        names = {one.variable for one in self.terms}
        if not names:
            return "", [self._curve("all rows", np.zeros(0))]
        parent = min(sorted(names), key=self.p_value)
        term = next(one for one in self.terms if one.variable == parent)
        values: list[tuple[str, float | str]] = [(level, level) for level in self.levels.get(parent, ())]
        if not values:
            ends = (term.centre - term.spread, term.centre, term.centre + term.spread)
            values = [(f"{value:.3g}", value) for value in ends]
        return parent, [self._curve(label, self._terms_at({parent: value})) for label, value in values]

    def _curve(self, label: str, x: FloatArray) -> "Curve":
        """The curve at the terms `x`; its intervals are normal on the scale of the logarithm of the hazard Λ.

        The variance is that of ln Λ(t), Σ (parts of Λ)² / d / Λ² for the hazards, and xᵀVx for the coefficients.
        """
        b, centre = (np.array([getattr(one, name) for one in self.terms]) for name in ("coefficient", "centre"))
        parts, step = np.array(self.hazards) * np.diff(np.append(0.0, self.limits)), x - centre
        total = np.cumsum(parts)
        of_hazards = np.cumsum(parts**2 / self._independent_events) / total**2
        error = np.sqrt(of_hazards + step @ np.reshape(self.covariance, (len(b),) * 2) @ step)
        ends = (np.exp(-total * exp(float(step @ b)) * np.exp(k * LEVEL_QUANTILE * error)) for k in (0, 1, -1))
        return Curve(label, *ends)


@dataclass(frozen=True)
class Curve:
    """The probability of no event until the end of each interval, `[J]`, with pointwise 95 % intervals."""

    label: str
    free: FloatArray
    low: FloatArray
    high: FloatArray


def ratio(log_ratio: float, error: float) -> HazardRatio:
    """The hazard ratio with its 95 % interval, from its logarithm and the standard error of that."""
    half = LEVEL_QUANTILE * error
    return HazardRatio(exp(log_ratio), (exp(log_ratio - half), exp(log_ratio + half)))
