"""Time series that a silo reads in passes, because they exceed its memory: their stretches, and their rows.

The first complete pass reads all columns and cuts the series into stretches, as `series.py` does in memory. If the time
step is not declared, one or two passes over the times come before, to find the step. Later passes read the measured
columns only (`RowView`): from the lengths of the stretches, learners know where windows end. Rows must be sorted by
series and time, because sorting would need all rows in memory. Series with labels are refused, and so are empty cells
that a learner would model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import NOT_SERIES, FloatArray, Schema
from fedbnsl.algorithms.diagnosis.series_rows import PASSES_NOTE
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.statistics.transforms import below_domain, domain_fault

from .about import ABOUT, Declared
from .batches import Column, PlaceOf, Source, cell_text, cells_in, exceeds_memory, numbers_in
from .cells import cell_fault, empty_cells, label_of, labels_of
from .check import check_label_column, check_same_columns
from .dates import dates_of, periods_of, times_of
from .harmonise import HarmonisedSource
from .parquet import ParquetParts
from .profile import BEYOND_RANGE, beyond
from .series import (
    REFUSED,
    SERIES,
    TIME,
    Cutter,
    DescribedSeries,
    Keys,
    SeriesTable,
    find_column,
    has_regular_time,
    has_time,
    keeps_empty_cells,
    numbers_of,
    read_series,
    step_of,
    time_place,
)
from .sources import CachedSource, source_of
from .table import Mapper, RowView

SORT = "rows of series that exceed the memory limit must be sorted by series and time"


@dataclass(frozen=True)
class SeriesPasses:
    """A silo's series that are read in passes: the public facts about the series, and their rows."""

    series: "LargeSeries"
    variables: tuple[str, ...]
    stretches: tuple[int, ...]
    step: float
    left_out: int
    """number of rows with an empty cell, which end a stretch"""
    excluded: tuple[str, ...] = ()
    """the columns that are not read"""
    streamed: bool = True

    @property
    def empty(self) -> tuple[int, ...]:
        """Zero for each column, because rows with an empty cell are left out."""
        return (0,) * len(self.variables)

    def rows(self, schema: Schema) -> RowView:
        """The table `[n_rows, n_variables]` with its columns in the order of `schema`, read in passes."""
        return self.series.rows(schema, sum(self.stretches))


def described_series(silo: str, series: SeriesTable | SeriesPasses) -> DescribedSeries:
    """The public description of the `series` of a silo."""
    size = (series.variables, series.stretches, series.step, series.left_out, series.empty)
    return DescribedSeries(silo, *size, series.streamed, series.excluded)


def have_times(files: Mapping[str, Path], declared: Declared) -> bool:
    """Whether the silos' `files` have regular times in a column `time`.

    Raises `BadInput` if only some of them have a column `time`.
    """
    timed = {path: has_time(path, declared.at_silo(silo)) for silo, path in files.items()}
    if len(set(timed.values())) < 2:
        return all(has_regular_time(path, declared.at_silo(silo)) for silo, path in files.items())
    without, other = (next(path for path, has in timed.items() if has is wanted) for wanted in (False, True))
    raise BadInput(
        f"{without} has no column '{TIME}', and {other.name} has one: write the times, or declare "
        f'"kind": "time-series" in {ABOUT} if the rows are in the order of time'
    )


def open_series(path: Path, declared: Declared) -> SeriesTable | SeriesPasses:
    """The series at `path`, in memory or, if they exceed the memory limit, in passes.

    Raises `BadInput` as `read_series` does, and for declarations that need series in memory.
    """
    by_default = declared.kind is None and not declared.reading.time
    declared = replace(declared, kind="time-series")
    source = series_source(path, declared)
    try:
        return read_series(path, declared) if source is None else LargeSeries(source, declared).profile()
    except BadInput as error:
        if not by_default:
            raise
        raise BadInput(f"read as time series because of regular times in column '{TIME}': {error}") from None


def series_source(path: Path, declared: Declared) -> Source | None:
    """The rows of the series at `path` if they are read in passes, None if they fit into memory.

    If the data are time series, small folders of Parquet parts are read into memory, because more can be computed in
    memory. With other data, they are read in passes.
    """
    source = source_of(path, declared)
    if isinstance(source, CachedSource):
        return None
    plain = source.source if isinstance(source, HarmonisedSource) else source
    if isinstance(plain, ParquetParts):
        return source if exceeds_memory(8 * plain.rows * len(plain.names)) else None
    return source


