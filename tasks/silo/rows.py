"""The rows of a silo: read from its own file, or, for a pooled baseline, from all the files of a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import pool
from fedbnsl.data.folder.about import declared_levels
from fedbnsl.data.folder.check import check_same_columns
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.kind import kind_of
from fedbnsl.data.folder.labels import LabelTable, read_labels
from fedbnsl.data.folder.series import read_cut, read_series
from fedbnsl.data.folder.table import Table, read_table


@dataclass(frozen=True)
class Described:
    """What a silo says about itself before round 1; all of it is public."""

    silo: str
    variables: tuple[str, ...]
    rows: int

    def schema(self) -> Schema:
        """Return the schema of this silo alone."""
        return Schema(self.variables, {self.silo: self.rows})


@dataclass(frozen=True)
class DescribedLabels(Described):
    """The same for discrete data, with each column's levels: as declared, or else the labels that occur in it."""

    levels: dict[str, tuple[str, ...]]

    def schema(self) -> Schema:
        """Return the schema of this silo alone."""
        return Schema(self.variables, {self.silo: self.rows}, "discrete", self.levels)


@dataclass(frozen=True)
class DescribedPooled(Described):
    """The same for continuous rows from several silos, with how many come from each."""

    stretches: tuple[int, ...]

    def schema(self) -> Schema:
        """Return the schema of all these rows in one silo."""
        return Schema(self.variables, {self.silo: self.rows}, stretches={self.silo: self.stretches})


@dataclass(frozen=True)
class DescribedSeries(Described):
    """The same for time series, with the lengths of their unbroken stretches, and the time between two rows."""

    stretches: tuple[int, ...]
    step: float

    def schema(self) -> Schema:
        """Return the schema of this silo alone."""
        return Schema(self.variables, {self.silo: self.rows}, "time-series", stretches={self.silo: self.stretches})


def describe_rows(silo: str, source: Path, about: Mapping[str, Any] | None = None) -> Described:
    """Return the public part of the rows at `source`; raises `BadInput` naming file, column, row and value.

    `about` is the content of the coordinator's `about.json`: the kind of data, the levels and the step between two
    times that it declares are binding.
    """
    told, step = about or {}, 1.0
    if source.is_dir():
        own = pool(read_folder(source)).schema
    elif (kind := kind_of([source], told)) == "discrete":
        own = read_labels(source, declared_levels(told)).schema(silo)
    elif kind == "time-series":
        series = read_series(source, told.get("step"))
        own, step = series.schema(silo), series.step
    else:
        own = read_table(source).schema(silo)
    (rows,) = own.rows.values()
    if own.kind == "discrete":
        return DescribedLabels(silo, own.variables, rows, own.levels)
    if own.kind == "time-series":
        (stretches,) = own.stretches.values()
        return DescribedSeries(silo, own.variables, rows, stretches, step)
    if own.stretches:
        (stretches,) = own.stretches.values()
        return DescribedPooled(silo, own.variables, rows, stretches)
    return Described(silo, own.variables, rows)


def read_rows(silo: str, source: Path, schema: Schema) -> NDArray[Any]:
    """Return the rows at `source` as a table of numbers or level codes, with the columns of `schema` in its order.

    Raises `BadInput` naming file, column, row and value.
    """
    if source.is_dir():
        data = pool(read_folder(source))
        if data.schema.variables != schema.variables or data.schema.levels != schema.levels:
            raise BadInput(f"{source}: it has other columns or levels than when the run began")
        return next(iter(data.tables.values()))
    table: Table | LabelTable
    if schema.kind == "discrete":
        table = read_labels(source, schema.levels)
    elif schema.kind == "time-series":
        table = read_cut(source, schema.stretches[silo])
    else:
        table = read_table(source)
    check_same_columns(source, table.variables, schema.variables, "the schema")
    return table.rows(schema)
