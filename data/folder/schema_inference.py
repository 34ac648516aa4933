"""The public schema of a federation, inferred from the profiles of the silos' tables: variables, kinds and levels.

`infer_schema` decides in this order, always by the profiles of all silos together; a declaration takes precedence.

1. The kind of each column: a column of words is discrete, and a column of numbers is continuous. Integers with few
   values are codes, and so discrete, if other columns have words or fractions.
2. The variables: constants, identifiers, free text, and columns that are almost empty are excluded, with the reason.
3. The levels of discrete variables, the transforms of continuous ones, and the kind of the data. Findings on how the
   tables were read become notes (`table_notes.py`).

`negotiate_schema` requests the profiles from the silos. If incomplete rows are left out, it repeats this with profiles
of the complete rows, until no further variable is excluded.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedbnsl.algorithms.core.release import Level
from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.errors import BadInput, quoted, with_name_of

from ..federated import MIN_SILO_ROWS, outlier_notes
from .about import RECURRING, ColumnKind, Declared
from .cells import MAX_CODES, MAX_LEVELS, MIN_RECURRENCE, are_few_labels, merged_levels
from .chunked_series import passes_notes
from .dates import common_origin
from .events import DescribedEvents, event_notes, events_schema
from .joint_columns import (
    JointColumn,
    check_columns,
    check_selected,
    common_derived,
    count_codings,
    excluded_columns,
    joined_columns,
    joint_columns,
    labels_among_marks,
    scales_of,
    skewed_columns,
    transforms_of,
    with_declared_transforms,
    with_words,
)
from .missing_codes import is_missing_word
from .private_table import ORDER_NOTE, declared_schema
from .profile import BEYOND_RANGE, Profile
from .series import DescribedSeries, left_out_notes, series_schema
from .table_notes import table_notes
from .tally import ID

MAX_EMPTY_SHARE = 0.9
"""share of empty cells above which a column is excluded"""
MIN_ID_ROWS = 20
"""minimum number of rows for which all distinct values indicate an identifier"""
MAX_RECURRENCE = 10.0
"""maximum mean number of rows of a value of an identifier, whose rows are then repeated measures"""
DESIGN = re.compile(
    r"(.*[ _.-])?(stratum|strata|psu|fnlwgt|finalwt|pweights?|probweights?|"
    r"(survey|sampling|sample|svy|final|design|case|person|household|post)[ _.-]?(weights?|wgt|wt)|wt(mec|int|dr)\w*|"
    r"sdmv(psu|stra))",
    re.IGNORECASE,
)
"""pattern of the names of strata, sampling units and weights of a survey"""
TIMES = re.compile(r"(.*[ _.-])?(year|yr|quarter|month|week|day|date|period)", re.IGNORECASE)
REPEATED = "their rows may be repeated measures, which count as independent rows without --cluster {}"
DECLARE_KIND = 'declare {{"columns": {{"{}": "continuous"}}}} in about.json'
DECLARE = "declare its levels in about.json if this is intended"


def exclusion_reason(name: str, column: JointColumn, kind: ColumnKind, *, declared: bool, levels: bool) -> str | None:
    """The reason why the column `name` of this `kind` cannot be a variable; None if it can.

    A column whose kind is `declared` is excluded only if it is empty, constant, or has too many labels. A column whose
    `levels` are declared is excluded only if it is empty.
    """
    rows = column.filled + column.empty
    if not column.filled:
        return "empty in every row" if rows else None
    if column.is_of_silos and not levels:
        return "the silo determines it: all its cells are the same within each silo"
    if column.labels is not None and len(column.labels) == 1 and not levels:
        return f"constant: every cell is {quoted(column.labels[0])}"
    if column.periods and not declared:
        return f"quarters or months: --time {name} reads the rows as time series; {DECLARE}"
    few = column.labels is not None and (declared or _may_be_levels(name, column))
    if kind == "discrete" and not levels and not few:
        return _many_labels(name, column)
    return None if declared else _undeclared_reason(name, column, kind)


def _undeclared_reason(name: str, column: JointColumn, kind: ColumnKind) -> str | None:
    """The reason why a column without a declared kind is hardly a measurement; None if it may be one."""
    rows = column.filled + column.empty
    if column.empty > MAX_EMPTY_SHARE * rows:
        return f"empty in {column.empty / rows:.0%} of the rows"
    if rows >= MIN_ID_ROWS and column.whole and column.unique and (column.consecutive or ID.fullmatch(name)):
        as_time = f"; --time {name} reads the rows as time series" if TIMES.fullmatch(name) else ""
        return f"row numbers or ids: all values are distinct{as_time}"
    recurring = 0 < column.recurrence <= MAX_RECURRENCE and column.distinct > MAX_LEVELS
    if kind == "continuous" and column.whole and recurring:
        often = f"{column.recurrence:g} rows each" if column.recurrence > 1 else "a few twice"
        return f"{RECURRING} ({often}): {REPEATED.format(name)}; {DECLARE_KIND.format(name)} if it is a measurement"
    if DESIGN.fullmatch(name):
        return (
            "strata, sampling units or weights of a survey, which are not a measurement: rows count equally; "
            f"{DECLARE_KIND.format(name)} if it is one"
        )
    return None


def _many_labels(name: str, column: JointColumn) -> str:
    """The reason for excluding the column `name` of too many labels."""
    if column.dates:
        return f"dates: --dates days reads them as days since the first one; {DECLARE}"
    if column.padded and not column.words:
        return f"codes with leading zeros, of which there are more than {MAX_LEVELS}; {DECLARE}"
    if ID.fullmatch(name) and not column.unique:
        return f"{RECURRING}: {REPEATED.format(name)}; {DECLARE}"
    return f"more than {MAX_LEVELS} distinct labels, such as names, ids, dates or free text; {DECLARE}"


def _may_be_levels(name: str, column: JointColumn) -> bool:
    """Whether the labels of a column are few, or recur in its rows and are neither identifiers nor dates."""
    labels = column.labels or ()
    if len(labels) <= MAX_LEVELS:
        return True
    return (
        not column.dates and ID.fullmatch(name) is None and are_few_labels(len(labels), column.filled, MIN_RECURRENCE)
    )


ROWS_PER_CODE = 5
MIN_WORD_COUNT, MIN_WORD_SHARE = 5, 0.02
"""minimum mean count of a word among integers, and minimum share of words, in a column of codes; fewer words are
treated as mistakes"""


@dataclass(frozen=True)
class InferredSchema:
    """The schema of a federation, and one line for each finding on how its tables were read."""

    schema: Schema
    notes: tuple[str, ...] = ()
    without_members: tuple[str, ...] = ()
    """silos whose owners know no other silo by its certificate"""
    suppressed_cells: bool = False
    """whether the policy of any owner sets small counts to 0"""
    declared: Declared | None = None
    """the declaration by which the silos describe and read their rows, if it is another than that of the request"""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """by silo, the level of its owner's policy"""


