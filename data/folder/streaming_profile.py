"""The profile of a table that is read in batches, in memory that does not grow with its rows."""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dates import PERIOD, first_dates, looks_like_date
from .profile import SAMPLED_NUMBERS, ColumnProfile, count_transform, far_from_zero, shape_facts
from .scan import (
    MAX_LEVELS,
    MAX_RECURRING_LEVELS,
    NUMBER_LIKE,
    WHOLE,
    Cells,
    are_few_labels,
    canonical_order,
    cell_fault,
)

SAMPLED_SIZES, SAMPLED_SHAPE = 64, 256
"""numbers of values of each batch from which the median magnitude and the shape of a column are estimated"""


@dataclass
class StreamingProfile:
    """The profile of a column over the rows that were read so far; stores few labels unless `unlimited` is set."""

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
    """the distinct labels, also of numbers; None if there are more than `most`"""
    named: set[str] | None = field(default_factory=set)
    """the distinct words; None if there are more than `MAX_LEVELS`"""
    texts: set[str] | None = field(default_factory=set)
    """the distinct cells as written; None if there are more than 2 `MAX_LEVELS`"""
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
    earliest: float = math.nan
    """the first number"""
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
        dates, periods = all(map(looks_like_date, filled)), all(map(PERIOD.fullmatch, filled))
        found = dict(first_dates(filled, report=self.report_dates)) if self.dates and dates and filled else None
        self._add_dates(dates, periods, found)
        for k in np.flatnonzero(present & cells.empty):
            self.marks.update({cells.labels[k]: int(counts[k])} if cells.labels[k] else {})
        self.named = _union(self.named, {cells.labels[k] for k in np.flatnonzero(word)}, MAX_LEVELS)
        texts = {text for text, is_present in zip(cells.texts, present, strict=True) if is_present}
        self.texts = _union(self.texts, texts, 2 * MAX_LEVELS)
        if (number & present).any():
            self._size(cells.numbers[codes][number[codes]])

    def add_profile(self, other: "StreamingProfile") -> None:
        """Count the rows of `other`, which come after the rows of this profile."""
        self.whole = self.whole and other.whole
        if self.numbers and other.numbers:
            step = other.earliest - self.last
            self.rising, self.by_one = self.rising and step > 0, self.by_one and step == 1
        self.rising, self.by_one = self.rising and other.rising, self.by_one and other.by_one
        self.earliest = other.earliest if math.isnan(self.earliest) else self.earliest
        self.last = other.last if other.numbers else self.last
        for field_name in ("first_word", "first_like"):
            found = getattr(other, field_name)
            if getattr(self, field_name) is None and found is not None:
                setattr(self, field_name, (self.rows + found[0], found[1]))
        for field_name in ("rows", "numbers", "words", "zeros", "number_like"):
            setattr(self, field_name, getattr(self, field_name) + getattr(other, field_name))
        for field_name, most in (("labels", self.most), ("named", MAX_LEVELS), ("texts", 2 * MAX_LEVELS)):
            setattr(self, field_name, _union_of(getattr(self, field_name), getattr(other, field_name), most))
        self.marks.update(other.marks)
        self._add_dates(other.dates, other.periods, other.first)
        self.least, self.negative = min(self.least, other.least), self.negative or other.negative
        self.sizes += other.sizes
        self.sample += other.sample

    def _add_dates(self, dates: bool, periods: bool, first: dict[str, str] | None) -> None:
        """Count cells that are all `dates`, all `periods`, or neither; `first` is their first date in each order."""
        self.dates, self.periods = self.dates and dates, self.periods and periods
        if self.dates and first is not None:
            old = first if self.first is None else self.first
            self.first = {order: min(day, old[order]) for order, day in first.items() if order in old}

    def profile(self, place: str, name: str) -> ColumnProfile:
        """The profile of the column `name`; `place` is the file, which the place of a word among numbers names."""
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
            facts = shape_facts(sample, self.negative)
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
            apart=len(sizes) > 0 and far_from_zero(self.least, middle, whole=self.whole) and not self.negative,
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
        """Record the magnitudes and the shape of the numbers `known`, and whether they rise."""
        sizes = np.abs(known)
        sizes = sizes[sizes > 0]
        self.zeros += len(known) - len(sizes)
        self.negative = self.negative or bool((known < 0).any())
        self.sample.append(known[:: max(1, len(known) // SAMPLED_SHAPE)].copy())
        if len(sizes):
            self.least = min(self.least, float(sizes.min()))
            self.sizes.append(sizes[:: max(1, len(sizes) // SAMPLED_SIZES)].copy())
        if math.isnan(self.earliest):
            self.earliest = float(known[0])
        if self.rising:
            steps = np.diff(known, prepend=known[0] - 1 if math.isnan(self.last) else self.last)
            self.rising, self.by_one = self.whole and bool((steps > 0).all()), self.by_one and bool((steps == 1).all())
            self.last = float(known[-1])

    def _place(self, cells: Cells, codes: NDArray[np.int64], word: NDArray[np.bool_], like: NDArray[np.bool_]) -> None:
        """Record row and content of the first word, and of the first word that looks like a number."""
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


def _union_of(one: set[str] | None, other: set[str] | None, most: float) -> set[str] | None:
    return None if other is None else _union(one, other, most)


def _union(one: set[str] | None, other: set[str], most: float) -> set[str] | None:
    """The union of two sets; None if it has more than `most` members."""
    if one is None or len(one | other) > most:
        return None
    return one | other
