"""Fast reading of the columns of one text or parquet file.

A column is either an array of numbers, or its distinct cells as text with an index of the cell in each row.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput, quoted

from .check import Keep, distinct_names, is_repeated, written_name
from .formats import BROKEN, cell_text, is_sheet, is_text, kind_of, read_sheet
from .harmonise import check_harmonised, factor_of, harmonised, harmonised_cells
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
    label_of,
    number_of,
    place_of_row,
    read_header,
    read_text,
)

if TYPE_CHECKING:
    import pandas as pd


def _read_frame(path: Path, keep: Keep) -> "tuple[pd.DataFrame, list[str]]":
    """The frame in `path` and its column names, stripped (see `distinct_names`).

    Raises `BadInput` for a file that is empty or not parquet, and for columns without a name or with the same name.
    """
    import pandas as pd  # imported late, here and below: CSV files do not need it

    if path.stat().st_size == 0:
        raise BadInput(f"{path}: the file is empty")
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from error
    return frame, distinct_names(str(path), [str(name).strip() for name in frame.columns], keep)


def _parquet_names(path: Path) -> list[str]:
    """The column names in `path`, stripped; raises `BadInput` for a file that is not parquet."""
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

    The empty cell that stands for missing values of a parquet file is always the last of `cells`.
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
    """the cells of a text file that mark a missing value, except cells without content, and the count of each"""

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.values)


AsNumbers = Callable[[str], bool | None]
"""name -> whether to read a column as numbers; None means that it is read as numbers if it has fractions"""


@dataclass(frozen=True, eq=False)
class Read:
    """The columns of a file."""

    columns: list[Column | NumberColumn]
    left_out: tuple[str, ...] = ()
    """the columns that the reader excluded"""
    notes: tuple[str, ...] = ()
    """notes on doubtful choices in reading the file"""


def read_columns(path: Path, form: Form = NO_FORM, keep: Keep = lambda name: True) -> list[Column]:
    """Read `path` (`formats.py`): a header of names, then cells of any text; a missing cell is "".

    Names are stripped, cells are not. Raises `BadInput` naming file and line for a file that does not exist, is empty
    or is not text, for columns without a name or with the same name, and for a row of another length.
    """
    read = read_typed(path, form, lambda name: False, keep)
    return [column for column in read.columns if isinstance(column, Column)]


def read_typed(path: Path, form: Form, as_numbers: AsNumbers, keep: Keep = lambda name: True) -> Read:
    """Read the columns of `path` that `keep` accepts, in the rows of the silo, with the recoding and units of `form`.

    In a text file, the columns that `as_numbers` selects are numbers, unless one of them has a cell that is neither a
    number nor a marker of a missing value: then all columns are text. In other files, columns of a numeric type are
    numbers, unless `as_numbers` returns False. Raises `BadInput` as `read_columns` does.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file")
    by = None if form.rows is None else form.rows[0]
    as_text = {by, *(name for name, _ in form.recode)}

    def as_harmonised(name: str) -> bool | None:
        return False if name in as_text else as_numbers(name)

    try:
        read = _read(path, form, as_harmonised, lambda name: name == by or keep(name))
    except BROKEN as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if form.rows is None and not (form.recode or form.scale):
        return read
    check_harmonised(path, form, [*(column.name for column in read.columns), *read.left_out])
    columns = {column.name: _harmonised(form, column, path) for column in read.columns}
    if form.rows is None:
        return replace(read, columns=list(columns.values()))
    owner = columns.pop(form.rows[0])
    assert isinstance(owner, Column)
    own = np.array([label_of(cell) == form.rows[1] for cell in owner.cells], dtype=np.bool_)
    rows = np.flatnonzero(own[owner.codes])
    return replace(
        read, columns=[part_of(one, rows) for one in columns.values()], left_out=(*read.left_out, form.rows[0])
    )


