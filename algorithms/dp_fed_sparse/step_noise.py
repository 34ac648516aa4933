"""The noise of DP-PGCD: private selection of an entry, release of its gradient, and private mean squares.

**Steps** select an entry and release its gradient at a cost fixed in advance, by one of two mechanisms:

- "gumbel" (Fassy El Fehri et al., §5.2): the exponential mechanism (Gumbel-max) selects, and Gaussian noise protects
  the gradient. The cost of both is accounted for in zCDP.
- "mangold" (Mangold et al. 2023; Fassy El Fehri et al., A.4): both use Laplace noise. Each release is pure ε₀-DP, with
  ε₀ from the advanced composition theorem. This mechanism is included for comparison, and needs more noise.

A gradient is released in units of its sensitivity, so that one variance applies to all entries. It is rounded to a grid
far finer than the noise.

**Spread**: mean squares of values clipped to a public cap. mean_k min(x_k², cap²)/cap² is between 0 and 1 and changes
by at most 1/n if one record is replaced, so d of them have the ℓ₂ sensitivity √d/n for any values (Fassy El Fehri et
al., A.3 with b = cap²). Such a mean determines the standard deviation of a normal distribution, even if many values
were clipped.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ..core.promise import Cost, ReplaceOne
from ..core.schema import FloatArray
from ..errors import BadInput
from ..privacy.discrete_gaussian import (
    Bits,
    discrete_gaussian,
    discrete_laplace,
    exponential,
    noise_on_grid,
    release_on_grid,
)

# A margin for the rounding errors of sums over rows, in units of a record's contribution: see `rounding_margin`.
SLACK = 1 + 1e-6


def rounding_margin(rows: int) -> float:
    """The factor beyond `SLACK` for sensitivities of sums over `rows` rows: 1 up to about 40,000 rows.

    A float sum of n numbers of at most L is off by up to n²·2⁻⁵³·L, in any order of summation; two neighbouring sums
    together by n²·2⁻⁵³ of the sensitivity 2L. Half of `SLACK` remains for the arithmetic on single numbers.
    """
    return max(1.0, 1 + rows**2 * 2.0**-52 - (SLACK - 1) / 2)


@dataclass(frozen=True)
class GumbelGaussian:
    """The paper's mechanism: ρ_s for a selection, ρ_u for a gradient."""

    selection: Cost[ReplaceOne]
    """the cost of one selection"""
    step: Cost[ReplaceOne]
    """the cost of one gradient"""

    @property
    def grid(self) -> float:
        """The grid on which gradients are released, in units of their sensitivity."""
        return _gaussian_grid(self.step.rho)[0]

    @property
    def deviation(self) -> float:
        """The standard deviation of a gradient's noise, in units of its sensitivity."""
        grid, variance = _gaussian_grid(self.step.rho)
        return grid * math.sqrt(variance)

    def select(self, bits: Bits, scores: FloatArray, sensitivity: float) -> int:
        """An index with probability ∝ exp(score/β), with the same β = Δ/√(2ρ_s) for all scores."""
        return exponential(bits, scores, gumbel_scale(sensitivity, self.selection))

    def draw(self, bits: Bits, count: int) -> NDArray[np.int64]:
        """The noise of `count` gradients, in steps of the grid."""
        return discrete_gaussian(bits, _gaussian_grid(self.step.rho)[1], count)


@dataclass(frozen=True)
class LaplacePair:
    """Mangold et al.'s mechanism: selection and gradient are ε₀-DP each, so ε₀²/2-zCDP (Bun and Steinke 2016)."""

    pure: float
    """ε₀"""

    @property
    def selection(self) -> Cost[ReplaceOne]:
        """The cost of one selection."""
        return Cost(self.pure**2 / 2 * (1 + 1e-12), ReplaceOne)

    @property
    def step(self) -> Cost[ReplaceOne]:
        """The cost of one gradient."""
        return self.selection

    @property
    def grid(self) -> float:
        """The grid on which gradients are released, in units of their sensitivity."""
        return _laplace_grid(1.0 / self.pure)

    @property
    def deviation(self) -> float:
        """The standard deviation of a gradient's noise, in units of its sensitivity."""
        return math.sqrt(2) * self.grid * self._scale(1.0, self.grid)

    def select(self, bits: Bits, scores: FloatArray, sensitivity: float) -> int:
        """The index of the largest score under Laplace noise of scale 2Δ/ε₀; a score of −∞ is never selected."""
        grid = _laplace_grid(2 * sensitivity / self.pure)
        whole = np.rint(scores / grid).astype(np.int64)
        return int((whole + discrete_laplace(bits, self._scale(2 * sensitivity, grid, 2), len(whole))).argmax())

    def draw(self, bits: Bits, count: int) -> NDArray[np.int64]:
        """The noise of `count` gradients, in steps of the grid."""
        return discrete_laplace(bits, self._scale(1.0, self.grid), count)

    def _scale(self, sensitivity: float, grid: float, roundings: int = 1) -> int:
        """The Laplace scale in steps of the grid; each of the `roundings` may add a step to the sensitivity."""
        return math.ceil((sensitivity * SLACK / grid + roundings) / self.pure)


