"""Gaussian BIC of a linear regression of each variable on its parents, from second moments alone.

−n/2 (ln 2πσ² + 1) − ½ ln n (k + 2) with k parents, an intercept and the residual variance σ², the Schur complement of
the parents in the covariance about the mean. Moments of several silos add up, so the pooled score takes one exchange.

The conditional Gaussian score of mixed data, from moments by configuration (Andrews, Ramsey, Cooper 2018).

score(X | Pa) = L(X ∪ Pa) − L(Pa), where a set with the discrete members D and the continuous members C has

L = Σ_k [n_k ln(n_k/n) − n_k/2·(ln|2πΣ_k| + |C|)] − ½ ln n·(q − 1 + q·|C|(|C| + 3)/2):

the likelihood of a Gaussian of C for each of the q configurations k of D, less the BIC's price (Eq. 3 to 6 there). A
configuration of few rows has no covariance of its own; it takes that of all rows about the configurations' means, as
Tetrad does.

The degenerate Gaussian score of mixed data, from second moments of the coded table (Andrews, Ramsey, Cooper 2019).

score(X | Pa) = −n/2·(ln|R_{X ∪ Pa}| − ln|R_Pa|) − c/2·ln n·|X|·Σ|Pa|, R the correlations of the coded columns and |·| a
number of columns (Eq. 7 there, without what is the same for all parents). With c = 2 it takes twice the BIC's price: an
indicator is no normal variable, and its likelihood exaggerates.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.coding import Blocks, log_left
from ..statistics.count_tables import PAD
from ..statistics.moments import covariance
from ..statistics.rows import configuration_offsets
from .discrete import sets_of
from .families import Batch

_FLAT = 1e-12
"""a residual variance below this share of the variance is rounding: the parents determine the variable"""


def score_moments(moments: FloatArray, d: int, batch: Batch) -> FloatArray:
    """The score of every family of `batch` on the rows that the (summed) `moments` are of."""
    n, S = covariance(moments, d)
    return score_covariance(n, S, batch)


def score_covariance(n: int, S: FloatArray, batch: Batch) -> FloatArray:
    """The score of every family of `batch` on n rows with the covariance `S` `[d, d]`."""
    return np.asarray(_gaussian_score(n, S, batch.first, batch.members))


@njit(cache=True)
def _gaussian_score(n, S, first, members):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.empty(len(first) - 1)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        variance = _residual_variance(S, child, parents)
        scores[m] = -0.5 * n * (math.log(2 * math.pi * variance) + 1) - 0.5 * math.log(n) * (len(parents) + 2)
    return scores


@njit(cache=True)
def _residual_variance(S, child, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The variance of `child` given `parents`, by a Cholesky factor of their covariance, row by row.

    A parent that the others determine adds nothing.
    """
    k = len(parents)
    L = np.zeros((k + 1, k + 1))
    for i in range(k + 1):
        v = child if i == k else parents[i]
        for j in range(i):
            dot = S[v, parents[j]]
            for t in range(j):
                dot -= L[i, t] * L[j, t]
            L[i, j] = dot / L[j, j] if L[j, j] > 0 else 0.0
        left = S[v, v]
        for t in range(i):
            left -= L[i, t] * L[i, t]
        if i == k:
            return max(left, _FLAT * S[v, v], 1e-300)
        L[i, i] = math.sqrt(left) if left > _FLAT * S[v, v] else 0.0
    return 0.0


SPARE = 10
"""rows that a configuration must have beyond its continuous members for a covariance of its own"""
_MIN_VARIANCE, _LEAST = 1e-10, 1e-300
"""the share of a variance, and what more, that no covariance is without: what is less is rounding"""


def score_configurations(
    numbers: FloatArray,
    batch: Batch,
    levels: NDArray[np.int64],
    discrete: NDArray[np.bool_],
    rows: int,
    most_cells: float,
) -> FloatArray:
    """The scores of `batch` from summed `numbers`, the moments by configuration of its sets one after another.

    A family of more than `most_cells` configurations is excluded: its score is −∞.
    """
    chosen = sets_of(batch, levels, most_cells)
    begins = configuration_offsets(chosen.sets, levels, discrete)
    model = (levels, discrete, rows)
    return np.asarray(
        _conditional_gaussian_score(numbers, begins, chosen.sets, chosen.table_of, batch.first, batch.members, model)
    )


