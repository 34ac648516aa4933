"""Profiles: the public facts on a silo's table before a run, from which the coordinator infers the schema.

The profile of a column has the numbers of empty cells, numbers and words, the labels if there are few, the number of
values, and their order of magnitude. This module opens no files: `profile_numbers` makes a profile from an array,
`profile_cells` from distinct cells and their counts, and `StreamingProfile` from batches, in memory that does not grow
with the rows.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.statistics.transforms import (
    NORMAL_SCORES,
    SAMPLED_ROWS,
    count_transform,
    suggested_transforms,
)

from .dates import DATE, PERIOD, FirstDates, first_dates
from .scan import (
    MAX_LEVELS,
    MAX_RECURRING_LEVELS,
    NUMBER_LIKE,
    WHOLE,
    Cells,
    are_few_labels,
    canonical_order,
    cell_fault,
    fold_spelling,
)

SMALLEST, LARGEST = 1e-70, 1e70
"""absolute values between which fourth powers neither underflow nor overflow"""
BEYOND_RANGE = (
    f"its numbers exceed {LARGEST:g}, or are all below {SMALLEST:g}, beyond the range of the computations: use "
    "another unit, or leave the column out with --ignore"
)
MIN_DISTANCE_FROM_ZERO = 0.25
"""minimum value that is far from zero, as a fraction of the median"""
MIN_INTEGER_FROM_ZERO = 5
"""minimum integer that is far from zero: in counts, 1 to 4 are as near to 0 as to each other"""
SAMPLED_NUMBERS = 2000
"""numbers to examine first: they usually show that there are many values, which saves sorting the column"""


@dataclass(frozen=True)
class ColumnProfile:
    """The description of a column of a silo's table; in runs with an ε it is empty (`UNDISCLOSED`)."""

    empty: int
    numbers: int
    words: int
    whole: bool
    """whether all numbers are integers"""
    labels: tuple[str, ...] | None = None
    """the distinct labels in canonical order; None for too many (`are_few_labels`), or numbers with fractions"""
    distinct: int = 0
    """number of distinct values, at most `MAX_LEVELS` + 1"""
    number_like: int = 0
    """number of words that look like numbers in another notation, such as 1,5 or 12 %"""
    kinds_of_words: int = 0
    """number of distinct words, at most `MAX_LEVELS` + 1"""
    size: float | None = None
    """log10 of the median of the nonzero absolute values, to one decimal"""
    beyond: bool = False
    """whether a number is too large, or all nonzero ones are too small, to compute with"""
    zeros: int = 0
    """number of cells that are 0"""
    apart: bool = False
    """whether all nonzero values are positive and far from 0, so that a 0 may mark a missing value"""
    unique: bool = False
    """whether no cell is empty and no integer or word occurs twice"""
    consecutive: bool = False
    """whether the values are consecutive integers, each once"""
    spaced: bool = False
    """whether cells have the same label with different spaces around it"""
    odd: str = ""
    """place and content of the first cell with a word among numbers; empty if there is none"""
    outliers: int = 0
    """number of empty cells that were set aside as outliers"""
    marks: tuple[tuple[str, int], ...] = ()
    """the cells that mark a missing value, except those without content, and their numbers"""
    dates: bool = False
    """whether all filled cells are dates"""
    first_dates: FirstDates = ()
    """of a column of dates: the orders of day, month and year that its cells allow, and on request the first date"""
    periods: bool = False
    """whether all filled cells are quarters or months"""
    negative: bool = False
    """whether a number is below 0"""
    shape: Literal["", "log", "normal-scores"] = ""
    """the transform that would make the numbers nearly symmetric; empty if they are"""
    counted: Literal["", "anscombe", "log1p"] = ""
    """the coding of the numbers if they look like counts, else empty"""

    @property
    def constant(self) -> bool:
        """Whether all filled cells are the same."""
        return self.distinct == 1

    @property
    def filled(self) -> int:
        """Number of cells that are not empty."""
        return self.numbers + self.words

    def with_words(self, words: Collection[str]) -> "ColumnProfile":
        """The profile if the marks `words`, in any capitals, are labels."""
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
"""the description of a column of which nothing is disclosed"""


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
    """columns of numbers that others determine: each with the formula, and the columns in it"""

    @classmethod
    def of_names(cls, names: Sequence[str], rows: int, left_out: tuple[str, ...] = ()) -> "Profile":
        """The profile of a table of which only names and the number of rows are disclosed."""
        return cls(rows, dict.fromkeys(names, UNDISCLOSED), left_out=left_out)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)


