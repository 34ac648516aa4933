"""Scores of continuous and mixed families from summed moments: Gaussian BIC, conditional and degenerate Gaussian.

Gaussian BIC of a linear regression on the parents (`score_moments`, `score_covariance`):
−n/2 (ln 2πσ² + 1) − ½ ln n (k + 2) with k parents and an intercept. The residual variance σ² is the Schur complement of
the parents in the covariance about the mean. Moments add up over silos, so the pooled score takes one exchange.

Gaussian BIC if each silo p has its own regression weights (`score_own_rows`; IMaGES: Ramsey et al. 2010, "Six problems
for causal inference from fMRI"): Σ_p −n_p/2 ln v_p − ½ ln n_p (k + 1), where v_p is the residual variance of the silo's
own regression. The silos' scores are summed, one number for each family. v_p is a sum of squares divided by n_p − k.
Without this correction, parents that explain nothing would improve the fit, noticeably so with few rows. The correction
depends only on k, so the members of a Markov equivalence class have equal scores.

Conditional Gaussian score of mixed data, from moments by configuration (`score_configurations`; Andrews, Ramsey, Cooper
2018): score(X | Pa) = L(X ∪ Pa) − L(Pa), where a set with the discrete members D and the continuous members C has

L = Σ_k [n_k ln(n_k/n) − n_k/2·(ln|2πΣ_k| + |C|)] − ½ ln n·(q − 1 + q·|C|(|C| + 3)/2).

This is the log-likelihood of a Gaussian of C for each of the q configurations k of D, minus the penalty of BIC (Eq. 3
to 6 there).
A configuration with few rows uses the covariance of all rows about the configurations' means, as in Tetrad.

Degenerate Gaussian score of mixed data, from second moments of the coded table (`score_blocks`; Andrews, Ramsey, Cooper
2019): score(X | Pa) = −n/2·(ln|R_{X ∪ Pa}| − ln|R_Pa|) − c/2·ln n·|X|·Σ|Pa|. R are the correlations of the coded
columns, |R| is a determinant, and |X| and |Pa| are numbers of columns (Eq. 7 there, without terms that do not depend on
the parents). c = 2 doubles the penalty of BIC, because the Gaussian likelihood of an indicator is too optimistic.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.coding import Blocks, log_residual_det
from ..statistics.count_tables import PAD
from ..statistics.moments import covariance
from ..statistics.rows import configuration_offsets
from .discrete import sets_of
from .families import Batch

_MIN_RESIDUAL_SHARE = 1e-12
"""a smaller residual share of variance is a rounding error: the parents determine the variable"""


def score_moments(moments: FloatArray, d: int, batch: Batch) -> FloatArray:
    """The score of every family of `batch` on the rows of the (summed) `moments`."""
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


MIN_RESIDUAL_ROWS = 3
"""minimum residual degrees of freedom of a silo's own regression; with fewer, its parents count as explaining
nothing"""


def score_own_rows(moments: FloatArray, d: int, batch: Batch) -> FloatArray:
    """A silo's part of the score of every family of `batch`, from its own `moments`, with its own regression weights.

    A silo of one row has no degree of freedom, and scores every family 0.
    """
    if moments[0] < 1:
        return np.zeros(len(batch))
    return score_own_covariance(*covariance(moments, d), batch)


def score_own_covariance(n: int, S: FloatArray, batch: Batch) -> FloatArray:
    """A silo's part of the score of every family of `batch`, from its n rows with the covariance `S` `[d, d]`."""
    return np.asarray(_own_score(float(n), S, batch.first, batch.members))


@njit(cache=True)
def _own_score(n, S, first, members):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    scores = np.empty(len(first) - 1)
    for m in range(len(scores)):
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        k = len(parents)
        variance = max(S[child, child], 1e-300)
        if n - k >= MIN_RESIDUAL_ROWS:
            variance = _residual_variance(S, child, parents) * n / (n - k)
        scores[m] = -0.5 * n * math.log(variance) - 0.5 * math.log(n) * (k + 1)
    return scores


