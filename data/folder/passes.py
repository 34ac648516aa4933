"""Rows that are read in passes, as algorithms take them: numbers and level codes, some rows at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.errors import BadInput, shown

from .batches import Source
from .cells import Cells, understood
from .levels import codes_of

CELLS, LEAST_ROWS = 1 << 19, 1 << 8
"""cells that are handed on at once, so that they stay in a processor's cache, but no fewer rows than this"""


@dataclass(frozen=True)
class Passes:
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
        """Return rows [n, n_variables] with these columns; of complete rows alone, if the schema says so."""
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
        return understood(texts, self.schema.levels.get(name), self.marks.get(name, ())), codes

    def _refuse(self, name: str, cells: Cells, wrong: NDArray[np.bool_], why: str) -> None:
        for cell in np.flatnonzero(wrong)[:1]:
            raise BadInput(f"{self.source.path}: column {shown(name)}: {shown(cells.texts[cell])} {why}")


def numbers_in(column: Any) -> FloatArray | None:
    """Return the numbers in an arrow `column` `[n_rows]`, NaN where there is none; None if it does not hold numbers."""
    import pyarrow  # type: ignore[import-untyped]

    kind = column.type
    if pyarrow.types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind) or pyarrow.types.is_null(kind):
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False))
    return None


def cells_in(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct cells in an arrow `column` as text, and which of them each row holds, `[n_rows]`.

    A missing one is an empty cell, which comes last.
    """
    import pyarrow
    import pyarrow.compute  # type: ignore[import-untyped]

    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    cells = [_text(value) for value in column.dictionary.to_pylist()]
    codes = np.asarray(pyarrow.compute.fill_null(column.indices, len(cells)), dtype=np.int64)
    return [*cells, ""], codes


def _text(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
