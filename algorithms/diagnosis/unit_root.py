"""Random walk or slow return to a level: a pooled Dickey-Fuller test with Monte Carlo distributions.

Each variable is regressed twice: on its own lags and its learned parents, and on all lagged variables. The regressions
use the moments of the windows of all silos, centred at each series' own means. This is a pooled test (Levin, Lin & Chu
2002). It has covariates (Hansen 1995), because a variable with a slow cause is slow without being a random walk.

There are two statistics. The first is the t-value of the difference between 1 and the sum of the coefficients of the
variable's own lags. The second is the t-value of the difference between `SLOW_RETURN` and this sum. If a slow cause is
correlated with a variable's own past, the standard error is large, and neither hypothesis is rejected. The null
distributions depend on the lengths of the series, because subtracting the means of each series causes a bias (Nickell
1981). The null distributions are simulated for these lengths, for random walks and for stationary series that return
slowly.

A variable is a random walk only if the slow return is rejected, at level `UNIT_ROOT_LEVEL` over all variables, and the
random walk is not rejected. If neither is rejected, the series are too short for a decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..core.schema import FloatArray
from ..statistics.lagged import centred_parts

SLOW_RETURN = 0.97
"""autoregressive coefficient of the slow return, which must not be reported as a random walk"""
UNIT_ROOT_LEVEL = 0.01
"""probability that any variable with a slow return is called a random walk"""
MISSED_WALKS, UNNOTICED_WALKS = 0.02, 0.1
"""probabilities of rejecting a true random walk: if a slow return is rejected, and if it is not"""
MIN_T = 4.0
"""nearly all random walks have statistics above −(`MIN_T` + 2 · the root of the number of series), so that nothing is
simulated for smaller statistics"""
MAX_DRAWS, MIN_DRAWS, DRAWN_ROWS = 400, 60, 20_000_000
"""number of simulated data sets: maximum, minimum, and the total number of rows that determines it in between"""
MAX_DRAWN_ROWS, MIN_DRAWN_LENGTH = 2_000_000, 50
"""maximum number of rows of a simulated data set, and minimum number of rows of one of its series"""
CELLS_AT_ONCE = 2_000_000
"""maximum number of simulated rows in memory, 16 MB per array, unless one data set has more"""


@dataclass(frozen=True)
class UnitRoots:
    """The variables `[n]` that are random walks, and those for which the series are too short for a decision."""

    walks: NDArray[np.intp]
    undecided: NDArray[np.intp]


def unit_roots(t: FloatArray, stretches: Sequence[Sequence[int]], tested: NDArray[np.bool_]) -> UnitRoots:
    """The decision on the `tested` variables `[d]` by `t`, the result of `own_t_values`.

    `stretches` are the lengths of the stretches of each silo.
    """
    of_walk, of_slow = t
    least = -MIN_T - 2 * np.sqrt(sum(map(len, stretches)))
    if not np.any(of_walk[tested] > least):
        return UnitRoots(np.empty(0, np.intp), np.empty(0, np.intp))
    rng, drawn = np.random.default_rng(0), shortened(stretches)
    walk, slow = (drawn_t_values(drawn, one, rng) for one in (1.0, SLOW_RETURN))
    no_return = of_slow > slow.mean() + ndtri(1 - UNIT_ROOT_LEVEL / len(of_slow)) * slow.std()
    walks = tested & no_return & (of_walk > np.quantile(walk, MISSED_WALKS))
    undecided = tested & ~no_return & (of_walk > np.quantile(walk, UNNOTICED_WALKS))
    return UnitRoots(np.flatnonzero(walks), np.flatnonzero(undecided))


def shortened(stretches: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    """The lengths `stretches`, if necessary reduced in proportion to about `MAX_DRAWN_ROWS` rows in total."""
    rows = sum(map(sum, stretches))
    if rows <= MAX_DRAWN_ROWS:
        return stretches
    return [[max(round(n * MAX_DRAWN_ROWS / rows), min(n, MIN_DRAWN_LENGTH)) for n in lengths] for lengths in stretches]


def own_t_values(S: FloatArray, parents: NDArray[np.bool_], d: int, rows: float) -> FloatArray:
    """The t-values of the sum of the coefficients of own lags minus 1, and minus `SLOW_RETURN`, `[2, d]`.

    They are −inf if undefined. Each is the minimum of the t-values given the learned causes and given all lagged
    variables, because the learned graph may lack a cause. `S` `[m, m]` has the second moments of windows, the present
    first, and `parents` `[m, m]` has the learned edges.
    """
    m = len(S)
    found = np.full((2, d), -np.inf)
    for j in range(d):
        own, causes = np.arange(j + d, m, d), np.flatnonzero(parents[:, j] & ~parents[j])
        learned, every = (np.setdiff1d(others, [j, *own]) for others in (causes, np.arange(d, m)))
        found[:, j] = _t_values(S, j, own, learned, rows)
        complete = _t_values(S, j, own, every, rows)
        # With too few windows for all lagged variables, a slow return cannot be rejected.
        found[1, j] = min(found[1, j], complete[1])
        if np.isfinite(complete[0]):
            found[0, j] = min(found[0, j], complete[0])
    return found


def _t_values(S: FloatArray, j: int, own: NDArray[np.intp], others: NDArray[np.intp], rows: float) -> FloatArray:
    """The two t-values of the sum of the coefficients of `own`, in the regression of j on `own` and `others`, `[2]`."""
    undefined = np.full(2, -np.inf)
    design = np.concatenate([own, others])
    if S[j, j] <= 0 or rows <= 2 * len(design):
        return undefined
    scale = np.sqrt(np.maximum(np.diag(S)[design], 1e-300))
    inverse = np.linalg.pinv(S[np.ix_(design, design)] / np.outer(scale, scale), rcond=1e-12, hermitian=True)
    inverse /= np.outer(scale, scale)
    weights = inverse @ S[design, j]
    residual = float(S[j, j] - weights @ S[design, j])
    if residual <= 1e-12 * S[j, j]:
        return undefined
    variance = residual / (rows - len(design)) * inverse[: len(own), : len(own)].sum()
    return np.asarray((weights[: len(own)].sum() - [1.0, SLOW_RETURN]) / np.sqrt(max(float(variance), 1e-300)))


def drawn_t_values(stretches: Sequence[Sequence[int]], autoregression: float, rng: np.random.Generator) -> FloatArray:
    """The t-values of (own coefficient − `autoregression`) in simulated series with these `stretches`, `[n_draws]`.

    The series have the coefficient `autoregression`: they are random walks if it is 1, and stationary if it is less.
    """
    rows = max(sum(map(sum, stretches)), 1)
    draws = int(np.clip(DRAWN_ROWS // rows, MIN_DRAWS, MAX_DRAWS))
    block = max(CELLS_AT_ONCE // rows, 1)
    return np.concatenate(
        [_draw(stretches, autoregression, min(block, draws - done), rng) for done in range(0, draws, block)]
    )


def _draw(
    stretches: Sequence[Sequence[int]], autoregression: float, draws: int, rng: np.random.Generator
) -> FloatArray:
    """The statistics of `draws` data sets, `[draws]`, which are in memory together."""
    from scipy.signal import lfilter  # imported late: it takes a third of a second, and few runs need it

    products, squares, changes = np.zeros(draws), np.zeros(draws), np.zeros(draws)
    for lengths in stretches:
        errors = rng.standard_normal((sum(lengths), draws))
        if autoregression < 1:
            errors[0] /= np.sqrt(1 - autoregression**2)
        series = lfilter([1.0], [1.0, -autoregression], errors, axis=0)
        starts = np.cumsum([0, *lengths])[:-1]
        after = np.concatenate([np.arange(s + 1, s + n) for s, n in zip(starts, lengths, strict=True)])
        for part in centred_parts(lengths, 1):
            past = series[after[part] - 1]
            change = series[after[part]] - past
            past, change = past - past.mean(axis=0), change - change.mean(axis=0)
            products += np.einsum("tr,tr->r", past, change)
            squares += np.einsum("tr,tr->r", past, past)
            changes += np.einsum("tr,tr->r", change, change)
    windows = sum(max(n - 1, 0) for lengths in stretches for n in lengths)
    residual = (changes - products**2 / squares) / windows
    return np.asarray((products + (1 - autoregression) * squares) / np.sqrt(residual * squares))
