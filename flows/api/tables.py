"""Tables in memory as the silos of a data set: dicts and lists of DataFrames or arrays, or one DataFrame."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.data.federated import FederatedData, without_outliers
from fedbnsl.data.folder.about import ABOUT, READ_ALL, Reading
from fedbnsl.data.folder.cells import label_of
from fedbnsl.data.folder.check import check_silo_name
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.harmonise import OTHERS, silos_of
from fedbnsl.data.folder.joint_columns import with_transforms
from fedbnsl.data.folder.targets import with_targets
from fedbnsl.tracking.staging import first_line

if TYPE_CHECKING:
    import pandas as pd

FORMS = (
    "give a folder, a FederatedData, a dict or a list of DataFrames or arrays, or one DataFrame with by='COLUMN', the "
    "column that names the silo of each row"
)


Tables = dict[Any, "pd.DataFrame"]


def split_tables(data: Any, by: str | None = None, reading: Reading = READ_ALL) -> tuple[Tables, str]:
    """The table of each silo, by the given name, and a note on rows whose silo has too few rows or no name.

    Silos of a list get the names silo-1, silo-2, ..., and columns of an array get the names x1, x2, ...; the numbers
    are padded with zeros to equal length. Raises `BadInput` for `data` of another type, for an invalid table, and for a
    column `by` that does not exist, is superfluous or, in a private run, has empty cells.
    """
    import pandas as pd  # imported late, here and below: folders do not need it

    data = _frame(data)
    if isinstance(data, pd.DataFrame):
        return _divided(data, by, reading)
    if by is not None:
        raise BadInput(f"by is {quoted(by)}, a column of one DataFrame, but data is a {type(data).__name__} of silos")
    if isinstance(data, Mapping):
        silos = dict(data)
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        silos = dict(zip(numbered_names("silo-", len(data)), data, strict=True))
    elif isinstance(data, np.ndarray):
        raise BadInput("data is one array, which names no silos: give a list of arrays, one per silo")
    else:
        raise BadInput(f"data is a {type(data).__name__}: {FORMS}")
    if not silos:
        raise BadInput(f"data is an empty {type(data).__name__}: {FORMS}")
    return {silo: _one_table(f"data: silo {quoted(str(silo))}", one) for silo, one in silos.items()}, ""


def _frame(given: Any) -> Any:
    """A table of another library as a DataFrame, if it has `to_pandas`; anything else unchanged."""
    return given.to_pandas() if hasattr(given, "to_pandas") else given


def _divided(frame: "pd.DataFrame", by: str | None, reading: Reading) -> tuple[Tables, str]:
    """The rows of each silo without the column `by`, and the note of `silos_of`."""
    if by is None:
        raise BadInput("data is one DataFrame: give the column with the silo of each row, such as by='hospital'")
    if list(frame.columns).count(by) != 1:
        raise BadInput(f"by is {quoted(str(by))}: no such column; available: {', '.join(map(str, frame.columns))}")
    if reading.private and frame[by].isna().any():
        raise BadInput(f"data: column {quoted(by)}: a cell is empty, so its row has no silo")
    owners = frame[by].astype(object).where(frame[by].notna(), "").astype(str).map(label_of)
    found = silos_of(IN_MEMORY, by, Counter(owners), merge_small=reading.small_silos == "merge")
    if found.merges:
        owners = owners.where(~owners.isin(found.small), OTHERS)
    return {silo: frame[owners == silo].drop(columns=by) for silo in found.silos}, found.note


def _one_table(who: str, given: Any) -> "pd.DataFrame":
    """A table as a DataFrame; errors begin with `who`."""
    import pandas as pd

    given = _frame(given)
    if isinstance(given, pd.DataFrame):
        return given
    if not isinstance(given, np.ndarray):
        raise BadInput(f"{who} is a {type(given).__name__}: give a DataFrame, or an array of rows and columns")
    if given.ndim != 2:
        raise BadInput(f"{who} is an array of shape {given.shape}: give one of rows and columns")
    return pd.DataFrame(given, columns=numbered_names("x", given.shape[1]))


def numbered_names(word: str, count: int) -> list[str]:
    """`word` with the numbers from 1 to `count`, padded with zeros so that they sort by number."""
    return [f"{word}{number:0{len(str(count))}d}" for number in range(1, count + 1)]


IN_MEMORY = "data"


def tables_in_memory(
    data: Any, reading: Reading = READ_ALL, by: str | None = None, about: Mapping[str, Any] | None = None
) -> FederatedData:
    """The data set of `data`: a `FederatedData`, or tables as `split_tables` accepts them.

    Tables are read by the rules for folders, with `about` in place of `about.json`. The tables of a `FederatedData` are
    already read: only the options on transforms, targets and outliers in `reading` apply to them, and `BadInput` is
    raised for most others. Also raises `BadInput` as reading a folder does.
    """
    if isinstance(data, FederatedData):
        if about is not None:
            raise BadInput("about describes how to read tables: a FederatedData is already read")
        if by is not None:
            raise BadInput(f"by is {quoted(by)}, a column of a single DataFrame: a FederatedData already has its silos")
        columns = (*reading.ignore, *reading.only, reading.condition, reading.cluster)
        if any(columns) or reading.silos or reading.missing != "model":
            raise BadInput(
                "ignore, only, silos, condition, cluster and missing are options of reading: a FederatedData is "
                "already read"
            )
        data = with_transforms(data, reading)
        if reading.targets is not None:
            unknown = reading.finds_targets
            schema = with_targets(data.schema, dict(reading.targets), "targets", unknown=unknown)
            data = replace(data, schema=schema)
        return data if reading.outliers == "keep" else without_outliers(data)
    frames, note = split_tables(data, by, reading)
    with _written(frames, private=reading.private) as folder:
        if about is None and reading.private:
            about = _declared_by_types(frames.values())
        try:
            if about is not None:
                (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
        except TypeError as error:
            raise BadInput(f"about cannot be written as JSON: {error}") from None
        found = read_folder(folder, reading)
    return replace(found, notes=(*found.notes, note)) if note else found


@contextmanager
def file_of(table: "str | Path | pd.DataFrame") -> "Iterator[Path]":
    """The file of a table; that of a DataFrame exists only in the block, and errors call it "table"."""
    if isinstance(table, str | Path):
        yield Path(table)
        return
    with _written({"table": _one_table("table", table)}, private=False) as folder:
        yield folder / "table.parquet"


@contextmanager
def _written(frames: "Mapping[Any, pd.DataFrame]", *, private: bool) -> "Iterator[Path]":
    """A folder with a file for each table, which exists only in the block; errors name a table without its file."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / IN_MEMORY
        folder.mkdir()
        for name, frame in frames.items():
            _write(folder, name, frame, private=private)
        try:
            yield folder
        except BadInput as error:
            message = str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), IN_MEMORY)
            raise BadInput(message.replace(".parquet", "")) from None


