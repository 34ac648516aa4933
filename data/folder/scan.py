"""A text file read cell by cell: its header, its first rows, and where it departs from a proper table.

This is slow, so it is used for the first rows of a file, and for all of it only after the fast reader has failed.
"""

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput, shown

from .check import cell_fault
from .form import NO_FORM, Form, Text, text_of

FaultOf = Callable[[str, str], str | None]
"""(column, cell) -> what is wrong with it, None if nothing is"""


def read_text(path: Path, form: Form = NO_FORM) -> Text:
    """Return the text of a file and how it is written, as far as `form` does not declare it.

    Raises `BadInput` as `text_of` does.
    """
    return text_of(str(path), read_bytes(path), form)


def read_header(path: Path, text: Text) -> list[str]:
    """Return the names in the first row of `text`, without the spaces around them.

    Raises `BadInput` if there is none, if the names cannot be used, or if the row below has another number of cells.
    """
    try:
        rows = _rows(text)
        line, row = next(rows, (0, []))
        below = next(rows, None)
    except csv.Error as error:
        raise BadInput(f"{path}: {error}") from None
    if not row:
        raise BadInput(f"{path}: the file is empty")
    names = [name.strip() for name in row]
    place = f"{path}: line {line}"
    if all(cell_fault(name) is None for name in names) and not all(name.isdigit() for name in names):
        raise BadInput(f"{place}: must name the columns, but holds numbers, {shown(','.join(names))}")
    check_names(place, names)
    if below and len(below[1]) != len(names):
        raise BadInput(f"{path}: {_wrong_length(*below, names)}")
    return names


def check_apart(path: Path, header: Sequence[str], apart: str) -> None:
    """Raise `BadInput` unless the column `apart` is there, and not alone."""
    if apart not in header:
        raise BadInput(f"{path}: column {shown(apart)} is missing; there are {', '.join(header[:8])}")
    if list(header) == [apart]:
        raise BadInput(f"{path}: no column besides {shown(apart)}")


def first_rows(text: Text, count: int | None) -> list[list[str]]:
    """Return the header and the first `count` rows below it (None: all), of those that have as many cells.

    A broken file has none.
    """
    try:
        rows = [row for _, row in islice(_rows(text), None if count is None else count + 1)]
    except csv.Error:
        return []
    return [row for row in rows if len(row) == len(rows[0])]


def find_fault(path: Path, text: Text, header: Sequence[str], fault_of: FaultOf) -> str | None:
    """Return the line, column and value of the first fault below a good `header`; None if there is none.

    `fault_of(column, cell)` says what is wrong with a cell; a row of another length is a fault, too.
    """
    rows = _rows(text)
    try:
        next(rows)
        for line, row in rows:
            if len(row) != len(header):
                return f"{path}: {_wrong_length(line, row, header)}"
            for name, cell in zip(header, row, strict=True):
                fault = fault_of(name, cell)
                if fault:
                    return f"{path}: line {line}, column {shown(name)}: {fault}"
    except csv.Error as error:
        return f"{path}: {error}"
    return None


def place_of_row(path: Path, row: int, form: Form = NO_FORM) -> str:
    """Return where row `row` (from 0) stands: "path: line 3" of a text file, "path: row 2" of another."""
    if path.suffix.lower() != ".parquet":
        line, _ = next(islice(_rows(read_text(path, form)), row + 1, None))
        return f"{path}: line {line}"
    return f"{path}: row {row + 1}"


def _rows(text: Text) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank with the line it ends on. Raises csv.Error naming the line of a broken one."""
    reader = csv.reader(StringIO(text.content, newline=""), strict=True, delimiter=text.separator)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            reason = "a quotation mark is opened and never closed" if unclosed else f"not CSV: {error}"
            raise csv.Error(f"line {line}: {reason}") from None
        blank = not row or (len(row) == 1 and row[0].isspace())
        if not blank:
            yield reader.line_num, row


def _wrong_length(line: int, row: Sequence[str], header: Sequence[str]) -> str:
    cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
    return f"line {line}: {cells}, but the header names {len(header)} columns"


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, unpacked."""
    return gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
