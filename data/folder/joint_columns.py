"""A column at all silos, and the decisions about it that hold at every silo, from the silos' profiles.

- `JointColumn`: the profiles of a column at all silos, their sums, and what the profiles of most cells suggest.
- `joined_columns`: the same columns at every silo (`--columns union|common`).
- `labels_among_marks`: the words, such as None and NA, that are labels of a column although they mark a missing value
  in other columns. All other cells that have content but are read as missing appear in a note, with the declaration
  that overrides this.
- `count_codings`, `transforms_of`: which columns are counts, and the transform of each column of numbers. The majority
  of cells decides for all silos. A declaration or an option takes precedence.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray, Schema, Transform
from fedbnsl.algorithms.errors import BadInput, listed, quoted
from fedbnsl.algorithms.privacy.disclosure_control import share_class
from fedbnsl.algorithms.statistics.moments import Table, chunks, thin_rows
from fedbnsl.algorithms.statistics.transforms import (
    BOUNDED,
    FAR,
    LOG_RATIO,
    MIN_PARTS,
    NORMAL_SCORES,
    TYPICAL,
    below_domain,
    domain_fault,
    has_far_numbers,
)

from ..federated import FederatedData
from .about import Declared, Reading, declarations
from .cells import (
    MAX_CODES,
    MISSING,
    MISSING_WORDS,
    canonical_order,
    fold_spelling,
    missing_words,
)
from .profile import ColumnProfile, Profile
from .tally import SAMPLED_ROWS, THRESHOLD, suggested_transforms

MANY_VALUES = 20
"""minimum number of distinct values of a column for a note on zeros that are far from all other values"""


MIN_ROWS_PER_LABEL = 2
"""minimum mean number of rows of a label at a silo whose many labels no other silo has"""


@dataclass(frozen=True)
class JointColumn(ColumnProfile):
    """The profile of a column over all silos, as far as it follows from the silos' profiles (`joint_column`).

    Facts that do not, such as the size and the shape, are those of the `parts`.
    """

    parts: Mapping[str, ColumnProfile] = field(default_factory=dict)
    """by silo, the profile of the column; silos are in the order of their names"""

    @property
    def has_words(self) -> bool:
        """Whether most cells are words rather than numbers in another notation.

        Limits without other numbers count as words, as in the age groups <18, 18-65 and >65.
        """
        like = self.number_like - (0 if self.numbers else self.limits)
        return self.words - like >= self.numbers + like and self.words > like

    @property
    def is_of_silos(self) -> bool:
        """Whether all cells are the same within each silo, and not between silos."""
        filled = [part for part in self.parts.values() if part.filled]
        return len(filled) > 1 and all(part.constant for part in filled) and not self.constant

    @property
    def labels_of_one_silo(self) -> Iterator[tuple[str, set[str], set[str]]]:
        """Each silo with several labels that recur, none of which another silo has: its labels and those of others."""
        labels = {silo: set(map(fold_spelling, part.labels or ())) for silo, part in self.parts.items()}
        for silo, own in labels.items():
            elsewhere = set[str]().union(*(others for other, others in labels.items() if other != silo))
            filled = self.parts[silo].filled
            recur = filled > len(own) if len(own) <= MAX_CODES else filled >= MIN_ROWS_PER_LABEL * len(own)
            if len(own) > 1 and recur and elsewhere and own.isdisjoint(elsewhere):
                yield silo, own, elsewhere

    @property
    def units(self) -> dict[str, str]:
        """A silo for each unit of the numbers."""
        found = {part.unit.casefold(): (part.unit, silo) for silo, part in self.parts.items() if part.unit}
        return dict(found.values())

    @property
    def has_quantities(self) -> bool:
        """Whether a silo has numbers with other marks beside them."""
        return any(part.unit is not None for part in self.parts.values())

    def majority(self, of: Callable[[ColumnProfile], str], otherwise: str) -> str:
        """The value of `of` at the silos, weighted by filled cells.

        The value is "" if at least half of the cells are at silos with "", and `otherwise` if no other value has more
        than half of the cells.
        """
        votes = Counter[str]()
        for part in self.parts.values():
            votes[of(part)] += part.filled
        if 2 * votes[""] >= self.filled:
            return ""
        word, number = votes.most_common(1)[0]
        return word if 2 * number > self.filled else otherwise

    @property
    def zeros_apart(self) -> dict[str, int]:
        """The number of zeros by silo, if the column has many values and all others are far from 0; else empty."""
        sized = [part for part in self.parts.values() if part.size is not None]
        if all(part.distinct <= MANY_VALUES for part in sized) or not all(part.apart for part in sized):
            return {}
        return {silo: part.zeros for silo, part in self.parts.items() if part.zeros}


LACKING = ColumnProfile(0, 0, 0, whole=True, unique=True, consecutive=True)
"""the profile, over no rows, of a column that a silo lacks"""


def joined_columns(
    place: str, profiles: Mapping[str, Profile], declared: Declared
) -> tuple[dict[str, Profile], dict[str, str]]:
    """The `profiles` with the same columns, and the columns that were left out for this purpose, with the reason.

    With `--columns union`, a column that a silo lacks counts as empty at this silo. With `--columns common`, the column
    is left out. With `--columns same`, the profiles stay unchanged. Raises `BadInput` for a union in a run with an ε,
    and if no column is common.
    """
    how, names = declared.reading.columns, dict.fromkeys(name for one in profiles.values() for name in one.variables)
    lacking = [name for name in names if not all(name in one.columns for one in profiles.values())]
    if how == "same" or not lacking:
        return dict(profiles), {}
    if how == "common":
        if len(lacking) == len(names):
            raise BadInput(f"{place}: --columns common: no column is common to all silos")
        kept = {
            silo: replace(one, columns={name: one.columns[name] for name in one.variables if name not in lacking})
            for silo, one in profiles.items()
        }
        return kept, dict.fromkeys(lacking, "only some silos have it, and --columns is common")
    if declared.reading.private:
        raise BadInput(
            f"{place}: --columns union: not every silo has {quoted(lacking[0])}, and with an ε an empty cell counts "
            "as 0: use --columns common"
        )
    filled = {
        silo: replace(one, columns={name: one.columns.get(name, replace(LACKING, empty=one.rows)) for name in names})
        for silo, one in profiles.items()
    }
    return filled, {}


OR_JOIN = (
    "--columns common does so for all such columns, --columns union keeps them; if silos name a column differently, "
    "`fedbnsl inspect FOLDER --write` drafts common names"
)


def check_columns(
    place: str,
    profiles: Mapping[str, Profile],
    declared: Declared,
    names: Mapping[str, str],
    uncommon: Collection[str] = (),
) -> None:
    """Raise `BadInput` unless all silos have the same columns, including all declared and selected columns.

    A declaration may be about a column that was left out because only some silos have it (`uncommon`).
    """
    first, *others = profiles
    for silo in others:
        expected, found = profiles[first].variables, profiles[silo].variables
        for name in expected:
            if name not in found:
                alike = next((one for one in found if one.casefold() == name.casefold()), None)
                if alike is not None:
                    raise BadInput(
                        f"{names[silo]}: column {quoted(alike)} differs from {quoted(name)} of "
                        f"{names[first].rpartition('/')[2]} only in capitals: `fedbnsl inspect FOLDER --write` drafts "
                        "a common name"
                    )
                raise BadInput(
                    f"{names[silo]}: column {quoted(name)} is missing; {names[first].rpartition('/')[2]} has it: "
                    f"--ignore {name} leaves it out everywhere, {OR_JOIN}"
                )
        for name in found:
            if name not in expected:
                raise BadInput(
                    f"{names[silo]}: column {quoted(name)} is unexpected; {names[first].rpartition('/')[2]} does not "
                    f"have it: --ignore {name} leaves it out, {OR_JOIN}"
                )
    if declared.complete:
        return
    variables = profiles[first].variables
    declarations: dict[str, Collection[str]] = {
        "survival": declared.survival_columns,
        "levels": declared.levels,
        "columns": declared.columns,
        "missing": declared.marks,
        "unit": declared.unit,
    }
    for key, columns in declarations.items():
        for name in columns:
            if name not in variables and name not in uncommon and declared.keeps(name):
                raise BadInput(f"{place}: about.json: {key}: {quoted(name)} is not a column of the data")
    check_selected(place, variables, declared)


def check_selected(place: str, variables: Collection[str], declared: Declared) -> None:
    """Raise `BadInput` for a column of --only that is not among the `variables`."""
    for name in declared.reading.only:
        if name not in variables and not (declared.kind == "time-series" and declared.is_key(name)):
            raise BadInput(f"{place}: --only: {quoted(name)} is not a column of the data")


def excluded_columns(place: str, by_silo: Iterable[Sequence[str]], declared: Declared) -> dict[str, str]:
    """The columns excluded `by_silo`, with the reasons; raises `BadInput` if no silo has an ignored column."""
    excluded = dict.fromkeys(name for names in by_silo for name in names)
    for name in declared.reading.ignore:
        if name not in excluded:
            raise BadInput(f"{place}: --ignore: {quoted(name)} is not a column of any silo")
    return {name: declared.reading.leaves_out(name) or "" for name in excluded}


def joint_columns(profiles: Mapping[str, Profile]) -> dict[str, JointColumn]:
    """The columns, in the order of the first silo, each with its profile at every silo."""
    first = next(iter(profiles.values()))
    return {
        name: joint_column({silo: profile.columns[name] for silo, profile in profiles.items()})
        for name in first.variables
    }


OVER_SILOS: dict[str, Callable[[Iterable[Any]], Any]] = {
    **dict.fromkeys(("empty", "numbers", "words", "number_like", "kinds_of_words", "zeros", "limits"), sum),
    **dict.fromkeys(("negative", "padded", "labelled"), any),
    **dict.fromkeys(("whole", "unique", "consecutive"), all),
    "recurrence": max,
}
"""by fact on a column, how it follows from the same fact at every silo"""


def joint_column(parts: Mapping[str, ColumnProfile]) -> JointColumn:
    """A column at all silos; `parts` has its profile at each.

    It has labels if every silo with filled cells reports its labels; otherwise the number of distinct values and that
    of distinct words are bounds.
    """
    own, labels = [*parts.values()], _joint_labels(parts.values())
    marks = sum((Counter(dict(part.marks)) for part in own), Counter[str]())
    filled = [part for part in own if part.filled]
    return JointColumn(
        **{name: over(getattr(part, name) for part in own) for name, over in OVER_SILOS.items()},
        labels=labels,
        distinct=max(part.distinct for part in own) if labels is None else len(labels),
        odd=next((part.odd for part in own if part.odd), ""),
        marks=tuple(marks.items()),
        dates=bool(filled) and all(part.dates for part in filled),
        periods=bool(filled) and all(part.periods for part in filled),
        parts=parts,
    )


def _joint_labels(parts: Iterable[ColumnProfile]) -> tuple[str, ...] | None:
    reported = [part.labels for part in parts if part.filled]
    return None if None in reported else canonical_order(label for one in reported for label in one or ())


MAX_LISTED_MARKS = 30
"""maximum number of columns that the note on marks of missing values lists"""

MIN_COMMON_COLUMNS = 2
"""number of columns up to which a word that occurs in all columns of words may still be a label"""

Columns = Mapping[str, JointColumn]


def labels_among_marks(columns: Columns, declared: Declared) -> dict[str, tuple[str, ...]]:
    """By column of words, the words that are labels of this column although they can mark missing values.

    A word such as None or NA among other labels is a label, unless there is evidence that it marks missing values.
    There are two kinds of evidence. First, the word occurs among the numbers of another column. Second, the word is a
    mark that programs write (any but "none"), and either its column has other empty cells or most columns of words have
    the same mark. The rule is applied to all silos together. Declared levels and marks take precedence.
    """
    texts = [name for name, column in columns.items() if column.has_words and declared.kind_of(name) != "continuous"]
    words = {name: {fold_spelling(mark) for mark, _ in columns[name].marks} & MISSING_WORDS for name in columns}
    counts = Counter(word for name in texts for word in words[name])
    among_numbers = {word for name in columns if columns[name].numbers and name not in texts for word in words[name]}
    common = {word for word, count in counts.items() if count > max(MIN_COMMON_COLUMNS, len(texts) / 2)}
    found = {}
    for name in texts:
        if name in declared.levels or name in declared.marks:
            continue
        others = columns[name].empty > sum(n for mark, n in columns[name].marks if fold_spelling(mark) in MISSING_WORDS)
        doubtful = words[name] - {"none"} if others else words[name] & common - {"none"}
        found[name] = tuple(sorted(words[name] - among_numbers - doubtful))
    return {name: labels for name, labels in found.items() if labels}


def with_words(profile: Profile, words: Mapping[str, tuple[str, ...]]) -> Profile:
    """`profile` in which, by column, the marks `words` count as labels."""
    columns = {name: column.with_words(words.get(name, ())) for name, column in profile.columns.items()}
    return replace(profile, columns=columns)


def label_notes(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    """A note on each label that marks a missing value in other columns."""
    inferred = {name: missing_words(levels) for name, levels in schema.levels.items() if name not in declared.levels}
    by_word: dict[str, list[str]] = {}
    for name, words in inferred.items():
        for word in words if declared.marks.get(name) is None else ():
            by_word.setdefault(word, []).append(name)
    for word, names in by_word.items():
        yield (
            f"{listed(names)}: the label {quoted(word)} is a level beside other labels; if it marks a missing value, "
            f'declare {{"missing": {{"{names[0]}": ["{word}"]}}}} in about.json'
        )


def mark_notes(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    """A note on the cells with content that are read as missing, and a note on such cells that may be labels."""
    marks = {name: _undeclared_marks(columns[name]) for name in schema.variables}
    shares = [_mark_shares(name, columns[name], counts) for name, counts in marks.items() if counts]
    if shares:
        yield f"read as missing: {listed(shares, MAX_LISTED_MARKS)}"
    words = [name for name in schema.levels if missing_words(marks[name]) and not declared.marks.get(name)]
    if words:
        yield (
            f"{listed(words)}: if the words read as missing are labels, declare "
            f'{{"missing": {{"{words[0]}": []}}}} in about.json: then only cells without content are missing'
        )


def _undeclared_marks(column: JointColumn) -> dict[str, int]:
    return {mark: count for mark, count in sorted(column.marks) if mark.lower() in MISSING}


def _mark_shares(name: str, column: JointColumn, counts: Mapping[str, int]) -> str:
    """The name of a column with each of its marks of missing values, and the class of the mark's share of the rows."""
    rows = column.filled + column.empty
    shares = (f"{quoted(mark)} {share_class(count / rows)}" for mark, count in counts.items())
    return f"{name} ({listed(shares)})"


