"""A draft of the entries of `about.json` that harmonise the tables of several silos, for their owners to review.

Silos name columns and labels differently and measure in other units. `harmonised` proposes, in this order:

1. `rename`: the columns that have the same content, by their names in several languages (`vocabulary.toml`), the
   likeness of names, and by what the cells have: numbers of about the same size, or as many labels;
2. `recode`: labels that mean the same, by the vocabulary; if several readings of codes fit, the shares of the levels at
   the other silos decide;
3. `scale`: the factor of a known conversion if it explains the ratio of a silo's median to the others';
4. `ignore`: columns that some silos lack; `unit`: the units that names mention.

Then `logarithms` proposes `transform` for columns that are skewed to the right. Every proposal has a line with its
evidence. Everything is computed from the rows, so a draft is for the owners of all rows, and not for a coordinator.
Entries that `about.json` already has are kept.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray, Schema
from fedbnsl.algorithms.diagnosis.columns import transform_excess
from fedbnsl.algorithms.errors import listed
from fedbnsl.algorithms.statistics.moments import chunks
from fedbnsl.algorithms.statistics.transforms import transform_gain

from ..federated import FederatedData
from .about import Declared, Reading, declarations
from .batches import cells_in
from .cells import MAX_CODES, MAX_LEVELS, fold_spelling, number_of, parse_cells, quantity_of
from .dates import looks_like_date
from .missing_codes import is_missing_word, outside_codes
from .sources import source_of
from .tally import MIN_SHAPE_ROWS

MIN_LIKENESS = 0.6
"""minimum likeness of two columns that are proposed as one"""
MAX_RATIO = 5.0
"""maximum ratio of the medians of columns of numbers that are alike without a conversion of units"""
MIN_SCALE_RATIO, SCALE_TOLERANCE = 1.5, 0.15
"""minimum ratio of a silo's median to the others' for a proposed factor, and the maximum relative deviation from it"""
USUAL = 0.2
"""difference of shares up to which the more usual reading of codes is taken"""
MIN_LOG_SKEWNESS = 0.3
"""minimum skewness by Kelly, (q₉₀ + q₁₀ − 2 q₅₀)/(q₉₀ − q₁₀), of numbers whose logarithms are taken"""
MAX_FAR = 1.5
"""maximum distance of a logarithm from the quartiles, in multiples of their distance, in the comparison of scales"""
MIN_PREFIX = 4
"""minimum number of letters of a name that is the beginning of another, like crea of creatinine"""
CONTAINED, PARTLY = 0.85, 0.5
"""likeness of a name that begins another one, and of cells that fit only in part"""


@cache
def _vocabulary() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "vocabulary.toml").read_text(encoding="utf-8"))


@cache
def _column_words() -> dict[str, str]:
    """By normalised word or phrase, the name of the column it means."""
    found = {}
    for name, words in _vocabulary()["columns"].items():
        for word in (name, *words):
            found[" ".join(_tokens(word))] = name
    return found


def _tokens(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without accents and without fillers, unless it has only fillers."""
    spaced = re.sub(r"([a-zäöüß0-9])([A-ZÄÖÜ])", r"\1 \2", name)
    plain = unicodedata.normalize("NFKD", spaced.casefold().replace("ø", "o"))
    words = re.findall(r"[^\W_]+", "".join(letter for letter in plain if not unicodedata.combining(letter)))
    fillers = _vocabulary()["fillers"]
    return tuple(word for word in words if word not in fillers) or tuple(words)


def concept_of(name: str) -> str | None:
    """What a column of this name means, by the vocabulary; None if its name is unknown."""
    words = _column_words()
    tokens = _tokens(name)
    for phrase in (" ".join(tokens), "".join(tokens), " ".join(_tokens(name.casefold()))):
        if phrase in words:
            return words[phrase]
    return None


