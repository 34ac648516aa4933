"""Labels and levels: what a cell of discrete data may say, and the order in which a variable's labels are coded.

If `about.json` declares a variable's levels, these are used, in their order. Otherwise the levels are the labels that
occur in any silo, in numerical order if all are whole numbers, and in the order of their characters if not.

What the cells of a table say: a number, a word, or nothing.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.names import name_fault
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
    """Return the label that a cell holds: without spaces around it, and "2" for "2.0", as some programs write it."""
    text = cell.strip()
    whole = WHOLE_AS_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def canonical_order(labels: Iterable[str]) -> tuple[str, ...]:
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


def merged_levels(labels: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the levels that `labels` are, in canonical order, and those labels that were joined to others.

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
    """Return `label` as it compares with others: without capitals, one space between words."""
    return " ".join(label.casefold().split())


def codes_of(labels: Sequence[str], levels: Sequence[str]) -> list[int]:
    """Return the code of each label: that of the level it is, else that of the level it is spelled like, else -1."""
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
    """Say whether a cell without the spaces around it marks a missing value."""
    return label in marks or label.lower() in MISSING


def number_of(label: str) -> float:
    """Return the finite number that a cell holds, NaN if it holds none."""
    return float(label) if cell_fault(label) is None else np.nan
