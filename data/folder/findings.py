"""What a reader should know about how a federation's tables were read, one line for each finding."""

from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import shown

from .declared import Declared
from .joint_column import JointColumn
from .levels import MOST_CODES

SHOWN = 6
"""columns or labels that a line names"""
MANY_VALUES = 20
"""distinct values above which a zero apart from all of them is worth a word"""
DECADES = 0.9
"""powers of ten by which the medians of silos may differ in the same unit"""
LARGE = 6
"""powers of ten that are written as such"""

Columns = Mapping[str, JointColumn]


def findings(
    schema: Schema, columns: Columns, declared: Declared, joined: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return a line for each finding about the variables of `schema`, made of `columns`.

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
    """Say which labels occur in one silo alone."""
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
    """Say which silos' numbers are ten times as large as those of the others, or more, or as small."""
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
    """Say where 0 may mark a missing value: all other values lie far from it."""
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
    """Return how many cells are 0, by silo, in a column all of whose other values lie far from it; else nothing."""
    sized = [part for part in column.parts.values() if part.size is not None]
    if all(part.distinct <= MANY_VALUES for part in sized) or not all(part.apart for part in sized):
        return {}
    return {silo: part.zeros for silo, part in column.parts.items() if part.zeros}


def _listed(names: Iterable[str], most: int = SHOWN) -> str:
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
