"""Sums of products of columns: the sufficient statistics of everything linear or Gaussian."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .chunks import Table, chunks, summed
from .packing import Block, Packing

ROUNDING = 1e-12
"""a variance below this part of the mean square is what rounding left of zero"""


@dataclass(frozen=True)
class SecondMoments:
    """Second moments S `[d, d]`, and the number of rows behind them."""

    S: FloatArray
    rows: int


def products(table: Table, *, center: bool = False) -> FloatArray:
    """Return XᵀX of the rows in `table` `[n_rows, d]`, about the columns' own means if `center`: `[d, d]`."""
    return about_means(table)[1] if center else summed(table, lambda X: np.asarray(X.T @ X))


def about_means(table: Table) -> tuple[FloatArray, FloatArray]:
    """Return the columns' means `[d]`, and the sums of products about them `[d, d]`, of `table` `[n_rows, d]`.

    One pass: each part's products are about its own means, and parts are joined by Chan, Golub, LeVeque 1983
    ("Algorithms for computing the sample variance", Eq. 2.1). Nothing is squared before a mean is taken away, so
    nothing cancels, wherever the columns stand and in whatever order the rows come.
    """
    rows, means, total = 0, np.zeros(table.shape[1]), np.zeros((table.shape[1],) * 2)
    for part in chunks(table):
        own = part.mean(axis=0)
        X = part - own
        if not rows:
            rows, means, total = len(part), own, np.asarray(X.T @ X)
            continue
        apart, both = own - means, rows + len(part)
        total += X.T @ X
        total += (rows * len(part) / both) * np.outer(apart, apart)
        means = means + apart * (len(part) / both)
        rows = both
    return means, total


def pooled_packing(d: int) -> Packing:
    """Return how the moments of `d` columns travel: the number of rows, the sums, and the sums of products."""
    return Packing((Block("rows", ()), Block("sums", (d,)), Block("products", (d, d), symmetric=True)))


def pooled_moments(table: FloatArray) -> FloatArray:
    """Return rows, sums and sums of products of `table` `[n_rows, d]` as one vector `[1 + d + d(d + 1)/2]`."""
    d = table.shape[1]
    return pooled_packing(d).pack(rows=float(len(table)), sums=table.sum(axis=0), products=products(table))


def centred_moments(table: Table, lengths: tuple[int, ...]) -> FloatArray:
    """Return the pooled moments of `table` `[n_rows, d]`, each of its stretches of `lengths` rows about its own means.

    A stretch is what one silo has; so is a table that is read in passes. A difference between the means of silos says
    nothing about structure, and none of them leaves: the sums are zero. The means cost a degree of freedom a stretch,
    so rows count as n_rows − stretches. As means are taken away before squaring, of a constant rounding leaves no more
    than `ROUNDING`² of the mean square.
    """
    n, d = table.shape
    total = np.zeros((d, d))
    for part in np.split(table, np.cumsum(lengths)[:-1]) if isinstance(table, np.ndarray) else (table,):
        means, within = about_means(part)
        constant = np.diag(within) <= ROUNDING**2 * (np.diag(within) + part.shape[0] * means**2)
        total += np.where(constant | constant[:, None], 0.0, within)
    return pooled_packing(d).pack(rows=float(n - len(lengths)), sums=np.zeros(d), products=total)


def per_row(moments: FloatArray, all_rows: int) -> FloatArray:
    """Return pooled moments with all but the number of rows divided by `all_rows`.

    What travels is then no larger for many rows than for one, and fits the fixed-point numbers of a secure sum.
    """
    return np.concatenate([moments[:1], moments[1:] / all_rows])


def of_all_rows(sent: FloatArray, all_rows: int) -> FloatArray:
    """Return the pooled moments that a sum of `per_row` moments stands for."""
    return np.concatenate([sent[:1], sent[1:] * all_rows])


def covariance(moments: FloatArray, d: int) -> tuple[int, FloatArray]:
    """Return the number of rows, and the covariance about the mean `[d, d]`, that (summed) pooled moments give."""
    one = pooled_packing(d).unpack(moments)
    n = one["rows"]
    return int(n), one["products"] / n - np.outer(one["sums"], one["sums"]) / n**2


def correlation(moments: FloatArray, d: int) -> tuple[int, FloatArray]:
    """Return the number of rows, and the correlations `[d, d]`, that (summed) pooled moments give.

    A column without variance correlates with nothing.
    """
    one = pooled_packing(d).unpack(moments)
    centred = one["products"] - np.outer(one["sums"], one["sums"]) / one["rows"]
    variances = np.diag(centred)
    scale = np.sqrt(np.where(variances > ROUNDING * np.diag(one["products"]), variances, 0))
    both = np.outer(scale, scale)
    correlations: NDArray[np.float64] = np.divide(centred, both, out=np.eye(d), where=both > 0)
    np.fill_diagonal(correlations, 1.0)
    return int(one["rows"]), correlations


def in_own_units(S: FloatArray) -> FloatArray:
    """Return second moments `S` `[d, d]` in units of their root mean squares."""
    scale = np.sqrt(np.diag(S))
    return np.asarray(S / np.outer(scale, scale))


def residual_variances(S: FloatArray, weights: FloatArray) -> FloatArray:
    """Return each variable's mean squared residual under `weights`, `[d]`, as second moments `S` have it: above 0.

    `weights` are `[m, d]` and `S` `[m, m]`: below d rows for the variables, those of lagged ones.
    """
    d = weights.shape[1]
    gap = np.eye(len(S), d) - weights
    least = 1e-6 * np.diag(S)[:d]
    return np.asarray(np.maximum(np.einsum("ij,ik,kj->j", gap, S, gap, optimize=True), least))
