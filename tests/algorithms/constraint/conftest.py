"""Test data: random discrete networks (Wang, Ma & Wang 2023, §7.4), and federations with their rows."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.tasks.transport.in_process import InProcessFederation

REFERENCES = Path(__file__).parents[2] / "references"


@dataclass(frozen=True)
class Drawn:
    dag: np.ndarray
    cardinalities: np.ndarray
    table: np.ndarray

    @property
    def variables(self):
        return tuple(f"v{i}" for i in range(len(self.dag)))


def random_dag(d, density, rng):
    order = rng.permutation(d)
    return np.triu(rng.random((d, d)) < density, 1)[np.ix_(order, order)]


def draw(d=8, rows=1000, seed=0, density=None):
    """Rows of a random network: 2 to 4 levels, Dirichlet tables."""
    rng = np.random.default_rng(seed)
    dag = random_dag(d, 2 / (d - 1) if density is None else density, rng)
    levels = rng.integers(2, 5, d)
    table = np.zeros((rows, d), np.int64)
    for v in topological_order(dag):
        parents = np.flatnonzero(dag[:, v])
        given = np.zeros(rows, np.int64)
        for parent in parents:
            given = given * levels[parent] + table[:, parent]
        chances = rng.dirichlet(np.full(levels[v], 0.5), int(levels[parents].prod())).cumsum(axis=1)
        table[:, v] = (rng.random(rows)[:, None] > chances[given][:, :-1]).sum(axis=1)
    return Drawn(dag, levels, table)


def split(drawn, parts, kind="discrete"):
    """The federation whose silos have the given row numbers."""
    tables = {f"s{k:02}": drawn.table[rows] for k, rows in enumerate(parts)}
    levels = {v: tuple(map(str, range(n))) for v, n in zip(drawn.variables, drawn.cardinalities, strict=True)}
    if kind == "continuous":
        tables = {silo: table.astype(float) for silo, table in tables.items()}
        levels = {}
    schema = Schema(drawn.variables, {silo: len(table) for silo, table in tables.items()}, kind, levels)
    return InProcessFederation(schema, tables)


def run(algorithm, federation):
    """All rounds of a run."""
    return list(rounds(algorithm, federation))


def learned(algorithm, federation):
    return algorithm.structure(run(algorithm, federation)[-1].server)


@pytest.fixture
def drawing():
    return draw


@pytest.fixture
def dealing():
    return split


@pytest.fixture
def running():
    return run


@pytest.fixture
def learning():
    return learned


@pytest.fixture
def dag_of():
    return random_dag


@pytest.fixture(scope="session")
def causal_learn():
    """What causal-learn answers, see `program` in the file."""
    return json.loads((REFERENCES / "causal_learn.json").read_text())
