"""Tight accounting: (ε, δ) of adaptively composed selections and Gaussian releases, as a certified upper bound.

zCDP bounds the moments of the privacy loss; tight accounting uses its worst-case distribution. A selection by
Gumbel-max is η-bounded-range (η = 2Δ/β), and the worst case of such a mechanism has two outcomes: loss t with
probability p_t = (1 − e^{t−η})/(1 − e^{−η}), and loss t − η otherwise, for a t in [0, η] that an adversary may choose
at each step given all earlier outcomes (Dong, Durfee, Rogers 2020). With V_0(y) = max(0, 1 − e^y), the worst δ of k
selections at ε = y is

    V_k(y) = sup_t p_t·V_{k−1}(y − t) + (1 − p_t)·V_{k−1}(y − t + η).

All Gaussian releases compose to a single Gaussian release with μ² = Σ(Δ/σ)². A selection may depend on an earlier
Gaussian release, and vice versa. The first case is worse: δ(ε) = E V_k(ε − Z), Z ~ N(μ²/2, μ²). (If V_0 were the δ(ε)
of the Gaussian release, the result would be valid only if all selections preceded all other releases.)

The bound is certified, because every approximation errs upwards:

- V_k is stored on a grid whose step divides η, so steps by grid values of t are exact.
- V_k is convex in e^y, so the chord in e^y between two grid points is above it. A parabola bounds the supremum over the
  values of t between grid points.
- Beyond the grid, V_k is at most its last value.
- Margins for rounding are added.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from ..compiled import njit
from ..core.promise import ULP, Cost, ReplaceOne
from ..core.schema import FloatArray
from ..errors import BadInput
from .zcdp import epsilon

MAX_SELECTIONS = 20_000
MAX_LOSS = 100.0
MIN_DELTA = 1e-18
"""the δ of the selections alone at which the grid may end"""
MIN_MU, MAX_EXPONENT = 1e-12, 700.0
"""the smallest μ and the largest exponent; other values are replaced by these, which errs upwards and keeps floats in
range"""
ARGUMENT_ROUNDING = 1e-14
"""relative margin, subtracted from y, for the rounding of y, e^y and the grid"""
ROUNDING = 1e-9
"""relative margin, added to every δ; many times the rounding error of a sum over a grid and 20,000 steps"""


@dataclass(frozen=True)
class Composition:
    """Adaptive composition of η-bounded-range selections with Gaussian releases, in any order.

    Raises `BadInput` for more than 20,000 selections, because the running time grows as k^1.5, to about ten seconds.
    Also raises `BadInput` if one of the other numbers is not from 0 to 100.
    """

    selections: int
    """k, the number of selections"""
    bounded_range: float
    """η = 2Δ/β of each selection; √(8ρ) for a selection of cost ρ"""
    gaussian: float
    """μ = √Σ(Δ/σ)² over the Gaussian releases; √(2ρ) for releases of cost ρ together"""
    lattice: float = 0.0
    """maximum increase of the loss by discrete noise: Σ 2√d·Δ/σ² in grid steps, over the discrete Gaussian releases

    For σ of a step or more, the discrete Gaussian is stochastically at most two steps above the continuous Gaussian.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.selections <= MAX_SELECTIONS:
            raise BadInput(f"selections is {self.selections}: it must be from 0 to {MAX_SELECTIONS}")
        for name in ("bounded_range", "gaussian", "lattice"):
            if not 0 <= getattr(self, name) <= MAX_LOSS:
                raise BadInput(f"{name} is {getattr(self, name)}: it must be from 0 to {MAX_LOSS}")

    @property
    def cost(self) -> Cost[ReplaceOne]:
        """The cost of the composition in zCDP: kη²/8 + μ²/2."""
        rho = self.selections * self.bounded_range**2 / 8 + self.gaussian**2 / 2
        return Cost(rho * (1 + 8 * ULP), ReplaceOne)


def tight_delta(target: float, composition: Composition) -> float:
    """A δ such that the composition is (ε, δ)-DP for ε = `target`.

    It equals or slightly exceeds the smallest such δ.
    """
    y, V = _worst_of_selections(composition.selections, composition.bounded_range)
    at, mu = target - composition.lattice, composition.gaussian
    at = min(at - ARGUMENT_ROUNDING * (1 + abs(at)), MAX_EXPONENT)
    delta = _average(y, V, at, max(mu, MIN_MU)) if mu > 0 else _chord(y, V, at)
    return min(1.0, delta * (1 + ROUNDING))


def tight_epsilon(delta: float, composition: Composition) -> float:
    """An ε such that the composition is (ε, δ)-DP; it equals or slightly exceeds the smallest such ε.

    It is at most the ε of zCDP. Raises `BadInput` for a δ that is not between 0 and 1.
    """
    low, high = 0.0, epsilon(composition.cost, delta)
    if tight_delta(low, composition) <= delta:
        return low
    if tight_delta(high, composition) > delta:
        return high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tight_delta(middle, composition) > delta else (low, middle)
    return high


