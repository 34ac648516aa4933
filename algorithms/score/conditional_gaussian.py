"""The conditional Gaussian score of mixed data, from moments by configuration (Andrews, Ramsey, Cooper 2018).

score(X | Pa) = L(X ∪ Pa) − L(Pa), where a set with the discrete members D and the continuous members C has

L = Σ_k [n_k ln(n_k/n) − n_k/2·(ln|2πΣ_k| + |C|)] − ½ ln n·(q − 1 + q·|C|(|C| + 3)/2):

the likelihood of a Gaussian of C for each of the q configurations k of D, less the BIC's price (Eq. 3 to 6 there). A
configuration of few rows has no covariance of its own; it takes that of all rows about the configurations' means, as
Tetrad does.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.configuration_moments import places
from ..statistics.count_tables import PAD
from .families import Batch
from .tables import sets_of

SPARE = 10
"""rows that a configuration must have beyond its continuous members for a covariance of its own"""
_FLAT, _LEAST = 1e-10, 1e-300
"""the share of a variance, and what more, that no covariance is without: what is less is rounding"""


def score_configurations(
    numbers: FloatArray,
    batch: Batch,
    levels: NDArray[np.int64],
    discrete: NDArray[np.bool_],
    rows: int,
    most_cells: float,
) -> FloatArray:
    """Return the scores of `batch` from summed `numbers`, the moments by configuration of its sets one after another.

    A family of more than `most_cells` configurations is excluded: its score is −∞.
    """
    chosen = sets_of(batch, levels, most_cells)
    begins = places(chosen.sets, levels, discrete)
    model = (levels, discrete, rows)
    return np.asarray(_score(numbers, begins, chosen.sets, chosen.table_of, batch.first, batch.members, model))


@njit(cache=True)
def _score(numbers, begins, sets, table_of, first, members, model):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
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
    """Return L of the members that are `inside`, from the moments of all `members`."""
    n = model[2]
    moments, c = _margin(table, members, inside, model)
    q = len(moments)
    scatters, common = np.zeros((q, c, c)), np.zeros((c, c))
    for k in range(q):
        if moments[k, 0] > 0:
            scatters[k] = _scatter(moments[k], c, n)
            common += scatters[k] / n
    least = _FLAT * np.diag(common) + _LEAST
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
    """Return the moments of the members that are `inside` by their configurations, and how many are continuous."""
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
    """Return the sums of products about the means `[c, c]` of a configuration, whose sums are parts of means of n."""
    scatter, entry = np.empty((c, c)), 1 + c
    for a in range(c):
        for b in range(a, c):
            scatter[a, b] = n * (moments[entry] - n * moments[1 + a] * moments[1 + b] / moments[0])
            scatter[b, a] = scatter[a, b]
            entry += 1
    return scatter
