"""What a release costs in zero-concentrated differential privacy (zCDP), and what (ε, δ) a total cost amounts to.

A mechanism is ρ-zCDP if its Rényi divergence of every order α > 1 between neighbours is at most αρ (Bun and Steinke
2016). Costs add up over everything released, each release chosen as it may be in view of those before, and are
converted to (ε, δ) once, at the end. All numbers err on the safe side: costs and ε are rounded up, budgets down.

Noise N(0, σ²), continuous or discrete, in every coordinate of a vector of ℓ₂ sensitivity Δ costs Δ²/(2σ²) (Bun and
Steinke 2016; Canonne, Kamath and Steinke 2020, Theorem 4). One selection with Gumbel noise of scale β on scores that
each move by at most Δ costs Δ²/(2β²): Gumbel-max draws index i with probability ∝ exp(s_i/β), between neighbours the
log-probabilities move by numbers that lie within an interval of length η = 2Δ/β, and an η-bounded-range mechanism is
η²/8-zCDP (Cesar and Rogers 2021; Fassy El Fehri et al., Theorem A.4). All scores must have the same β.

What a privacy budget will buy, from public numbers alone: before anything is spent.

All in units in which every variable has the mean square 1. A second moment S_ij carries the sampling error 1/√n of all
n rows and the noise of its release; the weight of an edge carries about that error over the variance that the parent's
other relatives leave it, `LEFT`. What is likely to be found must stand out from the d(d − 1)/2 pairs that chance has.

Noise shares: how much noise every silo adds so that the sum of those who answer hides any one record.

A secure sum is recovered from at least `threshold` silos, so at least that many shares are in it. Every silo knows its
own share and can subtract it, so the shares of `colluders`, one unless more are feared, do not count: of P silos,
⌊2P/3⌋ shares are to suffice, where ⌊2P/3⌋ + 1 would against the coordinator alone. A silo that hides its release by
itself has one share, its own. The sum of integer discrete Gaussians is nearly one (Kairouz, Liu, Steinke 2021), and the
cost allows for the difference.
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal

from ..core.promise import ULP, A, Cost, Promise, ReplaceOne, at_least
from ..core.schema import Schema
from ..errors import BadInput, require_number
from ..secure.masks import default_threshold
from . import gram

Accounting = Literal["zcdp", "papers"]


def distributed_gaussian_cost(
    sensitivity: float, variance: float | Fraction, shares: int, dimension: int, adjacency: type[A]
) -> Cost[A]:
    """The cost of a vector of integers under the sum of independent discrete Gaussians, one from each silo.

    Such a sum is not a discrete Gaussian, but close: with s² the `variance` of each of m `shares`, Δ the ℓ₂
    sensitivity and d the `dimension`, ρ = min(½(Δ/(√m·s) + τ√d)², Δ²/(2ms²) + τd) for τ = 10·Σ_{k=1}^{m−1}
    exp(−2π²s²·k/(k+1)) (Kairouz, Liu, Steinke 2021, Theorem 1 and Proposition 14, for s ≥ 1/2). Count only shares that
    are sure to be in the sum and unknown to whoever sees it. Raises `BadInput` for s² below 1/4, m or d below 1.
    """
    s2 = float(variance)
    require_number(math.isfinite(s2) and s2 >= 0.25, "variance of a noise share", s2, "1/4 or more")
    require_number(math.isfinite(sensitivity) and sensitivity >= 0, "sensitivity", sensitivity, "0 or more and finite")
    require_number(shares >= 1, "number of noise shares", shares, "1 or more")
    require_number(dimension >= 1, "dimension", dimension, "1 or more")
    tau = 10 * math.fsum(math.exp(-2 * math.pi**2 * s2 * k / (k + 1)) for k in range(1, shares))
    alone = at_least(Fraction(sensitivity) ** 2 / (2 * shares * Fraction(variance)))
    shifted = (math.sqrt(2 * alone) + tau * math.sqrt(dimension)) ** 2 / 2
    return Cost(min(shifted, alone + tau * dimension) * (1 + 16 * ULP), adjacency)


def epsilon(cost: Cost[A], delta: float) -> float:
    """An ε such that ρ-zCDP implies (ε, δ)-DP (Canonne, Kamath, Steinke 2020, Proposition 12).

    ε = inf_{a>1} aρ + (ln(1/δ) − ln a)/(a − 1) + ln(1 − 1/a), at least 0. It holds for every a, so what the search
    misses makes ε greater, never smaller; the rounding error of the sum is added on top.
    """
    return _epsilon(cost.rho, delta)


def _epsilon(rho: float, delta: float) -> float:
    require_number(0 < delta < 1, "delta", delta, "between 0 and 1")
    if rho == 0 or math.isinf(rho):
        return rho
    low, high = -0.5 * math.log(rho) - 50, -0.5 * math.log(rho) + 50
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = _epsilon_at(left, rho, delta), _epsilon_at(right, rho, delta)
    while high - low > 1e-8:  # the set of a with at most a given ε is an interval, so golden section finds the least
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = _epsilon_at(left, rho, delta)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = _epsilon_at(right, rho, delta)
    return max(0.0, min(at_left, at_right))


def _epsilon_at(log_u: float, rho: float, delta: float) -> float:
    """Ε of the conversion at a = 1 + u, plus a bound on the rounding error of computing it."""
    u = math.exp(log_u)
    terms = ((1 + u) * rho, -math.log(delta) / u, -math.log1p(u) / u, -math.log1p(1 / u))
    return math.fsum(terms) + 8 * ULP * math.fsum(abs(term) for term in terms)


@cache
def rho_for(target: float, delta: float) -> float:
    """The greatest ρ, rounded down, of which `epsilon` at `delta` makes at most the `target` ε.

    Raises `BadInput` for an ε that is not above 0 and finite, or a δ not between 0 and 1.
    """
    low = closed_form_rho(target, delta)
    while _epsilon(low, delta) > target:
        low /= 2
    high = max(2 * low, sys.float_info.min)
    while _epsilon(high, delta) <= target:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _epsilon(middle, delta) <= target else (low, middle)
    return low


def budget(target: float, delta: float, adjacency: type[A], accounting: Accounting = "zcdp") -> Cost[A]:
    """The whole cost that (ε, δ) allows, by `rho_for`, or by the papers' `closed_form_rho`."""
    rho = rho_for(target, delta) if accounting == "zcdp" else closed_form_rho(target, delta)
    return Cost(rho, adjacency)


