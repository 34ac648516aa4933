"""Multivariate Hawkes processes with exponential kernels: likelihood of families, and their Newton steps.

The intensity of events of type i on one device, with base rate μ_i and decay rate δ (Hawkes 1971), is

    λ_i(t) = μ_i + Σ_j α_ij φ_j(t),   φ_j(t) = Σ_{events t' < t of type j} δ exp(−δ(t − t')).

The mean delay is 1/δ. The kernel has area 1, so α_ij is the mean number of events of type i that an event of type j
causes directly. From one event to the next, each φ_j changes by one multiplication (Ogata 1981), so all φ_j cost O(n·d)
for n events of d types.
A family is a type i with its causes j, which are Pa(i) and i itself. On windows of observation of total length T, its
log-likelihood is

    ℓ = Σ_{events of type i} ln λ_i(t) − μ_i T − Σ_j α_ij Σ_{events of type j} (1 − exp(−δ(end − t'))),

which is a concave function of (μ_i, α_i). It is a sum over devices, as are its gradient and Hessian, so the parts of
the silos can be added up. Time is in units of τ, the mean time between two events of a device, so that the numbers fit
masked sums whatever the unit of the times is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray

DEVICE, TIME, EVENT, START, END = range(5)
"""the columns of a table of events (`EVENT_COLUMNS`)"""
MIN_SCALE = 1e-4
"""minimum unit of a parameter in a derivative; the unit is the parameter itself, so that each term is at most 1"""
CURVATURE = 2.0**-6
"""factor of the second derivatives in a reply, because they may be large for a parameter of 0"""


@dataclass(frozen=True, eq=False)
class Design:
    """The columns by which a silo's events enter the likelihood, for one decay rate δ."""

    columns: FloatArray
    """for each event, 1 for the base rate and τφ of each type, `[n, 1 + d]`"""
    compensators: FloatArray
    """the integrals of the columns over the windows, `[1 + d]`"""


@dataclass(frozen=True, eq=False)
class Intensities:
    """The Hawkes process of a run: `base` rates μ `[d]` per unit of time, `excitation` α `[d, d]`, mean `delay` 1/δ.

    `excitation[j, i]` is the mean number of events of type i that an event of type j causes directly. What is published
    of a type with fewer than three events is NaN (`tracking/publication.py`).
    """

    variables: tuple[str, ...]
    base: FloatArray
    excitation: FloatArray
    delay: float
    events: FloatArray
    """number of events by type, `[d]`"""
    time: float
    """total time of observation of all devices"""
    background: FloatArray
    """the expected share of events of each type that no other event caused, `[d]`; 0 for a type without events"""


def intensities_of(
    variables: tuple[str, ...], base: FloatArray, excitation: FloatArray, delay: float, events: FloatArray, time: float
) -> Intensities:
    """The process with these parameters, and the shares of events that no other event caused."""
    return Intensities(variables, base, excitation, delay, events, time, base * time / np.maximum(events, 1.0))


def observation_time(table: FloatArray) -> float:
    """The total length of the observation windows of the devices in `table`."""
    starts = np.flatnonzero(np.diff(table[:, DEVICE], prepend=-1.0))
    return float((table[starts, END] - table[starts, START]).sum())


TIME_SCALES = 2.0 ** np.array([30, 0, -30])
"""factors by which the time of observation is sent, because it may be in seconds or in nanoseconds"""
MAX_SCALED = 2.0**20
"""the value that is sent if the time times a factor is larger"""


def scaled_time(table: FloatArray, events: int) -> FloatArray:
    """The time of observation divided by all silos' events, times each of `TIME_SCALES`, at most `MAX_SCALED`."""
    return np.minimum(observation_time(table) / events * TIME_SCALES, MAX_SCALED)


def pooled_causes(whole: "Design", events: NDArray[np.bool_], target: int) -> tuple[FloatArray, FloatArray]:
    """The columns base rate, self-excitation and excitation by all others at the `events` of type `target` `[n_i, 3]`.

    Their compensators `[3]` come second.
    """
    X, c, own = whole.columns[events], whole.compensators, 1 + target
    others = X[:, 1:].sum(axis=1) - X[:, own]
    return np.column_stack([X[:, 0], X[:, own], others]), np.array([c[0], c[own], c[1:].sum() - c[own]])


