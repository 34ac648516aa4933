"""The profile of a column that is read in passes: what is kept of it does not grow with its rows."""

import math
import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .cells import NUMBER_LIKE, Cells
from .check import cell_fault
from .levels import MOST_LEVELS, WHOLE, in_order
from .profile import FAR, PEEKED, ColumnProfile

SIZES = 64
"""values of each batch from which it is told how large they are"""


@dataclass
class Tally:
    """What has been read of a column until now; more than `most` distinct labels are not kept."""

    labelled: bool = False
    """whether the column was said to be discrete"""
    most: float = MOST_LEVELS
    private: bool = False
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
        if self.private or not len(known):
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
        if self.private:
            return
        filled = {cells.labels[k] for k in np.flatnonzero(there & ~cells.empty)}
        self.labels = _joined(self.labels, filled, self.most)
        self.named = _joined(self.named, {cells.labels[k] for k in np.flatnonzero(word)}, MOST_LEVELS)
        texts = {text for text, here in zip(cells.texts, there, strict=True) if here}
        self.texts = _joined(self.texts, texts, 2 * MOST_LEVELS)
        if (number & there).any():
            self._size(cells.numbers[codes][number[codes]])

    def profile(self, place: str, name: str) -> ColumnProfile:
        """Return the profile; `place` is the file that a word among numbers is in."""
        if self.private:
            return ColumnProfile(0, self.numbers, self.words, self.whole)
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
            labels=in_order(self.labels) if told and self.labels is not None else None,
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
        """Return where the first word stands among numbers, or the first number that is not written as one."""
        found = self.first_like or (self.first_word if self.numbers else None)
        if found is None or self.labelled:
            return ""
        return f"{place}: row {found[0]}, column {name!r}: {cell_fault(found[1])}"


def _joined(one: set[str] | None, other: set[str], most: float) -> set[str] | None:
    """Return the union of two sets; None, and nothing is kept, if it has more than `most` members."""
    if one is None or len(one | other) > most:
        return None
    return one | other