@dataclass(frozen=True, eq=False)
class OwnColumn:
    """A column of one silo: its name, and the number of its rows with each label; empty cells do not count."""

    silo: str
    name: str
    labels: Counter[str] = field(default_factory=Counter)

    @cached_property
    def known(self) -> Counter[str]:
        """The labels without the words that mark a missing value."""
        return Counter({label: count for label, count in self.labels.items() if not is_missing_word(label)})

    @cached_property
    def numbers(self) -> FloatArray:
        """The distinct numbers in ascending order."""
        values = [number_of(label) for label in self.known]
        return np.unique([value for value in values if not np.isnan(value)])

    @cached_property
    def kind(self) -> Literal["empty", "dates", "numbers", "labels", "text"]:
        """What the cells are: `labels` recur and are few, `text` does not."""
        total = self.known.total()
        if not total:
            return "empty"
        if all(map(looks_like_date, self.known)):
            return "dates"
        numbers = sum(
            count for label, count in self.known.items() if not np.isnan(number_of(label)) or quantity_of(label)
        )
        if numbers >= 0.9 * total:
            return "numbers"
        return "labels" if len(self.known) <= min(MAX_LEVELS, total / 2) else "text"

    @cached_property
    def values(self) -> FloatArray:
        """The numbers of all rows, without those that may mark missing values."""
        pairs = sorted((number_of(label), count) for label, count in self.known.items() if label)
        distinct = np.array([value for value, _ in pairs if not np.isnan(value)])
        counts = np.array([count for value, count in pairs if not np.isnan(value)], dtype=np.int64)
        codes = outside_codes(distinct, counts) if len(distinct) else {}
        kept = ~np.isin(distinct, list(codes))
        return np.repeat(distinct[kept], counts[kept])

    @property
    def size(self) -> float | None:
        """The median of measurements; None for other columns, and if it is not positive."""
        measured = self.kind == "numbers" and not self.may_be_codes and len(self.values) > 0
        median = float(np.median(self.values)) if measured else 0.0
        return median if median > 0 else None

    @property
    def may_be_codes(self) -> bool:
        """Whether the cells are few whole numbers."""
        return (
            self.kind == "numbers"
            and len(self.numbers) <= MAX_CODES
            and bool((self.numbers == np.rint(self.numbers)).all())
        )

    def __str__(self) -> str:
        """The name, and what the cells are like."""
        if self.kind == "labels":
            return f"{self.name} ({listed([label for label, _ in self.known.most_common()], 4)})"
        if self.kind == "numbers" and len(self.values):
            return f"{self.name} (median {float(np.median(self.values)):.4g})"
        return self.name


Table = dict[str, OwnColumn]
"""by name, the columns of one silo"""


def own_tables(files: Mapping[str, Path], declared: Declared) -> dict[str, Table]:
    """By silo, its columns as `declared`; of a table that is read in passes, only the first rows count."""
    tables = {}
    for silo, path in files.items():
        own = declared.at_silo(silo)
        source = source_of(path, own)
        names = [name for name in source.names if own.keeps(name)]
        batch = next(iter(source.batches(names, names)), None)
        columns = zip(names, batch.columns, strict=True) if batch is not None else ()
        found = {name: _label_counts(*cells_in(column), own.marks.get(name)) for name, column in columns}
        tables[silo] = {name: OwnColumn(silo, name, found.get(name, Counter())) for name in names}
    return tables


def _label_counts(texts: Sequence[str], codes: NDArray[np.int64], marks: Sequence[str] | None) -> Counter[str]:
    """The number of rows with each label: row i has the cell `texts[codes[i]]`; empty cells do not count."""
    cells, counts = parse_cells(texts, None, marks), np.bincount(codes, minlength=len(texts))
    total = Counter[str]()
    for k in np.flatnonzero(~cells.empty & (counts > 0)).tolist():
        total[cells.labels[k]] += int(counts[k])
    return total


