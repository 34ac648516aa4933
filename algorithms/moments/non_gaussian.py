"""Directions from non-Gaussian errors: 14 sums for each undirected edge of an equivalence class.

For two adjacent variables, Hyvärinen & Smith 2013 ("Pairwise likelihood ratios", Eq. 10) compare the entropies of cause
and residual in both directions: R = H(j) + H(r_i|j) − H(i) − H(r_j|i) > 0 favours i → j, where r_j|i is the residual of
j given i. The entropy of a standardised u is approximated from two means (Hyvärinen 1998): H(u) ≈ H(N) − k₁(E ln cosh u
− γ)² − k₂(E u e^(−u²/2))², where N is a standard Gaussian. Here i and j are residuals given their compelled parents, so
these parents do not confound the pair. With Gaussian errors R is 0 up to sampling error.

R compares two linear models. A model is right only if its residual is independent of the cause. With curved effects,
multiplicative errors or hidden causes, both models are wrong, and R can be large all the same. R takes eight of the 14
sums. The other six give the correlation between ln cosh of the cause and ln cosh of the residual in both directions
(ours). If most edges with a significant R have a large correlation in the direction of R, the linear model is wrong for
these data, and no edge is directed.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.cpdag import meek_closure
from ..graphs.dag import directed_part
from ..statistics.moments import regression_weights

K1, K2, GAMMA = 79.047, 7.4129, 0.37457
"""constants of Hyvärinen 1998"""
GAMMA_SQUARED = 0.33007
"""E (ln cosh u)² of a Gaussian u"""
MAX_DEPENDENCE, DEPENDENCE_ERRORS = 0.05, 2.0
"""a correlation of ln cosh of cause and residual counts as independence up to the larger of two bounds: this
correlation, and this number of standard errors"""
MIN_INDEPENDENT = 0.5
"""minimum share, among the edges with a significant R, of edges with independent residuals in the direction of R"""


def undirected_edges(cpdag: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The undirected edges (i, j), i < j, of `cpdag` `[d, d]`, `[n_edges, 2]`."""
    return np.argwhere(np.triu(cpdag & cpdag.T)).astype(np.int32).reshape(-1, 2)


def standardising(S: FloatArray, cpdag: NDArray[np.bool_]) -> FloatArray:
    """The matrix `[d, d]` that maps rows to residuals given compelled parents, scaled to variance 1."""
    residual_map = np.eye(len(S)) - regression_weights(S, directed_part(cpdag))
    variances = np.einsum("ij,ik,kj->j", residual_map, S, residual_map, optimize=True)
    return np.asarray(residual_map / np.sqrt(np.maximum(variances, 1e-300)))


def correlations(S: FloatArray, standard: FloatArray, edges: NDArray[np.int32]) -> FloatArray:
    """The correlation of the standardised ends of each edge, `[n_edges]`, below 1."""
    rho = np.einsum("ie,ik,ke->e", standard[:, edges[:, 0]], S, standard[:, edges[:, 1]], optimize=True)
    return np.asarray(np.clip(rho, -1 + 1e-9, 1 - 1e-9))


