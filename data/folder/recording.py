"""Time series as a long table: a row for each time of each series, read and put in order."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, shown

from .check import MISSING, cell_fault
from .columns import Column, check_cells, read_columns
from .form import NO_FORM, Form
from .levels import empty_cells, labels_of
from .scan import check_apart
from .times import FloatArray, times_of

SERIES, TIME = "series", "time"
"""the columns of a silo's file that are no variables, in capitals or not"""


@dataclass(frozen=True)
class Keys:
    """The columns of a long table that are no variables: the series and the time of a row, and whose row it is."""

    series: str | None = None
    time: str | None = None
    owner: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns there are of these."""
        return tuple(name for name in (self.owner, self.series, self.time) if name is not None)


@dataclass(frozen=True, eq=False)
class Recording:
    """The rows of a long table, series after series as they first appear, each in the order of its times.

    `values` [n_rows, n_variables] are NaN where a cell is empty. Row i is of the series `series[i]`, which is called
    `names[series[i]]` and belongs to `owners[series[i]]`; its time is `times[i]`, written `written[i]`; in the file it
    is row `rows[i]`. Without a column of times, consecutive rows of a series have consecutive times.
    """

    path: Path
    keys: Keys
    variables: tuple[str, ...]
    values: FloatArray
    names: tuple[str, ...]
    owners: tuple[str, ...]
    series: NDArray[np.intp]
    times: FloatArray
    written: NDArray[np.object_]
    rows: NDArray[np.intp]
    form: Form = NO_FORM
    """how the file is written"""

    @property
    def complete(self) -> NDArray[np.bool_]:
        """The rows without an empty cell, `[n_rows]`."""
        return np.asarray(~np.isnan(self.values).any(axis=1))


def read_recording(
    path: Path,
    series: str | None = None,
    time: str | None = None,
    owner: str | None = None,
    form: Form = NO_FORM,
    keep: Callable[[str], bool] = lambda name: True,
) -> Recording:
    """Read `path` (.csv, .csv.gz or .parquet): a header of names, then numbers, and the columns named here.

    By default a column called `series` and one called `time` are taken for these if they are there. Columns that are
    not to be kept are not read, and `form` says how the file is written. Raises `BadInput` naming file, line, column
    and value: what `read_columns` refuses, a column that is not there, a series without a name, a time that is none, a
    cell that is neither a finite number nor empty.
    """
    columns = [column for column in read_columns(path, form) if keep(column.name)]
    header = [column.name for column in columns]
    for name in (series, time, owner):
        if name is not None:
            check_apart(path, header, name)
    keys = Keys(series or named(path, header, SERIES), time or named(path, header, TIME), owner)
    return recording_of(path, columns, keys, form)


def named(path: Path, header: Sequence[str], word: str) -> str | None:
    """Return the column called `word`, in capitals or not; None if there is none, `BadInput` if there are several."""
    found = [name for name in header if name.lower() == word]
    if len(found) > 1:
        raise BadInput(f"{path}: columns {shown(found[0])} and {shown(found[1])}: only one can be the {word}")
    return found[0] if found else None


def recording_of(path: Path, columns: Sequence[Column], keys: Keys, form: Form = NO_FORM) -> Recording:
    """Return the rows of `columns`, which were read from `path`, in order. Raises `BadInput` as `read_recording`."""
    measured = [column for column in columns if column.name not in keys.names]
    if not measured:
        raise BadInput(f"{path}: no column besides {', '.join(map(shown, keys.names))}")
    one = {column.name: column for column in columns}
    clock = one[keys.time] if keys.time is not None else None
    moments, faults = times_of(clock.cells) if clock is not None else (np.empty(0), {})
    labels = [keys.owner, keys.series]
    check_cells(
        path,
        columns,
        {column.name: number_faults(column.cells) for column in measured}
        | {name: empty_cells(one[name].cells) for name in labels if name is not None}
        | ({} if clock is None else {clock.name: faults}),
        form,
    )
    n = len(columns[0].codes)
    numbers: dict[tuple[str, str], int] = {}
    each = zip(*(_labels(one[name], n) if name is not None else [""] * n for name in labels), strict=True)
    series = np.array([numbers.setdefault(pair, len(numbers)) for pair in each], dtype=np.intp)
    times = _consecutive(series) if clock is None else moments[clock.codes].astype(np.float64)
    written = times.astype(object) if clock is None else np.array(clock.cells, dtype=object)[clock.codes]
    order = np.lexsort((times, series))
    values = np.column_stack([_numbers(column) for column in measured])[order]
    owners, names = zip(*numbers, strict=True) if numbers else ((), ())
    variables = tuple(column.name for column in measured)
    taken = (series[order], times[order], written[order], order)
    return Recording(path, keys, variables, values, names, owners, *taken, form)


def number_faults(cells: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with those distinct `cells` of a column that are neither finite numbers nor missing."""
    return {cell: fault for cell in cells if not _missing(cell) and (fault := cell_fault(cell))}


def _missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _consecutive(series: NDArray[np.intp]) -> FloatArray:
    """Return for every row how many rows of its series are before it."""
    return np.asarray(pd.Series(series).groupby(series).cumcount(), dtype=np.float64)


def _numbers(column: Column) -> FloatArray:
    cells = [math.nan if _missing(cell) else float(cell) for cell in column.cells]
    numbers: FloatArray = np.array(cells, dtype=np.float64)[column.codes]
    return numbers


def _labels(column: Column, n: int) -> list[Any]:
    labels = np.array(labels_of(column.cells, None), dtype=object)
    return labels[column.codes].tolist() if n else []
