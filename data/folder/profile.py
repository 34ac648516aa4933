"""What a silo tells of its table before a run, from which all of them learn how its columns are to be read.

Of each column: how many cells are empty, numbers or words, which labels occur if they are few, how many values, and
about how large they are. No file is opened here: `of_numbers` and `of_cells` make a column's profile from numbers in
memory or from distinct cells and how often each occurs, wherever these come from.

The profile of a column that is read in passes: what is kept of it does not grow with its rows.

What all silos together tell of a column.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .scan import MOST_LEVELS, NUMBER_LIKE, WHOLE, Cells, canonical_order, cell_fault

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
    """The description of one column of a silo's table; in runs with an ε it is empty (`UNDISCLOSED`)."""

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


UNDISCLOSED = ColumnProfile(0, 0, 0, whole=False)
"""the description of a column of which nothing is disclosed"""


@dataclass(frozen=True)
class Profile:
    """What is public of a silo's table: its rows, its columns in their order, and how the file had to be read."""

    rows: int
    columns: dict[str, ColumnProfile]
    notes: tuple[str, ...] = ()
    """how the file was read where that is not beyond doubt"""
    left_out: tuple[str, ...] = ()
    """the columns that were to be left out"""

    @classmethod
    def of_names(cls, names: Sequence[str], rows: int, left_out: tuple[str, ...] = ()) -> "Profile":
        """The profile of a table of which nothing but names and the number of rows is disclosed."""
        return cls(rows, dict.fromkeys(names, UNDISCLOSED), left_out=left_out)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)


def profile_numbers(values: NDArray[np.floating[Any]]) -> ColumnProfile:
    """The profile of a column of numbers `[n_rows]`, NaN where a cell is empty."""
    known = values[~np.isnan(values)]
    whole = bool((known == np.rint(known)).all())
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


