"""The second moments of a table as integers, each row clipped: what a private covariance starts from.

A row x is measured in units t, clipped to the norm R, and rounded towards zero to whole steps; its contribution qqᵀ
then has a Frobenius norm of at most 2^(2·bits), exactly. Replacing one row moves the sum by at most √2 of that (both
parts at right angles). Released is the upper triangle, with half the noise variance off the diagonal, where an entry
stands for two.

The units decide where the noise goes. With t_i = √s_i for a variable of scale s_i, the noise of variance i is
proportional to s_i and the bound R² = c·Σ s_i: of all powers of s_i this makes the largest noise least (t = s leaves
the small variables too clear and the large ones in the dark; t = 1 drowns the small). For who looks at correlations
alone there is `alike`.

The reconstruction attack on NOTEARS-ADMM's plain replies: a silo's second moments from one B_p.

Source: Fassy El Fehri et al., A.1.

The attack is exact: it solves the local update B = (S + ρ₂I)⁻¹(ρ₂W − β + S) for S. In round 1, W = β = 0. Later rounds
give S away as well, since the coordinator can compute β from the replies and its own W.

How large each variable is, released privately and without a bound from the data: counts on a fixed public grid.

Every row puts one mark a variable into the bucket of |x|; the buckets are powers of 2^¼ from 2⁻²⁰ to 2²⁰, whatever the
data. A replaced row moves two counts a variable by one, so the counts of d variables have the ℓ₂ sensitivity √(2d),
however large its values. The scale is then the one whose normal distribution would fill the buckets most alike: a
matched filter, which sums over the buckets where rows are and is not led astray by noise in all the empty ones.
"""

import math
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from ..core.schema import FloatArray
from ..errors import BadInput
from ..statistics.moments import products
from ..statistics.packing import from_triangle, triangle

# Products of 53-bit floats are exact, and matrix products fast, as long as their sum stays below 2⁵³.
EXACT_BITS = 52
MOST_BITS = 14
# What a shrunken row's norm may gain by rounding before it is rounded towards zero.
SLACK = 1 - 2.0**-40
# What a number in its unit is taken for if it is greater: the squares of more would not be finite, nor have a norm.
LARGEST = 1e150


def units(scales: FloatArray) -> FloatArray:
    """The unit t_i = √s_i that each variable of scale s_i is measured in, `[d]`."""
    return np.sqrt(scales)


def radius(scales: FloatArray, clip: float) -> float:
    """R, the norm to which rows in these units are clipped: R² = clip·Σ s_i."""
    return math.sqrt(clip * float(scales.sum()))


def correlation_units(scales: FloatArray, clip: float) -> tuple[FloatArray, float]:
    """Units and norm that spread the noise alike over all correlations: t_i = s_i, and R² = c·d."""
    return scales, radius(np.ones_like(scales), clip)


