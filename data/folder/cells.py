"""What the cells of a table say: a number, a word, or nothing."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .check import MISSING, cell_fault
from .levels import labels_of

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


def understood(
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
