"""Faults of a first row that does not name the columns: it may be a row of the table, a title or a line for Excel.

The message does not quote a row that looks like a row of the table, because a silo sends messages to its coordinator.
"""

import codecs
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from operator import lt

from fedbnsl.algorithms.errors import quoted

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
