"""Backward elimination of parents from second moments: the weakest first, until each parent is worth its penalty.

Each variable is regressed on all columns before it in an order. If there are many variables and rows, the t-values of
all these regressions are computed from one triangular inverse in O(d³). Then columns with small t-values are excluded
before the elimination (screening). Removing a parent updates the inverse moments of the others in O(k²) for k
candidates.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from ..compiled import njit
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray

# A residual variance below this share of the variable's variance is a rounding error, and is replaced by this share.
MIN_RESIDUAL_SHARE = 1e-9
MIN_CANDIDATE_T = 1.75
"""screening removes candidates with a smaller t-value in the regression on all earlier columns"""
MAX_UNSCREENED = 100
"""number of variables above which elimination is screened, so that it is not O(d⁴)"""
MANY_ROWS, LEAST_ROWS = 10, 2
"""numbers of rows per variable above which candidates are screened at `MIN_CANDIDATE_T`, and at all"""
KEPT_BY_CHANCE = 120
"""with fewer than `MANY_ROWS`, parents with a joint effect can have small t-values. So screening then keeps this number
of the columns without an effect before an average variable, or all if they are fewer"""

Eliminated = dict[int, tuple[NDArray[np.int64], FloatArray]]
"""the candidates of a variable's last elimination, and the resulting weights `[m]`"""


def backward_elimination(
    S: FloatArray,
    order: NDArray[np.int64],
    rows: int,
    price: float,
    prior: Prior | None = None,
    known: Eliminated | None = None,
) -> FloatArray:
    """The weights `[d, d]` after backward elimination from all earlier variables in `order`.

    A parent is removed while rows·ln(1 + t/s) < `price`, where t is the variance that it explains beyond the other
    parents and s the residual variance given all of them. Impossible parents are removed first; required parents stay.
    If there are no more rows than variables, every variable from position `rows` on is an exact linear function of the
    earlier variables. Where such a variable is a parent, its variance is doubled, so that moments can be inverted.

    If there are many variables and rows, candidates with a small t-value are removed first.
    """
    from scipy.special import ndtri  # imported late: most processes need no quantiles

    d, knowledge = len(S), prior or no_prior(len(S))
    least = float(np.expm1(price / rows))
    bound = MIN_CANDIDATE_T
    if rows <= MANY_ROWS * d:
        bound = min(bound, -float(ndtri(min(1.0, 2 * KEPT_BY_CHANCE / d) / 2)))
    if d <= MAX_UNSCREENED or rows <= LEAST_ROWS * d or bound <= 0:
        return np.asarray(_eliminate(np.array(S), order, rows, least, knowledge.possible, knowledge.required))
    position = np.argsort(order)
    earlier = position[:, None] < position[None, :]
    degrees = rows if rows > MANY_ROWS * d else rows - position
    strong = squared_t_values(S, order, rows) * (degrees / rows) >= bound**2
    candidates = (strong & knowledge.possible | knowledge.required) & earlier
    return eliminate_among(S, candidates, least, knowledge.required, known)


def eliminate_among(
    S: FloatArray,
    candidates: NDArray[np.bool_],
    least: float,
    required: NDArray[np.bool_],
    known: Eliminated | None = None,
) -> FloatArray:
    """The weights `[m, d]` after backward elimination of each variable's `candidates` `[m, d]`.

    A parent stays if it explains at least the share `least` of the residual variance, or is `required` `[m, m]`. `S`
    `[m, m]` are the second moments; columns beyond the first d are lagged. `known` is a cache for calls with equal
    moments, `least` and `required`. A variable with the same candidates as before keeps its earlier weights.
    """
    weights = np.zeros(candidates.shape[::-1])
    for j in range(len(weights)):
        parents = np.flatnonzero(candidates[:, j])
        before, earlier = (known or {}).get(j, (None, None))
        if before is not None and np.array_equal(before, parents):
            weights[j] = earlier
            continue
        K = np.linalg.inv(S[np.ix_(parents, parents)])
        b = K @ S[parents, j]
        allowed = np.ones(len(parents), np.bool_)
        residual = float(S[j, j] - b @ S[parents, j])
        drop_parents(K, b, residual, parents, least, allowed, required[parents, j], weights[j])
        if known is not None:
            known[j] = parents, weights[j]
    return np.ascontiguousarray(weights.T)


