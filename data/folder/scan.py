"""A text file read cell by cell: its header, its first rows, and where it departs from a proper table.

This is slow, so it is used for the first rows of a file, and for all of it only after the fast reader has failed.

How a text file of a table is written: its separator, its encoding, and the mark before decimals.

What `about.json` declares holds; else it is found where only one reading makes sense, and refused with a line that says
what to declare where several do.
"""

import codecs
import csv
import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice
from pathlib import Path

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput, shown

from .levels import DECIMAL_COMMA, cell_fault

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LOOKED_AT = 200
"""rows from which separator and decimals are told"""
UTF_16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
LEGACY = "cp1252"
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Form:
    """How a text file is written; None stands for what is not declared."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None


NO_FORM = Form()


@dataclass(frozen=True)
class Text:
    """The text of a file, and how it is written; `legacy` if it is not in Unicode, and nothing said so."""

    content: str
    separator: str = ","
    decimal: str = "."
    legacy: bool = False


def text_of(place: str, content: bytes, form: Form) -> Text:
    """Return the text in `content`, of which `form` is declared; `place` names the file in messages.

    Raises `BadInput` for bytes that are no text in the encoding, for separators or decimals that may be one or the
    other.
    """
    encoding, legacy = (form.encoding, False) if form.encoding else _encoding(place, content)
    try:
        decoded = content.decode(encoding).removeprefix("\ufeff")
    except (UnicodeError, LookupError):
        raise BadInput(f"{place}: cannot be read in the encoding {encoding}, which about.json declares") from None
    head = _head(decoded)
    separator = form.separator or _separator(place, head)
    text = Text(decoded, separator, ".", legacy)
    return replace(text, decimal=form.decimal or _decimal(place, head, separator))


def _encoding(place: str, content: bytes) -> tuple[str, bool]:
    """Return the encoding of `content`, and whether it is a guess: UTF-8 and UTF-16 are not."""
    for mark, encoding in UTF_16.items():
        if content.startswith(mark):
            return encoding, False
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fault = f"{place}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8 text"
        declare = 'declare its encoding in about.json, such as {"encoding": "cp1252"}'
        if b"\0" in content or _unicode_letters(content):
            raise BadInput(f"{fault}; {declare}") from None
        try:
            content.decode(LEGACY)
        except UnicodeDecodeError:
            raise BadInput(f"{fault}; {declare}") from None
        return LEGACY, True
    return "utf-8-sig", False


def _unicode_letters(content: bytes) -> bool:
    """Say whether some letters beyond ASCII are UTF-8, so that another byte is damage rather than an encoding."""
    return any(not letter.isascii() for letter in content.decode("utf-8", errors="ignore"))


def _head(text: str) -> str:
    """Return the first lines of `text`."""
    end = -1
    for _ in range(LOOKED_AT + 1):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    return text[: end + 1]


def rows_of(text: str, separator: str) -> list[list[str]]:
    """Return the rows of `text` that are not blank; those before the first that is broken."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(csv.reader(StringIO(text, newline=""), strict=True, delimiter=separator))
    return [row for row in rows if len(row) > 1 or (row and row[0].strip())]


def _separator(place: str, head: str) -> str:
    """Return what separates the columns: what is in the header, and in most rows as often."""
    read = {mark: rows_of(head, mark) for mark in SEPARATORS}
    named = [mark for mark, rows in read.items() if rows and len(rows[0]) > 1]
    fitting = [mark for mark in named if _even(read[mark])]
    if len(fitting) > 1:
        said = " or ".join(SEPARATORS[mark] for mark in fitting)
        declare = f'say which in about.json, such as {{"separator": "{fitting[1]}"}}'
        raise BadInput(f"{place}: its columns may be separated by {said}; {declare}")
    if fitting:
        return fitting[0]
    return named[0] if len(named) == 1 and len(read[named[0]]) == 1 else ","


def _even(rows: list[list[str]]) -> bool:
    """Say whether most rows have as many cells as the header, or one more, as where each line ends with a mark."""
    below = Counter(map(len, rows[1:]))
    if not below:
        return False
    cells, often = below.most_common(1)[0]
    return cells > 1 and 2 * often >= below.total() and abs(cells - len(rows[0])) <= 1


def _decimal(place: str, head: str, separator: str) -> str:
    """Return the mark before decimals: a comma only where columns are separated by something else, and no point is."""
    if separator == ",":
        return "."
    rows = rows_of(head, separator)[1:]
    commas = {cell for cell in _cells(rows) if DECIMAL_COMMA.fullmatch(cell)}
    if not commas or any(POINT.fullmatch(cell) for cell in _cells(rows)):
        return "."
    if all(GROUPED.fullmatch(cell) for cell in commas):
        declare = 'say in about.json {"decimal": ","} if they are decimals, else write them without commas'
        raise BadInput(f"{place}: numbers such as {shown(min(commas))} may have decimals or thousands; {declare}")
    return ","


def _cells(rows: Iterable[list[str]]) -> Iterable[str]:
    return (cell.strip() for row in rows for cell in row)


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


def check_label_column(path: Path, header: Sequence[str], apart: str) -> None:
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
