"""A federated data set as a folder: `<silo>.csv` or `<silo>.parquet`, optional `truth.csv` and `about.json`.

A silo may also be a folder of Parquet parts, or a query, `<silo>.sql` (`query.py`).

A folder of plain files somebody already has is one: of numbers, of labels, of both, or of time series (`joint.py` says
how that is told). Documents and the like are left alone, and anything else is
refused (`entries.py`).

Write one silo's table: numbers exactly, level codes as the labels they stand for.
"""

import csv
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema, check_names
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import FederatedData
from .about import (
    ABOUT,
    READ_ALL,
    Declared,
    Reading,
    check_checksums,
    declarations,
    read_about,
    write_about,
)
from .check import (
    check_columns,
    check_is_file,
    check_labels,
    check_rows,
    check_same_columns,
    check_silo_name,
    check_table,
    is_database,
    is_ignored,
    is_knowledge,
    refuse_unread,
    visible_entries,
)
from .chunked_table import AnyTable, holds_parts, open_table, rows_of, source_of
from .fingerprint import fingerprint
from .profile import Profile
from .scan import SEPARATORS
from .schema_inference import InferredSchema, agreed_schema
from .series import SeriesTable, check_same_step, check_stretches, has_time, keys_of, read_series
from .truth import read_structure, read_structures, read_truth, write_structure