@njit(cache=True)
def _conditional_gaussian_score(numbers, begins, sets, table_of, first, members, model):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.full(len(first) - 1, -np.inf)
    inside = np.zeros(len(model[0]), np.bool_)
    for m in range(len(scores)):
        if table_of[m] == PAD:
            continue
        at, members_of = sets[table_of[m]], members[first[m] : first[m + 1]]
        table = numbers[begins[table_of[m]] : begins[table_of[m] + 1]]
        inside[members_of] = True
        scores[m] = _likelihood(table, at, inside, model)
        inside[members_of[0]] = False
        scores[m] -= _likelihood(table, at, inside, model)
        inside[members_of] = False
    return scores


@njit(cache=True)
def _likelihood(table, members, inside, model):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """L of the members that are `inside`, from the moments of all `members`."""
    n = model[2]
    moments, c = _margin(table, members, inside, model)
    q = len(moments)
    scatters, common = np.zeros((q, c, c)), np.zeros((c, c))
    for k in range(q):
        if moments[k, 0] > 0:
            scatters[k] = _scatter(moments[k], c, n)
            common += scatters[k] / n
    least = _MIN_VARIANCE * np.diag(common) + _LEAST
    found = 0.0
    for k in range(q):
        n_k = moments[k, 0]
        if n_k <= 0:
            continue
        found += n_k * math.log(n_k / n)
        if c:
            S = (scatters[k] / n_k if n_k > c + SPARE else common) + np.diag(least)
            found -= 0.5 * (n_k * (np.linalg.slogdet(S)[1] + c * math.log(2 * math.pi)))
            found -= 0.5 * np.trace(np.linalg.solve(S, scatters[k]))
    return found - 0.5 * math.log(n) * (q - 1 + q * c * (c + 3) / 2)


@njit(cache=True)
def _margin(table, members, inside, model):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The moments of the members that are `inside` by their configurations, and how many are continuous."""
    levels, discrete, _ = model
    q, among, c, places_of = 1, 0, 0, np.empty(len(members), np.int64)
    for v in members:
        if v != PAD and not discrete[v]:
            if inside[v]:
                places_of[c] = among
                c += 1
            among += 1
        elif v != PAD and inside[v]:
            q *= levels[v]
    size = 1 + among + among * (among + 1) // 2
    moments = np.zeros((q, 1 + c + c * (c + 1) // 2))
    for k in range(len(table) // size):
        to, step, left = 0, 1, k
        for v in members[::-1]:
            if v != PAD and discrete[v]:
                if inside[v]:
                    to += step * (left % levels[v])
                    step *= levels[v]
                left //= levels[v]
        block, entry = table[k * size : (k + 1) * size], 1 + c
        moments[to, 0] += block[0]
        for a in range(c):
            i = places_of[a]
            moments[to, 1 + a] += block[1 + i]
            for b in range(a, c):
                at = 1 + among + i * among - i * (i - 1) // 2 + places_of[b] - i
                moments[to, entry] += block[at]
                entry += 1
    return moments, c


@njit(cache=True)
def _scatter(moments, c, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The sums of products about the means `[c, c]` of a configuration, whose sums are parts of means of n."""
    scatter, entry = np.empty((c, c)), 1 + c
    for a in range(c):
        for b in range(a, c):
            scatter[a, b] = n * (moments[entry] - n * moments[1 + a] * moments[1 + b] / moments[0])
            scatter[b, a] = scatter[a, b]
            entry += 1
    return scatter


PRICE = 2.0
"""c, how many times the BIC's price a parent costs"""


def price_of(rows: int) -> float:
    """Return what a pair of columns of child and parent costs in twice the log-likelihood: c·ln n."""
    return PRICE * math.log(rows)


def score_blocks(blocks: Blocks, batch: Batch) -> FloatArray:
    """The score of every family of `batch`."""
    return np.asarray(
        _degenerate_gaussian_score(
            blocks.rows, blocks.R, blocks.first, batch.first, batch.members, price_of(blocks.rows)
        )
    )


@njit(cache=True)
def _degenerate_gaussian_score(n, R, columns, first, members, price):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.empty(len(first) - 1)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        pairs = 0
        for p in parents:
            pairs += (columns[p + 1] - columns[p]) * (columns[child + 1] - columns[child])
        scores[m] = -0.5 * n * log_left(R, columns, child, parents) - 0.5 * price * pairs
    return scores