def infer_series(place: str, series: Sequence[DescribedSeries], declared: Declared) -> InferredSchema:
    """The schema of time series with the same columns and time step, and its notes.

    Raises `BadInput` with `place` if a selected or excluded column does not exist.
    """
    schema = with_declared_transforms(series_schema(series, declared), declared)
    check_selected(place, schema.variables, replace(declared, kind="time-series"))
    schema = replace(schema, aside=excluded_columns(place, [one.excluded for one in series], declared))
    notes = left_out_notes(schema.rows, {one.silo: one.left_out for one in series})
    notes += passes_notes(schema)
    return InferredSchema(schema, notes)


def infer_events(place: str, events: Sequence[DescribedEvents], declared: Declared) -> InferredSchema:
    """The schema of event sequences, and its notes; raises `BadInput` with `place` for an invalid name of a type."""
    types, rows = {one.silo: one.types for one in events}, {one.silo: one.rows for one in events}
    aside = excluded_columns(place, [one.excluded for one in events], declared)
    schema = replace(events_schema(place, types, rows), aside=aside)
    return InferredSchema(schema, event_notes(schema.variables, [one.silo for one in events if one.linked]))


def infer_schema(
    place: str, profiles: Mapping[str, Profile], declared: Declared, names: Mapping[str, str] | None = None
) -> InferredSchema:
    """The schema of the silos with these `profiles`, and its notes.

    The variables are in the order of the first silo by name. In messages, `place` names all silos together, and `names`
    has a name for each silo. Raises `BadInput` for columns that only some silos have, for words among numbers, for a
    declared column that does not exist, and if no variable remains.
    """
    names = names or {silo: f"silo {silo}" for silo in profiles}
    profiles, uncommon = joined_columns(place, dict(sorted(profiles.items())), declared)
    check_columns(place, profiles, declared, names, uncommon)
    for silo, profile in profiles.items():
        _check_rows(names[silo], profile.rows, complete=bool(declared.complete))
    read_without = excluded_columns(place, [profile.left_out for profile in profiles.values()], declared)
    if declared.reading.private:
        return _private_schema(place, profiles, declared, read_without | uncommon)
    if not declared.complete:
        words = labels_among_marks(joint_columns(profiles), declared)
        profiles = {silo: with_words(profile, words) for silo, profile in profiles.items()}
    all_columns = joint_columns(profiles)
    others, own = _others(all_columns, declared), declared.without_survival()
    kinds, counts = _kinds(
        place, others, own, as_labels=depend_as_labels([one.dependence for one in profiles.values()])
    )
    kinds.update(_kinds_of_survival(declared))
    excluded = read_without | uncommon | _excluded(all_columns, kinds, declared)
    columns = {name: column for name, column in all_columns.items() if name not in excluded}
    _require_columns(place, _others(columns, declared), excluded)
    _check_shared_labels(columns, kinds, declared, names)
    levels, joined = _levels_of_columns(
        place, {name: columns[name] for name in columns if kinds[name] == "discrete"}, declared
    )
    empty = {silo: tuple(profile.columns[name].empty for name in columns) for silo, profile in profiles.items()}
    numbers = {name: column for name, column in columns.items() if kinds[name] == "continuous"}
    if declared.reading.learned_from:
        _check_sizes(numbers, names)
    transforms = transforms_of(place, numbers, counts, declared)
    schema = Schema(
        tuple(columns),
        {silo: profile.rows for silo, profile in profiles.items()},
        _kind_of_table(declared, {kinds[name] for name in columns}),
        levels,
        empty=empty if any(map(any, empty.values())) else {},
        complete_rows=declared.reading.missing == "complete-rows" and bool(declared.complete),
        aside=excluded,
        transforms=transforms,
        dates=_dates(place, numbers),
        unit_of=_units(place, columns, declared),
        derived=common_derived(profiles, list(numbers), levels),
        counts=tuple(name for name in numbers if name in counts),
        skewed={} if declared.complete else skewed_columns(numbers, transforms, declared),
    )
    schema = _without_survival_columns(place, _with_conditions(schema, profiles), declared, kinds)
    notes = [f"{silo}: {note}" for silo, profile in profiles.items() for note in profile.notes]
    return InferredSchema(schema, (*notes, *table_notes(schema, columns, declared, joined)))


