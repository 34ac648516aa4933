"""A silo's time series: cut where times are missing into unbroken stretches, which follow each other in its table.

Times must be regular: the step is the least difference of two times of a series, and a difference of several steps is a
gap. So is a row in which a cell is empty: it is left out.

The times of rows: numbers, or dates, which count in seconds.

Time series as a long table: a row for each time of each series, read and put in order.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import LEAST_ROWS
from .about import NO_DECLARATION, Declared
from .check import check_table
from .chunked_table import source_of
from .columns import Column, check_cells, read_columns, read_names
from .profile import TOO_FAR, beyond
from .scan import MISSING, NO_FORM, Form, cell_fault, check_label_column, empty_cells, labels_of, place_of_row

FloatArray = NDArray[np.float64]


def times_of(cells: Sequence[str]) -> tuple[FloatArray, dict[str, str]]:
    """The time each of a column's distinct `cells` stands for, and what is wrong with those that are none.

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
            check_label_column(path, header, name)
    keys = Keys(series or find_column(path, header, SERIES), time or find_column(path, header, TIME), owner)
    return recording_of(path, columns, keys, form)


def find_column(path: Path, header: Sequence[str], word: str) -> str | None:
    """The column called `word`, in capitals or not; None if there is none, `BadInput` if there are several."""
    found = [name for name in header if name.lower() == word]
    if len(found) > 1:
        raise BadInput(f"{path}: columns {shown(found[0])} and {shown(found[1])}: only one can be the {word}")
    return found[0] if found else None


def recording_of(path: Path, columns: Sequence[Column], keys: Keys, form: Form = NO_FORM) -> Recording:
    """The rows of `columns`, which were read from `path`, in order. Raises `BadInput` as `read_recording`."""
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
    """For every row how many rows of its series are before it."""
    return np.asarray(pd.Series(series).groupby(series).cumcount(), dtype=np.float64)


def _numbers(column: Column) -> FloatArray:
    cells = [math.nan if _missing(cell) else float(cell) for cell in column.cells]
    numbers: FloatArray = np.array(cells, dtype=np.float64)[column.codes]
    return numbers


def _labels(column: Column, n: int) -> list[Any]:
    labels = np.array(labels_of(column.cells, None), dtype=object)
    return labels[column.codes].tolist() if n else []


ROUNDING = 0.01
"""how far a time may be off, in steps: times are written rounded"""
NO_SERIES = '; if these rows are no time series, say so in about.json: {"kind": "continuous"}'


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """A silo's table: unbroken stretches of rows, of these lengths, one after another; `step` lies between two rows."""

    variables: tuple[str, ...]
    values: FloatArray
    stretches: tuple[int, ...]
    step: float = 1.0

    def rows(self, schema: Schema) -> FloatArray:
        """The table [n_rows, n_variables] with the columns in the order of `schema`, which are the same."""
        return np.ascontiguousarray(self.values[:, [self.variables.index(name) for name in schema.variables]])


@dataclass(frozen=True, eq=False)
class Cut:
    """The complete `rows` of a recording in order, and the `lengths` of the stretches they make."""

    rows: NDArray[np.intp]
    lengths: tuple[int, ...]
    step: float


def read_series(path: Path, declared: Declared = NO_DECLARATION) -> SeriesTable:
    """Read a silo's file of time series, whose times lie as far apart as `declared`, or as the nearest two.

    Raises `BadInput` naming file, line, column and value as `read_recording`, `cut` and `check_table` do.
    """
    if path.is_dir() or path.suffix.lower() == ".sql":
        raise BadInput(
            f"{path}: time series are not read in passes: give them in one file, or, if 'time' is a variable like any "
            'other, say {"kind": "continuous"} in about.json'
        )
    recording = read_recording(path, form=declared.form, keep=declared.keeps)
    found = cut(recording, declared.step, NO_SERIES)
    values = recording.values[found.rows]
    check_table(path, recording.variables, values)
    if declared.reading.learned_from:
        for name, column in zip(recording.variables, values.T, strict=True):
            if beyond(np.abs(column)):
                raise BadInput(f"{path}: column {shown(name)}: {TOO_FAR}")
    return SeriesTable(recording.variables, values, found.lengths, found.step)


def read_cut(path: Path, stretches: tuple[int, ...], declared: Declared = NO_DECLARATION) -> SeriesTable:
    """Read a silo's file of time series whose `stretches` are known. Raises `BadInput` if its rows are others now."""
    recording = read_recording(path, form=declared.form, keep=declared.keeps)
    values = recording.values[recording.complete]
    if len(values) != sum(stretches):
        raise BadInput(f"{path}: it has {len(values)} complete rows, not {sum(stretches)} as when the run began")
    return SeriesTable(recording.variables, values, stretches)