@dataclass(frozen=True)
class LargeSeries:
    """The series of `source`, which are read in passes."""

    source: Source
    declared: Declared

    def profile(self) -> SeriesPasses:
        """The public facts; raises `BadInput` naming file, row, column and value, as `read_series` does."""
        self._refuse_what_needs_memory()
        names = self._names
        cutter = Cutter(self.declared.step or self._step())
        first_empty: tuple[int, str] | None = None
        low, high, greatest = np.full(len(names), np.inf), np.full(len(names), -np.inf), 0.0
        for start, difference, columns, place_of in self._batches(names):
            values = np.column_stack(
                [self._numbers(name, one, start) for name, one in zip(names, columns, strict=True)]
            )
            complete = np.asarray(~np.isnan(values).any(axis=1))
            for row in np.flatnonzero(~complete)[:1].tolist() if first_empty is None else ():
                first_empty = start + row, names[int(np.argmax(np.isnan(values[row])))]
                self._check_empty(*first_empty)
            self._check_domains(values, start)
            cutter.add(difference, complete, place_of)
            kept = values[complete]
            if len(kept):
                low, high = np.minimum(low, kept.min(axis=0)), np.maximum(high, kept.max(axis=0))
                greatest = max(greatest, float(np.abs(kept).max()))
        cutter.check(self._path, lambda: None if first_empty is None else self._place(*first_empty))
        for v in np.flatnonzero(low == high)[:1]:
            raise BadInput(f"{self._path}: column {quoted(names[v])}: constant, every row is {low[v]}")
        for v, name in enumerate(names):
            if self.declared.reading.learned_from and beyond(np.abs([low[v], high[v]])):
                raise BadInput(f"{self._path}: column {quoted(name)}: {BEYOND_RANGE}")
        excluded = tuple(name for name in self.source.names if not self.declared.keeps(name))
        return SeriesPasses(self, names, tuple(cutter.lengths), cutter.step, cutter.left_out, excluded)

    def rows(self, schema: Schema, count: int, mapper: Mapper = map) -> RowView:
        """The `count` complete rows in the form of `schema`, read in passes.

        `mapper` applies a function to each part, for sums that need no windows.
        """
        check_same_columns(self._path, self._names, schema.variables, "the schema")
        return RowView(self.source, replace(schema, complete_rows=True), count, mapper=mapper)

    @property
    def _path(self) -> Path:
        return self.source.path

    @cached_property
    def _keys(self) -> Keys:
        header = [name for name in self.source.names if self.declared.keeps(name)]
        chosen = self.declared.reading.time
        for name in chosen:
            check_label_column(self._path, list(self.source.names), name)
        time = chosen[0] if chosen else find_column(self._path, header, TIME)
        return Keys(find_column(self._path, header, SERIES), time)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The measured columns; raises `BadInput` if there are none."""
        names = tuple(name for name in self.source.names if self.declared.keeps(name) and name not in self._keys.names)
        if not names:
            raise BadInput(f"{self._path}: no column besides {', '.join(map(quoted, self._keys.names))}")
        return names

    def _refuse_what_needs_memory(self) -> None:
        """Raise `BadInput` for declarations that require series in memory."""
        for name in self._names:
            if name in self.declared.levels:
                raise BadInput(
                    f"{self._path}: column {quoted(name)} has labels, and its series exceed the memory limit"
                )
        if len(self.declared.reading.time) > 1:
            raise BadInput(f"{self._path}: --time: series that exceed the memory limit need one column of times")

    def _batches(self, names: tuple[str, ...]) -> Iterator[tuple[int, FloatArray, tuple[Any, ...], PlaceOf]]:
        """Yield batches: number of the first row, the time from each row's predecessor to it, the columns `names`, and
        the place of a row of the batch in messages on its time.

        This time is NaN for the first row of a series; without a column of times, it is 1. Raises `BadInput` for
        invalid keys, and for rows that are not in order.
        """
        keys, start = self._keys, 0
        numbers: dict[str, int] = {}
        last_series, last_time, dates = -1, 0.0, None
        words = self.source.words & set(keys.names) | ({keys.series} if keys.series else set())
        for batch in self.source.batches([*keys.names, *names], words):
            n, columns = batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True))
            if not n:
                continue
            series, times = np.zeros(n, np.int64), np.arange(start, start + n, dtype=np.float64)
            if keys.series is not None:
                series = self._series(columns[keys.series], numbers, last_series, start)
            if keys.time is not None:
                times, dates = self._times(columns[keys.time], dates, start)
            same = np.diff(series, prepend=last_series) == 0
            difference = np.where(same, np.diff(times, prepend=last_time), np.nan)
            place_of = partial(self._time_place, columns, start)
            for row in np.flatnonzero(difference <= 0)[:1].tolist():
                if difference[row] == 0:
                    raise BadInput(f"{place_of(row)} is a duplicate in its series{NOT_SERIES}")
                raise BadInput(f"{place_of(row)} is before the time of the row above: {SORT}")
            yield start, difference, tuple(columns[name] for name in names), place_of
            start, last_series, last_time = start + n, int(series[-1]), float(times[-1])

    def _series(self, column: Any, numbers: dict[str, int], last: int, start: int) -> NDArray[np.int64]:
        """The number of the series of each row, in the order of first rows.

        Raises `BadInput` for an empty cell, and for rows that are not sorted by series.
        """
        texts, codes = cells_in(column)
        labels, faults, name = labels_of(texts, None), empty_cells(texts), self._keys.series or ""
        begins = np.flatnonzero(np.diff(codes, prepend=-1))
        found = np.empty(len(begins), np.int64)
        for at, begin in enumerate(begins.tolist()):
            label = labels[codes[begin]]
            if texts[codes[begin]] in faults:
                raise BadInput(f"{self._place(start + begin, name)}: {faults[texts[codes[begin]]]}")
            found[at] = numbers.setdefault(label, len(numbers))
            if found[at] < last:
                place = self._place(start + begin, name)
                raise BadInput(f"{place}: {quoted(label)} goes on after another series: {SORT}")
            last = int(found[at])
        return np.repeat(found, np.diff(np.append(begins, len(codes))))

    def _times(self, column: Any, dates: bool | None, start: int) -> tuple[FloatArray, bool]:
        """The times of a batch, and whether the times are dates; raises `BadInput` for a cell that is not a time.

        `dates` is whether the times of earlier batches are dates, None for the first batch.
        """
        import pyarrow

        kind = column.type
        if pyarrow.types.is_timestamp(kind) or pyarrow.types.is_date(kind):
            ticks = column.cast(pyarrow.timestamp("ns", getattr(kind, "tz", None))).cast(pyarrow.int64())
            seconds = ticks.fill_null(0).to_numpy(zero_copy_only=False) / 1e9
            found, dates = np.where(column.is_null().to_numpy(zero_copy_only=False), np.nan, seconds), True
            faults, cells, codes = dict[str, str](), [""], np.zeros(len(found), np.int64)
        elif (numbers := numbers_in(column)) is not None:
            found, dates = numbers, False
            faults, cells, codes = {}, [""], np.zeros(len(found), np.int64)
        else:
            texts, codes = cells_in(column)
            used, codes = np.unique(codes, return_inverse=True)
            cells = [texts[code] for code in used]
            times, faults = dates_of(cells) if dates else times_of(cells)
            dates = bool(dates) or (dates is None and any(map(cell_fault, cells)) and periods_of(cells) is None)
            found = times[codes]
        for row in np.flatnonzero(~np.isfinite(found))[:1]:
            fault = faults.get(cells[codes[row]], "the cell is empty")
            raise BadInput(f"{self._place(start + int(row), self._keys.time or '')}: {fault}")
        return found, dates

    def _time_place(self, columns: Mapping[str, Any], start: int, row: int) -> str:
        """The place of a row of the batch with these `columns`, for a message on its time."""
        keys = self._keys
        series, written = (
            "" if name is None else cell_text(columns[name][row].as_py()) for name in (keys.series, keys.time)
        )
        written = str(float(start + row)) if keys.time is None else label_of(written)
        return time_place(self.source.place(start + row), label_of(series), keys.time, written)

    def _step(self) -> float:
        return (
            1.0 if self._keys.time is None else step_of(lambda: (difference for _, difference, *_ in self._batches(())))
        )

    def _numbers(self, name: str, column: Any, start: int) -> FloatArray:
        """The numbers of a column, NaN in empty cells; raises `BadInput` for any other cell."""
        numbers = numbers_in(column)
        if numbers is None:
            texts, codes = cells_in(column)
            return numbers_of(Column(name, codes, texts), lambda row: self.source.place(start + row))
        for row in np.flatnonzero(np.isinf(numbers))[:1]:
            raise BadInput(f"{self._place(start + int(row), name)}: {numbers[row]} is not finite")
        return numbers

    def _check_empty(self, row: int, name: str) -> None:
        """Raise `BadInput` for an empty cell, unless rows with an empty cell are left out."""
        refused = self.declared.reading.missing == "refuse"
        if not refused and not keeps_empty_cells(self.declared):
            return
        no_model = (
            "the cell is empty, and series that exceed the memory limit have no model of empty cells: "
            "leave their rows out with --missing complete-rows"
        )
        raise BadInput(f"{self._place(row, name)}: {REFUSED if refused else no_model}")

    def _check_domains(self, values: FloatArray, start: int) -> None:
        """Raise `BadInput` for the first number that the requested transform of its column cannot take."""
        for name, column in zip(self._names, values.T, strict=True):
            requested = self.declared.transform_of(name)
            if requested is None:
                continue
            row = below_domain(column, requested)
            if row is not None:
                raise BadInput(domain_fault(self._place(start + row, name), column[row], requested))
            for zero in np.flatnonzero(column == 0)[:1] if requested == "log" else ():
                place = self._place(start + int(zero), name)
                raise BadInput(f"{place}: 0 has no logarithm: use --transform sqrt or normal-scores")

    def _place(self, row: int, name: str) -> str:
        return f"{self.source.place(row)}, column {quoted(name)}"


def passes_notes(schema: Schema) -> tuple[str, ...]:
    """A note for each silo that reads its series in passes: some diagnoses use only some of the silo's rows."""
    return tuple(f"{silo}: it {PASSES_NOTE}" for silo in schema.streamed)