def write_table(
    path: Path,
    variables: Sequence[str],
    values: NDArray[Any],
    levels: Mapping[str, Sequence[str]] | None = None,
    keys: Mapping[str, NDArray[np.int64]] | None = None,
) -> None:
    """Write `values` [n_rows, n_variables] to `path` (.csv or .parquet); codes of `levels` as labels.

    Empty cells, NaN or −1 among codes, are written empty. `keys` are columns [n_rows] that stand before the variables.
    pyarrow writes the shortest text that reads back as the same number.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    columns = [_array(column, (levels or {}).get(name)) for name, column in zip(variables, values.T, strict=True)]
    names = [*(keys or {}), *variables]
    columns = [*map(pyarrow.array, (keys or {}).values()), *columns]
    table = pyarrow.Table.from_arrays(columns, names=names)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(names)
    plain = not any(mark in label for labels in (levels or {}).values() for label in labels for mark in ',"\r\n')
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none" if plain else "needed")
    with path.open("ab") as file:
        pyarrow.csv.write_csv(table, file, options)


def _array(column: NDArray[Any], labels: Sequence[str] | None) -> Any:
    """A column for pyarrow, null where a cell is empty: numbers, or the `labels` that codes stand for."""
    import pyarrow

    if labels is None:
        values = np.ascontiguousarray(column, dtype=np.float64)
        return pyarrow.array(values, mask=np.isnan(values))
    empty = np.isnan(column) if column.dtype.kind == "f" else column < 0
    codes = np.where(empty, 0, column).astype(np.int64)
    return pyarrow.array(labels).take(pyarrow.array(codes, mask=empty))


__all__ = [
    "profiles_of",
    "read_folder",
    "read_schema",
    "read_structure",
    "read_structures",
    "read_truth",
    "silo_files",
    "write_folder",
    "write_structure",
]

TRUTH = "truth.csv"
ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet", ".sql")
Form = Literal["csv", "parquet"]
AS_READ = ("step", "separator", "encoding", "decimal", "missing", "columns", "levels", "stretches")
"""what `about.json` says of files as they were: times are written in whole steps, and files in one form"""


def silo_files(folder: Path, only: tuple[str, ...] = ()) -> dict[str, Path]:
    """The file of each silo of `folder`, or of `only` some, sorted by the silo's name; nothing is opened.

    Raises `BadInput` if there is no such folder, no silo in it, a silo twice (`a.csv` and `a.parquet`), one whose name
    cannot be that of a silo, something under the name of a file that is none, or, unless `only` some are asked for, an
    entry that may be a silo but cannot be read.
    """
    files, unread = _entries(folder)
    if not only:
        refuse_unread(folder, unread)
    if not files:
        raise BadInput(f"{folder}: no silo: no .csv or .parquet file besides {TRUTH}")
    for silo in only:
        if silo not in files:
            raise BadInput(f"{folder}: there is no silo {shown(silo)} among {', '.join(sorted(files))}")
    return {silo: path for silo, path in sorted(files.items()) if not only or silo in only}


def _entries(folder: Path) -> tuple[dict[str, Path], list[Path]]:
    """The file of each silo of `folder`, and what is neither a silo nor known to be none."""
    files: dict[str, Path] = {}
    unread: list[Path] = []
    for path in visible_entries(folder):
        ending = next((one for one in ENDINGS if path.name.lower().endswith(one)), None)
        parts = holds_parts(path)
        if not parts and (ending or path.name == ABOUT):
            check_is_file(path)
        if path.name in (TRUTH, ABOUT) or is_knowledge(path):
            continue
        if not (parts or ending):
            if not is_ignored(path):
                unread.append(path)
            continue
        silo = path.name[: -len(ending)] if ending and not parts else path.name
        check_silo_name(folder, silo)
        if silo in files:
            raise BadInput(f"{folder}: {files[silo].name} and {path.name} both name the silo {shown(silo)}")
        files[silo] = path
    queries = any(path.suffix.lower() == ".sql" for path in files.values())
    return files, [path for path in unread if not (queries and is_database(path))]


def read_folder(folder: Path, reading: Reading = READ_ALL) -> FederatedData:
    """Read and validate a whole federated data set; columns are in the order of the first silo by name.

    Its kind is what `about.json` says, else what its columns look like (`joint.py`), and `reading` says which of
    them to take. Raises `BadInput` naming file, line or row, column and value for anything that cannot be learned from.
    """
    files, about = silo_files(folder, reading.silos), read_about(folder)
    said = declarations(about, reading)
    fingerprints = {}
    for silo, path in files.items():
        fingerprints[silo] = fingerprint(path)
    rows: dict[str, Any]
    if _are_series(files, said):
        found, rows = _read_series(files, said)
    else:
        tables = {silo: open_table(path, said) for silo, path in files.items()}
        found = _agreed(folder, files, said, tables)
        rows = {}
        for silo, table in tables.items():
            rows[silo] = rows_of(table, found.schema, silo)
    check_checksums(folder, about, files)
    schema = found.schema
    truth = None
    own: dict[str, NDArray[np.float64]] = {}
    if (folder / TRUTH).exists():
        truth, own = read_truth(folder / TRUTH, schema.variables, tuple(schema.aside))
    there = _entries(folder)[0] if own else files
    for silo in own:
        if silo not in there:
            raise BadInput(
                f"{folder / TRUTH}: line 1: column {shown('weight:' + silo)}: there is no silo {shown(silo)}"
            )
    weights = {silo: own[silo] for silo in own if silo in rows}
    return FederatedData(schema, rows, truth, weights, about, found.notes, fingerprints)


def read_schema(folder: Path, reading: Reading = READ_ALL) -> Schema:
    """Return what is public about the data set: variables, kind, levels, and each silo's number of rows.

    Every silo is read and validated to the same end as in `read_folder`, one at a time: no more than one table is held.
    """
    files, about = silo_files(folder, reading.silos), read_about(folder)
    said = declarations(about, reading)
    if _are_series(files, said):
        schema = _series_schema({silo: replace(one, values=one.values[:0]) for silo, one in _each_series(files, said)})
    else:
        schema = _agreed(folder, files, said).schema
    check_checksums(folder, about, files)
    return schema


def profiles_of(folder: Path, reading: Reading = READ_ALL) -> dict[str, Profile]:
    """Return what each silo tells of its table before a run. Raises `BadInput` for time series, which tell no such."""
    files, said = silo_files(folder, reading.silos), declarations(read_about(folder), reading)
    if _are_series(files, said):
        raise BadInput(f"{folder}: its silos hold time series")
    return {silo: open_table(path, said).profile() for silo, path in files.items()}


def _agreed(
    folder: Path, files: Mapping[str, Path], said: Declared, tables: Mapping[str, AnyTable] | None = None
) -> InferredSchema:
    """Return what the silos agree on; from `tables` where they are in memory."""

    def ask(asked: Declared) -> dict[str, Profile]:
        return {
            silo: (replace(tables[silo], declared=asked) if tables else open_table(path, asked)).profile()
            for silo, path in files.items()
        }

    found = agreed_schema(str(folder), ask, said, {silo: str(path) for silo, path in files.items()})
    streamed = tuple(silo for silo, path in files.items() if source_of(path, said) is not None)
    return replace(found, schema=replace(found.schema, streamed=streamed))


def _are_series(files: Mapping[str, Path], said: Declared) -> bool:
    """Whether the files are read as time series: if that is declared, or if one has a column `time` and nothing is.

    With an ε, all tables are read in one way (`private_table.py`).
    """
    if said.reading.private:
        return False
    if said.kind is not None:
        return said.kind == "time-series"
    return said.may_be_series and any(has_time(path, said) for path in files.values())


def _each_series(files: Mapping[str, Path], said: Declared) -> Iterator[tuple[str, SeriesTable]]:
    """Read silo after silo; each must have the columns of the first, and the same step between two times."""
    by = next(iter(files.values())).name
    first: SeriesTable | None = None
    for silo, path in files.items():
        table = read_series(path, said)
        first = first or table
        check_same_columns(path, table.variables, first.variables, by)
        check_same_step(str(path), table.step, first.step, by)
        yield silo, table


def _read_series(files: Mapping[str, Path], said: Declared) -> tuple[InferredSchema, dict[str, NDArray[np.float64]]]:
    tables = dict(_each_series(files, said))
    schema = _series_schema(tables)
    return InferredSchema(schema), {silo: table.rows(schema) for silo, table in tables.items()}


def _series_schema(tables: Mapping[str, SeriesTable]) -> Schema:
    stretches = {silo: table.stretches for silo, table in tables.items()}
    rows = {silo: sum(lengths) for silo, lengths in stretches.items()}
    return Schema(next(iter(tables.values())).variables, rows, "time-series", stretches=stretches)


def declarations_of(schema: Schema) -> dict[str, Any]:
    """What `about.json` declares of data with this `schema`, as far as a run with an ε needs it."""
    about: dict[str, Any] = {"kind": schema.kind}
    if schema.levels:
        about["levels"] = {name: list(levels) for name, levels in schema.levels.items()}
    if schema.kind == "mixed":
        about["columns"] = dict.fromkeys((name for name in schema.variables if name not in schema.levels), "continuous")
    if schema.kind == "time-series":
        about["stretches"] = {silo: list(lengths) for silo, lengths in schema.stretches.items()}
    return about


def write_folder(folder: Path, data: FederatedData, form: Form = "csv") -> None:
    """Write `data` as a folder, whole or not at all: beside it first, then renamed. Numbers are written exactly.

    Codes are written as labels, their levels declared in `about.json`, and empty cells as such; every stretch of time
    series as a series of its own, its times 0, 1, ... Raises `BadInput` if `folder` exists and is not empty, if it
    cannot be written, or if what would be written could not be read again (the name of a silo or a column, a label, a
    column of numbers that is constant or empty everywhere, a number that is not finite).
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: already exists; give a new or an empty folder")
    check_names(str(folder), data.schema.variables)
    for name, labels in data.schema.levels.items():
        check_labels(str(folder), name, labels)
    for silo in data.schema.silos:
        check_silo_name(folder, silo)
        place, table = folder / f"{silo}.{form}", data.tables[silo]
        if data.schema.kind == "time-series":
            check_table(place, data.schema.variables, table)
            check_stretches(place, data.schema.variables, data.schema.stretches[silo])
        else:
            check_rows(place, data.schema, table)
    if data.schema.kind != "time-series":
        check_columns(folder, data.schema, data.tables)
    if form == "csv" and data.schema.gaps and len(data.schema.variables) == 1:
        raise BadInput(f"{folder}: a line of one empty cell is no row of a CSV file: write it as parquet")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent))
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        made = beside / "data"
        made.mkdir()
        _write_files(made, data, form)
        made.replace(folder)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_files(folder: Path, data: FederatedData, form: Form) -> None:
    files = {silo: folder / f"{silo}.{form}" for silo in data.schema.silos}
    for silo, path in files.items():
        keys = keys_of(data.schema.stretches[silo]) if data.schema.kind == "time-series" else {}
        write_table(path, data.schema.variables, data.tables[silo], data.schema.levels, keys)
    if data.truth is not None:
        write_structure(folder / TRUTH, data.truth, data.silo_weights)
    about = {key: value for key, value in data.about.items() if key not in AS_READ} | declarations_of(data.schema)
    if any(mark in name for name in data.schema.variables for mark in SEPARATORS):
        about["separator"] = ","
    write_about(folder, about, files)