def design(table: FloatArray, types: int, decay: float, unit: float) -> Design:
    """The design of the events in `table` `[n, 5]`, which is sorted by device and time, for the decay rate δ.

    Events at the same time do not excite each other.
    """
    codes = table[:, EVENT].astype(np.int64)
    excitation = _excitation(table[:, DEVICE], table[:, TIME], codes, types, decay)
    expected = -np.expm1(-decay * (table[:, END] - table[:, TIME]))
    areas = np.bincount(codes, expected, types)
    columns = np.hstack([np.ones((len(table), 1)), unit * excitation])
    return Design(columns, np.concatenate([[observation_time(table) / unit], areas]))


@njit(cache=True)
def _excitation(
    devices: FloatArray, times: FloatArray, codes: NDArray[np.int64], types: int, decay: float
) -> FloatArray:
    """φ of each type just before each event, `[n, d]`."""
    n = len(times)
    found, level = np.zeros((n, types)), np.zeros(types)
    begin = 0
    while begin < n:
        if begin == 0 or devices[begin] != devices[begin - 1]:
            level[:] = 0.0
        else:
            level *= np.exp(-decay * (times[begin] - times[begin - 1]))
        end = begin
        while end < n and devices[end] == devices[begin] and times[end] == times[begin]:
            found[end] = level
            end += 1
        for event in range(begin, end):
            level[codes[event]] += decay
        begin = end
    return found


def family_length(columns: int) -> int:
    """How many numbers `family_sums` returns for a family of this number of columns."""
    return 1 + columns + columns * (columns + 1) // 2


@njit(cache=True)
def family_sums(
    X: FloatArray, compensators: FloatArray, members: NDArray[np.int64], theta: FloatArray, curvature: float
) -> FloatArray:
    """ℓ, its gradient and minus `curvature` times its Hessian (upper triangle) at `theta` `[k]`.

    Derivatives are with respect to parameters in units of their own values, at least `MIN_SCALE`, so that they fit
    masked sums. `X` `[n, m]` has the design's columns at the events of a type; `members` `[k]` are the numbers of the
    family's columns.
    """
    k = len(members)
    found = np.zeros(1 + k + k * (k + 1) // 2)
    share = np.empty(k)
    for event in range(len(X)):
        intensity = 0.0
        for a in range(k):
            intensity += X[event, members[a]] * theta[a]
        found[0] += np.log(intensity)
        place = 1 + k
        for a in range(k):
            share[a] = X[event, members[a]] * max(theta[a], MIN_SCALE) / intensity
            found[1 + a] += share[a]
        for a in range(k):
            for b in range(a, k):
                found[place] += share[a] * share[b]
                place += 1
    for a in range(k):
        found[0] -= compensators[members[a]] * theta[a]
        found[1 + a] -= compensators[members[a]] * max(theta[a], MIN_SCALE)
    found[1 + k :] *= curvature
    return found


@njit(cache=True)
def newton_step(
    gradient: FloatArray, curvature: FloatArray, theta: FloatArray, bounds: FloatArray
) -> tuple[FloatArray, float]:
    """The step p to the maximum of gᵀp − ½pᵀHp with theta + p ≥ `bounds`, and the value of this maximum.

    H `[k, k]`, the `curvature`, is minus the Hessian. Coordinate ascent keeps every coordinate within its bound.
    """
    k = len(theta)
    step, slope = np.zeros(k), gradient.copy()
    for _ in range(2000):
        moved = 0.0
        for a in range(k):
            diagonal = curvature[a, a]
            if diagonal <= 0.0:
                continue
            change = max(slope[a] / diagonal, bounds[a] - theta[a] - step[a])
            if change != 0.0:
                step[a] += change
                moved = max(moved, change * change * diagonal)
                slope -= change * curvature[:, a]
        if moved < 1e-22:
            break
    value = 0.0
    for a in range(k):
        value += 0.5 * step[a] * (gradient[a] + slope[a])
    return step, max(value, 0.0)