MIN_COUNT_VALUES, MIN_MORE_COUNT_VALUES = 7, 4
"""minimum number of distinct values of a column of counts; a lower minimum if another column of counts has as many"""


def count_codings(columns: Mapping[str, JointColumn]) -> dict[str, str]:
    """The columns of counts, each with its coding, by the majority of cells over all silos.

    Counts start at 0, or also at 1 in a column with more than `MAX_CODES` values. A column whose zeros may mark missing
    values has no counts.
    """
    found = {
        name: coding
        for name, column in columns.items()
        if column.whole and not column.negative and not (column.words or column.zeros_apart)
        for coding in (column.majority(lambda part: part.counted, "anscombe"),)
        if coding and (column.zeros or column.distinct > MAX_CODES)
    }
    if not any(columns[name].distinct >= MIN_COUNT_VALUES for name in found):
        return {}
    return {name: coding for name, coding in found.items() if columns[name].distinct >= MIN_MORE_COUNT_VALUES}


def transforms_of(
    place: str, numbers: Mapping[str, JointColumn], counts: Mapping[str, str], declared: Declared
) -> dict[str, Transform]:
    """The transform of each column of `numbers` that is transformed.

    Raises `BadInput` for a transform of a column that has labels or does not exist, of numbers below its domain, and
    for log-ratios of too few columns.
    """
    if declared.complete:
        return {}
    for name in dict(declared.reading.transforms):
        if name not in numbers and declared.keeps(name):
            raise BadInput(f"{place}: --transform: {quoted(name)} is not a column of numbers")
    chosen = {name: _transform_of(place, name, column, counts.get(name), declared) for name, column in numbers.items()}
    found = {name: one for name, one in chosen.items() if one}
    check_parts(found, place)
    return found


