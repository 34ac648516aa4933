"""A federated data set as a folder: a table for each silo, `<silo>.csv`, and optionally `truth.csv` and `about.json`.

`formats.py` has the formats of tables. A silo may also be a folder of Parquet parts, or a query, `<silo>.sql`
(`query.py`). Instead of a folder, a data set may be one file with the rows of all silos and a column that names the
silo of each row (`Reading.by`). A folder of plain tables works as it is: the tables may have numbers, labels, both, or
time series (`schema_inference.py` has the rules). Documents and the like are ignored, and any other entry raises an
error (`check.py`). `write_folder` writes exact numbers, and labels instead of level codes.
"""

import csv
import shutil
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema, check_names
from fedbnsl.algorithms.errors import BadInput, listed, pluralize, quoted

from ..federated import FederatedData, survival_apart
from .about import (
    ABOUT,
    READ_ALL,
    Declared,
    Reading,
    check_checksums,
    condition_column,
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
    is_about_graphs,
    is_database,
    is_ignored,
    refuse_unread,
    visible_entries,
)
from .chunked_series import SeriesPasses, described_series, have_times, open_series
from .events import (
    NO_EPSILON,
    check_same_times,
    read_events,
    refuse_undeclared,
    write_events,
)
from .fingerprint import fingerprint
from .formats import BROKEN, LISTED, Form, ending_of, file_stamp, has_settled, is_sheet, kind_of, silo_of
from .harmonise import SiloLabels, check_harmonised, check_silos, silo_counts, silos_of
from .joint_columns import check_series_domains
from .profile import Profile
from .schema_inference import InferredSchema, infer_events, infer_series, negotiate_schema
from .series import (
    SeriesTable,
    check_columns_with_gaps,
    check_same_step,
    check_stretches,
    series_and_time,
)
from .sources import open_source
from .suggestions import is_site, site_notes
from .table import Table, holds_parts, open_table
from .targets import named_targets, with_targets
from .text import SEPARATORS
from .truth import read_structure, read_structures, read_truth, write_structure


def write_table(
    path: Path,
    variables: Sequence[str],
    values: NDArray[Any],
    levels: Mapping[str, Sequence[str]] | None = None,
    keys: Mapping[str, NDArray[Any]] | None = None,
) -> None:
    """Write `values` [n_rows, n_variables] to `path` (.csv or .parquet); codes of `levels` are written as labels.

    Missing values, NaN or −1 among codes, become empty cells. `keys` are columns [n_rows] before the variables. pyarrow
    writes the shortest text that reads back as the same number.
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
    """A column for pyarrow, null where a cell is empty: numbers, or the `labels` of codes."""
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
FileFormat = Literal["csv", "parquet"]
SOURCE_FORMAT_KEYS = (
    "step",
    "separator",
    "encoding",
    "decimal",
    "missing",
    "columns",
    "levels",
    "transform",
    "stretches",
    "targets",
    "condition",
    "cluster",
    "sheet",
    "rename",
    "recode",
    "join",
    "unit",
    "scale",
)
"""keys of `about.json` that describe the original files and need not be true of the written files"""


def place_of(data: Path) -> Path:
    """The folder of a federated data set: `data` itself or, if `data` is one file with all rows, the file's folder."""
    return data.parent if data.is_file() else data


def silo_files(
    folder: Path, only: tuple[str, ...] = (), by: str | None = None, *, merge_small: bool = False
) -> dict[str, Path]:
    """The file of each silo of `folder`, or of the silos `only`, sorted by the silo's name; opens no file.

    With a column `by`, `folder` is a file or has only one table, which is the file of every silo. Rows whose silo has
    too few rows or no name are left out or, with `merge_small`, form the silo `OTHERS`. Raises `BadInput` for
    a folder that does not exist or has no silo, for two files of a silo (`a.csv` and `a.parquet`), an invalid name of a
    silo, or something that is not a file. Without `only`, an entry of an unknown format also raises `BadInput`, because
    it may be a silo.
    """
    if folder.is_file() and by is None:
        raise BadInput(
            f"{folder}: not a folder with one file per silo: for one file with the rows of all silos, name the column "
            f"with the silo of each row: --by {site_column(folder) or 'COLUMN'}"
        )
    files, unread = ({folder.name: folder}, []) if folder.is_file() else _entries(folder)
    if not only or by is not None:
        refuse_unread(folder, unread)
    if not files:
        raise BadInput(f"{folder}: no silo: no table besides {TRUTH}; a table is a file in {LISTED}")
    if by is not None:
        if len(files) > 1:
            names = ", ".join(path.name for path in list(files.values())[:3])
            raise BadInput(f"{folder}: --by is for one file with the rows of all silos, but it has {names}")
        path = next(iter(files.values()))
        files = dict.fromkeys(_silos_in(path, by, merge_small=merge_small).silos, path)
    for silo in only:
        if silo not in files:
            raise BadInput(f"{folder}: there is no silo {quoted(silo)}; available: {', '.join(sorted(files))}")
    return {silo: path for silo, path in sorted(files.items()) if not only or silo in only}


