"""Parsing of text tables: cells, labels and levels, the dialect of a file, and reading it row by row.

A cell is a number, a word, or empty. If `about.json` declares a variable's levels, these are used, in their order.
Otherwise the levels are the labels of all silos: in numerical order if all are integers, else in the order of their
Unicode code points.

The dialect of a file is its separator, encoding and decimal mark. A declaration in `about.json` takes precedence.
Otherwise the dialect is detected; if several are plausible, an error proposes a declaration.

Reading row by row is slow. So it is used for the first rows of a file, and for the whole file only to find the place of
a row or of a fault, or if the fast reader (`batches.TextFile`) has failed.
"""

import csv
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

from fedbnsl.algorithms.core.schema import name_fault
from fedbnsl.algorithms.errors import BadInput, quoted

from .check import Keep, distinct_names
from .formats import empty_column_notes
from .header import EXAMINED_ROWS, header_fault, utf_16

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "+nan", "null", "none", "<na>", "?", ".", "-"})
MISSING_WORDS = frozenset({"na", "n/a", "null", "none"})
"""marks of missing values that may also be labels; `joint_columns.labels_among_marks` decides"""


@dataclass(frozen=True)
class Form:
    """The declared form of a file: its dialect (None if not declared), and the recoding and scaling of its cells."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    """the sheet to read if a spreadsheet has several sheets"""
    recode: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """by column, pairs of a cell and its replacement"""
    scale: tuple[tuple[str, float, tuple[str, ...]], ...] = ()
    """columns whose numbers are multiplied, each with the factor and the cells that mark a missing value in it"""
    rows: tuple[str, str] | None = None
    """a column and the label that it has in this silo's rows; if None, all rows of the file belong to the silo"""


NO_FORM = Form()


def cell_fault(cell: str) -> str | None:
    """The fault of a cell that should be a finite number; None if the cell is a finite number."""
    text = cell.strip()
    if not text:
        return "the cell is empty"
    if text.lower() in MISSING:
        return f"{quoted(cell)} marks a missing value"
    number = _float(text)
    if number is None:
        return f"{quoted(cell)} is not a number"
    return None if math.isfinite(number) else f"{quoted(cell)} is not finite"


def _float(text: str) -> float | None:
    """The number in a stripped cell, which may be infinite or NaN; None if the cell is not a number."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


MAX_LEVELS = 50
"""maximum number of undeclared levels of a variable whose labels do not recur"""
MAX_RECURRING_LEVELS = 200
"""maximum number of undeclared levels of a variable of words"""
MIN_SILO_RECURRENCE, MIN_RECURRENCE = 3, 10
"""minimum mean number of rows per label in one silo, and in all silos, if a column has more than `MAX_LEVELS` labels"""
MAX_CODES = 10
"""maximum number of distinct integers in an undeclared column of codes"""

WHOLE = re.compile(r"[+-]?[0-9]+")
WHOLE_AS_FLOAT = re.compile(r"([+-]?[0-9]+)\.0*")
DECLARE = "declare its levels in about.json if this is intended"


def label_of(cell: str) -> str:
    """The label in a cell: stripped, and "2" for "2.0", as some programs write it."""
    text = cell.strip()
    whole = WHOLE_AS_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def canonical_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Distinct labels in canonical order: as numbers if all are integers, else by Unicode code points."""
    distinct = set(labels)
    if all(WHOLE.fullmatch(label) for label in distinct):
        return tuple(sorted(distinct, key=lambda label: (int(label), label)))
    return tuple(sorted(distinct))


def labels_of(cells: Sequence[str], declared: Sequence[str] | None) -> list[str]:
    """The label of each of a column's `cells`; declared labels match exactly."""
    exact = frozenset(declared or ())
    return [text if (text := cell.strip()) in exact else label_of(cell) for cell in cells]


def are_few_labels(count: int, rows: int, recurrence: int = MIN_SILO_RECURRENCE) -> bool:
    """Whether `count` distinct labels in this number of `rows` may be levels: they are few, or they recur."""
    return count <= MAX_LEVELS or (count <= MAX_RECURRING_LEVELS and rows >= recurrence * count)


def empty_cells(cells: Sequence[str]) -> dict[str, str]:
    """By cell, the faults of the `cells` that are empty."""
    return {cell: "the cell is empty" for cell in cells if not cell.strip()}


def level_faults(cells: Sequence[str], declared: Sequence[str]) -> dict[str, str]:
    """By cell, the faults of the distinct `cells` of a column that are not among its `declared` levels."""
    levels = set(declared)
    listed = ", ".join(declared[:8]) + (", …" if len(declared) > 8 else "")
    wrong = (cell for cell, label in zip(cells, labels_of(cells, declared), strict=True) if label not in levels)
    return {cell: f"{quoted(cell)} is not one of the levels {listed}" for cell in wrong}


