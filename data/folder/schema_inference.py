"""How coordinator and silos come to a schema: silos tell their profiles, and those of complete rows if asked.

Columns that cannot be variables: constants, ids, free text, columns of almost nothing but empty cells.

The public schema of a federation, from what each silo tells of its table: which columns are variables, and how.

What is declared holds. Else a column of words is discrete and one of numbers continuous, but for whole numbers with few
values where other columns have words or fractions: these are codes. Columns that cannot be variables are set aside, and
whatever a reader of the result should know about how the tables were read becomes a note.

What a reader should know about how a federation's tables were read, one line for each finding.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import LEAST_ROWS
from .about import ColumnKind, Declared
from .private_table import declared_schema
from .profile import TOO_FAR, JointColumn, Profile, joint_columns
from .scan import MOST_CODES, MOST_LEVELS, merged_levels

SHOWN = 6
"""columns or labels that a line names"""
MANY_VALUES = 20
"""distinct values above which a zero apart from all of them is worth a word"""
DECADES = 0.9
"""powers of ten by which the medians of silos may differ in the same unit"""
LARGE = 6
"""powers of ten that are written as such"""

Columns = Mapping[str, JointColumn]


def table_notes(
    schema: Schema, columns: Columns, declared: Declared, joined: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """A line for each finding about the variables of `schema`, made of `columns`.

    `joined` are, by variable, the labels that are spelled like others and so were joined to them.
    """
    told = [*_codes(schema, columns, declared), *_spellings(schema, columns, joined)]
    if len(schema.rows) > 1:
        told += [*_levels_of_one(schema, columns), *_empty_or_constant(schema, columns), *_units(schema, columns)]
    return (*told, *_zeros(schema, columns))


def _codes(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    numeric = [name for name in schema.variables if not columns[name].words and declared.kind_of(name) is None]
    codes = [name for name in numeric if name in schema.levels]
    if codes:
        yield (
            f"codes: {_listed(codes, 12)} hold few whole numbers, which are read as labels; for one of quantities "
            f'say {{"columns": {{"{codes[0]}": "continuous"}}}} in about.json'
        )
    few = [name for name in numeric if name not in schema.levels and _few(columns[name])]
    if few and declared.kind is None:
        yield (
            f"integer codes with few values: {_listed(few)} are read as numbers; for one that holds labels say "
            f'{{"columns": {{"{few[0]}": "discrete"}}}} in about.json'
        )


def _few(column: JointColumn) -> bool:
    return column.whole and column.labels is not None and len(column.labels) <= MOST_CODES < column.filled


def _spellings(schema: Schema, columns: Columns, joined: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, labels in joined.items():
        yield (
            f"{name}: {_listed(map(shown, labels))} counts as the level that differs only by capitals or spaces; "
            "declare the levels in about.json to keep them apart"
        )
    spaced = [name for name in schema.levels if any(part.spaced for part in columns[name].parts.values())]
    if spaced:
        yield f"spaces around some labels of {_listed(spaced)} are left out"


def _levels_of_one(schema: Schema, columns: Columns) -> Iterator[str]:
    """Which labels occur in one silo alone."""
    found = []
    for name in schema.levels:
        owners: dict[str, list[str]] = {}
        for silo, part in columns[name].parts.items():
            for label in part.labels or ():
                owners.setdefault(label, []).append(silo)
        if sum(bool(part.filled) for part in columns[name].parts.values()) > 1:
            found += [f"{name} {shown(label)} ({silos[0]})" for label, silos in owners.items() if len(silos) == 1]
    if found:
        yield f"levels that one silo alone has: {_listed(found)}"


def _empty_or_constant(schema: Schema, columns: Columns) -> Iterator[str]:
    for name in schema.variables:
        parts = columns[name].parts
        empty = [silo for silo, part in parts.items() if not part.filled]
        zero = _zeros_apart(columns[name]) if name not in schema.levels else {}
        same = [silo for silo, part in parts.items() if part.distinct == 1 and part.filled > 1 and not zero.get(silo)]
        if empty:
            yield f"{name}: empty in every row of {_listed(empty)}"
        if same:
            value = parts[same[0]].labels
            what = shown(value[0]) if value and len({parts[silo].labels for silo in same}) == 1 else "the same"
            yield f"{name}: always {what} where it is given, at {_listed(same)}"


def _units(schema: Schema, columns: Columns) -> Iterator[str]:
    """Which silos' numbers are ten times as large as those of the others, or more, or as small."""
    for name in schema.variables:
        sizes = {silo: part.size for silo, part in columns[name].parts.items() if part.size is not None}
        if name in schema.levels or len(sizes) < 2:
            continue
        middle = median(sizes.values())
        far = {silo: size - middle for silo, size in sizes.items() if abs(size - middle) >= DECADES}
        if len(sizes) == 2 and max(sizes.values()) - min(sizes.values()) >= DECADES:
            small, large = sorted(sizes, key=lambda silo: sizes[silo])
            far = {large: sizes[large] - sizes[small]}
        for silo, decades in far.items():
            factor = f"{10**decades:.2g}" if abs(decades) < LARGE else f"10^{decades:.0f}"
            times = f"about {factor} times that of the others"
            yield f"{name}: the median at {silo} is {times}: is it in another unit there?"


