"""Data that no sparse DAG explains, and clean data that must not be mistaken for such data.

`python benchmarks/misfit.py` runs all tables, `--table NAME` one of them. d = 20, 40 edges, 4,000 rows in 8 silos of
unequal size, columns shuffled, seeds from 1000 on; the rule was chosen on seeds below 100. If causal-learn is
installed, its BOSS on the pooled rows, with columns in random order, is the comparison.
"""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from measure import mean_and_sd, run_tables, show
from real import Setting, dealt, draw, standardised

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.diagnosis.findings import MISFIT
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import find_cycle
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.moments.model_fit import misfit
from fedbnsl.algorithms.score.gaussian_order import gaussian_boss
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.data.federated import FederatedData, continuous, silo_names
from fedbnsl.data.generators.random_graphs import random_dag

SEEDS, CLEAN_SEEDS = range(1000, 1020), range(1000, 1100)
D, EDGES, ROWS, SILOS = 20, 40, 4000, 8


def linear_model(rng: np.random.Generator) -> FloatArray:
    """The weights of a random DAG `[d, d]`."""
    dag = random_dag(D, EDGES, rng, "ER")
    return np.asarray(dag * rng.uniform(0.5, 2.0, (D, D)) * rng.choice([-1.0, 1.0], (D, D)))


def dealt_to_silos(X: FloatArray, weights: FloatArray, rng: np.random.Generator) -> FederatedData:
    """The rows in silos, with names in a random order; the truth are the edges among the observed variables."""
    tables = dict(zip(silo_names(SILOS), dealt(X, SILOS, rng), strict=True))
    names = tuple(f"v{place:03d}" for place in rng.permutation(D))
    return FederatedData(continuous(tables, names), tables, Structure(names, weights))


def seven_values(seed: int) -> FederatedData:
    """Standardised columns rounded to whole numbers from 0 to 6."""
    rng = np.random.default_rng(seed)
    weights = linear_model(rng)
    X = standardised(rng, rng.normal(size=(ROWS, D)) @ np.linalg.inv(np.eye(D) - weights))
    return dealt_to_silos(np.clip(np.round(X + 3), 0, 6), weights, rng)


def hidden_causes(seed: int, causes: int = 5, effects: int = 4) -> FederatedData:
    """Five hidden causes of four variables each."""
    rng = np.random.default_rng(seed)
    weights, errors = linear_model(rng), rng.normal(size=(ROWS, D))
    for _ in range(causes):
        which = rng.choice(D, effects, replace=False)
        strength = rng.uniform(0.5, 2.0, effects) * rng.choice([-1.0, 1.0], effects)
        errors[:, which] += rng.normal(size=(ROWS, 1)) * strength
    return dealt_to_silos(errors @ np.linalg.inv(np.eye(D) - weights), weights, rng)


def feedback(seed: int, edges: int = 3) -> FederatedData:
    """Three edges back to an ancestor, at half the strength, in equilibrium."""
    rng = np.random.default_rng(seed)
    while True:
        weights = linear_model(rng)
        below = np.linalg.matrix_power(np.eye(D) + (weights != 0), D) > 0
        pairs = np.argwhere(below & ~np.eye(D, dtype=bool) & (weights == 0))
        for i, j in pairs[rng.choice(len(pairs), edges, replace=False)]:
            weights[j, i] = 0.5 * rng.uniform(0.5, 2.0) * rng.choice([-1.0, 1.0])
        if np.abs(np.linalg.eigvals(weights)).max() < 0.9:
            X = rng.normal(size=(ROWS, D)) @ np.linalg.inv(np.eye(D) - weights)
            return dealt_to_silos(X, weights, rng)


DATA: dict[str, tuple[Callable[[int], FederatedData], str]] = {
    "seven values": (seven_values, "CPDAG ≤ BOSS"),
    "hidden causes": (hidden_causes, "CPDAG ≤ BOSS"),
    "feedback": (feedback, "SHD ≤ BOSS"),
}


@dataclass(frozen=True)
class Ran:
    """One run, and the peer on the same rows; SHD NaN where there is no class or no peer."""

    seed: int
    shd: float
    shd_cpdag: float
    edges: int
    undirected: int
    found: bool
    peer_shd: float
    peer_cpdag: float


def distance(graph: FloatArray, truth: FloatArray) -> float:
    """The number of pairs in which two graphs differ."""
    return float(np.triu((graph != truth) | (graph.T != truth.T)).sum())


def peer(data: FederatedData, seed: int) -> FloatArray | None:
    """The class by BOSS of causal-learn, in the order of the columns; None if the package is not installed."""
    if importlib.util.find_spec("causallearn") is None:
        return None
    from causallearn.search.PermutationBased.BOSS import boss  # type: ignore[import-not-found]

    order = np.random.default_rng((seed, 2)).permutation(D)
    marks = boss(np.vstack(list(data.tables.values()))[:, order], "local_score_BIC_from_cov", verbose=False).graph
    graph = np.zeros((D, D), bool)
    graph[np.ix_(order, order)] = marks == -1
    return np.asarray(graph)


