"""Weights that change over time: a fluctuation test of learned regressions of time series, after Nyblom 1989.

Each silo fits the regression of a variable on its parents (also lagged parents) to its own windows; a window is a row
with its lagged rows. If the weights are constant, the products of parents and residuals have mean zero at every time.
If the weights change, the sum of these products up to some time is far from zero (Nyblom 1989, "Testing for the
constancy of parameters over time"; Zeileis & Hornik 2007, "Generalized M-fluctuation tests"). The test uses the sums up
to each of `TIMES`, which are relative times in each unbroken series. The variances of these sums are estimated from the
contributions of the rows (White 1980). So errors may have any distribution, and their variances may depend on the
parents or on time. If residuals are autocorrelated, the variances are enlarged to the long-run variance
(`long_run_ratio`).

There are two tests. In the first test, the sums of all silos are added up, masked if the run is masked. This test finds
weights that change equally in all silos, even with few rows in each silo. In the second test, each silo tests its own
sums, for a change in this silo. A statistic of k parents in n windows is compared with Hotelling's T² with k and n − k
degrees of freedom, because its variances are estimated. Here n is the effective number of windows, which is small for
slow series (`effective_windows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.packing import from_triangle, triangle

TIMES = (0.25, 0.5, 0.75)
"""the shares of a series up to which products are summed"""
CHANGE_FALSE_ALARMS = 0.005
"""significance level of each of the two tests"""
MIN_WINDOWS = 40
"""minimum number of windows of a silo; the number must also be ten times the number of weights, with intercept"""
BANDWIDTH = 10
"""greatest lag of the autocovariances in a long-run variance"""
MAX_AUTOCORRELATION = 0.97
"""greatest autocorrelation from which a long-run variance is extrapolated"""


def long_run_ratio(rows: FloatArray) -> float:
    """The largest ratio of a column's long-run variance to its variance, at least 1, of `rows` `[n, k]` in time order.

    The long-run variance weights the autocovariances up to `BANDWIDTH` as Newey & West 1987 do. Slow columns have
    autocovariances at greater lags. So the result is at least the long-run variance of a first-order autoregression, if
    its slope is significant (Andrews & Monahan 1992). If the columns are the products of residuals and regressors, the
    ratio is the factor for the variance of the weights.
    """
    return _ratio(_long_run_sums(rows, len(rows)))


def _long_run_sums(rows: FloatArray, part: int) -> FloatArray:
    """The sums of squares of each column, without and with the weighted autocovariances, `[2, k]`.

    Means were subtracted in parts of `part` rows. This makes estimated autocorrelations too small, which is corrected
    (Kendall 1954).
    """
    n, reach = len(rows), min(BANDWIDTH, len(rows) // 10)
    sums = np.stack([(rows**2).sum(axis=0)] * 2)
    for lag in range(1, reach + 1):
        sums[1] += 2 * (1 - lag / (reach + 1)) * (rows[lag:] * rows[: n - lag]).sum(axis=0)
    slope = (rows[1:] * rows[:-1]).sum(axis=0) / np.maximum(sums[0], 1e-300)
    slope = np.minimum((part * slope + 1) / max(part - 3, 1), MAX_AUTOCORRELATION)
    slope[slope < 3 / np.sqrt(max(n, 1))] = 0.0
    sums[1] = np.maximum(sums[1], sums[0] * (1 + slope) / (1 - slope))
    return sums


def _ratio(sums: FloatArray) -> float:
    return float(max(1.0, (sums[1] / np.maximum(sums[0], 1e-300)).max()))


def relative_times(lengths: Sequence[int]) -> FloatArray:
    """The place of each row in its series, between 0 and 1, `[n_rows]`, for series of these `lengths`."""
    return np.concatenate([np.empty(0), *((np.arange(length) + 0.5) / length for length in lengths)])


def children_of(parents: NDArray[np.bool_], variables: int) -> NDArray[np.intp]:
    """The tested variables: those of the first `variables` that have `parents` `[m, m]`."""
    return np.flatnonzero(parents[:, :variables].any(axis=0))


def fluctuations(
    rows: FloatArray,
    times: FloatArray,
    parents: NDArray[np.bool_],
    variables: int,
    scales: FloatArray,
    all_windows: float,
) -> FloatArray:
    """A silo's sums for the tests, concatenated.

    Each tested variable has the sums of squares of `_long_run_sums` and, for each of `TIMES`, the summed products up to
    this time and their covariances. `rows` `[n, m]` are windows, at the relative `times` `[n]`; `scales` `[m]` are the
    units of the columns. Sums of squares and covariances are divided by the number of windows of all silos, and
    products by the root of this number. Windows with an empty cell (NaN) in a variable or its parents are left out for
    this variable. The sums of a variable with too few windows for its parents are zero.
    """
    root, every, scaled = np.sqrt(all_windows), list[FloatArray](), rows / scales
    for j in children_of(parents, variables):
        pa = np.flatnonzero(parents[:, j])
        known = ~np.isnan(scaled[:, [*pa, j]]).any(axis=1)
        centred, own_times = scaled[known], times[known]
        centred -= centred.mean(axis=0) if len(centred) else 0.0
        n, k = len(centred), len(pa)
        if n < max(MIN_WINDOWS, 10 * (k + 1)):
            every.append(np.zeros(2 * k + len(TIMES) * (k + k * (k + 1) // 2)))
            continue
        X = np.column_stack([np.ones(n), centred[:, pa]])
        inverse = np.linalg.pinv(X.T @ X, rcond=1e-9, hermitian=True)
        products = X * (centred[:, j] - X @ (inverse @ (X.T @ centred[:, j])))[:, None]
        # If weights change, products have different means in different parts. This difference is not variance.
        spread = products - _means_of_parts(products, own_times)
        every.append(_long_run_sums(spread[:, 1:], n // (len(TIMES) + 1)).ravel() / all_windows)
        enlarged = n / (n - k - 1 - len(TIMES)) / all_windows
        for time in TIMES:
            before = own_times < time
            # Fitting the weights removes a part of the products before this time; `net` is what each row contributes.
            share = inverse @ (X[before].T @ X[before])
            score = (products[before].sum(axis=0) - products.sum(axis=0) @ share)[1:]
            net = (before[:, None] * spread - spread @ share)[:, 1:]
            every += [score / root, enlarged * triangle(net.T @ net)]
    return np.concatenate([np.empty(0), *every])


def _means_of_parts(products: FloatArray, times: FloatArray) -> FloatArray:
    """For each row, the mean of the `products` `[n, k]` in its part of the series (between `TIMES`), `[n, k]`."""
    part = np.searchsorted(TIMES, times, side="right")
    members = (part[:, None] == np.arange(len(TIMES) + 1)).astype(np.float64)
    return np.asarray(members @ (members.T @ products / np.maximum(members.sum(axis=0), 1.0)[:, None]))


@dataclass(frozen=True)
class ChangeTests:
    """The test results of the tested variables."""

    ratios: FloatArray
    """the ratio of a variable's largest statistic to its bound, `[n_tested]`; above 1, weights of its parents change"""
    when: FloatArray
    """the share of the series before the change, `[n_tested]`"""