def _zeros(schema: Schema, columns: Columns) -> Iterator[str]:
    """Where 0 may mark a missing value: all other values lie far from it."""
    for name in schema.variables:
        zeros = _zeros_apart(columns[name]) if name not in schema.levels else {}
        if zeros:
            filled = {silo: columns[name].parts[silo].filled for silo in zeros}
            where = _listed([f"{'all ' * (count == filled[silo])}{count} at {silo}" for silo, count in zeros.items()])
            yield (
                f"{name}: 0 stands far from all other values ({where}); if it marks a missing value, say "
                f'{{"missing": {{"{name}": ["0"]}}}} in about.json'
            )


def _zeros_apart(column: JointColumn) -> dict[str, int]:
    """How many cells are 0, by silo, in a column all of whose other values lie far from it; else nothing."""
    sized = [part for part in column.parts.values() if part.size is not None]
    if all(part.distinct <= MANY_VALUES for part in sized) or not all(part.apart for part in sized):
        return {}
    return {silo: part.zeros for silo, part in column.parts.items() if part.zeros}


def _listed(names: Iterable[str], most: int = SHOWN) -> str:
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


NEARLY = 0.9
"""part of the cells above which a column counts as empty"""
ROWS_OF_IDS = 20
"""rows from which on values that are all different say something"""
ID = re.compile(r"(.*[ _.-])?(id|ids|uuid|guid|index|idx|key|nr|no|number|rownames?|row)|unnamed: ?\d+", re.IGNORECASE)
DECLARE = "declare its levels in about.json if it is meant"


def exclusion_reason(name: str, column: JointColumn, kind: ColumnKind, *, declared: bool, levels: bool) -> str | None:
    """Why the column `name` of this `kind` cannot be a variable, None if it can.

    One whose kind is `declared` is taken at its word, but for a constant; its `levels`, if declared, may be any.
    """
    rows = column.filled + column.empty
    if not column.filled:
        return "empty in every row" if rows else None
    if column.labels is not None and len(column.labels) == 1 and not levels:
        return f"constant: every cell is {shown(column.labels[0])}"
    if (
        kind == "discrete"
        and not levels
        and (column.labels is None or (not declared and len(column.labels) > MOST_LEVELS))
    ):
        return f"more than {MOST_LEVELS} different labels, as of names, ids, dates or free text; {DECLARE}"
    if declared:
        return None
    if column.empty > NEARLY * rows:
        return f"empty in {column.empty / rows:.0%} of the rows"
    if rows >= ROWS_OF_IDS and column.whole and column.unique and (column.consecutive or ID.fullmatch(name)):
        return "row numbers or ids: every value is another"
    return None


ROWS_PER_CODE = 5
OFTEN, SHARE = 5, 0.02
"""times that each word among whole numbers occurs, on average, and part of the cells that are words, in a column of
codes; with fewer they are taken for mistakes"""


@dataclass(frozen=True)
class InferredSchema:
    """The schema of a federation, and one line for each finding about how its tables were read."""

    schema: Schema
    notes: tuple[str, ...] = ()