def closed_form_rho(target: float, delta: float) -> float:
    """(√(ln(1/δ) + ε) − √ln(1/δ))², the papers' conversion: valid, and always smaller.

    Source: Fassy El Fehri et al., Theorem A.2.
    """
    require_budget(target, delta)
    length = -math.log(delta)
    return (target / (math.sqrt(length + target) + math.sqrt(length))) ** 2 * (1 - 16 * ULP)


def gaussian_sigma(sensitivity: float, target: float, delta: float) -> float:
    """Σ of the Gaussian mechanism that alone is (ε, δ)-DP (the analytic calibration of Balle and Wang 2018).

    For a single release this needs less noise than ρ does. Raises `BadInput` as `rho_for` does, and for an ε below
    0.001, where the library's own rounding errors are no longer covered by what is added here.
    """
    from dp_accounting import get_sigma_gaussian  # type: ignore[import-untyped]  # takes seconds to import

    require_budget(target, delta)
    require_number(target >= 1e-3, "epsilon", target, "0.001 or more for the analytic Gaussian")
    require_number(math.isfinite(sensitivity) and sensitivity > 0, "sensitivity", sensitivity, "above 0 and finite")
    tolerance = 1e-12
    sigma = float(get_sigma_gaussian(target, delta, tol=tolerance))
    return sensitivity * (sigma + 2 * tolerance) * (1 + 1e-9)


def require_budget(target: float, delta: float) -> None:
    """Raise `BadInput` for an ε that is not above 0 and finite, or a δ that is not between 0 and 1."""
    require_number(math.isfinite(target) and target > 0, "epsilon", target, "above 0 and finite")
    require_number(0 < delta < 1, "delta", delta, "between 0 and 1")


# The share of a variable's variance that its relatives leave unexplained, and what drawing long rows in adds to the
# error of a weight, as measured on sparse graphs of 10 to 50 variables: true there within a factor of two.
LEFT = 0.3
DRAWN_IN = 0.025


@dataclass(frozen=True)
class Forecast:
    """What to expect of one algorithm."""

    algorithm: str
    noise: float
    """standard deviation of the noise in the second moments, or in the steps of weights, that are learned from"""
    weight_error: float
    smallest: float
    """the smallest weight likely to be found, the threshold τ apart"""