def profile_numbers(values: NDArray[np.floating[Any]]) -> ColumnProfile:
    """The profile of a column of numbers `[n_rows]`, NaN where a cell is empty."""
    known = values[~np.isnan(values)]
    whole = bool((known == np.rint(known)).all())
    few = len(np.unique(known[:SAMPLED_NUMBERS])) <= MAX_LEVELS
    distinct, counts = np.unique(known, return_counts=True) if few or whole else (known, np.ones(len(known), np.int64))
    many = len(distinct) > MAX_LEVELS
    return ColumnProfile(
        empty=len(values) - len(known),
        numbers=len(known),
        words=0,
        whole=whole,
        labels=_labels(distinct, whole=whole) if (whole and not many) or len(distinct) == 1 else None,
        distinct=min(len(distinct), MAX_LEVELS + 1),
        **_value_facts(distinct, counts, len(values), whole=whole),
        **_shape_facts(known[:: max(1, len(known) // SAMPLED_ROWS)], bool((distinct < 0).any())),
        counted=count_transform(distinct, counts) if whole else "",
    )


def profile_cells(
    cells: Cells,
    counts: NDArray[np.integer[Any]],
    *,
    labelled: bool = False,
    unlimited: bool = False,
    odd: str = "",
    report_dates: bool = False,
) -> ColumnProfile:
    """The profile of a column from its distinct `cells` and their `counts`.

    It has the labels if there are few, or their number is `unlimited`; in a column that is not declared as `labelled`
    only if they are not numbers with fractions. `odd` is the place of the first word among numbers.
    """
    filled, number = ~cells.empty, ~np.isnan(cells.numbers)
    whole = all(WHOLE.fullmatch(label) for label, is_number in zip(cells.labels, number, strict=True) if is_number)
    words, numbers = int(counts[filled & ~number].sum()), int(counts[number].sum())
    like = [
        not is_number and NUMBER_LIKE.fullmatch(label) is not None
        for label, is_number in zip(cells.labels, number, strict=True)
    ]
    labels = {label for label, is_filled in zip(cells.labels, filled, strict=True) if is_filled}
    distinct_words = {label for label, is_word in zip(cells.labels, filled & ~number, strict=True) if is_word}
    rows = int(counts.sum())
    recur = are_few_labels(len(labels), words + numbers) and (labelled or words > numbers)
    with_labels = unlimited or recur or len(labels) <= MAX_LEVELS
    with_labels = with_labels and (labelled or whole or words >= numbers or len(labels) == 1)
    dates = bool(words) and all(map(DATE.match, labels))
    facts = {"unique": len(labels) == rows == int(counts[filled].sum())} if words else _number_facts(cells, counts)
    return ColumnProfile(
        empty=int(counts[cells.empty].sum()),
        numbers=numbers,
        words=words,
        whole=whole,
        labels=canonical_order(labels) if with_labels else None,
        distinct=min(len(labels), MAX_LEVELS + 1),
        number_like=int(counts[np.array(like, dtype=np.bool_)].sum()),
        kinds_of_words=min(len(distinct_words), MAX_LEVELS + 1),
        spaced=len({re.sub(r"\s", "", text) for text in cells.texts}) < len(set(cells.texts)) and bool(words),
        odd=odd,
        marks=_marks_among(cells, counts),
        dates=dates,
        periods=bool(words) and all(map(PERIOD.fullmatch, labels)),
        first_dates=first_dates(labels, report=report_dates) if dates else (),
        **facts,
    )


def _marks_among(cells: Cells, counts: NDArray[np.integer[Any]]) -> tuple[tuple[str, int], ...]:
    """The cells that mark a missing value, except those without content, and their numbers."""
    marks = Counter[str]()
    for label, is_missing, count in zip(cells.labels, cells.empty, counts, strict=True):
        if is_missing and label and count:
            marks[label] += int(count)
    return tuple(sorted(marks.items()))


def _number_facts(cells: Cells, counts: NDArray[np.integer[Any]]) -> dict[str, Any]:
    """The facts on distinct `cells` with these `counts`, all of which are numbers or empty."""
    number = ~np.isnan(cells.numbers)
    order = np.argsort(cells.numbers[number], kind="stable")
    values, repeats = cells.numbers[number][order], counts[number][order]
    whole = all(WHOLE.fullmatch(label) for label, is_number in zip(cells.labels, number, strict=True) if is_number)
    facts = _value_facts(values, repeats, int(counts.sum()), whole=whole)
    facts |= _shape_facts(np.repeat(values, repeats), bool((values < 0).any()))
    return facts | {"counted": count_transform(values, repeats) if whole else ""}


def _labels(values: NDArray[np.floating[Any]], *, whole: bool) -> tuple[str, ...]:
    return canonical_order(str(int(value)) if whole else repr(float(value)) for value in values)


def _value_facts(values: NDArray[np.floating[Any]], counts: NDArray[Any], rows: int, *, whole: bool) -> dict[str, Any]:
    """Magnitude, zeros and signs of an identifier of distinct `values` with these `counts` in `rows` rows."""
    sizes, size_counts = np.abs(values[values != 0]), counts[values != 0]
    unique = bool(len(values) == rows and (counts == 1).all()) and whole
    facts: dict[str, Any] = {
        "zeros": int(counts[values == 0].sum()),
        "unique": unique,
        "consecutive": unique and bool(len(values)) and values.max() - values.min() == rows - 1,
    }
    if not len(sizes):
        return facts
    order = np.argsort(sizes, kind="stable")
    cumulative = np.cumsum(size_counts[order])
    middle = float(sizes[order][np.searchsorted(cumulative, cumulative[-1] / 2)])
    apart = _far_from_zero(float(sizes.min()), middle, whole=whole) and bool((values >= 0).all())
    return facts | {"size": round(math.log10(middle), 1), "apart": apart, "beyond": beyond(sizes)}


def _shape_facts(sample: NDArray[np.float64], negative: bool) -> dict[str, Any]:
    """The sign and the shape of numbers, from a `sample` of them."""
    (shape,) = suggested_transforms(sample[:, None])
    return {"negative": negative, "shape": NORMAL_SCORES if shape and negative else shape}


def _far_from_zero(least: float, middle: float, *, whole: bool) -> bool:
    """Whether the minimum of positive numbers, with this median, is so far from 0 that a 0 may mark a missing value."""
    return least >= MIN_DISTANCE_FROM_ZERO * middle and not (whole and least < MIN_INTEGER_FROM_ZERO)


def beyond(sizes: NDArray[np.floating[Any]]) -> bool:
    """Whether numbers with these positive absolute values are too large or too small to compute with."""
    largest = float(sizes.max(initial=0.0))
    return not SMALLEST <= largest <= LARGEST


SAMPLED_SIZES, SAMPLED_SHAPE = 64, 256
"""values of each batch from which the median magnitude and the shape are estimated"""


@dataclass
class StreamingProfile:
    """The profile of a column as far as it was read; it stores few distinct labels, unless they are `unlimited`."""

    labelled: bool = False
    """whether the column is declared as discrete"""
    unlimited: bool = False
    rows: int = 0
    numbers: int = 0
    words: int = 0
    whole: bool = True
    zeros: int = 0
    number_like: int = 0
    labels: set[str] | None = field(default_factory=set)
    named: set[str] | None = field(default_factory=set)
    texts: set[str] | None = field(default_factory=set)
    marks: Counter[str] = field(default_factory=Counter)
    dates: bool = True
    """whether all filled cells are dates"""
    report_dates: bool = False
    """whether to report the first date"""
    periods: bool = True
    """whether all filled cells are quarters or months"""
    first: dict[str, str] | None = None
    """the first date in each order that all cells allow"""
    rising: bool = True
    """whether every value is an integer greater than the previous one"""
    by_one: bool = True
    """whether every value is the previous one plus 1"""
    last: float = math.nan
    least: float = math.inf
    """minimum of the nonzero absolute values"""
    negative: bool = False
    sizes: list[NDArray[np.float64]] = field(default_factory=list)
    sample: list[NDArray[np.float64]] = field(default_factory=list)
    first_word: tuple[int, str] | None = None
    """row and content of the first word"""
    first_like: tuple[int, str] | None = None
    """row and content of the first word that looks like a number"""

    @property
    def most(self) -> float:
        """Maximum number of labels to store."""
        return math.inf if self.unlimited else MAX_RECURRING_LEVELS

    def add_numbers(self, values: NDArray[np.float64]) -> None:
        """Count `values` `[n_rows]`, NaN where a cell is empty."""
        known = values[~np.isnan(values)]
        self.rows += len(values)
        self.numbers += len(known)
        self.whole = self.whole and bool((known == np.rint(known)).all())
        if not len(known):
            return
        self._size(known)
        if self.labels is not None and len(np.unique(known[:SAMPLED_NUMBERS])) > self.most:
            self.labels = None
        if self.labels is not None:
            distinct = np.unique(known)
            labels = (str(int(value)) if value.is_integer() else repr(value) for value in map(float, distinct))
            self.labels = _union(self.labels, set(labels), self.most)

    def add_cells(self, cells: Cells, codes: NDArray[np.int64]) -> None:
        """Count the cells of rows: row i has `codes[i]`, an index of the distinct `cells`."""
        counts = np.bincount(codes, minlength=len(cells.labels))
        present, number = counts > 0, ~np.isnan(cells.numbers)
        word = present & ~number & ~cells.empty
        like = np.array([NUMBER_LIKE.fullmatch(label) is not None for label in cells.labels], dtype=np.bool_) & word
        self._place(cells, codes, word, like)
        self.rows += len(codes)
        self.numbers += int(counts[number].sum())
        self.words += int(counts[word].sum())
        self.number_like += int(counts[like].sum())
        self.whole = self.whole and all(WHOLE.fullmatch(cells.labels[k]) for k in np.flatnonzero(present & number))
        filled = {cells.labels[k] for k in np.flatnonzero(present & ~cells.empty)}
        self.labels = _union(self.labels, filled, self.most)
        self.dates = self.dates and all(map(DATE.match, filled))
        self.periods = self.periods and all(map(PERIOD.fullmatch, filled))
        if self.dates and filled:
            new = dict(first_dates(filled, report=self.report_dates))
            old = new if self.first is None else self.first
            self.first = {order: min(day, old[order]) for order, day in new.items() if order in old}
        for k in np.flatnonzero(present & cells.empty):
            self.marks.update({cells.labels[k]: int(counts[k])} if cells.labels[k] else {})
        self.named = _union(self.named, {cells.labels[k] for k in np.flatnonzero(word)}, MAX_LEVELS)
        texts = {text for text, is_present in zip(cells.texts, present, strict=True) if is_present}
        self.texts = _union(self.texts, texts, 2 * MAX_LEVELS)
        if (number & present).any():
            self._size(cells.numbers[codes][number[codes]])

    def profile(self, place: str, name: str) -> ColumnProfile:
        """The profile; `place` is the file, for the place of a word among numbers."""
        odd = self._odd(place, name)
        count = MAX_LEVELS + 1 if self.labels is None else min(len(self.labels), MAX_LEVELS + 1)
        recur = are_few_labels(len(self.labels or ()), self.words + self.numbers)
        recur = recur and (self.labelled or self.words > self.numbers)
        with_labels = self.unlimited or recur or count <= MAX_LEVELS
        with_labels = with_labels and (self.labelled or self.whole or self.words >= self.numbers or count == 1)
        texts = self.texts or set()
        sizes = np.concatenate(self.sizes) if self.sizes and not self.words else np.empty(0)
        middle = float(np.median(sizes)) if len(sizes) else math.nan
        all_rising = bool(self.numbers) and self.rising and self.numbers == self.rows
        facts: dict[str, Any] = {}
        if self.sample and not self.words:
            sample = np.concatenate(self.sample)
            facts = _shape_facts(sample, self.negative)
            if self.whole:
                facts["counted"] = count_transform(*np.unique(sample, return_counts=True))
        return ColumnProfile(
            empty=self.rows - self.numbers - self.words,
            numbers=self.numbers,
            words=self.words,
            whole=self.whole,
            labels=canonical_order(self.labels) if with_labels and self.labels is not None else None,
            distinct=count,
            number_like=self.number_like,
            kinds_of_words=MAX_LEVELS + 1 if self.named is None else len(self.named),
            size=round(math.log10(middle), 1) if len(sizes) else None,
            zeros=0 if self.words else self.zeros,
            apart=len(sizes) > 0 and _far_from_zero(self.least, middle, whole=self.whole) and not self.negative,
            unique=all_rising and not self.words,
            consecutive=all_rising and self.by_one and not self.words,
            marks=tuple(sorted(self.marks.items())),
            dates=bool(self.words) and self.dates,
            periods=bool(self.words) and self.periods,
            first_dates=tuple((self.first or {}).items()) if self.words and self.dates else (),
            spaced=len({re.sub(r"\s", "", text) for text in texts}) < len(texts) and bool(self.words),
            odd=odd,
            **facts,
        )

    def _size(self, known: NDArray[np.float64]) -> None:
        """Record the magnitudes of the numbers `known`, and whether they rise."""
        sizes = np.abs(known)
        sizes = sizes[sizes > 0]
        self.zeros += len(known) - len(sizes)
        self.negative = self.negative or bool((known < 0).any())
        self.sample.append(known[:: max(1, len(known) // SAMPLED_SHAPE)].copy())
        if len(sizes):
            self.least = min(self.least, float(sizes.min()))
            self.sizes.append(sizes[:: max(1, len(sizes) // SAMPLED_SIZES)].copy())
        if self.rising:
            steps = np.diff(known, prepend=known[0] - 1 if math.isnan(self.last) else self.last)
            self.rising, self.by_one = self.whole and bool((steps > 0).all()), self.by_one and bool((steps == 1).all())
            self.last = float(known[-1])

    def _place(self, cells: Cells, codes: NDArray[np.int64], word: NDArray[np.bool_], like: NDArray[np.bool_]) -> None:
        """Record the place of the first word."""
        if self.first_word is None and word.any():
            row = int(np.argmax(word[codes]))
            self.first_word = self.rows + row + 1, cells.texts[codes[row]]
        if self.first_like is None and like.any():
            row = int(np.argmax(like[codes]))
            self.first_like = self.rows + row + 1, cells.texts[codes[row]]

    def _odd(self, place: str, name: str) -> str:
        """Place and fault of the first word among numbers, or of the first number in another notation."""
        first = self.first_like or (self.first_word if self.numbers else None)
        if first is None or self.labelled:
            return ""
        return f"{place}: row {first[0]}, column {name!r}: {cell_fault(first[1])}"


def _union(one: set[str] | None, other: set[str], most: float) -> set[str] | None:
    """The union of two sets; None if it has more than `most` members."""
    if one is None or len(one | other) > most:
        return None
    return one | other
