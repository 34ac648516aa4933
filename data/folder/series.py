"""Time series: long tables of recordings, and their division into unbroken stretches.

A recording is a long table with a row for each time of each series. Times are numbers, quarters or months, which are
numbered, or dates, which are converted to seconds. `cut` divides a recording at gaps into stretches, which follow each
other in a silo's table. Times must be regular: by default the step is the minimum difference between two times of a
series, and a difference of several steps is a gap. A row with an empty cell is left out and leaves a gap, unless the
learner models empty cells. The cells of a column are numbers, or labels if about.json declares their levels; the values
of labels are the codes of these levels.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import NOT_SERIES, Schema
from fedbnsl.algorithms.errors import BadInput, pluralize, quoted

from ..federated import MIN_SILO_ROWS
from .about import NO_DECLARATION, Declared
from .batches import Column, PlaceOf, Source, cells_in, check_cells, columns_in_memory
from .cells import MISSING, cell_fault, empty_cells, labels_of
from .check import check_label_column, check_table
from .dates import DATE_PART, PARTS_OF_TIMES, looks_like_date, time_text, time_unit, times_of, unit_fault
from .formats import BROKEN, NO_FORM, Form
from .profile import BEYOND_RANGE, beyond
from .sources import left_out_names, open_source, source_of

FloatArray = NDArray[np.float64]


NO_LEVELS: Mapping[str, Sequence[str]] = {}
SERIES, TIME = "series", "time"
"""columns of a silo's file that are not variables, in capitals or not"""


@dataclass(frozen=True)
class Keys:
    """The key columns of a long table: the series, the time and the owner of a row."""

    series: str | None = None
    time: str | None = None
    owner: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key columns that exist."""
        return tuple(name for name in (self.owner, self.series, self.time) if name is not None)


@dataclass(frozen=True, eq=False)
class Recording:
    """The rows of a long table, by series in the order of their first rows, and each series in the order of its times.

    `values` [n_rows, n_variables] are NaN where a cell is empty. Row i belongs to the series `series[i]`, whose name is
    `names[series[i]]` and whose owner is `owners[series[i]]`. The time of row i is `times[i]`. In the file, the row has
    the number `rows[i]`, and its time is written as `written[i]`. Without a column of times, consecutive rows of a
    series have consecutive times.
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
    place_of: PlaceOf
    excluded: tuple[str, ...] = ()
    """the columns that were not read"""

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
    levels: Mapping[str, Sequence[str]] = NO_LEVELS,
) -> Recording:
    """Read `path` (`formats.py`): a header of names, then numbers, and the key columns.

    The default keys are columns with the names `series` and `time`, if they exist. Only columns that `keep` accepts are
    read; `form` is the declared dialect, and `levels` has the levels of columns of labels. Raises `BadInput` naming
    file, line, column and value for a file that is not a table, for a missing column, a series without a name, an
    invalid time, and a cell that is neither a finite number, nor a declared level, nor empty.
    """
    source = open_source(path, form, keep)
    columns = columns_in_memory(source, keep)
    header = [column.name for column in columns]
    for name in (series, time, owner):
        if name is not None:
            check_label_column(path, header, name)
    keys = Keys(series or find_column(path, header, SERIES), time or find_column(path, header, TIME), owner)
    return recording_of(source, columns, keys, levels)


def find_column(path: Path, header: Sequence[str], word: str) -> str | None:
    """The column with the name `word`, in capitals or not, or None. Raises `BadInput` for several such columns."""
    found = [name for name in header if name.lower() == word]
    if len(found) > 1:
        raise BadInput(f"{path}: columns {quoted(found[0])} and {quoted(found[1])}: only one can be the {word}")
    return found[0] if found else None


