"""Tables of `score.py` about column order: data with shuffled columns, exact optima, permutations of one data set."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from optima import optimum, total

from fedbnsl.algorithms.graphs.cpdag import member_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.score.procedures import scores_of
from fedbnsl.algorithms.score.settings import SearchSettings
from fedbnsl.algorithms.statistics.rows import open_rows
from fedbnsl.data.federated import POOLED, FederatedData, pool
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.networks.published import network

ORDERS = range(5)
PLAIN: dict[str, Any] = {"expected_parents": 0.0}
"""BDeu without a structure prior"""


def shuffled(data: FederatedData, seed: int) -> FederatedData:
    """Discrete `data` with its columns, and those of its truth, in an order drawn by `seed`."""
    order = np.random.default_rng((seed, 7)).permutation(len(data.schema.variables))
    names = tuple(data.schema.variables[v] for v in order)
    schema = replace(data.schema, variables=names, levels={name: data.schema.levels[name] for name in names})
    assert data.truth is not None
    truth = Structure(names, data.truth.weights[np.ix_(order, order)], data.truth.kind)
    return replace(
        data, schema=schema, tables={silo: table[:, order] for silo, table in data.tables.items()}, truth=truth
    )


def small_sets() -> dict[str, Callable[[], FederatedData]]:
    """The makers of 16 data sets of at most 11 variables: published networks and random ones."""
    published = [
        ("asia", 1000, 12), ("asia", 5000, 13), ("cancer", 1000, 12), ("cancer", 5000, 13), ("earthquake", 1000, 12),
        ("earthquake", 5000, 13), ("survey", 1000, 12), ("survey", 5000, 13), ("sachs", 1000, 12), ("sachs", 5000, 13),
    ]  # fmt: skip
    random = [(8, 500, 12), (8, 2000, 13), (10, 500, 14), (10, 2000, 15), (11, 1000, 16), (11, 5000, 17)]
    makers: dict[str, Callable[[], FederatedData]] = {
        f"{name}, {rows} rows": partial(network, name, 5, rows // 5, seed) for name, rows, seed in published
    }
    return makers | {
        f"random, d = {d}, {rows} rows": partial(discrete, d, 5, rows // 5, seed, degree=3.0)
        for d, rows, seed in random
    }


@dataclass(frozen=True)
class AgainstOptimum:
    """One run: the score found, and the greatest that there is."""

    seed: int
    score: float
    optimum: float

    @property
    def reached(self) -> bool:
        """Whether they are equal, but for rounding."""
        return abs(self.score - self.optimum) < 1e-9 * abs(self.optimum)


def score_of(structure: Structure, data: FederatedData, settings: SearchSettings) -> float:
    """The score of a member of the class `structure` on all rows of `data`."""
    return total(member_of(structure.weights != 0), _scores(data, settings))


def best_score(data: FederatedData, settings: SearchSettings) -> float:
    """The score of the best DAG on all rows of `data`."""
    return optimum(len(data.schema.variables), _scores(data, settings))


def _scores(data: FederatedData, settings: SearchSettings) -> Any:
    whole = pool(data)
    return scores_of(open_rows(whole.tables[POOLED], whole.schema, POOLED, np.random.default_rng(0)), settings)
