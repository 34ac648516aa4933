"""Windows of time series: rows with the rows before them at their side."""

from collections.abc import Sequence

import numpy as np

from ..core.schema import FloatArray, Schema
from ..errors import BadInput


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


def check_lags(schema: Schema, lags: int) -> None:
    """Raise `BadInput`, naming the silo, unless each has a stretch of `lags` + 2 rows, so of two windows, at least."""
    for silo in schema.silos:
        longest = max(schema.stretches.get(silo, ()), default=0)
        if longest < lags + 2:
            raise BadInput(
                f"silo {silo}: fewer rows than lags + 2: its longest unbroken series has {longest} rows, "
                f"lags = {lags} need at least {lags + 2}"
            )