def recording_of(
    source: Source,
    columns: Sequence[Column],
    keys: Keys,
    levels: Mapping[str, Sequence[str]] = NO_LEVELS,
) -> Recording:
    """The recording in `columns`, which were read from `source`. Raises `BadInput` as `read_recording` does."""
    path, measured = source.path, [column for column in columns if column.name not in keys.names]
    if not measured:
        raise BadInput(f"{path}: no column besides {', '.join(map(quoted, keys.names))}")
    by_name = {column.name: column for column in columns}
    clock = by_name[keys.time] if keys.time is not None else None
    moments, faults = times_of(clock.cells) if clock is not None else (np.empty(0), {})
    labels = [keys.owner, keys.series]
    check_cells(
        source.place,
        columns,
        {column.name: _faults(column, levels.get(column.name)) for column in measured}
        | {name: empty_cells(by_name[name].cells) for name in labels if name is not None}
        | ({} if clock is None else {clock.name: faults}),
    )
    n = len(columns[0].codes)
    numbers: dict[tuple[str, str], int] = {}
    pairs = zip(*(_column_labels(by_name[name], n) if name is not None else [""] * n for name in labels), strict=True)
    series = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.intp)
    times = _consecutive(series) if clock is None else moments[clock.codes].astype(np.float64)
    written = times.astype(object) if clock is None else np.array(clock.cells, dtype=object)[clock.codes]
    order = np.lexsort((times, series))
    values = np.column_stack([_column_values(column, levels.get(column.name)) for column in measured])[order]
    owners, names = zip(*numbers, strict=True) if numbers else ((), ())
    variables = tuple(column.name for column in measured)
    rows = (series[order], times[order], written[order], order)
    return Recording(path, keys, variables, values, names, owners, *rows, source.place)


def _faults(column: Column, levels: Sequence[str] | None) -> dict[str, str]:
    """The faults of the distinct cells of a column of numbers, or of labels with these `levels`."""
    present = [cell for cell in column.cells if not _missing(cell)]
    if levels is None:
        faults, remedy = {cell: cell_fault(cell) for cell in present}, "if the column has labels, declare its levels"
        return {
            cell: f"{fault}; {remedy} in about.json" if "not a number" in fault else fault
            for cell, fault in faults.items()
            if fault
        }
    return {
        cell: f"{quoted(cell)} is not one of the declared levels {', '.join(levels)}"
        for cell, label in zip(present, labels_of(present, levels), strict=True)
        if label not in levels
    }


def _missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _consecutive(series: NDArray[np.intp]) -> FloatArray:
    """The number of each row within its series, from 0."""
    import pandas as pd

    return np.asarray(pd.Series(series).groupby(series).cumcount(), dtype=np.float64)


def numbers_of(column: Column, place_of: PlaceOf) -> FloatArray:
    """The numbers of a column `[n_rows]`, NaN in empty cells; raises `BadInput` for any other cell."""
    check_cells(place_of, [column], {column.name: _faults(column, None)})
    return _column_values(column, None)


def _column_values(column: Column, levels: Sequence[str] | None) -> FloatArray:
    """The numbers of a column, or the codes of its labels, `[n_rows]`; NaN in empty cells."""
    if levels is not None:
        labels = labels_of(column.cells, levels)
        cells = [float(levels.index(label)) if label in levels else math.nan for label in labels]
    else:
        cells = [math.nan if _missing(cell) else float(cell) for cell in column.cells]
    numbers: FloatArray = np.array(cells, dtype=np.float64)[column.codes]
    return numbers


def _column_labels(column: Column, n: int) -> list[Any]:
    labels = np.array(labels_of(column.cells, None), dtype=object)
    return labels[column.codes].tolist() if n else []


ROUNDING = 0.01
"""tolerance of times, in steps, because files have rounded times"""
MIN_REGULAR = 0.5
"""minimum share of the times that are one or two steps after the time before, for rows that are series by default"""
REFUSED = "the cell is empty, and --missing refuse allows no empty cells"


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """A silo's table: its rows are unbroken `stretches`, given by their lengths; `step` is in units of time."""

    variables: tuple[str, ...]
    values: FloatArray
    stretches: tuple[int, ...]
    step: float = 1.0
    left_out: int = 0
    """number of rows with an empty cell, which are not in the table"""
    streamed: bool = False
    """whether the rows are read in passes (`chunked_series.py`)"""
    excluded: tuple[str, ...] = ()
    """the columns that were not read"""

    @property
    def empty(self) -> tuple[int, ...]:
        """The number of empty cells of each column."""
        return tuple(map(int, np.isnan(self.values).sum(axis=0)))

    def rows(self, schema: Schema) -> FloatArray:
        """The table [n_rows, n_variables] with its columns in the order of `schema`."""
        return np.ascontiguousarray(self.values[:, [self.variables.index(name) for name in schema.variables]])


