"""Rows in text files: the dialect of a file, its header, and its rows in batches or one by one.

The dialect of a file is its separator, encoding and decimal mark. A declaration in `about.json` takes precedence.
Otherwise the dialect is detected from the first rows; if several are plausible, an error proposes a declaration. The
first row must name the columns; `header_fault` finds a first row that is a row of the table, a title or a line for
Excel. A silo sends messages to its coordinator, so the message does not quote a row that looks like a row of the table.

`TextFile` reads the rows in batches with pyarrow. Reading row by row with `csv` is slow, so it is used for the first
rows of a file, and for the whole file only to find the place of a row or of a fault, or if pyarrow has failed.
"""

import codecs
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from io import StringIO
from itertools import islice, pairwise
from operator import lt
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedbnsl.algorithms.errors import BadInput, quoted

from .batches import NotNumbersError, exceeds_memory, keep_all, readable_names, rows_at_once
from .cells import DECIMAL_COMMA, MISSING, cell_fault, is_empty, number_of, quantity_of
from .check import Keep, distinct_names, tidy_names
from .formats import BROKEN, NO_FORM, Form, file_stamp, has_settled, open_bytes

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SNIFFED_ROWS = 200
"""number of rows from which separator and decimal mark are detected"""
LEGACY_ENCODING = "cp1252"
FIRST_LINE = re.compile(r"\s*([^\r\n]*)")
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
POINT_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)
SWAPPED = str.maketrans(",.", ".,")
POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


FOOTERS = frozenset(
    (
        *("total", "totals", "grand total", "sum", "mean", "average", "summe", "gesamt", "gesamtsumme", "insgesamt"),
        *("mittelwert", "durchschnitt", "somme", "moyenne", "suma", "media", "totale", "totaal"),
    )
)
"""words at the begin of a last row that summarises the rows above"""


@dataclass(frozen=True)
class Superfluous:
    """Rows that repeat the header, and a last row that summarises the rows above; neither is a row of the table."""

    headers: int = 0
    footer: str = ""
    """the word at the begin of the last row, or "" """

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for each kind of these rows."""
        rows = (
            "1 row repeats the header and is" if self.headers == 1 else f"{self.headers} rows repeat the header and are"
        )
        headers = (f"{rows} left out",) * bool(self.headers)
        return headers + (f"the last row, {quoted(self.footer)}, is left out",) * bool(self.footer)


NOTHING_SUPERFLUOUS = Superfluous()


def footer_of(last: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first word of the `last` row if the row summarises the `rows` above it; else "".

    The word must not be a label: its column has numbers, or words that hardly recur.
    """
    place = next((place for place, cell in enumerate(last) if cell.strip()), None)
    if place is None or last[place].strip(" :\t").casefold() not in FOOTERS:
        return ""
    above = [row[place].strip() for row in rows if len(row) > place]
    others = [cell for number, cell in enumerate(last) if number != place]
    summarises = sum(not cell.strip() or _number(cell) is not None for cell in others) >= max(1, len(others) / 2)
    recur = len(set(above)) <= len(above) / 2 and not all(_number(cell) is not None for cell in above if cell)
    return last[place].strip() if above and summarises and not recur else ""


