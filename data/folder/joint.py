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
from .levels import MOST_LEVELS, joined_levels
from .profile import Profile

MOST_CODES = 10
"""distinct whole numbers that may be codes without anybody saying so"""
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
    silos = sorted(profiles)
    _check_columns(place, {silo: profiles[silo] for silo in silos}, declared, names)
    columns = joint_columns({silo: profiles[silo] for silo in silos})
    kinds = _kinds(place, columns, declared)
    aside, notes = dict[str, str](), list[str]()
    if not declared.reading.private:
        aside = {
            name: why
            for name, column in columns.items()
            if (
                why := why_aside(
                    name,
                    column,
                    kinds[name],
                    declared=declared.kind_of(name) is not None,
                    levels=name in declared.levels,
                )
            )
        }
    for name in aside:
        del columns[name]
    if not columns:
        why = ", ".join(f"{shown(name)} ({reason})" for name, reason in list(aside.items())[:3])
        raise BadInput(f"{place}: no column is left to learn from: {why or 'all are left out'}")
    kind = _kind_of_table(declared, {kinds[name] for name in columns})
    levels, joined = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for name in columns:
        if kinds[name] == "discrete":
            levels[name], joined[name] = _levels(place, name, columns[name], declared)
    rows = {silo: profiles[silo].rows for silo in silos}
    for silo in silos:
        _check_rows(names[silo], rows[silo], complete=bool(declared.complete))
    counts = {silo: tuple(profiles[silo].columns[name].empty for name in columns) for silo in silos}
    schema = Schema(
        tuple(columns),
        rows,
        kind,
        levels,
        empty=counts if any(map(any, counts.values())) else {},
        complete_rows=declared.reading.missing == "complete-rows" and bool(declared.complete),
        aside=aside,
    )
    if not declared.reading.private:
        notes += [f"{silo}: {note}" for silo in silos for note in profiles[silo].notes]
        notes += findings(schema, columns, declared, {name: twins for name, twins in joined.items() if twins})
    return Joint(schema, tuple(notes))


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
    if declared.kind == "mixed" and declared.columns:
        return False
    if column.labels is None or not 1 < len(column.labels) <= MOST_CODES:
        return False
    return not fractions or column.filled >= ROWS_PER_CODE * len(column.labels)


def _of_words(place: str, name: str, column: JointColumn) -> bool:
    """Say whether a column holds labels rather than numbers; raises `BadInput` if it holds both, and looks mistaken."""
    words = column.words - column.number_like
    if not column.words:
        return False
    if column.number_like <= words and words >= column.numbers + column.number_like:
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
    if declared.reading.private:
        raise BadInput(
            f"{place}: column '{name}': its levels are those that occur in the rows, which no ε covers: "
            "declare them in about.json for a private run"
        )
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