def contrast_sums(table: FloatArray, standard: FloatArray, edges: NDArray[np.int32], rho: FloatArray) -> FloatArray:
    """The sums over centred rows of `table` `[n_rows, d]` for the means of each edge, `[n_edges, 14]`.

    Four values u are used: i; j given i; j; i given j. The first eight sums are Σ ln cosh u and Σ u e^(−u²/2) of each.
    The next four are Σ (ln cosh u)² of each. The last two, for i → j and for j → i, are Σ ln cosh u · ln cosh r of
    cause u and residual r. A row with an empty cell (NaN) in a variable of an edge contributes the mean of the complete
    rows. If no row is complete, each row contributes the expectation for Gaussian data.
    """
    gaussian = np.array([GAMMA, 0.0] * 4 + [GAMMA_SQUARED] * 4 + [GAMMA**2] * 2)
    sums = np.tile(len(table) * gaussian, (len(edges), 1))
    rows = _standardise(table, standard)
    for e, (i, j) in enumerate(edges):
        complete = ~np.isnan(rows[:, i] + rows[:, j])
        if not complete.any():
            continue
        u, v, residual_scale = rows[complete, i], rows[complete, j], np.sqrt(1 - rho[e] ** 2)
        share = len(u) / len(rows)
        each = np.stack([u, (v - rho[e] * u) / residual_scale, v, (u - rho[e] * v) / residual_scale])
        log_cosh = np.logaddexp(each, -each) - np.log(2)
        products = log_cosh @ log_cosh.T
        sums[e, 0:8:2] = log_cosh.sum(axis=1) / share
        sums[e, 1:8:2] = (each * np.exp(-0.5 * each * each)).sum(axis=1) / share
        sums[e, 8:12] = np.diag(products) / share
        sums[e, 12:] = products[0, 1] / share, products[2, 3] / share
    return sums


def _standardise(table: FloatArray, standard: FloatArray) -> FloatArray:
    """The product `table @ standard`, with NaN only where an empty cell has a nonzero weight."""
    empty = np.isnan(table)
    if not empty.any():
        return np.asarray(table @ standard)
    incomplete = empty.astype(np.float64) @ (standard != 0) > 0
    return np.where(incomplete, np.nan, np.where(empty, 0.0, table) @ standard)


def contrasts(means: FloatArray) -> FloatArray:
    """R of each edge `[n_edges]`, above 0 for i → j, from its means `[n_edges, 14]`."""
    negentropy = negentropies(means[:, :8].reshape(len(means), -1, 2))
    return np.asarray(negentropy[:, 0] + negentropy[:, 1] - negentropy[:, 2] - negentropy[:, 3])


def dependences(means: FloatArray) -> FloatArray:
    """The correlations of ln cosh of cause and residual, for i → j and j → i, `[n_edges, 2]`, from `means`."""
    first = means[:, 0:8:2]
    spread = np.sqrt(np.maximum(means[:, 8:12] - first**2, 1e-12))
    return np.asarray((means[:, 12:] - first[:, 0::2] * first[:, 1::2]) / (spread[:, 0::2] * spread[:, 1::2]))


def credible_contrasts(means: FloatArray, rows: int, evidence: float) -> tuple[FloatArray, int]:
    """R of each edge, `[n_edges]`, and 0; if the linear model is wrong, zeros and the number of significant edges.

    R is significant if rows·|R| is above `evidence`. The linear model counts as wrong if the residual depends on the
    cause, in the direction of R, for more than half of the significant edges. Some dependent residuals are allowed,
    because an undirected neighbour of both ends can make a residual dependent.
    """
    R, both = contrasts(means), dependences(means)
    bound = max(MAX_DEPENDENCE, DEPENDENCE_ERRORS / math.sqrt(rows))
    independent = np.abs(np.where(R > 0, both[:, 0], both[:, 1])) <= bound
    tested = rows * np.abs(R) > evidence
    if tested.any() and independent[tested].mean() < MIN_INDEPENDENT:
        return np.zeros_like(R), int(tested.sum())
    return R, 0


def negentropies(means: FloatArray) -> FloatArray:
    """The negentropies H(N) − H(u) `[...]` of standardised u with these two means, `[..., 2]`; 0 if Gaussian."""
    return np.asarray(K1 * (means[..., 0] - GAMMA) ** 2 + K2 * means[..., 1] ** 2)


def direct_edges(
    cpdag: NDArray[np.bool_], edges: NDArray[np.int32], R: FloatArray, rows: int, evidence: float
) -> tuple[NDArray[np.bool_], int]:
    """The graph with directions for the edges with rows·|R| above `evidence`, and the number of directed edges.

    Edges are directed in the order of their strength; after each edge, Meek's rules direct the implied ones.
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
