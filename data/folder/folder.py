"""A federated data set as a folder: `<silo>.csv` or `<silo>.parquet`, optional `truth.csv` and `about.json`.

A folder of plain CSVs somebody already has is one: of numbers, of labels, or of time series (`kind.py` says how that is
told). Files of other kinds and names beginning with a dot are left alone.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.errors import BadInput, shown

from ..federated import FederatedData
from .about import check_checksums, checksums_of, declared_levels, read_about, write_about
from .check import check_codes, check_labels, check_same_columns, check_silo_name, check_table
from .kind import kind_of
from .labels import LabelTable, read_labels
from .levels import joint_schema
from .series import SeriesTable, check_same_step, check_stretches, keys_of, read_series
from .table import Table, read_table
from .truth import read_structure, read_truth, write_structure
from .write_table import write_table

__all__ = [
    "read_folder",
    "read_schema",
    "read_structure",
    "read_truth",
    "silo_files",
    "write_folder",
    "write_structure",
]

TRUTH = "truth.csv"
Form = Literal["csv", "parquet"]


def silo_files(folder: Path) -> dict[str, Path]:
    """Return the file of each silo of `folder`, sorted by the silo's name; nothing is opened.

    Raises `BadInput` if there is no such folder, no silo in it, or a silo twice (`a.csv` and `a.parquet`).
    """
    if not folder.exists():
        raise BadInput(f"{folder}: no such folder")
    if not folder.is_dir():
        raise BadInput(f"{folder}: not a folder; a federated data set is a folder with one file a silo")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        wanted = path.suffix.lower() in (".csv", ".parquet") and not path.name.startswith(".") and path.is_file()
        if not wanted or path.name == TRUTH:
            continue
        if path.stem in files:
            raise BadInput(f"{folder}: {files[path.stem].name} and {path.name} both name the silo {shown(path.stem)}")
        files[path.stem] = path
    if not files:
        raise BadInput(f"{folder}: no silo: no .csv or .parquet file besides {TRUTH}")
    return dict(sorted(files.items()))


def read_folder(folder: Path) -> FederatedData:
    """Read and validate a whole federated data set; columns are in the order of the first silo by name.

    Its kind is what `about.json` says, else what it looks like (`kind_of`). Raises `BadInput` naming file, line or row,
    column and value for anything that cannot be learned from.
    """
    files = silo_files(folder)
    about = read_about(folder)
    read = dict(_each_silo(files, about))
    check_checksums(folder, about, checksums_of(files))
    schema = joint_schema(str(folder), [table.schema(silo) for silo, table in read.items()], declared_levels(about))
    tables = {silo: table.rows(schema) for silo, table in read.items()}
    truth = None
    own: dict[str, NDArray[np.float64]] = {}
    if (folder / TRUTH).exists():
        truth, own = read_truth(folder / TRUTH, schema.variables)
    for silo in own:
        if silo not in tables:
            raise BadInput(
                f"{folder / TRUTH}: line 1: column {shown('weight:' + silo)}: there is no silo {shown(silo)}"
            )
    return FederatedData(schema, tables, truth, own, about)


def read_schema(folder: Path) -> Schema:
    """Return what is public about the data set: variables, kind, levels, and each silo's number of rows.

    Every silo is read and validated to the same end as in `read_folder`, one at a time: no more than one table is held.
    """
    files = silo_files(folder)
    about = read_about(folder)
    parts = [table.schema(silo) for silo, table in _each_silo(files, about)]
    check_checksums(folder, about, checksums_of(files))
    return joint_schema(str(folder), parts, declared_levels(about))


def _each_silo(files: Mapping[str, Path], about: Mapping[str, Any]) -> Iterator[tuple[str, Table | LabelTable]]:
    """Read silo after silo; each must have the columns of the first, and time series the step between two times."""
    kind, declared = kind_of(files.values(), about), declared_levels(about)
    by = next(iter(files.values())).name
    variables: tuple[str, ...] | None = None
    step: float | None = None
    for silo, path in files.items():
        table = _read(path, kind, declared, about.get("step"))
        if variables is not None:
            check_same_columns(path, table.variables, variables, by)
        variables = variables or table.variables
        if isinstance(table, SeriesTable):
            step = step or table.step
            check_same_step(str(path), table.step, step, by)
        yield silo, table


def _read(path: Path, kind: Kind, declared: Mapping[str, tuple[str, ...]], step: float | None) -> Table | LabelTable:
    if kind == "discrete":
        return read_labels(path, declared)
    return read_series(path, step) if kind == "time-series" else read_table(path)


def write_folder(folder: Path, data: FederatedData, form: Form = "csv") -> None:
    """Write `data` as a folder, whole or not at all: beside it first, then renamed. Numbers are written exactly.

    Discrete data are written as labels, their levels declared in `about.json`; every stretch of time series as a series
    of its own, its times 0, 1, ... Raises `BadInput` if `folder` exists and
    is not empty, if it cannot be written, or if what would be written could not be read again (the name of a silo or a
    column, a label, a constant column of numbers, a number that is not finite).
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: exists already; give a new or an empty folder")
    check_names(str(folder), data.schema.variables)
    for name, labels in data.schema.levels.items():
        check_labels(str(folder), name, labels)
    for silo in data.schema.silos:
        check_silo_name(folder, silo)
        place, table = folder / f"{silo}.{form}", data.tables[silo]
        if data.schema.kind == "discrete":
            check_codes(place, data.schema.variables, table, data.schema.levels)
            continue
        check_table(place, data.schema.variables, table)
        if data.schema.kind == "time-series":
            check_stretches(place, data.schema.variables, data.schema.stretches[silo])
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
    levels = {"levels": data.schema.levels} if data.schema.kind == "discrete" else {}
    about = {key: value for key, value in data.about.items() if key != "step"}  # times are written in whole steps
    write_about(folder, {"kind": data.schema.kind, **about, **levels}, files)