def ran(data: FederatedData, seed: int) -> Ran:
    """Learn by default and by the peer, and compare with the truth."""
    learned = learn(data, seed=seed, parameters=False, bootstrap=0, allow_cyclic_truth=True)
    assert data.truth is not None
    truth, graph = data.truth.adjacency.astype(bool), learned.result.structure.adjacency.astype(bool)
    in_class = truth if find_cycle(truth, data.truth.variables) else cpdag(truth)
    other = peer(data, seed)
    return Ran(
        seed=seed,
        shd=distance(graph, truth),
        shd_cpdag=distance(graph, in_class),
        edges=int(np.triu(graph | graph.T).sum()),
        undirected=int(np.triu(graph & graph.T).sum()),
        found=any(one.name == MISFIT for one in learned.result.diagnosed.findings),
        peer_shd=math.nan if other is None else distance(other, truth),
        peer_cpdag=math.nan if other is None else distance(other, in_class),
    )


def misfits() -> None:
    """The default on data that no sparse DAG explains, beside BOSS of causal-learn."""
    runs = {label: [ran(make(seed), seed) for seed in SEEDS] for label, (make, _) in DATA.items()}
    rows = [
        {
            "data": label,
            "seeds": len(of),
            "CPDAG SHD": mean_and_sd([run.shd_cpdag for run in of], 1),
            "SHD": mean_and_sd([run.shd for run in of], 1),
            "BOSS CPDAG SHD": mean_and_sd([run.peer_cpdag for run in of], 1),
            "BOSS SHD": mean_and_sd([run.peer_shd for run in of], 1),
            "edges": mean_and_sd([run.edges for run in of], 1),
            "undirected": mean_and_sd([run.undirected for run in of], 1),
            "finding": f"{sum(run.found for run in of)}/{len(of)}",
            "asked": DATA[label][1],
        }
        for label, of in runs.items()
    ]
    show("misfit", rows, runs)


WEAK = (0.1, 0.5)
CLEAN = {
    "standardised": Setting(D, EDGES, rows=ROWS, scale="standardised"),
    "variances U(.1, 10)": Setting(D, EDGES, rows=ROWS, variances=(0.1, 10.0)),
    "exponential": Setting(D, EDGES, rows=ROWS, scale="standardised", noise="exponential"),
    "t3": Setting(D, EDGES, rows=ROWS, scale="standardised", noise="t3"),
    "80 edges": Setting(D, 80, rows=ROWS, scale="standardised"),
    "400 rows": Setting(D, EDGES, rows=400, scale="standardised"),
    "40,000 rows": Setting(D, EDGES, scale="standardised"),
    "weights .1-.5": Setting(D, EDGES, rows=ROWS, weights=WEAK, scale="standardised"),
    "weights .1-.5, 1,000 rows": Setting(D, EDGES, rows=1000, weights=WEAK, scale="standardised"),
    "d=50, 100 edges, scale-free": Setting(50, 100, "SF", rows=ROWS, scale="standardised"),
    "d=50, 100 edges, weights .1-.5": Setting(50, 100, rows=2000, weights=WEAK, scale="standardised"),
    "d=100, 200 edges, weights .1-.5": Setting(100, 200, rows=ROWS, weights=WEAK, scale="standardised"),
}


@dataclass(frozen=True)
class Alarm:
    """The figure of the misfit of one data set; an alarm above 1."""

    seed: int
    misfit: float


def misfit_of(data: FederatedData) -> float:
    """The figure for the class of least BIC of the summed moments."""
    centred = [table - table.mean(axis=0) for table in data.tables.values()]
    rows = sum(map(len, centred)) - len(centred)
    S = sum((table.T @ table for table in centred), np.zeros((1, 1))) / rows
    price = math.log(rows) + 2 * math.log(len(S))
    return misfit(S, gaussian_boss(S, rows, price, OrderSettings()).dag, rows, price, len(S)).evidence


def alarms() -> None:
    """How often clean linear data are reported as a misfit."""
    runs = {
        label: [Alarm(seed, misfit_of(draw(setting, seed))) for seed in CLEAN_SEEDS] for label, setting in CLEAN.items()
    }
    rows = [
        {
            "clean data": label,
            "seeds": len(of),
            "false alarms": sum(bool(run.misfit > 1) for run in of),
            "largest figure": f"{max(run.misfit for run in of):.2f}",
            "asked": "≤ 1 %",
        }
        for label, of in runs.items()
    ]
    show("misfit-alarms", rows, runs)


if __name__ == "__main__":
    run_tables({"misfits": misfits, "alarms": alarms}, __doc__, __file__)
