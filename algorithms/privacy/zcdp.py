"""Accounting in zero-concentrated differential privacy (zCDP): costs of releases, their (ε, δ), and noise shares.

A mechanism is ρ-zCDP if its Rényi divergence of every order α > 1 between neighbours is at most αρ (Bun and Steinke
2016). Costs add up over all releases, even if each is chosen adaptively, and are converted to (ε, δ) once, at the end.
All numbers err on the safe side: costs and ε are rounded up, budgets down.

Noise N(0, σ²), continuous or discrete, in every coordinate of a vector of ℓ₂ sensitivity Δ costs Δ²/(2σ²) (Bun and
Steinke 2016; Canonne, Kamath and Steinke 2020, Theorem 4). Suppose that neighbouring tables change each score by at
most Δ. Then one selection with Gumbel noise of scale β on the scores costs Δ²/(2β²), for this reason: Gumbel-max
selects index i with probability ∝ exp(s_i/β), and between neighbours all changes of the log-probabilities lie in an
interval of length η = 2Δ/β. An η-bounded-range mechanism is η²/8-zCDP (Cesar and Rogers 2021; Fassy El Fehri et al.,
Theorem A.4). All scores must have the same β.

**Forecasts** of the smallest detectable weight under a budget use public numbers alone, before anything is spent, in
units in which every variable has mean square 1. The error of a second moment S_ij combines the sampling error 1/√n of
all n rows with the noise of its release. The error of an edge weight is about this error divided by
`UNEXPLAINED_SHARE`, the share of the parent's variance that the parent's other neighbours do not explain. A weight is
detectable if it exceeds the expected maximum of the errors over the d(d − 1) ordered pairs.

**Noise shares**: each silo adds noise such that the sum over the answering silos hides any one record. A secure sum is
recovered from at least `threshold` silos, so it has at least `threshold` shares. Every silo can subtract its own share,
so the shares of `colluders` silos (default 1) do not count. With P silos and one colluder, the noise of ⌊2P/3⌋ shares
must suffice; against the coordinator alone, ⌊2P/3⌋ + 1 shares must suffice. Without a secure sum, a silo has only its
own share. The sum of discrete Gaussians on the integers is nearly a discrete Gaussian (Kairouz, Liu, Steinke 2021), and
the cost accounts for the difference.
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal

from ..core.promise import ULP, A, Cost, Promise, ReplaceOne, round_up
from ..core.schema import Schema
from ..errors import BadInput, require_number
from ..secure.masks import default_threshold, mask_threshold
from . import gram, private_scales

Accounting = Literal["zcdp", "papers"]


def distributed_gaussian_cost(
    sensitivity: float, variance: float | Fraction, shares: int, dimension: int, adjacency: type[A]
) -> Cost[A]:
    """The cost of a vector of integers under the sum of independent discrete Gaussians, one from each silo.

    Such a sum is not a discrete Gaussian, but close to it. Let s² be the `variance` of each of m `shares`, Δ the ℓ₂
    sensitivity and d the `dimension`. Then ρ = min(½(Δ/(√m·s) + τ√d)², Δ²/(2ms²) + τd) for τ = 10·Σ_{k=1}^{m−1}
    exp(−2π²s²·k/(k+1)) (Kairouz, Liu, Steinke 2021, Theorem 1 and Proposition 14, for s ≥ 1/2). Count only shares that
    are guaranteed to be in the sum and unknown to its recipients. Raises `BadInput` if s² is below 1/4, or if m or d is
    below 1.
    """
    s2 = float(variance)
    require_number(math.isfinite(s2) and s2 >= 0.25, "variance of a noise share", s2, "1/4 or more")
    require_number(math.isfinite(sensitivity) and sensitivity >= 0, "sensitivity", sensitivity, "0 or more and finite")
    require_number(shares >= 1, "number of noise shares", shares, "1 or more")
    require_number(dimension >= 1, "dimension", dimension, "1 or more")
    tau = 10 * math.fsum(math.exp(-2 * math.pi**2 * s2 * k / (k + 1)) for k in range(1, shares))
    alone = round_up(Fraction(sensitivity) ** 2 / (2 * shares * Fraction(variance)))
    shifted = (math.sqrt(2 * alone) + tau * math.sqrt(dimension)) ** 2 / 2
    return Cost(min(shifted, alone + tau * dimension) * (1 + 16 * ULP), adjacency)


def epsilon(cost: Cost[A], delta: float) -> float:
    """An ε such that ρ-zCDP implies (ε, δ)-DP (Canonne, Kamath, Steinke 2020, Proposition 12).

    ε = inf_{a>1} aρ + (ln(1/δ) − ln a)/(a − 1) + ln(1 − 1/a), at least 0. Every a gives a valid ε, so an imprecise
    search makes ε larger, never smaller; a bound on the rounding error of the sum is added.
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
    while high - low > 1e-8:  # the set of a with at most a given ε is an interval, so golden section finds the minimum
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
    """The ε of the conversion at a = 1 + u, plus a bound on its rounding error."""
    u = math.exp(log_u)
    terms = ((1 + u) * rho, -math.log(delta) / u, -math.log1p(u) / u, -math.log1p(1 / u))
    return math.fsum(terms) + 8 * ULP * math.fsum(abs(term) for term in terms)


