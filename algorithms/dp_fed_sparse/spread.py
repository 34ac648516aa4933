"""How far values spread, released privately: mean squares of values clipped to a public cap.

mean_k min(x_k², cap²)/cap² lies between 0 and 1 and moves by at most 1/n when one record is replaced, so d of them have
the ℓ₂ sensitivity √d/n, however large the values (Fassy El Fehri et al., A.3 with b = cap²). From such a share follows
the standard deviation of the normal distribution that has it, however often the values were clipped.
"""

from functools import cache

import numpy as np
from scipy.special import erf

from ..core.promise import Cost, ReplaceOne
from ..core.schema import FloatArray
from ..privacy.discrete_gaussian import release_on_grid
from ..privacy.noise import Bits
from .step_noise import SLACK


def truncated_squares(values: FloatArray, caps: FloatArray) -> FloatArray:
    """Return mean_k min(x_kj², cap_j²)/cap_j² of `values` `[n_rows, d]`, `[d]`."""
    shares = np.minimum(np.abs(values) / caps, 1.0)
    return np.asarray(np.einsum("kj,kj->j", shares, shares) / len(values))


def shares_sensitivity(variables: int, rows: int) -> float:
    """Return the ℓ₂ sensitivity of the truncated squares of so many variables: √d/n."""
    return float(np.sqrt(variables)) / rows


def private_squares(bits: Bits, values: FloatArray, caps: FloatArray, cost: Cost[ReplaceOne]) -> FloatArray:
    """Release the truncated squares of `values` `[n_rows, d]` at a cost of at most `cost`, `[d]`."""
    n, d = values.shape
    return release_on_grid(bits, truncated_squares(values, caps), shares_sensitivity(d, n) * SLACK, cost.rho, 1.0)


def deviations(shares: FloatArray) -> FloatArray:
    """Return, over the cap, the standard deviation of a normal variable with each truncated square: from 1/5 to 2."""
    ratios, expected = _normal()
    return np.interp(shares, expected, ratios)


@cache
def _normal() -> tuple[FloatArray, FloatArray]:
    """Return standard deviations over the cap, and E min(x², cap²)/cap² of each: a rising function."""
    ratios = np.geomspace(0.2, 2.0, 500)
    z = 1 / ratios
    within = erf(z / np.sqrt(2))
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return ratios, ratios**2 * (within - 2 * z * density) + 1 - within
