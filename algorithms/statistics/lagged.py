"""Windows of time series: rows with the rows before them at their side."""

from collections.abc import Sequence

import numpy as np

from ..core.schema import FloatArray


def windows(table: FloatArray, stretches: Sequence[int], lags: int) -> FloatArray:
    """Return windows `[n_windows, (lags + 1)·d]` of `table` `[n_rows, d]`: each row with the `lags` rows before it.

    The rows of `table` are unbroken stretches of the lengths `stretches`, one after another; no window crosses from
    one to the next. A stretch of at most `lags` rows has none. X and Y of Chen, Ma & Yue (2025, §2) are its first d
    columns and the others.
    """
    ends = np.cumsum(stretches, dtype=np.int64)
    if int(ends[-1]) != len(table):
        raise ValueError(f"stretches of {int(ends[-1])} rows for a table of {len(table)}")
    times = np.concatenate([np.arange(end - length + lags, end) for end, length in zip(ends, stretches, strict=True)])
    return np.hstack([table[times - lag] for lag in range(lags + 1)])
