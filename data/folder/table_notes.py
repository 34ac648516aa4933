"""Notes on doubtful choices in reading the silos' tables, each with the declaration that changes the choice."""

from collections.abc import Iterator, Mapping
from statistics import median

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import listed, quoted
from fedbnsl.algorithms.privacy.disclosure_control import share_class

from .about import Declared
from .cells import MAX_CODES
from .joint_columns import Columns, JointColumn, bounded_notes, label_notes, mark_notes
from .series import TIME
from .tally import MAX_COLUMNS, MAX_PROFILED_COLUMNS

UNIT_DECADES = 0.9
"""minimum difference of silos' medians, in powers of ten, for a note that suggests different units"""
POWER_NOTATION_DECADES = 6
"""minimum exponent k for which a factor is written as 10^k"""


def table_notes(
    schema: Schema, columns: Columns, declared: Declared, joined: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """A line for each finding on the variables of `schema`, from their `columns`.

    `joined` has, by variable, the labels that were merged into other labels of the same folded spelling.
    """
    notes = [*_codes(schema, columns, declared), *_spellings(schema, columns, joined)]
    notes += _quantities(schema, columns)
    if declared.may_be_series:
        notes += [
            f"{name}: its values repeat or are irregular, as durations do: --time {name} reads the rows as time series"
            for name in schema.variables
            if name.lower() == TIME
        ]
    if len(schema.rows) > 1:
        notes += [*_levels_of_one_silo(schema, columns, declared), *_empty_or_constant(schema, columns, declared)]
        notes += _units(schema, columns)
    numbers = len(schema.variables) - len(schema.levels)
    if numbers > MAX_PROFILED_COLUMNS:
        more = f"; `fedbnsl inspect` examines up to {MAX_COLUMNS}" if numbers <= MAX_COLUMNS else ""
        notes.append(
            f"not examined: whether one of {numbers} columns of numbers is a product, a ratio or a threshold of "
            f"others, which is examined for up to {MAX_PROFILED_COLUMNS}{more}"
        )
    return (
        *notes,
        *_zeros(schema, columns),
        *bounded_notes(schema.transforms, columns),
        *label_notes(schema, columns, declared),
        *mark_notes(schema, columns, declared),
    )


def _codes(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    open_kinds = [name for name in schema.variables if declared.kind_of(name) is None and not columns[name].labelled]
    numeric = [name for name in open_kinds if not columns[name].words]
    counts = [name for name in schema.counts if name in numeric]
    if counts:
        yield (
            f"counts: {listed(counts, 12)} {'are' if len(counts) > 1 else 'is'} coded as roots or logarithms; to learn "
            f'from the numbers themselves declare {{"columns": {{"{counts[0]}": "continuous"}}}} in about.json'
        )
    if codes := [name for name in numeric if name in schema.levels]:
        most = max(codes, key=lambda name: len(schema.levels[name]))
        why = _why(columns, declared)
        yield (
            f"codes: few distinct integers in {listed(codes, 12)} are read as labels{why}; if one is a "
            f'quantity, declare it in about.json, as in {{"columns": {{"{most}": "continuous"}}}}'
        )
    few = [name for name in numeric if name not in (*schema.levels, *counts) and _few(columns[name])]
    if few and declared.kind is None:
        yield (
            f"integers with few values: {listed(few)} are read as numbers; for labels declare "
            f'{{"columns": {{"{few[0]}": "discrete"}}}} in about.json'
        )


def _why(columns: Columns, declared: Declared) -> str:
    """The reason for labels in a table of integers only, as the end of a phrase; empty for other tables."""
    alone = all(
        column.whole and not (column.words or column.labelled) and declared.kind_of(name) != "discrete"
        for name, column in columns.items()
    )
    return ", as they depend on each other as labels do, or have two values" if alone else ""


def _few(column: JointColumn) -> bool:
    return column.whole and column.labels is not None and len(column.labels) <= MAX_CODES < column.filled


def _spellings(schema: Schema, columns: Columns, joined: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, labels in joined.items():
        yield (
            f"{name}: {listed(map(quoted, labels))} counts as the level that differs only in capitals or spaces; "
            "declare the levels in about.json to distinguish them"
        )
    spaced = [name for name in schema.levels if any(part.spaced for part in columns[name].parts.values())]
    if spaced:
        yield f"spaces around some labels of {listed(spaced)} are ignored"


def _levels_of_one_silo(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    """A note on undeclared labels that occur in a single silo."""
    unique = []
    for name in (one for one in schema.levels if one not in declared.levels):
        labels = {silo: set(part.labels or ()) for silo, part in columns[name].parts.items() if part.filled}
        elsewhere = {silo: set().union(*(labels[other] for other in labels if other != silo)) for silo in labels}
        if len(labels) > 1:
            unique += [
                f"{name} {quoted(one)} ({silo})" for silo in labels for one in sorted(labels[silo] - elsewhere[silo])
            ]
    if unique:
        yield f'levels of a single silo: {listed(unique)}; map other spellings of them by "recode" in about.json'


def _empty_or_constant(schema: Schema, columns: Columns, declared: Declared) -> Iterator[str]:
    for name in schema.variables:
        parts = columns[name].parts
        empty = [silo for silo, part in parts.items() if not part.filled]
        zero = columns[name].zeros_apart if name not in schema.levels else {}
        same = [silo for silo, part in parts.items() if part.distinct == 1 and part.filled > 1 and not zero.get(silo)]
        if empty:
            yield f"{name}: empty in every row of {listed(empty)}"
        if same and name not in declared.levels:
            value = parts[same[0]].labels
            content = quoted(value[0]) if value and len({parts[silo].labels for silo in same}) == 1 else "the same"
            yield f"{name}: every filled cell is {content} at {listed(same)}"


def _quantities(schema: Schema, columns: Columns) -> Iterator[str]:
    """Notes on columns whose cells have other marks beside their numbers, and on detection limits."""
    written = {name: unit for name, unit in schema.unit_of.items() if columns[name].has_quantities}
    units = [f"{name} ({unit})" for name, unit in written.items() if unit]
    if units:
        yield f"numbers with their unit in the cells: {listed(units, 12)}"
    grouped = [name for name, unit in written.items() if not unit and not columns[name].limits]
    if grouped:
        yield f"numbers with marks between thousands: {listed(grouped, 12)}; 1,234 is read as 1234"
    for name in written:
        if limits := columns[name].limits:
            yield (
                f"{name}: limits such as <5 and >100 are in {share_class(limits / columns[name].filled)} of its cells: "
                "half of an upper limit, and a lower limit itself, is read as the number"
            )


def _units(schema: Schema, columns: Columns) -> Iterator[str]:
    """Notes on silos whose numbers are larger or smaller than at the other silos by a factor of about ten or more."""
    for name in schema.variables:
        sizes = {silo: part.size for silo, part in columns[name].parts.items() if part.size is not None}
        if name in schema.levels or len(sizes) < 2:
            continue
        middle = median(sizes.values())
        far = {silo: size - middle for silo, size in sizes.items() if abs(size - middle) >= UNIT_DECADES}
        if len(sizes) == 2 and max(sizes.values()) - min(sizes.values()) >= UNIT_DECADES:
            small, large = sorted(sizes, key=lambda silo: sizes[silo])
            far = {large: sizes[large] - sizes[small]}
        for silo, decades in far.items():
            factor = f"{10**decades:.2g}" if abs(decades) < POWER_NOTATION_DECADES else f"10^{decades:.0f}"
            times = f"about {factor} times the other silos' median"
            yield f"{name}: the median at {silo} is {times}: is it in another unit there?"


def _zeros(schema: Schema, columns: Columns) -> Iterator[str]:
    """Notes on columns in which 0 may mark a missing value, because all other values are far from 0."""
    for name in schema.variables:
        zeros = columns[name].zeros_apart if name not in schema.levels else {}
        if zeros:
            filled = {silo: columns[name].parts[silo].filled for silo in zeros}
            counts = listed([f"{'all ' * (count == filled[silo])}{count} at {silo}" for silo, count in zeros.items()])
            yield (
                f"{name}: 0 is far from all other values (cells with 0: {counts}); if it marks a missing value, "
                f'declare {{"missing": {{"{name}": ["0"]}}}} in about.json'
            )