def bits_for(rows: int) -> int:
    """How many bits a coordinate may have for the sum over `rows` rows to be exact."""
    return min(MOST_BITS, (EXACT_BITS - math.ceil(math.log2(max(rows, 2)))) // 2)


def clipped(table: FloatArray, unit: FloatArray, R: float, bits: int) -> FloatArray:
    """The rows of `table` `[n_rows, d]` as whole numbers (held as floats), each of norm at most 2^bits.

    That holds for any floats: what is infinite in its unit is clipped as well, what is not a number is 0.
    """
    with np.errstate(over="ignore"):
        q = np.clip(np.nan_to_num(table / unit), -LARGEST, LARGEST)
    norms = np.sqrt(np.einsum("ki,ki->k", q, q))
    q *= (2.0**bits / R * SLACK * np.minimum(1.0, R / np.maximum(norms, R / 2**bits)))[:, None]
    return np.asarray(np.trunc(q, out=q))


def integer_gram(table: FloatArray, unit: FloatArray, R: float, bits: int) -> NDArray[np.int64]:
    """The upper triangle of Σ_k q_k q_kᵀ over the rows, `[d(d+1)/2]`, exactly."""
    q = clipped(table, unit, R, bits)
    return triangle(products(q).astype(np.int64))


def gram_sensitivity(bits: int) -> float:
    """The ℓ₂ sensitivity of the triangle with its off-diagonal entries counted twice: √2·2^(2·bits)."""
    return math.sqrt(2) * 2.0 ** (2 * bits)


def noise_variances(variables: int, variance: Fraction) -> list[tuple[NDArray[np.bool_], Fraction]]:
    """Which entries of the triangle get which noise: σ² on the diagonal, σ²/2 elsewhere."""
    i, j = np.triu_indices(variables)
    return [(i == j, variance), (i != j, variance / 2)]


def covariance(entries: NDArray[np.int64], unit: FloatArray, R: float, bits: int, rows: int) -> FloatArray:
    """The second moments `[d, d]` in the variables' own units that the (noisy) integer `entries` stand for."""
    S = from_triangle(entries * (R / 2.0**bits) ** 2 / rows)
    return np.asarray(S * np.outer(unit, unit))


def positive_definite(S: FloatArray, scales: FloatArray, least: float) -> FloatArray:
    """`S` with the eigenvalues it has in units of `scales` raised to `least`: noise makes some negative."""
    values, vectors = np.linalg.eigh(S / np.outer(scales, scales))
    lifted = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray(lifted * np.outer(scales, scales))


def reconstruct_from_first_reply(B: FloatArray, rho2: float) -> FloatArray:
    """The second moments S `[d, d]` of the silo that replied `B` in round 1: ρ₂((I − B)⁻¹ − I).

    Source: Fassy El Fehri et al., A.1.
    """
    one = np.eye(len(B))
    return np.asarray(rho2 * (np.linalg.inv(one - B) - one))


def relative_error(guess: FloatArray, S: FloatArray) -> float:
    """‖guess − S‖_F / ‖S‖_F: 0 means that the silo's second moments are known exactly."""
    return float(np.linalg.norm(guess - S) / np.linalg.norm(S))


STEPS_A_DOUBLING = 4
EDGES: FloatArray = 2.0 ** np.arange(-20, 20 + 1e-9, 1 / STEPS_A_DOUBLING)
"""upper edges of the buckets; one more takes what is above the last"""
BUCKETS = len(EDGES) + 1
# Scales that are tried, a fifteenth apart.
CANDIDATES: FloatArray = 2.0 ** np.arange(-19, 19, 0.1)
# The least signal-to-noise ratio in the matched filter: with less, more than one scale in fifty is wrong by a factor of
# two.
LEAST_SIGNAL = 5.0


def bucket_counts(table: FloatArray) -> NDArray[np.int64]:
    """Return, for each variable, how many rows of `table` `[n_rows, d]` fall in each bucket, `[d, n_buckets]`."""
    at = np.searchsorted(EDGES, np.abs(table)) + BUCKETS * np.arange(table.shape[1])
    return np.bincount(at.ravel(), minlength=BUCKETS * table.shape[1]).reshape(-1, BUCKETS)


def counts_sensitivity(variables: int) -> float:
    """The ℓ₂ sensitivity of the counts of d variables: √(2d)."""
    return float(np.sqrt(2 * variables))


@cache
def profiles() -> FloatArray:
    """The share of a normal variable's values in each bucket, by candidate scale, `[n_scales, n_buckets]`."""
    below = erf(EDGES[None, :] / (np.sqrt(2) * CANDIDATES[:, None]))
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def require_signal(rows: int, deviation: float) -> None:
    """Raise `BadInput` if the counts of `rows` rows are lost in noise of this standard `deviation`."""
    if rows * float(np.linalg.norm(profiles()[len(CANDIDATES) // 2])) < LEAST_SIGNAL * deviation:
        raise BadInput(
            f"{rows} rows in all are too few for this budget: the noise in the counts that scales are from would have "
            f"the deviation {deviation:.0f}; allow a greater epsilon, or state the variables' scale if it is public"
        )


def scales(counts: NDArray[np.int64], variables: tuple[str, ...]) -> FloatArray:
    """Each variable's scale `[d]`, the root mean square of a normal one, from `counts` `[d, n_buckets]`.

    The counts may be noisy. Raises `BadInput` naming a variable that lies at an end of the grid.
    """
    best = (counts @ profiles().T).argmax(axis=1)
    for j in np.flatnonzero((best == 0) | (best == len(CANDIDATES) - 1)):
        raise BadInput(
            f"column '{variables[j]}': its scale lies outside 2^-19 to 2^19, or noise hides it: "
            "measure it in another unit, or allow a greater epsilon"
        )
    return np.asarray(CANDIDATES[best])
