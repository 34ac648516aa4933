"""The rows of a hosted silo: from its own file, or, for a pooled baseline, from all the files of a folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.protocol import Schema
from fedbnsl.data.federated import pool
from fedbnsl.data.folder import read_folder, read_silo


@dataclass(frozen=True)
class Described:
    """What a silo tells about itself before round 1: all of it public."""

    silo: str
    variables: tuple[str, ...]
    rows: int


def describe_rows(silo: str, source: Path) -> Described:
    """Return the public part of the rows at `source`; raises `BadInput` naming file, column, row and value."""
    variables, table = _read(silo, source, None)
    return Described(silo, variables, len(table))


def read_rows(silo: str, source: Path, schema: Schema) -> NDArray[Any]:
    """Return the rows at `source` as a table with the columns of `schema`, in its order."""
    variables, table = _read(silo, source, schema.variables)
    if variables != schema.variables:
        raise BadInput(f"{source}: its columns are {', '.join(variables)}, not {', '.join(schema.variables)}")
    return table


def _read(silo: str, source: Path, variables: tuple[str, ...] | None) -> tuple[tuple[str, ...], NDArray[Any]]:
    if not source.is_dir():
        return read_silo(source, variables)
    data = pool(read_folder(source))
    return data.schema.variables, data.tables[data.schema.silos[0]]
