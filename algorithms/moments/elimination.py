"""The parents of each variable, from all that come before it in an order: for linear SEMs with equal error variances.

Each variable is regressed on everything before it, and parents are taken out one by one, the one that explains least
first, as long as none of those left is worth its price. No number of parents is too many for this, so it finds dense
graphs; but regressions on everything need many more rows than variables. `equal_variance.py` has the search for few
rows.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray

# A variable of whose variance the earlier ones leave less than this share counts as determined by them.
DETERMINED = 1e-9


def in_turn(order: NDArray[np.int64], precedes: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return `order` with each variable moved behind those that `precedes` `[d, d]` says come before it."""
    left, found = list(order), list[int]()
    while left:
        found.append(next(v for v in left if not precedes[left, v].any()))
        left.remove(found[-1])
    return np.array(found, np.int64)


def eliminated(
    S: FloatArray, order: NDArray[np.int64], rows: int, price: float, prior: Prior | None = None
) -> FloatArray:
    """Return the weights `[d, d]` of the parents that stay of all those before a variable in `order`.

    A parent goes while rows·ln(1 + t/s) < `price`, where t is the variance that it explains beyond the other parents
    and s what all of them leave. Impossible parents go first, whatever they explain, and required ones never. With no
    more rows than variables, those from place `rows` on are determined by the earlier ones, whatever the data are: as
    parents they are taken to have as much variance again of their own.
    """
    known = prior or no_prior(len(S))
    least = float(np.expm1(price / rows))
    return np.asarray(_eliminated(np.array(S), order, rows, least, known.possible, known.required))


@njit(cache=True)
def _eliminated(S, order, rows, least, possible, required):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the weights; a parent stays if it explains at least the share `least` of what is left."""
    d = len(S)
    weights, K = np.zeros((d, d)), np.empty((d, d))
    for place in range(d):
        j = order[place]
        before = order[:place]
        b = np.zeros(place)
        for a in range(place):
            for c in range(place):
                b[a] += K[a, c] * S[before[c], j]
        left = S[j, j]
        for a in range(place):
            left -= b[a] * S[before[a], j]
        left = max(left, DETERMINED * S[j, j])
        can, must = possible[before, j], required[before, j]
        _drop(K[:place, :place].copy(), b.copy(), left, before, least, can, must, weights[:, j])
        _extend(K, b, left if place < rows else left + S[j, j], place)
    return weights


@njit(cache=True)
def _drop(K, b, left, before, least, can, must, weights):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Take parents out of the regression with weights `b` and inverse moments K, the least first; note what stays.

    Those that cannot be parents go first, those that must be stay.
    """
    k = len(b)
    stays = np.ones(k, np.bool_)
    while True:
        weakest, explains, out = -1, np.inf, False
        for a in range(k):
            worth = b[a] * b[a] / K[a, a]
            if stays[a] and not must[a] and (not can[a], -worth) > (out, -explains):
                weakest, explains, out = a, worth, not can[a]
        if weakest < 0 or (not out and explains >= least * left):
            break
        stays[weakest] = False
        left += explains
        for a in range(k):
            if stays[a]:
                b[a] -= K[a, weakest] * b[weakest] / K[weakest, weakest]
        for a in range(k):
            if stays[a]:
                share = K[a, weakest] / K[weakest, weakest]
                for c in range(k):
                    if stays[c]:
                        K[a, c] -= share * K[weakest, c]
    for a in range(k):
        if stays[a]:
            weights[before[a]] = b[a]


@njit(cache=True)
def _extend(K, b, left, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make K the inverse moments of one variable more, whose regression on the others has weights b and leaves left."""
    for a in range(place):
        for c in range(place):
            K[a, c] += b[a] * b[c] / left
    for a in range(place):
        K[a, place] = K[place, a] = -b[a] / left
    K[place, place] = 1.0 / left