def _read(path: Path, form: Form, as_numbers: AsNumbers, keep: Keep) -> Read:
    if is_text(path):
        return _read_text(path, read_text(path, form), as_numbers, keep)
    if is_sheet(path):
        sheet = read_sheet(path, form.sheet)
        header = distinct_names(str(path), sheet.header, keep)
        return _read_series(path, header, sheet.columns, as_numbers, keep, sheet.notes, form)
    frame, header = _read_frame(path, keep)
    columns = [frame.iloc[:, v] for v in range(len(header))]
    return _read_series(path, header, columns, as_numbers, keep)


def _harmonised(form: Form, column: "Column | NumberColumn", path: Path) -> "Column | NumberColumn":
    """A column with the recoding and the units of this silo's `form`."""
    if isinstance(column, Column):
        return Column(column.name, column.codes, harmonised(form, column.name, column.cells, path))
    factor = factor_of(form, column.name)
    return column if factor == 1.0 else NumberColumn(column.name, column.values * factor, column.marks)


def part_of(column: "Column | NumberColumn", rows: NDArray[np.intp]) -> "Column | NumberColumn":
    """The rows with the numbers `rows` of a column."""
    if isinstance(column, NumberColumn):
        return NumberColumn(column.name, column.values[rows])
    present, codes = np.unique(column.codes[rows], return_inverse=True)
    return Column(column.name, codes, [column.cells[code] for code in present])


def read_names(path: Path, form: Form = NO_FORM, keep: Keep = lambda name: True) -> list[str]:
    """The names of the columns of `path`; raises `BadInput` as `read_typed` does."""
    if is_text(path):
        names = read_header(path, read_text(path, form), keep)
    else:
        written = _parquet_names(path) if kind_of(path) == "parquet" else read_sheet(path, form.sheet).header
        names = distinct_names(str(path), written, keep)
    return [name for name in names if not is_repeated(name)]


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
    if is_text(path) and not path.is_dir():
        text = read_text(path, form)

        def fault_of(name: str, cell: str) -> str | None:
            faulty = faults.get(name)
            read = harmonised_cells(form, name, [with_point(cell, text.decimal)])[0] if faulty else cell
            return (faulty or {}).get(read)

        found = find_fault(
            path,
            StringIO(text.content, newline=""),
            text.separator,
            read_header(path, text, faults.__contains__),
            fault_of,
            form.rows,
        )
        if found is not None:
            return found
    row, v = min((_first(column, faults.get(column.name, {})), v) for v, column in enumerate(columns))
    name, codes, cells = columns[v].name, columns[v].codes, columns[v].cells
    place = f"{path}: row {row + 1}" if is_text(path) and not path.is_dir() else place_of_row(path, row, form)
    return f"{place}, column {quoted(name)}: {faults[name][cells[codes[row]]]}"


def _read_text(path: Path, text: Text, as_numbers: AsNumbers, keep: Keep) -> Read:
    header = read_header(path, text, keep)
    selected = [name for name in header if not is_repeated(name) and keep(name)]
    columns = _text_columns(path, text, header, selected, _numeric(text, header, selected, as_numbers))
    return Read(columns, left_out_names(header, selected), text.notes)


