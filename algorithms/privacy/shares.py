"""Noise shares: how much noise every silo adds so that the sum of those who answer hides any one record.

A secure sum is recovered from at least `threshold` silos, so at least that many shares are in it. Every silo knows its
own share and can subtract it, so the shares of `colluders`, one unless more are feared, do not count: of P silos,
⌊2P/3⌋ shares are to suffice, where ⌊2P/3⌋ + 1 would against the coordinator alone. A silo that hides its release by
itself has one share, its own. The sum of integer discrete Gaussians is nearly one (Kairouz, Liu, Steinke 2021), and the
cost allows for the difference.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from ..core.promise import Cost, Promise, ReplaceOne
from ..core.schema import Schema
from ..errors import BadInput
from ..secure.session import default_threshold
from . import gram, scales
from .zcdp import distributed_gaussian_cost


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
    """Return `delta`, or 1/n² for the smallest silo's n where it is 0. Raises `BadInput` for a silo of one row."""
    least, silo = min((rows, silo) for silo, rows in schema.rows.items())
    if least < 2:
        raise BadInput(f"silo {silo} has {least} row: a private run takes 2 or more in every silo")
    return delta or 1.0 / least**2


def sure_shares(silos: int, colluders: int) -> tuple[int, str]:
    """Return how many shares are certain to be in a secure sum and unknown, and against whom that protects.

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
    """Return the noise of each silo of `schema` if `sure` shares are certain to be in what is seen; 1: only its own.

    `counting` is the share of the promised budget for the bucket counts. What is promised to is a `group` of so many
    rows of one silo, all of which may be replaced: sums then move by up to as many times what one row moves them. Of
    the variables, `measured` have scales that are to be found by bucket counts; all of them unless it is given.
    """
    d, whole = len(schema.variables), promise.cost
    bits = gram.bits_for(max(schema.rows.values()))
    counted = d if measured is None else measured
    counts, entries = counted * scales.BUCKETS, d * (d + 1) // 2
    of_counts, of_gram = group * scales.counts_sensitivity(counted), group * gram.gram_sensitivity(bits)
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
    """Return the variance, a multiple of 1/`parts`, of one of `silos` noise shares that cost at most `cost`."""
    if cost.rho == 0:
        return Fraction(1)  # it is not planned for; who asks for it all the same is charged what that costs
    whole = sensitivity**2 / (2 * cost.rho) * (1 + 1e-12)
    return Fraction(math.ceil(parts * whole / silos) + 1, parts)
