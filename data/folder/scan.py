"""A CSV file read cell by cell: its header, its first rows, and where it departs from a proper table.

This is slow, so it is used for the first rows of a file, and for all of it only after the fast reader has failed.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput, shown

from .check import cell_fault

FaultOf = Callable[[str, str], str | None]
"""(column, cell) -> what is wrong with it, None if nothing is"""


def read_header(path: Path) -> list[str]:
    """Return the names in the first row, without the spaces around them.

    Raises `BadInput` if there is none, if the names cannot be used, or if the row below has another number of cells
    (pandas would take the first ones for an index).
    """
    try:
        with _open_text(path) as file:
            rows = _rows(file)
            line, row = next(rows, (0, []))
            below = next(rows, None)
    except UnicodeDecodeError:
        raise BadInput(_not_utf8(path)) from None
    except csv.Error as error:
        raise BadInput(f"{path}: {error}") from None
    if not row:
        raise BadInput(f"{path}: the file is empty")
    names = [name.strip() for name in row]
    place = f"{path}: line {line}"
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise BadInput(f"{place}: the columns must be separated by commas, in {shown(names[0])}")
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


def first_rows(path: Path, count: int | None) -> list[list[str]]:
    """Return the header and the first `count` rows below it (None: all), of those that have as many cells.

    A broken file has none.
    """
    try:
        with _open_text(path) as file:
            rows = [row for _, row in islice(_rows(file), None if count is None else count + 1)]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error):
        return []
    return [row for row in rows if len(row) == len(rows[0])]


def find_fault(path: Path, header: Sequence[str], fault_of: FaultOf) -> str | None:
    """Return the line, column and value of the first fault below a good `header`; None if there is none.

    `fault_of(column, cell)` says what is wrong with a cell; a row of another length is a fault, too.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        return _not_utf8(path)
    rows = _rows(StringIO(text, newline=""))
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


def place_of_row(path: Path, row: int) -> str:
    """Return where row `row` (from 0) stands: "path: line 3" of a CSV file, "path: row 2" of another."""
    if path.name.lower().endswith((".csv", ".csv.gz")):
        with _open_text(path) as file:
            line, _ = next(islice(_rows(file), row + 1, None))
        return f"{path}: line {line}"
    return f"{path}: row {row + 1}"


def _rows(file: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank with the line it ends on. Raises csv.Error naming the line of a broken one."""
    reader = csv.reader(file, strict=True)
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


def _open_text(path: Path) -> Any:
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, unpacked."""
    return gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()


def _not_utf8(path: Path) -> str:
    content = read_bytes(path)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"{path}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8 text"
    return f"{path}: not UTF-8 text"
