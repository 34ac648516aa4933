"""What a table must be like to learn from it, and the one-line message that says where it is not.

Places are named as a person would find them: "line N" is the N-th line of a text file (the header is line 1, an empty
line counts), "row N" the N-th row of a parquet file or of a table in memory, counted from 1. Names and values are
quoted as Python does, so a message is one line whatever they hold.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.names import name_fault
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import LEAST_ROWS

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "+nan", "null", "none", "<na>", "?", ".", "-"})


def cell_fault(cell: str) -> str | None:
    """Return what is wrong with a cell that should hold a finite number, None if nothing is."""
    text = cell.strip()
    if not text:
        return "the cell is empty"
    if text.lower() in MISSING:
        return f"{shown(cell)} marks a missing value"
    try:
        number = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        return f"{shown(cell)} is not a number"
    return None if math.isfinite(number) else f"{shown(cell)} is not finite"


def check_table(place: str | Path, variables: Sequence[str], values: NDArray[Any]) -> None:
    """Raise `BadInput` unless `values` [n_rows, n_variables] has two rows or more, all finite, and no constant column.

    A column that is constant in one silo alone is refused too: it has no variance to learn from there.
    """
    if len(values) == 0:
        raise BadInput(f"{place}: no rows")
    if len(values) == 1:
        raise BadInput(f"{place}: only one row; at least two are needed")
    finite = np.isfinite(values)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        fault = "the cell is empty or not a number" if np.isnan(values[i, j]) else f"{values[i, j]} is not finite"
        raise BadInput(f"{place}: row {i + 1}, column {shown(variables[j])}: {fault}")
    constant = np.flatnonzero(values.min(axis=0) == values.max(axis=0))
    if constant.size:
        j = int(constant[0])
        raise BadInput(f"{place}: column {shown(variables[j])}: constant, every row is {values[0, j]}")


def check_same_columns(place: str | Path, found: Sequence[str], expected: Sequence[str], by: str) -> None:
    """Raise `BadInput` unless `found` are the `expected` columns, in any order. `by` says who expects them."""
    missing = [name for name in expected if name not in set(found)]
    if missing:
        raise BadInput(f"{place}: column {shown(missing[0])} is missing; {by} has it")
    extra = [name for name in found if name not in set(expected)]
    if extra:
        raise BadInput(f"{place}: column {shown(extra[0])} is one too many; {by} does not have it")


def check_silo_name(place: str | Path, name: str) -> None:
    """Raise `BadInput` if a silo of this name could not be a file of a federated data set."""
    wrong = any(letter in "/\\:" or unicodedata.category(letter) in ("Cc", "Cs") for letter in name)
    if not name or name.startswith(".") or name != name.strip() or wrong:
        raise BadInput(
            f"{place}: {shown(name)} cannot name a silo, as its file does: give it a name of UTF-8 text, without / \\ "
            ": or line breaks, that neither begins nor ends with a space, nor begins with a dot"
        )
    if name.lower() == "truth":
        raise BadInput(f"{place}: {shown(name)} cannot name a silo: truth.csv holds the true graph")
    if len(name.encode("utf-8", "replace")) > 200:
        raise BadInput(f"{place}: {shown(name)} is too long to name a silo")


def check_rows(place: str | Path, schema: Schema, table: NDArray[Any]) -> None:
    """Raise `BadInput` unless `table` [n_rows, n_variables] has two rows or more, of numbers and of codes of levels.

    Cells may be empty: NaN, or -1 in discrete data.
    """
    if len(table) < LEAST_ROWS:
        raise BadInput(f"{place}: only one row; at least two are needed" if len(table) else f"{place}: no rows")
    for j, name in enumerate(schema.variables):
        column = table[:, j]
        count = len(schema.levels.get(name, ()))
        if name not in schema.levels:
            wrong = np.flatnonzero(np.isinf(column))
        elif schema.kind == "discrete":
            wrong = np.flatnonzero((column < -1) | (column >= count))
        else:
            wrong = np.flatnonzero(~np.isnan(column) & ~np.isin(column, np.arange(count)))
        if wrong.size:
            value = column[wrong[0]]
            fault = f"{value:g} is no code of {count} levels" if count else f"{value} is not finite"
            raise BadInput(f"{place}: row {wrong[0] + 1}, column {shown(name)}: {fault}")


def check_columns(place: str | Path, schema: Schema, tables: Mapping[str, NDArray[Any]]) -> None:
    """Raise `BadInput` for a column that is empty everywhere, or of numbers and constant: it would be set aside."""
    for j, name in enumerate(schema.variables):
        columns = [tables[silo][:, j] for silo in schema.silos]
        cells = np.concatenate([one[~np.isnan(one)] if schema.kind != "discrete" else one[one >= 0] for one in columns])
        if not len(cells):
            raise BadInput(f"{place}: column {shown(name)}: empty in every row")
        if name not in schema.levels and (cells == cells[0]).all():
            raise BadInput(f"{place}: column {shown(name)}: constant, every row is {cells[0]}")


def check_labels(place: str, name: str, labels: Sequence[object]) -> tuple[str, ...]:
    """Return declared labels as text; raise `BadInput` for none, one twice, or one that no cell could hold."""
    text = []
    for label in labels:
        if not isinstance(label, str | int) or isinstance(label, bool):
            raise BadInput(f"{place}: levels of {shown(name)}: {label!r} is neither text nor a whole number")
        fault = name_fault(str(label))
        if fault:
            raise BadInput(f"{place}: levels of {shown(name)}: {shown(str(label))} cannot be a label")
        text.append(str(label))
    twice = [label for label in text if text.count(label) > 1]
    if twice:
        raise BadInput(f"{place}: levels of {shown(name)}: {shown(twice[0])} stands twice")
    if not text:
        raise BadInput(f"{place}: levels of {shown(name)}: none")
    return tuple(text)
