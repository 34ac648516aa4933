"""A silo's table in memory: its profile before a run, and its rows once the kinds of the columns are fixed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema, Transform, pluralize
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.statistics.outliers import without_far_cells

from .about import NO_DECLARATION, Declared
from .check import check_same_columns
from .columns import Column, NumberColumn, check_cells, part_of, read_typed
from .dates import date_faults, days_since
from .profile import Profile
from .scan import (
    Cells,
    canonical_order,
    cell_fault,
    codes_of,
    empty_cells,
    labels_of,
    level_faults,
    parse_cells,
    place_of_row,
)
from .tally import TableTally, Values

MIN_CONDITION_ROWS = 10
"""minimum number of rows of a condition within a silo, because differences of sums disclose the sums over its rows"""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file, each as numbers or as text (`read_typed`)."""

    path: Path
    columns: dict[str, Column | NumberColumn]
    declared: Declared
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    condition: Column | None = None
    """the condition of each row, if the declaration names its column"""

    def __len__(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def profile(self) -> Profile:
        """The profile of the table, or only of its complete rows, as declared.

        Raises `BadInput` naming file, line, column and value for a cell that is not as declared, and for an empty cell
        if empty cells are refused.
        """
        reading, complete = self.declared.reading, self.declared.complete
        if complete and reading.columns == "union" and any(name not in self.columns for name in complete):
            return self._with_lacking(complete).profile()
        tally = TableTally(tuple(self.columns), self.declared)
        batch, table, outliers = (
            tally.check({name: self._values(name) for name in self.columns}),
            self,
            dict[str, int](),
        )
        if reading.outliers != "keep":
            tally.raise_fault(self._place)
            numbers = [name for name in self.columns if self.declared.kind_of(name) == "continuous"]
            dated = self._with_days(
                {name: one for name, one in self.declared.fixed_dates.items() if name in self.columns}
            )
            table, outliers = dated._without_outliers(numbers, self.declared.fixed_transforms)
            batch |= {name: (None, table._numbers(name)) for name in outliers}
        tally.count(batch)
        for name, column in self.columns.items():
            if isinstance(column, NumberColumn) and not complete:
                tally.columns[name].marks.update(dict(column.marks))
        profile = tally.profile(self._place, self.notes, self.left_out)
        columns = {name: replace(one, outliers=outliers.get(name, 0)) for name, one in profile.columns.items()}
        if self.condition is not None and reading.missing == "complete-rows" and complete:
            table = table._complete(complete)
        return replace(profile, columns=columns, conditions=table.conditions())

    def conditions(self) -> tuple[tuple[str, int], ...]:
        """The conditions of the rows in canonical order, each with its number of rows; empty without such a column.

        Raises `BadInput` for an empty cell, and for a condition of fewer rows than `MIN_CONDITION_ROWS`.
        """
        if self.condition is None:
            return ()
        counts = Counter(self._labels(self.condition))
        for name, rows in counts.items():
            if rows < MIN_CONDITION_ROWS:
                raise BadInput(
                    f"{self.path}: column {quoted(self.condition.name)}: condition {quoted(name)} has "
                    f"{pluralize(rows, 'row')}; the minimum is {MIN_CONDITION_ROWS}, as its sums may be published"
                )
        return tuple((name, counts[name]) for name in canonical_order(counts))

    def rows(self, schema: Schema) -> NDArray[Any]:
        """The rows as numbers and codes [n_rows, n_variables], in the form of `schema`, ordered by their conditions.

        Raises `BadInput` naming file, line, column and value for a cell that does not fit the schema.
        """
        if self.declared.reading.columns == "union" and any(name not in self.columns for name in schema.variables):
            return self._with_lacking(schema.variables).rows(schema)
        if any(isinstance(self.columns[name], Column) for name in schema.dates):
            return self._with_days(schema.dates).rows(schema)
        there = [name for name in self.columns if name not in schema.aside]
        check_same_columns(self.path, there, schema.variables, "the schema")
        numbers = [name for name in schema.variables if name not in schema.levels]
        declared = replace(self.declared, words=self.declared.words_in(schema.levels))
        table, _ = replace(self, declared=declared)._without_outliers(numbers, schema.transforms)
        table = table.complete(schema)
        rows = table._as_numbers(schema)
        if table.condition is None:
            return rows
        order = {name: number for number, (name, _) in enumerate(table.conditions())}
        return rows[np.argsort([order[name] for name in table._labels(table.condition)], kind="stable")]

    def _as_numbers(self, schema: Schema) -> NDArray[Any]:
        texts = {name: self._text(name) for name in schema.variables if self._is_text(name, schema)}
        self._check({name: self._misfits(column, schema.levels.get(name)) for name, column in texts.items()})
        columns = []
        for name in schema.variables:
            if name in schema.levels:
                columns.append(self._codes(texts[name], schema))
            else:
                columns.append(self._numbers(name))
        return np.ascontiguousarray(np.column_stack(columns))

    def _with_lacking(self, names: Sequence[str]) -> "Table":
        """The table with an additional, empty column for each of `names` that it lacks."""
        nothing = np.full(len(self), np.nan)
        lacking: dict[str, Column | NumberColumn] = {
            name: NumberColumn(name, nothing) for name in names if name not in self.columns
        }
        return replace(self, columns=self.columns | lacking)

    def _with_days(self, dates: Mapping[str, tuple[str, str]]) -> "Table":
        """The table with days in place of `dates`; raises `BadInput` with the line of a cell that is not a date."""
        days: dict[str, Column | NumberColumn] = {}
        faults: dict[str, Mapping[str, str]] = {}
        for name, origin in dates.items():
            column = self._text(name)
            cells = self._cells(column)
            faults[name] = date_faults(column.cells, cells.empty.tolist(), origin)
            numbers = np.where(cells.empty, np.nan, days_since(column.cells, origin))
            days[name] = NumberColumn(name, numbers[column.codes])
        self._check(faults)
        return replace(self, columns={**self.columns, **days})

    def part(self, rows: NDArray[np.intp]) -> "Table":
        """The table of the rows with the numbers `rows`."""
        condition = None if self.condition is None else part_of(self.condition, rows)
        assert not isinstance(condition, NumberColumn)
        columns = {name: part_of(column, rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, condition=condition)

    def labels(self, name: str) -> list[str]:
        """The label in each row of a column. Raises `BadInput` naming the line of an empty cell."""
        return self._labels(self._text(name))

    def _labels(self, column: Column) -> list[str]:
        check_cells(self.path, [column], {column.name: empty_cells(column.cells)}, self.declared.form)
        labels = labels_of(column.cells, None)
        return [labels[code] for code in column.codes]

    def _without_outliers(
        self, names: Sequence[str], transforms: Mapping[str, Transform]
    ) -> tuple["Table", dict[str, int]]:
        """The table without outliers in the columns `names`, if that is declared, and the numbers of emptied cells.

        Outliers are defined on the scale of the column's transform.
        """
        if self.declared.reading.outliers == "keep":
            return self, {}
        columns, counts = dict(self.columns), dict[str, int]()
        for name in names:
            values = self._numbers(name)
            kept = without_far_cells(values, transforms.get(name))
            if kept is not values:
                columns[name] = NumberColumn(name, kept)
                counts[name] = int(np.isnan(kept).sum() - np.isnan(values).sum())
        return replace(self, columns=columns), counts

    def complete(self, schema: Schema) -> "Table":
        """The table of the rows that `schema` counts: all rows, or the rows without an empty cell in its variables."""
        return self._complete(schema.variables) if schema.complete_rows else self

    def _complete(self, names: Sequence[str]) -> "Table":
        """The table of the rows in which none of these columns is empty."""
        return self.part(np.flatnonzero(~np.any([self._empty(name) for name in names], axis=0)))

    def _misfits(self, column: Column, levels: Sequence[str] | None) -> dict[str, str]:
        """The faults of the cells of a column that must have these `levels`, or numbers."""
        if levels is None:
            return {cell: fault for cell in self._filled(column) if (fault := cell_fault(cell))}
        cells = self._cells(column, levels)
        codes = codes_of(cells.labels, levels)
        wrong = [
            cell for cell, code, empty in zip(column.cells, codes, cells.empty, strict=True) if code < 0 and not empty
        ]
        return level_faults(wrong, levels)

    def _check(self, faults: Mapping[str, Mapping[str, str]]) -> None:
        if any(faults.values()):
            check_cells(self.path, [self._text(name) for name in faults], faults, self.declared.form)

    def _is_text(self, name: str, schema: Schema) -> bool:
        return name in schema.levels or isinstance(self.columns[name], Column)

    def _text(self, name: str) -> Column:
        """A column as text, in which integers have no decimal point."""
        column = self.columns[name]
        if isinstance(column, Column):
            return column
        distinct, codes = np.unique(column.values, return_inverse=True)
        cells = [
            "" if np.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
            for value in map(float, distinct)
        ]
        return Column(name, codes, cells)

    def _cells(self, column: Column, levels: Sequence[str] | None = None) -> Cells:
        levels = levels or self.declared.levels.get(column.name)
        declared = self.declared
        return parse_cells(column.cells, levels, declared.marks.get(column.name), declared.words.get(column.name, ()))

    def _filled(self, column: Column) -> list[str]:
        missing = self._cells(column).empty
        return [cell for cell, empty in zip(column.cells, missing, strict=True) if not empty]

    def _empty(self, name: str) -> NDArray[np.bool_]:
        """Whether each cell of a column is empty, `[n_rows]`."""
        column = self.columns[name]
        if isinstance(column, NumberColumn):
            return np.asarray(np.isnan(column.values))
        return np.asarray(self._cells(column).empty[column.codes])

    def _place(self, row: int) -> str:
        return place_of_row(self.path, row, self.declared.form)

    def _values(self, name: str) -> Values:
        """The cells or the numbers of a column; a declared discrete column has cells."""
        column = self.columns[name]
        if isinstance(column, NumberColumn) and self.declared.kind_of(name) != "discrete":
            return None, column.values
        text = self._text(name)
        return self._cells(text), np.asarray(text.codes, dtype=np.int64)

    def _codes(self, column: Column, schema: Schema) -> NDArray[Any]:
        """The codes of a column, with -1 or NaN for empty cells."""
        levels = schema.levels[column.name]
        cells = self._cells(column, levels)
        codes = np.array(codes_of(cells.labels, levels), dtype=np.int64)
        codes[cells.empty] = -1
        if schema.kind == "discrete":
            return np.asarray(codes[column.codes])
        return np.asarray(np.where(codes < 0, np.nan, codes.astype(np.float64))[column.codes])

    def _numbers(self, name: str) -> NDArray[np.float64]:
        column = self.columns[name]
        if isinstance(column, NumberColumn):
            return column.values
        return np.asarray(self._cells(column).numbers[column.codes])


def read_table(path: Path, declared: Declared = NO_DECLARATION) -> Table:
    """Read the columns of `path` (`formats.py`) that the declaration keeps.

    Raises `BadInput` naming file and line for a file that is not a table.
    """
    by = declared.reading.conditions_column

    def as_numbers(name: str) -> bool | None:
        kind = declared.kind_of(name)
        text = kind == "discrete" or name in declared.marks or name == by
        return False if text else True if kind == "continuous" else None

    read = read_typed(path, declared.form, as_numbers, lambda name: declared.keeps(name) or name == by)
    columns: dict[str, Column | NumberColumn] = {column.name: column for column in read.columns}
    condition = _condition(path, columns, by)
    left_out = read.left_out if by is None else (*read.left_out, by)
    return Table(path, columns, declared, read.notes, left_out, condition)


def _condition(path: Path, columns: dict[str, Column | NumberColumn], by: str | None) -> Column | None:
    """Remove the column `by`, which names the conditions, from `columns` and return it; None without `by`.

    Raises `BadInput` if `columns` does not have the column `by`.
    """
    if by is None:
        return None
    if by not in columns:
        raise BadInput(f"{path}: --condition: there is no column {quoted(by)}")
    condition = columns.pop(by)
    assert isinstance(condition, Column)
    return condition


def read_variables(path: Path, schema: Schema, declared: Declared = NO_DECLARATION) -> Table:
    """Read the columns of `path` that are variables of `schema`. Raises `BadInput` as `read_table` does."""
    by = declared.reading.conditions_column
    read = read_typed(
        path,
        declared.form,
        lambda name: name != by and not any(name in text for text in (schema.levels, schema.dates, declared.marks)),
        lambda name: name in schema.variables or name == by,
    )
    columns: dict[str, Column | NumberColumn] = {column.name: column for column in read.columns}
    condition = _condition(path, columns, by)
    return Table(path, columns, declared, condition=condition)
