"""The public schema of a federation, from what each silo tells of its table: which columns are variables, and how.

What is declared holds. Else a column of words is discrete and one of numbers continuous, but for whole numbers with few
values where other columns have words or fractions: these are codes. Columns that cannot be variables are set aside, and
whatever a reader of the result should know about how the tables were read becomes a note.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import LEAST_ROWS
from .aside import why_aside
from .declared import ColumnKind, Declared
from .findings import findings
from .joint_column import JointColumn, joint_columns
from .levels import MOST_CODES, MOST_LEVELS, check_levels_public, joined_levels
from .profile import TOO_FAR, Profile

ROWS_PER_CODE = 5
OFTEN, SHARE = 5, 0.02
"""times that each word among whole numbers occurs, on average, and part of the cells that are words, in a column of
codes; with fewer they are taken for mistakes"""


@dataclass(frozen=True)
class Joint:
    """The schema of a federation, and one line for each finding about how its tables were read."""

    schema: Schema
    notes: tuple[str, ...] = ()


def joint_schema(
    place: str, profiles: Mapping[str, Profile], declared: Declared, names: Mapping[str, str] | None = None
) -> Joint:
    """Return the schema of the silos with these `profiles`, and what is to be said about it.

    The variables are in the order of the first silo by name. `place` stands for all silos in messages, and `names` says
    how each is called there. Raises `BadInput` for columns that some silos have and others do not, for words among
    numbers, for a declared column that is not there, and if no variable remains.
    """
    names = names or {silo: f"silo {silo}" for silo in profiles}
    profiles = dict(sorted(profiles.items()))
    _check_columns(place, profiles, declared, names)
    for silo, profile in profiles.items():
        _check_rows(names[silo], profile.rows, complete=bool(declared.complete))
    every = joint_columns(profiles)
    kinds = _kinds(place, every, declared)
    aside = _left_out(place, profiles, declared) | _set_aside(every, kinds, declared)
    columns = {name: column for name, column in every.items() if name not in aside}
    if not columns:
        why = ", ".join(f"{shown(name)} ({reason})" for name, reason in list(aside.items())[:3])
        raise BadInput(f"{place}: no column is left to learn from: {why}")
    for name in columns:
        if kinds[name] == "continuous" and declared.reading.learned_from:
            _check_sizes(name, columns[name], names)
    levels, joined = _all_levels(
        place, {name: columns[name] for name in columns if kinds[name] == "discrete"}, declared
    )
    counts = {silo: tuple(profile.columns[name].empty for name in columns) for silo, profile in profiles.items()}
    schema = Schema(
        tuple(columns),
        {silo: profile.rows for silo, profile in profiles.items()},
        _kind_of_table(declared, {kinds[name] for name in columns}),
        levels,
        empty=counts if any(map(any, counts.values())) else {},
        complete_rows=declared.reading.missing == "complete-rows" and bool(declared.complete),
        aside=aside,
    )
    if declared.reading.private:
        return Joint(schema)
    notes = [f"{silo}: {note}" for silo, profile in profiles.items() for note in profile.notes]
    return Joint(schema, (*notes, *findings(schema, columns, declared, joined)))


def _check_sizes(name: str, column: JointColumn, names: Mapping[str, str]) -> None:
    """Raise `BadInput` for numbers whose powers are none any more: nothing could be computed from them."""
    for silo, part in column.parts.items():
        if part.beyond:
            raise BadInput(f"{names[silo]}: column {shown(name)}: {TOO_FAR}")


def _set_aside(
    columns: Mapping[str, JointColumn], kinds: Mapping[str, ColumnKind], declared: Declared
) -> dict[str, str]:
    """Return which columns cannot be variables, with why; in private runs none, as that would tell of their cells."""
    found = {
        name: why_aside(
            name, column, kinds[name], declared=declared.kind_of(name) is not None, levels=name in declared.levels
        )
        for name, column in columns.items()
        if not declared.reading.private
    }
    return {name: why for name, why in found.items() if why}


def _all_levels(
    place: str, columns: Mapping[str, JointColumn], declared: Declared
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return the levels of the discrete `columns`, and by column which spellings were joined to make them."""
    if declared.reading.private:
        check_levels_public(place, set(columns) - set(declared.levels))
    found = {name: _levels(place, name, column, declared) for name, column in columns.items()}
    joined = {name: spellings for name, (_, spellings) in found.items() if spellings}
    return {name: levels for name, (levels, _) in found.items()}, joined


def _left_out(place: str, profiles: Mapping[str, Profile], declared: Declared) -> dict[str, str]:
    """Return the columns that were to be left out, with why; raises `BadInput` for one that no silo has."""
    there = dict.fromkeys(name for profile in profiles.values() for name in profile.left_out)
    for name in declared.reading.ignore:
        if name not in there:
            raise BadInput(f"{place}: --ignore: {shown(name)} is not a column of any silo")
    return {name: declared.reading.leaves_out(name) or "" for name in there}


