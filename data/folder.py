"""A federated data set as a folder: `<silo>.csv` or `<silo>.parquet`, optional `truth.csv` and `about.json`.

A folder of plain CSVs somebody already has is one. Files of other kinds and names beginning with a dot are left alone.
"""

import csv
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.protocol import Schema

from .about import check_checksums, checksums_of, read_about, write_about
from .check import check_names, check_same_columns, check_silo_name, check_table, shown
from .federated import FederatedData, continuous
from .table import read_table
from .truth import read_structure, read_truth, write_structure

__all__ = [
    "checksums",
    "read_folder",
    "read_schema",
    "read_silo",
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


def checksums(folder: Path) -> dict[str, str]:
    """Return the sha256 of each silo file of `folder` by file name. Raises `BadInput` as `silo_files` does."""
    return checksums_of(silo_files(folder))


def read_silo(
    path: Path, variables: Sequence[str] | None = None, by: str = "the schema"
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Read one silo's table: its variables, and its rows [n_rows, n_variables] in that order.

    With `variables` the columns are put in that order, and a missing or extra one is refused; `by` says, in the
    message, who has those variables. Raises `BadInput` as `read_table` does.
    """
    table = read_table(path)
    if variables is None or tuple(variables) == table.variables:
        return table.variables, table.values
    check_same_columns(path, table.variables, variables, by)
    order = [table.variables.index(name) for name in variables]
    return tuple(variables), np.ascontiguousarray(table.values[:, order])


def read_folder(folder: Path) -> FederatedData:
    """Read and validate a whole federated data set; columns are in the order of the first silo by name.

    Raises `BadInput` naming file, line or row, column and value for anything that cannot be learned from.
    """
    files = silo_files(folder)
    about = read_about(folder)
    variables: tuple[str, ...] | None = None
    tables: dict[str, NDArray[Any]] = {}
    first = next(iter(files.values())).name
    for silo, path in files.items():
        variables, tables[silo] = read_silo(path, variables, by=first)
    check_checksums(folder, about, checksums_of(files))
    schema = continuous(tables, variables or ())
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
    """Return what is public about the data set: variables, kind, and each silo's number of rows.

    Every silo is read and validated to the same end as in `read_folder`, one at a time: no more than one table is held.
    """
    files = silo_files(folder)
    about = read_about(folder)
    variables: tuple[str, ...] | None = None
    rows: dict[str, int] = {}
    first = next(iter(files.values())).name
    for silo, path in files.items():
        variables, table = read_silo(path, variables, by=first)
        rows[silo] = len(table)
    check_checksums(folder, about, checksums_of(files))
    return Schema(variables or (), rows, kind="continuous")


def write_folder(folder: Path, data: FederatedData, form: Form = "csv") -> None:
    """Write `data` as a folder, whole or not at all: beside it first, then renamed. Numbers are written exactly.

    Raises `BadInput` if `folder` exists and is not empty, if it cannot be written, or if what would be written could
    not be read again (the name of a silo or a column, a constant column, a number that is not finite).
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: exists already; give a new or an empty folder")
    check_names(str(folder), data.schema.variables)
    for silo in data.schema.silos:
        check_silo_name(folder, silo)
        check_table(folder / f"{silo}.{form}", data.schema.variables, data.tables[silo])
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
        _write_table(path, data.schema.variables, data.tables[silo])
    if data.truth is not None:
        write_structure(folder / TRUTH, data.truth, data.silo_weights)
    write_about(folder, data.about, files)


def _write_table(path: Path, variables: Sequence[str], values: NDArray[Any]) -> None:
    """Write `values` [n_rows, n_variables]; pyarrow writes the shortest text that reads back as the same number."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.csv  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    columns = [pyarrow.array(np.ascontiguousarray(column)) for column in values.T]
    table = pyarrow.Table.from_arrays(columns, names=list(variables))
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(variables)
    with path.open("ab") as file:
        pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(include_header=False))