def left_out_names(header: Sequence[str], selected: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns in `header` that are not `selected`."""
    return tuple(dict.fromkeys(written_name(name) for name in header if name not in selected))


def _text_columns(
    path: Path, text: Text, header: Sequence[str], selected: Sequence[str], numeric: set[str]
) -> list[Column | NumberColumn]:
    import pyarrow

    for attempt in [numeric, set[str]()] if numeric else [numeric]:
        try:
            return _arrow_columns(text, header, selected, attempt)
        except (pyarrow.ArrowInvalid, OverflowError) as error:
            fault = str(error).splitlines()[0]
    found = find_fault(path, StringIO(text.content, newline=""), text.separator, header, lambda name, cell: None)
    if found is not None:
        raise BadInput(found)
    rows = first_rows(text, None)[1:]  # unusual but allowed, such as a line of spaces
    if not rows:
        raise BadInput(f"{path}: not a table: {fault}")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return [_with_points(text, _factorized(name, np.array(columns[name], dtype=object))) for name in selected]


def _numeric(text: Text, header: Sequence[str], selected: Sequence[str], as_numbers: AsNumbers) -> set[str]:
    """The columns to read as numbers.

    `as_numbers` selects them. If it leaves a column open (None), the column is among them if its first cells are
    numbers with fractions.
    """
    choices = {name: as_numbers(name) for name in selected}
    numeric = {name for name, chosen in choices.items() if chosen}
    if None not in choices.values():
        return numeric
    rows = first_rows(text, SNIFFED_ROWS)[1:]
    for name, cells in zip(header, zip(*rows, strict=True), strict=bool(rows)):
        if name in choices and choices[name] is None:
            filled = [cell.strip() for cell in cells if not is_empty(cell.strip())]
            values = np.array([number_of(with_point(cell, text.decimal)) for cell in filled])
            if len(values) and not np.isnan(values).any() and (values != np.rint(values)).any():
                numeric.add(name)
    return numeric


def _arrow_columns(
    text: Text, header: Sequence[str], selected: Sequence[str], numeric: set[str]
) -> list[Column | NumberColumn]:
    """Parse the rows; raises `ArrowInvalid` for most malformed files, `OverflowError` for an infinite number."""
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
            values = _numbers(table[name])
            if np.isinf(values).any():
                raise OverflowError(f"{name} is not finite")
            columns.append(NumberColumn(name, np.ascontiguousarray(values), marks.get(name, ())))
            continue
        chunks = table[name].chunks
        codes = np.concatenate([np.from_dlpack(chunk.indices) for chunk in chunks])
        columns.append(_with_points(text, Column(name, codes, chunks[0].dictionary.to_pylist())))
    return columns


def _numbers(column: Any) -> NDArray[np.float64]:
    """A chunked array of numbers as an array `[n_rows]`, with NaN in place of null."""
    if column.null_count:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])  # `to_numpy` imports pandas


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
    """By column of numbers, the cells that mark a missing value, except cells without content, with their counts."""
    if not names:
        return {}
    import pyarrow
    import pyarrow.compute  # imported late: a tenth of a second

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
    return Column(column.name, column.codes, [with_point(cell, text.decimal) for cell in column.cells])


def with_point(cell: str, decimal: str) -> str:
    """A cell whose number has the mark `decimal`, with a decimal point."""
    return cell.replace(",", ".") if decimal == "," and DECIMAL_COMMA.fullmatch(cell.strip()) else cell


def _read_series(
    path: Path,
    header: Sequence[str],
    values: Sequence[Any],
    as_numbers: AsNumbers,
    keep: Keep,
    notes: tuple[str, ...] = (),
    form: Form = NO_FORM,
) -> Read:
    """The columns of a table whose cells have types; the column `header[v]` has the cells `values[v]` `[n_rows]`."""
    import pandas as pd

    columns: list[Column | NumberColumn] = []
    selected = [name for name in header if not is_repeated(name) and keep(name)]
    for name, series in zip(header, map(pd.Series, values), strict=True):
        if name not in selected:
            continue
        numeric = as_numbers(name)
        is_number = pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)
        if is_number and numeric is not False and series.dtype.kind != "c":
            numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
            columns.append(NumberColumn(name, _finite(path, name, numbers, form)))
        else:
            columns.append(_factorized(name, series))
    return Read(columns, left_out_names(header, selected), notes)


def _finite(path: Path, name: str, values: NDArray[np.float64], form: Form) -> NDArray[np.float64]:
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        place = place_of_row(path, int(infinite[0]), replace(form, rows=None))
        raise BadInput(f"{place}, column {quoted(name)}: {values[infinite[0]]} is not finite")
    return np.ascontiguousarray(values)


def _factorized(name: str, values: Any) -> Column:
    """A column of values in memory; a missing value becomes an empty cell."""
    import pandas as pd

    codes, distinct = pd.factorize(values)
    cells = [cell_text(value) for value in distinct]
    return Column(name, np.where(codes < 0, len(cells), codes), [*cells, ""] if (codes < 0).any() else cells)


def _first(column: Column, faults: Mapping[str, str]) -> int:
    """The first row with a fault; the number of rows if there is none."""
    wrong = np.array([cell in faults for cell in column.cells], dtype=np.bool_)[column.codes]
    return int(np.argmax(wrong)) if wrong.any() else len(wrong)