def repeats_names(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows equal to `names` repeat the header, judging by the first `rows`: no other row has a name in a cell.

    In tables of multiple answers, and in tables without a header, other rows do.
    """
    others = [row for row in ([cell.strip() for cell in row] for row in rows) if row != [*names]]
    return bool(others) and not any(name and name in row[k : k + 1] for row in others for k, name in enumerate(names))


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
    superfluous: Superfluous = NOTHING_SUPERFLUOUS
    """the rows that are left out"""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the text."""
        return ("it is read as cp1252",) * self.legacy + empty_column_notes(self.unnamed) + self.superfluous.notes


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
    cells = set(_cells(rows))
    commas = {cell for cell in cells if _has_comma(cell)}
    if not commas or any(POINT.fullmatch(cell) and not POINT_GROUPED.fullmatch(cell) for cell in cells):
        return "."
    if all(GROUPED.fullmatch(cell) for cell in commas):
        declare = 'declare in about.json {"decimal": ","} if they are decimals, or {"decimal": "."} if thousands'
        raise BadInput(f"{place}: numbers such as {quoted(min(commas))} may have decimals or thousands; {declare}")
    return ","


def _cells(rows: Iterable[list[str]]) -> Iterable[str]:
    return (cell.strip() for row in rows for cell in row)


def empty_column_notes(count: int) -> tuple[str, ...]:
    """A note on columns without a name and without a cell that were dropped, if there are any."""
    what = "1 empty column without a name is" if count == 1 else f"{count} empty columns without a name are"
    return (f"{what} left out",) if count else ()


EXAMINED_ROWS = 50
"""number of rows that are compared with the first row"""
MIN_ASCENDING = 5
"""minimum number of ascending numbers that may name columns; five numbers ascend by chance with probability 1/120"""
SEPARATOR_LINE = re.compile(r"\s*\"?sep=.?\"?\s*", re.IGNORECASE)


def header_fault(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str | None:
    """The fault of a first row `names` above the first `rows` of a table; None if `names` may name the columns."""
    numbers = [_number(name) for name in names]
    known = [number for number in numbers if number is not None]
    all_numbers = len(known) == len(names)
    if all_numbers and not all(name.isdigit() for name in names) and not _ascending(known):
        return f"must name the columns, but has numbers, {quoted(','.join(names))}"
    if SEPARATOR_LINE.fullmatch(names[0]) and not any(names[1:]):
        return "is a line for Excel, 'sep=': delete it, the separator is detected"
    wider = any(len([cell for cell in row if cell.strip()]) > 1 for row in rows[:2])
    if len(names) != 2 and names[0] and not any(names[1:]) and wider:
        return f"has a single cell, {quoted(names[0])}, and no names of columns: if it is a title, delete it"
    if not (all_numbers and _enumerates(known)) and _is_row(names, numbers, rows):
        return "must name the columns, but looks like a row of the table: write a line of names above it"
    return None


def _ascending(numbers: Sequence[float]) -> bool:
    """Whether at least `MIN_ASCENDING` numbers ascend, like wavelengths or years that name columns."""
    return len(numbers) >= MIN_ASCENDING and all(map(lt, numbers, numbers[1:]))


def _enumerates(numbers: Sequence[float]) -> bool:
    """Whether names may number the columns: the numbers ascend, are consecutive in any order, or are at most two."""
    in_order = sorted(numbers)
    consecutive = all(after == before + 1 for before, after in pairwise(in_order))
    return len(numbers) < 3 or in_order == list(numbers) or consecutive


def _is_row(names: Sequence[str], numbers: Sequence[float | None], rows: Sequence[Sequence[str]]) -> bool:
    """Whether each of `names` is like the cells below it; `numbers` are the numbers among the names.

    A label must occur in a cell below. If all names are labels, some column must also have another label, because
    tables of multiple answers repeat the name of a column in its cells. A number must have numbers below. If all
    numbers are whole, they may be years, so each must also be near the numbers below.
    """
    columns = [
        [cell.strip() for cell in column] for column in zip(*(r for r in rows if len(r) == len(names)), strict=True)
    ]
    if not columns:
        return False
    if all(number is None for number in numbers) and all(
        set(column) <= {name, ""} for name, column in zip(names, columns, strict=True)
    ):
        return False
    whole = not any(number is not None and number % 1 for number in numbers)
    return all(
        name in column if number is None else _near(number, column, whole=whole)
        for name, number, column in zip(names, numbers, columns, strict=True)
    )


def _near(number: float, column: Sequence[str], *, whole: bool) -> bool:
    """Whether the `column` has numbers; with `whole`, `number` may be outside their range by at most its width."""
    below = [other for cell in column if (other := _number(cell)) is not None]
    if not below:
        return False
    margin = max(below) - min(below)
    return not whole or min(below) - margin <= number <= max(below) + margin


def _number(cell: str) -> float | None:
    """The finite number in a cell, written with a decimal point; None if the cell has no such number."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def utf_16(start: bytes) -> str | None:
    """The encoding of a text that begins with `start`, if it is UTF-16, also without a byte order mark; else None."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = start[: len(start) // 2 * 2][:64]
    for encoding, zeros, letters in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if len(head) >= 8 and not any(zeros) and all(letters):
            return encoding
    return None


@dataclass(frozen=True)
class Header:
    """The names in the first row of a text, the number of lines up to the end of this row, and notes on the names."""

    names: tuple[str, ...]
    lines: int
    notes: tuple[str, ...] = ()


def read_header(path: Path, text: Text, keep: Keep = keep_all) -> Header:
    """The names in the first row of `text`, tidied (`tidy_names`), as `distinct_names` returns them.

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
    if fault := header_fault([name.strip() for name in row], [cells for _, cells in following]):
        raise BadInput(f"{path}: line {line}: {fault}")
    tidy, notes = tidy_names(row)
    names = distinct_names(f"{path}: line {line}", tidy, keep)
    if following and len(following[0][1]) != len(names):
        raise BadInput(f"{path}: {_wrong_length(*following[0], names)}")
    return Header(tuple(names), line, notes)


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


FaultOf = Callable[[str, str], str | None]
"""(column, cell) -> the fault of the cell; None if the cell has no fault"""


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


EMPTY = sorted({variant for mark in MISSING for variant in (mark, mark.upper(), mark.capitalize(), mark.title())})
EMPTY += ["NaN", "-NaN", "+NaN"]
"""the usual spellings of the markers of missing values"""
PLAIN_WHOLE = re.compile(r"(0|-?[1-9]\d{0,14})(\.0*)?", re.ASCII)
"""pattern of a whole number that has one spelling as a label and as a float"""
HEAD_BYTES = 1 << 20
"""size of the part of a file from which its dialect is detected"""
KEPT_CHARACTERS = 1 << 16
"""size of a head above which only its first rows are kept"""
UNREADABLE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to double: invalid value '(.*?)'")
"""arrow's message on a cell that is not a number, with the column (from 0), the line and the content of the cell"""
BLOCK_BYTES, MAX_BLOCK_BYTES, LINES_OF_BLOCK = 1 << 19, 1 << 24, 64
"""minimum and maximum size in bytes of the blocks in which a file is parsed, and the number of the longest lines that
fit into a block between these sizes; pyarrow reads 32 blocks ahead"""


def _examine(path: Path, form: Form) -> Text:
    """The first lines of a text file and its dialect, for which the whole file is examined if it fits into memory.

    A file is opened several times in a run, and examined once. Raises `BadInput` if the file cannot be read.
    """
    try:
        status = path.stat()
        examine = _examined if has_settled(status) else _examined.__wrapped__
        return examine(path, form, file_stamp("", status), whole=not exceeds_memory(status.st_size))
    except BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise BadInput(f"{path}: cannot be read: {reason}") from error


@lru_cache(maxsize=256)
def _examined(path: Path, form: Form, stamp: tuple[str | int, ...], *, whole: bool) -> Text:
    """As `_examine`; `stamp` distinguishes versions of the file in the cache."""
    with open_bytes(path) as stream:
        content: bytes = stream.read() if whole else stream.read(HEAD_BYTES)
    if not whole and len(content) == HEAD_BYTES and b"\n" in content:
        content = content[: content.rindex(b"\n") + 1]
    if not whole and content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadInput(f"{path}: UTF-16 files of this size cannot be read: write it as UTF-8 or Parquet")
    text = text_of(str(path), content, form)
    if whole:
        without, superfluous = _without_superfluous(text.content, text.separator)
        text = replace(text, content=without, superfluous=superfluous)
    end = text.content.rfind("\n", 0, HEAD_BYTES) + 1 if len(text.content) > HEAD_BYTES else 0
    head = text.content[:end] if end else text.content
    longest = max(map(len, head.splitlines()), default=0)
    return replace(
        text, content=sniffed_rows(head, text.separator) if len(head) > KEPT_CHARACTERS else head, longest=longest
    )


def _without_superfluous(content: str, separator: str) -> tuple[str, Superfluous]:
    """`content` with blank lines in place of superfluous rows, and what these rows are."""
    first = FIRST_LINE.match(content)
    line = first[1].rstrip() if first else ""
    rows = rows_of(_head(content), separator)
    if not line or len(rows) < 2:
        return content, NOTHING_SUPERFLUOUS
    again = re.compile(rf"(?<=[\r\n]){re.escape(line)}[ \t]*(?=[\r\n]|\Z)")
    headers = 0
    if content.count(line) > 1 and repeats_names([name.strip() for name in rows[0]], rows[1:]):
        content, headers = again.subn("", content)
    start = max(content.rstrip().rfind("\n"), content.rstrip().rfind("\r")) + 1
    last = rows_of(content[start:], separator)
    footer = footer_of(last[0], rows[1:]) if start and len(last) == 1 and len(last[0]) == len(rows[0]) else ""
    return (content[:start] if footer else content), Superfluous(headers, footer)


@dataclass(frozen=True)
class TextFile:
    """Rows in a text file with a header; `form` has the declared parts of its dialect."""

    path: Path
    form: Form = NO_FORM
    keep: Keep = keep_all
    """whether to read the column of a name; columns that are not read may have the same name"""

    @cached_property
    def _head(self) -> Text:
        """The first lines and the dialect; raises `BadInput` if the file cannot be read."""
        return _examine(self.path, self.form)

    @cached_property
    def _header(self) -> Header:
        return read_header(self.path, self._head, self.keep)

    @property
    def header(self) -> tuple[str, ...]:
        """The columns in the header, including columns with the same name, which are marked (see `is_repeated`)."""
        return self._header.names

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that can be read."""
        return readable_names(self.header)

    @property
    def labelled(self) -> frozenset[str]:
        """None, because text has no types."""
        return frozenset()

    @cached_property
    def words(self) -> frozenset[str]:
        """The columns whose first cells are not all numbers or empty, or of which one has an unusual whole number.

        A column of whole numbers may hold labels, and as numbers 007 would be 7.
        """
        rows = first_rows(self._head, SNIFFED_ROWS)[1:]
        columns = dict(zip(self.header, zip(*rows, strict=True), strict=bool(rows)))
        return frozenset(name for name, cells in columns.items() if not self._are_numbers(cells))

    def _are_numbers(self, cells: Sequence[str]) -> bool:
        labels = [self._with_point(label) for label in {cell.strip() for cell in cells} if not is_empty(label)]
        numbers = list(map(number_of, labels))
        if any(map(math.isnan, numbers)):
            return False
        return not all(map(float.is_integer, numbers)) or all(map(PLAIN_WHOLE.fullmatch, labels))

    def _with_point(self, cell: str) -> str:
        return with_point(cell, self._head.decimal)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on doubtful choices in reading the file."""
        return (*self._head.notes, *self._header.notes)

    def place(self, row: int) -> str:
        """The place of row `row` (from 0): the last line of the row."""
        with self._lines() as lines:
            return place_in_text(self.path, lines, self._head.separator, row)

    def batches(self, names: Sequence[str], words: Collection[str] = ()) -> Iterator[Any]:
        """Yield the rows (see `Source.batches`)."""
        import pyarrow

        read = 0
        try:
            for batch in self._arrow_batches(names, words):
                read += batch.num_rows
                yield batch
            return
        except pyarrow.ArrowInvalid as error:
            found = UNREADABLE.search(str(error))
        except (pyarrow.ArrowException, *BROKEN) as error:
            raise BadInput(f"{self.path}: cannot be read: {str(error).splitlines()[0]}") from error
        column = None if found is None else self.header[int(found[1])]

        def fault_of(name: str, cell: str) -> str | None:
            label = self._with_point(cell.strip())
            return cell_fault(cell) if name == column and not is_empty(label) and cell_fault(label) else None

        with self._lines() as lines:
            header = [*self.header, *[""] * self._head.unnamed]
            fault = find_fault(self.path, lines, self._head.separator, header, fault_of)
        if fault is None:  # unusual but allowed, such as a line of spaces
            yield from self._row_batches(names, words, read)
        elif column is None or f", column {quoted(column)}: " not in fault:
            raise BadInput(fault)
        else:
            raise NotNumbersError(f"{fault}; if the column has labels, declare its levels in about.json", column)

    def _arrow_batches(self, names: Sequence[str], words: Collection[str]) -> Iterator[Any]:
        import pyarrow
        import pyarrow.csv

        head, text = self._head, pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        unnamed = [f"\0unnamed {number}" for number in range(head.unnamed)]
        above = self._header.lines
        if (
            len(head.content.encode()) < HEAD_BYTES
            and not "".join(head.content.splitlines(keepends=True)[above:]).strip()
        ):
            return
        types = {name: text if name in words else pyarrow.float64() for name in self.header}
        with (
            self._open() as file,
            pyarrow.csv.open_csv(
                file,
                read_options=pyarrow.csv.ReadOptions(
                    column_names=[*self.header, *unnamed],
                    skip_rows=above,
                    use_threads=False,
                    block_size=max(BLOCK_BYTES, min(LINES_OF_BLOCK * head.longest, MAX_BLOCK_BYTES)),
                    encoding="utf8" if head.encoding == "utf-8-sig" else head.encoding,
                ),
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, delimiter=head.separator),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=types | dict.fromkeys(unnamed, pyarrow.null()),
                    strings_can_be_null=False,
                    quoted_strings_can_be_null=False,
                    null_values=EMPTY,
                    decimal_point=head.decimal,
                    include_columns=[*names, *unnamed],
                ),
            ) as stream,
        ):
            for batch in stream:
                columns = batch.select(list(names)).columns
                if head.decimal == ",":
                    columns = [self._with_points(column) for column in columns]
                yield pyarrow.RecordBatch.from_arrays(columns, names=list(names)) if names else batch.select([])

    def _with_points(self, column: Any) -> Any:
        """The arrow `column` with decimal points instead of commas."""
        import pyarrow

        if not pyarrow.types.is_dictionary(column.type):
            return column
        cells = [self._with_point(cell) for cell in column.dictionary.to_pylist()]
        return pyarrow.array(cells, pyarrow.string()).take(column.indices)

    def _row_batches(self, names: Sequence[str], words: Collection[str], read: int) -> Iterator[Any]:
        """Yield the rows after the first `read` rows, which are read one by one."""
        import pyarrow

        with self._lines() as lines:
            rows = (row for _, row in islice(numbered_rows(lines, self._head.separator), 1 + read, None))
            while some := list(islice(rows, rows_at_once(len(names)))):
                columns = dict(
                    zip(self.header, zip(*(row[: len(self.header)] for row in some), strict=True), strict=True)
                )
                arrays = []
                for name in names:
                    cells = [self._with_point(cell) for cell in columns[name]]
                    numbers = np.array([number_of(cell.strip()) for cell in cells])
                    as_text = name in words
                    arrays.append(
                        pyarrow.array(cells if as_text else numbers, mask=None if as_text else np.isnan(numbers))
                    )
                yield pyarrow.RecordBatch.from_arrays(arrays, names=list(names))

    def _open(self) -> BinaryIO:
        """The open file, in which superfluous rows are blank lines."""
        file = open_bytes(self.path)
        if self._head.superfluous == NOTHING_SUPERFLUOUS:
            return file
        with file:
            text = file.read().decode(self._head.encoding).removeprefix("\ufeff")
        return io.BytesIO(_without_superfluous(text, self._head.separator)[0].encode(self._head.encoding))

    def _lines(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(self._open(), encoding=self._head.encoding, errors="replace", newline="")


def with_point(cell: str, decimal: str) -> str:
    """A cell whose number has the mark `decimal`, with a decimal point."""
    if decimal != ",":
        return cell
    if DECIMAL_COMMA.fullmatch(cell.strip()):
        return cell.replace(",", ".")
    swapped = cell.strip().translate(SWAPPED)
    return swapped if _has_comma(cell) or POINT_GROUPED.fullmatch(cell.strip()) else cell


def _has_comma(cell: str) -> bool:
    """Whether a cell is a number with a decimal comma, also with other marks, such as 1.180,23 €."""
    text = cell.strip()
    return DECIMAL_COMMA.fullmatch(text) is not None or (
        "," in text and quantity_of(text) is None and quantity_of(text.translate(SWAPPED)) is not None
    )
