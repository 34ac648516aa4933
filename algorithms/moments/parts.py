"""What a silo adds to a sum of second moments: its exact part, or clipped whole numbers with its share of noise."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..privacy import gram, scales
from ..privacy.discrete_gaussian import discrete_gaussian
from ..privacy.noise import Bits, child
from ..privacy.shares import Shares
from ..statistics.chunks import Table, summed
from ..statistics.moments import products
from ..statistics.symmetric import triangle


@dataclass(frozen=True)
class Silo:
    """A silo's rows; they never change. If they are to be `centred`, it is about their own means."""

    table: Table
    all_rows: int
    plan: Shares | None
    measured: NDArray[np.bool_]
    """the columns whose scales are to be found privately; the others have public ones"""
    clip: float
    """how far rows are clipped where there is noise"""
    mixed: bool = False
    """whether the columns are those of a coded table (`mixed.py`)"""
    centred: bool = False
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Broadcast:
    """What the silos are to add up: bucket counts (no scales yet), or second moments in units of these scales."""

    scales: FloatArray


@dataclass(frozen=True)
class Reply:
    """A silo's summand: float second moments, or noisy integers."""

    values: NDArray[np.float64] | NDArray[np.int64]


def part_of(silo: Silo, message: Broadcast) -> Reply:
    """Return the silo's part of the sum that `message` asks for."""
    return Reply(exact_part(silo) if silo.plan is None else noisy_part(silo, silo.plan, message))


def exact_part(silo: Silo) -> FloatArray:
    """Return the silo's part of the second moments of all rows, `[d(d+1)/2]`: XᵀX over the number of all rows."""
    return triangle(products(silo.table, center=silo.centred) / silo.all_rows)


def noisy_part(silo: Silo, plan: Shares, message: Broadcast) -> NDArray[np.int64]:
    """Return the silo's integer summand with its share of the noise: of bucket counts, or of second moments."""
    bits = Bits(child(silo.key, "second moments" if len(message.scales) else "bucket counts"))
    if not len(message.scales):
        counts = summed(silo.table, lambda rows: scales.bucket_counts(rows[:, silo.measured])).ravel()
        return np.asarray(counts + discrete_gaussian(bits, plan.count_variance, len(counts)))
    d = len(message.scales)
    within = ball(message.scales, silo.clip, mixed=silo.mixed)
    parts = summed(silo.table, lambda rows: gram.integer_gram(rows, *within, plan.bits))
    for entries, variance in gram.noise_variances(d, plan.gram_variance):
        parts[entries] += discrete_gaussian(bits, variance, int(entries.sum()))
    return parts


def ball(scales: FloatArray, clip: float, *, mixed: bool) -> tuple[FloatArray, float]:
    """Return the units of the columns, and the norm to which rows are clipped in them."""
    return gram.alike(scales, clip) if mixed else (gram.units(scales), gram.radius(scales, clip))