@njit(cache=True)
def _residual_variance(S, child, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The residual variance of `child` given `parents`, from a Cholesky factor of their covariance.

    A parent that the parents before it determine adds nothing.
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
        residual = S[v, v]
        for t in range(i):
            residual -= L[i, t] * L[i, t]
        if i == k:
            return max(residual, _MIN_RESIDUAL_SHARE * S[v, v], 1e-300)
        L[i, i] = math.sqrt(residual) if residual > _MIN_RESIDUAL_SHARE * S[v, v] else 0.0
    return 0.0


MIN_SPARE_ROWS = 10
"""a configuration has its own covariance if its rows are more than the continuous members by more than this number"""
_MIN_VARIANCE, _MIN_ABSOLUTE_VARIANCE = 1e-10, 1e-300
"""relative and absolute ridge on the variances of every covariance, above rounding errors"""


def score_configurations(
    numbers: FloatArray,
    batch: Batch,
    levels: NDArray[np.int64],
    discrete: NDArray[np.bool_],
    rows: int,
    most_cells: float,
) -> FloatArray:
    """The scores of `batch` from summed `numbers`, the concatenated moments by configuration of its sets.

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
    floor = _MIN_VARIANCE * np.diag(common) + _MIN_ABSOLUTE_VARIANCE
    likelihood = 0.0
    for k in range(q):
        n_k = moments[k, 0]
        if n_k <= 0:
            continue
        likelihood += n_k * math.log(n_k / n)
        if c:
            S = (scatters[k] / n_k if n_k > c + MIN_SPARE_ROWS else common) + np.diag(floor)
            likelihood -= 0.5 * (n_k * (np.linalg.slogdet(S)[1] + c * math.log(2 * math.pi)))
            likelihood -= 0.5 * np.trace(np.linalg.solve(S, scatters[k]))
    return likelihood - 0.5 * math.log(n) * (q - 1 + q * c * (c + 3) / 2)


@njit(cache=True)
def _margin(table, members, inside, model):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The moments by configuration of the members that are `inside`, and the number of continuous ones among them."""
    levels, discrete, _ = model
    q, n_continuous, c, places_of = 1, 0, 0, np.empty(len(members), np.int64)
    for v in members:
        if v != PAD and not discrete[v]:
            if inside[v]:
                places_of[c] = n_continuous
                c += 1
            n_continuous += 1
        elif v != PAD and inside[v]:
            q *= levels[v]
    size = 1 + n_continuous + n_continuous * (n_continuous + 1) // 2
    moments = np.zeros((q, 1 + c + c * (c + 1) // 2))
    for k in range(len(table) // size):
        target, step, configuration = 0, 1, k
        for v in members[::-1]:
            if v != PAD and discrete[v]:
                if inside[v]:
                    target += step * (configuration % levels[v])
                    step *= levels[v]
                configuration //= levels[v]
        block, entry = table[k * size : (k + 1) * size], 1 + c
        moments[target, 0] += block[0]
        for a in range(c):
            i = places_of[a]
            moments[target, 1 + a] += block[1 + i]
            for b in range(a, c):
                at = 1 + n_continuous + i * n_continuous - i * (i - 1) // 2 + places_of[b] - i
                moments[target, entry] += block[at]
                entry += 1
    return moments, c


@njit(cache=True)
def _scatter(moments, c, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The sums of products about the means `[c, c]` of a configuration, from moments divided by n."""
    scatter, entry = np.empty((c, c)), 1 + c
    for a in range(c):
        for b in range(a, c):
            scatter[a, b] = n * (moments[entry] - n * moments[1 + a] * moments[1 + b] / moments[0])
            scatter[b, a] = scatter[a, b]
            entry += 1
    return scatter


PRICE_FACTOR = 2.0
"""c, the penalty of a parent in multiples of the penalty of BIC"""


def price_of(rows: int) -> float:
    """The penalty on twice the log-likelihood for each pair of a column of the child and one of a parent: c·ln n."""
    return PRICE_FACTOR * math.log(rows)


def score_blocks(blocks: Blocks, batch: Batch) -> FloatArray:
    """The degenerate Gaussian score of every family of `batch`, from the correlations of the coded columns."""
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
        scores[m] = -0.5 * n * log_residual_det(R, columns, child, parents) - 0.5 * price * pairs
    return scores