def _private_schema(
    place: str, profiles: Mapping[str, Profile], declared: Declared, aside: dict[str, str]
) -> InferredSchema:
    """The declared schema of a run with an ε; the columns `aside` are excluded.

    Raises `BadInput` for survival outcomes.
    """
    if declared.survival:
        raise BadInput(
            f"{place}: about.json: survival: an ε does not cover survival outcomes, and owners at level sums do not "
            f"allow them: leave their columns out with --ignore {','.join(declared.survival_columns)}"
        )
    schema = with_declared_transforms(declared_schema(place, profiles, declared), declared)
    return InferredSchema(replace(schema, aside=aside), (ORDER_NOTE,) if schema.kind == "time-series" else ())


def _with_conditions(schema: Schema, profiles: Mapping[str, Profile]) -> Schema:
    """`schema` with the names and the numbers of rows of the conditions of each silo, if a column names them."""
    parts = {silo: one.conditions for silo, one in profiles.items() if one.conditions}
    sizes = {silo: tuple(rows for _, rows in own) for silo, own in parts.items()}
    names = {silo: tuple(name for name, _ in own) for silo, own in parts.items()}
    return replace(schema, stretches=sizes, condition_names=names)


def _dates(place: str, numbers: Mapping[str, JointColumn]) -> dict[str, tuple[str, str]]:
    """The origin of the days of each column of dates; raises `BadInput` as `common_origin` does."""
    return {
        name: common_origin(place, name, [part.first_dates for part in column.parts.values() if part.filled])
        for name, column in numbers.items()
        if column.dates
    }


