"""Windows of time series: rows with the rows before them at their side."""

from collections.abc import Sequence

import numpy as np

from ..core.schema import FloatArray, Schema
from ..graphs.structure import unrolled_names

LEVEL = 5.0
WANDER = 40
"""rows n of a series tell of its mean what n/(1 + WANDER/n) independent ones would: a short one may wander far"""


def windows(table: FloatArray, stretches: Sequence[int], lags: int) -> FloatArray:
    """Windows `[n_windows, (lags + 1)·d]` of `table` `[n_rows, d]`: each row with the `lags` rows before it.

    The rows of `table` are unbroken stretches of the lengths `stretches`, one after another; no window crosses from
    one to the next. A stretch of at most `lags` rows has none. X and Y of Chen, Ma & Yue (2025, §2) are its first d
    columns and the others.
    """
    ends = np.cumsum(stretches, dtype=np.int64)
    if int(ends[-1]) != len(table):
        raise ValueError(f"stretches of {int(ends[-1])} rows for a table of {len(table)}")
    times = np.concatenate([np.arange(end - length + lags, end) for end, length in zip(ends, stretches, strict=True)])
    return np.hstack([table[times - lag] for lag in range(lags + 1)])


def silo_windows(table: FloatArray, schema: Schema, silo: str, lags: int, *, center: bool) -> FloatArray:
    """The windows `[n_windows, (lags + 1)·d]` of the rows of `silo`, `table`; with `center` without levels."""
    rows = windows(table, schema.stretches[silo], lags)
    return without_levels(rows, table.shape[1]) if center else rows


def without_levels(rows: FloatArray, d: int) -> FloatArray:
    """Windows `[n_windows, (lags + 1)·d]` with the means subtracted of those variables that have a level.

    A level is a mean of more than `LEVEL` standard errors, as those of sites and of instruments are. A mean that is
    none stays: to subtract it from a short series biases the effects of its past by about −1/n (Nickell 1981).
    """
    n, means, variances = len(rows), rows.mean(axis=0), rows[:, :d].var(axis=0)
    level = means[:d] ** 2 > LEVEL**2 * variances * (1 + WANDER / n) / n
    return np.asarray(rows - np.where(np.tile(level, rows.shape[1] // d), means, 0.0))


def windowed(schema: Schema, lags: int) -> Schema:
    """The public schema of windows: (lags + 1)·d columns, and each silo's number of windows as its rows."""
    return Schema(unrolled_names(schema.variables, lags), schema.windows(lags))


def given_the_past(S: FloatArray, d: int) -> FloatArray:
    """The second moments `[d, d]` of what is left of the d variables, given all lagged ones of `S` `[m, m]`.

    What is left of x_t = x_t W + ... + u is (I − Wᵀ)⁻¹u: any learner finds W in it as in rows that are no time series.
    """
    return np.asarray(S[:d, :d] - S[:d, d:] @ np.linalg.solve(S[d:, d:], S[d:, :d]))
