"""Read the columns of one file, quickly: as numbers, or as text, each distinct cell once and which row holds which.

Open a parquet file as a frame with a header that can be learned from.
"""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import check_names
from fedbnsl.algorithms.errors import BadInput, shown

from .scan import (
    DECIMAL_COMMA,
    LOOKED_AT,
    MISSING,
    NO_FORM,
    Form,
    Text,
    find_fault,
    first_rows,
    is_empty,
    number_of,
    read_header,
    read_text,
)


def read_frame(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The frame in `path` and its column names without the spaces around them.

    Raises `BadInput` for a file that is empty or not parquet, and for columns without or with the same name.
    """
    if path.stat().st_size == 0:
        raise BadInput(f"{path}: the file is empty")
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error
    header = [str(name).strip() for name in frame.columns]
    check_names(str(path), header)
    return frame, header


def read_parquet_names(path: Path) -> list[str]:
    """The column names in `path` without the spaces around them; raises `BadInput` as `read_frame` does."""
    import pyarrow.parquet

    try:
        return [str(name).strip() for name in pyarrow.parquet.read_schema(path).names]
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error


HEADER = re.compile(r"\s*[^\r\n]*(\r\n|\r|\n|\Z)")
BLOCK = 1 << 26
"""bytes parsed at once"""
EMPTY = sorted({variant for mark in MISSING for variant in (mark, mark.upper(), mark.capitalize(), mark.title())})
EMPTY += ["NaN", "-NaN", "+NaN"]
"""the ways in which marks of missing values are mostly written"""


@dataclass(frozen=True, eq=False)
class Column:
    """A column as read: row i holds the text `cells[codes[i]]`; distinct `cells` in the order of their first rows.

    The exception is the empty cell of a missing value in a parquet file, which comes last.
    """

    name: str
    codes: NDArray[np.integer[Any]]
    cells: list[str]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers [n_rows], NaN where a cell is empty."""

    name: str
    values: NDArray[np.float64]

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.values)


AsNumbers = Callable[[str], bool | None]
"""whether a column is to be read as numbers; None: if it has fractions"""


@dataclass(frozen=True, eq=False)
class Read:
    """What was read of a file."""

    columns: list[Column | NumberColumn]
    left_out: tuple[str, ...] = ()
    """the columns that were not to be kept"""
    notes: tuple[str, ...] = ()
    """how it was read where that is not beyond doubt"""


def read_columns(path: Path, form: Form = NO_FORM) -> list[Column]:
    """Read `path` (.csv, .csv.gz, .tsv or .parquet): a header of names, then cells of any text; a missing one is "".

    Names lose the spaces around them, cells keep them. Raises `BadInput` naming file and line: no such file, empty, no
    text, columns without or with the same name, a row of another length.
    """
    read = read_typed(path, form, lambda name: False)
    return [column for column in read.columns if isinstance(column, Column)]


