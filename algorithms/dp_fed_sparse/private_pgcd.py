"""DP-PGCD: proximal greedy coordinate descent with private access to the rows.

Source: Fassy El Fehri et al., Algorithm 2, Eq. 11-12.

A step selects one entry (i, j) by its score with the exponential mechanism and moves it along its gradient, which is
released with noise; nothing else depends on the rows. The result is therefore a function of what was released, and its
cost is known before the first step. Without noise and clipping this is `admm/pgcd.py`.

Score of (i, j): √M_i |prox(B_ij − G_ij/M_i) − B_ij|·w_j. The proximal operator is nonexpansive, so a score moves by at
most w_j/√M_i times as far as G_ij, which moves by at most 2L_ij/n (`clipping.py`). The public weights w_j even out
columns with different bounds, so that the largest bound does not set the noise scale for all. A step changes one column
of the residuals, of the gradient and of the scores: O(n·d).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..admm.consensus_step import soft_threshold
from ..core.schema import FloatArray
from ..privacy.noise import Bits, child
from .clipping import BEYOND, Clip
from .step_noise import SLACK, StepNoise, release


@dataclass(frozen=True)
class PrivateProblem:
    """A silo's lasso: loss(B; rows) + ⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over `allowed`; only rows are private.

    The loss is ½tr((I − B)ᵀS(I − B)), or what clipping makes of it; `start` is zero outside `allowed`.
    """

    linear: FloatArray
    r: FloatArray
    M: FloatArray
    """curvature of each row, `[d]`: a public estimate of S_ii, plus r_i"""
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray
    clip: Clip
    weights: FloatArray
    """w_j, the factor of each column's scores, `[d]`"""


@dataclass(frozen=True)
class Entries:
    """The allowed entries, column by column."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    ends: NDArray[np.intp]
    """column j has the entries from ends[j] to ends[j + 1]"""

    def of(self, j: int) -> slice:
        """Return which entries are in column j."""
        return slice(int(self.ends[j]), int(self.ends[j + 1]))


def entries(allowed: NDArray[np.bool_]) -> Entries:
    """Return the entries of `allowed` `[d, d]`."""
    columns, rows = np.nonzero(allowed.T)
    return Entries(rows, columns, np.searchsorted(columns, np.arange(len(allowed) + 1)))


def bounded(table: FloatArray, scales: FloatArray) -> FloatArray:
    """Return `table` `[n_rows, d]` with no value beyond `BEYOND` times its variable's scale, record by record."""
    return np.clip(table, -BEYOND * scales, BEYOND * scales)


def residuals(table: FloatArray, B: FloatArray) -> FloatArray:
    """Return X − XB, transposed: `[d, n_rows]`."""
    columns = np.ascontiguousarray(table.T)
    R = columns.copy()
    _subtract(columns, R, B)
    return R


def dp_pgcd(
    problem: PrivateProblem,
    table: FloatArray,
    R: FloatArray,
    noise: StepNoise,
    steps: int,
    gamma: float,
    key: bytes,
) -> FloatArray:
    """Return B after `steps` private steps of size γ from the start, `[d, d]`.

    `table` is `bounded`; `R` `[d, n_rows]` are its `residuals` under the start, and are overwritten.
    """
    B, table_columns = problem.start.copy(), np.ascontiguousarray(table.T)
    factors, where = problem.clip.factors(table), entries(problem.allowed)
    G, S = problem.clip.gradient(factors, R, slice(None)), np.empty(len(where.rows))
    for j in range(len(B)):
        S[where.of(j)] = scores(problem, G[:, j], B[:, j], where, j)
    unit = 2 * problem.clip.reach / len(table)
    sensitivity = score_sensitivity(problem, len(table))
    choosing = Bits(child(key, "choices"))
    for drawn in noise.draw(Bits(child(key, "gradients")), steps):
        chosen = noise.select(choosing, S, sensitivity)
        i, j = int(where.rows[chosen]), int(where.columns[chosen])
        g = release(noise, G[i, j] / unit[i, j], int(drawn)) * unit[i, j]
        g += problem.linear[i, j] + problem.r[i] * B[i, j]
        size = gamma / problem.M[i]
        moved = float(soft_threshold(B[i, j] - size * g, size * problem.l1[i]))
        if moved != B[i, j]:
            R[j] -= (moved - B[i, j]) * table_columns[i]
            B[i, j] = moved
            G[:, j] = problem.clip.gradient(factors, R[j : j + 1], slice(j, j + 1))[:, 0]
            S[where.of(j)] = scores(problem, G[:, j], B[:, j], where, j)
    return B


def scores(problem: PrivateProblem, G: FloatArray, B: FloatArray, where: Entries, j: int) -> FloatArray:
    """Return the scores of the entries of column j, for its data term `G` and its weights `B`, both `[d]`."""
    i = where.rows[where.of(j)]
    M, b = problem.M[i], B[i]
    g = G[i] + problem.linear[i, j] + problem.r[i] * b
    return np.asarray(np.sqrt(M) * np.abs(soft_threshold(b - g / M, problem.l1[i] / M) - b) * problem.weights[j])


def score_sensitivity(problem: PrivateProblem, rows: int) -> float:
    """Return Δ_S, the most that any score moves when one record is replaced."""
    moves = 2 * problem.clip.reach / rows / np.sqrt(problem.M)[:, None] * problem.weights
    return float(moves[problem.allowed].max()) * SLACK


@njit(cache=True)
def _subtract(columns, R, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Subtract from `R` the part of every column that the others explain, skipping zeros of B."""
    d, n = columns.shape
    for j in range(d):
        for i in range(d):
            if B[i, j] != 0.0:
                for k in range(n):
                    R[j, k] -= B[i, j] * columns[i, k]