def _transform_of(
    place: str, name: str, column: JointColumn, coding: str | None, declared: Declared
) -> Transform | None:
    """The transform of a column of numbers, whose `coding` as counts is given if they are counts; None for none."""
    requested = declared.transform_of(name)
    if requested is None:
        if coding is not None:
            return "log1p" if coding == "log1p" else "anscombe"
        return BOUNDED if declared.bounds_far_numbers and silos_with_far_numbers(column) else None
    if requested == "none":
        return None
    if column.negative and requested not in (NORMAL_SCORES, BOUNDED):
        raise BadInput(f"{place}: column {quoted(name)}: it has numbers below 0, which have no {requested}")
    return "log1p" if requested == "log" and column.zeros else requested


def silos_with_far_numbers(column: JointColumn) -> list[str]:
    """The silos at which a number of `column` is far from all others."""
    return [silo for silo, part in column.parts.items() if part.far]


def bounded_notes(transforms: Mapping[str, Transform], numbers: Mapping[str, JointColumn]) -> tuple[str, ...]:
    """A note on the columns of `numbers` that have a bound because some silos have far numbers."""
    bounded = {name: silos_with_far_numbers(numbers[name]) for name, one in transforms.items() if one == BOUNDED}
    found = [f"{name} ({listed(silos)})" for name, silos in bounded.items() if silos]
    if not found:
        return ()
    return (
        f"far numbers: some numbers of {listed(found)} are more than {FAR:g} times as far from the median as "
        f"{TYPICAL:.0%} of the numbers; those that are alone in their row, as mistakes are, are moved to the bound of "
        f"these {TYPICAL:.0%}; --transform {next(name for name in bounded if bounded[name])}=none keeps them",
    )


