"""Data of a program as a federated data set: the tables are written and read, so that a folder's rules apply."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.about import ABOUT
from fedbnsl.data.folder.check import check_silo_name
from fedbnsl.data.folder.declared import READ_ALL, Reading
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.tracking.notice import first_line

from .tables import tables_of

IN_MEMORY = "data"


def in_memory(
    data: Any, reading: Reading = READ_ALL, by: str | None = None, about: Mapping[str, Any] | None = None
) -> FederatedData:
    """Return `data`, or the data set of tables that `tables_of` takes; `about` is what its `about.json` would say.

    Raises `BadInput` as reading a folder does.
    """
    if isinstance(data, FederatedData):
        if about is not None:
            raise BadInput("about says how tables are to be read: this FederatedData has been read already")
        if by is not None:
            raise BadInput(f"by is {shown(by)}, a column of one DataFrame: a FederatedData has its silos already")
        if reading.ignore or reading.only or reading.silos or reading.missing != "model":
            raise BadInput(
                "ignore, only, silos and missing are for data that are read: this FederatedData has been already"
            )
        return data
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / IN_MEMORY
        folder.mkdir()
        for silo, frame in tables_of(data, by, private=reading.private).items():
            _write(folder, silo, frame, private=reading.private)
        try:
            if about is not None:
                (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
            return read_folder(folder, reading)
        except BadInput as error:
            said = str(error).replace(f"{folder}{os.sep}", "").replace(str(folder), IN_MEMORY)
            raise BadInput(said.replace(".parquet", "")) from None
        except TypeError as error:
            raise BadInput(f"about cannot be written as JSON: {error}") from None


def _write(folder: Path, silo: Any, frame: pd.DataFrame, *, private: bool) -> None:
    """Write the table of one silo; raises `BadInput` for what is none, of a `private` one without its values."""
    import pyarrow  # type: ignore[import-untyped]

    if not isinstance(silo, str):
        raise BadInput(f"data: {shown(str(silo))} cannot name a silo: it is a {type(silo).__name__}, not text")
    check_silo_name(IN_MEMORY, silo)
    try:
        frame.rename(columns=str).to_parquet(folder / f"{silo}.parquet", index=False)
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        why = "" if private else f": {first_line(error)}"
        raise BadInput(f"data: silo {shown(silo)}: cannot be read as a table{why}") from None