def _entries(folder: Path) -> tuple[dict[str, Path], list[Path]]:
    """The file of each silo of `folder`, and the entries of unknown formats; raises `BadInput` as `silo_files` does."""
    files: dict[str, Path] = {}
    unread: list[Path] = []
    for path in visible_entries(folder):
        ending = None if is_sheet(path) and is_ignored(path) else ending_of(path)
        parts = holds_parts(path)
        if not parts and (ending or path.name == ABOUT):
            check_is_file(path)
        if path.name in (TRUTH, ABOUT) or is_about_graphs(path):
            continue
        if not (parts or ending):
            if not is_ignored(path):
                unread.append(path)
            continue
        silo = silo_of(path)
        check_silo_name(folder, silo)
        if silo in files:
            raise BadInput(f"{folder}: {files[silo].name} and {path.name} both name the silo {quoted(silo)}")
        files[silo] = path
    queries = any(kind_of(path) == "query" for path in files.values())
    return files, [path for path in unread if not (queries and is_database(path))]


def site_column(path: Path) -> str | None:
    """The column of a file whose name suggests that it has the silo of each row, such as `hospital`; None otherwise."""
    try:
        names = open_source(path, declarations(read_about(path)).at_silo("").form).names
    except (BadInput, *BROKEN):
        return None
    return next((name for name in names if is_site(name)), None)


def files_of(folder: Path, reading: Reading) -> dict[str, Path]:
    """The file of each silo of `folder` that `reading` selects; raises `BadInput` as `silo_files`.

    In a folder, a silo with too few rows is left out if other silos remain.
    """
    files = silo_files(folder, reading.silos, reading.by, merge_small=reading.small_silos == "merge")
    small = _small_files(folder, files, reading)
    return {silo: path for silo, path in files.items() if silo not in small}


SMALL_FILE_BYTES = 1 << 14
"""size up to which a file may have too few rows for a silo"""


def _small_files(folder: Path, files: Mapping[str, Path], reading: Reading) -> list[str]:
    """The silos of a folder with too few rows, if others remain; a file that cannot be read is not among them."""
    if reading.by is not None:
        return []
    declared = declarations(read_about(folder))
    small = [silo for silo, path in files.items() if _has_few_rows(path, declared.at_silo(silo).form)]
    return small if len(small) < len(files) else []


def _has_few_rows(path: Path, form: Form) -> bool:
    if not path.is_file() or path.stat().st_size > SMALL_FILE_BYTES or kind_of(path) == "query":
        return False
    try:
        source = open_source(path, form)
        name = source.names[:1]
        return sum(int(batch.num_rows) for batch in source.batches(name, name)) == 1
    except (BadInput, *BROKEN):
        return False


def _silos_in(path: Path, by: str, *, merge_small: bool) -> SiloLabels:
    """The silos that the column `by` of a file names; raises `BadInput` as `silos_of`."""
    about = place_of(path) / ABOUT
    stamps = [file_stamp(one.name, one.stat()) if one.exists() else None for one in (path, about)]
    settled = path.exists() and has_settled(path.stat())
    counts = (_silo_counts if settled else _silo_counts.__wrapped__)(path, by, tuple(stamps))
    return silos_of(str(path), by, counts, merge_small=merge_small)


def small_silo_notes(folder: Path, reading: Reading) -> tuple[str, ...]:
    """A note on rows whose silo has too few rows or, by the column `reading.by`, no name, if there are any."""
    if reading.by is None:
        small = _small_files(folder, silo_files(folder, reading.silos), reading)
        return (f"left out: {pluralize(len(small), 'silo')} with one row ({listed(small)})",) if small else ()
    path = folder if folder.is_file() else next(iter(_entries(folder)[0].values()))
    note = _silos_in(path, reading.by, merge_small=reading.small_silos == "merge").note
    return (note,) if note else ()


