"""Tables that are read in passes: more than a silo's memory is to hold, or kept in parts, or in a database.

Rows that are read in passes, as algorithms take them: numbers and level codes, some rows at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.errors import BadInput, shown

from .about import Declared
from .batches import IN_MEMORY_BYTES, Parts, QuerySource, Source, TextFile, cells_in, cells_of, numbers_in
from .private_table import PrivateRows, PrivateTable
from .profile import Profile, StreamingProfile
from .scan import MOST_LEVELS, Cells, cell_fault, codes_of, level_faults, parse_cells
from .table import Table, read_table

CELLS, LEAST_ROWS = 1 << 19, 1 << 8
"""cells that are handed on at once, so that they stay in a processor's cache, but no fewer rows than this"""


@dataclass(frozen=True)
class ChunkedRows:
    """The rows of `source` as a federation of this `schema` learns from them: a `Chunked` table.

    Continuous data and mixed ones come as float64, NaN where a cell is empty; discrete ones as int16, -1 there.
    """

    source: Source
    schema: Schema
    rows: int
    marks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """by column, the cells that stand for a missing value besides the usual ones"""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, len(self.schema.variables)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Yield the rows, some at a time. Raises `BadInput` naming the file for a cell that does not fit the schema."""
        names, levels, told = self.schema.variables, self.schema.levels, 0
        most = max(CELLS // len(names), LEAST_ROWS)
        for batch in self.source.batches(names, frozenset(levels)):
            read = [
                self._codes(name, column) if name in levels else self._numbers(name, column)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            for begin in range(0, batch.num_rows, most):
                rows = self._rows([column[begin : begin + most] for column in read])
                told += len(rows)
                if len(rows):
                    yield rows
        if told != self.rows:
            raise BadInput(f"{self.source.path}: it has {told} rows, {self.rows} when the run began")

    def _rows(self, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Rows [n, n_variables] with these columns; of complete rows alone, if the schema says so."""
        discrete = self.schema.kind == "discrete"
        table = np.empty((len(columns), len(columns[0])), np.int16 if discrete else np.float64)
        for j, column in enumerate(columns):
            table[j] = column
        if self.schema.complete_rows:
            table = table[:, ~(table < 0 if discrete else np.isnan(table)).any(axis=0)]
        return table.T

    def _numbers(self, name: str, column: Any) -> FloatArray:
        values = numbers_in(column)
        if values is not None:
            return values
        cells, codes = self._cells(name, column)
        self._refuse(name, cells, np.isnan(cells.numbers) & ~cells.empty, "is not a number")
        return np.asarray(cells.numbers[codes])

    def _codes(self, name: str, column: Any) -> FloatArray | NDArray[np.int64]:
        cells, codes = self._cells(name, column)
        of_cell = np.array(codes_of(cells.labels, self.schema.levels[name]), np.int64)
        self._refuse(name, cells, (of_cell < 0) & ~cells.empty, "is not one of its levels")
        found = np.where(cells.empty, -1, of_cell)[codes]
        return found if self.schema.kind == "discrete" else np.where(found < 0, np.nan, found)

    def _cells(self, name: str, column: Any) -> tuple[Cells, NDArray[np.int64]]:
        texts, codes = cells_in(column)
        return parse_cells(texts, self.schema.levels.get(name), self.marks.get(name, ())), codes

    def _refuse(self, name: str, cells: Cells, wrong: NDArray[np.bool_], why: str) -> None:
        for cell in np.flatnonzero(wrong)[:1]:
            raise BadInput(f"{self.source.path}: column {shown(name)}: {shown(cells.texts[cell])} {why}")


def source_of(path: Path, declared: Declared) -> Source | None:
    """The rows at `path` if they are to be read in passes, None if they fit into memory.

    Read in passes is a folder of Parquet parts, a query, a Parquet file of more than `HELD` / 8 cells, and a text file
    of more than `HELD` bytes.
    """
    if path.is_dir():
        return Parts(path)
    if path.suffix.lower() == ".sql":
        return QuerySource(path)
    if path.suffix.lower() == ".parquet":
        return Parts(path) if 8 * cells_of(path) > IN_MEMORY_BYTES else None
    return TextFile(path, declared.form) if path.is_file() and path.stat().st_size > IN_MEMORY_BYTES else None


def open_table(path: Path, declared: Declared) -> "AnyTable":
    """The table at `path`: in memory, or, if it is too large for that, to be read in passes."""
    if declared.reading.private:
        return PrivateTable(path, declared)
    source = source_of(path, declared)
    return read_table(path, declared) if source is None else LargeTable(source, declared)


def holds_parts(path: Path) -> bool:
    """Whether `path` is a folder of Parquet parts: one with nothing but Parquet files."""
    if not path.is_dir():
        return False
    names = [one.name for one in path.iterdir() if not one.name.startswith((".", "_"))]
    return bool(names) and all(name.endswith(".parquet") for name in names)


