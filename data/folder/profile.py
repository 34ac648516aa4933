"""Profiles: the public facts on a silo's table before a run, from which the coordinator infers the schema.

The profile of a column has the numbers of empty cells, numbers and words, the labels if there are few, the number of
values, and their order of magnitude. This module opens no files: `tally.py` makes the profile from batches of rows.

- `suggested_transforms`, `count_transform`: the transforms that the shape of a column of numbers suggests.
- `derived_columns`: columns that one or two other columns determine, such as a square, a logarithm, a sum or a ratio. A
  silo describes these columns by their formulas, which hold in all examined rows and disclose no single row.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .cells import MAX_LEVELS, canonical_order, fold_spelling
from .dates import FirstDates

SMALLEST, LARGEST = 1e-70, 1e70
"""bounds of absolute values between which fourth powers neither underflow nor overflow"""
BEYOND_RANGE = (
    f"its numbers exceed {LARGEST:g}, or are all below {SMALLEST:g}, beyond the range of the computations: use "
    "another unit, or leave the column out with --ignore"
)


@dataclass(frozen=True)
class ColumnProfile:
    """The description of a column of a silo's table; in runs with an ε it is empty (`UNDISCLOSED`)."""

    empty: int
    numbers: int
    words: int
    whole: bool
    """whether all numbers are integers"""
    labels: tuple[str, ...] | None = None
    """the distinct labels in canonical order; None if they are too many (`are_few_labels`) or numbers with fractions"""
    distinct: int = 0
    """number of distinct values, at most `MAX_LEVELS` + 1"""
    number_like: int = 0
    """number of words that look like numbers in another notation, such as 1,5 or 12 kg"""
    kinds_of_words: int = 0
    """number of distinct words, at most `MAX_LEVELS` + 1"""
    size: float | None = None
    """log10 of the median of the nonzero absolute values, to one decimal"""
    beyond: bool = False
    """whether the largest absolute number is too large or too small for computations"""
    zeros: int = 0
    """number of cells that are 0"""
    apart: bool = False
    """whether all nonzero values are positive and far from 0, so that a 0 may mark a missing value"""
    unique: bool = False
    """whether no cell is empty and no integer or word occurs twice; in more than `tally.MAX_SEEN` rows, each must also
    be greater than the one before it"""
    consecutive: bool = False
    """whether the values are consecutive integers, each of which occurs once"""
    spaced: bool = False
    """whether cells have the same label with different spaces around it"""
    odd: str = ""
    """place and content of the first cell with a word among numbers; empty if there is none"""
    outliers: int = 0
    """number of empty cells that were set aside as outliers"""
    marks: tuple[tuple[str, int], ...] = ()
    """the cells that mark a missing value, except cells without content, and the count of each"""
    dates: bool = False
    """whether all filled cells are dates"""
    first_dates: FirstDates = ()
    """for a column of dates, the orders of day, month and year that its cells allow, and on request the first date"""
    periods: bool = False
    """whether all filled cells are quarters or months"""
    negative: bool = False
    """whether a number is below 0"""
    shape: Literal["", "log", "normal-scores"] = ""
    """the transform that would make the numbers nearly symmetric; empty if they need no transform"""
    far: bool = False
    """whether a number is far from all others (`statistics/transforms.py`)"""
    counted: Literal["", "anscombe", "log1p"] = ""
    """the coding of the numbers if they look like counts, else empty"""
    unit: str | None = None
    """the unit of numbers with other marks beside them, such as 70.3 kg; "" without a unit, None for plain cells"""
    limits: int = 0
    """number of cells that are limits of numbers, such as <0.5"""
    recurrence: float = 0.0
    """for a column that is named like an identifier, the mean number of rows of a value, to one decimal; else 0"""
    padded: bool = False
    """whether a whole number has leading zeros, as codes have"""
    labelled: bool = False
    """whether the type of the column in the file is that of labels, such as categories"""

    @property
    def constant(self) -> bool:
        """Whether all filled cells have one value."""
        return self.distinct == 1

    @property
    def filled(self) -> int:
        """Number of cells that are not empty."""
        return self.numbers + self.words

    def with_words(self, words: Collection[str]) -> "ColumnProfile":
        """The profile in which the marks `words`, in any capitals, are labels."""
        kept = set(map(fold_spelling, words))
        labels = {mark: count for mark, count in self.marks if fold_spelling(mark) in kept}
        if not labels:
            return self
        count = sum(labels.values())
        return replace(
            self,
            empty=self.empty - count,
            words=self.words + count,
            labels=None if self.labels is None else canonical_order((*self.labels, *labels)),
            distinct=min(self.distinct + len(labels), MAX_LEVELS + 1),
            kinds_of_words=min(self.kinds_of_words + len(labels), MAX_LEVELS + 1),
            marks=tuple((mark, count) for mark, count in self.marks if mark not in labels),
        )


UNDISCLOSED = ColumnProfile(0, 0, 0, whole=False)
"""the description of a column that discloses nothing about its cells"""


@dataclass(frozen=True)
class Profile:
    """The public facts on a silo's table: its number of rows, its columns in their order, and notes."""

    rows: int
    columns: dict[str, ColumnProfile]
    notes: tuple[str, ...] = ()
    """notes on doubtful choices in reading the file"""
    left_out: tuple[str, ...] = ()
    """the columns that the reader excluded"""
    derived: tuple[tuple[str, ...], ...] = ()
    """columns of numbers that other columns determine: each with the formula, and the columns in the formula"""
    conditions: tuple[tuple[str, int], ...] = ()
    """the conditions of the rows, each with its number of rows; empty without a column of conditions"""
    dependence: tuple[int, int, int] = (0, 0, 0)
    """how much its columns of integers with few values depend on each other: as labels, as numbers, and as labels by
    chance (`tally.dependence`)"""

    @classmethod
    def of_names(cls, names: Sequence[str], rows: int, left_out: tuple[str, ...] = ()) -> "Profile":
        """The profile of a table that discloses only its names and its number of rows."""
        return cls(rows, dict.fromkeys(names, UNDISCLOSED), left_out=left_out)

    def with_units(self, units: Mapping[str, str], limits: Mapping[str, int]) -> "Profile":
        """The profile in which columns have these `units` and numbers of `limits`."""
        own = {name: replace(self.columns[name], unit=unit, limits=limits[name]) for name, unit in units.items()}
        return replace(self, columns=self.columns | own)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)


def beyond(sizes: NDArray[np.floating[Any]]) -> bool:
    """Whether numbers with these positive absolute values are too large or too small to compute with."""
    largest = float(sizes.max(initial=0.0))
    return not SMALLEST <= largest <= LARGEST
