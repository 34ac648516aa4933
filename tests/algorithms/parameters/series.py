"""Time series of a known dynamic network, in silos with gaps, and the values computed from their pooled windows."""

import numpy as np

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.lagged import windows
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.tasks.transport.in_process import InProcessFederation

NAMES = tuple("dcba")


def dynamic(seed, lags=1, d=4):
    """A random dynamic structure whose series are stable."""
    rng = np.random.default_rng(seed)
    W = np.where(random_dag(d, d, rng), rng.uniform(-1, 1, (d, d)), 0.0)
    A = np.where(rng.random((lags, d, d)) < 0.3, rng.uniform(-0.4, 0.4, (lags, d, d)), 0.0)
    return Structure(tuple(f"x{v}" for v in range(d)) if d != 4 else NAMES, W, lagged=A)


def simulate(structure, rows, rng, means=0.0):
    lags, d = structure.lags, len(structure.variables)
    now = np.linalg.inv(np.eye(d) - structure.weights)
    x = np.zeros((rows + 50 + lags, d))
    for t in range(lags, len(x)):
        before = sum(x[t - k - 1] @ structure.lagged[k] for k in range(lags))
        x[t] = (before + rng.normal(size=d)) @ now
    return x[-rows:] + means


def series(structure, seed, silos=3, stretches=(40, 25), means=0.0):
    """Tables and the schema of silos that have two stretches each."""
    rng = np.random.default_rng(seed)
    tables = {
        f"s{k}": np.vstack([simulate(structure, length, rng, means) for length in stretches]) for k in range(silos)
    }
    rows = {silo: len(table) for silo, table in tables.items()}
    return tables, Schema(structure.variables, rows, "time-series", stretches=dict.fromkeys(tables, stretches))


def federation(tables, schema, **options):
    return InProcessFederation(schema, tables, **options)


def all_windows(tables, schema, lags):
    return np.vstack([windows(tables[silo], schema.stretches[silo], lags) for silo in schema.silos])