@dataclass(frozen=True)
class DescribedSeries:
    """The public description of time series: the lengths of unbroken stretches, and the time step between rows."""

    silo: str
    variables: tuple[str, ...]
    stretches: tuple[int, ...]
    step: float
    left_out: int = 0
    """number of rows with an empty cell, which are in no stretch"""
    empty: tuple[int, ...] = ()
    """the number of empty cells of each column, if the learner models empty cells"""
    streamed: bool = False
    """whether the silo's rows are read in passes, because they exceed its memory limit"""
    excluded: tuple[str, ...] = ()
    """the columns that the reader excluded"""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.stretches)


def series_schema(series: Sequence[DescribedSeries], declared: Declared) -> Schema:
    """The public schema of time series by silo, with the columns in the order of the first silo."""
    variables = series[0].variables
    stretches = {one.silo: one.stretches for one in series}
    by_column = {one.silo: dict(zip(one.variables, one.empty, strict=True)) for one in series}
    empty = {silo: tuple(counts[name] for name in variables) for silo, counts in by_column.items()}
    return Schema(
        variables,
        {one.silo: one.rows for one in series},
        "time-series",
        declared.levels_among(variables),
        stretches,
        empty=empty if any(map(any, empty.values())) else {},
        streamed=tuple(sorted(one.silo for one in series if one.streamed)),
    )


@dataclass(frozen=True, eq=False)
class Cut:
    """The `rows` of a recording in order, and the `lengths` of their stretches; without rows that are left out."""

    rows: NDArray[np.intp]
    lengths: tuple[int, ...]
    step: float


def read_series(path: Path, declared: Declared = NO_DECLARATION) -> SeriesTable:
    """Read a silo's file of time series; the step is `declared`, or else the minimum difference of two times.

    Raises `BadInput` naming file, line, column and value as `read_recording`, `cut` and `check_table` do, and for an
    empty cell if empty cells are refused.
    """
    recording = _recording(path, declared)
    if declared.reading.missing == "refuse":
        _refuse_empty(recording)
    keeps = keeps_empty_cells(declared)
    stretches = cut(recording, declared.step, NOT_SERIES, keeps_empty=keeps)
    values = recording.values[stretches.rows]
    numbers = [v for v, name in enumerate(recording.variables) if name not in declared.levels]
    if keeps:
        check_columns_with_gaps(path, recording.variables, values)
    elif numbers:  # a state may be constant at a silo, for example an alarm that never occurred
        check_table(path, [recording.variables[v] for v in numbers], values[:, numbers])
    if declared.reading.learned_from:
        for name, column in zip(recording.variables, values.T, strict=True):
            cells = column[~np.isnan(column)]
            if len(cells) and beyond(np.abs(cells)):
                raise BadInput(f"{path}: column {quoted(name)}: {BEYOND_RANGE}")
    left_out = 0 if keeps else int((~recording.complete).sum())
    lengths, step = stretches.lengths, stretches.step
    return SeriesTable(recording.variables, values, lengths, step, left_out, excluded=recording.excluded)


def keeps_empty_cells(declared: Declared) -> bool:
    """Whether rows with an empty cell remain in series, because the learner models empty cells; never with labels."""
    return declared.reading.series_gaps and not declared.levels


def check_columns_with_gaps(path: str | Path, variables: Sequence[str], values: FloatArray) -> None:
    """Raise `BadInput` for a column whose cells are all the same; a silo may have a column of empty cells only."""
    for name, column in zip(variables, values.T, strict=True):
        cells = column[~np.isnan(column)]
        if len(cells) and cells.min() == cells.max():
            raise BadInput(f"{path}: column {quoted(name)}: constant, every cell that is not empty is {cells[0]}")


