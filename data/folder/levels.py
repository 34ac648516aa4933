"""Labels and levels: what a cell of discrete data may say, and the order in which a variable's labels are coded.

If `about.json` declares a variable's levels, these are used, in their order. Otherwise the levels are the labels that
occur in any silo, in numerical order if all are whole numbers, and in the order of their characters if not.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from fedbnsl.algorithms.core.names import name_fault
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, shown

from .check import MISSING, cell_fault

MOST_LEVELS = 50
"""levels a variable may have without being declared"""

WHOLE = re.compile(r"[+-]?[0-9]+")
WHOLE_AS_FLOAT = re.compile(r"([+-]?[0-9]+)\.0*")
DECLARE = "declare its levels in about.json if it is meant"


def label_of(cell: str) -> str:
    """Return the label that a cell holds: without spaces around it, and "2" for "2.0", as some programs write it."""
    text = cell.strip()
    whole = WHOLE_AS_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return distinct labels in canonical order: as numbers if all are whole numbers, else by their characters."""
    distinct = set(labels)
    if all(WHOLE.fullmatch(label) for label in distinct):
        return tuple(sorted(distinct, key=lambda label: (int(label), label)))
    return tuple(sorted(distinct))


def labels_of(cells: Sequence[str], declared: Sequence[str] | None) -> list[str]:
    """Return the label of each of a column's `cells`; a declared label is matched exactly."""
    exact = frozenset(declared or ())
    return [text if (text := cell.strip()) in exact else label_of(cell) for cell in cells]


def empty_cells(cells: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with those of `cells` that are empty."""
    return {cell: "the cell is empty" for cell in cells if not cell.strip()}


def label_faults(cells: Sequence[str], declared: Sequence[str] | None) -> dict[str, str]:
    """Return what is wrong with each wrong one of a column's distinct `cells`, given in order of appearance."""
    labels = dict(zip(cells, labels_of(cells, declared), strict=True))
    if declared is not None:
        known = set(declared)
        return {cell: _not_declared(cell, declared) for cell, label in labels.items() if label not in known}
    faults = {cell: fault for cell, label in labels.items() if (fault := _label_fault(cell, label))}
    good = {cell: label for cell, label in labels.items() if cell not in faults}
    fractions = [cell for cell, label in good.items() if not WHOLE.fullmatch(label)]
    if fractions and all(cell_fault(label) is None for label in good.values()):
        why = "is a fraction: a continuous column in discrete data"
        return faults | {cell: f"{shown(cell)} {why}; {DECLARE}" for cell in fractions}
    rank = {label: number for number, label in enumerate(dict.fromkeys(good.values()), start=1)}
    why = f"of the column, more than {MOST_LEVELS}"
    return faults | {
        cell: f"{shown(cell)} is level {rank[label]} {why}; {DECLARE}"
        for cell, label in good.items()
        if rank[label] > MOST_LEVELS
    }


def joint_schema(place: str, parts: Sequence[Schema], declared: Mapping[str, Sequence[str]]) -> Schema:
    """Return the schema of a federation from those of its silos, which have the same columns and kind.

    Levels are those `declared`, else all that occur in any silo, in canonical order; a silo may lack some of them.
    Raises `BadInput`, at `place`, for levels of a variable that is not there, and, where they are not declared, for a
    single one or too many.
    """
    variables, kind = parts[0].variables, parts[0].kind
    rows = {silo: number for part in parts for silo, number in part.rows.items()}
    for name in declared:
        if name not in variables:
            raise BadInput(f"{place}: about.json: levels: {shown(name)} is not a column of the data")
    if kind != "discrete":
        stretches = {silo: lengths for part in parts for silo, lengths in part.stretches.items()}
        return Schema(variables, rows, kind, stretches=stretches)
    levels = {}
    for name in variables:
        found = in_order(label for part in parts for label in part.levels[name])
        levels[name] = tuple(declared[name]) if name in declared else _checked(place, name, found)
    return Schema(variables, rows, kind, levels)


def _checked(place: str, name: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    if len(levels) == 1:
        raise BadInput(f"{place}: column {shown(name)}: constant, every row of every silo is {shown(levels[0])}")
    if len(levels) > MOST_LEVELS:
        count = f"{len(levels)} levels over all silos, more than {MOST_LEVELS}"
        raise BadInput(f"{place}: column {shown(name)}: {count}; {DECLARE}")
    return levels


def _not_declared(cell: str, declared: Sequence[str]) -> str:
    if not cell.strip():
        return "the cell is empty"
    some = ", ".join(declared[:8]) + (", …" if len(declared) > 8 else "")
    return f"{shown(cell)} is not one of the levels {some}"


def _label_fault(cell: str, label: str) -> str | None:
    if not label:
        return "the cell is empty"
    if label.lower() in MISSING:
        return f"{shown(cell)} marks a missing value; {DECLARE}"
    return f"{shown(cell)} holds a control character" if name_fault(label) else None
