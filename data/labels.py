"""Read one table of labels, quickly: the codes of each column's levels."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.protocol import Schema

from .check import check_names, shown
from .levels import check_codes, in_order, label_faults, labels_of
from .scan import find_fault, read_header

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as read: row i holds the text `cells[codes[i]]`; the distinct `cells` are in any order."""

    name: str
    codes: NDArray[np.integer[Any]]
    cells: list[str]

    def by_appearance(self) -> list[str]:
        """The distinct cells that occur, in the order of their first rows."""
        used, first = np.unique(self.codes, return_index=True)
        return [self.cells[code] for code in used[np.argsort(first)]]


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table as read: in row i, variable v has the level `levels[v][codes[i, v]]`.

    `levels` are those declared for the variable, else those that occur in this table, in canonical order.
    """

    variables: tuple[str, ...]
    codes: Codes
    levels: dict[str, tuple[str, ...]]

    def schema(self, silo: str) -> Schema:
        """Return what is public of this table as that of `silo`; its levels are those it knows of."""
        return Schema(self.variables, {silo: len(self.codes)}, "discrete", self.levels)

    def rows(self, schema: Schema) -> Codes:
        """Return the codes [n_rows, n_variables] by the levels of `schema`, which has all of this table's."""
        columns = []
        for name in schema.variables:
            place = {label: code for code, label in enumerate(schema.levels[name])}
            code_of = np.array([place[label] for label in self.levels[name]], dtype=np.int64)
            columns.append(code_of[self.codes[:, self.variables.index(name)]])
        return np.column_stack(columns)

    def without(self, name: str) -> "LabelTable":
        """Return the same table but for one column."""
        keep = [v for v, variable in enumerate(self.variables) if variable != name]
        variables = tuple(self.variables[v] for v in keep)
        return LabelTable(variables, self.codes[:, keep], {one: self.levels[one] for one in variables})


def read_labels(path: Path, declared: Mapping[str, Sequence[str]]) -> LabelTable:
    """Read `path` (.csv, .csv.gz or .parquet): a header of names, then labels; `declared` are levels by variable.

    Raises `BadInput` naming file, line, column and value: what `read_table` refuses of a file, and a cell that is empty
    or marks a missing value, that is not a declared level, a fraction in a column of numbers, or one level too many.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        columns = _parquet_columns(path) if path.suffix.lower() == ".parquet" else _csv_columns(path)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    _check_cells(path, columns, declared)
    coded = [_coded(column, declared.get(column.name)) for column in columns]
    names = tuple(column.name for column in columns)
    levels = {name: one for name, (_, one) in zip(names, coded, strict=True)}
    codes = np.column_stack([one for one, _ in coded])
    check_codes(path, names, codes, levels)
    return LabelTable(names, codes, levels)


def _coded(column: _Column, declared: Sequence[str] | None) -> tuple[Codes, tuple[str, ...]]:
    labels = labels_of(column.cells, declared)
    levels = in_order(labels) if declared is None else tuple(declared)
    place = {label: code for code, label in enumerate(levels)}
    return np.array([place[label] for label in labels], dtype=np.int64)[column.codes], levels


def _check_cells(path: Path, columns: Sequence[_Column], declared: Mapping[str, Sequence[str]]) -> None:
    """Raise `BadInput` for the first cell, row by row, that holds no label it could."""
    faults = {column.name: label_faults(column.by_appearance(), declared.get(column.name)) for column in columns}
    if not any(faults.values()):
        return
    found: str | None = None
    if path.suffix.lower() != ".parquet":
        found = find_fault(path, [column.name for column in columns], lambda name, cell: faults[name].get(cell))
    if found is None:
        row, column = min((_first(column, faults[column.name]), v) for v, column in enumerate(columns))
        name, codes, cells = columns[column].name, columns[column].codes, columns[column].cells
        found = f"{path}: row {row + 1}, column {shown(name)}: {faults[name][cells[codes[row]]]}"
    raise BadInput(found)


def _first(column: _Column, faults: Mapping[str, str]) -> int:
    """Return the first row with a fault; the number of rows if there is none."""
    wrong = np.array([cell in faults for cell in column.cells], dtype=np.bool_)[column.codes]
    return int(np.argmax(wrong)) if wrong.any() else len(wrong)


def _csv_columns(path: Path) -> list[_Column]:
    header = read_header(path)
    try:
        frame = pd.read_csv(
            path, header=0, names=list(header), dtype="category", na_filter=False, low_memory=False, encoding="utf-8"
        )
    except ValueError as error:
        fault = str(error).splitlines()[0]
        raise BadInput(find_fault(path, header, lambda _, cell: None) or f"{path}: not a table: {fault}") from None
    return [_of_categories(name, frame[name].cat) for name in header]


def _of_categories(name: str, column: Any) -> _Column:
    """Return a categorical column; a cell that is not there at all counts as an empty one."""
    cells = [_text(value) for value in column.categories]
    codes = column.codes.to_numpy()
    missing = codes < 0
    if missing.any():
        return _Column(name, np.where(missing, len(cells), codes), [*cells, ""])
    return _Column(name, codes, cells)


def _parquet_columns(path: Path) -> list[_Column]:
    if path.stat().st_size == 0:
        raise BadInput(f"{path}: the file is empty")
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error
    header = [str(name).strip() for name in frame.columns]
    check_names(str(path), header)
    return [_of_categories(name, frame.iloc[:, v].astype("category").cat) for v, name in enumerate(header)]


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)