def left_out_notes(rows: Mapping[str, int], left_out: Mapping[str, int]) -> tuple[str, ...]:
    """A note for each silo that left rows out: the number `left_out`, and the total with the `rows` that remain."""
    return tuple(
        f"{silo}: {count} of {pluralize(rows[silo] + count, 'row')} left out because of empty cells: each ends a "
        "stretch, and no window of rows crosses it"
        for silo, count in left_out.items()
        if count
    )


def _recording(path: Path, declared: Declared) -> Recording:
    """The recording in `path`, with the columns of times that are requested or, by default, a column `time`."""
    source = source_of(path, declared)
    columns = columns_in_memory(source, declared.keeps)
    excluded = left_out_names(source, [column.name for column in columns])
    header = [column.name for column in columns]
    if not declared.reading.time:
        keys = Keys(find_column(path, header, SERIES), find_column(path, header, TIME))
        return replace(recording_of(source, columns, keys, declared.levels), excluded=excluded)
    for name in declared.reading.time:
        check_label_column(path, header, name)
    parts = [column for name in declared.reading.time for column in columns if column.name == name]
    time = joined_time(source, parts) if len(parts) > 1 else parts[0]
    columns = [time, *(column for column in columns if column.name not in declared.reading.time)]
    keys = Keys(find_column(path, header, SERIES), time.name)
    return replace(recording_of(source, columns, keys, declared.levels), excluded=excluded)


def joined_time(source: Source, columns: Sequence[Column]) -> Column:
    """One column of times from `columns` with their parts: a year and quarter, or year, month, day, hour and so on.

    Raises `BadInput` for columns that are no such parts together, and for a cell that is no such part.
    """
    given = ",".join(column.name for column in columns)
    units = [_unit_of(column) for column in columns]
    if set(units) not in map(set, PARTS_OF_TIMES):
        raise BadInput(
            f"{source.path}: --time {given}: by their names, these columns are not year and quarter, nor year, month, "
            "day, hour and so on without one left out, nor a date with hour and so on"
        )
    faults = [{cell: unit_fault(cell, unit) for cell in one.cells} for unit, one in zip(units, columns, strict=True)]
    named = zip(columns, faults, strict=True)
    check_cells(
        source.place, columns, {one.name: {cell: why for cell, why in own.items() if why} for one, own in named}
    )
    together, codes = np.unique(np.stack([one.codes for one in columns]), axis=1, return_inverse=True)
    rows = ([column.cells[code] for column, code in zip(columns, row, strict=True)] for row in together.T)
    return Column(given, np.ravel(codes), [time_text(dict(zip(units, cells, strict=True))) for cells in rows])


def _unit_of(column: Column) -> str:
    """The part of a time that a column has, by its cells if they are dates, and else by its name; "" for none."""
    if all(looks_like_date(cell) or _missing(cell) for cell in column.cells):
        return DATE_PART
    return time_unit(column.name) or ""


def read_cut(path: Path, stretches: tuple[int, ...], declared: Declared = NO_DECLARATION) -> SeriesTable:
    """Read a silo's file of time series with known `stretches`. Raises `BadInput` if the number of rows has changed."""
    recording = _recording(path, replace(declared, kind="time-series"))
    keeps = keeps_empty_cells(declared)
    values = recording.values if keeps else recording.values[recording.complete]
    if len(values) != sum(stretches):
        rows = "rows" if keeps else "complete rows"
        raise BadInput(f"{path}: it has {len(values)} {rows}, not {sum(stretches)} as when the run began")
    return SeriesTable(recording.variables, values, stretches)