def infer_schema(
    place: str, profiles: Mapping[str, Profile], declared: Declared, names: Mapping[str, str] | None = None
) -> InferredSchema:
    """The schema of the silos with these `profiles`, and what is to be said about it.

    The variables are in the order of the first silo by name. `place` stands for all silos in messages, and `names` says
    how each is called there. Raises `BadInput` for columns that some silos have and others do not, for words among
    numbers, for a declared column that is not there, and if no variable remains.
    """
    names = names or {silo: f"silo {silo}" for silo in profiles}
    profiles = dict(sorted(profiles.items()))
    _check_columns(place, profiles, declared, names)
    for silo, profile in profiles.items():
        _check_rows(names[silo], profile.rows, complete=bool(declared.complete))
    if declared.reading.private:
        schema = declared_schema(place, profiles, declared)
        return InferredSchema(replace(schema, aside=_left_out(place, profiles, declared)))
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
    notes = [f"{silo}: {note}" for silo, profile in profiles.items() for note in profile.notes]
    return InferredSchema(schema, (*notes, *table_notes(schema, columns, declared, joined)))


def _check_sizes(name: str, column: JointColumn, names: Mapping[str, str]) -> None:
    """Raise `BadInput` for numbers whose powers are none any more: nothing could be computed from them."""
    for silo, part in column.parts.items():
        if part.beyond:
            raise BadInput(f"{names[silo]}: column {shown(name)}: {TOO_FAR}")


def _set_aside(
    columns: Mapping[str, JointColumn], kinds: Mapping[str, ColumnKind], declared: Declared
) -> dict[str, str]:
    """Which columns cannot be variables, with why."""
    found = {
        name: exclusion_reason(
            name, column, kinds[name], declared=declared.kind_of(name) is not None, levels=name in declared.levels
        )
        for name, column in columns.items()
    }
    return {name: why for name, why in found.items() if why}


def _all_levels(
    place: str, columns: Mapping[str, JointColumn], declared: Declared
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """The levels of the discrete `columns`, and by column which spellings were joined to make them."""
    found = {name: _levels(place, name, column, declared) for name, column in columns.items()}
    joined = {name: spellings for name, (_, spellings) in found.items() if spellings}
    return {name: levels for name, (levels, _) in found.items()}, joined


def _left_out(place: str, profiles: Mapping[str, Profile], declared: Declared) -> dict[str, str]:
    """The columns that were to be left out, with why; raises `BadInput` for one that no silo has."""
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
    """The kind of each column: as declared, or as it looks beside the others."""
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
    """Whether a column of whole numbers holds codes, beside columns of labels or fractions."""
    if not column.whole or not column.numbers or not (labels or fractions):
        return False
    if declared.kind is None and declared.levels and not fractions:
        return column.labels is not None
    if column.labels is None or not 1 < len(column.labels) <= MOST_CODES:
        return False
    return not fractions or column.filled >= ROWS_PER_CODE * len(column.labels)


def _of_words(place: str, name: str, column: JointColumn) -> bool:
    """Whether a column holds labels rather than numbers; raises `BadInput` if it holds both, and looks mistaken."""
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
    """The kind of the data, from those of its columns."""
    if declared.kind == "mixed" or len(kinds) > 1:
        return "mixed"
    return "continuous" if kinds == {"continuous"} else "discrete"


def _levels(place: str, name: str, column: JointColumn, declared: Declared) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The levels of a discrete column, and which spellings were joined to make them."""
    if name in declared.levels:
        return tuple(declared.levels[name]), ()
    levels, joined = merged_levels(column.labels or ())
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


Describe = Callable[[Declared], Mapping[str, Profile]]
"""what is declared -> the profile of each silo"""


def agreed_schema(
    place: str, ask: Describe, declared: Declared, names: Mapping[str, str] | None = None
) -> InferredSchema:
    """The schema that the silos behind `ask` agree on; raises `BadInput` as they and `joint_schema` do.

    If rows with an empty cell are to be left out or refused, the silos are asked again once the variables are known;
    and once more, if some of these say nothing in the rows that remain.
    """
    found = infer_schema(place, ask(declared), declared, names)
    if declared.reading.missing == "model" or not found.schema.gaps:
        return found
    while True:
        schema = found.schema
        kinds: dict[str, ColumnKind] = {
            name: "discrete" if name in schema.levels else "continuous" for name in schema.variables
        }
        asked = declared.of_complete(kinds)
        again = infer_schema(place, _among(ask(asked), schema.variables), asked, names).schema
        found = replace(found, schema=replace(again, kind=schema.kind, aside=schema.aside | again.aside))
        if again.variables == schema.variables:
            return found


def _among(profiles: Mapping[str, Profile], variables: tuple[str, ...]) -> dict[str, Profile]:
    return {
        silo: replace(profile, columns={name: profile.columns[name] for name in profile.variables if name in variables})
        for silo, profile in profiles.items()
    }