@dataclass(frozen=True)
class LargeTable:
    """A table that is read in passes: its profile is made in one, and its rows are read anew in each."""

    source: Source
    declared: Declared

    def profile(self) -> Profile:
        """Return what is public of this table, as `Table.profile` does, in one pass.

        Raises `BadInput` naming file, row, column and value for a cell that is not as declared, and for one that is
        empty if these are refused.
        """
        names = [name for name in self.source.names if self.declared.keeps(name)]
        tallies = {name: self._tally(name) for name in names}
        words = frozenset(name for name in names if name in self.source.words or self._as_text(name))
        told = 0
        for batch in self.source.batches(names, words):
            read = {name: self._read(name, column) for name, column in zip(names, batch.columns, strict=True)}
            kept = self._kept(read, batch.num_rows, told)
            for name, (cells, codes) in read.items():
                if isinstance(cells, Cells):
                    self._check(name, cells, codes, told)
                    tallies[name].add_cells(cells, codes if kept is None else codes[kept])
                else:
                    tallies[name].add_numbers(codes if kept is None else codes[kept])
            told += batch.num_rows
        rows = next(iter(tallies.values())).rows if tallies else 0
        place = str(self.source.path)
        return Profile(rows, {name: tally.profile(place, name) for name, tally in tallies.items()}, self.source.notes)

    def passes(self, schema: Schema, silo: str) -> ChunkedRows:
        """The table that a federation of this `schema` learns from."""
        return ChunkedRows(self.source, schema, schema.rows[silo], self.declared.marks)

    def _tally(self, name: str) -> StreamingProfile:
        said = name in self.declared.levels or name in self.declared.columns
        discrete = self.declared.kind_of(name) == "discrete"
        return StreamingProfile(discrete, np.inf if said and discrete else MOST_LEVELS)

    def _as_text(self, name: str) -> bool:
        return self.declared.kind_of(name) == "discrete" or name in self.declared.marks

    def _read(self, name: str, column: Any) -> tuple[Cells | None, NDArray[Any]]:
        """The distinct cells of a column and which of them each row holds, or None and its numbers."""
        values = None if self._as_text(name) else numbers_in(column)
        if values is not None:
            self._check_finite(name, values)
            return None, values
        texts, codes = cells_in(column)
        return parse_cells(texts, self.declared.levels.get(name), self.declared.marks.get(name, ())), codes

    def _kept(
        self, read: dict[str, tuple[Cells | None, NDArray[Any]]], rows: int, told: int
    ) -> NDArray[np.bool_] | None:
        """Which rows count: all (None), or those that are complete; refuse empty cells if that is asked for."""
        reading, complete = self.declared.reading, self.declared.complete
        refused = complete if reading.missing == "refuse" else ()
        wanted = complete if reading.missing == "complete-rows" else ()
        empty = {name: _empty(*read[name]) for name in {*refused, *wanted}}
        self._refuse(refused, empty, told)
        return ~np.any([empty[name] for name in wanted], axis=0) if wanted else None

    def _refuse(self, names: Sequence[str], empty: dict[str, NDArray[np.bool_]], told: int) -> None:
        """Raise `BadInput` for the first empty cell of the columns `names`."""
        found = [(int(np.argmax(empty[name])), v) for v, name in enumerate(names) if empty[name].any()]
        for row, v in sorted(found)[:1]:
            raise BadInput(f"{self._place(told + row, names[v])}: the cell is empty, and --missing refuse takes none")

    def _check(self, name: str, cells: Cells, codes: NDArray[np.int64], told: int) -> None:
        """Raise `BadInput` for the first cell that is not what is declared of its column."""
        kind, levels = self.declared.kind_of(name), self.declared.levels.get(name)
        filled = [text for text, gone in zip(cells.texts, cells.empty, strict=True) if not gone]
        faults: dict[str, str] = {}
        if kind == "continuous":
            faults = {text: fault for text in filled if (fault := cell_fault(text))}
        elif levels is not None:
            faults = level_faults(filled, levels)
        wrong = np.array([text in faults for text in cells.texts], dtype=np.bool_)[codes]
        if wrong.any():
            row = int(np.argmax(wrong))
            raise BadInput(f"{self._place(told + row, name)}: {faults[cells.texts[codes[row]]]}")

    def _check_finite(self, name: str, values: NDArray[np.float64]) -> None:
        infinite = values[np.isinf(values)]
        if len(infinite):
            raise BadInput(f"{self.source.path}: column {shown(name)}: {infinite[0]} is not finite")

    def _place(self, row: int, name: str) -> str:
        return f"{self.source.path}: row {row + 1}, column {shown(name)}"


AnyTable = Table | LargeTable | PrivateTable
"""a silo's table, in memory or read in passes"""


def rows_of(table: AnyTable, schema: Schema, silo: str) -> NDArray[Any] | ChunkedRows | PrivateRows:
    """The rows of `table` that a federation of this `schema` learns from."""
    if isinstance(table, PrivateTable):
        return table.rows(schema, silo)
    return table.rows(schema) if isinstance(table, Table) else table.passes(schema, silo)


def _empty(cells: Cells | None, codes: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(codes) if cells is None else np.asarray(cells.empty[codes])