@lru_cache(maxsize=16)
def _silo_counts(path: Path, by: str, stamps: Hashable) -> Counter[str]:
    """The number of rows of each silo that the column `by` names, for a file and its about.json with these `stamps`.

    Raises `BadInput` for a column that is not there.
    """
    if path.is_dir() or kind_of(path) == "query":
        raise BadInput(f"{path}: --by reads one file: write the rows to one, or a query for each silo")
    declared = declarations(read_about(path), replace(READ_ALL, only=(by,)))
    form = declared.at_silo(path.name).form
    source = open_source(
        path, replace(form, rename=(), recode=(), unit=(), scale=(), rows=None), lambda name: name == by
    )
    check_harmonised(path, replace(form, rename=(), recode=(), scale=(), rows=(by, "")), source.names)
    return silo_counts(source, by)


def read_folder(folder: Path, reading: Reading = READ_ALL, about: Mapping[str, Any] | None = None) -> FederatedData:
    """Read and validate a whole federated data set; columns are in the order of the first silo by name.

    `about` is the content of `about.json`, by default that of the file. It may declare the kind of the data; otherwise,
    `schema_inference.py` infers the kind from the columns.
    Raises `BadInput` naming file, line or row, column and value for invalid data.
    """
    files = files_of(folder, reading)
    about = read_about(folder) if about is None else about
    declared = _checked_declarations(folder, about, reading, files)
    fingerprints = {}
    for silo, path in files.items():
        fingerprints[silo] = fingerprint(path)
    rows: dict[str, Any]
    clusters: dict[str, NDArray[np.int64]] = {}
    survival: dict[str, NDArray[np.float64]] = {}
    if declared.kind == "events":
        inferred, rows = _read_events(folder, files, declared)
    elif _are_series(files, declared):
        inferred, rows = _read_series(folder, files, declared)
    else:
        tables = {silo: open_table(path, declared.at_silo(silo)) for silo, path in files.items()}
        inferred = _inferred_schema(folder, files, declared, tables)
        whole = inferred.schema.with_survival_columns()
        rows, clusters = _rows_of(tables, whole)
        rows, survival = survival_apart(inferred.schema, rows, files)
    check_checksums(place_of(folder), about, files)
    schema = _with_targets(inferred.schema, declared)
    inferred = replace(inferred, notes=(*small_silo_notes(folder, reading), *inferred.notes))
    if len(files) == 1 and reading.by is None:
        inferred = replace(inferred, notes=(*inferred.notes, *site_notes(schema)))
    truth = None
    silo_weights: dict[str, NDArray[np.float64]] = {}
    folder = place_of(folder)
    if (folder / TRUTH).exists():
        truth, silo_weights = read_truth(folder / TRUTH, schema.nodes, nodes_left_out(schema, about))
    all_files = _entries(folder)[0] if silo_weights and reading.by is None else files
    for silo in silo_weights:
        if silo not in all_files:
            raise BadInput(
                f"{folder / TRUTH}: line 1: column {quoted('weight:' + silo)}: there is no silo {quoted(silo)}"
            )
    weights = {silo: silo_weights[silo] for silo in silo_weights if silo in rows}
    own = (fingerprints, clusters, survival)
    return FederatedData(schema, rows, truth, weights, dict(about), inferred.notes, *own)


def _rows_of(tables: Mapping[str, Table], schema: Schema) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
    """The rows of each of the silos' `tables`, and the clusters of these rows if a column names them."""
    rows = {}
    for silo, table in tables.items():
        rows[silo] = table.rows(schema, silo)
    clustered = {silo: table for silo, table in tables.items() if table.declared.reading.cluster is not None}
    return rows, {silo: table.clusters(schema, silo) for silo, table in clustered.items()}


