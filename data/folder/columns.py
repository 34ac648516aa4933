"""Fast reading of the columns of one text or parquet file.

A column is either an array of numbers, or its distinct cells as text with an index of the cell in each row.
"""

import re
import zlib
from collections import Counter
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
    MISSING,
    NO_FORM,
    SNIFFED_ROWS,
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
    """The frame in `path` and its column names, stripped.

    Raises `BadInput` for a file that is empty or not parquet, and for columns without a name or with the same name.
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
    """The column names in `path`, stripped; raises `BadInput` as `read_frame` does."""
    import pyarrow.parquet

    try:
        return [str(name).strip() for name in pyarrow.parquet.read_schema(path).names]
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error


HEADER = re.compile(r"\s*[^\r\n]*(\r\n|\r|\n|\Z)")
BLOCK_BYTES = 1 << 26
"""size of the blocks in which a file is parsed"""
EMPTY = sorted({variant for mark in MISSING for variant in (mark, mark.upper(), mark.capitalize(), mark.title())})
EMPTY += ["NaN", "-NaN", "+NaN"]
"""the usual spellings of the markers of missing values"""


@dataclass(frozen=True, eq=False)
class Column:
    """A column of text: row i has the text `cells[codes[i]]`; distinct `cells` are in the order of their first rows.

    The exception is the empty cell for missing values in a parquet file, which comes last.
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
    marks: tuple[tuple[str, int], ...] = ()
    """the cells of a text file that mark a missing value, except those without content, and their numbers"""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.values)


AsNumbers = Callable[[str], bool | None]
"""name -> whether to read a column as numbers; None: if it has fractions"""


@dataclass(frozen=True, eq=False)
class Read:
    """The columns of a file."""

    columns: list[Column | NumberColumn]
    left_out: tuple[str, ...] = ()
    """the columns that the reader excluded"""
    notes: tuple[str, ...] = ()
    """notes on doubtful choices in reading the file"""


def read_columns(path: Path, form: Form = NO_FORM) -> list[Column]:
    """Read `path` (.csv, .csv.gz, .tsv or .parquet): a header of names, then cells of any text; a missing one is "".

    Names are stripped, cells are not. Raises `BadInput` naming file and line for a file that does not exist, is empty
    or is not text, for columns without a name or with the same name, and for a row of another length.
    """
    read = read_typed(path, form, lambda name: False)
    return [column for column in read.columns if isinstance(column, Column)]


