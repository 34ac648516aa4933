"""Labels and levels: what a cell of discrete data may say, and the order in which a variable's labels are coded.

If `about.json` declares a variable's levels, these are used, in their order. Otherwise the levels are the labels that
occur in any silo, in numerical order if all are whole numbers, and in the order of their characters if not.
"""

import re
from collections.abc import Iterable, Sequence

from fedbnsl.algorithms.core.names import name_fault
from fedbnsl.algorithms.errors import BadInput, shown

from .check import cell_fault

MOST_LEVELS = 50
"""levels a variable may have without being declared"""
MOST_CODES = 10
"""distinct whole numbers that may be codes without anybody saying so"""

WHOLE = re.compile(r"[+-]?[0-9]+")
WHOLE_AS_FLOAT = re.compile(r"([+-]?[0-9]+)\.0*")
DECLARE = "declare its levels in about.json if it is meant"


def label_of(cell: str) -> str:
    """Return the label that a cell holds: without spaces around it, and "2" for "2.0", as some programs write it."""
    text = cell.strip()
    whole = WHOLE_AS_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return distinct labels in canonical order: as numbers if all are whole numbers, else by their characters."""
    distinct = set(labels)
    if all(WHOLE.fullmatch(label) for label in distinct):
        return tuple(sorted(distinct, key=lambda label: (int(label), label)))
    return tuple(sorted(distinct))


def labels_of(cells: Sequence[str], declared: Sequence[str] | None) -> list[str]:
    """Return the label of each of a column's `cells`; a declared label is matched exactly."""
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
    """Return the fractions in a column that was said to be discrete, if it holds nothing but numbers."""
    numbers = {cell: label for cell, label in zip(cells, labels_of(cells, None), strict=True) if label}
    if any(cell_fault(label) is not None for label in numbers.values()):
        return {}
    why = "is a fraction: a continuous column in discrete data"
    return {cell: f"{shown(cell)} {why}; {DECLARE}" for cell, label in numbers.items() if not WHOLE.fullmatch(label)}


def joined_levels(labels: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the levels that `labels` are, in canonical order, and those labels that were joined to others.

    Labels that differ only by capitals or by spaces between words are one level, the first of them. They are not if
    nothing else would tell a column's cells apart.
    """
    levels: dict[str, str] = {}
    ordered = in_order(labels)
    for label in ordered:
        levels.setdefault(folded(label), label)
    if len(levels) < 2:
        return ordered, ()
    return in_order(levels.values()), tuple(label for label in ordered if levels[folded(label)] != label)


def folded(label: str) -> str:
    """Return `label` as it compares with others: without capitals, one space between words."""
    return " ".join(label.casefold().split())


def codes_of(labels: Sequence[str], levels: Sequence[str]) -> list[int]:
    """Return the code of each label: that of the level it is, else that of the level it is spelled like, else -1."""
    place = {folded(level): code for code, level in reversed(list(enumerate(levels)))}
    place |= {level: code for code, level in enumerate(levels)}
    return [place.get(label, place.get(folded(label), -1)) for label in labels]


def check_levels_public(place: str, undeclared: Iterable[str]) -> None:
    """Raise `BadInput` for levels read off the rows: a label that only one record has would reveal it despite any ε."""
    for name in sorted(undeclared):
        raise BadInput(
            f"{place}: column '{name}': its levels are those that occur in the rows, which no ε covers: "
            "declare them in about.json for a private run"
        )
