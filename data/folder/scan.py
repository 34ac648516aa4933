"""A text file read cell by cell: its header, its first rows, and where it departs from a proper table.

This is slow, so it is used for the first rows of a file, and for all of it only after the fast reader has failed.

How a text file of a table is written: its separator, its encoding, and the mark before decimals.

What `about.json` declares holds; else it is found where only one reading makes sense, and refused with a line that says
what to declare where several do.

Labels and levels: what a cell of discrete data may say, and the order in which a variable's labels are coded.

If `about.json` declares a variable's levels, these are used, in their order. Otherwise the levels are the labels that
occur in any silo, in numerical order if all are whole numbers, and in the order of their characters if not.

What the cells of a table say: a number, a word, or nothing.
"""

import codecs
import csv
import gzip
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import StringIO
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import check_names, name_fault
from fedbnsl.algorithms.errors import BadInput, shown

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


MOST_LEVELS = 50
"""levels a variable may have without being declared"""
MOST_CODES = 10
"""distinct whole numbers that may be codes without anybody saying so"""

WHOLE = re.compile(r"[+-]?[0-9]+")
WHOLE_AS_FLOAT = re.compile(r"([+-]?[0-9]+)\.0*")
DECLARE = "declare its levels in about.json if it is meant"


def label_of(cell: str) -> str:
    """The label that a cell holds: without spaces around it, and "2" for "2.0", as some programs write it."""
    text = cell.strip()
    whole = WHOLE_AS_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def canonical_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Distinct labels in canonical order: as numbers if all are whole numbers, else by their characters."""
    distinct = set(labels)
    if all(WHOLE.fullmatch(label) for label in distinct):
        return tuple(sorted(distinct, key=lambda label: (int(label), label)))
    return tuple(sorted(distinct))


def labels_of(cells: Sequence[str], declared: Sequence[str] | None) -> list[str]:
    """The label of each of a column's `cells`; a declared label is matched exactly."""
    exact = frozenset(declared or ())
    return [text if (text := cell.strip()) in exact else label_of(cell) for cell in cells]


