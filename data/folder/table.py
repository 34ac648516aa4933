"""A silo's table: its profile before a run, and its rows as numbers and level codes once the schema is fixed.

`Table` profiles the rows of any source: of a table in memory in one batch, and of a table that is too large for memory,
in several parts or in a database, in one pass. `RowView` yields the rows in the form of a schema, some rows at a time,
or as one array. `open_table` opens the table at a path.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.errors import BadInput, pluralize, quoted
from fedbnsl.algorithms.statistics.moments import Chunked, Found
from fedbnsl.algorithms.statistics.outliers import without_far_cells

from .about import NO_DECLARATION, Declared
from .batches import NotNumbersError, Source, cells_in, labels_in, numbers_in
from .cells import canonical_order, cell_fault, codes_of, is_empty, level_faults, parse_cells
from .check import check_same_columns
from .dates import date_faults, days_since
from .formats import parquet_parts, visible
from .harmonise import HarmonisedSource
from .parquet import ParquetParts
from .private_table import PrivateSource, clipped_codes, clipped_numbers
from .profile import Profile
from .sources import CachedSource, left_out_names, reading_quantities, source_of
from .tally import TableTally, Values
from .text import TextFile

MIN_CONDITION_ROWS = 10
"""minimum number of rows of a condition within a silo, because differences of sums disclose the sums over its rows"""
CHUNK_CELLS, MIN_CHUNK_ROWS = 1 << 19, 1 << 8
"""number of cells of a chunk, which then fits into a processor's cache, and minimum number of rows of a chunk"""

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""function like the built-in `map`: it applies a function to several objects, and yields the results in their order"""


@dataclass(frozen=True)
class RowView:
    """The rows of `source` in the form of `schema`, for learners: a `Chunked` table.

    Continuous and mixed data are float64, with NaN for empty cells; discrete data are codes, with -1 for empty cells.

    A cell that does not fit the schema is an error that names its place, if `bad` is "raise". If it is "zero", as in
    runs with an ε, no cell is an error (`private_table.py`).
    """

    source: Source
    schema: Schema
    rows: int
    declared: Declared = NO_DECLARATION
    mapper: Mapper = map
    """applies a function to each part, in this process or in several"""
    bad: Literal["raise", "zero"] = "raise"
    expected: tuple[tuple[str, int], ...] = ()
    """the conditions of the rows in the schema, each with its number of rows"""
    start: int = 0
    """for a part of a table, the number of rows of the table before this part"""
    passes: list[int] | None = None
    """for a part of a table, the number of rows that each pass has read, without incomplete rows that are left out"""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, len(self.schema.variables)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield chunks of rows, of which codes are int16.

        Raises `BadInput` for a cell that does not fit the schema, and if the number of rows differs from the schema.
        """
        count, size = 0, max(CHUNK_CELLS // len(self.schema.variables), MIN_CHUNK_ROWS)
        dtype = np.int16 if self.schema.kind == "discrete" else np.float64
        for columns in self._columns():
            for start in range(0, len(columns[0]), size):
                rows, _ = self._rows([column[start : start + size] for column in columns], dtype)
                count += len(rows)
                if len(rows):
                    yield rows
        if self.passes is not None:
            self.passes.append(count)
        else:
            self._check_count(count)

    def array(self) -> NDArray[Any]:
        """All rows in memory, of which codes are int64, ordered by their conditions; raises as `__iter__`."""
        dtype = np.int64 if self.schema.kind == "discrete" else np.float64
        parts = [self._rows(columns, dtype) for columns in self._columns()]
        parts = parts or [(np.empty((0, self.shape[1]), dtype), np.empty(0, np.bool_))]
        rows = np.ascontiguousarray(parts[0][0] if len(parts) == 1 else np.concatenate([part for part, _ in parts]))
        self._check_count(len(rows))
        by = self.declared.reading.conditions_column
        if by is None:
            return rows
        labels = self._labels(by, np.concatenate([one for _, one in parts]))
        found = conditions(self.source.path, by, Counter(labels))
        if found != self.expected:
            raise BadInput(
                f"{self.source.path}: its conditions or their numbers of rows have changed since the run began"
            )
        order = {name: number for number, (name, _) in enumerate(found)}
        return rows[np.argsort([order[label] for label in labels], kind="stable")]

    def clusters(self, by: str) -> NDArray[np.int64]:
        """The number of the cluster of each row, `[n_rows]`, from the labels in the column `by`.

        Raises `BadInput` with the place of an empty cell, and if the number of rows differs from the schema.
        """
        dtype = np.int64 if self.schema.kind == "discrete" else np.float64
        kept = [self._rows(columns, dtype)[1] for columns in self._columns()]
        labels = self._labels(by, np.concatenate([np.empty(0, np.bool_), *kept]))
        self._check_count(len(labels))
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        return np.array([numbers[label] for label in labels], np.int64)

    def _labels(self, by: str, kept: NDArray[np.bool_]) -> list[str]:
        """The labels of the `kept` rows in the column `by`."""
        return [label for label, is_kept in zip(labels_in(self.source, by), kept.tolist(), strict=True) if is_kept]

    def map_parts(self, work: Callable[[Chunked], Found]) -> Iterator[Found]:
        """Yield `work` of each part of the rows, in order (see `Divided`)."""
        parts = parts_of(self.source, len(self._names))
        if not parts:
            yield work(self)
            return
        starts = np.cumsum([0, *(rows for _, rows in parts)]).tolist()
        tables = (
            replace(self, source=part, rows=rows, start=start, mapper=map)
            for (part, rows), start in zip(parts, starts, strict=False)
        )
        count: int | None = 0
        for found, passes in self.mapper(partial(_with_passes, work), tables):
            count = count + passes[0] if passes and count is not None else None
            yield found
        if count is not None:
            self._check_count(count)

    @property
    def _names(self) -> list[str]:
        """The variables that the silo has; all cells of others are empty, if columns may differ (`--columns union`)."""
        lacking = self.declared.reading.columns == "union"
        return [name for name in self.schema.variables if not lacking or name in self.source.names]

    def _check_count(self, count: int) -> None:
        if count != self.rows:
            raise BadInput(f"{self.source.path}: it has {count} rows, not {self.rows} as when the run began")

    def _columns(self) -> Iterator[list[NDArray[Any]]]:
        """Yield the columns of each batch, including incomplete rows."""
        schema, names, start = self.schema, self._names, self.start
        text = frozenset((*schema.levels, *schema.dates, *schema.unit_of, *self.declared.marks))
        far = self.declared.reading.outliers != "keep" and isinstance(self.source, CachedSource)
        for batch in self.source.batches(names, text):
            faults: list[tuple[int, str, str]] = []
            read: dict[str, NDArray[Any]] = {}
            for name, column in zip(names, batch.columns, strict=True):
                if self.bad == "raise":
                    read[name] = self._values(name, column, faults)
                elif name in schema.levels:
                    read[name] = clipped_codes(name, column, schema.levels[name], self.declared)
                else:
                    read[name] = clipped_numbers(name, column, self.declared)
                if far and name not in schema.levels:
                    read[name] = without_far_cells(read[name], schema.transforms.get(name))
            for row, name, fault in sorted(faults, key=lambda one: one[0])[:1]:
                raise BadInput(f"{self.source.place(start + row)}, column {quoted(name)}: {fault}")
            start += batch.num_rows
            empty = np.full(batch.num_rows, -1 if schema.kind == "discrete" else np.nan)
            yield [read.get(name, empty) for name in schema.variables]

    def _values(self, name: str, column: Any, faults: list[tuple[int, str, str]]) -> NDArray[Any]:
        """The numbers or codes of a column; adds row, column and fault of the first cell that does not fit."""
        schema, marks, values = self.schema, self.declared.marks.get(name), None
        if not any(name in text for text in (schema.levels, schema.dates, schema.unit_of, self.declared.marks)):
            values = numbers_in(column)
        if values is not None:
            infinite = np.flatnonzero(np.isinf(values))[:1].tolist()
            faults.extend((row, name, f"{values[row]} is not finite") for row in infinite)
            return values
        texts, codes = cells_in(column)
        words = self.declared.words_in(schema.levels).get(name, ())
        cells = parse_cells(texts, schema.levels.get(name), marks, words)
        filled = [text for text, empty in zip(texts, cells.empty.tolist(), strict=True) if not empty]
        of_cell: NDArray[Any]
        if name in schema.dates:
            wrong = date_faults(texts, cells.empty.tolist(), schema.dates[name])
            of_cell = np.where(cells.empty, np.nan, days_since(texts, schema.dates[name]))
        elif name in schema.levels:
            levels = schema.levels[name]
            found = np.array(codes_of(cells.labels, levels), np.int64)
            unknown = [texts[k] for k in np.flatnonzero((found < 0) & ~cells.empty).tolist()]
            wrong = level_faults(unknown, levels) if unknown else {}
            of_cell = np.where(cells.empty, -1, found)
            if schema.kind != "discrete":
                of_cell = np.where(of_cell < 0, np.nan, of_cell)
        else:
            wrong = {text: fault for text in filled if (fault := cell_fault(text))}
            of_cell = cells.numbers
        if wrong:
            is_wrong = np.array([text in wrong for text in texts], np.bool_)[codes]
            first = np.flatnonzero(is_wrong)[:1].tolist()
            faults.extend((row, name, wrong[texts[codes[row]]]) for row in first)
        return np.asarray(of_cell[codes])

    def _rows(self, columns: Sequence[NDArray[Any]], dtype: type[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Rows [n, n_variables] with these columns, and whether each row is kept, `[n]`.

        Only complete rows are kept if the schema requires that.
        """
        table = np.empty((len(columns), len(columns[0])), dtype)
        for j, column in enumerate(columns):
            table[j] = column
        kept = np.ones(table.shape[1], np.bool_)
        if self.schema.complete_rows:
            decisive = np.isin(self.schema.variables, self.declared.decisive(self.schema.variables))
            empty = table < 0 if self.schema.kind == "discrete" else np.isnan(table)
            kept = np.asarray(~empty[decisive].any(axis=0))
            table = table[:, kept]
        return table.T, kept


def _with_passes(work: Callable[[Chunked], Found], part: RowView) -> tuple[Found, list[int]]:
    """The `work` of a part, and the number of rows of each of its passes."""
    counted = replace(part, passes=[])
    return work(counted), counted.passes or []


def parts_of(source: Source, columns: int) -> Sequence[tuple[Source, int]]:
    """Parts of `source` that can be read separately, in order, with their numbers of rows; empty if there is one part.

    The parts depend only on the files and on the number of `columns` to read. A text file is one part, because the
    begin of a row is found only by reading all rows before. A query is one part. A file in which only some rows belong
    to the silo is one part, because the number of these rows in each part of the file is unknown.
    """
    if isinstance(source, HarmonisedSource) and source.form.rows is None:
        return [(replace(source, source=part), rows) for part, rows in parts_of(source.source, columns)]
    return source.parts(columns) if isinstance(source, ParquetParts | PrivateSource) else ()


def part_count(path: Path, declared: Declared) -> int:
    """The number of parts of the rows at `path` that several processes can read."""
    source = source_of(path, declared)
    return max(1, len(parts_of(source, len(source.names))))


def holds_parts(path: Path) -> bool:
    """Whether `path` is a folder of Parquet parts, with no other files."""
    if not path.is_dir():
        return False
    parts = parquet_parts(path)
    return bool(parts) and parts == visible(path)


def conditions(path: Path, by: str, counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The conditions that the column `by` names, in canonical order, each with its number of rows.

    Raises `BadInput` for a condition of fewer rows than `MIN_CONDITION_ROWS`.
    """
    for name, rows in counts.items():
        if rows < MIN_CONDITION_ROWS:
            raise BadInput(
                f"{path}: column {quoted(by)}: condition {quoted(name)} has "
                f"{pluralize(rows, 'row')}; the minimum is {MIN_CONDITION_ROWS}, as its sums may be published"
            )
    return tuple((name, counts[name]) for name in canonical_order(counts))


def open_table(path: Path, declared: Declared = NO_DECLARATION, mapper: Mapper = map) -> "Table":
    """The table at `path`, in memory or in passes (see `source_of`); `mapper` reads the parts of a table in passes.

    Raises `BadInput` for a file that does not exist, without a column of conditions or clusters that is declared, or
    with such a column and rows that are read in passes.
    """
    if declared.reading.private:
        return Table(PrivateSource(path, declared), declared, mapper)
    source, reading = source_of(path, declared), declared.reading
    for option, by in (("--condition", reading.conditions_column), ("--cluster", reading.cluster)):
        if by is not None and not isinstance(source, CachedSource):
            raise BadInput(f"{path}: its rows exceed the memory limit, and {option} needs them in memory")
        if by is not None and by not in source.names:
            raise BadInput(f"{path}: {option}: there is no column {quoted(by)}")
    if reading.cluster is not None:
        labels_in(source, reading.cluster)
    return Table(source, declared, mapper)


@dataclass(frozen=True)
class Table:
    """A silo's table: one pass over its `source` for its profile, and one pass for each use of its rows."""

    source: Source
    declared: Declared
    mapper: Mapper = map
    """applies a function to each part, in this process or in several"""
    text: frozenset[str] = frozenset()
    """columns to read as text although their first cells are numbers"""

    @property
    def names(self) -> list[str]:
        """The columns of the source that are declared to be read."""
        return [name for name in self.source.names if self.declared.keeps(name)]

    @property
    def streamed(self) -> bool:
        """Whether the rows are read in passes; in a run with an ε, this depends on public numbers only."""
        if isinstance(self.source, PrivateSource):
            return self.source.streamed
        return not isinstance(self.source, CachedSource)

    def profile(self) -> Profile:
        """The profile of the table, or only of its complete rows, as declared.

        A text file is read again if a column turns out not to hold numbers, or to have cells that mark a missing value.
        Raises `BadInput` naming file, line, column and value for a cell that is not as declared, and for an empty cell
        if empty cells are refused.
        """
        if isinstance(self.source, PrivateSource):
            return self.source.profile()
        names, by, parts, start = self.names, self.declared.reading.conditions_column, [], 0
        if self.declared.reading.columns == "union":
            names += [name for name in self.declared.complete if name not in names]
        for part, rows in parts_of(self.source, len(names)):
            parts.append((replace(self, source=part, mapper=map), start))
            start += rows
        try:
            first, *others = self.mapper(partial(_tallied, names), parts) if parts else [self.tally(names, 0)]
        except NotNumbersError as error:
            return replace(self, text=self.text | {error.column}).profile()
        tally: TableTally = first
        for other in others:
            tally.merge(other)
        uncached = self.source.source if isinstance(self.source, CachedSource) else self.source
        plain = uncached.source if isinstance(uncached, HarmonisedSource) else uncached
        if isinstance(plain, TextFile):
            infinite = {name for name, column in tally.columns.items() if "infinite" in column.first}
            if infinite:
                return replace(self, text=self.text | infinite).profile()
            self._count_marks(tally, uncached)
        if units := tally.units:
            return self._with_units(units).profile().with_units(units, tally.limits)
        left_out = left_out_names(self.source, names)
        if by is None:
            return tally.profile(self.source.place, self.source.notes, left_out)
        left_out = (*(name for name in left_out if name != by), by)
        profile = tally.profile(self.source.place, self.source.notes, left_out)
        return replace(profile, conditions=conditions(plain.path, by, tally.conditions))

    def tally(self, names: Sequence[str], start: int) -> TableTally:
        """The tally of the columns `names` over the rows of this part; `start` is the number of rows before it."""
        declared, tally = self.declared, TableTally(names, self.declared, start, self.source.labelled)
        there = [name for name in names if name in self.source.names]
        far = declared.reading.outliers != "keep" and isinstance(self.source, CachedSource)
        by = declared.reading.conditions_column
        for batch in self.source.batches(there, self._text_columns(there)):
            read = {name: self._read(name, column) for name, column in zip(there, batch.columns, strict=True)}
            nothing: Values = None, np.full(batch.num_rows, np.nan)
            checked = tally.check({name: read.get(name, nothing) for name in names})
            if far:
                tally.raise_fault(self.source.place)
                for name in names:
                    if declared.kind_of(name) == "continuous":
                        cells, codes = checked[name]
                        values: FloatArray = codes if cells is None else cells.numbers[codes]
                        kept = without_far_cells(values, declared.fixed_transforms.get(name))
                        if kept is not values:
                            checked[name] = None, kept
                            tally.columns[name].outliers = int(np.isnan(kept).sum() - np.isnan(values).sum())
            tally.count(checked, () if by is None else labels_in(self.source, by))
        return tally

    def rows(self, schema: Schema, silo: str) -> RowView | NDArray[Any]:
        """The rows as numbers and codes `[n_rows, n_variables]`: an array or, if the schema says so, in passes.

        Raises `BadInput` naming file, line, column and value for a cell that does not fit the schema, and if columns,
        conditions or the number of rows differ from the schema.
        """
        view = self.view(schema, silo)
        return view if silo in schema.streamed else view.array()

    def clusters(self, schema: Schema, silo: str) -> NDArray[np.int64]:
        """The number of the cluster of each row, `[n_rows]`; raises `BadInput` as `rows` does."""
        assert self.declared.reading.cluster is not None
        return self.view(schema, silo).clusters(self.declared.reading.cluster)

    def view(self, schema: Schema, silo: str) -> RowView:
        """The rows in the form of `schema`, to be read in passes; raises `BadInput` for a missing column."""
        private = isinstance(self.source, PrivateSource)
        names = self.source.variables if isinstance(self.source, PrivateSource) else self.source.names
        found = [
            name
            for name in names
            if name in schema.variables or (private and self.declared.keeps(name) and name not in schema.aside)
        ]
        if private or self.declared.reading.columns != "union":
            check_same_columns(self.source.path, found, schema.variables, "the schema")
        bad: Literal["raise", "zero"] = "zero" if private else "raise"
        expected = tuple(zip(schema.condition_names.get(silo, ()), schema.conditions(silo), strict=False))
        source = self.source if private else self._with_units(schema.unit_of).source
        return RowView(source, schema, schema.rows[silo], self.declared, self.mapper, bad, expected)

    def _with_units(self, units: Mapping[str, str]) -> "Table":
        """The table whose columns with `units` are read as numbers."""
        source = reading_quantities(self.source, units)
        return self if source is self.source else replace(self, source=source, text=self.text | units.keys())

    def _count_marks(self, tally: TableTally, uncached: Source) -> None:
        """Count the cells of a text file that mark a missing value in the columns that were read as numbers."""
        as_text = self._text_columns(list(tally.columns))
        gaps = [name for name, one in tally.columns.items() if one.numbers < one.rows and name not in as_text]
        gaps = [name for name in gaps if name in uncached.names]
        if not gaps or self.declared.complete:
            return
        for batch in uncached.batches(gaps, gaps):
            for name, column in zip(gaps, batch.columns, strict=True):
                cells, codes = cells_in(column)
                for cell, count in zip(cells, np.bincount(codes, minlength=len(cells)).tolist(), strict=True):
                    if count and cell.strip() and is_empty(cell.strip()):
                        tally.columns[name].marks[cell.strip()] += count

    def _text_columns(self, names: Sequence[str]) -> frozenset[str]:
        """The columns among `names` to read as text."""
        text = {*self.declared.fixed_dates, *self.text}
        if any(self.declared.kind_of(name) != "continuous" for name in names):
            text |= {name for name in self.source.words if self.declared.kind_of(name) != "continuous"}
        return frozenset(name for name in names if name in text or self._as_text(name))

    def _as_text(self, name: str) -> bool:
        kind = self.declared.kind_of(name)
        return kind == "discrete" or name in self.declared.marks or (kind is None and name in self.source.labelled)

    def _read(self, name: str, column: Any) -> Values:
        values = None if self._as_text(name) else numbers_in(column)
        if values is not None:
            return None, values
        texts, codes = cells_in(column)
        marks, words = self.declared.marks.get(name), self.declared.words.get(name, ())
        return parse_cells(texts, self.declared.levels.get(name), marks, words), codes


def _tallied(names: Sequence[str], part: tuple[Table, int]) -> TableTally:
    table, start = part
    return table.tally(names, start)
