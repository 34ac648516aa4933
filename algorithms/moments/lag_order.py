"""How many lags a time series takes: the order of least BIC, from summed second moments of its windows (ours)."""

import numpy as np

from ..core.schema import FloatArray
from ..statistics.moments import residual_variances
from .equal_variance import equal_variance

PASSES = 10
"""of moves that improve the order of the variables, for each number of lags"""
ALIKE = 1e-3
"""criteria that differ by no more are equal but for rounding"""


def lagged_price(columns: int, rows: float) -> float:
    """Return what a parent among `columns` candidates must explain, in units of the least variance: (ln n + ln m)/n.

    That is BIC with the extra term of EBIC (Chen & Chen 2008) for the number of candidates.
    """
    return float((np.log(rows) + np.log(columns)) / rows)


def information_criteria(S: FloatArray, rows: int, d: int, most_parents: int) -> FloatArray:
    """Return the BIC of 1, 2, ... lags, `[lags]`, for second moments `S` `[m, m]` of `rows` windows, m = (lags + 1)·d.

    It is n Σ_j ln v_j + (ln n + 2 ln m)·k, with v_j the residual variances and k the edges of the structure learned
    with so many lags at that price: more lags are more candidates, of which some always fit. All orders are compared on
    the same windows, those of the longest reach, with the same m.
    """
    price = lagged_price(len(S) ** 2, rows)
    found = []
    for width in range(2 * d, len(S) + 1, d):
        part = S[:width, :width]
        weights = equal_variance(part, price, most_parents, PASSES, d).weights
        fit = float(np.log(residual_variances(part, weights)).sum())
        found.append(rows * (fit + price * np.count_nonzero(weights)))
    return np.array(found)


def of_least_bic(S: FloatArray, rows: int, d: int, most_parents: int) -> FloatArray:
    """Return the part of second moments `S` `[m, m]` that the lags of least BIC reach (see `information_criteria`)."""
    width = (least_bic(information_criteria(S, rows, d, most_parents)) + 1) * d
    return S[:width, :width]


def least_bic(criteria: FloatArray) -> int:
    """Return the number of lags of least BIC, the smallest of several: more lags often add nothing at all."""
    return 1 + int(np.flatnonzero(criteria <= criteria.min() + ALIKE)[0])
