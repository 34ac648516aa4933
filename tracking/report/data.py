"""What the silos' tables hold, as a table: each variable's kind, its levels, and where cells are empty."""

from collections.abc import Mapping

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.core.schema import Schema

from ..result import RunResult
from .page import paragraph, section, table

MOST_SILOS = 8
"""silos that have a column of their own"""
LISTED = 8
"""levels that are named"""
WIDE = 40
"""letters that the names of levels may take"""
MISSING_AT = (
    "Empty cells are kept and left to the learner's model, which takes them to be missing for reasons that the other "
    "columns tell."
)
LEFT_OUT = "Rows with an empty cell were left out in each silo: the rows counted here are those that remain."


def worth_showing(schema: Schema, notes: tuple[str, ...]) -> bool:
    """Say whether there is more to say of the data than that they are tables of numbers, or of labels."""
    return bool(notes or schema.gaps or schema.aside or schema.complete_rows) or schema.kind == "mixed"


def data_header(schema: Schema) -> tuple[str, ...]:
    """Return the header of the table of a federation's columns."""
    silos = schema.silos if len(schema.silos) <= MOST_SILOS else ("most of a silo",)
    return ("column", "kind", "holds", *(("empty", *silos) if schema.gaps else ()))


def data_rows(schema: Schema, holds: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """Return a row for each variable: its kind, its levels or what it `holds`, the share of empty cells, by silo."""
    found = []
    for v, name in enumerate(schema.variables):
        levels = schema.levels.get(name)
        what = _levels(levels) if levels is not None else (holds or {}).get(name, "")
        found.append((name, "labels" if levels is not None else "numbers", what, *_empty(schema, v)))
    return found


def rows_line(schema: Schema) -> str:
    """Return how many rows there are, and at which silo."""
    rows = schema.rows
    each = ", ".join(f"{silo} {rows[silo]:,}" for silo in schema.silos[:MOST_SILOS])
    more = f" and {counted(len(rows) - MOST_SILOS, 'more silo')}" if len(rows) > MOST_SILOS else ""
    return f"{counted(sum(rows.values()), 'row')} in {counted(len(rows), 'silo')}: {each}{more}"


def aside_by_reason(schema: Schema) -> dict[str, list[str]]:
    """Return the columns that were set aside, by the reason why."""
    found: dict[str, list[str]] = {}
    for name, why in schema.aside.items():
        found.setdefault(why, []).append(name)
    return found


def data_section(result: RunResult) -> list[str]:
    """Return the section on the data: none where there is nothing to say of them."""
    schema = result.schema
    if not worth_showing(schema, result.notes):
        return []
    parts = [paragraph(f"{rows_line(schema)}. {LEFT_OUT if schema.complete_rows else MISSING_AT * schema.gaps}")]
    parts += [table(data_header(schema), data_rows(schema), scrolling=len(schema.variables) > 12)]
    if schema.aside:
        rows = [(", ".join(names), why) for why, names in aside_by_reason(schema).items()]
        parts += [table(("set aside", "why"), rows)]
    return [section("The data", *parts, *(paragraph(f"{note}.") for note in result.notes))]


def _levels(levels: tuple[str, ...]) -> str:
    shown: list[str] = []
    for level in levels[:LISTED]:
        if shown and sum(map(len, shown)) + len(level) > WIDE:
            break
        shown.append(level)
    more = f", … ({len(levels)})" if len(levels) > len(shown) else ""
    return ", ".join(shown) + more


def _empty(schema: Schema, v: int) -> tuple[str, ...]:
    """Return the share of empty cells of variable `v`, in all rows and by silo; nothing where no cell is empty."""
    if not schema.gaps:
        return ()
    counts = {silo: schema.empty[silo][v] if silo in schema.empty else 0 for silo in schema.silos}
    shares = [counts[silo] / max(schema.rows[silo], 1) for silo in schema.silos]
    by_silo = shares if len(shares) <= MOST_SILOS else [max(shares)]
    return tuple(map(_percent, [sum(counts.values()) / max(sum(schema.rows.values()), 1), *by_silo]))


def _percent(share: float) -> str:
    if not share:
        return ""
    return "<1 %" if share < 0.01 else "all" if share == 1 else f"{min(share, 0.99):.0%}".replace("%", " %")
