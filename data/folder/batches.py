"""Batches of rows, in which every source yields a silo's rows, and their columns as numbers or as text.

A batch is a pyarrow RecordBatch of some rows. Only a few batches are in memory at a time, whatever the number of rows.
`Source` is what a text file, Parquet files, a query and a sheet have in common; `sources.py` opens them. A column of a
batch becomes an array of numbers by `numbers_in`, or its distinct cells and the cell of each row by `cells_in`.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput, quoted

from .cells import empty_cells, labels_of
from .check import Keep, is_repeated

MAX_BATCH_ROWS, MIN_BATCH_ROWS, BATCH_CELLS = 1 << 17, 1 << 10, 1 << 23
"""maximum and minimum number of rows of a batch, and its number of cells if its number of rows is between these two"""

LIMIT_VARIABLE = "FEDBNSL_IN_MEMORY_BYTES"
"""the environment variable that sets the limit of tables in memory; the default is 256 MB"""


def memory_limit() -> int:
    """The size in bytes above which a table is read in passes. Raises `BadInput` for a limit that is not a number."""
    given = os.environ.get(LIMIT_VARIABLE, str(1 << 28))
    if not given.isdecimal():
        raise BadInput(f"{LIMIT_VARIABLE} is {quoted(given)}: it must be a number of bytes")
    return int(given)


IN_MEMORY_BYTES = memory_limit()
"""A table is read in passes if its cells, of 8 bytes each, or its text take more bytes than this."""


def exceeds_memory(size: int) -> bool:
    """Whether rows of `size` bytes must be read in passes."""
    return size > IN_MEMORY_BYTES


class Source(Protocol):
    """The rows of a silo; every pass yields the same rows in the same order."""

    @property
    def path(self) -> Path:
        """The file or folder."""
        ...

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns, stripped; names of columns that cannot be read are marked (see `is_repeated`)."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that can be read."""
        ...

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text, judging by the first rows; empty if the source has column types."""
        ...

    @property
    def labelled(self) -> frozenset[str]:
        """The columns whose type in the source is that of labels, such as categories; empty if it has no such types."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the rows."""
        ...

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield batches of rows with the columns `names` in this order.

        A text file yields numbers, except in the columns `words`, or in other columns that are already in memory as
        text. Raises `BadInput` for unreadable content, and `NotNumbersError` for a cell of a text file that should be
        a number.
        """
        ...

    def place(self, row: int) -> str:
        """The place of row `row` (from 0) in messages."""
        ...


@dataclass(frozen=True)
class WrappedSource:
    """A source of the rows of another `source`, with the same file, columns and notes."""

    source: Source

    @property
    def path(self) -> Path:
        """The file or folder."""
        return self.source.path

    @property
    def header(self) -> tuple[str, ...]:
        """The columns of the source."""
        return self.source.header

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return self.source.names

    @property
    def words(self) -> frozenset[str]:
        """The columns to read as text."""
        return self.source.words

    @property
    def labelled(self) -> frozenset[str]:
        """The columns whose type is that of labels."""
        return self.source.labelled

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the rows."""
        return self.source.notes


class NotNumbersError(BadInput):
    """A column of a text file that was read as numbers has a cell that is not a number.

    `column` is its name.
    """

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


PlaceOf = Callable[[int], str]
"""the place of a row (from 0) in messages"""


def keep_all(name: str) -> bool:
    """Keep every column."""
    return True


