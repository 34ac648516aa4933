"""Profiles: the public facts on a silo's table before a run, from which the coordinator infers the schema.

The profile of a column has the numbers of empty cells, numbers and words, the labels if there are few, the number of
values, and their order of magnitude. This module opens no files: `tally.py` makes the profile from batches of rows.

- `suggested_transforms`, `count_transform`: the transforms that the shape of a column of numbers suggests.
- `derived_columns`: columns that one or two other columns determine, such as a square, a logarithm, a sum or a ratio. A
  silo describes these columns by their formulas, which hold in all examined rows and disclose no single row.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray

from .dates import FirstDates
from .scan import (
    MAX_LEVELS,
    canonical_order,
    fold_spelling,
)

SMALLEST, LARGEST = 1e-70, 1e70
"""bounds of absolute values between which fourth powers neither underflow nor overflow"""
BEYOND_RANGE = (
    f"its numbers exceed {LARGEST:g}, or are all below {SMALLEST:g}, beyond the range of the computations: use "
    "another unit, or leave the column out with --ignore"
)
MIN_DISTANCE_FROM_ZERO = 0.25
"""minimum value that is far from zero, as a fraction of the median"""
MIN_INTEGER_FROM_ZERO = 5
"""minimum integer that is far from zero: in counts, the values 1 to 4 are as near to 0 as to each other"""


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
    """number of words that look like numbers in another notation, such as 1,5 or 12 %"""
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
    counted: Literal["", "anscombe", "log1p"] = ""
    """the coding of the numbers if they look like counts, else empty"""

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

    @classmethod
    def of_names(cls, names: Sequence[str], rows: int, left_out: tuple[str, ...] = ()) -> "Profile":
        """The profile of a table that discloses only its names and its number of rows."""
        return cls(rows, dict.fromkeys(names, UNDISCLOSED), left_out=left_out)

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)


def far_from_zero(least: float, middle: float, *, whole: bool) -> bool:
    """Whether the minimum of positive numbers, with this median, is so far from 0 that a 0 may mark a missing value."""
    return least >= MIN_DISTANCE_FROM_ZERO * middle and not (whole and least < MIN_INTEGER_FROM_ZERO)


def beyond(sizes: NDArray[np.floating[Any]]) -> bool:
    """Whether numbers with these positive absolute values are too large or too small to compute with."""
    largest = float(sizes.max(initial=0.0))
    return not SMALLEST <= largest <= LARGEST


QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
SAMPLED_ROWS = 4096
"""maximum number of evenly spaced rows from which the shape of a column is estimated"""
MIN_SHAPE_ROWS, MIN_SHAPE_VALUES = 50, 12
"""minimum numbers of rows and of distinct values for an estimate of the shape of a column"""
# Skewness and tail ratio are .46 and 4.2 for an exponential column, 0 and 5.9 for t with 3 degrees of freedom, .57 and
# 7.0 for a lognormal column with σ = 1, and 0 and 41 for a cubed Gaussian. Below these bounds, transforms cost more
# than they gain.
MAX_SKEWNESS, MAX_TAIL_RATIO = 0.5, 8.0
"""greatest absolute skewness by Kelly, (q₉₀ + q₁₀ − 2 q₅₀)/(q₉₀ − q₁₀), and greatest ratio of (q₉₉ − q₁) to (q₇₅ − q₂₅)
of a column that needs no transform"""
MAX_LOG_SKEWNESS, MAX_LOG_TAIL_RATIO = 0.2, 5.0
"""greatest skewness and tail ratio, as above, of logarithms that count as nearly symmetric"""


def suggested_transforms(sample: FloatArray) -> list[Literal["", "log", "normal-scores"]]:
    """For each column of `sample` `[n_rows, d]`, the transform that makes it nearly symmetric; "" if it needs none.

    A column needs none if it is nearly symmetric, or has too few rows or distinct values to judge this. The transform
    is the logarithm if all cells are positive and their logarithms are nearly symmetric. Otherwise it is normal scores.
    """
    if len(sample) < MIN_SHAPE_ROWS:
        return [""] * sample.shape[1]
    gaps = np.isnan(sample).any(axis=0)
    largest = np.abs(np.where(gaps, 0.0, sample)).max(axis=0)
    sample = sample / np.where((largest > LARGEST) | (largest == 0), max(float(largest.max()), 1.0), 1.0)
    q = np.quantile(np.where(gaps, 0.0, sample), QUANTILES, axis=0)
    for v in np.flatnonzero(gaps):
        known = sample[~np.isnan(sample[:, v]), v]
        q[:, v] = np.quantile(known, QUANTILES) if len(known) >= MIN_SHAPE_ROWS else np.arange(len(QUANTILES))
    found: list[Literal["", "log", "normal-scores"]] = [""] * sample.shape[1]
    for v in np.flatnonzero(~_even(q, MAX_SKEWNESS, MAX_TAIL_RATIO)):
        known = sample[~np.isnan(sample[:, v]), v]
        if len(np.unique(known)) >= MIN_SHAPE_VALUES:
            logarithms = bool((known > 0).all()) and _even(np.log(q[:, v]), MAX_LOG_SKEWNESS, MAX_LOG_TAIL_RATIO)
            found[v] = "log" if logarithms else "normal-scores"
    return found


def _even(q: FloatArray, most_skewness: float, most_tails: float) -> NDArray[np.bool_]:
    """Whether columns with the quantiles `q` `[7, d]` are nearly symmetric, without heavy tails, `[d]`."""
    skewed = np.abs(q[5] + q[1] - 2 * q[3]) > most_skewness * (q[5] - q[1])
    return np.asarray(~(skewed | (q[6] - q[0] > most_tails * (q[4] - q[2]))))


MIN_COUNT_SKEWNESS = 0.2
"""minimum skewness of counts, equal to the skewness of a Poisson variable of mean 25: more symmetric columns need no
root"""
MAX_ROOT_SKEWNESS = 1.0
"""maximum skewness of the roots of counts; if it is exceeded, logarithms are taken"""


def count_transform(distinct: FloatArray, counts: NDArray[np.integer[Any]]) -> Literal["", "anscombe", "log1p"]:
    """The coding of whole numbers that are counts, from their `distinct` values in order; "" if they are not counts.

    Counts start at 0 or 1 and are skewed to the right, like a Poisson variable.
    """
    if len(distinct) < 2 or not 0 <= distinct[0] <= 1 or _skewness(distinct, counts) < MIN_COUNT_SKEWNESS:
        return ""
    return "log1p" if _skewness(np.sqrt(distinct + 3 / 8), counts) > MAX_ROOT_SKEWNESS else "anscombe"


def _skewness(values: FloatArray, counts: NDArray[np.integer[Any]]) -> float:
    """The third standardised moment of `values` that occur `counts` times."""
    n = counts.sum()
    values = values / max(float(np.abs(values).max()), 1.0)  # counts: their cubes would overflow
    centred = values - (counts * values).sum() / n
    variance = float((counts * centred**2).sum() / n)
    return float((counts * centred**3).sum() / n) / variance**1.5 if variance > 0 else 0.0


SAMPLE_ROWS = 200
"""number of rows of each silo that are examined for derived columns"""
MIN_ROWS = 10
"""minimum number of complete rows for derived columns"""
MAX_COLUMNS = 60
"""maximum number of columns of numbers whose pairs are examined"""
TOLERANCE = 1e-3
"""maximum difference of a derived column, whose cells are rounded, from its formula, in its standard deviations"""
MAX_PROFILED_COLUMNS = 30
"""maximum number of columns of numbers whose pairs are examined for the description before every run"""


def derived_columns(names: list[str], rows: NDArray[Any], most_columns: int = MAX_COLUMNS) -> Iterator[tuple[str, ...]]:
    """Yield each column that others determine in the complete `rows` `[n_rows, d]`, with formula and source columns.

    A table with fewer than `MIN_ROWS` complete rows is not examined, nor a table with more than `most_columns` columns,
    which has too many pairs. A number beyond `LARGEST` is refused later, so a table with such a number is not examined.
    """
    X = rows[~np.isnan(rows).any(axis=1)].astype(np.float64)
    if len(X) < MIN_ROWS or len(names) > most_columns or (np.abs(X) > LARGEST).any():
        return
    scales = X.std(axis=0)
    explained: set[frozenset[str]] = set()
    for formula, sources, values in _formulas(names, X):
        if not (np.abs(X[0] - values[0]) <= TOLERANCE * scales).any():
            continue  # nearly all formulas fail in the first row
        fits = (np.abs(X - values[:, None]) <= TOLERANCE * scales).all(axis=0) & (scales > 0)
        for j in np.flatnonzero(fits):
            involved = frozenset({names[j], *sources})
            if names[j] not in sources and involved not in explained:
                explained.add(involved)
                yield names[j], formula, *sources


def _formulas(names: list[str], X: NDArray[np.float64]) -> Iterator[tuple[str, tuple[str, ...], NDArray[np.float64]]]:
    """Yield formulas of one or two columns, these columns, and the values `[n_rows]`, which are finite."""
    for j, name in enumerate(names):
        x = X[:, j]
        yield f"the square of {name}", (name,), x**2
        if (x > 0).all():
            yield f"the natural logarithm of {name}", (name,), np.log(x)
            yield f"the decimal logarithm of {name}", (name,), np.log10(x)
    for i, j in combinations(range(len(names)), 2):
        (one, other), (x, y) = (names[i], names[j]), (X[:, i], X[:, j])
        yield f"the sum of {one} and {other}", (one, other), x + y
        yield f"the product of {one} and {other}", (one, other), x * y
        yield f"the difference of {one} and {other}", (one, other), x - y
        yield f"the mean of {one} and {other}", (one, other), (x + y) / 2
        for (top, a), (bottom, b) in (((one, x), (other, y)), ((other, y), (one, x))):
            if (b != 0).all():
                yield f"the ratio of {top} to {bottom}", (top, bottom), a / b
