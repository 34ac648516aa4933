"""False alarms and power of the fit tests on the true graph: `python benchmarks/fit.py [--draws 200]`.

Each draw has its own graph with shuffled columns and silos of unequal size with their own offsets. "true graph": how
often Fisher's C has p < .05, and how often an independence is rejected, although all hold. "an edge removed": how often
both detect that a random edge of the graph is missing, and how often the independence named first is that of the edge's
ends. Writes `results/fit.json`.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from measure import RESULTS
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis import implied_tables
from fedbnsl.algorithms.diagnosis.implied import Fit
from fedbnsl.algorithms.diagnosis.implied_moments import fit_of_moments
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.networks.published import network
from fedbnsl.tasks.transport.in_process import InProcessFederation

FIRST_SEED = 1000
SHARES = (0.05, 0.1, 0.25, 0.6)
"""of the rows, by silo"""
Check = Callable[[NDArray[np.bool_]], Fit]


@dataclass(frozen=True)
class Drawn:
    """The fit of any graph to one data set, the true graph, and the names of the variables."""

    check: Check
    dag: NDArray[np.bool_]
    names: tuple[str, ...]


def numbers(seed: int, d: int, n: int, *, skewed: bool = False) -> Drawn:
    """A linear model with two edges per variable on average."""
    rng = np.random.default_rng(seed)
    upper, order = np.triu(rng.random((d, d)) < 4 / (d - 1), 1), rng.permutation(d)
    dag = upper[np.ix_(order, order)]
    weights = dag * rng.uniform(0.3, 1.2, (d, d)) * rng.choice([-1, 1], (d, d))
    mixing, products = np.linalg.inv(np.eye(d) - weights), np.zeros((d, d))
    sizes = [round(n * share) for share in SHARES]
    for size in sizes:
        errors = rng.exponential(size=(size, d)) if skewed else rng.normal(size=(size, d))
        rows = errors @ mixing
        rows -= rows.mean(axis=0)  # as if offsets of the silos were removed
        products += rows.T @ rows
    names, total = tuple(f"x{k}" for k in range(d)), sum(sizes)
    columns, every = np.arange(d), np.ones(d, np.bool_)
    return Drawn(
        lambda graph: fit_of_moments(products / total, total, len(sizes), graph, names, columns, every), dag, names
    )


def labels(data: FederatedData, *, blank: bool = True) -> Drawn:
    """The count tables of the silos of `data`, by the exchange of a run."""
    assert data.truth is not None
    dag = data.truth.adjacency

    def check(graph: NDArray[np.bool_]) -> Fit:
        steps = registry.build(AlgorithmSpec("fit-tables", implied_tables.FitTables()))
        start = implied_tables.start(data.schema, graph)
        *_, last = rounds(steps, InProcessFederation(data.schema, data.tables), resume=(0, start))
        return implied_tables.fit_of_tables(last.server, blank=blank)

    return Drawn(check, dag, data.schema.variables)


CASES: dict[str, tuple[float, Callable[[int], Drawn]]] = {
    "numbers, d = 8, 400 rows": (1.0, lambda seed: numbers(seed, 8, 400)),
    "numbers, d = 20, 1,000 rows": (1.0, lambda seed: numbers(seed, 20, 1000)),
    "numbers, d = 20, 1,000 rows, exponential errors": (1.0, lambda seed: numbers(seed, 20, 1000, skewed=True)),
    "numbers, d = 50, 1,000 rows": (1.0, lambda seed: numbers(seed, 50, 1000)),
    "numbers, d = 200, 5,000 rows": (0.5, lambda seed: numbers(seed, 200, 5000)),
    "labels, d = 12, 2,000 rows": (1.0, lambda seed: labels(discrete(12, 4, 500, seed, degree=3.0))),
    "labels, d = 20, 10,000 rows": (1.0, lambda seed: labels(discrete(20, 4, 2500, seed, degree=3.0))),
    "labels, d = 12, 2,000 rows, small cells kept": (
        1.0,
        lambda seed: labels(discrete(12, 4, 500, seed, degree=3.0), blank=False),
    ),
    "ALARM, 10,000 rows": (0.5, lambda seed: labels(network("alarm", 4, 2500, seed))),
}
"""share of the draws, and the data by seed"""


def measured(name: str, draw: Callable[[int], Drawn], draws: int) -> dict[str, str]:
    """The row of the table for one kind of data."""
    alarms, failing, noticed, named, cpu = [], [], [], [], time.process_time()
    for seed in range(FIRST_SEED, FIRST_SEED + draws):
        drawn, rng = draw(seed), np.random.default_rng(seed)
        true = drawn.check(drawn.dag)
        assert true.fisher is not None
        alarms.append(true.fisher.p < 0.05)
        failing.append(true.failing > 0)
        edges = np.argwhere(drawn.dag)
        a, b = edges[rng.integers(len(edges))]
        less = drawn.dag.copy()
        less[a, b] = False
        found = drawn.check(less)
        assert found.fisher is not None
        noticed.append(found.failing > 0 or found.fisher.p < 0.05)
        ends = {drawn.names[a], drawn.names[b]}
        named.append(any({one.earlier, one.later} == ends for one in found.worst[:1]))
    return {
        "data": name,
        "draws": f"{draws}",
        "true graph: p of C < .05": f"{100 * np.mean(alarms):.1f} %",
        "asked": "about 5 %",
        "true graph: any fails": f"{100 * np.mean(failing):.1f} %",
        "an edge removed: noticed": f"{100 * np.mean(noticed):.0f} %",
        "named first": f"{100 * np.mean(named):.0f} %",
        "CPU s a draw": f"{(time.process_time() - cpu) / draws:.2f}",
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    draws, rows = parser.parse_args().draws, []
    for name, (share, draw) in CASES.items():
        rows.append(measured(name, draw, round(share * draws)))
        print("  ".join(rows[-1].values()), flush=True)
    content = json.dumps({"rows": rows}, indent=1, ensure_ascii=False)
    (RESULTS / "fit.json").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
