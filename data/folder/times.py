"""The times of rows: numbers, or dates, which count in seconds."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import shown

from .check import cell_fault

FloatArray = NDArray[np.float64]


def times_of(cells: Sequence[str]) -> tuple[FloatArray, dict[str, str]]:
    """Return the time each of a column's distinct `cells` stands for, and what is wrong with those that are none.

    They are numbers, or, if any of them is a date (ISO 8601), seconds since 1970.
    """
    faults = {cell: fault for cell in cells if (fault := cell_fault(cell))}
    if not faults:
        return np.array([float(cell) for cell in cells], dtype=np.float64), {}
    dates = pd.to_datetime(pd.Series(cells, dtype=object), format="ISO8601", errors="coerce", utc=True)
    if dates.isna().all():
        return np.full(len(cells), np.nan), faults
    seconds = np.asarray((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1), dtype=np.float64)
    wrong = [cell for cell, missing in zip(cells, dates.isna(), strict=True) if missing]
    why = "is not a date such as 2020-01-31 or 2020-01-31T12:00"
    return seconds, {cell: f"{shown(cell)} {why}" if cell.strip() else "the cell is empty" for cell in wrong}
