"""Shared data and helpers for the tests of time-series learners."""

from typing import Any

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.structure import Structure, unstacked
from fedbnsl.data.federated import FederatedData, pool, time_series
from fedbnsl.tasks.transport.in_process import InProcessFederation


def learn(data: FederatedData, name: str, params: dict[str, Any] | None = None, **other: Any) -> tuple[Structure, Any]:
    """Return what `name` learns from `data` with `params`, and the last state of the server."""
    algorithm = registry.build(registry.specify(name, params or {}))
    data = pool(data) if registry.entry(name).pooled else data
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables, **other))
    return algorithm.structure(last.server), last.server


def differing(one: Structure, other: Structure) -> int:
    """How many weights are an edge in one of the two structures alone, of all lags."""
    return int(((unstacked(one)[0] != 0) != (unstacked(other)[0] != 0)).sum())


def unequal(data: FederatedData, lengths: dict[str, int]) -> FederatedData:
    """`data` with the first so many rows of each silo of a single stretch."""
    tables = {silo: data.tables[silo][:length] for silo, length in lengths.items()}
    stretches = {silo: (length,) for silo, length in lengths.items()}
    schema = time_series(tables, stretches, data.schema.variables)
    return FederatedData(schema, tables, data.truth, {}, data.about)


def permuted(data: FederatedData, order: np.ndarray) -> FederatedData:
    """`data` with its columns in another order."""
    names = tuple(data.schema.variables[v] for v in order)
    tables = {silo: table[:, order] for silo, table in data.tables.items()}
    schema = time_series(tables, data.schema.stretches, names)
    assert data.truth is not None
    return FederatedData(schema, tables, data.truth.reordered(names), {}, data.about)