def profile_cells(
    cells: Cells,
    counts: NDArray[np.integer[Any]],
    *,
    labelled: bool = False,
    most: int = MOST_LEVELS,
    odd: str = "",
) -> ColumnProfile:
    """The profile of a column from its distinct `cells` and how often each of them occurs.

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
        labels=canonical_order(labels) if told else None,
        distinct=min(len(labels), MOST_LEVELS + 1),
        number_like=int(counts[np.array(like, dtype=np.bool_)].sum()),
        kinds_of_words=min(len(named), MOST_LEVELS + 1),
        spaced=len({re.sub(r"\s", "", text) for text in cells.texts}) < len(set(cells.texts)) and bool(words),
        odd=odd,
        **found,
    )


def _labels(values: NDArray[np.floating[Any]], *, whole: bool) -> tuple[str, ...]:
    return canonical_order(str(int(value)) if whole else repr(float(value)) for value in values)


def _of_values(values: NDArray[np.floating[Any]], counts: NDArray[Any], rows: int, *, whole: bool) -> dict[str, Any]:
    """Size, zeros and what makes an id of distinct `values` that occur so many times in so many rows."""
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
    """Whether numbers of these absolute values, some above 0, are too large or too small to compute with."""
    largest = float(sizes.max(initial=0.0))
    return not SMALLEST <= largest <= LARGEST


SIZES = 64
"""values of each batch from which it is told how large they are"""


@dataclass
class StreamingProfile:
    """What has been read of a column until now; more than `most` distinct labels are not kept."""

    labelled: bool = False
    """whether the column was said to be discrete"""
    most: float = MOST_LEVELS
    rows: int = 0
    numbers: int = 0
    words: int = 0
    whole: bool = True
    zeros: int = 0
    number_like: int = 0
    labels: set[str] | None = field(default_factory=set)
    named: set[str] | None = field(default_factory=set)
    texts: set[str] | None = field(default_factory=set)
    rising: bool = True
    """whether every value is a whole number greater than the one before"""
    by_one: bool = True
    last: float = math.nan
    least: float = math.inf
    """of the absolute values but 0"""
    negative: bool = False
    sizes: list[NDArray[np.float64]] = field(default_factory=list)
    first_word: tuple[int, str] | None = None
    """the row of the first word, and what it says"""
    first_like: tuple[int, str] | None = None
    """the same of the first that looks like a number"""

    def add_numbers(self, values: NDArray[np.float64]) -> None:
        """Count `values` `[n_rows]`, NaN where a cell is empty."""
        known = values[~np.isnan(values)]
        self.rows += len(values)
        self.numbers += len(known)
        self.whole = self.whole and bool((known == np.rint(known)).all())
        if not len(known):
            return
        self._size(known)
        if self.labels is not None and len(np.unique(known[:PEEKED])) > self.most:
            self.labels = None
        if self.labels is not None:
            distinct = np.unique(known)
            shown = (str(int(value)) if value.is_integer() else repr(value) for value in map(float, distinct))
            self.labels = _joined(self.labels, set(shown), self.most)

    def add_cells(self, cells: Cells, codes: NDArray[np.int64]) -> None:
        """Count the cells that rows hold: row i holds number `codes[i]` of the distinct `cells`."""
        counts = np.bincount(codes, minlength=len(cells.labels))
        there, number = counts > 0, ~np.isnan(cells.numbers)
        word = there & ~number & ~cells.empty
        like = np.array([NUMBER_LIKE.fullmatch(label) is not None for label in cells.labels], dtype=np.bool_) & word
        self._place(cells, codes, word, like)
        self.rows += len(codes)
        self.numbers += int(counts[number].sum())
        self.words += int(counts[word].sum())
        self.number_like += int(counts[like].sum())
        self.whole = self.whole and all(WHOLE.fullmatch(cells.labels[k]) for k in np.flatnonzero(there & number))
        filled = {cells.labels[k] for k in np.flatnonzero(there & ~cells.empty)}
        self.labels = _joined(self.labels, filled, self.most)
        self.named = _joined(self.named, {cells.labels[k] for k in np.flatnonzero(word)}, MOST_LEVELS)
        texts = {text for text, here in zip(cells.texts, there, strict=True) if here}
        self.texts = _joined(self.texts, texts, 2 * MOST_LEVELS)
        if (number & there).any():
            self._size(cells.numbers[codes][number[codes]])

    def profile(self, place: str, name: str) -> ColumnProfile:
        """The profile; `place` is the file that a word among numbers is in."""
        odd = self._odd(place, name)
        count = MOST_LEVELS + 1 if self.labels is None else min(len(self.labels), MOST_LEVELS + 1)
        told = self.labelled or self.whole or self.words >= self.numbers or count == 1
        texts = self.texts or set()
        sizes = np.concatenate(self.sizes) if self.sizes and not self.words else np.empty(0)
        middle = float(np.median(sizes)) if len(sizes) else math.nan
        every = bool(self.numbers) and self.rising and self.numbers == self.rows
        return ColumnProfile(
            empty=self.rows - self.numbers - self.words,
            numbers=self.numbers,
            words=self.words,
            whole=self.whole,
            labels=canonical_order(self.labels) if told and self.labels is not None else None,
            distinct=count,
            number_like=self.number_like,
            kinds_of_words=MOST_LEVELS + 1 if self.named is None else len(self.named),
            size=round(math.log10(middle), 1) if len(sizes) else None,
            zeros=0 if self.words else self.zeros,
            apart=len(sizes) > 0 and self.least >= FAR * middle and not self.negative,
            unique=every and not self.words,
            consecutive=every and self.by_one and not self.words,
            spaced=len({re.sub(r"\s", "", text) for text in texts}) < len(texts) and bool(self.words),
            odd=odd,
        )

    def _size(self, known: NDArray[np.float64]) -> None:
        """Take note of how large the numbers `known` are, and whether they rise."""
        sizes = np.abs(known)
        sizes = sizes[sizes > 0]
        self.zeros += len(known) - len(sizes)
        self.negative = self.negative or bool((known < 0).any())
        if len(sizes):
            self.least = min(self.least, float(sizes.min()))
            self.sizes.append(sizes[:: max(1, len(sizes) // SIZES)].copy())
        if self.rising:
            steps = np.diff(known, prepend=known[0] - 1 if math.isnan(self.last) else self.last)
            self.rising, self.by_one = self.whole and bool((steps > 0).all()), self.by_one and bool((steps == 1).all())
            self.last = float(known[-1])

    def _place(self, cells: Cells, codes: NDArray[np.int64], word: NDArray[np.bool_], like: NDArray[np.bool_]) -> None:
        """Take note of where the first word stands."""
        if self.first_word is None and word.any():
            row = int(np.argmax(word[codes]))
            self.first_word = self.rows + row + 1, cells.texts[codes[row]]
        if self.first_like is None and like.any():
            row = int(np.argmax(like[codes]))
            self.first_like = self.rows + row + 1, cells.texts[codes[row]]

    def _odd(self, place: str, name: str) -> str:
        """Where the first word stands among numbers, or the first number that is not written as one."""
        found = self.first_like or (self.first_word if self.numbers else None)
        if found is None or self.labelled:
            return ""
        return f"{place}: row {found[0]}, column {name!r}: {cell_fault(found[1])}"


def _joined(one: set[str] | None, other: set[str], most: float) -> set[str] | None:
    """The union of two sets; None, and nothing is kept, if it has more than `most` members."""
    if one is None or len(one | other) > most:
        return None
    return one | other


@dataclass(frozen=True)
class JointColumn:
    """A column of all silos: its profile in each of them, and the sums of these."""

    parts: Mapping[str, ColumnProfile]
    """by silo, in the order of their names"""
    labels: tuple[str, ...] | None
    """all that any silo has, in canonical order; None where some silo does not tell"""
    odd: str
    """where the first word among numbers stands"""

    @property
    def empty(self) -> int:
        """How many cells are empty."""
        return sum(part.empty for part in self.parts.values())

    @property
    def numbers(self) -> int:
        """How many cells are numbers."""
        return sum(part.numbers for part in self.parts.values())

    @property
    def words(self) -> int:
        """How many cells are words."""
        return sum(part.words for part in self.parts.values())

    @property
    def number_like(self) -> int:
        """How many of the words look like numbers."""
        return sum(part.number_like for part in self.parts.values())

    @property
    def kinds_of_words(self) -> int:
        """How many different words there are, at most."""
        return sum(part.kinds_of_words for part in self.parts.values())

    @property
    def filled(self) -> int:
        """How many cells are not empty."""
        return self.numbers + self.words

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        return all(part.whole for part in self.parts.values())

    @property
    def unique(self) -> bool:
        """Whether no silo has an empty cell or a value twice."""
        return all(part.unique for part in self.parts.values())

    @property
    def consecutive(self) -> bool:
        """Whether every silo has whole numbers without a gap, each once."""
        return all(part.consecutive for part in self.parts.values())


def joint_columns(profiles: Mapping[str, Profile]) -> dict[str, JointColumn]:
    """All columns, which are those of the first silo, each with its parts silo after silo."""
    first = next(iter(profiles.values()))
    return {
        name: _joint({silo: profile.columns[name] for silo, profile in profiles.items()}) for name in first.variables
    }


def _joint(parts: Mapping[str, ColumnProfile]) -> JointColumn:
    told = [part.labels for part in parts.values() if part.filled]
    labels = None if None in told else canonical_order(label for one in told for label in one or ())
    return JointColumn(parts, labels, next((part.odd for part in parts.values() if part.odd), ""))
