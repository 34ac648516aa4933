"""Which names a variable may have, and the one line that says what is wrong with one."""

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
