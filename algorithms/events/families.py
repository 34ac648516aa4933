"""Families of Hawkes processes during their fit: their parameters, and a Newton step for all families at once.

A family is an event type with its causes (`hawkes.py`).
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.packing import from_triangle
from .hawkes import CURVATURE, MIN_SCALE, family_length, newton_step

BoolArray = NDArray[np.bool_]
STEPS = (1.0, 0.5, 0.2, 0.05)
"""step lengths that are tried together"""
MIN_BASE = 1e-4
"""minimum base rate, as a share of the rate of the type"""
TOLERANCE, EXACT = 0.02, 1e-9
"""a family is fitted if another Newton step is expected to gain at most this, in nats; the second value is for the end
of the search"""


@dataclass(frozen=True, eq=False)
class Pool:
    """Families during their fit: m families of up to C columns, `[m, ...]`.

    In the first choice of δ, the columns are the base rate, self-excitation, and excitation by all other types. In the
    search, they are the base rate and each type.
    """

    target: NDArray[np.int64]
    rate: NDArray[np.int64]
    """index of the decay rate δ (1 / mean delay) among the `rates` of the request"""
    member: BoolArray
    """the columns of each family, `[m, C]`"""
    theta: FloatArray
    """the best parameters so far, `[m, C]`, 0 in other columns"""
    trials: FloatArray
    """the parameters to evaluate next, `[m, trials, C]`"""
    ll: FloatArray
    """the log-likelihood at `theta`, −∞ before the first evaluation"""
    expected: FloatArray
    """expected gain of the next Newton step in nats, ∞ before the first evaluation"""

    def chosen(self, which: BoolArray) -> "Pool":
        """The pool of the families `which` `[m]` alone."""
        return Pool(*(getattr(self, one.name)[which] for one in fields(self)))

    def joined(self, other: "Pool") -> "Pool":
        """The pool of the families of both pools."""
        return Pool(*(np.concatenate([getattr(pool, one.name) for pool in (self, other)]) for one in fields(self)))

    @cached_property
    def places(self) -> dict[tuple[int, bytes], int]:
        """The index of each family of the search, by its type and its columns `member.tobytes()`."""
        return {(int(i), own.tobytes()): f for f, (i, own) in enumerate(zip(self.target, self.member, strict=True))}

    @property
    def value(self) -> FloatArray:
        """The estimated maximum log-likelihoods `[m]`, −∞ before the first evaluation."""
        return np.where(np.isfinite(self.ll), self.ll + np.minimum(self.expected, 1e300), -np.inf)


def no_families(columns: int, trials: int) -> Pool:
    """An empty pool."""
    index, numbers = np.empty(0, np.int64), np.empty(0)
    empty = np.empty((0, columns))
    return Pool(index, index, empty.astype(bool), empty, np.empty((0, trials, columns)), numbers, numbers)


def new_pool(
    target: NDArray[np.int64], rate: NDArray[np.int64], member: BoolArray, theta: FloatArray, trials: FloatArray
) -> Pool:
    """Families that have not been evaluated."""
    m = len(target)
    return Pool(target, rate, member, theta, trials, np.full(m, -np.inf), np.full(m, np.inf))


def stepped(pool: Pool, which: BoolArray, total: FloatArray, counts: FloatArray) -> Pool:
    """The pool after the sums at the trial points of the families `which` `[m]`; `counts` are the events by type."""
    events, place = counts.sum(), 0
    theta, points, ll, expected = pool.theta.copy(), pool.trials.copy(), pool.ll.copy(), pool.expected.copy()
    min_base = MIN_BASE * counts / events
    trials = points.shape[1]
    lengths = np.array(STEPS[:trials])
    for f in np.flatnonzero(which):
        members = np.flatnonzero(pool.member[f])
        k = len(members)
        sums = total[place : place + trials * family_length(k)].reshape(trials, -1) * events
        place += sums.size
        best = int(np.argmax(sums[:, 0]))
        if sums[best, 0] <= ll[f]:  # no better point: try shorter steps, or stop if the difference is rounding
            step = points[f, 0] - theta[f]
            points[f] = theta[f] + STEPS[-1] * step * lengths[:, None]
            expected[f] = 0.0 if sums[best, 0] > ll[f] - EXACT * events else expected[f] * STEPS[-1]
            continue
        theta[f], ll[f] = points[f, best], sums[best, 0]
        bounds = np.zeros(k)
        bounds[0] = min_base[pool.target[f]]
        scale = np.maximum(theta[f, members], MIN_SCALE)
        gradient = sums[best, 1 : 1 + k] / scale
        curvature = from_triangle(sums[best, 1 + k :] / CURVATURE) / np.outer(scale, scale)
        step, expected[f] = newton_step(gradient, curvature, theta[f, members], bounds)
        points[f] = theta[f]
        points[f][:, members] = np.maximum(theta[f, members] + lengths[:, None] * step, bounds)
    return replace(pool, theta=theta, trials=points, ll=ll, expected=expected)