def with_declared_transforms(schema: Schema, declared: Declared) -> Schema:
    """`schema` with the declared transforms, for time series and for runs with an ε, in which no cell may decide.

    The logarithm is ln x for time series, and ln(1 + x) in runs with an ε, in which a number below 0 counts as 0.
    Raises `BadInput` for a transform of a column that has labels or does not exist.
    """
    numbers = [name for name in schema.variables if name not in schema.levels]
    for name in dict(declared.reading.transforms):
        if name not in numbers and declared.keeps(name):
            raise BadInput(f"--transform: {quoted(name)} is not a column of numbers")
    counts = tuple(name for name in numbers if declared.columns.get(name) == "count")
    found: dict[str, Transform] = {}
    for name in numbers:
        requested = declared.transform_of(name)
        if requested is None and name in counts:
            found[name] = "anscombe"
        elif requested is not None and requested != "none":
            found[name] = "log1p" if requested == "log" and declared.reading.private else requested
    check_parts(found)
    return replace(schema, transforms=found, counts=counts)


def check_parts(transforms: Mapping[str, Transform], place: str = "") -> None:
    """Raise `BadInput` if fewer than `MIN_PARTS` columns are to be log-ratios."""
    parts = [name for name, one in transforms.items() if one == LOG_RATIO]
    if 0 < len(parts) < MIN_PARTS:
        raise BadInput(
            f"{place}{': ' if place else ''}--transform: a log-ratio compares the shares of a row, so it needs at "
            f"least {MIN_PARTS} columns, not {', '.join(map(quoted, parts))} only"
        )


