"""Windows of time series: each row together with the rows before it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, ImputationModel, Schema
from ..graphs.structure import unrolled_names

LEVEL_STANDARD_ERRORS = 5.0
AUTOCORRELATION_ROWS = 40
"""n rows of a series estimate its mean as n/(1 + AUTOCORRELATION_ROWS/n) independent rows: a short series may drift"""


def windows(table: NDArray[Any], stretches: Sequence[int], lags: int) -> NDArray[Any]:
    """Windows `[n_windows, (lags + 1)·d]` of `table` `[n_rows, d]`: each row with the `lags` rows before it.

    The rows of `table` are unbroken stretches of the lengths `stretches`, one after another; no window spans two
    stretches. A stretch of at most `lags` rows has no window. X and Y of Chen, Ma & Yue (2025, §2) are the first d
    columns and the others.
    """
    ends = np.cumsum(stretches, dtype=np.int64)
    if int(ends[-1]) != len(table):
        raise ValueError(f"stretches of {int(ends[-1])} rows for a table of {len(table)}")
    times = np.concatenate([np.arange(end - length + lags, end) for end, length in zip(ends, stretches, strict=True)])
    return np.hstack([table[times - lag] for lag in range(lags + 1)])


def silo_windows(table: FloatArray, schema: Schema, silo: str, lags: int, *, center: bool) -> FloatArray:
    """The windows `[n_windows, (lags + 1)·d]` of the rows `table` of `silo`; with `center` minus their levels."""
    rows = windows(table, schema.stretches[silo], lags)
    return subtract_levels(rows, table.shape[1]) if center else rows


def subtract_levels(rows: FloatArray, d: int) -> FloatArray:
    """Windows `[n_windows, (lags + 1)·d]` without the means of the variables that have a level.

    A level is a mean of more than `LEVEL_STANDARD_ERRORS` standard errors, such as a site or instrument offset. Other
    means stay: subtracting a mean from a short series biases the effects of its past by about −1/n (Nickell 1981).
    """
    n, means, variances = len(rows), rows.mean(axis=0), rows[:, :d].var(axis=0)
    has_level = means[:d] ** 2 > LEVEL_STANDARD_ERRORS**2 * variances * (1 + AUTOCORRELATION_ROWS / n) / n
    return np.asarray(rows - np.where(np.tile(has_level, rows.shape[1] // d), means, 0.0))


MIN_CENTRED_WINDOWS = 20
"""minimum number of windows of a stretch that is centred on its own means; shorter ones share their silo's means"""


def centred_windows(table: FloatArray, stretches: Sequence[int], lags: int) -> FloatArray:
    """`windows`, those of every long stretch about their own means, those of the short ones about common means.

    Series of other devices or patients have other levels, and a level that stays looks like an effect of all lags. The
    means of few windows would take part of the effects with them (Nickell 1981).
    """
    rows = windows(table, stretches, lags)
    for part in centred_parts(stretches, lags):
        rows[part] -= rows[part].mean(axis=0)
    return rows


def centred_means(stretches: Sequence[int], lags: int) -> int:
    """The number of means that `centred_windows` subtracts from a column: the degrees of freedom that they cost."""
    return len(centred_parts(stretches, lags))


def centred_parts(stretches: Sequence[int], lags: int) -> list[NDArray[np.intp]]:
    """The windows with common means, each part by the numbers of its windows."""
    lengths = np.array([max(length - lags, 0) for length in stretches])
    numbers = np.split(np.arange(lengths.sum()), np.cumsum(lengths)[:-1])
    long = [part for part in numbers if len(part) >= MIN_CENTRED_WINDOWS]
    short = np.concatenate([np.empty(0, np.intp), *(part for part in numbers if len(part) < MIN_CENTRED_WINDOWS)])
    return [*long, short] if len(short) else long


def window_schema(schema: Schema, lags: int) -> Schema:
    """The public schema of windows as a table without time: (lags + 1)·d columns, and the windows as rows.

    Its stretches are the parts of a silo's windows that have common means, in the order of `window_rows`. Lagged
    columns have the levels and units of their variable, and as many empty cells in proportion. Background knowledge of
    the variables is not part of it (`Prior.of_windows`).
    """
    names, rows = unrolled_names(schema.variables, lags), schema.windows(lags)
    empty = {
        silo: tuple(round(count * rows[silo] / schema.rows[silo]) for count in counts) * (lags + 1)
        for silo, counts in schema.empty.items()
    }
    owners = dict(zip(names, schema.variables * (lags + 1), strict=True))
    levels = {name: schema.levels[owner] for name, owner in owners.items() if owner in schema.levels}
    return Schema(
        names,
        rows,
        kind="continuous" if not levels else "discrete" if len(levels) == len(names) else "mixed",
        levels=levels,
        stretches={silo: tuple(map(len, centred_parts(schema.stretches[silo], lags))) for silo in schema.rows},
        units=schema.units * (lags + 1),
        empty=empty,
        imputation_model=_window_model(schema, lags),
    )


def _window_model(schema: Schema, lags: int) -> ImputationModel:
    """The imputation model of windows with `lags`: the margin of that of the longer windows that EM has run on.

    The effective sample size is in proportion to the windows.
    """
    model, within = schema.imputation_model, slice((lags + 1) * len(schema.variables))
    if not model.windows:
        return model
    windows = sum(schema.windows(lags).values())
    rows = round(model.rows * windows / model.windows)
    return replace(model, covariance=model.covariance[within, within], rows=rows, windows=windows)


def window_rows(table: NDArray[Any], stretches: Sequence[int], lags: int) -> NDArray[Any]:
    """`windows` of `table`, ordered by the parts that have common means (`window_schema`)."""
    return windows(table, stretches, lags)[np.concatenate(centred_parts(stretches, lags))]


def moments_given_past(S: FloatArray, d: int) -> FloatArray:
    """The second moments `[d, d]` of the residuals of the d variables given all lagged ones in `S` `[m, m]`.

    The residual of x_t = x_t W + ... + u is (I − Wᵀ)⁻¹u, so any learner for independent rows finds W in it.
    """
    return np.asarray(S[:d, :d] - S[:d, d:] @ np.linalg.solve(S[d:, d:], S[d:, :d]))
