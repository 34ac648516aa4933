"""Calibration of `--bootstrap`: reliability curves and Brier scores of edge strengths and directions.

`python benchmarks/bootstrap.py` measures `secure-sum` and `secure-boss`, `--algorithm NAME` another learner. The data:
linear Gaussian, Erdős-Rényi graphs of 20 variables with 20 expected edges, 500 and 5000 rows in all over 5 silos,
columns shuffled, seeds 2 to 11. Each learner writes results/bootstrap-NAME.json. Strengths are compared with the true
skeleton over all pairs. The most frequent directions are compared with the true directions, for true edges that occur
in a resample. A Brier score is the mean squared difference between a share and the truth, 1 or 0; beside it is the
score of the run's own edges with strength 1. CPU seconds are of all silos and the server.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from measure import run as learn
from measure import show
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.strengths import (
    Strengths,
    averaged_network,
    edge_shares,
    edge_strengths,
    inclusion_threshold,
)
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap, structures
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation

VARIABLES, SILOS = 20, 5
BINS = 10
Pairs = NDArray[np.float64]
"""`[n, 2]`: a share, and 1 or 0 for the truth"""


@dataclass(frozen=True)
class Sure:
    """One run: strengths and directions against the truth, and the cost of the resamples."""

    seed: int
    rows: int
    strengths: list[list[float]]
    """for every pair, its strength, and 1 if the true graph joins it"""
    directions: list[list[float]]
    """for every true edge found in a resample, the share of its most frequent direction, and 1 if that is true"""
    alone: float
    """Brier score of the edges of the run itself"""
    threshold: float
    shd: float
    averaged_shd: float
    exchanges: int
    cpu_seconds: float


def data_of(seed: int, rows: int) -> FederatedData:
    """The data of `seed`, with `rows` rows in all and columns in random order."""
    data = homogeneous(VARIABLES, SILOS, rows // SILOS, seed)
    order = np.random.default_rng(seed).permutation(VARIABLES)
    names = tuple(data.schema.variables[v] for v in order)
    tables = {silo: np.ascontiguousarray(table[:, order]) for silo, table in data.tables.items()}
    assert data.truth is not None
    schema = type(data.schema)(names, data.schema.rows)
    return FederatedData(schema, tables, data.truth.reordered(names))


def measured(name: str, params: dict[str, Any], seed: int, rows: int, how: Bootstrap) -> Sure:
    """The strengths of the edges that `name` finds in the data of `seed`, compared with the truth."""
    data = data_of(seed, rows)
    assert data.truth is not None
    spec = registry.specify(name, params)
    alone = learn(name, params, data, seed).structure
    algorithm = registry.build(spec.wrapped("bootstrap", how))
    start = time.process_time()
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables, seed))
    found = edge_strengths(structures(registry.build(spec), last.server))
    cpu = time.process_time() - start
    true = data.truth.adjacency
    joined = alone.adjacency | alone.adjacency.T
    upper = np.triu_indices(VARIABLES, 1)
    return Sure(
        seed,
        rows,
        np.column_stack([found.strength[upper], (true | true.T)[upper]]).tolist(),
        directions(found, true).tolist(),
        float(np.mean((joined ^ (true | true.T))[upper])),
        inclusion_threshold(edge_shares(found)),
        float(compare(alone, data.truth)["shd"] or 0),
        float(compare(averaged_network(found), data.truth)["shd"] or 0),
        last.number,
        cpu,
    )


def directions(found: Strengths, true: NDArray[np.bool_]) -> Pairs:
    """For true edges found in a resample, return the share of the more frequent direction, and if it is true."""
    known = true & (found.strength > 0)
    share = found.direction[known]
    return np.column_stack([np.maximum(share, 1 - share), np.where(share == 0.5, 0.5, share > 0.5)])


def curve(pairs: Pairs, least: float) -> list[dict[str, Any]]:
    """A line for each of ten bins of shares from `least` to 1: the mean share, and the proportion of true cases."""
    edges = np.linspace(least, 1, BINS + 1)
    bins = np.clip(np.searchsorted(edges, pairs[:, 0], side="right") - 1, 0, BINS - 1)
    return [
        {
            "bin": f"{edges[b]:.2f} to {edges[b + 1]:.2f}",
            "cases": int((bins == b).sum()),
            "mean share": f"{pairs[bins == b, 0].mean():.3f}" if (bins == b).any() else "",
            "right": f"{pairs[bins == b, 1].mean():.3f}" if (bins == b).any() else "",
        }
        for b in range(BINS)
    ]


def brier(pairs: Pairs) -> float:
    """The mean squared difference between shares and the truth."""
    return float(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2))


def table(name: str, params: dict[str, Any], sizes: Sequence[int], seeds: Sequence[int], how: Bootstrap) -> None:
    """Measure `name`, print the curves and the figures, and write them."""
    measured(name, params, seeds[0], sizes[0], replace(how, resamples=2))  # compiles
    label = f"bootstrap-{name}{'-replacement' * how.replacement}"
    runs = {rows: [measured(name, params, seed, rows, how) for seed in seeds] for rows in sizes}
    figures, curves = [], {}
    for rows, of in runs.items():
        strengths, pointing = (np.array([pair for one in of for pair in getattr(one, what)]) for what in PARTS)
        for what, pairs, least in (("strengths", strengths, 0.0), ("directions", pointing, 0.5)):
            lines = curve(pairs, least)
            curves[f"{what} at {rows} rows"] = lines
        figures.append(
            {
                "rows": rows,
                "seeds": len(of),
                "Brier, strengths": f"{brier(strengths):.4f}",
                "Brier, the run's edges": f"{np.mean([one.alone for one in of]):.4f}",
                "Brier, directions": f"{brier(pointing):.4f}",
                "threshold": f"{np.mean([one.threshold for one in of]):.2f}",
                "SHD": f"{np.mean([one.shd for one in of]):.2f}",
                "SHD, averaged": f"{np.mean([one.averaged_shd for one in of]):.2f}",
                "exchanges": max(one.exchanges for one in of),
                "CPU s": f"{np.mean([one.cpu_seconds for one in of]):.2f}",
            }
        )
    print_curves(curves)
    show(label, figures, {str(rows): of for rows, of in runs.items()})


def print_curves(curves: dict[str, list[dict[str, Any]]]) -> None:
    """Print the curves as Markdown tables: the cases in each bin, their mean share, and the number of true ones."""
    for title, lines in curves.items():
        print(f"\n### {title}\n\n| {' | '.join(lines[0])} |\n|{' --- |' * len(lines[0])}")
        for line in lines:
            print(f"| {' | '.join(str(value) for value in line.values())} |")


PARTS = ("strengths", "directions")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", nargs="+", default=["secure-sum", "secure-boss"])
    parser.add_argument("--rows", nargs="+", type=int, default=[500, 5000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[*range(2, 12)])
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--replacement", action="store_true", help="draw with replacement, not halves")
    parser.add_argument("--param", "-p", nargs="*", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    params = dict(one.split("=", 1) for one in given.param)
    with threadpool_limits(1):
        for name in given.algorithm:
            table(name, params, given.rows, given.seeds, Bootstrap(given.resamples, replacement=given.replacement))


if __name__ == "__main__":
    main()