def read_typed(path: Path, form: Form, as_numbers: AsNumbers, keep: Callable[[str], bool] = lambda name: True) -> Read:
    """Read those columns of `path` that are to be kept.

    Columns of numbers are read as such `as_numbers` says, unless a cell is neither a number nor a mark of a missing
    value: then they are text, and so are all others. Raises `BadInput` as `read_columns` does.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    try:
        if path.suffix.lower() == ".parquet":
            return _read_parquet(path, as_numbers, keep)
        return _read_text(path, read_text(path, form), as_numbers, keep)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_names(path: Path, form: Form = NO_FORM) -> list[str]:
    """The names of the columns of `path`; raises `BadInput` as `read_columns` does."""
    if path.suffix.lower() == ".parquet":
        return read_parquet_names(path)
    return read_header(path, read_text(path, form))


def check_cells(
    path: Path, columns: Sequence[Column], faults: Mapping[str, Mapping[str, str]], form: Form = NO_FORM
) -> None:
    """Raise `BadInput` for the first cell, row by row, that is among the `faults` of its column."""
    found = first_fault(path, columns, faults, form)
    if found is not None:
        raise BadInput(found)


def first_fault(
    path: Path, columns: Sequence[Column], faults: Mapping[str, Mapping[str, str]], form: Form = NO_FORM
) -> str | None:
    """Where the first cell stands that is among the `faults` of its column, and what is wrong; None if none."""
    if not any(faults.values()):
        return None
    if path.suffix.lower() != ".parquet":
        text = read_text(path, form)
        found = find_fault(path, text, read_header(path, text), lambda name, cell: faults.get(name, {}).get(cell))
        if found is not None:
            return found
    row, v = min((_first(column, faults.get(column.name, {})), v) for v, column in enumerate(columns))
    name, codes, cells = columns[v].name, columns[v].codes, columns[v].cells
    return f"{path}: row {row + 1}, column {shown(name)}: {faults[name][cells[codes[row]]]}"


def _read_text(path: Path, text: Text, as_numbers: AsNumbers, keep: Callable[[str], bool]) -> Read:
    header = read_header(path, text)
    kept = [name for name in header if keep(name)]
    left_out = tuple(name for name in header if name not in kept)
    columns = _text_columns(path, text, header, kept, _numeric(text, header, kept, as_numbers))
    return Read(columns, left_out, ("it is read as cp1252",) * text.legacy)


def _text_columns(
    path: Path, text: Text, header: Sequence[str], kept: Sequence[str], numeric: set[str]
) -> list[Column | NumberColumn]:
    import pyarrow

    for attempt in [numeric, set[str]()] if numeric else [numeric]:
        try:
            return _arrow_columns(text, header, kept, attempt)
        except (pyarrow.ArrowInvalid, OverflowError) as error:
            fault = str(error).splitlines()[0]
    found = find_fault(path, text, header, lambda name, cell: None)
    if found is not None:
        raise BadInput(found)
    rows = first_rows(text, None)[1:]  # unusual but allowed, such as a line of spaces
    if not rows:
        raise BadInput(f"{path}: not a table: {fault}")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return [_in_point(text, _factorized(name, np.array(columns[name], dtype=object))) for name in kept]


def _numeric(text: Text, header: Sequence[str], kept: Sequence[str], as_numbers: AsNumbers) -> set[str]:
    """The columns to read as numbers: those that are said to be, and those that have fractions and no words."""
    asked = {name: as_numbers(name) for name in kept}
    numeric = {name for name, yes in asked.items() if yes}
    if None not in asked.values():
        return numeric
    rows = first_rows(text, LOOKED_AT)[1:]
    for name, cells in zip(header, zip(*rows, strict=True), strict=bool(rows)):
        if name in asked and asked[name] is None:
            filled = [cell.strip() for cell in cells if not is_empty(cell.strip())]
            values = np.array([number_of(_pointed(cell, text.decimal)) for cell in filled])
            if len(values) and not np.isnan(values).any() and (values != np.rint(values)).any():
                numeric.add(name)
    return numeric


def _arrow_columns(
    text: Text, header: Sequence[str], kept: Sequence[str], numeric: set[str]
) -> list[Column | NumberColumn]:
    """Parse what is below the header of a well-formed file; raise ArrowInvalid on most others."""
    import pyarrow
    import pyarrow.csv

    below = HEADER.sub("", text.content, count=1)
    if not below.strip():
        return [Column(name, np.zeros(0, dtype=np.int64), []) for name in kept]
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(below.encode()),
        read_options=pyarrow.csv.ReadOptions(column_names=list(header), use_threads=False, block_size=BLOCK),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=text.separator),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pyarrow.float64() if name in numeric else words for name in header},
            strings_can_be_null=False,
            quoted_strings_can_be_null=False,
            null_values=EMPTY,
            decimal_point=text.decimal,
            include_columns=list(kept),
        ),
    ).unify_dictionaries()
    columns: list[Column | NumberColumn] = []
    for name in kept:
        if name in numeric:
            values = np.asarray(table[name].to_numpy(), dtype=np.float64)
            if np.isinf(values).any():
                raise OverflowError(f"{name} is not finite")
            columns.append(NumberColumn(name, np.ascontiguousarray(values)))
            continue
        chunks = table[name].chunks
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
        columns.append(_in_point(text, Column(name, codes, chunks[0].dictionary.to_pylist())))
    return columns


def _in_point(text: Text, column: Column) -> Column:
    """`column` with a point before decimals."""
    if text.decimal == ".":
        return column
    return Column(column.name, column.codes, [_pointed(cell, text.decimal) for cell in column.cells])


def _pointed(cell: str, decimal: str) -> str:
    return cell.replace(",", ".") if decimal == "," and DECIMAL_COMMA.fullmatch(cell.strip()) else cell


def _read_parquet(path: Path, as_numbers: AsNumbers, keep: Callable[[str], bool]) -> Read:
    frame, header = read_frame(path)
    columns: list[Column | NumberColumn] = []
    for v, name in enumerate(header):
        if not keep(name):
            continue
        series, numeric = frame.iloc[:, v], as_numbers(name)
        is_number = pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)
        if is_number and numeric is not False and series.dtype.kind != "c":
            columns.append(NumberColumn(name, _finite(path, name, series.to_numpy(dtype=np.float64, na_value=np.nan))))
        else:
            columns.append(_factorized(name, series))
    return Read(columns, tuple(name for name in header if not keep(name)))


def _finite(path: Path, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        value = values[infinite[0]]
        raise BadInput(f"{path}: row {infinite[0] + 1}, column {shown(name)}: {value} is not finite")
    return np.ascontiguousarray(values)


def _factorized(name: str, values: Any) -> Column:
    """A column of values in memory; one that is missing counts as an empty cell."""
    codes, distinct = pd.factorize(values)
    cells = [_text(value) for value in distinct]
    return Column(name, np.where(codes < 0, len(cells), codes), [*cells, ""] if (codes < 0).any() else cells)


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def _first(column: Column, faults: Mapping[str, str]) -> int:
    """The first row with a fault; the number of rows if there is none."""
    wrong = np.array([cell in faults for cell in column.cells], dtype=np.bool_)[column.codes]
    return int(np.argmax(wrong)) if wrong.any() else len(wrong)