def _declared_by_types(frames: "Iterable[pd.DataFrame]") -> dict[str, Any]:
    """The part of `about.json` that the types of columns declare: numbers, and categories with their levels.

    A run with an ε must not infer kinds and levels from rows; the types of a DataFrame count as the caller's
    declaration.
    """
    import pandas as pd

    columns: dict[str, str] = {}
    levels: dict[str, list[str]] = {}
    for frame in frames:
        for name, column in frame.items():
            if isinstance(column.dtype, pd.CategoricalDtype):
                levels.setdefault(str(name), [str(label) for label in column.dtype.categories])
            elif pd.api.types.is_numeric_dtype(column.dtype):
                columns[str(name)] = "continuous"
    if not levels:
        return {"kind": "continuous"} if columns else {}
    return (
        {"kind": "mixed", "levels": levels, "columns": columns} if columns else {"kind": "discrete", "levels": levels}
    )


def _write(folder: Path, silo: Any, frame: "pd.DataFrame", *, private: bool) -> None:
    """Write the table of one silo. Raises `BadInput` for an invalid table; in a `private` run, without its values."""
    import pyarrow

    if not isinstance(silo, str):
        raise BadInput(f"data: {quoted(str(silo))} cannot name a silo: it is a {type(silo).__name__}, not text")
    check_silo_name(IN_MEMORY, silo)
    try:
        frame.rename(columns=str).to_parquet(folder / f"{silo}.parquet", index=False)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        why = "" if private else f": {first_line(error)}"
        raise BadInput(f"data: silo {quoted(silo)}: cannot be read as a table{why}") from None