def _check_columns(place: str, profiles: Mapping[str, Profile], declared: Declared, names: Mapping[str, str]) -> None:
    """Raise `BadInput` unless all silos have the same columns, and those that anything is said about."""
    first, *others = profiles
    for silo in others:
        expected, found = profiles[first].variables, profiles[silo].variables
        for name in expected:
            if name not in found:
                raise BadInput(
                    f"{names[silo]}: column {shown(name)} is missing; {names[first].rpartition('/')[2]} has it: "
                    f"--ignore {name} leaves it out everywhere"
                )
        for name in found:
            if name not in expected:
                raise BadInput(
                    f"{names[silo]}: column {shown(name)} is one too many; {names[first].rpartition('/')[2]} does not "
                    f"have it: --ignore {name} leaves it out"
                )
    if declared.complete:
        return
    there = profiles[first].variables
    said = {"levels": declared.levels, "columns": declared.columns, "missing": declared.marks}
    for key, named in said.items():
        for name in named:
            if name not in there and declared.keeps(name):
                raise BadInput(f"{place}: about.json: {key}: {shown(name)} is not a column of the data")
    for name in declared.reading.only:
        if name not in there:
            raise BadInput(f"{place}: --only: {shown(name)} is not a column of the data")


def _kinds(place: str, columns: Mapping[str, JointColumn], declared: Declared) -> dict[str, ColumnKind]:
    """Return the kind of each column: as declared, or as it looks beside the others."""
    told = {name: declared.kind_of(name) for name in columns}
    wordy = {name for name in columns if told[name] is None and _of_words(place, name, columns[name])}
    fractions = any(not column.whole for name, column in columns.items() if told[name] != "discrete")
    labels = bool(wordy or declared.levels) or "discrete" in told.values()
    kinds: dict[str, ColumnKind] = {}
    for name, column in columns.items():
        kind = told[name]
        if kind is None and name in wordy:
            kind = "discrete"
        elif kind is None:
            kind = "discrete" if is_code(column, declared, labels=labels, fractions=fractions) else "continuous"
        kinds[name] = kind
    return kinds


def is_code(column: JointColumn, declared: Declared, *, labels: bool, fractions: bool) -> bool:
    """Say whether a column of whole numbers holds codes, beside columns of labels or fractions.

    Nothing is taken for codes in private runs beside fractions, as the number of values is not told there.
    """
    if not column.whole or not column.numbers or not (labels or fractions):
        return False
    if declared.kind is None and declared.levels and not fractions:
        return column.labels is not None or declared.reading.private
    if column.labels is None or not 1 < len(column.labels) <= MOST_CODES:
        return False
    return not fractions or column.filled >= ROWS_PER_CODE * len(column.labels)


def _of_words(place: str, name: str, column: JointColumn) -> bool:
    """Say whether a column holds labels rather than numbers; raises `BadInput` if it holds both, and looks mistaken."""
    words = column.words - column.number_like
    if not column.words:
        return False
    if words >= column.numbers + column.number_like:
        if column.whole or column.labels is not None:
            return True
    elif not column.number_like and column.whole and column.labels is not None and _often(column):
        return True
    remedy = (
        f"correct it, leave the column out by --ignore {name}, or, if it has labels, say so in about.json: "
        f'{{"columns": {{"{name}": "discrete"}}}}'
    )
    raise BadInput(f"{column.odd or f'{place}: column {shown(name)}: it has words and fractions'}; {remedy}")


def _often(column: JointColumn) -> bool:
    return column.words >= max(OFTEN * column.kinds_of_words, SHARE * column.filled)


def _kind_of_table(declared: Declared, kinds: set[ColumnKind]) -> Kind:
    """Return the kind of the data, from those of its columns."""
    if declared.kind == "mixed" or len(kinds) > 1:
        return "mixed"
    return "continuous" if kinds == {"continuous"} else "discrete"


def _levels(place: str, name: str, column: JointColumn, declared: Declared) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the levels of a discrete column, and which spellings were joined to make them."""
    if name in declared.levels:
        return tuple(declared.levels[name]), ()
    levels, joined = joined_levels(column.labels or ())
    if len(levels) > MOST_LEVELS and name not in declared.columns:
        raise BadInput(f"{place}: column {shown(name)}: {len(levels)} levels over all silos, more than {MOST_LEVELS}")
    return levels, joined


def _check_rows(place: str, rows: int, *, complete: bool) -> None:
    if rows < LEAST_ROWS:
        count = "only one row" if rows else "no rows"
        what = f"{count} without an empty cell" if complete else count
        need = "; at least two are needed" if rows else ""
        need += ": --ignore leaves out columns that are mostly empty" * complete
        raise BadInput(f"{place}: {what}{need}")