def harmonised(
    files: Mapping[str, Path], about: Mapping[str, Any], reading: Reading
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`about`, the content of `about.json`, with the entries that harmonise `files`, and a line for each proposal.

    Raises `BadInput` for a file that cannot be read.
    """
    drafted, lines = deepcopy(dict(about)), list[str]()
    for propose in (_names, _labels, _scales):
        tables = own_tables(files, declarations(drafted, reading))
        for key, silo, name, entry, line in propose(tables):
            lines += [line] if line else []
            if silo:
                own = drafted.setdefault(key, {}).setdefault(silo, {})
                own.setdefault(name, entry)
            elif key == "ignore":
                drafted[key] = [*dict.fromkeys([*drafted.get(key, ()), name])]
            elif key:
                drafted.setdefault(key, {}).setdefault(name, entry)
    return drafted, tuple(lines)


Proposal = tuple[str, str, str, Any, str]
"""key, silo or "", column, entry, and a line for the owners or "" """


def _names(tables: Mapping[str, Table]) -> Iterator[Proposal]:
    """Proposals of `rename` for columns that mean the same, of `ignore` for those that some silos lack, of `unit`."""
    same = len({frozenset(table) for table in tables.values()}) == 1
    groups = [{silo: table[name] for silo, table in tables.items()} for name in _common(tables)]
    groups = groups if same else _matched(tables)
    for group, name in zip(groups, _common_names(groups), strict=True):
        yield from _renaming(name, group)
        if len(group) < len(tables):
            there = ", ".join(f"{silo}: {one}" for silo, one in group.items())
            yield "ignore", "", name, None, f"{name}: no column of the other silos matches it ({there}): it is ignored"
        unit = next(filter(None, map(_unit_in_name, group.values())), None)
        if unit and len(group) == len(tables) and all(one.kind == "numbers" for one in group.values()):
            line = f"{name}: its unit is {unit}, by the name of the column"
            yield "unit", "", name, unit, "" if same else line


def _renaming(name: str, group: Mapping[str, OwnColumn]) -> Iterator[Proposal]:
    """Proposals that give the columns of a `group` one `name`."""
    others = {silo: one for silo, one in group.items() if one.name != name}
    if len(group) > 1 and others:
        where = ", ".join(f"{one} at {silo}" for silo, one in group.items())
        yield "", "", name, None, f"{name}: one column under several names: {where}"
    for silo, one in others.items():
        yield "rename", silo, one.name, name, ""


def _unit_in_name(column: OwnColumn) -> str | None:
    """The unit that the name of a column of numbers mentions after another word; None if there is none."""
    words = re.findall(r"[^\W_]+", column.name)
    unit = _vocabulary()["unit_words"].get(words[-1].casefold()) if len(words) > 1 else None
    return unit if column.kind == "numbers" else None


def _matched(tables: Mapping[str, Table]) -> list[dict[str, OwnColumn]]:
    """Groups of columns that mean the same, at most one of each silo, from the table with most columns on."""
    from scipy.optimize import linear_sum_assignment

    groups: list[dict[str, OwnColumn]] = []
    for silo, table in sorted(tables.items(), key=lambda pair: -len(pair[1])):
        columns = [*table.values()]
        likeness = np.array(
            [[max(_likeness(one, other) for other in group.values()) for one in columns] for group in groups]
        ).reshape(len(groups), len(columns))
        rows, places = linear_sum_assignment(likeness, maximize=True)
        found = {int(j): int(i) for i, j in zip(rows, places, strict=True) if likeness[i, j] >= MIN_LIKENESS}
        for j, i in found.items():
            groups[i][silo] = columns[j]
        groups += [{silo: one} for j, one in enumerate(columns) if j not in found]
    return groups


def _likeness(one: OwnColumn, other: OwnColumn) -> float:
    """How alike two columns are, from 0 to 1, by their names and by their cells."""
    return _name_likeness(one.name, other.name) * _content_likeness(one, other)


def _name_likeness(one: str, other: str) -> float:
    concepts = {concept_of(one), concept_of(other)}
    if None not in concepts:
        return float(len(concepts) == 1)
    short, long = sorted(("".join(_tokens(name)) for name in (one, other)), key=len)
    if short == long:
        return 1.0
    begins = len(short) >= MIN_PREFIX and long.startswith(short)
    return max(CONTAINED * begins, SequenceMatcher(None, short, long).ratio() ** 2)


def _content_likeness(one: OwnColumn, other: OwnColumn) -> float:
    kinds = {one.kind, other.kind}
    if kinds == {"numbers"}:
        return _size_likeness(one, other)
    if "empty" in kinds or len(kinds) == 1:
        return 1.0
    if kinds == {"labels", "numbers"}:
        codes, words = (one, other) if one.kind == "numbers" else (other, one)
        near = abs(len(codes.numbers) - len(words.known)) <= 1
        return (1.0 if near else PARTLY) if codes.may_be_codes else 0.0
    return 1.0 if concept_of(one.name) in ("id", "comment") and "dates" not in kinds else 0.0


def _size_likeness(one: OwnColumn, other: OwnColumn) -> float:
    """Whether the medians of two columns of numbers are about equal, or differ by the factor of a known conversion."""
    medians = [float(np.median(np.abs(column.values))) if len(column.values) else 0.0 for column in (one, other)]
    small, large = min(medians), max(medians)
    if not small:
        return 1.0 if not large else PARTLY
    return 1.0 if large / small <= MAX_RATIO or _conversion(one.name, large / small) else PARTLY


def _common_names(groups: Sequence[Mapping[str, OwnColumn]]) -> list[str]:
    """A distinct name for each group: that of all its columns, or what they mean, or the most frequent name."""
    names: list[str] = []
    for group in groups:
        own = [column.name for column in group.values()]
        common = [concept for name in own if (concept := concept_of(name)) is not None]
        wanted = [*common[:1], *(name for name, _ in Counter(own).most_common())] if len(set(own)) > 1 else own
        names.append(next((name for name in wanted if name not in names), own[0]))
    return names


def _labels(tables: Mapping[str, Table]) -> Iterator[Proposal]:
    """Proposals of `recode` for labels that mean the same, and of numbers for grades that silos write differently."""
    for name in _common(tables):
        columns = {silo: table[name] for silo, table in tables.items() if table[name].known}
        if _are_words_or_codes(columns):
            yield from _recoding(name, columns)


def _recoding(name: str, columns: Mapping[str, OwnColumn]) -> Iterator[Proposal]:
    """The proposals for the labels of one column at all silos."""
    found = _readings(columns)
    if found is None:
        return
    scale, readings = found
    for silo, reading in readings.items():
        changed = {label: level for label, level in reading.items() if label != level}
        pairs = ", ".join(f"{label} → {level}" for label, level in changed.items())
        if changed:
            yield "recode", silo, name, changed, f"{name} at {silo}: {pairs} ({_shares(columns[silo], reading)})"
    levels = {level for reading in readings.values() for level in reading.values()}
    if scale.get("ordered") and all(map(str.isdecimal, scale["levels"])) and len(levels) > 2:
        line = f"{name}: its grades are read as numbers, which keeps their order; delete it from columns for labels"
        yield "columns", "", name, "continuous", line


def _are_words_or_codes(columns: Mapping[str, OwnColumn]) -> bool:
    """Whether a column has words at some silos, codes or other words at others, and not the same at all silos."""
    spellings = {frozenset(map(fold_spelling, column.known)) for column in columns.values()}
    words = sum(column.kind == "labels" for column in columns.values())
    coded = sum(column.may_be_codes for column in columns.values())
    return words > 0 and words + coded == len(columns) and len(spellings) > 1


def _readings(columns: Mapping[str, OwnColumn]) -> tuple[Any, dict[str, dict[str, str]]] | None:
    """The entry of the vocabulary that has all labels of all silos, and by silo the level of each label; or None."""
    coded = [silo for silo, column in columns.items() if column.may_be_codes]
    for scale in _vocabulary()["labels"]:
        words = {silo: _by_words(scale, column) for silo, column in columns.items() if silo not in coded}
        codes = {silo: _by_codes(scale, columns[silo]) for silo in coded}
        if words and all(words.values()) and all(codes.values()):
            known = _level_shares(columns, words)
            return scale, words | {silo: _nearest(known, columns[silo], fitting) for silo, fitting in codes.items()}
    return None


def _nearest(known: Mapping[str, float], column: OwnColumn, fitting: Sequence[dict[str, str]]) -> dict[str, str]:
    """The most usual reading of the codes of a `column` whose shares of levels are near the `known` shares."""
    far = [_distance(known, _level_shares({"": column}, {"": one})) for one in fitting]
    return next(one for one, distance in zip(fitting, far, strict=True) if distance <= min(far) + USUAL)


def _by_words(scale: Any, column: OwnColumn) -> dict[str, str]:
    """The level of each label of a `column` by the spellings of a `scale`; empty if a label is none of these."""
    spelled = {fold_spelling(word): level for level, words in scale["levels"].items() for word in (level, *words)}
    levels = {label: spelled.get(fold_spelling(label), "") for label in column.known}
    return levels if all(levels.values()) else {}


def _by_codes(scale: Any, column: OwnColumn) -> list[dict[str, str]]:
    """The level of each label of a `column`, in each of the ways in which codes stand for the levels of a `scale`."""
    labels = {*column.known}
    return [{label: codes[label] for label in column.known} for codes in scale["codes"] if codes.keys() >= labels]


def _level_shares(columns: Mapping[str, OwnColumn], readings: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    counts = Counter[str]()
    for silo, reading in readings.items():
        for label, level in reading.items():
            counts[level] += columns[silo].known[label]
    return {level: count / counts.total() for level, count in counts.items()}


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(abs(one.get(level, 0.0) - other.get(level, 0.0)) for level in {*one, *other})


def _shares(column: OwnColumn, reading: Mapping[str, str]) -> str:
    shares = _level_shares({column.silo: column}, {column.silo: reading})
    return ", ".join(f"{level} {share:.0%}" for level, share in sorted(shares.items()))


def _conversion(name: str, ratio: float) -> tuple[float, str, str] | None:
    """The factor near `ratio` that converts numbers of a column of this `name`, and its two units; None without any."""
    concept, entries = concept_of(name), _vocabulary()["units"]
    own = [one for one in entries if concept in one["columns"]] + [one for one in entries if not one["columns"]]
    factors = [(float(one["factor"]), *reversed(one["units"])) for one in own]
    both = [way for by, unit, into in factors for way in ((by, unit, into), (1 / by, into, unit))]
    return next((way for way in both if abs(ratio / way[0] - 1) <= SCALE_TOLERANCE), None)


def _scales(tables: Mapping[str, Table]) -> Iterator[Proposal]:
    """Proposals of `scale` for silos whose median differs from the others' by the factor of a known conversion."""
    for name in _common(tables):
        columns = {silo: table[name] for silo, table in tables.items()}
        reference = max(columns.values(), key=lambda column: len(column.values))
        if None not in [column.size for column in columns.values()]:
            for silo, column in columns.items():
                yield from _scaling(silo, name, column.size or 1.0, reference)


def _scaling(silo: str, name: str, median: float, reference: OwnColumn) -> Iterator[Proposal]:
    """The proposal of `scale` for a silo's column with this `median`, compared with the column of another silo."""
    usual = reference.size or 1.0
    by, unit, into = _conversion(name, usual / median) or (1.0, "", "")
    if unit and max(usual / median, median / usual) >= MIN_SCALE_RATIO:
        line = (
            f"{name} at {silo}: its numbers are multiplied by {by:.5g}, as from {unit} to {into} "
            f"(median {median:.4g}, and {usual:.4g} at {reference.silo})"
        )
        yield "scale", silo, name, float(f"{by:.6g}"), line
        yield "" if into.startswith("of ") else "unit", "", name, into, ""


def logarithms(data: FederatedData) -> dict[str, str]:
    """Columns of `data` whose logarithms are symmetric and more linearly related to the others, each with the evidence.

    The gain is that of the finding on skewed columns: of −½ ln |R| of the correlations within silos.
    """
    schema = data.schema
    if schema.kind in ("time-series", "events", "discrete"):
        return {}
    aside = {*schema.levels, *schema.transforms, *schema.dates}
    numbers = [v for v, name in enumerate(schema.variables) if name not in aside]
    parts = [np.asarray(next(iter(chunks(table))), np.float64)[:, numbers] for table in data.tables.values()]
    evidence = {schema.variables[v]: _evidence_of_logarithm(schema, parts, place) for place, v in enumerate(numbers)}
    return {name: words for name, words in evidence.items() if words}


def _evidence_of_logarithm(schema: Schema, parts: Sequence[FloatArray], place: int) -> str:
    """Why the logarithm of a column of the rows of the silos, `parts` `[n_rows, d]`, is better; empty if it is not."""
    column = np.concatenate([part[:, place] for part in parts])
    column = column[~np.isnan(column)]
    if len(column) < MIN_SHAPE_ROWS or column.min() <= 0:
        return ""
    skewness, of_logarithms = _skewness(column), _skewness(np.log(column))
    if skewness < MIN_LOG_SKEWNESS or abs(of_logarithms) > skewness / 2:
        return ""
    low, high = np.quantile(column, (0.25, 0.75))
    far = (high / low) ** MAX_FAR  # such as halves of detection limits, whose logarithms say nothing
    near = [part[(part[:, place] >= low / far) & (part[:, place] <= high * far)] for part in parts]
    if transform_excess(schema, _logarithm_gain(near, place)) <= 1:
        return ""
    return f"skewness {skewness:.2f}, that of the logarithms {of_logarithms:.2f}"


def _logarithm_gain(parts: Sequence[FloatArray], place: int) -> float:
    """By how much the logarithm of one column strengthens linear relations within the silos, in nats a row."""
    rows = [len(part) for part in parts]
    gains = [transform_gain(part, {place: "log"}) if len(part) > part.shape[1] else 0.0 for part in parts]
    return float(np.average(gains, weights=rows)) if any(rows) else 0.0


def _skewness(values: FloatArray) -> float:
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    return float((high + low - 2 * middle) / (high - low)) if high > low else 0.0


def _common(tables: Mapping[str, Table]) -> list[str]:
    first, *others = tables.values()
    return [name for name in first if all(name in table for table in others)]
