"""BDeu and BIC of discrete families, each from the counts of one family alone (both are decomposable).

BDeu: Heckerman, Geiger & Chickering 1995, with the equivalent sample size spread evenly over the q states of the
parents and the r levels of the child; every state that does not occur contributes nothing. On top of it the structure
prior of the published FedGES program: each of the d − 1 other variables is a parent with probability p.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..protocol import FloatArray
from .counts import DENSE, count_cells, count_occurring
from .families import Batch
from .settings import ScoreSettings


def score_rows(
    columns: NDArray[np.int32], arities: NDArray[np.int64], batch: Batch, settings: ScoreSettings
) -> FloatArray:
    """Return the score of every family of `batch` on the rows of `columns` `[n_variables, n_rows]`."""
    bdeu, weight, prior = weights_of(settings, len(arities), columns.shape[1])
    return np.asarray(_score_rows(columns, arities, batch.first, batch.members, bdeu, weight, prior))


def weights_of(settings: ScoreSettings, d: int, n: int) -> tuple[bool, float, FloatArray]:
    """Return what `score_cells` needs: whether BDeu is meant, its sample size or BIC's ½ ln n, and the structure prior.

    The prior is listed by the number of parents: k ln p + (d − 1 − k) ln(1 − p), with p = expected_parents / (d − 1), at
    most ½; 0 parents expected means no prior. It adds −ln(1/p − 1) for each parent.
    """
    p = min(settings.expected_parents / max(d - 1, 1), 0.5)
    k = np.arange(d)
    prior = k * math.log(p) + (d - 1 - k) * math.log1p(-p) if p > 0 else np.zeros(d)
    bdeu = settings.score == "bdeu"
    return bdeu, settings.ess if bdeu else 0.5 * math.log(n), prior


@njit(cache=True)
def _score_rows(columns, arities, first, members, bdeu, weight, prior):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.empty(len(first) - 1)
    codes = np.empty(columns.shape[1], np.int32)
    cells = np.empty(DENSE, np.int32)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        variables = np.append(parents, child)
        states = 1.0
        for v in parents:
            states *= arities[v]
        if states * arities[child] <= DENSE:
            size = np.int64(states) * arities[child]
            count_cells(columns, arities, variables, cells[:size], codes)
            own = score_cells(cells[:size], arities[child], states, bdeu, weight)
        else:
            state, _, count = count_occurring(columns, arities, variables)
            own = score_occurring(state, count, len(count), arities[child], states, bdeu, weight)
        scores[m] = own + prior[len(parents)]
    return scores


@njit(cache=True)
def score_cells(cells, r, q, bdeu, weight):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the score, without the prior, of a child with r levels from all q·r counts, the child's level last."""
    occurring = np.flatnonzero(cells)
    return score_occurring(occurring // r, cells[occurring], len(occurring), r, q, bdeu, weight)


@njit(cache=True)
def score_occurring(state, count, size, r, q, bdeu, weight):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the score from the counts above zero, in ascending order of the parents' `state`, whose number is q."""
    total = 0.0
    at = 0
    while at < size:
        end, n = at, 0
        while end < size and state[end] == state[at]:
            n += count[end]
            end += 1
        if bdeu:
            total -= _rising(weight / q, n)
            for cell in range(at, end):
                total += _rising(weight / (q * r), count[cell])
        else:
            for cell in range(at, end):
                total += count[cell] * math.log(count[cell] / n)
        at = end
    return total if bdeu else total - weight * q * (r - 1)


@njit(cache=True)
def _rising(a, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """ln Γ(a + n) − ln Γ(a): for small n as the product a(a + 1)…(a + n − 1)."""
    if n > 12:
        return math.lgamma(a + n) - math.lgamma(a)
    product = a
    for i in range(1, n):
        product *= a + i
    return math.log(product)