def cut(recording: Recording, step: float | None = None, remedy: str = "") -> Cut:
    """The unbroken stretches of `recording`, whose times lie `step` apart, or as far as the nearest two.

    Raises `BadInput` for a time that stands twice in a series, for times that are not regular, and if no stretch has
    two rows; `remedy` ends the message about times.
    """
    follows, step = _follows(recording, step, remedy)
    rows = np.flatnonzero(recording.complete)
    together = (np.diff(rows) == 1) & follows[rows[:-1]]
    edges = np.concatenate([[0], np.flatnonzero(~together) + 1, [len(rows)]]) if rows.size else np.zeros(1, np.intp)
    lengths = tuple(int(length) for length in np.diff(edges))
    if max(lengths, default=0) < LEAST_ROWS:
        raise BadInput(f"{recording.path}: no two consecutive rows{_left_out(recording)}")
    return Cut(rows, lengths, step)


def check_same_step(place: str, found: float, expected: float, by: str) -> None:
    """Raise `BadInput` unless a silo's rows are as far apart in time as those of the others. `by` is one of them."""
    if abs(found - expected) > ROUNDING * expected:
        step = "give about.json the step that all have in common"
        raise BadInput(f"{place}: its times are {found:g} apart, those of {by} {expected:g}; {step}")


def check_stretches(place: str | Path, variables: Sequence[str], stretches: Sequence[int]) -> None:
    """Raise `BadInput` for time series that could not be read again from the file at `place`."""
    if max(stretches) < LEAST_ROWS:
        raise BadInput(f"{place}: no two consecutive rows in any series")
    for name in variables:
        if name.lower() in (SERIES, TIME):
            raise BadInput(f"{place}: column {shown(name)}: a variable of time series cannot have this name")


def keys_of(stretches: Sequence[int]) -> dict[str, NDArray[np.int64]]:
    """The columns that tell a silo's `stretches` apart: each a series, with the times 0, 1, ..."""
    numbers = np.repeat(np.arange(1, len(stretches) + 1), stretches)
    return {SERIES: numbers, TIME: np.concatenate([np.arange(length) for length in stretches])}


def _follows(recording: Recording, step: float | None, remedy: str) -> tuple[NDArray[np.bool_], float]:
    """Whether each row but the first is one step after the row before, `[n_rows - 1]`, and what a step is."""
    within = np.diff(recording.series) == 0
    apart = np.diff(recording.times)
    twice = np.flatnonzero(within & (apart == 0))
    if twice.size:
        raise BadInput(f"{_place(recording, twice[0] + 1)} stands in the series already{remedy}")
    if not within.any():
        return within, step or 1.0
    step = step or _step(apart[within])
    steps = apart / step
    irregular = np.flatnonzero(within & ((abs(steps - np.rint(steps)) > ROUNDING) | (steps < 0.5)))
    if irregular.size:
        row = irregular[0] + 1
        far = f"{apart[row - 1]:g} after the time before, not a whole number of steps of {step:g}"
        raise BadInput(f"{_place(recording, row)} is {far}{remedy}")
    return within & (np.rint(steps) == 1), step


def _step(apart: FloatArray) -> float:
    """The least difference between times, as the mean of all that are the same but for rounding."""
    return float(apart[apart <= apart.min() * (1 + ROUNDING)].mean())


def _place(recording: Recording, row: int) -> str:
    """File, line, series and time of a row, for a message."""
    name, column = recording.names[recording.series[row]], recording.keys.time or "time"
    series = f", series {shown(name)}" if name else ""
    place = place_of_row(recording.path, int(recording.rows[row]), recording.form)
    return f"{place}{series}, column {shown(column)}: {shown(str(recording.written[row]))}"


def _left_out(recording: Recording) -> str:
    """How many rows have an empty cell, and where the first of them is, for a message."""
    gone = np.flatnonzero(~recording.complete)
    if not gone.size:
        return " in any series"
    row = int(gone[np.argmin(recording.rows[gone])])
    column = recording.variables[int(np.argmax(np.isnan(recording.values[row])))]
    place = place_of_row(recording.path, int(recording.rows[row]), recording.form).removeprefix(f"{recording.path}: ")
    count = f"{len(gone)} of {len(recording.rows)} have an empty cell"
    return f" are complete: {count}, the first in {place}, column {shown(column)}"


def has_time(path: Path, declared: Declared = NO_DECLARATION) -> bool:
    """Whether a file has a column `time`, in capitals or not, that is read; one that cannot be read has none."""
    try:
        source = source_of(path, declared)
        names = read_names(path, declared.form) if source is None else source.names
    except (BadInput, OSError, EOFError, zlib.error):
        return False
    return any(name.lower() == TIME and declared.keeps(name) for name in names)
