"""The second moments of a table as integers, each row clipped: what a private covariance starts from.

A row x is measured in units t, clipped to the norm R, and rounded towards zero to whole steps; its contribution qqᵀ
then has a Frobenius norm of at most 2^(2·bits), exactly. Replacing one row moves the sum by at most √2 of that (both
parts at right angles). Released is the upper triangle, with half the noise variance off the diagonal, where an entry
stands for two.

The units decide where the noise goes. With t_i = √s_i for a variable of scale s_i, the noise of variance i is
proportional to s_i and the bound R² = c·Σ s_i: of all powers of s_i this makes the largest noise least (t = s leaves
the small variables too clear and the large ones in the dark; t = 1 drowns the small). For who looks at correlations
alone there is `alike`.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.moments import products
from ..statistics.symmetric import from_triangle, triangle

# Products of 53-bit floats are exact, and matrix products fast, as long as their sum stays below 2⁵³.
EXACT_BITS = 52
MOST_BITS = 14
# What a shrunken row's norm may gain by rounding before it is rounded towards zero.
SLACK = 1 - 2.0**-40
# What a number in its unit is taken for if it is greater: the squares of more would not be finite, nor have a norm.
LARGEST = 1e150


def units(scales: FloatArray) -> FloatArray:
    """Return the unit t_i = √s_i that each variable of scale s_i is measured in, `[d]`."""
    return np.sqrt(scales)


def radius(scales: FloatArray, clip: float) -> float:
    """Return R, the norm to which rows in these units are clipped: R² = clip·Σ s_i."""
    return math.sqrt(clip * float(scales.sum()))


def alike(scales: FloatArray, clip: float) -> tuple[FloatArray, float]:
    """Return units and norm that spread the noise alike over all correlations: t_i = s_i, and R² = c·d."""
    return scales, radius(np.ones_like(scales), clip)


def bits_for(rows: int) -> int:
    """Return how many bits a coordinate may have for the sum over `rows` rows to be exact."""
    return min(MOST_BITS, (EXACT_BITS - math.ceil(math.log2(max(rows, 2)))) // 2)


def clipped(table: FloatArray, unit: FloatArray, R: float, bits: int) -> FloatArray:
    """Return the rows of `table` `[n_rows, d]` as whole numbers (held as floats), each of norm at most 2^bits.

    That holds for any floats: what is infinite in its unit is clipped as well, what is not a number is 0.
    """
    with np.errstate(over="ignore"):
        q = np.clip(np.nan_to_num(table / unit), -LARGEST, LARGEST)
    norms = np.sqrt(np.einsum("ki,ki->k", q, q))
    q *= (2.0**bits / R * SLACK * np.minimum(1.0, R / np.maximum(norms, R / 2**bits)))[:, None]
    return np.asarray(np.trunc(q, out=q))


def integer_gram(table: FloatArray, unit: FloatArray, R: float, bits: int) -> NDArray[np.int64]:
    """Return the upper triangle of Σ_k q_k q_kᵀ over the rows, `[d(d+1)/2]`, exactly."""
    q = clipped(table, unit, R, bits)
    return triangle(products(q).astype(np.int64))


def gram_sensitivity(bits: int) -> float:
    """Return the ℓ₂ sensitivity of the triangle with its off-diagonal entries counted twice: √2·2^(2·bits)."""
    return math.sqrt(2) * 2.0 ** (2 * bits)


def noise_variances(variables: int, variance: Fraction) -> list[tuple[NDArray[np.bool_], Fraction]]:
    """Return which entries of the triangle get which noise: σ² on the diagonal, σ²/2 elsewhere."""
    i, j = np.triu_indices(variables)
    return [(i == j, variance), (i != j, variance / 2)]


def covariance(entries: NDArray[np.int64], unit: FloatArray, R: float, bits: int, rows: int) -> FloatArray:
    """Return the second moments `[d, d]` in the variables' own units that the (noisy) integer `entries` stand for."""
    S = from_triangle(entries * (R / 2.0**bits) ** 2 / rows)
    return np.asarray(S * np.outer(unit, unit))


def positive(S: FloatArray, scales: FloatArray, least: float) -> FloatArray:
    """Return `S` with the eigenvalues it has in units of `scales` raised to `least`: noise makes some negative."""
    values, vectors = np.linalg.eigh(S / np.outer(scales, scales))
    lifted = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray(lifted * np.outer(scales, scales))