NO_CHANGES = ChangeTests(np.empty(0), np.empty(0))


def effective_windows(windows: float, S: FloatArray, parents: NDArray[np.intp], variables: int) -> float:
    """The effective number of independent windows for the mean of the squares of the slowest of the `parents`.

    The squares of a Gaussian series with autocorrelation r have the autocorrelation r². `S` `[m, m]` has the second
    moments of windows of this number of `variables`, the present first.
    """
    if len(S) == variables:
        return windows
    now, past = parents % variables, parents % variables + variables
    squares = S[now, past] ** 2 / np.maximum(S[now, now] * S[past, past], 1e-300)
    slowest = float(min(squares.max(initial=0.0), 1.0))
    return windows * (1 - slowest) / (1 + slowest)


def hotelling_bound(k: int, windows: float, probability: float) -> float:
    """The value that Hotelling's T² of `k` numbers, with variances from `windows` rows, exceeds with `probability`."""
    from scipy.special import fdtri  # imported late: most processes need no quantiles

    free = max(windows - k, 1.0)
    return k * (free + k - 1) / free * float(fdtri(k, free, 1 - probability))


def change_tests(
    sums: FloatArray,
    windows: float,
    parents: NDArray[np.bool_],
    variables: int,
    level: float,
    S: FloatArray | None = None,
) -> ChangeTests:
    """The test of each tested variable, from the `sums` of `fluctuations` and the number of `windows` in them.

    If no weight changes, any ratio is above 1 with a probability of `level`. `S` `[m, m]` has the second moments of the
    windows; without `S`, windows are assumed to be independent.
    """
    children, begin = children_of(parents, variables), 0
    ratios, when = np.zeros((len(children), len(TIMES))), np.array(TIMES)
    for at, j in enumerate(children):
        pa = np.flatnonzero(parents[:, j])
        k = len(pa)
        independent = windows if S is None else effective_windows(windows, S, pa, variables)
        bound = hotelling_bound(k, independent, level / ratios.size)
        bound *= _ratio(sums[begin : begin + 2 * k].reshape(2, k))
        begin += 2 * k
        for time in range(len(TIMES)):
            score, begin = sums[begin : begin + k], begin + k
            variances, begin = from_triangle(sums[begin : begin + k * (k + 1) // 2]), begin + k * (k + 1) // 2
            statistic = score @ np.linalg.pinv(variances, rcond=1e-9, hermitian=True) @ score
            ratios[at, time] = float(statistic) / bound
    return ChangeTests(ratios.max(axis=1), when[ratios.argmax(axis=1)])
