"""PGCD, proximal greedy coordinate descent: the solver of a silo's lasso (Fassy El Fehri et al., §4.2, Eq. 8-9).

A step changes one entry of B. The score of entry (i, j) is √M_i |prox(B_ij − G_ij/M_i) − B_ij|, with G the gradient and
M_i = S_ii + r_i the curvature of ROW i. (The paper's Eq. 14 has the curvature of the column, with which even learning
without noise diverges.) The entry with the highest score takes a prox step of size γ/M_i.

A step on B_ij changes only column j of G, by δ·(S[:, i] + r_i e_i), so the columns are separate problems. Steps are
therefore taken in a working set of the column with the highest score: the nonzero entries of this column, and its
entries with a score above the tolerance. The descent in the working set ends when all its scores are at most a tenth of
the first score. The gradient and the scores of the other entries of the column are updated after that. A step costs the
size of the working set instead of O(d), and a column that is solved costs nothing.
"""

import numpy as np

from ..compiled import njit
from ..core.schema import FloatArray
from .problem import Lasso

LOCAL_TOLERANCE = 1e-3
"""a silo's lasso counts as solved when all scores are at most this, in units of the smallest root mean square"""
WORKING_SET_TOLERANCE = 0.1
"""the descent in a working set ends at this share of the score with which it began"""


def pgcd(problem: Lasso, gamma: float, tolerance: float, steps: int) -> FloatArray:
    """The approximate minimiser of `problem`, `[m, d]`, by descent from `problem.start`.

    The descent stops when no score exceeds `tolerance`, or after `steps` steps.
    """
    # A step reads whole columns, which are contiguous in transposed copies.
    B, G, allowed = (np.array(part.T, float, order="C") for part in (problem.start, problem.linear, problem.allowed))
    _descend(problem.S, B, G, problem.r, problem.l1, allowed, gamma, tolerance, steps)
    return np.ascontiguousarray(B.T)


@njit(cache=True)
def _descend(S, B, G, r, l1, allowed, gamma, tolerance, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Descend in place; `B`, `G` and `allowed` (one or zero) are transposed: `[d, m]`.

    `G` begins as the linear term and becomes the gradient.
    """
    d, m = B.shape
    M = np.diag(S) + r
    inverse, roots, shrinkage = 1 / M, np.sqrt(M), l1 / M
    best, scores = np.empty(d), np.empty(m)
    for j in range(d):
        G[j] -= S[j]
        _follow(G[j], np.flatnonzero(B[j]), B[j], S, r)
        best[j] = _best(B[j], G[j], inverse, roots, shrinkage, allowed[j], scores)[0]
    while steps > 0:
        greatest, j = _first_greatest(best)
        if greatest <= tolerance:
            return
        _best(B[j], G[j], inverse, roots, shrinkage, allowed[j], scores)
        rows = np.flatnonzero((scores > tolerance) | (B[j] != 0))
        enough = max(tolerance, WORKING_SET_TOLERANCE * greatest)
        scaling = inverse[rows], roots[rows], shrinkage[rows], allowed[j][rows]
        before = B[j].copy()
        left = _descend_within(rows, S, B[j], G[j][rows], r, scaling, gamma, enough, steps)
        if left == steps:  # the best score is above the tolerance by a rounding error, or numbers overflowed
            return
        steps = left
        _follow(G[j], rows, B[j] - before, S, r)
        best[j] = _best(B[j], G[j], inverse, roots, shrinkage, allowed[j], scores)[0]


@njit(cache=True)
def _follow(g, rows, change, S, r):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Update the gradient `g` of a column after a `change` of its weights in `rows`."""
    for i in rows:
        if change[i] != 0:
            g[i] += r[i] * change[i]
            for k in range(len(g)):
                g[k] += S[i, k] * change[i]


@njit(cache=True)
def _descend_within(rows, S, b, g, r, scaling, gamma, tolerance, steps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Descend in place in the entries `rows` of a column `b`, where `g` is the gradient; return the steps left."""
    inverse, roots, shrinkage, allowed = scaling
    weights, scores = b[rows], np.empty(len(rows))
    while steps > 0 and len(rows) > 0:
        score, at = _best(weights, g, inverse, roots, shrinkage, allowed, scores)
        if score <= tolerance:
            break
        moved = _prox(weights[at] - gamma * inverse[at] * g[at], gamma * shrinkage[at])
        delta, i = moved - weights[at], rows[at]
        weights[at] = moved
        for k in range(len(rows)):
            g[k] += S[i, rows[k]] * delta
        g[at] += r[i] * delta
        steps -= 1
    b[rows] = weights
    return steps


@njit(cache=True, fastmath={"nnan", "nsz"})
def _best(b, g, inverse, roots, shrinkage, allowed, scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The greatest score in a column with weights b and gradient g, and its row; `scores` `[m]` is scratch space."""
    for i in range(len(b)):
        x = b[i] - g[i] * inverse[i]
        scores[i] = roots[i] * abs(np.copysign(max(abs(x) - shrinkage[i], 0.0), x) - b[i]) * allowed[i]
    return _first_greatest(scores)


@njit(cache=True, fastmath={"nnan", "nsz"})  # numbers are finite: a maximum without a branch is vectorised
def _first_greatest(scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The greatest of `scores` `[n]`, at least 0, and its first position."""
    greatest = 0.0
    for i in range(len(scores)):
        greatest = max(greatest, scores[i])
    for i in range(len(scores)):
        if scores[i] == greatest:
            return greatest, i
    return 0.0, 0


@njit(cache=True)
def _prox(x: float, by: float) -> float:
    return x - by if x > by else (x + by if x < -by else 0.0)