StepNoise = GumbelGaussian | LaplacePair
"""the noise of a step, and the cost of each of its two releases"""


def release(noise: StepNoise, value: float, drawn: int) -> float:
    """`value`, in units of its sensitivity, rounded to the grid, plus its noise `drawn`."""
    return float((np.rint(value / noise.grid) + drawn) * noise.grid)


def gumbel_scale(sensitivity: float, cost: Cost[ReplaceOne]) -> float:
    """The β of a selection at a cost of at most `cost`, for scores of this `sensitivity`."""
    return sensitivity * SLACK / math.sqrt(2 * cost.rho)


def pure_epsilon(target: float, delta: float, releases: int) -> float:
    """The largest ε₀, rounded down, for which `releases` releases together are (`target`, δ)-DP.

    Advanced composition (Dwork and Roth 2014, Theorem 3.20): ε = ε₀√(2k ln(1/δ)) + kε₀(e^ε₀ − 1).
    """
    if not (target > 0 and 0 < delta < 1 and releases >= 1):
        raise BadInput(f"epsilon is {target}, delta {delta}: they must be above 0, and delta below 1")
    low, high = 0.0, target / math.sqrt(2 * releases * math.log(1 / delta))
    while low < (middle := (low + high) / 2) < high:
        total = middle * math.sqrt(2 * releases * math.log(1 / delta)) + releases * middle * math.expm1(middle)
        low, high = (middle, high) if total * (1 + 1e-12) <= target else (low, middle)
    return low


@cache
def _gaussian_grid(rho: float) -> tuple[float, int]:
    return noise_on_grid(SLACK, rho, 1)


def _laplace_grid(scale: float) -> float:
    return 2.0 ** (math.frexp(scale)[1] - 21)


def truncated_squares(values: FloatArray, caps: FloatArray) -> FloatArray:
    """The means over k of min(x_kj², cap_j²)/cap_j² for `values` `[n_rows, d]`, `[d]`."""
    shares = np.minimum(np.abs(values) / caps, 1.0)
    return np.asarray(np.einsum("kj,kj->j", shares, shares) / len(values))


def shares_sensitivity(variables: int, rows: int) -> float:
    """The ℓ₂ sensitivity of the truncated squares of d `variables`: √d/n."""
    return float(np.sqrt(variables)) / rows


def private_squares(bits: Bits, values: FloatArray, caps: FloatArray, cost: Cost[ReplaceOne]) -> FloatArray:
    """The truncated squares of `values` `[n_rows, d]`, released at a cost of at most `cost`, `[d]`."""
    n, d = values.shape
    sensitivity = shares_sensitivity(d, n) * SLACK * rounding_margin(n)
    return release_on_grid(bits, truncated_squares(values, caps), sensitivity, cost.rho, 1.0)


def deviations(shares: FloatArray) -> FloatArray:
    """The standard deviation, over the cap, of a normal variable with each truncated square: from 1/5 to 2."""
    ratios, expected = _normal()
    return np.interp(shares, expected, ratios)


@cache
def _normal() -> tuple[FloatArray, FloatArray]:
    """Standard deviations over the cap, and the increasing function E min(x², cap²)/cap² of each."""
    ratios = np.geomspace(0.2, 2.0, 500)
    z = 1 / ratios
    within = erf(z / np.sqrt(2))
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return ratios, ratios**2 * (within - 2 * z * density) + 1 - within
