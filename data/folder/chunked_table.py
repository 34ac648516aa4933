"""Tables that a silo reads in passes: too large for its memory, in several parts, or in a database.

`LargeTable` profiles such a table in one pass; `ChunkedRows` yields its rows as numbers and level codes, some rows at a
time. `open_table` opens every table, in memory or in passes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.statistics.moments import Chunked, Found

from .about import Declared
from .batches import (
    IN_MEMORY_BYTES,
    HarmonisedSource,
    NotNumbersError,
    ParquetParts,
    QuerySource,
    Source,
    TextFile,
    cell_count,
    cells_in,
    numbers_in,
)
from .check import Keep
from .columns import Column, left_out_names, read_names
from .dates import date_faults, days_since
from .formats import is_text, kind_of, parquet_parts, visible
from .private_table import ClippedRows, PrivateTable
from .profile import Profile
from .scan import Cells, codes_of, is_empty, parse_cells
from .table import Table, read_table
from .tally import TableTally, Values

CHUNK_CELLS, MIN_CHUNK_ROWS = 1 << 19, 1 << 8
"""number of cells of a chunk, which then fits into a processor's cache, and minimum number of rows of a chunk"""


Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""function like the built-in `map`: it applies a function to several objects, and yields the results in their order"""


@dataclass(frozen=True)
class ChunkedRows:
    """The rows of `source` in the form of `schema`, for learners: a `Chunked` table.

    Continuous and mixed data are float64, with NaN for empty cells; discrete data are int16, with -1 for empty cells.
    """

    source: Source
    schema: Schema
    rows: int
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by column, additional cells that mark a missing value"""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by column, labels that mark a missing value in other columns"""
    lacking: frozenset[str] = frozenset()
    """columns that this silo does not have: all their cells are empty"""
    mapper: Mapper = map
    """applies a function to each part, in this process or in several"""
    passes: list[int] | None = None
    """for a part of a table, the number of rows that each pass has read, without incomplete rows that are left out"""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, len(self.schema.variables)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield chunks of rows. Raises `BadInput` naming the file for a cell that does not fit the schema."""
        names, levels, count = self.schema.variables, self.schema.levels, 0
        size = max(CHUNK_CELLS // len(names), MIN_CHUNK_ROWS)
        there = [name for name in names if name not in self.lacking]
        for batch in self.source.batches(there, frozenset((*levels, *self.schema.dates, *self.marks))):
            read = {
                name: self._codes(name, column) if name in levels else self._numbers(name, column)
                for name, column in zip(there, batch.columns, strict=True)
            }
            empty = np.full(batch.num_rows, -1 if self.schema.kind == "discrete" else np.nan)
            columns = [read.get(name, empty) for name in names]
            for start in range(0, batch.num_rows, size):
                rows = self._rows([column[start : start + size] for column in columns])
                count += len(rows)
                if len(rows):
                    yield rows
        if self.passes is not None:
            self.passes.append(count)
        else:
            self._check_count(count)

    def map_parts(self, work: Callable[[Chunked], Found]) -> Iterator[Found]:
        """Yield `work` of each part of the rows, in order (see `Divided`)."""
        parts = parts_of(self.source, len(set(self.schema.variables) - self.lacking))
        if not parts:
            yield work(self)
            return
        tables = (replace(self, source=part, rows=rows, mapper=map) for part, rows in parts)
        count: int | None = 0
        for found, passes in self.mapper(partial(_with_passes, work), tables):
            count = count + passes[0] if passes and count is not None else None
            yield found
        if count is not None:
            self._check_count(count)

    def _check_count(self, count: int) -> None:
        if count != self.rows:
            raise BadInput(f"{self.source.path}: it has {count} rows, not {self.rows} as when the run began")

    def _rows(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Rows [n, n_variables] with these columns; only complete rows if the schema requires that."""
        discrete = self.schema.kind == "discrete"
        table = np.empty((len(columns), len(columns[0])), np.int16 if discrete else np.float64)
        for j, column in enumerate(columns):
            table[j] = column
        if self.schema.complete_rows:
            table = table[:, ~(table < 0 if discrete else np.isnan(table)).any(axis=0)]
        return table.T

    def _numbers(self, name: str, column: Any) -> FloatArray:
        if name in self.schema.dates:
            texts, codes = cells_in(column)
            return days_in(self.source.path, name, texts, self.schema.dates[name], self.marks.get(name))[codes]
        values = None if name in self.marks else numbers_in(column)
        if values is not None:
            return values
        cells, codes = self._cells(name, column)
        self._refuse(name, cells, np.isnan(cells.numbers) & ~cells.empty, "is not a number")
        return np.asarray(cells.numbers[codes])

    def _codes(self, name: str, column: Any) -> FloatArray | NDArray[np.int64]:
        cells, codes = self._cells(name, column)
        level = np.array(codes_of(cells.labels, self.schema.levels[name]), np.int64)
        self._refuse(name, cells, (level < 0) & ~cells.empty, "is not one of its levels")
        levels = np.where(cells.empty, -1, level)[codes]
        return levels if self.schema.kind == "discrete" else np.where(levels < 0, np.nan, levels)

    def _cells(self, name: str, column: Any) -> tuple[Cells, NDArray[np.int64]]:
        texts, codes = cells_in(column)
        return parse_cells(texts, self.schema.levels.get(name), self.marks.get(name), self.words.get(name, ())), codes

    def _refuse(self, name: str, cells: Cells, wrong: NDArray[np.bool_], reason: str) -> None:
        for cell in np.flatnonzero(wrong)[:1]:
            raise BadInput(f"{self.source.path}: column {quoted(name)}: {quoted(cells.texts[cell])} {reason}")


def _with_passes(work: Callable[[Chunked], Found], part: ChunkedRows) -> tuple[Found, list[int]]:
    """The `work` of a part, and the number of rows of each of its passes."""
    counted = replace(part, passes=[])
    return work(counted), counted.passes or []


def source_of(path: Path, declared: Declared) -> Source | None:
    """The rows at `path` if they must be read in passes, None if they fit into memory.

    Folders of Parquet parts and queries are always read in passes. Parquet files are read in passes if they have more
    than `IN_MEMORY_BYTES` / 8 cells, and text files if they have more than `IN_MEMORY_BYTES` bytes.
    """
    source, form = _plain_source(path, declared), declared.form
    harmonised = source is not None and (form.recode or form.scale or form.rows)
    return HarmonisedSource(source, form) if source is not None and harmonised else source


def parts_of(source: Source, columns: int) -> Sequence[tuple[Source, int]]:
    """Parts of `source` that can be read separately, in order, with their numbers of rows; empty if there is one part.

    The parts depend only on the files and on the number of `columns` to read. A text file is one part, because the
    begin of a row is found only by reading all rows before. A query is one part. A file in which only some rows belong
    to the silo is one part, because the number of these rows in each part of the file is unknown.
    """
    if isinstance(source, HarmonisedSource) and source.form.rows is None:
        return [(replace(source, source=part), rows) for part, rows in parts_of(source.source, columns)]
    return source.parts(columns) if isinstance(source, ParquetParts) else ()


def _plain_source(path: Path, declared: Declared) -> Source | None:
    """The rows at `path` as they are written, None if they fit into memory."""
    if path.is_dir():
        return ParquetParts(path)
    if kind_of(path) == "query":
        return QuerySource(path)
    if kind_of(path) == "parquet":
        return ParquetParts(path) if 8 * cell_count(path) > IN_MEMORY_BYTES else None
    large = is_text(path) and path.is_file() and path.stat().st_size > IN_MEMORY_BYTES
    return TextFile(path, declared.form, declared.keeps) if large else None


def column_names(path: Path, declared: Declared) -> Sequence[str]:
    """The names of the columns at `path`; only the beginning of a file that exceeds the memory limit is read."""
    source = source_of(path, declared)
    return read_names(path, declared.form, declared.keeps) if source is None else source.names


def part_count(path: Path, declared: Declared) -> int:
    """The number of parts of the rows at `path` that several processes can read."""
    source = source_of(path, declared)
    return 1 if source is None else max(1, len(parts_of(source, len(source.names))))


def open_table(path: Path, declared: Declared, mapper: Mapper = map) -> "AnyTable":
    """The table at `path`, in memory or in passes (see `source_of`); `mapper` reads the parts of a table in passes.

    Raises `BadInput` for a column of conditions in a table that is read in passes.
    """
    if declared.reading.private:
        return PrivateTable(path, declared, mapper)
    source = source_of(path, declared)
    if source is not None and declared.reading.conditions_column is not None:
        raise BadInput(f"{path}: its rows exceed the memory limit, and --condition needs them in memory")
    return read_table(path, declared) if source is None else LargeTable(source, declared, mapper)


def is_streamed(path: Path, declared: Declared) -> bool:
    """Whether the rows at `path` are read in passes; in a run with an ε, this depends on public numbers only."""
    return PrivateTable(path, declared).streamed if declared.reading.private else source_of(path, declared) is not None


def holds_parts(path: Path) -> bool:
    """Whether `path` is a folder of Parquet parts, with no other files."""
    if not path.is_dir():
        return False
    parts = parquet_parts(path)
    return bool(parts) and parts == visible(path)


@dataclass(frozen=True)
class LargeTable:
    """A table that is read in passes: one pass for its profile, and one pass for each use of its rows."""

    source: Source
    declared: Declared
    mapper: Mapper = map
    """applies a function to each part, in this process or in several"""
    text: frozenset[str] = frozenset()
    """columns to read as text although their first cells are numbers"""

    def profile(self) -> Profile:
        """The profile of the table, as `Table.profile`, in one pass.

        A text file is read again if a column turns out not to hold numbers, or to have cells that mark a missing value.
        Raises `BadInput` as `Table.profile` does.
        """
        names = [name for name in self.source.names if self.declared.keeps(name)]
        if self.declared.reading.columns == "union":
            names += [name for name in self.declared.complete if name not in names]
        parts, start = [], 0
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
        plain = self.source.source if isinstance(self.source, HarmonisedSource) else self.source
        if isinstance(plain, TextFile):
            infinite = {name for name, column in tally.columns.items() if "infinite" in column.first}
            if infinite:
                return replace(self, text=self.text | infinite).profile()
            self._count_marks(tally)
        header = plain.header if isinstance(plain, TextFile) else self.source.names
        by = self.source.form.rows[:1] if isinstance(self.source, HarmonisedSource) and self.source.form.rows else ()
        left_out = (*left_out_names([name for name in header if name not in by], names), *by)
        return tally.profile(self.source.place, self.source.notes, left_out)

    def tally(self, names: Sequence[str], start: int) -> TableTally:
        """The tally of the columns `names` over the rows of this part; `start` is the number of rows before it."""
        tally = TableTally(names, self.declared, start)
        there = [name for name in names if name in self.source.names]
        for batch in self.source.batches(there, self._text_columns(there)):
            read = {name: self._read(name, column) for name, column in zip(there, batch.columns, strict=True)}
            empty: Values = None, np.full(batch.num_rows, np.nan)
            tally.count(tally.check({name: read.get(name, empty) for name in names}))
        return tally

    def _count_marks(self, tally: TableTally) -> None:
        """Count the cells of a text file that mark a missing value in the columns that were read as numbers."""
        as_text = self._text_columns(list(tally.columns))
        gaps = [name for name, one in tally.columns.items() if one.numbers < one.rows and name not in as_text]
        if not gaps or self.declared.complete:
            return
        for batch in self.source.batches(gaps, gaps):
            for name, column in zip(gaps, batch.columns, strict=True):
                cells, codes = cells_in(column)
                for cell, count in zip(cells, np.bincount(codes, minlength=len(cells)).tolist(), strict=True):
                    if count and cell.strip() and is_empty(cell.strip()):
                        tally.columns[name].marks[cell.strip()] += count

    def _text_columns(self, names: Sequence[str]) -> frozenset[str]:
        """The columns among `names` to read as text."""
        text = {name for name in self.source.words if self.declared.kind_of(name) != "continuous"}
        text |= {*self.declared.fixed_dates, *self.text}
        return frozenset(name for name in names if name in text or self._as_text(name))

    def passes(self, schema: Schema, silo: str) -> ChunkedRows:
        """The rows in the form of `schema`, read in passes."""
        words = self.declared.words_in(schema.levels)
        union = self.declared.reading.columns == "union"
        lacking = frozenset(schema.variables).difference(self.source.names) if union else frozenset[str]()
        return ChunkedRows(self.source, schema, schema.rows[silo], self.declared.marks, words, lacking, self.mapper)

    def _as_text(self, name: str) -> bool:
        return self.declared.kind_of(name) == "discrete" or name in self.declared.marks

    def _read(self, name: str, column: Any) -> Values:
        values = None if self._as_text(name) else numbers_in(column)
        if values is not None:
            return None, values
        texts, codes = cells_in(column)
        marks, words = self.declared.marks.get(name), self.declared.words.get(name, ())
        return parse_cells(texts, self.declared.levels.get(name), marks, words), codes


def _tallied(names: Sequence[str], part: tuple[LargeTable, int]) -> TableTally:
    table, start = part
    return table.tally(names, start)


AnyTable = Table | LargeTable | PrivateTable
"""a silo's table, in memory or read in passes"""


def rows_of(table: AnyTable, schema: Schema, silo: str) -> NDArray[Any] | ChunkedRows | ClippedRows:
    """The rows of `table` in the form of `schema`."""
    if isinstance(table, PrivateTable):
        return table.rows(schema, silo)
    return table.rows(schema) if isinstance(table, Table) else table.passes(schema, silo)


def days_in(
    path: Path, name: str, texts: Sequence[str], origin: tuple[str, str], marks: Sequence[str] | None = None
) -> FloatArray:
    """The days in distinct cells of a column of dates; raises `BadInput` for a cell that is not empty and no date."""
    cells = parse_cells(texts, None, marks)
    for fault in date_faults(cells.texts, cells.empty.tolist(), origin).values():
        raise BadInput(f"{path}: column {quoted(name)}: {fault}")
    return np.where(cells.empty, np.nan, days_since(cells.texts, origin))


def columns_in_memory(source: Source, keep: Keep) -> list[Column]:
    """The columns of `source` that `keep` accepts, with all rows in memory, in the form that `read_columns` returns."""
    names = [name for name in source.names if keep(name)]
    numbers: dict[str, dict[str, int]] = {name: {} for name in names}
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
    for batch in source.batches(names, names):
        for name, column in zip(names, batch.columns, strict=True):
            cells, own = cells_in(column)
            number, (present, positions) = numbers[name], np.unique(own, return_inverse=True)
            found = [number.setdefault(cells[code], len(number)) for code in present.tolist()]
            codes[name].append(np.array(found, np.int64)[positions])
    empty = np.empty(0, np.int64)
    return [Column(name, np.concatenate([empty, *codes[name]]), list(numbers[name])) for name in names]
