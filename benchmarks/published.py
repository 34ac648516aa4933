"""The default on published networks with few rows for their parameters, and the scores of learned and true graphs.

`python benchmarks/published.py` runs all tables, `--table NAME` one of them: seeds 1000 to 1009, which were not used to
choose any rule, 8 silos of different sizes, and columns in random order. If a learned graph scores better than the true
graph, the search is not the limit: the learned graph explains these rows better.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from measure import mean_and_sd, run_tables, show
from real import Setting, dealt, draw
from score_orders import score_of

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import member_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.score.settings import SearchSettings
from fedbnsl.data.federated import FederatedData, continuous, discrete, pool, silo_names
from fedbnsl.data.networks.published import network

SEEDS = range(1000, 1010)
SILOS = 8
"""as many as in `real.py`"""
GAUSSIAN = {("arth150", 5000): "≤ 30", ("ecoli70", 500): "≤ 19", ("magic-niab", 5000): "", ("magic-irri", 5000): ""}
DISCRETE = {("win95pts", 500): "BDeu > 0", ("win95pts", 5000): "BDeu > 0"}
HUBS = Setting(50, 100, "SF", rows=4000, scale="standardised", hubs="causes")


def sampled(name: str, rows: int, seed: int) -> FederatedData:
    """`rows` rows of a published network, in a random order of its columns, dealt to silos of different sizes."""
    whole, rng = network(name, 1, rows, seed), np.random.default_rng(seed)
    (table,), truth = whole.tables.values(), whole.truth
    assert truth is not None
    order = rng.permutation(len(truth.variables))
    names = tuple(truth.variables[v] for v in order)
    tables = dict(zip(silo_names(SILOS), dealt(table[:, order], SILOS, rng), strict=True))
    levels = {name: whole.schema.levels[name] for name in names} if whole.schema.levels else None
    schema = continuous(tables, names) if levels is None else discrete(tables, names, levels)
    return FederatedData(schema, tables, Structure(names, truth.weights[np.ix_(order, order)]))


def gaussian_score(graph: np.ndarray, S: FloatArray, rows: int) -> float:
    """The log-likelihood of a DAG minus the penalty of `secure-linear`: ½ ln n + ln d per parent."""
    total, price = 0.0, math.log(rows) / 2 + math.log(len(S))
    for child in range(len(S)):
        parents = np.flatnonzero(graph[:, child])
        within = S[np.ix_(parents, parents)]
        explained = float(S[child, parents] @ np.linalg.solve(within, S[child, parents])) if len(parents) else 0.0
        total -= rows / 2 * math.log(S[child, child] - explained) + price * len(parents)
    return total


def moments(data: FederatedData) -> tuple[FloatArray, int]:
    """The covariance within the silos, and the number of rows minus that of silos."""
    centred = [table - table.mean(axis=0) for table in data.tables.values()]
    rows = sum(map(len, centred)) - len(centred)
    return np.asarray(sum((table.T @ table for table in centred), np.zeros((1, 1))) / rows), rows


@dataclass(frozen=True)
class Found:
    """One run: distances from the truth, and the score of the learned graph minus that of the true graph, in nats."""

    seed: int
    shd_cpdag: float
    shd_skeleton: float
    above_truth: float
    cpu_seconds: float


def of_numbers(data: FederatedData, seed: int) -> Found:
    """One run of the default on numbers."""
    start = time.process_time()
    learned = learn(data, seed=seed, parameters=False, diagnose=False)
    cpu = time.process_time() - start
    found, truth = learned.result.structure, data.truth
    assert truth is not None
    S, rows = moments(data)
    above = gaussian_score(member_of(found.adjacency), S, rows) - gaussian_score(truth.adjacency, S, rows)
    score = compare(found, truth)
    return Found(seed, float(score["shd_cpdag"] or 0), float(score["shd_skeleton"] or 0), above, cpu)


def of_labels(data: FederatedData, seed: int, refine: bool) -> Found:
    """One run of `secure-ges` on labels, with or without the search over orders near its graph."""
    start = time.process_time()
    learned = learn(data, "secure-ges", seed=seed, parameters=False, diagnose=False, refine=refine)
    cpu = time.process_time() - start
    found, truth = learned.result.structure, data.truth
    assert truth is not None
    score, whole = compare(found, truth), pool(data)
    above = score_of(found, whole, SearchSettings()) - score_of(truth, whole, SearchSettings())
    return Found(seed, float(score["shd_cpdag"] or 0), float(score["shd_skeleton"] or 0), above, cpu)


def line(label: str, runs: list[Found], asked: str) -> dict[str, object]:
    """The row of a table."""
    above = [run.above_truth for run in runs]
    return {
        "data": label,
        "seeds": len(runs),
        "CPDAG SHD": mean_and_sd([run.shd_cpdag for run in runs], 1),
        "skeleton SHD": mean_and_sd([run.shd_skeleton for run in runs], 1),
        "score above the truth's, nats": f"{np.mean(above):.1f} ({min(above):.1f} to {max(above):.1f})",
        "CPU s": mean_and_sd([run.cpu_seconds for run in runs], 2),
        "asked": asked,
    }


def gaussian() -> None:
    """Published Gaussian networks, and scale-free graphs whose hubs are causes."""
    runs, rows = {}, []
    for (name, size), asked in GAUSSIAN.items():
        label = f"{name}, {size} rows"
        runs[label] = [of_numbers(sampled(name, size, seed), seed) for seed in SEEDS]
        rows.append(line(label, runs[label], asked))
    label = "d=50, 100 edges, scale-free, hubs are causes"
    runs[label] = [of_numbers(draw(HUBS, seed), seed) for seed in SEEDS]
    rows.append(line(label, runs[label], "≤ 5"))
    show("published-gaussian", rows, runs)


def labels() -> None:
    """WIN95PTS: GES, and GES refined by a search over orders near its graph."""
    runs, rows = {}, []
    for (name, size), asked in DISCRETE.items():
        for refine in (False, True):
            label = f"{name}, {size} rows, {'refined' if refine else 'GES'}"
            runs[label] = [of_labels(sampled(name, size, seed), seed, refine) for seed in SEEDS]
            rows.append(line(label, runs[label], asked if refine else ""))
    show("published-labels", rows, runs)


if __name__ == "__main__":
    run_tables({"gaussian": gaussian, "labels": labels}, __doc__, __file__)
