"""How a text file of a table is written: its separator, its encoding, and the mark before decimals.

What `about.json` declares holds; else it is found where only one reading makes sense, and refused with a line that says
what to declare where several do.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO

from fedbnsl.algorithms.errors import BadInput, shown

from .cells import DECIMAL_COMMA

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
