"""BDeu and BIC of discrete families, each from the counts of one family alone (both are decomposable).

BDeu: Heckerman, Geiger & Chickering 1995, with the equivalent sample size spread evenly over the q states of the
parents and the r levels of the child; a state that does not occur contributes nothing. It is combined with the
structure prior of the published FedGES program: each of the d − 1 other variables is a parent with probability p.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.joint_states import DENSE, Ints, count_cells, count_occurring
from .families import Batch
from .settings import ScoreSettings

TOO_WIDE = -1e100
"""the score of a family that is not considered"""


class Criterion(NamedTuple):
    """What compiled code needs to score a family from its counts."""

    bdeu: bool
    """else BIC"""
    weight: float
    """BDeu's equivalent sample size, or BIC's ½ ln n"""
    prior: FloatArray
    """ln of the structure prior by the number of parents, `[d]`"""
    available: float = 0.0
    """of how many rows the counts are, if families with empty cells are counted without those rows; else 0"""


def criterion(settings: ScoreSettings, d: int, n: int, worth: int = 0, *, filled: bool = True) -> Criterion:
    """Return the criterion for `n` rows of `d` variables.

    Rows with empty cells are worth no more than `worth` complete ones (0: all are complete), and what was `filled` in
    is no evidence. They are scored by BIC with n·ln(worth)/(2 worth) for a parameter: by the counts of all n filled
    rows, or, before anything is filled in, by n times the mean mutual information of child and parents in those rows
    in which their cells are there (Bodewes, Scutari 2021: node-average likelihood).

    The prior is k ln p + (d − 1 − k) ln(1 − p) for k parents, with p = expected_parents / (d − 1), at most ½; each
    parent costs ln(1/p − 1). BIC has none.
    """
    if worth:
        price = 0.5 * n * math.log(worth) / worth
        return Criterion(False, price, np.zeros(d), 0.0 if filled else float(n))
    if settings.score == "bic":
        return Criterion(False, 0.5 * math.log(n), np.zeros(d))
    p = min(settings.expected_parents / max(d - 1, 1), 0.5)
    k = np.arange(d)
    return Criterion(True, settings.ess, k * math.log(p) + (d - 1 - k) * math.log1p(-p) if p > 0 else np.zeros(d))


def score_rows(
    columns: NDArray[np.int16],
    arities: Ints,
    batch: Batch,
    settings: ScoreSettings,
    most_cells: float = math.inf,
) -> FloatArray:
    """Return the score of every family of `batch` on the rows of `columns` `[n_variables, n_rows]`."""
    by = criterion(settings, len(arities), columns.shape[1])
    scores = np.full(len(batch), TOO_WIDE)
    narrow, widths = _score_narrow(columns, arities, batch.first, batch.members, by, min(most_cells, DENSE), scores)
    for m in np.flatnonzero(~narrow & (widths <= most_cells)).tolist():
        child, parents = batch.family(m)
        state, count = count_occurring(columns, arities, parents, child)
        r = arities[child]
        scores[m] = score_occurring(state, count, r, widths[m] / r, by) + by.prior[len(parents)]
    return scores


@njit(cache=True)
def _score_narrow(columns, arities, first, members, by, most, scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Score the families of at most `most` cells; return which those are, and how many cells each family has."""
    narrow, widths = np.zeros(len(scores), np.bool_), np.empty(len(scores))
    codes = np.empty(columns.shape[1], np.int32)
    cells, state, count = np.empty(DENSE, np.int64), np.empty(DENSE, np.int64), np.empty(DENSE, np.int64)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        r, q = arities[child], states_of(arities, parents)
        widths[m] = q * r
        if widths[m] <= most:
            narrow[m] = True
            table = cells[: int(q * r)]
            count_cells(columns, arities, parents, child, table, codes)
            scores[m] = score_cells(table, r, q, by, state, count) + by.prior[len(parents)]
    return narrow, widths


@njit(cache=True)
def states_of(arities, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many joint states `variables` have, as a float: there may be more than an integer holds."""
    states = 1.0
    for v in variables:
        states *= arities[v]
    return states


@njit(cache=True)
def score_cells(cells, r, q, by, state, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the score, without the prior, of a child with r levels from all q·r counts, the child's level last.

    `state` and `count`, as long as `cells` or longer, are scratch.
    """
    n = 0
    for cell in range(len(cells)):
        if cells[cell] > 0:
            state[n], count[n] = cell // r, cells[cell]
            n += 1
    return score_occurring(state[:n], count[:n], r, q, by)


@njit(cache=True)
def score_occurring(state, count, r, q, by):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the score from the counts above zero, in ascending order of the parents' `state`, whose number is q."""
    total = 0.0
    at = 0
    while at < len(state):
        end, n = at, 0
        while end < len(state) and state[end] == state[at]:
            n += count[end]
            end += 1
        if by.bdeu:
            total -= _rising(by.weight / q, n)
            for cell in range(at, end):
                total += _rising(by.weight / (q * r), count[cell])
        else:
            for cell in range(at, end):
                total += count[cell] * math.log(count[cell] / n)
        at = end
    return total if by.bdeu else total - by.weight * q * (r - 1)


@njit(cache=True)
def score_available(cells, r, q, by):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return n times the mutual information in all q·r counts, those of complete families, less BIC's price of it."""
    parents, child, n = np.zeros(len(cells) // r), np.zeros(r), 0.0
    for cell in range(len(cells)):
        parents[cell // r] += cells[cell]
        child[cell % r] += cells[cell]
        n += cells[cell]
    information = 0.0
    for cell in range(len(cells)):
        if cells[cell] > 0:
            information += cells[cell] * math.log(cells[cell] * n / (parents[cell // r] * child[cell % r]))
    mean = information / n if n > 0 else 0.0
    return by.available * mean - by.weight * (q - 1) * (r - 1)


@njit(cache=True)
def _rising(a, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return ln Γ(a + n) − ln Γ(a): for small n as the product a(a + 1)…(a + n − 1)."""
    if n > 12:
        return math.lgamma(a + n) - math.lgamma(a)
    product = a
    for i in range(1, n):
        product *= a + i
    return math.log(product)
