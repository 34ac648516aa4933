"""Directions from errors that are not Gaussian: what second moments leave open, third and higher ones may tell.

For two variables joined in either direction, Hyvärinen & Smith 2013 ("Pairwise likelihood ratios", Eq. 10) compare the
entropies of cause and residual in both directions: R = H(j) + H(r_i|j) − H(i) − H(r_j|i) > 0 speaks for i → j. The
entropy of a standardised u is approximated from two means (Hyvärinen 1998): H(u) ≈ H(N) − k₁(E ln cosh u − γ)² − k₂(E u
e^(−u²/2))². Here i and j are what their compelled parents leave of them, so that these do not confound the pair.

The means are sums over the silos: eight numbers an edge, in one exchange. With Gaussian errors R is 0 up to sampling.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.cpdag import meek_closure
from ..graphs.skeleton import directed_part
from ..parameters.refit import refit

K1, K2, GAMMA = 79.047, 7.4129, 0.37457
"""of Hyvärinen 1998"""
NUMBERS = 8
"""an edge"""


def undirected(cpdag: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the edges (i, j), i < j, of `cpdag` `[d, d]` that have no direction, `[n_edges, 2]`."""
    return np.argwhere(np.triu(cpdag & cpdag.T)).astype(np.int32).reshape(-1, 2)


def standardising(S: FloatArray, cpdag: NDArray[np.bool_]) -> FloatArray:
    """Return the matrix `[d, d]` that makes of rows what compelled parents leave of each variable, with variance 1."""
    left = np.eye(len(S)) - refit(S, directed_part(cpdag))
    variances = np.einsum("ij,ik,kj->j", left, S, left, optimize=True)
    return np.asarray(left / np.sqrt(np.maximum(variances, 1e-300)))


def correlations(S: FloatArray, standard: FloatArray, edges: NDArray[np.int32]) -> FloatArray:
    """Return the correlation of the standardised ends of each edge, `[n_edges]`, below 1."""
    both = np.einsum("ie,ik,ke->e", standard[:, edges[:, 0]], S, standard[:, edges[:, 1]], optimize=True)
    return np.asarray(np.clip(both, -1 + 1e-9, 1 - 1e-9))


def sums(table: FloatArray, standard: FloatArray, edges: NDArray[np.int32], rho: FloatArray) -> FloatArray:
    """Return what the rows of `table` `[n_rows, d]`, centred, add to the eight means of each edge, `[n_edges, 8]`.

    Σ ln cosh u and Σ u e^(−u²/2) of: i, j given i, j, i given j. Rows in which a cell is empty (NaN) that an edge needs
    count as the mean of the others, or, where there are no others, as Gaussian ones.
    """
    found = np.tile([GAMMA * len(table), 0.0], (len(edges), NUMBERS // 2))
    rows = _standardised(table, standard)
    for e, (i, j) in enumerate(edges):
        there = ~np.isnan(rows[:, i] + rows[:, j])
        if not there.any():
            continue
        u, v, rest = rows[there, i], rows[there, j], np.sqrt(1 - rho[e] ** 2)
        share = len(u) / len(rows)
        for place, one in enumerate((u, (v - rho[e] * u) / rest, v, (u - rho[e] * v) / rest)):
            found[e, 2 * place] = (np.logaddexp(one, -one).sum() - len(one) * np.log(2)) / share
            found[e, 2 * place + 1] = one @ np.exp(-0.5 * one * one) / share
    return found


def _standardised(table: FloatArray, standard: FloatArray) -> FloatArray:
    """Return `table @ standard`, NaN only where a cell is empty that has a weight."""
    empty = np.isnan(table)
    if not empty.any():
        return np.asarray(table @ standard)
    lacking = empty.astype(np.float64) @ (standard != 0) > 0
    return np.where(lacking, np.nan, np.where(empty, 0.0, table) @ standard)


def contrasts(means: FloatArray) -> FloatArray:
    """Return R of each edge `[n_edges]`, above 0 for i → j, from its eight means `[n_edges, 8]`."""
    found = bent(means.reshape(len(means), -1, 2))
    return np.asarray(found[:, 0] + found[:, 1] - found[:, 2] - found[:, 3])


def bent(means: FloatArray) -> FloatArray:
    """Return the negentropies H(N) − H(u) `[...]` of standardised u with these two means, `[..., 2]`; 0 if Gaussian."""
    return np.asarray(K1 * (means[..., 0] - GAMMA) ** 2 + K2 * means[..., 1] ** 2)


def directed(
    cpdag: NDArray[np.bool_], edges: NDArray[np.int32], R: FloatArray, rows: int, evidence: float
) -> tuple[NDArray[np.bool_], int]:
    """Return the graph with the edges directed for which rows·|R| exceeds `evidence`, and how many it directed.

    The strongest goes first, and after each Meek's rules direct what follows from it.
    """
    graph, count = cpdag.copy(), 0
    for e in np.argsort(-np.abs(R), kind="stable"):
        i, j = edges[e] if R[e] > 0 else edges[e][::-1]
        if rows * abs(R[e]) <= evidence:
            break
        if graph[i, j] and graph[j, i]:
            graph[j, i] = False
            graph, count = meek_closure(graph), count + 1
    return graph, count
