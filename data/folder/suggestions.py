"""Suggestions on the columns of a data set, which `fedbnsl inspect` prints for the owner of all rows.

The suggestions concern columns that other columns determine, variables that no other column can cause (age, sex), and
rows that follow each other in time. `learn` also suggests a column that names the silo of each row (`is_site`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import SURVIVAL_EVENTS, Schema
from fedbnsl.algorithms.diagnosis.columns import without_causes
from fedbnsl.algorithms.diagnosis.relations import relations
from fedbnsl.algorithms.errors import listed, pluralize, quoted
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.algorithms.statistics.moments import chunks

from .about import declarations
from .dates import PARTS_OF_TIMES, time_unit
from .missing_codes import MissingCode, declaration_of
from .tally import SAMPLE_ROWS, derived_columns

ROWS_PER_COLUMN = 2
"""minimum number of examined rows for each coded column, with which chance makes no exact relation"""
TIMES = re.compile(r"(.*[ _.-])?(year|yr|quarter|month|week|day|date|period|wave|visit)", re.IGNORECASE)


def suggestions(schema: Schema, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """A line for each suggestion on the variables of `schema`, whose `tables` are `[n_rows, n_variables]`."""
    if schema.kind in ("time-series", "events"):
        return ()
    samples = [next(iter(chunks(tables[silo])))[:SAMPLE_ROWS] for silo in schema.silos]
    times, formulas = dict(_times(schema, samples)), _derived(schema, samples)
    derived = [f"{name} is {one}: leave one of them out with --ignore {name}" for name, one in formulas.items()]
    related = _relations(schema, samples, set(formulas))
    outcomes = _survival(schema, samples)
    return (*_without_causes(schema, set(times)), *times.values(), *derived, *related, *outcomes)


EVENT = re.compile(
    r"(.*[ _.-])?(died|dead|death|deceased|event|status|relapsed?|recurrence|progress(ed|ion)|fail(ed|ure)|mortality)",
    re.IGNORECASE,
)
DURATION = re.compile(
    r"(.*[ _.-])?(time|days|weeks|months|years|fu|futime|follow[ _.-]?up|duration|os|pfs|dfs|tte|survival)"
    r"([ _.-](days|weeks|months|years|time))?",
    re.IGNORECASE,
)
"""patterns of the names of a column of events, and of the column of the times until them"""


def _survival(schema: Schema, samples: list[NDArray[Any]]) -> Iterator[str]:
    """A line for a column of 0 and 1 beside one of positive numbers, if their names are those of a survival outcome."""

    def values(v: int) -> NDArray[np.float64]:
        found = np.concatenate([part[:, v] for part in samples]).astype(np.float64)
        return found[~np.isnan(found)]

    names = schema.variables
    events = [
        name
        for v, name in enumerate(names)
        if EVENT.fullmatch(name)
        and schema.levels.get(name, SURVIVAL_EVENTS) == SURVIVAL_EVENTS
        and set(values(v).tolist()) == {0.0, 1.0}
    ]
    times = [
        name
        for v, name in enumerate(names)
        if DURATION.fullmatch(name) and name not in (*schema.levels, *events) and (values(v) > 0).all()
    ]
    if events and times:
        declared = json.dumps({"survival": {events[0]: [times[0], events[0]]}}, ensure_ascii=False)
        yield (
            f"{times[0]} and {events[0]} may be a survival outcome, whose times are censored where {events[0]} is 0: "
            f"read as a number and a label, they mislead; declare {declared} in about.json"
        )


SITE = re.compile(
    r"(.*[ _.-])?(site|hospital|cent(re|er)|clinic|institut(e|ion)|silo|klinik|zentrum|standort|krankenhaus)"
    r"([ _.-]?(id|name|code|no|nr))?",
    re.IGNORECASE,
)


def is_site(name: str) -> bool:
    """Whether the name of a column suggests that it has the silo of each row."""
    return SITE.fullmatch(name) is not None


def site_notes(schema: Schema) -> tuple[str, ...]:
    """A note on the column of a single silo that may name the silo of each row, if there is one."""
    columns = (*schema.variables, *(name for name, reason in schema.aside.items() if "--" not in reason))
    names = [name for name in columns if is_site(name)][:1]
    return tuple(f"{name} may name the silo of each row: --by {name} then reads several silos" for name in names)


def missing_code_notes(codes: Sequence[MissingCode], declared: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """A line on the cells that may mark missing values, with the entry of `about.json` that declares them."""
    if not codes:
        return ()
    cells = listed([f"{one.column} {quoted(one.cell)} ({pluralize(one.rows, 'row')})" for one in codes], len(codes))
    entry = json.dumps({"missing": declaration_of(codes, declared)}, ensure_ascii=False)
    return (f"these cells may mark missing values: {cells}; if they do, declare {entry} in about.json",)


def harmonised_notes(about: Mapping[str, Any]) -> Iterator[str]:
    """A line on the recoding and the units that `about`, the content of `about.json`, declares for each silo."""
    declared = declarations(about)
    for silo, columns in declared.recode.items():
        for name, cells in columns.items():
            pairs = [f"{quoted(cell)} as {quoted(label) if label else 'empty'}" for cell, label in cells.items()]
            yield f"{silo}: {name}: about.json reads {', '.join(pairs)}"
    for silo, factors in declared.scale.items():
        for name, factor in factors.items():
            yield f"{silo}: {name}: about.json multiplies the numbers by {factor:g}"


def _without_causes(schema: Schema, times: set[str]) -> Iterator[str]:
    names = [name for name in without_causes(schema.variables, schema.levels) if name not in times]
    if names:
        yield f"{listed(names)}: no other column can be a cause: consider --no-parents {','.join(names)}"


def _times(schema: Schema, samples: list[NDArray[Any]]) -> Iterator[tuple[str, str]]:
    """Yield name and advice for columns that rise from row to row at every silo and are named like times."""
    named = set[str]()
    for names in _named_like_times(schema):
        places = [schema.variables.index(name) for name in names]
        if named.isdisjoint(names) and all(_rise(rows[:, places]) for rows in samples):
            named.update(names)
            rise = "they rise together" if len(names) > 1 else "it rises"
            yield (
                names[0],
                f"{', '.join(names)}: {rise} from row to row at every silo: if the rows follow each other in time, "
                f"--time {','.join(names)} reads them as time series",
            )


def _named_like_times(schema: Schema) -> list[list[str]]:
    """Columns of numbers that may be times: the most parts of a time, such as year, month and day, come first."""
    numbers = [name for name in schema.variables if name not in schema.levels]
    units = {unit: name for name in reversed(numbers) if (unit := time_unit(name))}
    joint = [[units[unit] for unit in parts] for parts in PARTS_OF_TIMES if set(parts) <= units.keys()]
    return [*sorted(joint, key=len, reverse=True), *([name] for name in numbers if TIMES.fullmatch(name))]


def _rise(columns: NDArray[Any]) -> bool:
    """Whether rows are in the order of the first of the `columns`, then of the second, and so on, and differ."""
    if np.isnan(columns).any() or len(columns) < 2:
        return False
    ordered = bool((np.lexsort(columns.T[::-1]) == np.arange(len(columns))).all())
    return ordered and bool((columns[0] != columns[-1]).any())


def _relations(schema: Schema, samples: list[NDArray[Any]], named: set[str]) -> Iterator[str]:
    """A suggestion for each column that follows from others, unless one of these is `named` already."""
    if schema.kind == "discrete":
        return
    coding = coding_of(schema)
    parts = [coding.rows(np.asarray(rows, np.float64)) for rows in samples]
    parts = [rows[~np.isnan(rows).any(axis=1)] for rows in parts]
    rows = np.concatenate(parts)
    if len(rows) < ROWS_PER_COLUMN * coding.size + len(parts):
        return
    centred = np.concatenate([part - part.mean(axis=0) for part in parts if len(part)])
    for one in relations(schema, rows.mean(axis=0), centred.T @ centred / len(rows)):
        if {one.name, *one.others} & named:
            continue
        yield f"{one.formula}: leave one of them out with --ignore {one.name}"


def _derived(schema: Schema, samples: list[NDArray[Any]]) -> dict[str, str]:
    """The formula of each column that one or two other columns determine."""
    names = [name for name in schema.variables if name not in schema.levels]
    formulas = dict(schema.derived)
    if schema.kind != "discrete":
        rows = np.concatenate([sample[:, [schema.variables.index(name) for name in names]] for sample in samples])
        for name, formula, *_ in derived_columns(names, rows):
            formulas.setdefault(name, formula)
    return formulas
