"""Faults of a first row that does not name the columns: it may be a row of the table, a title or a line for Excel.

The message does not quote a row that looks like a row of the table, because a silo sends messages to its coordinator.
"""

import codecs
import math
import re
from collections.abc import Sequence

from fedbnsl.algorithms.errors import quoted

EXAMINED_ROWS = 50
"""number of rows that are compared with the first row"""
SEPARATOR_LINE = re.compile(r"\s*\"?sep=.?\"?\s*", re.IGNORECASE)


def header_fault(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str | None:
    """The fault of a first row `names` above the first `rows` of a table; None if `names` may name the columns."""
    if None not in map(_number, names) and not all(name.isdigit() for name in names):
        return f"must name the columns, but has numbers, {quoted(','.join(names))}"
    if SEPARATOR_LINE.fullmatch(names[0]) and not any(names[1:]):
        return "is a line for Excel, 'sep=': delete it, the separator is detected"
    wider = any(len([cell for cell in row if cell.strip()]) > 1 for row in rows[:2])
    if len(names) != 2 and names[0] and not any(names[1:]) and wider:
        return f"has a single cell, {quoted(names[0])}, and no names of columns: if it is a title, delete it"
    if _is_row(names, rows):
        return "must name the columns, but looks like a row of the table: write a line of names above it"
    return None


def _is_row(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether each of `names` is like the cells below it, and one of `names` is a number with a fraction."""
    numbers = [_number(name) for name in names]
    if not any(number is not None and number % 1 for number in numbers):
        return False
    columns = list(zip(*(row for row in rows if len(row) == len(names)), strict=True))
    return bool(columns) and all(
        any(_number(cell) is not None for cell in column) if number is not None else name in map(str.strip, column)
        for name, number, column in zip(names, numbers, columns, strict=True)
    )


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