def read_typed(path: Path, form: Form, as_numbers: AsNumbers, keep: Callable[[str], bool] = lambda name: True) -> Read:
    """Read the columns of `path` that `keep` accepts.

    The columns that `as_numbers` selects are numbers, unless one of them has a cell that is neither a number nor a
    marker of a missing value: then all columns are text. Raises `BadInput` as `read_columns` does.
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
    message = first_fault(path, columns, faults, form)
    if message is not None:
        raise BadInput(message)


def first_fault(
    path: Path, columns: Sequence[Column], faults: Mapping[str, Mapping[str, str]], form: Form = NO_FORM
) -> str | None:
    """The place and the fault of the first cell that is among the `faults` of its column; None if there is none."""
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
    selected = [name for name in header if keep(name)]
    left_out = tuple(name for name in header if name not in selected)
    columns = _text_columns(path, text, header, selected, _numeric(text, header, selected, as_numbers))
    return Read(columns, left_out, ("it is read as cp1252",) * text.legacy)


def _text_columns(
    path: Path, text: Text, header: Sequence[str], selected: Sequence[str], numeric: set[str]
) -> list[Column | NumberColumn]:
    import pyarrow

    for attempt in [numeric, set[str]()] if numeric else [numeric]:
        try:
            return _arrow_columns(text, header, selected, attempt)
        except (pyarrow.ArrowInvalid, OverflowError) as error:
            fault = str(error).splitlines()[0]
    found = find_fault(path, text, header, lambda name, cell: None)
    if found is not None:
        raise BadInput(found)
    rows = first_rows(text, None)[1:]  # unusual but allowed, such as a line of spaces
    if not rows:
        raise BadInput(f"{path}: not a table: {fault}")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return [_with_points(text, _factorized(name, np.array(columns[name], dtype=object))) for name in selected]


def _numeric(text: Text, header: Sequence[str], selected: Sequence[str], as_numbers: AsNumbers) -> set[str]:
    """The columns to read as numbers: those that `as_numbers` selects, and those with fractions and without words."""
    choices = {name: as_numbers(name) for name in selected}
    numeric = {name for name, chosen in choices.items() if chosen}
    if None not in choices.values():
        return numeric
    rows = first_rows(text, SNIFFED_ROWS)[1:]
    for name, cells in zip(header, zip(*rows, strict=True), strict=bool(rows)):
        if name in choices and choices[name] is None:
            filled = [cell.strip() for cell in cells if not is_empty(cell.strip())]
            values = np.array([number_of(_with_point(cell, text.decimal)) for cell in filled])
            if len(values) and not np.isnan(values).any() and (values != np.rint(values)).any():
                numeric.add(name)
    return numeric


def _arrow_columns(
    text: Text, header: Sequence[str], selected: Sequence[str], numeric: set[str]
) -> list[Column | NumberColumn]:
    """Parse the rows of a well-formed file; raises `ArrowInvalid` for most others."""
    import pyarrow

    below = HEADER.sub("", text.content, count=1)
    if not below.strip():
        return [Column(name, np.zeros(0, dtype=np.int64), []) for name in selected]
    words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    types = {name: pyarrow.float64() if name in numeric else words for name in header}
    table = _parsed(below, text, types, selected).unify_dictionaries()
    gaps = [name for name in selected if name in numeric and table[name].null_count]
    marks = _marks(below, text, header, gaps)
    columns: list[Column | NumberColumn] = []
    for name in selected:
        if name in numeric:
            values = np.asarray(table[name].to_numpy(), dtype=np.float64)
            if np.isinf(values).any():
                raise OverflowError(f"{name} is not finite")
            columns.append(NumberColumn(name, np.ascontiguousarray(values), marks.get(name, ())))
            continue
        chunks = table[name].chunks
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in chunks])
        columns.append(_with_points(text, Column(name, codes, chunks[0].dictionary.to_pylist())))
    return columns


def _parsed(below: str, text: Text, types: Mapping[str, Any], selected: Sequence[str]) -> Any:
    """The arrow table of the columns `selected` in the lines `below` the header."""
    import pyarrow
    import pyarrow.csv

    return pyarrow.csv.read_csv(
        pyarrow.BufferReader(below.encode()),
        read_options=pyarrow.csv.ReadOptions(column_names=list(types), use_threads=False, block_size=BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=text.separator),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            strings_can_be_null=False,
            quoted_strings_can_be_null=False,
            null_values=EMPTY,
            decimal_point=text.decimal,
            include_columns=list(selected),
        ),
    )


def _marks(
    below: str, text: Text, header: Sequence[str], names: Sequence[str]
) -> dict[str, tuple[tuple[str, int], ...]]:
    """By column of numbers, the cells that mark a missing value, except those without content, and their numbers."""
    import pyarrow
    import pyarrow.compute

    if not names:
        return {}
    table = _parsed(below, text, dict.fromkeys(header, pyarrow.string()), names)
    found: dict[str, tuple[tuple[str, int], ...]] = {}
    for name in names:
        empty = table[name].filter(pyarrow.compute.is_in(table[name], pyarrow.array(EMPTY)))
        counts = Counter(cell.strip() for cell in empty.to_pylist())
        found[name] = tuple(sorted((mark, count) for mark, count in counts.items() if mark))
    return found


def _with_points(text: Text, column: Column) -> Column:
    """`column` with decimal points instead of commas."""
    if text.decimal == ".":
        return column
    return Column(column.name, column.codes, [_with_point(cell, text.decimal) for cell in column.cells])


def _with_point(cell: str, decimal: str) -> str:
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
    """A column of values in memory; a missing value becomes an empty cell."""
    codes, distinct = pd.factorize(values)
    cells = [_text(value) for value in distinct]
    return Column(name, np.where(codes < 0, len(cells), codes), [*cells, ""] if (codes < 0).any() else cells)


def _text(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def _first(column: Column, faults: Mapping[str, str]) -> int:
    """The first row with a fault; the number of rows if there is none."""
    wrong = np.array([cell in faults for cell in column.cells], dtype=np.bool_)[column.codes]
    return int(np.argmax(wrong)) if wrong.any() else len(wrong)