def empty_cells(cells: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with those of `cells` that are empty."""
    return {cell: "the cell is empty" for cell in cells if not cell.strip()}


def level_faults(cells: Sequence[str], declared: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with those of a column's distinct `cells` that are not among its `declared` levels."""
    known = set(declared)
    some = ", ".join(declared[:8]) + (", …" if len(declared) > 8 else "")
    wrong = (cell for cell, label in zip(cells, labels_of(cells, declared), strict=True) if label not in known)
    return {cell: f"{shown(cell)} is not one of the levels {some}" for cell in wrong}


def label_faults(cells: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with those of a column's distinct `cells` that cannot be labels."""
    return {cell: f"{shown(cell)} holds a control character" for cell in cells if name_fault(label_of(cell) or "-")}


def fraction_faults(cells: Sequence[str]) -> dict[str, str]:
    """The fractions in a column that was said to be discrete, if it holds nothing but numbers."""
    numbers = {cell: label for cell, label in zip(cells, labels_of(cells, None), strict=True) if label}
    if any(cell_fault(label) is not None for label in numbers.values()):
        return {}
    why = "is a fraction: a continuous column in discrete data"
    return {cell: f"{shown(cell)} {why}; {DECLARE}" for cell, label in numbers.items() if not WHOLE.fullmatch(label)}


def merged_levels(labels: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The levels that `labels` are, in canonical order, and those labels that were joined to others.

    Labels that differ only by capitals or by spaces between words are one level, the first of them. They are not if
    nothing else would tell a column's cells apart.
    """
    levels: dict[str, str] = {}
    ordered = canonical_order(labels)
    for label in ordered:
        levels.setdefault(fold_spelling(label), label)
    if len(levels) < 2:
        return ordered, ()
    return canonical_order(levels.values()), tuple(label for label in ordered if levels[fold_spelling(label)] != label)


def fold_spelling(label: str) -> str:
    """`label` as it compares with others: without capitals, one space between words."""
    return " ".join(label.casefold().split())


def codes_of(labels: Sequence[str], levels: Sequence[str]) -> list[int]:
    """The code of each label: that of the level it is, else that of the level it is spelled like, else -1."""
    place = {fold_spelling(level): code for code, level in reversed(list(enumerate(levels)))}
    place |= {level: code for code, level in enumerate(levels)}
    return [place.get(label, place.get(fold_spelling(label), -1)) for label in labels]


def check_levels_public(place: str, undeclared: Iterable[str]) -> None:
    """Raise `BadInput` for levels read off the rows: a label that only one record has would reveal it despite any ε."""
    for name in sorted(undeclared):
        raise BadInput(
            f"{place}: column '{name}': its levels are those that occur in the rows, which no ε covers: "
            "declare them in about.json for a private run"
        )


NUMBER_LIKE = re.compile(
    r"[+-]?(\d{1,3}([,.'_ \u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d*)?(e[+-]?\d+)?|[.,]\d+)\s*%?|[+-]?inf(inity)?", re.I
)
"""numbers that a program does not read as such: 1,5 or 1 234 or 12 % or digits of another script"""
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct cells of a column: the label of each, the number it is (NaN if none), and whether it is empty."""

    texts: Sequence[str]
    labels: list[str]
    numbers: NDArray[np.float64]
    empty: NDArray[np.bool_]


def parse_cells(
    texts: Sequence[str],
    levels: Sequence[str] | None = None,
    marks: Collection[str] = (),
) -> Cells:
    """Return what distinct `texts` say. Declared `levels` are labels, though they look like marks of missing values.

    `marks` are what stands for a missing value in this column besides the usual ones.
    """
    known = frozenset(levels or ())
    labels = labels_of(texts, levels)
    empty = np.array([label not in known and is_empty(label, marks) for label in labels], dtype=np.bool_)
    numbers = [np.nan if gone else number_of(label) for label, gone in zip(labels, empty, strict=True)]
    return Cells(texts, labels, np.array(numbers, dtype=np.float64), empty)


def is_empty(label: str, marks: Collection[str] = ()) -> bool:
    """Whether a cell without the spaces around it marks a missing value."""
    return label in marks or label.lower() in MISSING


def number_of(label: str) -> float:
    """The finite number that a cell holds, NaN if it holds none."""
    return float(label) if cell_fault(label) is None else np.nan


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
    """The text in `content`, of which `form` is declared; `place` names the file in messages.

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
    """The encoding of `content`, and whether it is a guess: UTF-8 and UTF-16 are not."""
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
    """Whether some letters beyond ASCII are UTF-8, so that another byte is damage rather than an encoding."""
    return any(not letter.isascii() for letter in content.decode("utf-8", errors="ignore"))


def _head(text: str) -> str:
    """The first lines of `text`."""
    end = -1
    for _ in range(LOOKED_AT + 1):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    return text[: end + 1]


def rows_of(text: str, separator: str) -> list[list[str]]:
    """The rows of `text` that are not blank; those before the first that is broken."""
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
    """Whether most rows have as many cells as the header, or one more, as where each line ends with a mark."""
    below = Counter(map(len, rows[1:]))
    if not below:
        return False
    cells, often = below.most_common(1)[0]
    return cells > 1 and 2 * often >= below.total() and abs(cells - len(rows[0])) <= 1


def _decimal(place: str, head: str, separator: str) -> str:
    """The mark before decimals: a comma only where columns are separated by something else, and no point is."""
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
    """The text of a file and how it is written, as far as `form` does not declare it.

    Raises `BadInput` as `text_of` does.
    """
    return text_of(str(path), read_bytes(path), form)


def read_header(path: Path, text: Text) -> list[str]:
    """The names in the first row of `text`, without the spaces around them.

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
    """The header and the first `count` rows below it (None: all), of those that have as many cells.

    A broken file has none.
    """
    try:
        rows = [row for _, row in islice(_rows(text), None if count is None else count + 1)]
    except csv.Error:
        return []
    return [row for row in rows if len(row) == len(rows[0])]


def find_fault(path: Path, text: Text, header: Sequence[str], fault_of: FaultOf) -> str | None:
    """The line, column and value of the first fault below a good `header`; None if there is none.

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
    """Where row `row` (from 0) stands: "path: line 3" of a text file, "path: row 2" of another."""
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
    """The bytes of a file, unpacked."""
    return gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
