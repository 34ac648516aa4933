"""Read one table of labels, quickly: the codes of each column's levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema

from .check import check_codes
from .columns import Column, check_cells, read_columns
from .levels import empty_cells, in_order, label_faults, labels_of
from .scan import check_apart

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table as read: in row i, variable v has the level `levels[v][codes[i, v]]`.

    `levels` are those declared for the variable, else those that occur in this table, in canonical order. `apart` are
    the labels in the one column that is no variable, if asked for.
    """

    variables: tuple[str, ...]
    codes: Codes
    levels: dict[str, tuple[str, ...]]
    apart: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    def schema(self, silo: str) -> Schema:
        """Return what is public of this table as that of `silo`; its levels are those of this table."""
        return Schema(self.variables, {silo: len(self.codes)}, "discrete", self.levels)

    def rows(self, schema: Schema) -> Codes:
        """Return the codes [n_rows, n_variables] by the levels of `schema`, which has all of this table's."""
        columns = []
        for name in schema.variables:
            place = {label: code for code, label in enumerate(schema.levels[name])}
            code_of = np.array([place[label] for label in self.levels[name]], dtype=np.int64)
            columns.append(code_of[self.codes[:, self.variables.index(name)]])
        return np.column_stack(columns)


def read_labels(path: Path, declared: Mapping[str, Sequence[str]], apart: str | None = None) -> LabelTable:
    """Read `path` (.csv, .csv.gz or .parquet): a header of names, then labels; `declared` are levels by variable.

    The column `apart` is no variable and may hold any text. Raises `BadInput` naming file, line, column and value: what
    `read_table` refuses of a file, and a cell that is empty or marks a missing value, that is not a declared level, a
    fraction in a column of numbers, or one level too many.
    """
    columns = read_columns(path)
    if apart is not None:
        check_apart(path, [column.name for column in columns], apart)
    faults = {
        column.name: empty_cells(column.cells)
        if column.name == apart
        else label_faults(column.cells, declared.get(column.name))
        for column in columns
    }
    check_cells(path, columns, faults)
    coded = {column.name: _coded(column, declared.get(column.name)) for column in columns if column.name != apart}
    codes = np.column_stack([one for one, _ in coded.values()])
    table = LabelTable(tuple(coded), codes, {name: levels for name, (_, levels) in coded.items()})
    check_codes(path, table.variables, codes, table.levels)
    for column in columns:
        if column.name == apart:
            labels = labels_of(column.cells, None)
            return replace(table, apart=tuple(labels[code] for code in column.codes))
    return table


def _coded(column: Column, declared: Sequence[str] | None) -> tuple[Codes, tuple[str, ...]]:
    labels = labels_of(column.cells, declared)
    levels = in_order(labels) if declared is None else tuple(declared)
    place = {label: code for code, label in enumerate(levels)}
    return np.array([place[label] for label in labels], dtype=np.int64)[column.codes], levels
