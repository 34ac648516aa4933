from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.forecast_errors import Forecasts
from fedbnsl.algorithms.parameters.networks import linear_network
from fedbnsl.tracking.result import Parameters, RunResult


@pytest.fixture(scope="session")
def chain() -> RunResult:
    """A finished run on three variables: a → b → c with weights 2 and -0.5, which is also the true graph."""
    weights = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, -0.5], [0.0, 0.0, 0.0]])
    structure = Structure(("a", "b", "c"), weights)
    rounds = tuple(
        {"round": k, "h": 1.0 / 10**k, "edges": 3.0 - k, "bytes_up": 100 * k, "bytes_down": 50, "formula_bytes": 400}
        for k in (1, 2)
    )
    metrics = {"shd": 0, "tpr": 1.0, "fdr": 0.0, "edges": 2, "rounds": 2, "converged": True, "acyclic": True}
    return RunResult(
        name="fed-sparse-chain-0",
        algorithm="fed-sparse",
        params={"rho1": 1000.0, "l1": 0.1, "max_rounds": 100, "preset": None},
        seed=0,
        engine="inline",
        dataset="chain",
        about={"kind": "continuous", "truth": "drawn by hand", "checksums": {"north.csv": "ab" * 32}},
        schema=Schema(("a", "b", "c"), {"south": 40, "north": 30}),
        structure=structure,
        truth=structure,
        outcome="converged",
        lost=(),
        rounds=rounds,
        metrics=metrics | {"seconds": 1.5, "bytes_up": 300, "bytes_down": 100, "formula_megabytes": 0.0008},
        refit={"north": {"consensus": 0.31, "refitted": 0.25}, "south": {"consensus": 0.4, "refitted": 0.35}},
        parameters=Parameters(
            linear_network(structure, np.array([0.0, 0.0, 3.0]), np.array([1.0, 0.25, 4.0])),
            "each variable regressed on its parents over 70 rows",
            96,
        ),
    )


@pytest.fixture(scope="session")
def cyclic(chain: RunResult) -> RunResult:
    """A run that ended with a cycle, without a truth and without noise."""
    weights = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    structure = Structure(("a", "b", "c"), weights)
    return replace(
        chain,
        structure=structure,
        truth=None,
        outcome="out of rounds",
        metrics={},
        about={},
        parameters=Parameters(None, "a cycle is left: a → b → c → a"),
    )


@pytest.fixture(scope="session")
def over_time(chain: RunResult) -> RunResult:
    """A finished run on time series: every variable keeps half of its past, a[t-2] → c, and a → b within one time.

    The true graph also has b → c, and does not have a[t-2] → c.
    """
    names, W, A = ("a", "b", "c"), np.zeros((3, 3)), np.zeros((2, 3, 3))
    W[0, 1], A[0], A[1, 0, 2] = 2.0, 0.5 * np.eye(3), -0.25
    learned = Structure(names, W, lagged=A)
    true_W = W.copy()
    true_W[1, 2] = 1.0
    truth = Structure(names, true_W, lagged=0.4 * np.eye(3)[None])
    network = linear_network(learned, np.array([0.0, 1.0, 0.0]), np.ones(3), np.zeros(3), np.full(3, 4.0))
    metrics = chain.metrics | compare(learned, truth)
    metrics |= {"spectral_radius": 0.5, "forecast_mse": 2.0, "persistence_mse": 4.0}
    local = dict.fromkeys(chain.schema.rows, learned)
    return replace(
        chain,
        schema=Schema(names, chain.schema.rows, "time-series", stretches={"north": (30,), "south": (15, 25)}),
        structure=learned,
        truth=truth,
        metrics=metrics,
        local_structures=local,
        silo_scores={silo: dict(compare(learned, truth)) for silo in local},
        averaged=True,
        refit={},
        parameters=Parameters(
            network, "each variable regressed", 96, Forecasts(np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.0, 4.0]))
        ),
    )


@pytest.fixture(scope="session")
def random_case() -> Callable[..., tuple[Structure, Structure]]:
    """(d, edges per node, seed) -> (learned, truth): a random DAG, and it with edges reversed, removed and added."""

    def make(d: int, degree: float, seed: int, **kinds: Any) -> tuple[Structure, Structure]:
        rng = np.random.default_rng(seed)
        order = rng.permutation(d)
        true = np.triu(rng.random((d, d)) < degree / max(d - 1, 1), 1)[np.ix_(order, order)]
        weights = true * rng.uniform(0.5, 2, (d, d))
        learned = weights.copy()
        for number, (i, j) in enumerate(rng.permutation(np.argwhere(true))[: max(3, d // 4)]):
            learned[i, j] = 0.0
            if number % 3 == 0:
                learned[j, i] = weights[i, j]
            elif number % 3 == 1:
                k = int(rng.integers(d))
                learned[i, k] = 0.4 if k != i else 0.0
        names = tuple(f"X{number}" for number in range(d))
        return Structure(names, learned, **kinds), Structure(names, weights)

    return make
