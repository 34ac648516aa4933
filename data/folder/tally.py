"""The tally of a silo's rows, from which its profile follows, whether the rows are in memory or are read in passes.

A table in memory is one batch, and a table that is read in passes is many. The profile does not depend on the batches:
a `ColumnTally` keeps counts, extremes, a histogram of magnitudes, and a sample of rows that is chosen by their numbers.
Two tallies of consecutive rows can be merged.

`TableTally` also records the first fault of each kind, so that the rows have the same error in any batches.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.statistics.transforms import below_domain, domain_fault, has_far_numbers

from .about import Declared
from .batches import PlaceOf
from .cells import (
    DECLARE,
    MAX_CODES,
    MAX_LEVELS,
    MAX_RECURRING_LEVELS,
    WHOLE,
    Cells,
    are_few_labels,
    canonical_order,
    cell_fault,
    is_unread_number,
    label_faults,
    level_faults,
    quantity_of,
)
from .dates import PERIOD, date_faults, days_since, first_dates, looks_like_date
from .profile import LARGEST, ColumnProfile, Profile, beyond

ID = re.compile(
    r"(.*[ _.-])?(ids?|uuid|guid|index|idx|key|nr|no|number|rownames?|row|mrn)|[a-z]{1,3}id|patid|unnamed: ?\d+",
    re.IGNORECASE,
)
"""pattern of the names of identifiers"""
PADDED = re.compile(r"[+-]?0\d+", re.ASCII)
MAX_SEEN = 100_000
"""maximum number of rows among which a value that occurs twice is found whatever the order of the rows"""
SAMPLED_NUMBERS = 2000
"""number of cells to examine first; if these have too many distinct values, the column need not be sorted"""

Values = tuple[Cells | None, NDArray[Any]]
"""the rows of a column: distinct cells and the index of the cell in each row, or None and the numbers in the rows"""


@dataclass
class ColumnTally:
    """The tally of a column over the rows that were counted so far."""

    kind: str | None = None
    """the kind that is declared for the column"""
    levels: Sequence[str] | None = None
    """the levels that are declared for the column"""
    labelled: bool = False
    """whether the type of the column in its source is that of labels"""
    in_discrete_data: bool = False
    """whether the column is discrete because all data are, so that fractions are a fault"""
    unlimited: bool = False
    """whether to keep any number of labels"""
    values: set[Any] | None = None
    """the distinct values, for a column that is named like an identifier; None for other columns, and if they are more
    than `MAX_SEEN`"""
    padded: bool = False
    """whether a whole number has leading zeros"""
    report_dates: bool = False
    """whether to report the first date"""
    rows: int = 0
    numbers: int = 0
    words: int = 0
    zeros: int = 0
    number_like: int = 0
    whole: bool = True
    labels: set[str] | None = field(default_factory=set)
    """the distinct labels, also of numbers; None if they are too many"""
    named: set[str] | None = field(default_factory=set)
    """the distinct words; None if there are more than `MAX_LEVELS`"""
    texts: set[str] | None = field(default_factory=set)
    """the distinct cells as written; None if there are more than 2 `MAX_RECURRING_LEVELS`"""
    marks: Counter[str] = field(default_factory=Counter)
    outliers: int = 0
    """the number of cells that were emptied because they are far from the others"""
    units: dict[str, str] | None = field(default_factory=dict)
    """the units of the words, by their spelling without capitals; None if a word is not a number with other marks"""
    with_unit: int = 0
    """the number of words that have a unit"""
    limits: int = 0
    """the number of words that are limits of numbers"""
    dates: bool = True
    """whether all filled cells are dates"""
    periods: bool = True
    """whether all filled cells are quarters or months"""
    first_dates: dict[str, str] | None = None
    """the first date in each order that all cells allow"""
    seen: set[Any] | None = field(default_factory=set)
    """the values of all rows; None if one occurs twice, or if there are more than `MAX_SEEN`"""
    rising: bool = True
    """whether each value is greater than the one before it"""
    ends: tuple[Any, Any] | None = None
    """the first and the last value"""
    low: float = math.inf
    high: float = -math.inf
    least: float = math.inf
    """minimum of the nonzero absolute values"""
    magnitudes: Counter[int] = field(default_factory=Counter)
    """the numbers of nonzero values by 10 log10 of the absolute value, rounded"""
    stride: int = 1
    """the power of 2 that divides the numbers of the sampled rows"""
    sample: tuple[NDArray[np.int64], NDArray[np.float64]] = field(
        default_factory=lambda: (np.empty(0, np.int64), np.empty(0))
    )
    """the numbers of the sampled rows, and their values, which are at most `SAMPLED_ROWS`"""
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    """by kind of fault, the row and the message of the first cell that has it; also the first "word", and the
    first "plain word", which is not a number with other marks"""

    def check_cells(self, cells: Cells, codes: NDArray[np.int64], start: int) -> None:
        """Record the first faults of the rows from `start` on: row i has `codes[i]`, an index of the `cells`."""
        filled = [k for k, is_empty in enumerate(cells.empty.tolist()) if not is_empty]
        faults: dict[str, str] = {}
        if self.kind == "continuous":
            faults = {cells.texts[k]: fault for k in filled if (fault := cell_fault(cells.texts[k]))}
        elif self.levels is not None:
            faults = level_faults([cells.texts[k] for k in filled], self.levels)
        elif self.labels is not None and len(filled) <= self._most_labels:
            self.check("label", cells, codes, start, label_faults([cells.texts[k] for k in filled]))
        self.check("cell", cells, codes, start, faults)
        if self.in_discrete_data and "fraction" not in self.first:
            numbers = np.flatnonzero(~np.isnan(cells.numbers)).tolist()
            wrong = [cells.texts[k] for k in numbers if not WHOLE.fullmatch(cells.labels[k])]
            fault = f"is a fraction: a continuous column in discrete data; {DECLARE}"
            self.check("fraction", cells, codes, start, {text: f"{quoted(text)} {fault}" for text in wrong})

    def check(self, kind: str, cells: Cells, codes: NDArray[np.int64], start: int, faults: Mapping[str, str]) -> None:
        """Record the first row from `start` on with a cell among the `faults`."""
        if faults and kind not in self.first:
            wrong = np.array([text in faults for text in cells.texts], dtype=np.bool_)[codes]
            if wrong.any():
                row = int(np.argmax(wrong))
                self.first[kind] = start + row, faults[cells.texts[codes[row]]]

    @property
    def fault(self) -> tuple[int, str] | None:
        """Row and message of the first cell that does not fit the declaration; None if there is none."""
        found = [self.first[kind] for kind in ("cell",) if kind in self.first]
        if "label" in self.first and are_few_labels(self._distinct, self.words + self.numbers):
            found.append(self.first["label"])
        if "fraction" in self.first and not self.words:
            found.append(self.first["fraction"])
        return min(found, default=None)

    def count_numbers(self, values: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Count the `values` `[n]` of the `rows` with these numbers; NaN is an empty cell."""
        empty = np.isnan(values)
        gaps = bool(empty.any())
        known, known_rows = (values[~empty], rows[~empty]) if gaps else (values, rows)
        self.rows += len(values)
        self.numbers += len(known)
        if not len(known):
            return
        self.dates = self.periods = False
        self.whole = self.whole and bool((known == np.rint(known)).all())
        if self.labels is not None and len(np.unique(known[:SAMPLED_NUMBERS])) > self._most_labels:
            self.labels = None
        if self.labels is not None:
            distinct = map(float, np.unique(known))
            labels = {str(int(value)) if value.is_integer() else repr(value) for value in distinct}
            self.labels = _union(self.labels, labels, self._most_labels)
        self._count_values(known, known_rows)
        self._collect(known.tolist)
        if self.whole and not gaps:
            self._order((float(known[0]), float(known[-1])), bool((known[1:] > known[:-1]).all()))
            self._see(known.tolist() if self.rows <= MAX_SEEN and self.seen is not None else None)
        else:
            self.seen, self.rising = None, False

    def count_cells(self, cells: Cells, codes: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Count the cells of the `rows` with these numbers: row i has the cell `codes[i]` of the distinct `cells`."""
        counts = np.bincount(codes, minlength=len(cells.labels))
        present, number = counts > 0, ~np.isnan(cells.numbers)
        words = np.flatnonzero(present & ~number & ~cells.empty).tolist()
        numbers = np.flatnonzero(present & number).tolist()
        named = {cells.labels[k] for k in words}
        filled = named | {cells.labels[k] for k in numbers}
        self.rows += len(codes)
        self.numbers += int(counts[numbers].sum())
        self.words += int(counts[words].sum())
        plain = self._count_quantities([(k, cells.labels[k], int(counts[k])) for k in words])
        like = {*words}.difference(plain).union(k for k in plain if is_unread_number(cells.labels[k]))
        self.number_like += int(counts[[*like]].sum())
        for kind, wrong in (("plain word", plain), ("word", words)):
            if wrong and kind not in self.first:
                row = int(np.argmax(np.isin(codes, wrong)))
                self.first[kind] = int(rows[row]), cell_fault(cells.texts[codes[row]]) or ""
        self.whole = self.whole and all(WHOLE.fullmatch(cells.labels[k]) for k in numbers)
        self.padded = self.padded or any(PADDED.fullmatch(cells.labels[k]) for k in numbers)
        self._collect(lambda: filled)
        self.labels = _union(self.labels, filled, self._most_labels)
        self.named = _union(self.named, named, MAX_LEVELS)
        present_texts = {text for text, is_present in zip(cells.texts, present, strict=True) if is_present}
        self.texts = _union(self.texts, present_texts, 2 * MAX_RECURRING_LEVELS)
        for k in np.flatnonzero(present & cells.empty).tolist():
            if cells.labels[k]:
                self.marks[cells.labels[k]] += int(counts[k])
        dates = self.dates and not numbers and all(map(looks_like_date, named))
        found = dict(first_dates(named, report=self.report_dates)) if dates and named else None
        self._add_dates(dates, not numbers and all(map(PERIOD.fullmatch, named)), found)
        values = cells.numbers[codes]
        is_number = number[codes]
        if numbers:
            self._count_values(values[is_number], rows[is_number])
        if len(filled) < len(codes):
            self.seen, self.rising = None, False
        elif len(codes) and (self.rising or self.seen is not None):
            in_rows = [cells.labels[code] for code in codes.tolist()] if words else values.tolist()
            self._order((in_rows[0], in_rows[-1]), all(one < other for one, other in pairwise(in_rows)))
            self._see([cells.labels[code] for code in codes.tolist()] if self.rows <= MAX_SEEN else None)

    def merge(self, other: "ColumnTally") -> None:
        """Count the rows of `other`, which come after the rows of this tally."""
        for name in ("rows", "numbers", "words", "zeros", "number_like", "outliers", "with_unit", "limits"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.whole, self.padded = self.whole and other.whole, self.padded or other.padded
        self.values = _union(self.values, other.values, MAX_SEEN)
        limits = {"labels": self._most_labels, "named": MAX_LEVELS, "texts": 2 * MAX_RECURRING_LEVELS}
        for name, most in limits.items():
            setattr(self, name, _union(getattr(self, name), getattr(other, name), most))
        self.marks.update(other.marks)
        self._add_units(other.units)
        self._add_dates(other.dates, other.periods, other.first_dates)
        if other.ends is not None:
            self._order(other.ends, other.rising)
        elif other.rows:
            self.rising = other.rising and self.rising
        self._see(other.seen)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.least = min(self.least, other.least)
        self.magnitudes.update(other.magnitudes)
        self._sample(*other.sample, other.stride)
        self.first = other.first | self.first

    def profile(self, odd: str = "") -> ColumnProfile:
        """The profile of the column; `odd` is the place and content of the first word among numbers."""
        count, filled = self._distinct, self.words + self.numbers
        labelled = self.kind == "discrete"
        recur = are_few_labels(count, filled) and (labelled or self.words > self.numbers)
        with_labels = self.unlimited or recur or count <= MAX_LEVELS
        with_labels = with_labels and (labelled or self.whole or self.words >= self.numbers or count == 1)
        unique = filled == self.rows and (self.rising if self.rows > MAX_SEEN else self.seen is not None)
        unique = unique and (bool(self.words) or self.whole)
        profile = ColumnProfile(
            empty=self.rows - filled,
            numbers=self.numbers,
            words=self.words,
            whole=self.whole,
            labels=canonical_order(self._labels) if with_labels and self.labels is not None else None,
            distinct=min(count, MAX_LEVELS + 1),
            unique=unique,
            outliers=self.outliers,
            marks=tuple(sorted(self.marks.items())),
            labelled=self.labelled,
            recurrence=round(filled / len(self.values), 1) if self.values else 0.0,
            padded=self.padded,
        )
        if self.words:
            texts = self.texts or set()
            return replace(
                profile,
                number_like=self.number_like - (self.with_unit if self.unit is None and count <= MAX_CODES else 0),
                kinds_of_words=MAX_LEVELS + 1 if self.named is None else len(self.named),
                limits=self.limits,
                spaced=len({re.sub(r"\s", "", text) for text in texts}) < len(texts),
                odd=odd,
                dates=self.dates,
                periods=self.periods,
                first_dates=tuple((self.first_dates or {}).items()) if self.dates else (),
            )
        size, negative = self._size, self.low < 0
        (shape,) = suggested_transforms(self.sample[1][:, None])
        distinct = np.unique(self.sample[1], return_counts=True)
        return replace(
            profile,
            consecutive=unique and bool(self.numbers) and self.high - self.low == self.rows - 1,
            size=size,
            zeros=self.zeros,
            apart=size is not None
            and not negative
            and far_from_zero(self.least, 10 ** min(size, 308), whole=self.whole),
            beyond=size is not None and beyond(np.abs([self.low, self.high])),
            negative=negative,
            shape="normal-scores" if shape and negative else shape,
            far=bool(has_far_numbers(self.sample[1][:, None], *np.array([[self.low], [self.high]]))[0]),
            counted=count_transform(*distinct) if self.whole else "",
        )

    def _collect(self, values: Callable[[], Collection[Any]]) -> None:
        """Add `values` to the distinct values, if these are counted."""
        if self.values is not None:
            self.values = _union(self.values, set(map(str, values())), MAX_SEEN)

    @property
    def _most_labels(self) -> float:
        return math.inf if self.unlimited else MAX_RECURRING_LEVELS

    @property
    def _labels(self) -> Collection[str]:
        """The labels; fractions in a column of numbers have one spelling, as the column may be read as numbers."""
        if self.words or self.kind == "discrete" or self.labels is None:
            return self.labels or ()
        return {label if WHOLE.fullmatch(label) else repr(float(label)) for label in self.labels}

    @property
    def _distinct(self) -> int:
        """The number of distinct values, or a greater number than that of levels if there are too many values."""
        return MAX_RECURRING_LEVELS + 1 if self.labels is None else len(self._labels)

    @property
    def _size(self) -> float | None:
        """The lower median of the rounded magnitudes, which is the rounded magnitude of the lower median."""
        if not self.magnitudes:
            return None
        sizes = sorted(self.magnitudes)
        cumulative = np.cumsum([self.magnitudes[size] for size in sizes])
        return sizes[int(np.searchsorted(cumulative, cumulative[-1] / 2))] / 10

    def _count_values(self, known: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        """Count the magnitudes of the numbers `known`, and sample them by their `rows`."""
        low, high = float(known.min()), float(known.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        sizes = np.abs(known)
        if low <= 0 <= high:
            sizes = sizes[sizes > 0]
            self.zeros += len(known) - len(sizes)
        if math.isinf(low) or math.isinf(high):
            sizes = sizes[np.isfinite(sizes)]
        if len(sizes):
            self.least = min(self.least, float(sizes.min()))
            tenths = np.rint(10 * np.log10(sizes)).astype(np.int64)
            lowest = int(tenths.min())
            counts = np.bincount(tenths - lowest)
            self.magnitudes.update({lowest + k: int(counts[k]) for k in np.flatnonzero(counts).tolist()})
        if rows[-1] - rows[0] == len(rows) - 1:
            chosen = slice(-int(rows[0]) % self.stride, None, self.stride)
            self._sample(rows[chosen], known[chosen], self.stride)
        else:
            self._sample(rows, known, self.stride)

    def _sample(self, rows: NDArray[np.int64], values: NDArray[np.float64], stride: int) -> None:
        """Add the `values` of the `rows`, which include all multiples of `stride`, and thin the sample."""
        rows, values = np.concatenate([self.sample[0], rows]), np.concatenate([self.sample[1], values])
        wanted = max(self.stride, stride)
        while True:
            kept = rows & (wanted - 1) == 0
            rows, values = rows[kept], values[kept]
            if len(rows) <= SAMPLED_ROWS:
                break
            wanted *= 2
        self.sample, self.stride = (rows, values), wanted

    def _count_quantities(self, words: Sequence[tuple[int, str, int]]) -> list[int]:
        """Count the `words`, each with its index and its number of rows, that are numbers with other marks.

        Returns the indices of the other words.
        """
        found = [(k, quantity_of(label), count) for k, label, count in words]
        known = [(one, count) for _, one, count in found if one is not None]
        self.limits += sum(count for one, count in known if one.limit)
        self.with_unit += sum(count for one, count in known if one.unit)
        units = {one.unit.casefold(): one.unit for one, _ in reversed(known) if one.unit}
        self._add_units(units if len(known) == len(words) else None)
        return [k for k, one, _ in found if one is None]

    def _add_units(self, units: Mapping[str, str] | None) -> None:
        """Add the `units` of some words, None if not all of them are numbers."""
        self.units = None if self.units is None or units is None else {**units, **self.units}

    @property
    def unit(self) -> str | None:
        """The unit of a column of numbers with other marks; "" without a unit, and None for any other column.

        All words must be such numbers, with at most one unit, which most cells have. Limits are numbers only beside
        more other numbers, as the ages <18, 18-65 and >65 are labels.
        """
        filled, one_of_many = self.words + self.numbers, self._distinct > MAX_CODES
        if not self.words or self.units is None or len(self.units) > 1 or self.levels is not None or self.labelled:
            return None
        if self.kind == "discrete" or (self.units and 2 * self.with_unit < filled):
            return None
        if self.limits and not (2 * self.limits < filled and one_of_many):
            return None
        return next(iter(self.units.values()), "")

    def _add_dates(self, dates: bool, periods: bool, first: dict[str, str] | None) -> None:
        """Count cells that are all `dates`, all `periods`, or neither; `first` is their first date in each order."""
        self.dates, self.periods = self.dates and dates, self.periods and periods
        if self.dates and first is not None:
            old = first if self.first_dates is None else self.first_dates
            self.first_dates = {order: min(day, old[order]) for order, day in first.items() if order in old}

    def _order(self, ends: tuple[Any, Any], rising: bool) -> None:
        """Add values with these `ends`, which are `rising` or not, after the last value."""
        before = None if self.ends is None else self.ends[1]
        comparable = before is None or (type(before) is type(ends[0]) and before < ends[0])
        self.rising = self.rising and rising and comparable
        self.ends = (ends[0] if self.ends is None else self.ends[0], ends[1])

    def _see(self, values: Collection[Any] | None) -> None:
        """Add `values`, None if one of them occurs twice or if they are too many."""
        if self.seen is None or values is None or len(self.seen) + len(values) > MAX_SEEN:
            self.seen = None
            return
        expected = len(self.seen) + len(values)
        self.seen |= set(values)
        if len(self.seen) < expected:
            self.seen = None


FAULTS = ("infinite", "date", "cell", "domain", "empty")
"""the kinds of faults; a fault of an earlier kind is reported before all faults of later kinds"""


class TableTally:
    """The tallies of the columns of a table."""

    def __init__(
        self, names: Sequence[str], declared: Declared, start: int = 0, labelled: Collection[str] = ()
    ) -> None:
        """A tally of the columns `names`; `start` is the number of rows before the first batch.

        The columns `labelled` have labels by their type in the source, if nothing else is declared.
        """
        self.declared, self.start, self.rows = declared, start, 0
        self.conditions: Counter[str] = Counter()
        self.columns: dict[str, ColumnTally] = {}
        for name in names:
            kind, levels = declared.kind_of(name), declared.levels.get(name)
            self.columns[name] = ColumnTally(
                "discrete" if kind is None and name in labelled else kind,
                levels,
                kind is None and name in labelled,
                in_discrete_data=kind == "discrete" and levels is None and name not in declared.columns,
                unlimited=kind == "discrete" and (name in declared.levels or name in declared.columns),
                report_dates=declared.reading.dates == "days",
                values=set() if ID.fullmatch(name) else None,
            )

    def check(self, batch: Mapping[str, Values]) -> dict[str, Values]:
        """Record the first faults of a `batch`, and return it with days in place of the dates to read as days.

        If empty cells are refused, an empty cell is a fault.
        """
        declared, checked = self.declared, dict(batch)
        for name, (cells, codes) in batch.items():
            tally, origin = self.columns[name], declared.fixed_dates.get(name)
            if cells is not None and origin is not None:
                tally.check("date", cells, codes, self.start, date_faults(cells.texts, cells.empty.tolist(), origin))
                days = np.where(cells.empty, np.nan, days_since(cells.texts, origin))
                checked[name] = None, days[codes]
            elif cells is not None:
                tally.check_cells(cells, codes, self.start)
            elif np.isinf(codes).any():
                row = int(np.argmax(np.isinf(codes)))
                tally.first.setdefault("infinite", (self.start + row, f"{codes[row]} is not finite"))
            requested = declared.transform_of(name)
            if requested is not None and tally.kind != "discrete":
                values = _numbers(checked[name])
                row_below = below_domain(values, requested)
                if row_below is not None:
                    fault = domain_fault("", values[row_below], requested).removeprefix(": ")
                    tally.first.setdefault("domain", (self.start + row_below, fault))
            if declared.reading.missing == "refuse" and name in declared.complete:
                empty = _empty(checked[name])
                if empty.any():
                    fault = "the cell is empty, and --missing refuse allows no empty cells"
                    tally.first.setdefault("empty", (self.start + int(np.argmax(empty)), fault))
        self._check_times(checked)
        return checked

    def _check_times(self, batch: Mapping[str, Values]) -> None:
        """Record the first time of each survival outcome that is not above 0."""
        for name in self.declared.times & batch.keys():
            values = _numbers(batch[name])
            wrong = np.flatnonzero(values <= 0)
            if len(wrong):
                fault = f"{values[wrong[0]]:g} is not above 0, as the times of a survival outcome must be"
                self.columns[name].first.setdefault("domain", (self.start + int(wrong[0]), fault))

    def count(self, batch: Mapping[str, Values], conditions: Sequence[str] = ()) -> None:
        """Count the rows of a `batch`, or only its complete rows, as declared, and their `conditions`, if any."""
        length = len(next(iter(batch.values()))[1]) if batch else 0
        rows = np.arange(self.start, self.start + length)
        self.start += length
        required = self.declared.complete if self.declared.reading.missing == "complete-rows" else ()
        if required:
            kept = ~np.any([_empty(batch[name]) for name in required], axis=0)
            rows = rows[kept]
            batch = {name: (cells, codes[kept]) for name, (cells, codes) in batch.items()}
            conditions = [name for name, is_kept in zip(conditions, kept.tolist(), strict=False) if is_kept]
        self.rows += len(rows)
        self.conditions.update(conditions)
        for name, (cells, codes) in batch.items():
            if cells is None:
                self.columns[name].count_numbers(codes, rows)
            else:
                self.columns[name].count_cells(cells, codes, rows)

    @property
    def units(self) -> dict[str, str]:
        """The unit of each column of numbers with other marks."""
        return {name: column.unit for name, column in self.columns.items() if column.unit is not None}

    @property
    def limits(self) -> dict[str, int]:
        """For each column, the number of cells that are limits of numbers."""
        return {name: column.limits for name, column in self.columns.items()}

    def merge(self, other: "TableTally") -> None:
        """Count the rows of `other`, which come after the rows of this tally."""
        self.rows += other.rows
        self.conditions.update(other.conditions)
        for name, column in self.columns.items():
            column.merge(other.columns[name])

    def raise_fault(self, place_of: PlaceOf) -> None:
        """Raise `BadInput` for the first fault, row by row, among the faults of the first of the `FAULTS`."""
        for kind in FAULTS:
            found: list[tuple[int, int, str, str]] = []
            for number, (name, column) in enumerate(self.columns.items()):
                fault = column.fault if kind == "cell" else column.first.get(kind)
                if fault is not None:
                    found.append((fault[0], number, name, fault[1]))
            if found:
                by_column = kind == "infinite"
                row, _, name, message = min(found, key=lambda one: one[1] if by_column else one[:2])
                raise BadInput(f"{place_of(row)}, column {quoted(name)}: {message}")

    def profile(self, place_of: PlaceOf, notes: tuple[str, ...] = (), left_out: tuple[str, ...] = ()) -> Profile:
        """The profile of the table. Raises `BadInput` for a cell that is not as declared."""
        self.raise_fault(place_of)
        columns = {}
        for name, column in self.columns.items():
            first = column.first.get("plain word", column.first.get("word"))
            first = first if column.numbers or column.number_like else None
            odd = column.kind is None and bool(column.words) and first is not None
            columns[name] = column.profile(
                f"{place_of(first[0])}, column {quoted(name)}: {first[1]}" if odd and first else ""
            )
        if self.declared.complete:
            return Profile(self.rows, columns, notes, left_out)
        few = [name for name, one in columns.items() if one.whole and not one.words and 1 < one.distinct <= MAX_CODES]
        gains = dependence(self._sampled(few[:MAX_COLUMNS]))
        return Profile(self.rows, columns, notes, left_out, self._derived(), dependence=gains)

    def _derived(self) -> tuple[tuple[str, ...], ...]:
        """The columns of numbers that other columns determine in the rows that all columns have in their samples."""
        names = [name for name, one in self.columns.items() if one.numbers and not one.words]
        if len(names) > MAX_PROFILED_COLUMNS:
            return ()
        rows = self._sampled(names)
        return tuple(derived_columns(names, rows[:: max(1, len(rows) // SAMPLE_ROWS)], MAX_PROFILED_COLUMNS))

    def _sampled(self, names: Sequence[str]) -> NDArray[Any]:
        """The rows that the columns `names` all have in their samples."""
        samples = [self.columns[name].sample for name in names]
        if not samples:
            return np.empty((0, 0))
        stride = max(self.columns[name].stride for name in names)
        common = samples[0][0][samples[0][0] % stride == 0]
        for rows, _ in samples[1:]:
            common = common[np.isin(common, rows, assume_unique=True)]
        return np.column_stack([values[np.searchsorted(rows, common)] for rows, values in samples])


def _numbers(values: Values) -> NDArray[Any]:
    cells, codes = values
    return codes if cells is None else cells.numbers[codes]


def _empty(values: Values) -> NDArray[np.bool_]:
    cells, codes = values
    return np.asarray(np.isnan(codes) if cells is None else cells.empty[codes])


def _union(one: set[str] | None, other: set[str] | None, most: float) -> set[str] | None:
    """The union of two sets; None if one of them is None, or if the union has more than `most` members."""
    if one is None or other is None or len(other) > most:
        return None
    union = one | other if other - one else one
    return None if len(union) > most else union


MIN_DISTANCE_FROM_ZERO = 0.25
"""minimum value that is far from zero, as a fraction of the median"""
MIN_INTEGER_FROM_ZERO = 5
"""minimum integer that is far from zero: in counts, the values 1 to 4 are as near to 0 as to each other"""


def far_from_zero(least: float, middle: float, *, whole: bool) -> bool:
    """Whether the minimum of positive numbers, with this median, is so far from 0 that a 0 may mark a missing value."""
    return least >= MIN_DISTANCE_FROM_ZERO * middle and not (whole and least < MIN_INTEGER_FROM_ZERO)


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
"""the same of the logarithms of a column, which then count as nearly symmetric"""


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


THRESHOLD = "a threshold of"
"""the begin of the formula of a column that says whether another column is above a threshold"""
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


def dependence(rows: NDArray[Any]) -> tuple[int, int, int]:
    """The dependence of columns of integers, `rows` `[n_rows, d]`, on each other, summed over pairs, in nats.

    Pairs of columns with two values each are left out: as labels and as numbers, they have the same dependence.
    It is the gain of log-likelihood over independence: as labels, n times the mutual information, and as numbers, that
    of a Gaussian model with their correlation. From both, the expected gain by chance is subtracted; that of labels is
    the third number.
    """
    X = rows[~np.isnan(rows.astype(np.float64)).any(axis=1)]
    n, d = X.shape
    if n < MIN_ROWS or d < 2:
        return 0, 0, 0
    codes = [np.unique(column, return_inverse=True)[1] for column in X.T]
    sizes = np.array([one.max() + 1 for one in codes])
    ends = np.cumsum(sizes)
    one_hot = np.zeros((n, int(ends[-1])))
    for start, one in zip(ends - sizes, codes, strict=True):
        one_hot[np.arange(n), start + one] = 1.0
    counts, totals = one_hot.T @ one_hot, one_hot.sum(axis=0)
    terms = counts * np.log(np.where(counts > 0, counts, 1.0) * n / np.outer(totals, totals))
    gains = np.add.reduceat(np.add.reduceat(terms, ends - sizes, axis=0), ends - sizes, axis=1)
    # Williams' correction: with rare labels, chance gains more than half the degrees of freedom.
    rarity = np.add.reduceat(n / totals, ends - sizes) - 1
    pairs = np.nonzero(np.triu(np.maximum.outer(sizes, sizes) > 2, 1))
    chance = ((np.outer(sizes - 1, sizes - 1) + np.outer(rarity, rarity) / (6 * n))[pairs] / 2).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.nan_to_num(np.corrcoef(X.astype(np.float64), rowvar=False))[pairs] ** 2
    numbers = (-0.5 * n * np.log1p(-np.minimum(squares, 1 - 1e-9)) - 0.5).sum()
    return round(float(gains[pairs].sum() - chance)), round(float(numbers)), round(float(chance))


def derived_columns(names: list[str], rows: NDArray[Any], most_columns: int = MAX_COLUMNS) -> Iterator[tuple[str, ...]]:
    """Yield each column that others determine in the complete `rows` `[n_rows, d]`, with formula and source columns.

    A table with fewer than `MIN_ROWS` complete rows is not examined, nor a table with more than `most_columns` columns,
    which has too many pairs. A number beyond `LARGEST` is refused later, so a table with such a number is not examined.
    """
    X = rows[~np.isnan(rows).any(axis=1)].astype(np.float64)
    if len(X) < MIN_ROWS or len(names) > most_columns or (np.abs(X) > LARGEST).any():
        return
    yield from _thresholds(names, X)
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


MIN_SIDE = 5
"""minimum number of examined rows on each side of a threshold"""


def _thresholds(names: list[str], X: NDArray[np.float64]) -> Iterator[tuple[str, ...]]:
    """Yield each column that says whether another column is above a threshold, with its formula and this column."""
    for j, name in enumerate(names):
        values, codes = np.unique(X[:, j], return_inverse=True)
        if len(values) != 2 or np.bincount(codes).min() < MIN_SIDE:
            continue
        low, high = X[codes == 0], X[codes == 1]
        apart = (low.max(axis=0) < high.min(axis=0)) | (high.max(axis=0) < low.min(axis=0))
        for k in np.flatnonzero(apart).tolist():
            if k != j and len(np.unique(X[:, k])) > 2:
                yield name, f"{THRESHOLD} {names[k]}", names[k]


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