def _chord(y: FloatArray, V: FloatArray, at: float) -> float:
    """V(at), where V is interpolated by chords in e^y between its values on the grid, and is 1 at y = −∞."""
    return float(np.interp(math.exp(at), np.exp(np.concatenate([[-np.inf], y])), np.concatenate([[1.0], V])))


def _average(y: FloatArray, V: FloatArray, at: float, mu: float) -> float:
    """E V(at − Z), Z ~ N(μ²/2, μ²), for V as in `_chord`.

    A chord is a mean of its ends with weights linear in e^y. E e^{−Z} over an interval is the probability of the
    interval for Z ~ N(−μ²/2, μ²). So every weight has a closed form.
    """
    edges = (np.concatenate([[-np.inf], y, [np.inf]]) - at) / mu
    inside, tilted = _normal_mass(edges + mu / 2), _normal_mass(edges - mu / 2)
    tilted[:-1] *= np.exp(np.minimum(at - y, MAX_EXPONENT))
    right = np.zeros(len(inside))
    right[0] = tilted[0]
    right[1:-1] = (tilted[1:-1] * np.exp(np.diff(y)) - inside[1:-1]) / np.expm1(np.diff(y))
    right = np.clip(right - 1e-12 * inside, 0, inside)
    ends = np.concatenate([[1.0], V, V[-1:]])
    return float(np.sum((inside - right) * ends[:-1] + right * ends[1:]))


def _normal_mass(edges: FloatArray) -> FloatArray:
    """The standard normal probability between consecutive `edges`, accurate in both tails."""
    tails = np.where(edges > 0, ndtr(-edges), ndtr(edges))
    same_side = (edges[1:] > 0) == (edges[:-1] > 0)
    return np.where(same_side, np.abs(np.diff(tails)), 1 - tails[1:] - tails[:-1])


@lru_cache(maxsize=8)
def _worst_of_selections(selections: int, bounded_range: float) -> tuple[FloatArray, FloatArray]:
    """A grid of y, symmetric about 0, and V_k on it, exact or slightly above."""
    if selections == 0 or bounded_range == 0:
        return np.array([-1.0, 0.0, 1.0]), np.array([-math.expm1(-1.0), 0.0, 0.0])
    cells = max(16, 2 * (512 // selections))
    step = bounded_range / cells
    rho = Cost(selections * bounded_range**2 / 8, ReplaceOne)
    reach = min(selections, math.ceil(epsilon(rho, MIN_DELTA) / bounded_range) + 1)
    t = step * np.arange(cells + 1)
    p = np.expm1(t - bounded_range) / math.expm1(-bounded_range)
    rest = np.expm1(t) / math.expm1(bounded_range)
    s = np.exp(-t)
    bend = np.diff(s) ** 2 / (s[:-1] * s[1:] ** 2) / math.expm1(bounded_range)
    slope = 1 / math.expm1(step)
    V = np.zeros(cells * reach + 1)
    mirrored = np.exp(-step * np.arange(cells, 0, -1))
    for _ in range(selections):
        left = 1 - mirrored + mirrored * V[cells:0:-1]
        V = _one_selection(np.concatenate([left, V, np.full(cells, V[-1])]), p, rest, bend, slope)
    y = step * np.arange(len(V))
    before = -np.expm1(-y[:0:-1]) + np.exp(-y[:0:-1]) * V[:0:-1]
    return np.concatenate([-y[:0:-1], y]), np.concatenate([before, V])


@njit(cache=True)
def _one_selection(V, p, rest, bend, slope):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """One step of the recursion; on either side, `V` extends beyond the result by the number of cells in η.

    Within a cell of t, with s = e^{−t}, the objective is linear in s except for a term −c/s, where c ≥ 0 is
    proportional to the difference of the intercepts of the two chords. Let f and g be the values at the ends of the
    cell. Between them, the objective exceeds the chord by at most a parabola c'·θ(1 − θ), so its maximum is at most
    (f + g)/2 + c'/4 + (f − g)²/(4c') if |f − g| < c'.
    """
    cells = len(p) - 1
    worst = np.empty(len(V) - 2 * cells)
    for i in range(len(worst)):
        best = last = V[i + cells]
        for j in range(1, cells + 1):
            low, high = i + cells - j, i + 2 * cells - j
            f = p[j] * V[low] + rest[j] * V[high]
            intercepts = V[low] - V[high] + slope * (V[low] - V[low + 1] - V[high] + V[high + 1])
            above = bend[j - 1] * intercepts
            best = max(best, f)
            if abs(f - last) < above:
                best = max(best, (f + last) / 2 + above / 4 + (f - last) ** 2 / (4 * above))
            last = f
        worst[i] = min(1.0, best * (1 + 1e-15))
    return worst
