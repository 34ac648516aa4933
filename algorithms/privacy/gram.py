"""Private covariances: second moments as clipped integers with noise.

A row x is measured in units t, clipped to the norm R, and rounded towards zero to q, whole steps of R/2^bits. Then the
Frobenius norm of its contribution qqᵀ is at most 2^(2·bits), exactly. Replacing one row changes the sum by at most √2
times this bound (if both contributions are orthogonal). The upper triangle is released, with half the noise variance
off the diagonal, because an off-diagonal entry appears twice in the matrix.

The units determine the distribution of the noise over variables. The scale s_i of a variable is its root mean square.
With t_i = √s_i, the noise in the variance of variable i is proportional to s_i, and the bound is R² = c·Σ s_i. Among
all powers of s_i, this choice minimises the largest relative noise: t = s gives variables of small scale too little
noise and variables of large scale too much, and t = 1 is too noisy for variables of small scale. `correlation_units` is
for learners that use only correlations.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from ..statistics.moments import products
from ..statistics.packing import from_triangle, triangle

# Products of 53-bit floats are exact, and matrix products fast, as long as their sum stays below 2⁵³.
EXACT_BITS = 52
MAX_BITS = 14
# Margin for rounding errors in the norm of a clipped row before rounding towards zero.
SLACK = 1 - 2.0**-40
# The absolute value to which larger numbers are clipped, because their squares, and so the norm, would not be finite.
MAX_VALUE = 1e150
# Public scales and norms are from 1/MAX_SCALE to MAX_SCALE: outside this range, rounding could make clipped rows
# exceed the norm.
MAX_SCALE = 1e30


def units(scales: FloatArray) -> FloatArray:
    """The unit t_i = √s_i of each variable of scale s_i, `[d]`."""
    return np.sqrt(scales)


def radius(scales: FloatArray, clip: float) -> float:
    """R, the norm to which rows in units of `units(scales)` are clipped: R² = clip·Σ s_i."""
    return math.sqrt(clip * float(scales.sum()))


def correlation_units(scales: FloatArray, clip: float) -> tuple[FloatArray, float]:
    """Units and norm for equal noise in all correlations of d variables: t_i = s_i, and R² = clip·d."""
    return scales, radius(np.ones_like(scales), clip)


def require_scales(scales: FloatArray) -> None:
    """Raise `BadInput` for a public scale outside 1e-30 to 1e30; a silo cannot trust the scales that it receives."""
    if not ((scales >= 1 / MAX_SCALE) & (scales <= MAX_SCALE)).all():
        raise BadInput(f"a scale is not from {1 / MAX_SCALE:g} to {MAX_SCALE:g}: measure the column in another unit")


def bits_for(rows: int) -> int:
    """The number of bits of a coordinate for which the sum over `rows` rows is exact."""
    return min(MAX_BITS, (EXACT_BITS - math.ceil(math.log2(max(rows, 2)))) // 2)


def clipped(table: FloatArray, unit: FloatArray, R: float, bits: int) -> FloatArray:
    """The rows of `table` `[n_rows, d]` as whole numbers (of type float), each of norm at most 2^bits.

    The bound holds for any floats: infinite values are clipped, and NaN becomes 0.
    """
    with np.errstate(over="ignore"):
        q = np.clip(np.nan_to_num(table / unit), -MAX_VALUE, MAX_VALUE)
    norms = np.sqrt(np.einsum("ki,ki->k", q, q))
    q *= (2.0**bits / R * SLACK * np.minimum(1.0, R / np.maximum(norms, R / 2**bits)))[:, None]
    return np.asarray(np.trunc(q, out=q))


def integer_gram(table: FloatArray, unit: FloatArray, R: float, bits: int) -> NDArray[np.int64]:
    """The upper triangle of Σ_k q_k q_kᵀ over the rows, `[d(d+1)/2]`, exactly."""
    q = clipped(table, unit, R, bits)
    return triangle(products(q).astype(np.int64))


def gram_sensitivity(bits: int) -> float:
    """The ℓ₂ sensitivity of the triangle with off-diagonal entries counted twice: √2·2^(2·bits)."""
    return math.sqrt(2) * 2.0 ** (2 * bits)


def noise_variances(variables: int, variance: Fraction) -> list[tuple[NDArray[np.bool_], Fraction]]:
    """(entries of the triangle, variance of their noise): σ² on the diagonal, σ²/2 elsewhere."""
    i, j = np.triu_indices(variables)
    return [(i == j, variance), (i != j, variance / 2)]


def covariance(entries: NDArray[np.int64], unit: FloatArray, R: float, bits: int, rows: int) -> FloatArray:
    """The second moments `[d, d]` in the original units of the variables, from the (noisy) integer `entries`."""
    S = from_triangle(entries * (R / 2.0**bits) ** 2 / rows)
    return np.asarray(S * np.outer(unit, unit))


def positive_definite(S: FloatArray, scales: FloatArray, smallest: float) -> FloatArray:
    """`S` with its eigenvalues, in units of `scales`, raised to at least `smallest`; noise can make them negative."""
    values, vectors = np.linalg.eigh(S / np.outer(scales, scales))
    lifted = (vectors * np.maximum(values, smallest)) @ vectors.T
    return np.asarray(lifted * np.outer(scales, scales))
