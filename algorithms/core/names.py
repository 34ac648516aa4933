"""Which names a variable may have, and the one line that says what is wrong with one.

A number of things in words.

Names in CSV files that people open in a spreadsheet, which would take some of them for formulas.

A name that begins with =, +, -, @, a tab or a carriage return is written with an apostrophe before it. So is one that
begins with apostrophes and then one of these, so that every name is read back as it was.
"""

import re
import unicodedata
from collections.abc import Sequence

from ..errors import BadInput, shown


def name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a column, None if nothing is."""
    if not name:
        return "has no name (if it is an index, write the table without it)"
    if name != name.strip():
        return f"has a name with spaces around it, {shown(name)}"
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter == "\ufeff" for letter in name):
        return f"has a name with a control character, {shown(name)}"
    return None


def check_names(place: str, names: Sequence[str]) -> None:
    """Raise `BadInput` if a column has no usable name, or two columns have the same. `place` is file and line."""
    if not names:
        raise BadInput(f"{place}: no columns")
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        fault = name_fault(name)
        if fault:
            raise BadInput(f"{place}: column {number} {fault}")
        if name in seen:
            raise BadInput(f"{place}: columns {seen[name]} and {number} have the same name {shown(name)}")
        seen[name] = number


def pluralize(number: int, one: str, several: str = "") -> str:
    """Return `number` with what it counts: `one` of them, or `several`, by default that with an s, as in "1 round"."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formula(name: str) -> str:
    """Return `name` as it is written."""
    return f"'{name}" if FORMULA.match(name) else name


def unescape_formula(cell: str) -> str:
    """Return the name that `safe_cell` has written as `cell`."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell
