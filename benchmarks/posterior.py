"""The posterior over graphs: its distance from enumeration, its calibration, and its time.

`--part enumeration`: the total variation distance between 100,000 sampled graphs and the exact posterior over all
29,281 DAGs of five variables, and what independent graphs of this number would have on average. Writes
`results/posterior-enumeration.json`.

`--part calibration`: drawn networks of 10 numbers or labels with two edges per variable on average, columns in random
order, three silos of unequal size with their own offsets, and 100, 300, 1,000 or 3,000 rows in all. Of the edges, pairs
and paths with a probability in each tenth, the share that the true graph has. Writes
`results/posterior-calibration.json`.

`--part speed`: CPU seconds of 1,000 graphs and R̂ at d = 10, 20 and 50, with two neighbours of a variable as parents on
average, and in more dense networks. Writes `results/posterior-speed.json`.

    .venv/bin/python benchmarks/posterior.py [--part NAME] [--draws 200]
"""

import argparse
import time
from collections import defaultdict
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from measure import show
from numpy.typing import NDArray

import fedbnsl
from fedbnsl.algorithms.core.knowledge import no_prior
from fedbnsl.algorithms.graphs.dag import is_acyclic, transitive_closure
from fedbnsl.algorithms.posterior.bge import bge_scores, gaussian_posterior
from fedbnsl.algorithms.posterior.family_space import family_space, with_prior
from fedbnsl.algorithms.posterior.sampling import sample_posterior
from fedbnsl.algorithms.statistics.moments import SummedMomentsWithin

FIRST_SEED, FIRST_CALIBRATED = 1000, 2000
SHARES = (0.2, 0.3, 0.5)
TENTHS = [(low / 10, (low + 1) / 10) for low in range(10)]
Floats = NDArray[np.float64]


def linear_rows(rng: np.random.Generator, d: int, rows: int, parents: float) -> tuple[NDArray[np.bool_], Floats]:
    """A random DAG with this mean number of parents, columns in random order, and rows of a linear model over it."""
    order = rng.permutation(d)
    dag = np.triu(rng.random((d, d)) < 2 * parents / (d - 1), 1)
    weights = dag * rng.uniform(0.1, 1.0, (d, d)) * rng.choice([-1, 1], (d, d))
    table = rng.normal(size=(rows, d)) * rng.uniform(0.5, 2.0, d) @ np.linalg.inv(np.eye(d) - weights)
    return dag[np.ix_(order, order)], table[:, order]


def label_rows(rng: np.random.Generator, d: int, rows: int, parents: float) -> tuple[NDArray[np.bool_], Floats]:
    """A random DAG and rows of labels of two or three levels, with tables from a Dirichlet distribution."""
    order, levels = rng.permutation(d), rng.integers(2, 4, d)
    dag, table = np.triu(rng.random((d, d)) < 2 * parents / (d - 1), 1), np.zeros((rows, d), np.int64)
    for v in range(d):
        state = np.zeros(rows, np.int64)
        for u in np.flatnonzero(dag[:, v]):
            state = state * levels[u] + table[:, u]
        shares = rng.dirichlet(np.ones(levels[v]), state.max() + 1).cumsum(axis=1)
        table[:, v] = (rng.random(rows)[:, None] > shares[state, :-1]).sum(axis=1)
    return dag[np.ix_(order, order)], table[:, order]


def in_silos(table: Any) -> dict[str, Any]:
    """The rows in three silos of unequal size."""
    ends = np.round(np.cumsum(SHARES)[:-1] * len(table)).astype(int)
    return {f"silo-{k}": part for k, part in enumerate(np.split(table, ends))}


def sampled(table: Floats, graphs: int, seed: int) -> tuple[NDArray[np.bool_], Floats, Any, float]:
    """Graphs of one silo's rows, the scores of all families with their space, and R̂."""
    n, d = table.shape
    centred = table - table.mean(axis=0)
    posterior = gaussian_posterior(SummedMomentsWithin(n, np.zeros(d), centred.T @ centred / n), 1)
    space = family_space(np.zeros((d, d), np.bool_), np.abs(np.linalg.inv(posterior.R)), no_prior(d))
    scores = with_prior(bge_scores(posterior, space), space, no_prior(d))
    found = sample_posterior(scores, space, np.zeros((d, d), np.bool_), graphs, np.random.default_rng(seed))
    return found.dags, scores, space, found.r_hat


def enumeration(draws: int) -> list[dict[str, Any]]:
    """The distance from the exact posterior by number of rows; `draws` networks each."""
    d, graphs, dags = 5, 100_000, []
    pairs = list(combinations(range(d), 2))
    for ways in product(range(3), repeat=len(pairs)):
        dag = np.zeros((d, d), np.bool_)
        for (i, j), way in zip(pairs, ways, strict=True):
            dag[i, j], dag[j, i] = way == 1, way == 2
        if is_acyclic(dag):
            dags.append(dag)
    code = np.array(dags).reshape(len(dags), -1) @ (1 << np.arange(d * d))
    place = {int(key): at for at, key in enumerate(code)}
    rows = []
    for n in (100, 1000, 10_000):
        distances, independent = [], []
        for seed in range(FIRST_SEED, FIRST_SEED + draws):
            _, table = linear_rows(np.random.default_rng(seed), d, n, 1.0)
            found, scores, space, _ = sampled(table, graphs, seed)
            known = {(v, space.parents(v, mask, 0)): scores[v, mask, 0] for v in range(d) for mask in range(16)}
            totals = [sum(known[v, tuple(np.flatnonzero(dag[:, v]).tolist())] for v in range(d)) for dag in dags]
            exact = np.exp(np.array(totals) - max(totals))
            exact /= exact.sum()
            counts = np.zeros(len(dags))
            keys, times = np.unique(found.reshape(graphs, -1) @ (1 << np.arange(d * d)), return_counts=True)
            counts[[place[int(key)] for key in keys]] = times
            distances.append(float(np.abs(counts / graphs - exact).sum() / 2))
            independent.append(float(np.sqrt(exact * (1 - exact) / graphs / (2 * np.pi)).sum()))
        rows.append(
            {
                "rows": n,
                "networks": draws,
                "total variation, mean": f"{np.mean(distances):.4f}",
                "largest": f"{max(distances):.4f}",
                "of independent graphs, mean": f"{np.mean(independent):.4f}",
            }
        )
    return rows


def calibration(draws: int) -> list[dict[str, Any]]:
    """The share of edges, pairs and paths in the true graph by probability, for numbers and labels."""
    d, found = 10, defaultdict[tuple[str, str], list[tuple[Floats, NDArray[np.bool_]]]](list)
    for kind, draw in (("numbers", linear_rows), ("labels", label_rows)):
        for seed in range(FIRST_CALIBRATED, FIRST_CALIBRATED + draws):
            rng, n = np.random.default_rng(seed), (100, 300, 1000, 3000)[seed % 4]
            dag, table = draw(rng, d, n, 1.0)
            cells = table if kind == "numbers" else np.char.add("s", table.astype(str))
            frames = {silo: pd.DataFrame(rows).add_prefix("x") for silo, rows in in_silos(cells).items()}
            if kind == "numbers":
                frames = {silo: frame + 5 * rng.normal(size=d) for silo, frame in frames.items()}
            learned = fedbnsl.learn(frames, "secure-boss", posterior=1000, bootstrap=0, parameters=False, seed=seed)
            posterior = learned.result.graph_posterior.posterior
            assert posterior is not None
            varying = [int(name[1:]) for name in posterior.variables]  # columns of one label are set aside
            truth, off = dag[np.ix_(varying, varying)], ~np.eye(len(varying), dtype=np.bool_)
            both, paths = np.triu(off), transitive_closure(dag)[np.ix_(varying, varying)]
            found[kind, "edge"].append((posterior.edges[off], truth[off]))
            found[kind, "joined"].append((posterior.joined[both], (truth | truth.T)[both]))
            found[kind, "path"].append((posterior.paths[off], paths[off]))
    rows = []
    for low, high in TENTHS:
        row: dict[str, Any] = {"probability": f"{low:.1f} to {high:.1f}"}
        for (kind, what), every in found.items():
            probability, true = (np.concatenate(one) for one in zip(*every, strict=True))
            chosen = (probability >= low) & ((probability < high) | (high == 1))
            row[f"{kind}: {what}"] = f"{100 * true[chosen].mean():.0f} % of {chosen.sum():,}" if chosen.any() else ""
        rows.append(row)
    return rows


def speed(draws: int) -> list[dict[str, Any]]:
    """CPU seconds of 1,000 graphs, after one run that compiles; the mean over at most five networks."""
    sampled(linear_rows(np.random.default_rng(0), 10, 500, 1.0)[1], 100, 0)
    rows = []
    for d, parents, n in ((10, 1.0, 1000), (20, 1.0, 1000), (20, 2.0, 10_000), (50, 1.0, 1000), (50, 2.0, 5000)):
        seconds, r_hats = [], []
        for seed in range(FIRST_SEED, FIRST_SEED + min(draws, 5)):
            _, table = linear_rows(np.random.default_rng(seed), d, n, parents)
            start = time.process_time()
            r_hats.append(sampled(table, 1000, seed)[3])
            seconds.append(time.process_time() - start)
        rows.append(
            {
                "d": d,
                "parents, mean": parents,
                "rows": n,
                "CPU s, mean": f"{np.mean(seconds):.1f}",
                "CPU s, largest": f"{max(seconds):.1f}",
                "R̂, largest": f"{max(r_hats):.3f}",
                "chains agree": f"{sum(one < 1.05 for one in r_hats)} of {len(r_hats)}",
            }
        )
    return rows


PARTS = {"enumeration": enumeration, "calibration": calibration, "speed": speed}


def main() -> None:
    """Run the parts and write their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    for name in [given.part] if given.part else PARTS:
        draws = 20 if name == "enumeration" and given.draws == 200 else given.draws
        show(f"posterior-{name}", PARTS[name](draws), {})


if __name__ == "__main__":
    main()