def rows_at_once(columns: int) -> int:
    """The number of rows of a batch with this number of columns."""
    return max(MIN_BATCH_ROWS, min(MAX_BATCH_ROWS, BATCH_CELLS // max(columns, 1)))


def readable_names(header: Sequence[str]) -> tuple[str, ...]:
    """The names in `header` that are not marked (see `is_repeated`)."""
    return tuple(name for name in header if not is_repeated(name))


@dataclass(frozen=True, eq=False)
class Column:
    """A column of text: row i has the text `cells[codes[i]]`; distinct `cells` are in the order of their first rows."""

    name: str
    codes: NDArray[np.integer[Any]]
    cells: list[str]

    def __len__(self) -> int:
        return len(self.codes)


def columns_in_memory(source: Source, keep: Keep = keep_all) -> list[Column]:
    """The columns of `source` that `keep` accepts as text, with all rows in memory; a missing cell is ""."""
    names = [name for name in source.names if keep(name)]
    numbers: dict[str, dict[str, int]] = {name: {} for name in names}
    codes: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
    for batch in source.batches(names, names):
        for name, column in zip(names, batch.columns, strict=True):
            cells, own = cells_in(column)
            number, present = numbers[name], np.bincount(own, minlength=len(cells)) > 0
            found = np.full(len(cells), -1, np.int64)
            found[present] = [number.setdefault(cells[code], len(number)) for code in np.flatnonzero(present).tolist()]
            codes[name].append(found[own])
    empty = np.empty(0, np.int64)
    return [Column(name, np.concatenate([empty, *codes[name]]), list(numbers[name])) for name in names]


def labels_in(source: Source, name: str, *, allow_empty: bool = False) -> list[str]:
    """The label in each row of a column. Raises `BadInput` with the place of an empty cell, unless it is allowed."""
    (column,) = columns_in_memory(source, lambda one: one == name)
    if not allow_empty:
        check_cells(source.place, [column], {name: empty_cells(column.cells)})
    labels = labels_of(column.cells, None)
    return [labels[code] for code in column.codes.tolist()]


def check_cells(place_of: PlaceOf, columns: Sequence[Column], faults: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `BadInput` for the first cell, row by row, that is among the `faults` of its column."""
    found = []
    for number, column in enumerate(columns):
        if faulty := faults.get(column.name):
            wrong = np.array([cell in faulty for cell in column.cells], dtype=np.bool_)[column.codes]
            if wrong.any():
                row = int(np.argmax(wrong))
                found.append((row, number, faulty[column.cells[column.codes[row]]]))
    for row, number, fault in sorted(found)[:1]:
        raise BadInput(f"{place_of(row)}, column {quoted(columns[number].name)}: {fault}")


def numbers_in(column: Any) -> FloatArray | None:
    """The numbers in an arrow `column` `[n_rows]`, NaN in empty cells; None if the column does not hold numbers."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        column = column.cast(pyarrow.float64())
    elif not (pyarrow.types.is_floating(kind) or pyarrow.types.is_integer(kind)):
        return None
    chunks = column.chunks if isinstance(column, pyarrow.ChunkedArray) else [column]
    return np.concatenate([_numbers_of(chunk) for chunk in chunks]) if chunks else np.empty(0)


def _numbers_of(array: Any) -> FloatArray:
    """The numbers in an arrow array from its buffers, because `to_numpy` imports pandas.

    Of a whole number above 2^53, the nearest float is taken.
    """
    import pyarrow

    valid, data = array.buffers()
    letter = (
        "f" if pyarrow.types.is_floating(array.type) else "i" if pyarrow.types.is_signed_integer(array.type) else "u"
    )
    rows = slice(array.offset, array.offset + len(array))
    stored = np.frombuffer(data or b"", np.dtype(f"{letter}{array.type.bit_width // 8}"))[rows]
    numbers = stored.astype(np.float64, copy=bool(array.null_count))
    if array.null_count:
        numbers[np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[rows] == 0] = np.nan
    return numbers


def cells_in(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct cells in an arrow `column` as text, and the index of each row's cell among them, `[n_rows]`.

    The last distinct cell is an empty cell, which stands for missing values.
    """
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    cells = column.dictionary.to_pylist()
    if not pyarrow.types.is_string(column.dictionary.type) or column.dictionary.null_count:
        cells = list(map(cell_text, cells))
    codes = np.asarray(pyarrow.compute.fill_null(column.indices, len(cells)), dtype=np.int64)
    return [*cells, ""], codes


def cell_text(value: Any) -> str:
    """The text of a value in memory; "" for None."""
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)