def label_faults(cells: Sequence[str]) -> dict[str, str]:
    """By cell, the faults of the distinct `cells` of a column that cannot be labels."""
    return {cell: f"{quoted(cell)} has a control character" for cell in cells if name_fault(label_of(cell) or "-")}


def merged_levels(labels: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The levels of `labels` in canonical order, and the labels that were merged into other labels.

    Labels that differ only in capitals or spaces between words become one level, named by the first of these labels,
    unless the column would then have a single level.
    """
    levels: dict[str, str] = {}
    ordered = canonical_order(labels)
    for label in ordered:
        levels.setdefault(fold_spelling(label), label)
    if len(levels) < 2:
        return ordered, ()
    return canonical_order(levels.values()), tuple(label for label in ordered if levels[fold_spelling(label)] != label)


def fold_spelling(label: str) -> str:
    """`label` for comparison: without capitals, and with single spaces between words."""
    return " ".join(label.casefold().split())


def codes_of(labels: Sequence[str], levels: Sequence[str]) -> list[int]:
    """The code of each label: of the equal level or else of a level with equal `fold_spelling`; -1 without any."""
    place = {fold_spelling(level): code for code, level in reversed(list(enumerate(levels)))}
    place |= {level: code for code, level in enumerate(levels)}
    return [place.get(label, place.get(fold_spelling(label), -1)) for label in labels]


def check_levels_public(place: str, undeclared: Iterable[str]) -> None:
    """Raise `BadInput` for undeclared levels, because a level of a single row would disclose this row despite ε."""
    for name in sorted(undeclared):
        raise BadInput(
            f"{place}: column '{name}': its levels come from the rows, which ε does not account for: "
            "declare them in about.json for a private run"
        )


NUMBER_LIKE = re.compile(
    r"[+-]?(\d{1,3}([,.'_ \u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d*)?(e[+-]?\d+)?|[.,]\d+)\s*%?|[+-]?inf(inity)?", re.I
)
"""pattern of numbers in other notations, such as 1,5 or 1 234 or 12 %, or in digits of another script"""
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct cells of a column: the label of each, its number (NaN if it has none), and whether it is empty."""

    texts: Sequence[str]
    labels: list[str]
    numbers: NDArray[np.float64]
    empty: NDArray[np.bool_]


def parse_cells(
    texts: Sequence[str],
    levels: Sequence[str] | None = None,
    marks: Collection[str] | None = None,
    words: Collection[str] = (),
) -> Cells:
    """Parse distinct `texts`; declared `levels`, and `words` in any case, are labels even if they look missing.

    `marks` are additional markers of missing values in this column (see `is_empty`).
    """
    declared, kept = frozenset(levels or ()), frozenset(map(fold_spelling, words))
    labels = labels_of(texts, levels)
    empty = np.array(
        [label not in declared and fold_spelling(label) not in kept and is_empty(label, marks) for label in labels],
        dtype=np.bool_,
    )
    numbers = [np.nan if missing else number_of(label) for label, missing in zip(labels, empty, strict=True)]
    return Cells(texts, labels, np.array(numbers, dtype=np.float64), empty)


def is_empty(label: str, marks: Collection[str] | None = None) -> bool:
    """Whether a stripped cell marks a missing value.

    `marks` are declared markers besides the usual ones. If the declaration is an empty list, only a cell without
    content is missing.
    """
    if marks is not None and not marks:
        return not label
    return label in (marks or ()) or label.lower() in MISSING


def missing_words(labels: Iterable[str]) -> tuple[str, ...]:
    """The `labels` that mark a missing value in other columns."""
    return tuple(label for label in labels if fold_spelling(label) in MISSING_WORDS)


def number_of(label: str) -> float:
    """The finite number in a cell; NaN if the cell is not a finite number."""
    number = _float(label.strip())
    return np.nan if number is None or not math.isfinite(number) else number


SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SNIFFED_ROWS = 200
"""number of rows from which separator and decimal mark are detected"""
LEGACY_ENCODING = "cp1252"
FIRST_LINE = re.compile(r"\s*([^\r\n]*)")
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Text:
    """The text of a file with its dialect; `legacy` means that the file is not Unicode, so its encoding is a guess."""

    content: str
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"
    legacy: bool = False
    unnamed: int = 0
    """number of empty columns without a name at the end, which are removed from `content`"""
    longest: int = 0
    """number of characters of the longest line of the examined part of a file"""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the text."""
        return ("it is read as cp1252",) * self.legacy + empty_column_notes(self.unnamed)


def text_of(place: str, content: bytes, form: Form) -> Text:
    """The text in `content`, whose declared dialect is `form`; `place` names the file in messages.

    Raises `BadInput` for bytes that are invalid in the encoding, and for an ambiguous separator or decimal mark.
    """
    encoding, legacy = (form.encoding, False) if form.encoding else _encoding(place, content)
    try:
        decoded = content.decode(encoding).removeprefix("\ufeff")
    except (UnicodeError, LookupError):
        raise BadInput(f"{place}: cannot be read in the encoding {encoding}, which about.json declares") from None
    head = _head(decoded)
    separator = form.separator or _separator(place, head)
    unnamed = _unnamed(decoded, separator)
    if unnamed:
        decoded = re.sub(rf"{re.escape(separator) * unnamed}[ \t]*(?=\r?\n|\r|\Z)", "", decoded)
    text = Text(decoded, separator, ".", encoding, legacy, unnamed)
    return replace(text, decimal=form.decimal or _decimal(place, head, separator))


def _unnamed(text: str, separator: str) -> int:
    """The number of columns at the end that have neither a name nor a cell; some spreadsheet programs write them."""
    match = FIRST_LINE.match(text)
    header = match[1].rstrip(" ") if match else ""
    count = len(header) - len(header.rstrip(separator))
    if not count or count == len(header):
        return 0
    lines = (line.rstrip(" \r\n") for line in StringIO(text))
    return count if all(not line or line.endswith(separator * count) for line in lines) else 0


def _encoding(place: str, content: bytes) -> tuple[str, bool]:
    """The encoding of `content`, and whether it is a guess; raises `BadInput` if no encoding is plausible."""
    if found := utf_16(content):
        return found, False
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        fault = f"{place}: line {line}: byte 0x{content[error.start]:02x} is not UTF-8 text"
        declare = 'declare its encoding in about.json, such as {"encoding": "cp1252"}'
        if b"\0" in content or _unicode_letters(content):
            raise BadInput(f"{fault}; {declare}") from None
        try:
            content.decode(LEGACY_ENCODING)
        except UnicodeDecodeError:
            raise BadInput(f"{fault}; {declare}") from None
        return LEGACY_ENCODING, True
    return "utf-8-sig", False


def _unicode_letters(content: bytes) -> bool:
    """Whether some non-ASCII letters are valid UTF-8: then an invalid byte is damage, not another encoding."""
    return any(not letter.isascii() for letter in content.decode("utf-8", errors="ignore"))


def _head(text: str) -> str:
    """The first lines of `text`."""
    end = -1
    for _ in range(SNIFFED_ROWS + 1):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    return text[: end + 1]


def rows_of(text: str, separator: str) -> list[list[str]]:
    """The rows of `text` that are not blank, up to the first broken row."""
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(csv.reader(StringIO(text, newline=""), strict=True, delimiter=separator))
    return [row for row in rows if len(row) > 1 or (row and row[0].strip())]


def _separator(place: str, head: str) -> str:
    """The mark that occurs in the header and equally often in most rows; raises `BadInput` for several such marks."""
    rows_by_mark = {mark: rows_of(head, mark) for mark in SEPARATORS if mark in head}
    in_header = [mark for mark, rows in rows_by_mark.items() if rows and len(rows[0]) > 1]
    fitting = [mark for mark in in_header if _is_regular(rows_by_mark[mark])]
    if len(fitting) > 1:
        names = " or ".join(SEPARATORS[mark] for mark in fitting)
        declare = f'declare it in about.json, such as {{"separator": "{fitting[1]}"}}'
        raise BadInput(f"{place}: its columns may be separated by {names}; {declare}")
    if fitting:
        return fitting[0]
    return in_header[0] if len(in_header) == 1 and len(rows_by_mark[in_header[0]]) == 1 else ","


def _is_regular(rows: list[list[str]]) -> bool:
    """Whether most rows have an equal number of cells, that of the header or one more or less (separators at ends)."""
    lengths = Counter(map(len, rows[1:]))
    if not lengths:
        return False
    cells, count = lengths.most_common(1)[0]
    return cells > 1 and 2 * count >= lengths.total() and abs(cells - len(rows[0])) <= 1


def _decimal(place: str, head: str, separator: str) -> str:
    """The decimal mark; raises `BadInput` if commas in numbers may separate decimals or thousands."""
    if separator == ",":
        return "."
    rows = rows_of(head, separator)[1:]
    commas = {cell for cell in _cells(rows) if DECIMAL_COMMA.fullmatch(cell)}
    if not commas or any(POINT.fullmatch(cell) for cell in _cells(rows)):
        return "."
    if all(GROUPED.fullmatch(cell) for cell in commas):
        declare = 'declare {"decimal": ","} in about.json if they are decimals, else write them without commas'
        raise BadInput(f"{place}: numbers such as {quoted(min(commas))} may have decimals or thousands; {declare}")
    return ","


def _cells(rows: Iterable[list[str]]) -> Iterable[str]:
    return (cell.strip() for row in rows for cell in row)


FaultOf = Callable[[str, str], str | None]
"""(column, cell) -> the fault of the cell; None if the cell has no fault"""


def read_header(path: Path, text: Text, keep: Keep = lambda name: True) -> list[str]:
    """The names in the first row of `text`, stripped, as `distinct_names` returns them.

    Raises `BadInput` if there is no row, for invalid names, and if the next row has another number of cells.
    """
    rows = numbered_rows(StringIO(text.content, newline=""), text.separator)
    try:
        line, row = next(rows, (0, []))
        following = [*islice(rows, 1)]
        with suppress(csv.Error):
            following += islice(rows, EXAMINED_ROWS)
    except csv.Error as error:
        raise BadInput(f"{path}: {error}") from None
    if not row:
        raise BadInput(f"{path}: the file is empty")
    names = [name.strip() for name in row]
    if fault := header_fault(names, [cells for _, cells in following]):
        raise BadInput(f"{path}: line {line}: {fault}")
    names = distinct_names(f"{path}: line {line}", names, keep)
    if following and len(following[0][1]) != len(names):
        raise BadInput(f"{path}: {_wrong_length(*following[0], names)}")
    return names


def check_label_column(path: Path, header: Sequence[str], name: str) -> None:
    """Raise `BadInput` unless the file has the column `name` and at least one other column."""
    if name not in header:
        raise BadInput(f"{path}: column {quoted(name)} is missing; available: {', '.join(header[:8])}")
    if list(header) == [name]:
        raise BadInput(f"{path}: no column besides {quoted(name)}")


def first_rows(text: Text, count: int | None) -> list[list[str]]:
    """The header, and the rows as long as the header among the first `count` (None: all) rows; empty if unreadable."""
    try:
        numbered = numbered_rows(StringIO(text.content, newline=""), text.separator)
        rows = [row for _, row in islice(numbered, None if count is None else count + 1)]
    except csv.Error:
        return []
    return [row for row in rows if len(row) == len(rows[0])]


def sniffed_rows(content: str, separator: str) -> str:
    """The part of `content` with the header and the first `SNIFFED_ROWS` rows; all of it if these are unreadable."""
    with suppress(csv.Error):
        rows = numbered_rows(StringIO(content, newline=""), separator)
        last = max((line for line, _ in islice(rows, SNIFFED_ROWS + 1)), default=0)
        return "".join(islice(StringIO(content, newline=""), last))
    return content


def find_fault(
    path: Path,
    lines: Iterable[str],
    separator: str,
    header: Sequence[str],
    fault_of: FaultOf,
) -> str | None:
    """The line, column and value of the first fault in `lines` below a valid `header`; None if there is no fault.

    `fault_of(column, cell)` is the fault of a cell; a row of another length is a fault, too.
    """
    rows = numbered_rows(lines, separator)
    try:
        next(rows)
        for line, row in rows:
            if len(row) != len(header):
                return f"{path}: {_wrong_length(line, row, header)}"
            for name, cell in zip(header, row, strict=True):
                fault = fault_of(name, cell)
                if fault:
                    return f"{path}: line {line}, column {quoted(name)}: {fault}"
    except csv.Error as error:
        return f"{path}: {error}"
    return None


def place_in_text(path: Path, lines: Iterable[str], separator: str, row: int) -> str:
    """The last line of row `row` (from 0) in the `lines` of `path`. Raises `BadInput` for a broken row."""
    try:
        rows = numbered_rows(lines, separator)
        next(rows)
        return f"{path}: line {next(islice(rows, row, None))[0]}"
    except csv.Error as error:
        raise BadInput(f"{path}: {error}") from None


def numbered_rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not blank, with its last line. Raises `csv.Error` with the line of a broken row."""
    reader = csv.reader(lines, strict=True, delimiter=separator)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            reason = "a quotation mark is never closed" if unclosed else f"not CSV: {error}"
            raise csv.Error(f"line {line}: {reason}") from None
        blank = not row or (len(row) == 1 and row[0].isspace())
        if not blank:
            yield reader.line_num, row


def _wrong_length(line: int, row: Sequence[str], header: Sequence[str]) -> str:
    cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
    return f"line {line}: {cells}, but the header names {len(header)} columns"
