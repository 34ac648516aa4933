"""The columns of the data as plain tables, for the report and the terminal; made from a schema alone."""

from collections.abc import Mapping

import numpy as np

from fedbnsl.algorithms.core.schema import Schema, pluralize
from fedbnsl.algorithms.statistics.transforms import FORMULAS

MAX_SILO_COLUMNS = 8
"""number of silos up to which each silo has a column"""
MAX_FEW_CELLS = 5
"""number of empty cells up to which "few" is shown instead of their share"""
MAX_LEVELS = 8
"""maximum number of levels of a variable that are named"""
MAX_LEVEL_LETTERS = 40
"""maximum number of letters of the names of these levels"""


def has_findings(schema: Schema, notes: tuple[str, ...]) -> bool:
    """Whether the data have notes, empty cells, left-out rows or columns, transforms, or columns of both kinds."""
    found = notes or schema.gaps or schema.aside or schema.complete_rows or schema.transforms
    return bool(found) or schema.kind == "mixed"


def data_header(schema: Schema) -> tuple[str, ...]:
    """The header of the table of a federation's columns."""
    silos = schema.silos if len(schema.silos) <= MAX_SILO_COLUMNS else ("maximum over silos",)
    return ("column", "kind", "content", *(("missing", *silos) if schema.gaps else ()))


def data_rows(schema: Schema, holds: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """A row for each variable: its kind, its levels or its content (`holds`), and its shares of empty cells by silo."""
    rows = []
    for v, name in enumerate(schema.variables):
        levels = schema.levels.get(name)
        content = _levels(levels) if levels is not None else (holds or {}).get(name, "")
        if name in schema.transforms:
            content = "; ".join(part for part in (content, FORMULAS[schema.transforms[name]]) if part)
        number = "events" if schema.kind == "events" else "counts" if name in schema.counts else "numbers"
        kind = number if levels is None else "labels"
        rows.append((name, kind, content, *_empty(schema, v)))
    return rows


def rows_line(schema: Schema) -> str:
    """The number of rows, in all and at each silo, in words."""
    rows = schema.rows
    each = ", ".join(f"{silo} {rows[silo]:,}" for silo in schema.silos[:MAX_SILO_COLUMNS])
    silos_left = len(rows) - MAX_SILO_COLUMNS
    more = f" and {pluralize(silos_left, 'more silo')}" if silos_left > 0 else ""
    return f"{pluralize(sum(rows.values()), 'row')} in {pluralize(len(rows), 'silo')}: {each}{more}"


def stretches_line(schema: Schema) -> str:
    """The number of unbroken stretches of time series and the reasons why a stretch ends, in words."""
    number = sum(map(len, schema.stretches.values()))
    ends = (
        "its series ends or a time is missing"
        if schema.gaps
        else "its series ends, a time is missing or a cell is empty"
    )
    return f"{pluralize(number, 'unbroken stretch', 'unbroken stretches')}: each ends where {ends}"


def excluded_by_reason(schema: Schema) -> dict[str, list[str]]:
    """The excluded columns, by the reason."""
    columns: dict[str, list[str]] = {}
    for name, reason in schema.aside.items():
        columns.setdefault(reason, []).append(name)
    return columns


def _levels(levels: tuple[str, ...]) -> str:
    shown: list[str] = []
    for level in levels[:MAX_LEVELS]:
        if shown and sum(map(len, shown)) + len(level) > MAX_LEVEL_LETTERS:
            break
        shown.append(level)
    more = f", … ({len(levels)})" if len(levels) > len(shown) else ""
    return ", ".join(shown) + more


def _empty(schema: Schema, v: int) -> tuple[str, ...]:
    """The share of empty cells of variable `v`, in all rows and by silo; nothing if no cell is empty."""
    if not schema.gaps:
        return ()
    counts = [(schema.empty[silo][v] if silo in schema.empty else 0, schema.rows[silo]) for silo in schema.silos]
    shown = counts if len(counts) <= MAX_SILO_COLUMNS else [max(counts, key=lambda one: one[0] / max(one[1], 1))]
    return tuple(_share(*one) for one in (np.sum(counts, axis=0).tolist(), *shown))


def _share(empty: int, rows: int) -> str:
    """The share of empty cells in per cent, in words if an exact share would reveal a small number of cells."""
    if not empty:
        return ""
    if empty == rows:
        return "all"
    if empty <= MAX_FEW_CELLS or empty < 0.01 * rows:
        return "few"
    return "nearly all" if rows - empty <= MAX_FEW_CELLS else f"{empty / rows:.0%}".replace("%", " %")
