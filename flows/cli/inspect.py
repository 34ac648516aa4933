"""`fedbnsl inspect`: show how the tables of a folder are read, column by column, before anything is learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options.learn import LearnOptions
from .options_from_model import options_from_model

if TYPE_CHECKING:
    from fedbnsl.algorithms.core.schema import Schema
    from fedbnsl.data.federated import FederatedData
    from fedbnsl.data.folder.about import Reading
    from fedbnsl.data.folder.missing_codes import MissingCode
    from fedbnsl.data.folder.profile import Profile

LARGE = 6
"""sizes of 10^LARGE or more, and of 10^-LARGE or less, are printed as powers of ten"""


def show_folder(folder: Path, options: LearnOptions) -> None:
    """Print the content of `folder` and how it is read; raises `BadInput` as reading it does."""
    from fedbnsl.data.folder.folder import files_of, read_folder
    from fedbnsl.data.folder.suggestions import harmonised_notes, missing_code_notes, suggestions

    from ..job.reading import reading_of

    reading = reading_of(options)
    show_cohorts(files_of(folder, reading))
    data = read_folder(folder, reading)
    codes = missing_code_notes(_missing_codes(data), data.about.get("missing", {}))
    found = (*_rare_levels(folder, data), *codes, *suggestions(data.schema, data.tables))
    notes = (*harmonised_notes(data.about), *data.notes, *found)
    show_data(data.schema, notes, _holds(folder, data.schema, reading))


FEW_PATIENTS = 10
"""smaller numbers of patients are not printed"""


def show_cohorts(files: Mapping[str, Path]) -> None:
    """Print the queries that are compiled from a declared cohort, before they run, and the steps to the cohort."""
    from fedbnsl.data.folder.formats import kind_of
    from fedbnsl.data.folder.query import QuerySource

    from ..terminal.console import show_rows

    queries = [(silo, QuerySource(path)) for silo, path in files.items() if kind_of(path) == "query"]
    compiled = {silo: query for silo, query in queries if query.compiled}
    silos_of: dict[str | None, list[str]] = {}
    for silo, query in compiled.items():
        silos_of.setdefault(query.compiled, []).append(silo)
    for text, silos in silos_of.items():
        print(f"-- {', '.join(silos)}\n{text}\n")
    steps = [query.attrition() for query in compiled.values()]
    if steps:
        counts = [[_patients(n) for _, n in own] for own in steps]
        show_rows(zip([step for step, _ in steps[0]], *counts, strict=True), ("", *compiled))


def _patients(number: int) -> str:
    return str(number) if number >= FEW_PATIENTS else f"<{FEW_PATIENTS}"


def _missing_codes(data: FederatedData) -> tuple[MissingCode, ...]:
    """The cells that may mark missing values, except in columns with a scale factor, which changed their cells.

    Empty for time series and events.
    """
    from fedbnsl.data.folder.missing_codes import missing_codes

    if data.schema.kind in ("time-series", "events"):
        return ()
    scaled = {name for columns in data.about.get("scale", {}).values() for name in columns}
    return missing_codes(data.schema, data.tables, tuple(scaled))


def _rare_levels(folder: Path, data: FederatedData) -> list[str]:
    """Notes on levels that no row has, and on undeclared levels that 1 or 2 rows of all silos together have."""
    import numpy as np

    from fedbnsl.algorithms.errors import quoted
    from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT
    from fedbnsl.algorithms.statistics.moments import chunks
    from fedbnsl.data.folder.about import read_about

    notes, declared = [], read_about(folder).get("levels", {})
    counts = {name: np.zeros(len(levels), np.int64) for name, levels in data.schema.levels.items()}
    for table in data.tables.values():
        for rows in chunks(table):
            for name, count in counts.items():
                column = np.nan_to_num(rows[:, data.schema.variables.index(name)], nan=-1.0)
                count += np.bincount(column[column >= 0].astype(np.int64), minlength=len(count))
    for name, count in counts.items():
        rare = [level for level, n in zip(data.schema.levels[name], count, strict=True) if 0 < n < MIN_COUNT]
        if rare and name not in declared:
            notes.append(
                f"{name}: fewer than {MIN_COUNT} rows in all have the level {', '.join(rare)}, and results name this "
                "level: declare the levels in about.json, or merge rare levels"
            )
        unused = [quoted(level) for level, n in zip(data.schema.levels[name], count, strict=True) if n == 0]
        if unused:
            notes.append(
                f"{name}: no row has the declared level {', '.join(unused)}: "
                'delete it from "levels" in about.json unless rows may have it'
            )
    return notes


def draft_about(folder: Path, options: LearnOptions) -> None:
    """Write a draft of the `about.json` of `folder`, which declares how its tables are read, for its owners to review.

    Existing declarations are kept. The draft harmonises the names, labels and units of the silos' columns (`draft.py`),
    and declares the cells that may mark missing values; a line is printed for each proposal. Raises `BadInput` as
    reading does.
    """
    from fedbnsl.data.folder.about import ABOUT, read_about
    from fedbnsl.data.folder.draft import harmonised, logarithms
    from fedbnsl.data.folder.folder import declarations_of, place_of, read_folder, silo_files
    from fedbnsl.data.folder.missing_codes import declaration_of

    from ..job.reading import reading_of

    reading = reading_of(options)
    files = {} if reading.by else silo_files(folder, reading.silos)
    about, lines = harmonised(files, read_about(folder), reading)
    unscaled = {key: entry for key, entry in about.items() if key != "scale"}
    codes = _missing_codes(read_folder(folder, reading, unscaled))
    if codes:
        about["missing"] = {**about.get("missing", {}), **declaration_of(codes, about.get("missing", {}))}
    if options.ignore:
        about["ignore"] = list(dict.fromkeys([*about.get("ignore", ()), *options.ignore]))
    data = read_folder(folder, reading, about)
    schema, drafted = data.schema, declarations_of(data.schema)
    found = logarithms(data)
    about["transform"] = {**dict.fromkeys(found, "log"), **about.get("transform", {})}
    lines = (*lines, *(f"{name}: its logarithm is learned from ({evidence})" for name, evidence in found.items()))
    for key, entry in drafted.items():
        about[key] = {**entry, **about.get(key, {})} if isinstance(entry, dict) else about.get(key, entry)
    about = {key: entry for key, entry in about.items() if entry != {}}
    path = place_of(folder) / ABOUT
    path.write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written: {path}: review kinds and levels; a level that only one record has would disclose this record")
    for line in lines:
        print(line)
    for one in codes:
        print(f"it declares {one.cell!r} of {one.column} as missing ({one.rows} rows): delete it if it is a value")
    unread = [name for name in schema.aside if name not in about.get("ignore", ())]
    if unread:
        print(f"a run with an ε needs --ignore {','.join(unread)}: these columns have no kind")


def show_data(schema: Schema, notes: tuple[str, ...], holds: Mapping[str, str] | None = None) -> None:
    """Print a table of the columns, the rows by silo, the excluded columns with reasons, and every note."""
    from fedbnsl.algorithms.errors import pluralize
    from fedbnsl.data.folder.private_table import ORDER_NOTE
    from fedbnsl.tracking.report.tables import (
        data_header,
        data_rows,
        excluded_by_reason,
        rows_line,
        stretches_line,
        survival_line,
    )

    from ..terminal.console import console, show_rows

    out = console()
    out.print(
        f"{schema.kind} data, {pluralize(len(schema.variables), 'variable')}; {rows_line(schema)}", soft_wrap=True
    )
    if schema.complete_rows:
        out.print("rows with an empty cell are left out; these numbers are those of the other rows")
    if schema.kind == "time-series" and ORDER_NOTE not in notes:
        out.print(stretches_line(schema))
    show_rows(data_rows(schema, holds), data_header(schema))
    if schema.survival:
        out.print(survival_line(schema), soft_wrap=True)
    for why, names in excluded_by_reason(schema).items():
        out.print(f"excluded: {', '.join(names)}: {why}", soft_wrap=True)
    for note in notes:
        out.print(f"note: {note}", soft_wrap=True)


def _holds(folder: Path, schema: Schema, reading: Reading) -> dict[str, str]:
    """For each numeric column: whether its numbers are whole, their smallest and largest typical size, and their unit.

    The typical size is the median of the nonzero absolute values. Empty for time series and events.
    """
    from fedbnsl.data.folder.folder import profiles_of

    if schema.kind in ("time-series", "events"):
        return {}
    profiles = profiles_of(folder, reading)
    return {
        name: " ".join(filter(None, (_summary(name, profiles), schema.unit_of.get(name))))
        for name in schema.variables
        if name not in schema.levels
    }


def _summary(name: str, profiles: Mapping[str, Profile]) -> str:
    parts = [profile.columns[name] for profile in profiles.values()]
    what = "whole numbers" if all(part.whole for part in parts) else "numbers"
    sizes = [part.size for part in parts if part.size is not None]
    if not sizes:
        return what
    ends = (min(sizes), max(sizes))
    low, high = (f"{float(f'{10**size:.2g}'):g}" if abs(size) < LARGE else f"1e{size:.0f}" for size in ends)
    return f"{what}, about {low}" + (f" to {high}" if low != high else "")


app = typer.Typer(add_completion=False)


@app.command()
@options_from_model(
    LearnOptions,
    only=("ignore", "only", "by", "small_silos", "silos", "missing", "columns", "dates", "time", "cluster"),
)
def inspect(
    options: LearnOptions,
    folder: Annotated[
        Path, typer.Argument(help="Federated data set: a folder with one file per silo, or one file with --by.")
    ],
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Write a draft of FOLDER/about.json to review: common names, labels and units of the silos' columns, "
            "kinds, levels, missing values and lengths of series.",
        ),
    ] = False,
) -> None:
    """Show how the tables of FOLDER are read: kinds, levels, empty cells, excluded columns; nothing is learned.

    Example: fedbnsl inspect my_folder --ignore comment
    """
    if write:
        draft_about(folder, options)
    show_folder(folder, options)