@dataclass
class Cutter:
    """The stretches of the rows that were added so far, and the state after the last of these rows."""

    step: float
    lengths: list[int] = field(default_factory=list)
    """the lengths of the stretches of complete rows; the last stretch may continue"""
    rows: int = 0
    left_out: int = 0
    complete: bool = False
    """whether the last row has no empty cell"""

    def add(
        self, differences: FloatArray, complete: NDArray[np.bool_], place_of: PlaceOf, remedy: str = NOT_SERIES
    ) -> None:
        """Add rows to the stretches: the time from each row's predecessor to it, and whether each row is `complete`.

        This time is NaN for the first row of a series. Raises `BadInput` for irregular times, with the `place_of` the
        row among the added rows and the `remedy`.
        """
        steps = differences / self.step
        for row in np.flatnonzero((abs(steps - np.rint(steps)) > ROUNDING) | (steps < 0.5))[:1].tolist():
            month = "; write months as 2020-01" if 28 <= self.step / 86_400 <= 31 else ""
            fault = f"{differences[row]:g} after the previous time, not a whole number of steps of {self.step:g}{month}"
            raise BadInput(f"{place_of(row)} is {fault}{remedy}")
        before = np.concatenate([[self.complete], complete[:-1]])
        starts = np.flatnonzero((complete & ~((np.rint(steps) == 1) & before))[complete])
        count = int(complete.sum())
        edges = [0, *starts.tolist(), count] if not len(starts) or starts[0] else [*starts.tolist(), count]
        found = np.diff(edges).tolist()
        if count and not (len(starts) and starts[0] == 0):
            self.lengths[-1] += found.pop(0)
        self.lengths += found if count else []
        self.rows, self.left_out = self.rows + len(complete), self.left_out + len(complete) - count
        self.complete = bool(complete[-1]) if len(complete) else self.complete

    def check(self, path: Path, first_empty: Callable[[], str | None]) -> None:
        """Raise `BadInput` if no stretch has two rows, with the place of the `first_empty` cell, if any."""
        if max(self.lengths, default=0) >= MIN_SILO_ROWS:
            return
        place = first_empty() if self.left_out else None
        if place is None:
            raise BadInput(f"{path}: no two consecutive rows in any series")
        count = f"{self.left_out} of {self.rows} have an empty cell, the first in {place.removeprefix(f'{path}: ')}"
        raise BadInput(f"{path}: no two consecutive rows are complete: {count}")


def step_of(differences: Callable[[], Iterable[FloatArray]]) -> float:
    """The time step: the mean of all differences of times that equal the minimum up to rounding; 1 without any.

    Each call of `differences` yields the differences in one pass over the rows, NaN for the first row of a series.
    """
    least, total, count = math.inf, 0.0, 0
    for one in differences():
        least = min(least, float(np.nanmin(one, initial=math.inf)))
    if math.isinf(least):
        return 1.0
    for one in differences():
        near = one[one <= least * (1 + ROUNDING)]
        total, count = total + float(near.sum()), count + len(near)
    return total / count


def time_place(place: str, series: str, column: str | None, written: object) -> str:
    """The `place` of a row with its series and its time as `written`, for a message on the time."""
    named = f", series {quoted(series)}" if series else ""
    return f"{place}{named}, column {quoted(column or TIME)}: {quoted(str(written))}"


def cut(recording: Recording, step: float | None = None, remedy: str = "", *, keeps_empty: bool = False) -> Cut:
    """The unbroken stretches of `recording`; the default `step` is the minimum difference of two times.

    A row with an empty cell ends a stretch, unless the learner `keeps_empty` cells.

    Raises `BadInput` for a duplicate time in a series, for irregular times, and if no stretch has two rows. Messages on
    times end with `remedy`.
    """

    def place_of(row: int) -> str:
        place, series = recording.place_of(int(recording.rows[row])), recording.names[recording.series[row]]
        return time_place(place, series, recording.keys.time, recording.written[row])

    first = np.diff(recording.series, prepend=-1) != 0
    differences = np.where(first, np.nan, np.diff(recording.times, prepend=0.0))
    for row in np.flatnonzero(differences == 0)[:1].tolist():
        raise BadInput(f"{place_of(row)} is a duplicate in its series{remedy}")
    complete = np.ones(len(first), np.bool_) if keeps_empty else recording.complete
    cutter = Cutter(step or step_of(lambda: [differences]))
    cutter.add(differences, complete, place_of, remedy)
    cutter.check(recording.path, lambda: _first_empty_cell(recording))
    return Cut(np.flatnonzero(complete), tuple(cutter.lengths), cutter.step)


