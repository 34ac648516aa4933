"""Cells of text: a cell is a number, a label, or empty.

If `about.json` declares a variable's levels, these are used, in their order. Otherwise the levels are the labels of all
silos: in numerical order if all are integers, else in the order of their Unicode code points.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import name_fault
from fedbnsl.algorithms.errors import quoted

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "-nan", "+nan", "null", "none", "<na>", "?", ".", "-"})
MISSING_WORDS = frozenset({"na", "n/a", "null", "none"})
"""marks of missing values that may also be labels; `joint_columns.labels_among_marks` decides"""


IDENTIFIER = re.compile(r"\d{2,}[eE]\d+", re.ASCII)


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
    """The number in a stripped cell, which may be infinite or NaN; None if the cell is not a number.

    Several digits with an exponent beyond the range of floats, such as 0004e797, are not a number but an identifier.
    """
    try:
        number = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None
    return None if number is not None and math.isinf(number) and IDENTIFIER.fullmatch(text) else number


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


DIGITS = r"(\d{1,3}([,'\u2019 \u00a0\u202f]\d{3})+(\.\d+)?|\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+)"
UNIT = r"(%|‰|°\s?[CFK]?|[A-Za-zµμ]{1,12}[²³]?([/·^*][A-Za-z0-9µμ²³]{1,12}){0,4})"
CURRENCY = r"([$€£¥₹]|USD|EUR|GBP|CHF)"
QUANTITY = re.compile(
    rf"(?P<limit>[<>≤≥]=?)?\s*(?P<currency>{CURRENCY})?\s*(?P<number>[+-]?{CURRENCY}?\s*{DIGITS})\s*"
    rf"(?P<unit>{UNIT}|{CURRENCY})?"
)
"""a number with marks that people write: a unit, a currency, marks between thousands, or a detection limit"""
INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


@dataclass(frozen=True)
class Quantity:
    """A number that is written with other marks, such as 70.3 kg, $1,180.23, 68 % and <0.5."""

    number: float
    """the number; half the limit for a positive upper limit, as in <0.5, and else the limit itself"""
    unit: str
    """the unit, currency or percent sign; empty without one"""
    limit: bool
    """whether only a limit of the number is known, such as a detection limit"""


def quantity_of(label: str) -> Quantity | None:
    """The number in a stripped cell that has other marks beside it; None for anything else."""
    found = QUANTITY.fullmatch(label)
    if found is None or (found["currency"] and found["unit"]):
        return None
    plain = re.sub(rf"{CURRENCY}|[,'\u2019\s]", "", found["number"])
    number, below = _float(plain), (found["limit"] or "")[:1] in ("<", "≤")
    if number is None or not math.isfinite(number):
        return None
    inner = re.search(CURRENCY, found["number"])
    unit = found["currency"] or (inner[0] if inner else None) or found["unit"] or ""
    return Quantity(number / 2 if below and number > 0 else number, unit, bool(found["limit"]))


def is_unread_number(label: str) -> bool:
    """Whether a word is a number in a notation that `quantity_of` does not read."""
    return (
        DECIMAL_COMMA.fullmatch(label) is not None
        or INFINITE.fullmatch(label) is not None
        or (label.isdecimal() and not label.isascii())
    )


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