@cache
def rho_for(target: float, delta: float) -> float:
    """The largest ρ, rounded down, whose `epsilon` at `delta` is at most the `target` ε.

    Raises `BadInput` for an ε that is not above 0 and finite, or a δ that is not between 0 and 1.
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
    """The total cost that (ε, δ) allows, by `rho_for` or by the papers' `closed_form_rho`."""
    rho = rho_for(target, delta) if accounting == "zcdp" else closed_form_rho(target, delta)
    return Cost(rho, adjacency)


def closed_form_rho(target: float, delta: float) -> float:
    """(√(ln(1/δ) + ε) − √ln(1/δ))², the papers' conversion: valid, and always smaller than `rho_for`.

    Source: Fassy El Fehri et al., Theorem A.2.
    """
    require_budget(target, delta)
    length = -math.log(delta)
    return (target / (math.sqrt(length + target) + math.sqrt(length))) ** 2 * (1 - 16 * ULP)


def gaussian_sigma(sensitivity: float, target: float, delta: float) -> float:
    """The σ of a single Gaussian mechanism that is (ε, δ)-DP (the analytic calibration of Balle and Wang 2018).

    For a single release this needs less noise than the conversion of ρ. Raises `BadInput` like `rho_for`, and for an ε
    below 0.001, where the margin added here does not cover the library's rounding errors.
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


# The share of a variable's variance that its neighbours do not explain, and the error of a weight that clipping of long
# rows causes. Both were measured on sparse graphs of 10 to 50 variables, and are accurate there within a factor of two.
UNEXPLAINED_SHARE = 0.3
CLIPPING_ERROR = 0.025


@dataclass(frozen=True)
class Forecast:
    """The expected accuracy of one algorithm."""

    algorithm: str
    noise: float
    """standard deviation of the noise in the second moments, or in the steps of the weights"""
    weight_error: float
    smallest: float
    """the smallest weight that is likely to be detected, without regard to the threshold τ"""


def forecast(algorithm: str, d: int, rows: int, noise: float) -> Forecast:
    """The forecast for `noise` of this standard deviation in S."""
    error = math.hypot(noise / UNEXPLAINED_SHARE, 1 / math.sqrt(rows) / UNEXPLAINED_SHARE, CLIPPING_ERROR)
    return Forecast(algorithm, noise, error, error * math.sqrt(2 * math.log(max(d * (d - 1), 2))))


@dataclass(frozen=True)
class Shares:
    """The plan for spending the privacy budget, from public numbers alone."""

    promise: Promise
    silos: int
    """number of shares that are guaranteed to be in a sum and unknown to its recipients"""
    bits: int
    """number of bits of a coordinate in the integer second moments"""
    count_variance: Fraction
    """variance of one silo's noise on each bucket count"""
    gram_variance: Fraction
    """variance of one silo's noise on each diagonal entry of the integer second moments; other entries get half"""
    count_cost: Cost[ReplaceOne]
    gram_cost: Cost[ReplaceOne]


