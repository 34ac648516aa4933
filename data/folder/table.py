"""Read one table of numbers, quickly; where that fails, read it again slowly to say which cell is wrong."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, shown

from .check import cell_fault, check_table
from .parquet import read_frame
from .scan import check_apart, find_fault, read_header

# From 3.1 on pandas always reads floats exactly, and warns when it is asked to.
EXACT: dict[str, Any] = (
    {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}
)


@dataclass(frozen=True, eq=False)
class Table:
    """A table as read: `values` [n_rows, n_variables], and the text in the one column set `apart`, if asked for."""

    variables: tuple[str, ...]
    values: NDArray[np.float64]
    apart: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    def ordered(self, variables: Sequence[str]) -> NDArray[np.float64]:
        """Return the values with the columns in the order of `variables`, which are the same."""
        if tuple(variables) == self.variables:
            return self.values
        return np.ascontiguousarray(self.values[:, [self.variables.index(name) for name in variables]])

    def schema(self, silo: str) -> Schema:
        """Return what is public of this table as that of `silo`."""
        return Schema(self.variables, {silo: len(self.values)})

    def rows(self, schema: Schema) -> NDArray[np.float64]:
        """Return the table [n_rows, n_variables] that a federation of this `schema` learns from."""
        return self.ordered(schema.variables)


def read_table(path: Path, apart: str | None = None) -> Table:
    """Read `path` (.csv, .csv.gz or .parquet): a header of names, then finite numbers; `apart` names a column of text.

    Names lose the spaces around them; no column is taken for an index. Numbers are read exactly. Raises `BadInput`
    naming file, line, column and value: no such file, empty, not UTF-8, columns without or with the same name, a row of
    another length, a cell that is empty, missing, not a number or not finite, fewer than two rows, a constant column.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        table = _read_parquet(path, apart) if path.suffix.lower() == ".parquet" else _read_csv(path, apart)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    check_table(path, table.variables, table.values)
    return table


def _read_csv(path: Path, apart: str | None) -> Table:
    header = read_header(path)
    if apart is not None:
        check_apart(path, header, apart)
    try:
        table = _read_fast(path, header, apart)
        fault = "" if np.isfinite(table.values).all() and all(table.apart) else "a value is missing"
    except ValueError as error:
        fault = str(error).splitlines()[0]
    if fault:
        found = find_fault(path, header, lambda name, cell: _text_fault(cell) if name == apart else cell_fault(cell))
        raise BadInput(found or f"{path}: not a table of numbers: {fault}")
    return table


def _text_fault(cell: str) -> str | None:
    return None if cell.strip() else "the cell is empty"


def _read_fast(path: Path, header: Sequence[str], apart: str | None) -> Table:
    """Read a well-formed CSV file; raise ValueError on most others."""
    frame = pd.read_csv(
        path,
        header=0,
        names=list(header),
        dtype={name: str if name == apart else np.float64 for name in header},
        keep_default_na=False,
        encoding="utf-8",
        **EXACT,
    )
    numeric = [name for name in header if name != apart]
    found = () if apart is None else tuple(str(label).strip() for label in frame[apart])
    return Table(tuple(numeric), np.ascontiguousarray(frame[numeric].to_numpy(dtype=np.float64)), found)


def _read_parquet(path: Path, apart: str | None) -> Table:
    frame, header = read_frame(path)
    if apart is not None:
        check_apart(path, header, apart)
    numeric = [name for name in header if name != apart]
    columns = [_numbers(path, name, frame.iloc[:, header.index(name)]) for name in numeric]
    found = tuple(_text(path, apart, frame.iloc[:, header.index(apart)])) if apart is not None else ()
    return Table(tuple(numeric), np.ascontiguousarray(np.column_stack(columns)), found)


def _numbers(path: Path, name: str, column: "pd.Series[Any]") -> NDArray[np.float64]:
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    for row, cell in enumerate(column, start=1):
        fault = cell_fault("" if cell is None or cell is pd.NA or cell is pd.NaT else str(cell))
        if fault:
            raise BadInput(f"{path}: row {row}, column {shown(name)}: {fault}")
    raise BadInput(f"{path}: column {shown(name)}: holds {column.dtype}, not numbers")


def _text(path: Path, name: str, column: "pd.Series[Any]") -> list[str]:
    missing = np.flatnonzero(column.isna().to_numpy())
    if missing.size:
        raise BadInput(f"{path}: row {missing[0] + 1}, column {shown(name)}: the cell is empty")
    whole = (int(label) if isinstance(label, float) and label.is_integer() else label for label in column)
    return [str(label).strip() for label in whole]
