"""The rows of a silo: read from its own file, or, for a pooled baseline, from all the files of a folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import POOLED, FederatedData, pool
from fedbnsl.data.folder.about import NO_DECLARATION, Declared
from fedbnsl.data.folder.check import check_same_columns
from fedbnsl.data.folder.chunked_table import LargeTable, holds_parts, open_table, source_of
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.private_table import PrivateTable
from fedbnsl.data.folder.profile import Profile
from fedbnsl.data.folder.series import has_time, read_cut, read_series
from fedbnsl.data.folder.table import read_variables


@dataclass(frozen=True)
class Described:
    """What a silo says about its table before round 1; all of it is public."""

    silo: str
    profile: Profile
    streamed: bool = False
    """whether its rows are read in passes, as they are more than its memory is to hold"""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.profile.variables

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.profile.rows


@dataclass(frozen=True)
class DescribedPooled:
    """The same of the rows of several silos, which came to a schema by themselves."""

    silo: str
    schema: Schema
    notes: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.schema.variables

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.schema.rows.values())


@dataclass(frozen=True)
class DescribedSeries:
    """The same of time series: the lengths of their unbroken stretches, and the time between two rows."""

    silo: str
    variables: tuple[str, ...]
    stretches: tuple[int, ...]
    step: float

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.stretches)


AnyDescribed = Described | DescribedPooled | DescribedSeries


def describe_rows(silo: str, source: Path, declared: Declared = NO_DECLARATION) -> AnyDescribed:
    """The public part of the rows at `source`; raises `BadInput` naming file, column, row and value.

    What is `declared` of the kinds of data, of levels and of the step between two times is binding. With an ε, only
    names and the number of rows are described (`private_table.py`).
    """
    if _is_pooled(silo, source):
        data = _pooled(source, declared)
        return DescribedPooled(silo, data.schema, data.notes)
    if declared.reading.private:
        table = PrivateTable(source, declared)
        return Described(silo, table.profile(), table.streamed)
    if declared.kind == "time-series" or (declared.may_be_series and has_time(source, declared)):
        series = read_series(source, declared)
        return DescribedSeries(silo, series.variables, series.stretches, series.step)
    return Described(silo, open_table(source, declared).profile(), source_of(source, declared) is not None)


def read_rows(silo: str, source: Path, schema: Schema, declared: Declared = NO_DECLARATION) -> Any:
    """The rows at `source`, in memory or to be read in passes: numbers or level codes.

    Their columns are those of `schema` in its order.

    Raises `BadInput` naming file, column, row and value, and if the rows are not as many as `schema` says.
    """
    if _is_pooled(silo, source):
        data = _pooled(source, declared)
        if data.schema.variables != schema.variables or data.schema.levels != schema.levels:
            raise BadInput(f"{source}: it has other columns or levels than when the run began")
        return next(iter(data.tables.values()))
    if declared.reading.private:
        return PrivateTable(source, declared).rows(schema, silo)
    if schema.kind == "time-series":
        series = read_cut(source, schema.stretches[silo], declared)
        check_same_columns(source, series.variables, schema.variables, "the schema")
        return series.rows(schema)
    rows = source_of(source, declared) if silo in schema.streamed else None
    if rows is not None:
        return LargeTable(rows, declared).passes(schema, silo)
    table = read_variables(source, schema, declared).rows(schema)
    if len(table) != schema.rows[silo]:
        raise BadInput(f"{source}: it has {len(table)} rows, not {schema.rows[silo]} as when the run began")
    return table


def _is_pooled(silo: str, source: Path) -> bool:
    """Whether `source` is a folder of several silos, whose rows are to be in one place."""
    return source.is_dir() and (silo == POOLED or not holds_parts(source))


def _pooled(source: Path, declared: Declared) -> FederatedData:
    return pool(read_folder(source, declared.reading))