def skewed_columns(
    numbers: Mapping[str, JointColumn], transforms: Mapping[str, Transform], declared: Declared
) -> dict[str, Transform]:
    """The transforms to suggest for columns without a transform that are skewed by the majority of cells."""
    found: dict[str, Transform] = {}
    for name, column in numbers.items():
        shape = column.majority(lambda part: part.shape, NORMAL_SCORES)
        if shape and transforms.get(name, BOUNDED) == BOUNDED and declared.transform_of(name) is None:
            found[name] = "log" if shape == "log" and not (column.negative or column.zeros) else NORMAL_SCORES
    return found


def scales_of(schema: Schema, new: Schema) -> dict[str, Any]:
    """The transforms, dates, formulas, counts and suggestions in `schema`, for the variables of `new`.

    The schema `new` describes fewer rows, from which these facts must not be decided again.
    """
    names = new.variables
    return {
        "transforms": {name: one for name, one in schema.transforms.items() if name in names},
        "dates": {name: one for name, one in schema.dates.items() if name in names},
        "derived": {name: one for name, one in schema.derived.items() if name in names},
        "counts": tuple(name for name in schema.counts if name in names),
        "skewed": {name: one for name, one in schema.skewed.items() if name in names},
    }


def with_transforms(data: FederatedData, reading: Reading) -> FederatedData:
    """`data` whose schema has the requested transforms, bounds of far numbers, and suggestions for skewed columns.

    Raises `BadInput` for a transform of a column that has labels or does not exist, and of numbers below its domain.
    """
    schema, names = data.schema, [name for name in data.schema.variables if name not in data.schema.levels]
    requested = reading.transform != "none" or reading.transforms
    if schema.kind in ("discrete", "events") or (schema.kind == "time-series" and not requested):
        return data
    parts: dict[str, dict[str, ColumnProfile]] = {name: {} for name in names}
    for silo, table in data.tables.items():
        for name, one in zip(names, _shapes(table, [schema.variables.index(name) for name in names]), strict=True):
            # In a series, a number that is alone in its row may move the rows after it.
            parts[name][silo] = replace(one, far=one.far and schema.kind != "time-series")
    declared = declarations({"kind": "mixed"}, reading)
    numbers = {name: joint_column(part) for name, part in parts.items()}
    transforms = transforms_of("data", numbers, {}, declared)
    skewed = skewed_columns(numbers, transforms, declared)
    notes = (*data.notes, *bounded_notes(transforms, numbers))
    return replace(data, schema=replace(schema, transforms=transforms, skewed=skewed), notes=notes)