def delta_for(delta: float, schema: Schema) -> float:
    """`delta`, or 1/n² for the n rows of the smallest silo if `delta` is 0.

    Raises `BadInput` for a silo of one row, and for a `delta` of 1/n or more.
    """
    smallest, silo = min((rows, silo) for silo, rows in schema.rows.items())
    if smallest < 2:
        raise BadInput(f"silo {silo} has {smallest} row: a private run needs 2 or more in every silo")
    if delta * smallest >= 1:
        # Publishing one random row of n satisfies (0, 1/n)-differential privacy, so such a δ guarantees nothing.
        raise BadInput(f"delta is {delta:g}: it must be below 1/n = {1 / smallest:.3g}, n the rows of silo {silo}")
    return delta or 1.0 / smallest**2


def guaranteed_shares(silos: int, colluders: int) -> tuple[int, str]:
    """The number of guaranteed and unknown shares in a secure sum, and the parties against whom they protect.

    The number is 1 if there are enough colluders to see single vectors (`mask_threshold`), because a single vector has
    only the noise of its own silo. Raises `BadInput` if no guaranteed share remains without the shares of the
    `colluders`.
    """
    threshold = default_threshold(silos)
    if silos == 1:
        return 1, "from everyone but the silo that has the record"
    if threshold - colluders < 1:
        raise BadInput(f"parameter colluders is {colluders}: of {threshold} guaranteed shares none would remain")
    if colluders:
        parties = f"from everyone, {_colluders_text(colluders)}"
    else:
        parties = "from the coordinator and readers of the result, but not from another silo, which knows its own noise"
    shares = threshold - colluders if colluders < mask_threshold(silos) else 1
    return shares, f"{parties}, as long as {threshold} of {silos} silos follow the protocol"


def largest_coalition(silos: int) -> int:
    """The largest number of colluders among `silos` that leaves one guaranteed share, which must suffice alone."""
    return default_threshold(silos) - 1 if silos > 1 else 0


def _colluders_text(colluders: int) -> str:
    if colluders == 1:
        return "including any other silo, which knows its own noise"
    return f"including any {colluders} other silos together, which know their own noise"


def noise_shares(
    schema: Schema, promise: Promise, count_share: float, guaranteed: int, group: int = 1, measured: int | None = None
) -> Shares:
    """The noise of each silo of `schema`, if every sum has at least `guaranteed` shares.

    With 1 guaranteed share, the noise of a single silo suffices. `count_share` is the share of the budget for the
    bucket counts. The promise protects a `group` of rows of one silo, all of which may be replaced, so the sensitivity
    of a sum is multiplied by the size of the group. `measured` is the number of variables whose scales are estimated
    from bucket counts, by default all.
    """
    d, whole = len(schema.variables), promise.cost
    bits = gram.bits_for(max(schema.rows.values()))
    counted = d if measured is None else measured
    counts, entries = counted * private_scales.BUCKETS, d * (d + 1) // 2
    count_sensitivity, gram_sensitivity = (
        group * private_scales.counts_sensitivity(counted),
        group * gram.gram_sensitivity(bits),
    )
    count_variance = share_variance(count_sensitivity, whole.portion(count_share), guaranteed)
    gram_variance = share_variance(gram_sensitivity, whole.portion(1 - count_share), guaranteed)
    # An off-diagonal entry counts twice and has half the variance: divided by √2, both kinds have the same cost.
    scaled_sensitivity = gram_sensitivity / math.sqrt(2) * (1 + 1e-15)
    return Shares(
        promise=promise,
        silos=guaranteed,
        bits=bits,
        count_variance=count_variance,
        gram_variance=gram_variance,
        count_cost=distributed_gaussian_cost(count_sensitivity, float(count_variance), guaranteed, counts, ReplaceOne),
        gram_cost=distributed_gaussian_cost(
            scaled_sensitivity, float(gram_variance / 2), guaranteed, entries, ReplaceOne
        ),
    )


def share_variance(sensitivity: float, cost: Cost[ReplaceOne], silos: int, parts: int = 2) -> Fraction:
    """The variance of each of `silos` noise shares that together cost at most `cost`, as a multiple of 1/`parts`."""
    if cost.rho == 0:
        return Fraction(1)  # this release is not planned; if it happens nevertheless, its actual cost is charged
    whole = sensitivity**2 / (2 * cost.rho) * (1 + 1e-12)
    return Fraction(math.ceil(parts * whole / silos) + 1, parts)