def nodes_left_out(schema: Schema, about: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns that were left out, and the survival outcomes of which a column was left out."""
    return (*schema.aside, *(name for name in about.get("survival", {}) if name not in schema.survival))


def read_schema(folder: Path, reading: Reading = READ_ALL) -> Schema:
    """The public schema of the data set: variables, kind, levels, and each silo's number of rows.

    Reads and validates every silo as `read_folder` does, with one table in memory at a time.
    """
    files, about = files_of(folder, reading), read_about(folder)
    declared = _checked_declarations(folder, about, reading, files)
    if declared.kind == "events":
        schema = _read_events(folder, files, declared)[0].schema
    elif _are_series(files, declared):
        schema = _read_series(folder, files, declared)[0].schema
    else:
        schema = _inferred_schema(folder, files, declared).schema
    check_checksums(place_of(folder), about, files)
    return _with_targets(schema, declared)


def _with_targets(schema: Schema, declared: Declared) -> Schema:
    """`schema` with the targets of experiments; if only some silos are read, targets of other silos are allowed."""
    others = None if declared.reading.silos else ()
    condition = declared.reading.conditions_column
    unknown = declared.reading.finds_targets
    return with_targets(schema, declared.all_targets, declared.targets_place, others, condition, unknown=unknown)


def profiles_of(folder: Path, reading: Reading = READ_ALL) -> dict[str, Profile]:
    """The profile of each silo's table. Raises `BadInput` for time series and events, which have no profiles."""
    files, declared = files_of(folder, reading), declarations(read_about(folder), reading)
    if declared.kind == "events" or _are_series(files, declared):
        raise BadInput(f"{folder}: its silos have time series or events, which have no profiles")
    return {silo: open_table(path, declared.at_silo(silo)).profile() for silo, path in files.items()}


def _checked_declarations(
    folder: Path, about: Mapping[str, Any], reading: Reading, files: Mapping[str, Path]
) -> Declared:
    """The declarations in `about` with the options; raises `BadInput` for a declaration of an unknown silo.

    If only some silos are read, declarations of other silos are allowed.
    """
    declared = declarations(about, reading)
    keys = {
        "rename": declared.rename,
        "recode": declared.recode,
        "scale": declared.scale,
        "sheet": {name for name in declared.sheets if name},
    }
    for key, named in keys.items():
        if not reading.silos:
            check_silos(str(place_of(folder) / ABOUT), key, named, files)
    return declared


def _inferred_schema(
    folder: Path, files: Mapping[str, Path], declared: Declared, tables: Mapping[str, Table] | None = None
) -> InferredSchema:
    """The schema of the silos' files, from their `tables` if these are open already."""
    streamed: dict[str, bool] = {}

    def profiles(request: Declared) -> dict[str, Profile]:
        found = {}
        for silo, path in files.items():
            own = request.at_silo(silo)
            table = replace(tables[silo], declared=own) if tables else open_table(path, own)
            found[silo], streamed[silo] = table.profile(), table.streamed
        return found

    inferred = negotiate_schema(str(folder), profiles, declared, {silo: str(path) for silo, path in files.items()})
    return replace(inferred, schema=replace(inferred.schema, streamed=tuple(filter(streamed.__getitem__, files))))


def _read_events(
    folder: Path, files: Mapping[str, Path], declared: Declared
) -> tuple[InferredSchema, dict[str, NDArray[np.float64]]]:
    """The schema of the silos' files of events, and their tables; raises `BadInput` in a run with an ε."""
    if declared.reading.private:
        raise BadInput(NO_EPSILON)
    tables = {silo: read_events(path, declared.at_silo(silo)) for silo, path in files.items()}
    inferred = infer_events(str(folder), [one.described(silo) for silo, one in tables.items()], declared)
    check_same_times({str(files[silo]): one.are_dates for silo, one in tables.items()})
    return inferred, {silo: one.rows(inferred.schema, files[silo]) for silo, one in tables.items()}


def _are_series(files: Mapping[str, Path], declared: Declared) -> bool:
    """Whether the files are read as time series: with `--time`, if so declared, or by default with a column `time`.

    A run with an ε reads time series like other tables (`private_table.py`). Raises `BadInput` as `have_times` does.
    """
    if declared.reading.private:
        return False
    if declared.reading.time:
        return True
    if declared.kind is not None:
        return declared.kind == "time-series"
    for silo, path in files.items():
        refuse_undeclared(path, declared.at_silo(silo))
    return declared.may_be_series and have_times(files, declared)


def _each_series(files: Mapping[str, Path], declared: Declared) -> Iterator[tuple[str, SeriesTable | SeriesPasses]]:
    """Yield the series of each silo; raises `BadInput` if its columns or time step differ from the first silo's."""
    by = next(iter(files.values())).name
    first: SeriesTable | SeriesPasses | None = None
    for silo, path in files.items():
        table = open_series(path, declared.at_silo(silo))
        first = first or table
        check_same_columns(path, table.variables, first.variables, by)
        check_same_step(str(path), table.step, first.step, by)
        if isinstance(table, SeriesTable):
            check_series_domains(path, table.variables, table.values, declared)
        yield silo, table


def _read_series(folder: Path, files: Mapping[str, Path], declared: Declared) -> tuple[InferredSchema, dict[str, Any]]:
    """The schema of the silos' files of series, and their rows."""
    tables = dict(_each_series(files, declared))
    inferred = infer_series(str(folder), [described_series(silo, one) for silo, one in tables.items()], declared)
    return inferred, {silo: one.rows(inferred.schema) for silo, one in tables.items()}


def _outcomes_of(schema: Schema) -> dict[str, Any]:
    """The part of `about.json` that declares the survival outcomes of `schema`."""
    return {"survival": {name: list(pair) for name, pair in schema.survival.items()}} if schema.survival else {}


def declarations_of(schema: Schema) -> dict[str, Any]:
    """The part of `about.json` that declares data with this `schema`."""
    about: dict[str, Any] = {"kind": schema.kind, **_outcomes_of(schema)}
    if schema.levels:
        about["levels"] = {name: list(levels) for name, levels in schema.levels.items()}
    if schema.kind == "mixed":
        about["columns"] = dict.fromkeys((name for name in schema.variables if name not in schema.levels), "continuous")
    if schema.counts:
        about["columns"] = {**about.get("columns", {}), **dict.fromkeys(schema.counts, "count")}
    if set(schema.transforms) - set(schema.counts):
        names = {"log1p": "log", "anscombe": "sqrt"}
        own = {name: one for name, one in schema.transforms.items() if name not in schema.counts}
        about["transform"] = {name: names.get(one, one) for name, one in own.items()}
    if schema.unit_of:
        about["unit"] = dict(schema.unit_of)
    if schema.condition_names:
        about["condition"] = condition_column(schema.aside)
    if schema.has_targets:
        about["targets"] = {name: list(own) for name, own in named_targets(schema).items()}
    if schema.kind == "time-series":
        about["stretches"] = {silo: list(lengths) for silo, lengths in schema.stretches.items()}
    return about


def write_folder(folder: Path, data: FederatedData, form: FileFormat = "csv") -> None:
    """Write `data` as a folder, atomically: into a temporary folder, which is then renamed. Numbers are exact.

    Codes are written as labels, with their levels in `about.json`. Every stretch of time series becomes a series with
    the times 0, 1, ... Raises `BadInput` if `folder` exists and is not empty, if it cannot be written, or if the result
    could not be read again. Data that could not be read have invalid names of silos or columns, invalid labels, numeric
    columns that are constant or empty, or infinite numbers.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: already exists; give a new or an empty folder")
    check_names(str(folder), data.schema.variables)
    for name, labels in data.schema.levels.items():
        check_labels(str(folder), name, labels)
    for silo in data.schema.silos:
        check_silo_name(folder, silo)
        if data.schema.kind == "events":
            continue
        place, table = folder / f"{silo}.{form}", data.tables[silo]
        if data.schema.kind == "time-series":
            numbers = np.flatnonzero(~data.schema.discrete)
            if data.schema.gaps:
                check_columns_with_gaps(place, data.schema.variables, table)
            elif len(numbers):
                check_table(place, [data.schema.variables[v] for v in numbers], table[:, numbers])
            check_stretches(place, data.schema.variables, data.schema.stretches[silo])
        else:
            check_rows(place, data.schema, table)
    if data.schema.kind not in ("time-series", "events"):
        check_columns(folder, data.schema, data.tables)
    if form == "csv" and data.schema.gaps and len(data.schema.variables) == 1:
        raise BadInput(f"{folder}: CSV files cannot have rows of a single empty cell: write the data as parquet")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent))
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        staged = scratch / "data"
        staged.mkdir()
        _write_files(staged, data, form)
        staged.replace(folder)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_files(folder: Path, data: FederatedData, form: FileFormat) -> None:
    files = {silo: folder / f"{silo}.{form}" for silo in data.schema.silos}
    whole = data.schema.with_survival_columns()
    for silo, path in files.items():
        if data.schema.kind == "events":
            write_events(path, data.schema, data.tables[silo])
            continue
        keys: dict[str, Any] = {}
        if data.schema.kind == "time-series":
            keys = series_and_time(data.schema.stretches[silo])
        elif silo in data.schema.condition_names:
            names = np.array(data.schema.condition_names[silo], object)
            keys = {str(condition_column(data.schema.aside)): np.repeat(names, data.schema.stretches[silo])}
        write_table(path, whole.variables, data.whole_table(silo), whole.levels, keys)
    if data.truth is not None:
        write_structure(folder / TRUTH, data.truth, data.silo_weights)
    about = {key: value for key, value in data.about.items() if key not in SOURCE_FORMAT_KEYS}
    about |= declarations_of(data.schema)
    if any(mark in name for name in data.schema.variables for mark in SEPARATORS):
        about["separator"] = ","
    write_about(folder, about, files)