def _shapes(table: Table, numbers: Sequence[int]) -> Iterator[ColumnProfile]:
    """What decides transforms of the columns `numbers` of `table` `[n_rows, d]`, which is already read."""
    sample = thin_rows(table, SAMPLED_ROWS)
    sample = sample[:: max(1, len(sample) // SAMPLED_ROWS), numbers].astype(np.float64)
    ends = np.array([(np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)) for rows in chunks(table)])
    low, high = np.fmin.reduce(ends[:, 0])[numbers], np.fmax.reduce(ends[:, 1])[numbers]
    facts = zip(suggested_transforms(sample), has_far_numbers(sample, low, high).tolist(), low.tolist(), strict=True)
    for shape, far, least in facts:
        negative, zeros = least < 0, int(least == 0)
        yield ColumnProfile(0, table.shape[0], 0, whole=False, negative=negative, zeros=zeros, shape=shape, far=far)


def check_series_domains(path: Path, variables: tuple[str, ...], values: FloatArray, declared: Declared) -> None:
    """Raise `BadInput` for the first number of time series `[n_rows, d]` that its requested transform cannot take."""
    for name, column in zip(variables, values.T, strict=True):
        requested = declared.transform_of(name)
        if requested is None:
            continue
        row = below_domain(column, requested)
        if row is None and requested == "log" and (column == 0).any():
            raise BadInput(f"{path}: column {quoted(name)}: 0 has no logarithm: use --transform sqrt or normal-scores")
        if row is not None:
            raise BadInput(domain_fault(f"{path}: column {quoted(name)}", column[row], requested))


def common_derived(profiles: Mapping[str, Profile], numbers: Sequence[str], labels: Collection[str]) -> dict[str, str]:
    """The columns that columns of `numbers` determine at every silo, each with its formula.

    These are numbers or, as the thresholds of numbers, among the `labels`.
    """
    found = set.intersection(*(set(profile.derived) for profile in profiles.values()))
    return {
        name: formula
        for name, formula, *sources in sorted(found)
        if set(sources) <= set(numbers) and (name in numbers or (name in labels and formula.startswith(THRESHOLD)))
    }
