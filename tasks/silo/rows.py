"""The rows of a silo: read from its own file or, for a pooled baseline, from all files of a folder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.release import Level
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import POOLED, FederatedData, pool
from fedbnsl.data.folder.about import NO_DECLARATION, Declared
from fedbnsl.data.folder.check import check_same_columns
from fedbnsl.data.folder.chunked_series import LargeSeries, described_series, open_series, series_source
from fedbnsl.data.folder.events import NO_EPSILON, DescribedEvents, read_events, refuse_undeclared
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.joint_columns import check_series_domains
from fedbnsl.data.folder.profile import Profile
from fedbnsl.data.folder.series import DescribedSeries, SeriesTable, has_regular_time, read_cut
from fedbnsl.data.folder.sources import source_of
from fedbnsl.data.folder.table import Mapper, holds_parts, open_table


@dataclass(frozen=True)
class Described:
    """The public description of a silo's table, sent before round 1."""

    silo: str
    profile: Profile
    streamed: bool = False
    """whether the silo's rows are read in passes, because they exceed its memory limit"""
    pins_members: bool = True
    """whether the owner knows the other silos; if not, the silo adds as much noise as if all other silos colluded"""
    suppresses_cells: bool = False
    """whether the owner's policy sets small counts to 0, whether or not the rows have small counts"""
    names_only: bool = False
    """whether the owner's policy withholds everything but the names of the columns and the number of rows"""
    level: Level = "trusted"
    """the level of the owner's policy"""
    targets: tuple[str, ...] = ()
    """the variables that an experiment has set in the silo's rows, as the owner declares"""
    targets_by_condition: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """the targets by condition instead, if the owner declares a column of conditions"""

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
    """The public description of the pooled rows of several silos, with the schema inferred from them."""

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


AnyDescribed = Described | DescribedPooled | DescribedSeries | DescribedEvents


def describe_rows(silo: str, source: Path, declared: Declared = NO_DECLARATION, mapper: Mapper = map) -> AnyDescribed:
    """The public description of the rows at `source`; raises `BadInput` naming file, column, row and value.

    The kinds, levels and time step in `declared` are binding. With an ε, only names and the number of rows are
    described (`private_table.py`). `mapper` applies a function to each part of rows that are read in passes.
    """
    declared = declared.at_silo(silo)
    if _is_pooled(silo, source, declared):
        data = _pooled(source, declared)
        return DescribedPooled(silo, data.schema, data.notes)
    if declared.kind == "events":
        if declared.reading.private:
            raise BadInput(NO_EPSILON)
        return read_events(source, declared).described(silo)
    refuse_undeclared(source, declared)
    series = declared.kind == "time-series" or (declared.may_be_series and has_regular_time(source, declared))
    if series and not declared.reading.private:
        found = open_series(source, declared)
        if isinstance(found, SeriesTable):
            check_series_domains(source, found.variables, found.values, declared)
        return described_series(silo, found)
    table = open_table(source, declared, mapper)
    return Described(silo, table.profile(), table.streamed)


def read_rows(
    silo: str, source: Path, schema: Schema, declared: Declared = NO_DECLARATION, mapper: Mapper = map
) -> Any:
    """The rows at `source` as numbers or level codes, in memory or as a table to read in passes.

    The columns are the columns of `schema`, in its order. `mapper` applies a function to each part of rows that are
    read in passes. Raises `BadInput` for a cell that cannot be read, with file, column, row and value, and if columns,
    conditions or the number of rows differ from `schema`.
    """
    declared = declared.at_silo(silo)
    if _is_pooled(silo, source, declared):
        data = _pooled(source, declared)
        if data.schema.variables != schema.variables or data.schema.levels != schema.levels:
            raise BadInput(f"{source}: its columns or levels have changed since the run began")
        return next(iter(data.tables.values()))
    if schema.kind != "time-series" and declared.reading.conditions_column is None and silo in schema.stretches:
        raise BadInput(f"{source}: it has no column of conditions, but the run has conditions of its rows")
    if schema.kind == "events":
        found = read_events(source, declared).rows(schema, source)
        if len(found) != schema.rows[silo]:
            raise BadInput(f"{source}: it has {len(found)} events, but had {schema.rows[silo]} when the run began")
        return found
    if schema.kind != "time-series" or declared.reading.private:
        return open_table(source, declared, mapper).rows(schema, silo)
    if silo in schema.streamed:
        large = series_source(source, declared) or source_of(source, declared)
        series_declared = replace(declared, kind="time-series")
        return LargeSeries(large, series_declared).rows(schema, sum(schema.recorded_stretches(silo)), mapper)
    series = read_cut(source, schema.recorded_stretches(silo), declared)
    check_same_columns(source, series.variables, schema.variables, "the schema")
    return series.rows(schema)


def read_clusters(silo: str, source: Path, schema: Schema, declared: Declared) -> NDArray[np.int64] | None:
    """The number of the cluster of each row at `source`, `[n_rows]`; None if no column of clusters is declared.

    The rows are those of `read_rows`, and errors are raised as there.
    """
    declared = declared.at_silo(silo)
    if declared.reading.cluster is None or schema.kind in ("time-series", "events"):
        return None
    return open_table(source, declared).clusters(schema, silo)


def _is_pooled(silo: str, source: Path, declared: Declared) -> bool:
    """Whether `source` has the rows of several silos, which are pooled: a folder, or one file (`--by`)."""
    if declared.reading.by is not None:
        return silo == POOLED
    return source.is_dir() and (silo == POOLED or not holds_parts(source))


def _pooled(source: Path, declared: Declared) -> FederatedData:
    return pool(read_folder(source, declared.reading))