def squared_t_values(S: FloatArray, order: NDArray[np.int64], rows: int) -> FloatArray:
    """Squared t-values of the columns in the regression of each variable on all lagged and earlier columns, `[m, d]`.

    S = LLᵀ is factorised with the lagged columns first, then the variables in `order`. The rows r of L⁻¹ give all
    regressions: the weights of the j-th column are −r_j/r_jj, its residual variance is 1/r_jj², and the inverse moments
    of all columns before j have the diagonal Σ_k r_k² over the rows k < j.
    """
    m, d = len(S), len(order)
    columns = np.concatenate([np.arange(d, m), order])
    inverse = dtrtri(np.linalg.cholesky(S[np.ix_(columns, columns)]), lower=1)[0]
    diagonals = np.concatenate([np.zeros((1, m)), np.cumsum(inverse**2, axis=0)])[m - d : m]
    found = np.zeros((m, d))
    squares = rows * inverse[m - d :] ** 2 / np.where(diagonals > 0, diagonals, np.inf)
    found[np.ix_(columns, order)] = squares.T
    found[order, order] = 0.0
    return found


@njit(cache=True)
def _eliminate(S, order, rows, least, possible, required):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The weights `[d, d]`; a parent is kept if it explains at least the share `least` of the residual variance."""
    d = len(S)
    weights, K = np.zeros((d, d)), np.empty((d, d))
    for place in range(d):
        j = order[place]
        before = order[:place]
        b = np.zeros(place)
        for a in range(place):
            for c in range(place):
                b[a] += K[a, c] * S[before[c], j]
        residual = S[j, j]
        for a in range(place):
            residual -= b[a] * S[before[a], j]
        residual = max(residual, MIN_RESIDUAL_SHARE * S[j, j])
        allowed, forced = possible[before, j], required[before, j]
        drop_parents(K[:place, :place].copy(), b.copy(), residual, before, least, allowed, forced, weights[:, j])
        _extend(K, b, residual if place < rows else residual + S[j, j], place)
    return weights


@njit(cache=True)
def drop_parents(K, b, residual, before, least, allowed, forced, weights):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Remove parents from the regression with weights `b` and inverse moments K, and write the rest to `weights`.

    Parents that are not `allowed` are removed first. Then the weakest parent is removed as long as it explains less
    than the share `least` of the residual variance. `forced` parents stay.
    """
    k = len(b)
    stays = np.ones(k, np.bool_)
    while True:
        weakest, explains, excluded = -1, np.inf, False
        for a in range(k):
            worth = b[a] * b[a] / K[a, a]
            if stays[a] and not forced[a] and (not allowed[a], -worth) > (excluded, -explains):
                weakest, explains, excluded = a, worth, not allowed[a]
        if weakest < 0 or (not excluded and explains >= least * residual):
            break
        stays[weakest] = False
        residual += explains
        for a in range(k):
            if stays[a]:
                b[a] -= K[a, weakest] * b[weakest] / K[weakest, weakest]
        for a in range(k):
            if stays[a]:
                share = K[a, weakest] / K[weakest, weakest]
                for c in range(k):  # including removed parents, because a loop without a condition is vectorised
                    K[a, c] -= share * K[weakest, c]
    for a in range(k):
        if stays[a]:
            weights[before[a]] = b[a]


@njit(cache=True)
def _extend(K, b, residual, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Extend the inverse moments K by a variable; `b` and `residual` are from its regression on the other variables."""
    for a in range(place):
        for c in range(place):
            K[a, c] += b[a] * b[c] / residual
    for a in range(place):
        K[a, place] = K[place, a] = -b[a] / residual
    K[place, place] = 1.0 / residual