def _units(place: str, columns: Mapping[str, JointColumn], declared: Declared) -> dict[str, str]:
    """The unit of each column that has one, or that has numbers with other marks; raises `BadInput` for two units."""
    for name, silos in {name: column.units for name, column in columns.items() if len(column.units) > 1}.items():
        written = ", ".join(f"{unit} at {silo}" for unit, silo in silos.items())
        raise BadInput(
            f"{place}: column {quoted(name)}: its numbers have several units ({written}): convert those of one "
            f'silo by "scale" in about.json, as in {{"scale": {{"{max(silos.values())}": {{"{name}": FACTOR}}}}}}'
        )
    found = {name: next(iter(column.units), "") for name, column in columns.items() if column.has_quantities}
    return {name: unit for name, unit in (found | dict(declared.unit)).items() if name in columns}


def _others(columns: Mapping[str, JointColumn], declared: Declared) -> dict[str, JointColumn]:
    """The columns that belong to no survival outcome."""
    return {name: column for name, column in columns.items() if name not in declared.survival_columns}


def _kinds_of_survival(declared: Declared) -> dict[str, ColumnKind]:
    """The kinds of the columns of survival outcomes: numbers for times, labels for events."""
    return {name: "continuous" if name in declared.times else "discrete" for name in declared.survival_columns}


def _without_survival_columns(
    place: str, schema: Schema, declared: Declared, kinds: Mapping[str, ColumnKind]
) -> Schema:
    """`schema`, whose columns have these `kinds`, with survival outcomes in place of their columns.

    Raises `BadInput` for a column that was excluded.
    """
    if not declared.survival:
        return schema
    kind = _kind_of_table(declared, {kinds[v] for v in schema.variables if v not in declared.survival_columns})
    for name in declared.survival_columns:
        if name in schema.aside:
            raise BadInput(f"{place}: about.json: survival: column {quoted(name)} is left out: {schema.aside[name]}")
    return schema.without_survival_columns(dict(declared.survival), kind)


def _require_columns(place: str, columns: Mapping[str, JointColumn], excluded: Mapping[str, str]) -> None:
    """Raise `BadInput` if all columns were excluded."""
    if not columns:
        reasons = ", ".join(f"{quoted(name)} ({reason})" for name, reason in list(excluded.items())[:3])
        raise BadInput(f"{place}: no column is left to learn from: {reasons}")


def _check_sizes(numbers: Mapping[str, JointColumn], names: Mapping[str, str]) -> None:
    """Raise `BadInput` for numbers beyond the range of the computations."""
    for name, column in numbers.items():
        for silo, part in column.parts.items():
            if part.beyond:
                raise BadInput(f"{names[silo]}: column {quoted(name)}: {BEYOND_RANGE}")


