"""Test data: rows of random networks, discrete and linear Gaussian, and federations with them."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.score.discrete import score_rows
from fedbnsl.algorithms.score.gaussian import score_moments
from fedbnsl.algorithms.score.settings import ScoreSettings
from fedbnsl.algorithms.statistics.moments import pooled_moments
from fedbnsl.tasks.transport.in_process import InProcessFederation

REFERENCES = Path(__file__).parents[2] / "references"


@dataclass(frozen=True)
class Drawn:
    """A DAG and rows of it."""

    dag: np.ndarray
    table: np.ndarray
    levels: np.ndarray
    """number of levels of each variable; all 1 means that the rows are numbers"""

    @property
    def variables(self):
        return tuple(f"v{i:02}" for i in range(len(self.dag)))

    @property
    def discrete(self):
        return self.levels.max() > 1

    @property
    def columns(self):
        return np.ascontiguousarray(self.table.T, np.int16)

    def scores(self, **settings):
        """The scores of families on these rows."""
        if self.discrete:
            return lambda batch: score_rows(self.columns, self.levels, batch, ScoreSettings(**settings))
        pooled = pooled_moments(self.table)
        return lambda batch: score_moments(pooled, len(self.dag), batch)

    def dealt(self, silos=1, seed=0):
        """A federation whose silos have these rows, in any numbers."""
        owner = np.random.default_rng(seed).integers(0, silos, len(self.table))
        owner[: 2 * silos] = np.repeat(np.arange(silos), 2)
        tables = {f"s{k:02}": self.table[owner == k] for k in range(silos)}
        levels = {v: tuple(map(str, range(n))) for v, n in zip(self.variables, self.levels, strict=True)}
        kind = "discrete" if self.discrete else "continuous"
        rows = {silo: len(table) for silo, table in tables.items()}
        return InProcessFederation(Schema(self.variables, rows, kind, levels if self.discrete else {}), tables)


def random_dag(d, density, rng):
    order = rng.permutation(d)
    return np.triu(rng.random((d, d)) < density, 1)[np.ix_(order, order)]


def draw(d, rows, seed, density=0.4, most_levels=3):
    """Rows of a random DAG: discrete with Dirichlet tables, or linear Gaussian if `most_levels` is 1.

    Only `random` and `integers` are used, because their streams do not change between versions of numpy.
    """
    rng = np.random.default_rng(seed)
    dag = random_dag(d, density, rng)
    levels = rng.integers(2, most_levels + 1, d) if most_levels > 1 else np.ones(d, np.int64)
    table = np.zeros((rows, d), np.int64 if most_levels > 1 else float)
    done = []
    while len(done) < d:
        v = next(v for v in range(d) if v not in done and all(p in done for p in np.flatnonzero(dag[:, v])))
        parents = np.flatnonzero(dag[:, v])
        if most_levels == 1:
            noise = rng.random((rows, 12)).sum(axis=1) - 6
            table[:, v] = table[:, parents] @ (2 * rng.random(len(parents)) - 1) + noise
        else:
            given = np.zeros(rows, np.int64)
            for parent in parents:
                given = given * levels[parent] + table[:, parent]
            chances = np.log(rng.random((int(levels[parents].prod()), levels[v]))) ** 2
            chances = (chances / chances.sum(axis=1, keepdims=True)).cumsum(axis=1)
            table[:, v] = (rng.random(rows)[:, None] > chances[given][:, :-1]).sum(axis=1)
        done.append(v)
    return Drawn(dag, table, levels)


def algorithm(name, **params):
    return registry.build(registry.specify(name, params))


def run(name, federation, **params):
    """The last round of a run."""
    return list(rounds(algorithm(name, **params), federation))[-1]


def learned(name, federation, **params):
    return algorithm(name, **params).structure(run(name, federation, **params).server)


@pytest.fixture
def drawing():
    return draw


@pytest.fixture
def dag_of():
    return random_dag


@pytest.fixture
def running():
    return run


@pytest.fixture
def learning():
    return learned


@pytest.fixture(scope="session")
def other_ges():
    """What another program's GES finds, see `program` in the file."""
    return json.loads((REFERENCES / "ges.json").read_text())