def check_same_step(place: str, found: float, expected: float, by: str) -> None:
    """Raise `BadInput` unless a silo's time step equals the step of other silos; `by` is the file of one of these."""
    if abs(found - expected) > ROUNDING * expected:
        remedy = "declare the common step in about.json"
        raise BadInput(f"{place}: its times are {found:g} apart, those of {by} {expected:g}; {remedy}")


def check_stretches(place: str | Path, variables: Sequence[str], stretches: Sequence[int]) -> None:
    """Raise `BadInput` for time series that could not be read again from a file at `place`."""
    if max(stretches) < MIN_SILO_ROWS:
        raise BadInput(f"{place}: no two consecutive rows in any series")
    for name in variables:
        if name.lower() in (SERIES, TIME):
            raise BadInput(f"{place}: column {quoted(name)}: a variable of time series cannot have this name")


def series_and_time(stretches: Sequence[int]) -> dict[str, NDArray[np.int64]]:
    """The key columns for a silo's `stretches`: each stretch is a series, with the times 0, 1, ..."""
    numbers = np.repeat(np.arange(1, len(stretches) + 1), stretches)
    return {SERIES: numbers, TIME: np.concatenate([np.arange(length) for length in stretches])}


def _first_empty_cell(recording: Recording) -> str | None:
    """File, line and column of the first empty cell, row by row as in the file; None if no cell is empty."""
    incomplete = np.flatnonzero(~recording.complete)
    if not incomplete.size:
        return None
    row = int(incomplete[np.argmin(recording.rows[incomplete])])
    column = recording.variables[int(np.argmax(np.isnan(recording.values[row])))]
    return f"{recording.place_of(int(recording.rows[row]))}, column {quoted(column)}"


def _refuse_empty(recording: Recording) -> None:
    """Raise `BadInput` for the first empty cell of a recording."""
    place = _first_empty_cell(recording)
    if place is not None:
        raise BadInput(f"{place}: {REFUSED}")


def has_time(path: Path, declared: Declared = NO_DECLARATION) -> bool:
    """Whether a file has a column `time`, in capitals or not, that the reader keeps; False for an unreadable file."""
    return bool(declared.reading.time) or _time_column(path, declared) is not None


def has_regular_time(path: Path, declared: Declared = NO_DECLARATION) -> bool:
    """Whether the rows of a file are a time series by default: they have a column `time`, with regular times.

    Most times must be one or two steps after the time before, within each series; durations, such as the days of
    follow-up in survival data, repeat or have gaps. Of a long file, only the first rows are examined. With `--time` or
    a declared step, the times may have any gaps.
    """
    name = _time_column(path, declared)
    if declared.reading.time or (name is not None and declared.step is not None):
        return True
    if name is None:
        return False
    source = source_of(path, declared)
    series = find_column(path, [one for one in source.names if declared.keeps(one)], SERIES)
    names = [name] if series is None else [name, series]
    batch = next(iter(source.batches(names, names)), None)
    if batch is None:
        return True
    cells, codes = cells_in(batch.column(0))
    present = np.unique(codes)
    found, faults = times_of([cells[code] for code in present])
    times = np.full(len(cells), np.nan)
    times[present] = [np.nan if cells[code] in faults else one for code, one in zip(present, found, strict=True)]
    groups = np.zeros(len(codes), np.int64) if series is None else cells_in(batch.column(1))[1]
    order = np.lexsort((times[codes], groups))
    differences, same = np.diff(times[codes][order]), np.diff(groups[order]) == 0
    if not same.any():
        return True
    steps = np.nan_to_num(differences[same])
    least = steps[steps > 0].min(initial=math.inf)
    near = (steps > 0) & (steps <= (2 + ROUNDING) * least)
    return bool(near.mean() >= MIN_REGULAR)


def _time_column(path: Path, declared: Declared) -> str | None:
    try:
        names = source_of(path, declared).names
    except (BadInput, *BROKEN):
        return None
    return next((name for name in names if name.lower() == TIME and declared.keeps(name)), None)