def _excluded(
    columns: Mapping[str, JointColumn], kinds: Mapping[str, ColumnKind], declared: Declared
) -> dict[str, str]:
    """The columns that cannot be variables, with the reasons."""
    reasons = {
        name: exclusion_reason(
            name, column, kinds[name], declared=declared.kind_of(name) is not None, levels=name in declared.levels
        )
        for name, column in columns.items()
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _levels_of_columns(
    place: str, columns: Mapping[str, JointColumn], declared: Declared
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """The levels of the discrete `columns`, and by column the labels that were merged into other labels."""
    pairs = {name: _levels(place, name, column, declared) for name, column in columns.items()}
    joined = {name: spellings for name, (_, spellings) in pairs.items() if spellings}
    return {name: levels for name, (levels, _) in pairs.items()}, joined


def _check_shared_labels(
    columns: Mapping[str, JointColumn],
    kinds: Mapping[str, ColumnKind],
    declared: Declared,
    names: Mapping[str, str],
) -> None:
    """Raise `BadInput` for a column of a silo with several undeclared labels, none of which another silo has.

    Such labels are other words for the same, from which each silo would learn separately.
    """
    undeclared = [name for name in columns if kinds[name] == "discrete" and name not in declared.levels]
    for name in [name for name in undeclared if columns[name].words or columns[name].labelled]:
        for silo, own, elsewhere in columns[name].labels_of_one_silo:
            mine, theirs = (", ".join(map(quoted, sorted(some)[:4])) for some in (own, elsewhere))
            raise BadInput(
                f"{names[silo]}: column {quoted(name)}: no other silo has one of its labels ({mine}; elsewhere "
                f'{theirs}): `fedbnsl inspect FOLDER --write` drafts which mean the same ("recode" in about.json); '
                f"if none do, leave the column out with --ignore {name}"
            )


MIN_LABEL_GAIN = 1.35
"""minimum ratio of the dependence as labels to that as numbers, above which integers are labels"""
MIN_EXCESS, NOISE_DEVIATIONS = 0.05, 3.0
"""minimum excess of the dependence as labels over chance: as a share of the gain by chance, and in standard deviations
of that gain"""


def depend_as_labels(gains: Sequence[tuple[int, int, int]]) -> bool:
    """Whether integers with few values depend on each other as labels, given the `dependence` in each silo.

    Labels in an order with a nearly linear dependence, such as grades of agreement, gain little more than numbers do.
    """
    labels, numbers, chance = np.sum(gains, axis=0)
    return bool(labels > MIN_LABEL_GAIN * max(numbers, 0) + MIN_EXCESS * chance + NOISE_DEVIATIONS * np.sqrt(chance))


def _kinds(
    place: str, columns: Mapping[str, JointColumn], declared: Declared, *, as_labels: bool
) -> tuple[dict[str, ColumnKind], dict[str, str]]:
    """The kind of each column, declared or inferred in view of the other columns, and the coding of counts.

    `as_labels` says that integers with few values are labels, even if no other column has words or fractions.
    """
    kinds: dict[str, ColumnKind | None] = {name: declared.kind_of(name) for name in columns}
    undeclared = {name: column for name, column in columns.items() if kinds[name] is None}
    texts = {name for name, one in undeclared.items() if one.labelled or _is_text(place, name, one)}
    fractions = any(not column.whole for name, column in columns.items() if kinds[name] != "discrete")
    labels = bool(texts or declared.levels) or "discrete" in kinds.values()
    numbers = {name: column for name, column in undeclared.items() if name not in texts}
    coded = set() if labels or fractions else _codes_alone(numbers, declared, as_labels=as_labels)
    all_discrete = declared.kind is None and bool(declared.levels) and not fractions
    counts = {} if all_discrete else count_codings({name: one for name, one in numbers.items() if name not in coded})
    counts |= {
        name: columns[name].majority(lambda part: part.counted, "") or "anscombe"
        for name, kind in declared.columns.items()
        if kind == "count" and name in columns
    }
    codes = coded | {
        name
        for name, column in numbers.items()
        if name not in counts and is_code(column, declared, labels=labels, fractions=fractions)
    }
    days = {name for name in texts if declared.reading.dates == "days" and columns[name].dates}
    discrete = (texts - days) | codes
    inferred: dict[str, ColumnKind] = {name: "discrete" if name in discrete else "continuous" for name in columns}
    return {name: kind or inferred[name] for name, kind in kinds.items()}, counts


def _codes_alone(columns: Mapping[str, JointColumn], declared: Declared, *, as_labels: bool) -> set[str]:
    """The columns of codes in a table of integers only: all that have few values, or none."""
    few = {name for name, one in columns.items() if is_code(one, declared, labels=True, fractions=True)}
    # Two values have no distances, so columns that all have two values are labels.
    two_values = len(few) > 1 and all(len(columns[name].labels or ()) == 2 for name in few)
    return few if as_labels or two_values else set()


def is_code(column: JointColumn, declared: Declared, *, labels: bool, fractions: bool) -> bool:
    """Whether a column of integers has codes, given that other columns have labels or fractions."""
    if not column.whole or not column.numbers or not (labels or fractions):
        return False
    if declared.kind is None and declared.levels and not fractions:
        return column.labels is not None
    if column.labels is None or not 1 < len(column.labels) <= MAX_CODES:
        return False
    return not fractions or column.filled >= ROWS_PER_CODE * len(column.labels)


def _is_text(place: str, name: str, column: JointColumn) -> bool:
    """Whether a column has labels rather than numbers; raises `BadInput` for a mixture that looks like a mistake."""
    if not column.words:
        return column.padded and column.whole
    few = column.labels is not None
    if column.has_words and (column.whole or few or column.kinds_of_words > MAX_LEVELS):
        return True
    if not column.has_words and not column.number_like and column.whole and few and _words_are_labels(column):
        return True
    word = re.search(r": '([^']*)' is not a number$", column.odd)
    remedy = ""
    if word is not None and is_missing_word(word[1]):
        declare = f'{{"missing": {{"{name}": ["{word[1]}"]}}}}'
        remedy = f"if it marks a missing value, declare {declare} in about.json; if not, "
    remedy += (
        f"correct it, leave the column out with --ignore {name}, or, if it has labels, declare "
        f'{{"columns": {{"{name}": "discrete"}}}} in about.json'
    )
    if not column.odd:
        silos = ", ".join(silo for silo, part in column.parts.items() if part.words)
        raise BadInput(f"{place}: column {quoted(name)}: it has words and fractions (words at {silos}); {remedy}")
    silo = next(silo for silo, part in column.parts.items() if part.odd)
    raise BadInput(f"{with_name_of(silo, column.odd)}; {remedy}")


def _words_are_labels(column: JointColumn) -> bool:
    return column.words >= max(MIN_WORD_COUNT * column.kinds_of_words, MIN_WORD_SHARE * column.filled)


def _kind_of_table(declared: Declared, kinds: set[ColumnKind]) -> Kind:
    """The kind of the data, from the kinds of its columns."""
    if declared.kind == "mixed" or len(kinds) > 1:
        return "mixed"
    return "continuous" if kinds == {"continuous"} else "discrete"


def _levels(place: str, name: str, column: JointColumn, declared: Declared) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The levels of a discrete column, and the labels merged into others; raises `BadInput` for too many levels."""
    if name in declared.levels:
        return tuple(declared.levels[name]), ()
    levels, joined = merged_levels(column.labels or ())
    if name not in declared.columns and not are_few_labels(len(levels), column.filled, MIN_RECURRENCE):
        raise BadInput(f"{place}: column {quoted(name)}: {len(levels)} levels over all silos, more than {MAX_LEVELS}")
    return levels, joined


def _check_rows(place: str, rows: int, *, complete: bool) -> None:
    if rows < MIN_SILO_ROWS:
        count = "only one row" if rows else "no rows"
        fault = f"{count} without an empty cell" if complete else count
        remedy = "; at least two are needed" if rows else ""
        remedy += ": --ignore leaves out columns that are mostly empty" * complete
        raise BadInput(f"{place}: {fault}{remedy}")


ProfileRequest = Callable[[Declared], Mapping[str, Profile]]
"""declarations -> the profile of each silo"""


def negotiate_schema(
    place: str, request: ProfileRequest, declared: Declared, names: Mapping[str, str] | None = None
) -> InferredSchema:
    """The schema of the silos whose profiles `request` returns; raises `BadInput` as `request` and `infer_schema` do.

    If rows with empty cells are left out or refused, or outliers are set aside, the first schema decides the variables
    and their kinds. The silos then send profiles of the remaining rows, until no further variable is excluded.
    """
    inferred = infer_schema(place, request(declared), declared, names)
    reading, discrete = declared.reading, len(inferred.schema.levels) == len(inferred.schema.variables)
    gaps = inferred.schema.gaps or (reading.missing == "refuse" and bool(inferred.schema.survival_empty))
    if (reading.missing == "model" or not gaps) and (reading.outliers == "keep" or discrete):
        return inferred
    while True:
        schema = inferred.schema.with_survival_columns()
        kinds: dict[str, ColumnKind] = {
            name: "discrete" if name in schema.levels else "continuous" for name in schema.variables
        }
        complete = declared.of_complete(kinds, schema.levels, schema.transforms, schema.dates)
        profiles = _with_columns(request(complete), schema.variables)
        new = infer_schema(place, profiles, complete, names).schema
        aside = schema.aside | new.aside
        schema_now = replace(new, kind=inferred.schema.kind, aside=aside, **scales_of(inferred.schema, new))
        inferred = replace(inferred, schema=schema_now)
        if new.with_survival_columns().variables == schema.variables:
            notes = outlier_notes(schema_now, _outliers(profiles, schema_now, declared))
            return replace(inferred, notes=(*inferred.notes, *notes))


def _outliers(profiles: Mapping[str, Profile], schema: Schema, declared: Declared) -> dict[str, tuple[int, ...]]:
    """By silo, the number of cells of each variable of `schema` that were set aside as outliers; {} if all are kept."""
    if declared.reading.outliers == "keep":
        return {}
    return {silo: tuple(one.columns[name].outliers for name in schema.variables) for silo, one in profiles.items()}


def _with_columns(profiles: Mapping[str, Profile], variables: tuple[str, ...]) -> dict[str, Profile]:
    return {
        silo: replace(profile, columns={name: profile.columns[name] for name in profile.variables if name in variables})
        for silo, profile in profiles.items()
    }
