"""What a silo tells of its table before a run, from which all of them learn how its columns are to be read.

Of each column: how many cells are empty, numbers or words, which labels occur if they are few, how many values, and
about how large they are. No file is opened here: `of_numbers` and `of_cells` make a column's profile from numbers in
memory or from distinct cells and how often each occurs, wherever these come from.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import NUMBER_LIKE, Cells
from .levels import MOST_LEVELS, WHOLE, in_order

SMALLEST, LARGEST = 1e-70, 1e70
"""sizes of numbers of which the fourth power is one"""
TOO_FAR = (
    f"its numbers are beyond {LARGEST:g}, or all below {SMALLEST:g}, where nothing can be computed from them: give "
    "them in another unit, or leave the column out by --ignore"
)
FAR = 0.25
"""a value is far from zero if it is this part of the median, or more"""
PEEKED = 2000
"""numbers that are looked at before all are sorted: mostly they show already that values are many"""


@dataclass(frozen=True)
class ColumnProfile:
    """What is public of one column of a silo's table. A private run is told `numbers`, `words` and `whole` alone."""

    empty: int
    numbers: int
    words: int
    whole: bool
    """whether every number in it is whole"""
    labels: tuple[str, ...] | None = None
    """the distinct labels in canonical order; None where they are more than `MOST_LEVELS`, or numbers with fractions"""
    distinct: int = 0
    """how many values there are, `MOST_LEVELS` + 1 standing for more"""
    number_like: int = 0
    """how many of the words are numbers written in a way that is not understood, such as 1,5 or 12 %"""
    kinds_of_words: int = 0
    """how many different words there are, capped likewise"""
    size: float | None = None
    """log10 of the median of the absolute values but 0, to a tenth"""
    beyond: bool = False
    """whether a number is so large, or all but 0 are so small, that their powers are no numbers any more"""
    zeros: int = 0
    """how many cells are 0"""
    apart: bool = False
    """whether all values but 0 are positive and far from it, so that a 0 may mark a missing value"""
    unique: bool = False
    """whether no cell is empty and no whole number or word occurs twice"""
    consecutive: bool = False
    """whether its values are whole numbers without a gap, each once"""
    spaced: bool = False
    """whether cells hold the same label with different spaces around it"""
    odd: str = ""
    """where the first cell stands that holds a word among numbers, and what it says; empty if there is none"""

    @property
    def constant(self) -> bool:
        """Whether all cells that are not empty say the same."""
        return self.distinct == 1

    @property
    def filled(self) -> int:
        """How many cells are not empty."""
        return self.numbers + self.words


@dataclass(frozen=True)
class Profile:
    """What is public of a silo's table: its rows, its columns in their order, and how the file had to be read."""

    rows: int
    columns: dict[str, ColumnProfile]
    notes: tuple[str, ...] = ()
    """how the file was read where that is not beyond doubt"""
    left_out: tuple[str, ...] = ()
    """the columns that were to be left out"""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)


def of_numbers(values: NDArray[np.floating[Any]], *, private: bool = False) -> ColumnProfile:
    """Return the profile of a column of numbers `[n_rows]`, NaN where a cell is empty."""
    known = values[~np.isnan(values)]
    whole = bool((known == np.rint(known)).all())
    if private:
        return ColumnProfile(0, len(known), 0, whole)
    few = len(np.unique(known[:PEEKED])) <= MOST_LEVELS
    distinct, counts = np.unique(known, return_counts=True) if few or whole else (known, np.ones(len(known)))
    many = len(distinct) > MOST_LEVELS
    return ColumnProfile(
        empty=len(values) - len(known),
        numbers=len(known),
        words=0,
        whole=whole,
        labels=_labels(distinct, whole=whole) if (whole and not many) or len(distinct) == 1 else None,
        distinct=min(len(distinct), MOST_LEVELS + 1),
        **_of_values(distinct, counts, len(values), whole=whole),
    )


def of_cells(
    cells: Cells,
    counts: NDArray[np.integer[Any]],
    *,
    labelled: bool = False,
    most: int = MOST_LEVELS,
    private: bool = False,
    odd: str = "",
) -> ColumnProfile:
    """Return the profile of a column from its distinct `cells` and how often each of them occurs.

    Labels are told if there are no more than `most`; in a column that was not said to be `labelled` only if they are
    not numbers with fractions. `odd` says where the first word among numbers stands.
    """
    filled, number = ~cells.empty, ~np.isnan(cells.numbers)
    whole = all(WHOLE.fullmatch(label) for label, is_number in zip(cells.labels, number, strict=True) if is_number)
    words, numbers = int(counts[filled & ~number].sum()), int(counts[number].sum())
    like = [
        not is_number and NUMBER_LIKE.fullmatch(label) is not None
        for label, is_number in zip(cells.labels, number, strict=True)
    ]
    if private:
        return ColumnProfile(0, numbers, words, whole)
    labels = {label for label, there in zip(cells.labels, filled, strict=True) if there}
    named = {label for label, there in zip(cells.labels, filled & ~number, strict=True) if there}
    told = len(labels) <= most and (labelled or whole or words >= numbers or len(labels) == 1)
    rows = int(counts.sum())
    if words:
        found: dict[str, Any] = {"unique": len(labels) == rows == int(counts[filled].sum())}
    else:
        found = _of_values(cells.numbers[number], counts[number], rows, whole=whole)
    return ColumnProfile(
        empty=int(counts[cells.empty].sum()),
        numbers=numbers,
        words=words,
        whole=whole,
        labels=in_order(labels) if told else None,
        distinct=min(len(labels), MOST_LEVELS + 1),
        number_like=int(counts[np.array(like, dtype=np.bool_)].sum()),
        kinds_of_words=min(len(named), MOST_LEVELS + 1),
        spaced=len({re.sub(r"\s", "", text) for text in cells.texts}) < len(set(cells.texts)) and bool(words),
        odd=odd,
        **found,
    )


def _labels(values: NDArray[np.floating[Any]], *, whole: bool) -> tuple[str, ...]:
    return in_order(str(int(value)) if whole else repr(float(value)) for value in values)


def _of_values(values: NDArray[np.floating[Any]], counts: NDArray[Any], rows: int, *, whole: bool) -> dict[str, Any]:
    """Return size, zeros and what makes an id of distinct `values` that occur so many times in so many rows."""
    sizes, often = np.abs(values[values != 0]), counts[values != 0]
    unique = bool(len(values) == rows and (counts == 1).all()) and whole
    found: dict[str, Any] = {
        "zeros": int(counts[values == 0].sum()),
        "unique": unique,
        "consecutive": unique and bool(len(values)) and values.max() - values.min() == rows - 1,
    }
    if not len(sizes):
        return found
    order = np.argsort(sizes, kind="stable")
    reached = np.cumsum(often[order])
    middle = float(sizes[order][np.searchsorted(reached, reached[-1] / 2)])
    apart = sizes.min() >= FAR * middle and bool((values >= 0).all())
    return found | {"size": round(math.log10(middle), 1), "apart": apart, "beyond": beyond(sizes)}


def beyond(sizes: NDArray[np.floating[Any]]) -> bool:
    """Say whether numbers of these absolute values, some above 0, are too large or too small to compute with."""
    largest = float(sizes.max(initial=0.0))
    return not SMALLEST <= largest <= LARGEST