def forecast(algorithm: str, d: int, rows: int, noise: float) -> Forecast:
    """Return what a noise of this standard deviation in S comes to."""
    error = math.hypot(noise / LEFT, 1 / math.sqrt(rows) / LEFT, DRAWN_IN)
    return Forecast(algorithm, noise, error, error * math.sqrt(2 * math.log(max(d * (d - 1), 2))))


@dataclass(frozen=True)
class Shares:
    """How the privacy budget is spent, from public numbers alone."""

    promise: Promise
    silos: int
    """shares that are certain to be in a sum and unknown to whoever sees it"""
    bits: int
    """bits of a coordinate in the integer second moments"""
    count_variance: Fraction
    """variance of one silo's noise on each bucket count"""
    gram_variance: Fraction
    """variance of one silo's noise on each diagonal entry of the integer second moments; half of it on the others"""
    count_cost: Cost[ReplaceOne]
    gram_cost: Cost[ReplaceOne]


def delta_for(delta: float, schema: Schema) -> float:
    """`delta`, or 1/n² for the smallest silo's n where it is 0. Raises `BadInput` for a silo of one row."""
    least, silo = min((rows, silo) for silo, rows in schema.rows.items())
    if least < 2:
        raise BadInput(f"silo {silo} has {least} row: a private run takes 2 or more in every silo")
    return delta or 1.0 / least**2


def guaranteed_shares(silos: int, colluders: int) -> tuple[int, str]:
    """How many shares are certain to be in a secure sum and unknown, and against whom that protects.

    Raises `BadInput` if the `colluders` leave none.
    """
    threshold = default_threshold(silos)
    if silos == 1:
        return 1, "from everyone but the silo that holds the record"
    if threshold - colluders < 1:
        raise BadInput(f"parameter colluders is {colluders}: of {threshold} sure shares none would be left")
    if colluders:
        whom = f"from everyone, {_among(colluders)}"
    else:
        whom = "from the coordinator and whoever sees the result, but not from another silo, which knows its own noise"
    return threshold - colluders, f"{whom}, while {threshold} of {silos} silos follow the protocol"


def _among(colluders: int) -> str:
    if colluders == 1:
        return "also from any other silo, which knows its own noise"
    return f"also from any {colluders} other silos together, which know their own noise"


def noise_shares(
    schema: Schema, promise: Promise, counting: float, sure: int, group: int = 1, measured: int | None = None
) -> Shares:
    """The noise of each silo of `schema` if `sure` shares are certain to be in what is seen; 1: only its own.

    `counting` is the share of the promised budget for the bucket counts. What is promised to is a `group` of so many
    rows of one silo, all of which may be replaced: sums then move by up to as many times what one row moves them. Of
    the variables, `measured` have scales that are to be found by bucket counts; all of them unless it is given.
    """
    d, whole = len(schema.variables), promise.cost
    bits = gram.bits_for(max(schema.rows.values()))
    counted = d if measured is None else measured
    counts, entries = counted * gram.BUCKETS, d * (d + 1) // 2
    of_counts, of_gram = group * gram.counts_sensitivity(counted), group * gram.gram_sensitivity(bits)
    count_variance = share_variance(of_counts, whole.portion(counting), sure)
    gram_variance = share_variance(of_gram, whole.portion(1 - counting), sure)
    # An entry off the diagonal has half the variance and stands for two: over √2, both kinds are alike.
    alike = of_gram / math.sqrt(2) * (1 + 1e-15)
    return Shares(
        promise=promise,
        silos=sure,
        bits=bits,
        count_variance=count_variance,
        gram_variance=gram_variance,
        count_cost=distributed_gaussian_cost(of_counts, float(count_variance), sure, counts, ReplaceOne),
        gram_cost=distributed_gaussian_cost(alike, float(gram_variance / 2), sure, entries, ReplaceOne),
    )


def share_variance(sensitivity: float, cost: Cost[ReplaceOne], silos: int, parts: int = 2) -> Fraction:
    """The variance, a multiple of 1/`parts`, of one of `silos` noise shares that cost at most `cost`."""
    if cost.rho == 0:
        return Fraction(1)  # it is not planned for; who asks for it all the same is charged what that costs
    whole = sensitivity**2 / (2 * cost.rho) * (1 + 1e-12)
    return Fraction(math.ceil(parts * whole / silos) + 1, parts)
