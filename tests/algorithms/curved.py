"""Silos of different sizes and means, drawn from additive models with curved effects."""

import numpy as np

from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.data.generators.random_graphs import random_dag

EFFECTS = {
    "linear": lambda z: z,
    "tanh": lambda z: np.tanh(2 * z),
    "quadratic": lambda z: z**2 - 1,
    "linear + quadratic": lambda z: z + 0.5 * (z**2 - 1),
}
"""of a parent in units of its standard deviation"""
ERRORS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
    "laplace": lambda rng, size: rng.laplace(size=size) / np.sqrt(2),
    "t3": lambda rng, size: rng.standard_t(3, size=size) / np.sqrt(3),
}


def curved(effect, seed, d=8, edges=12, rows=4000, silos=5, errors="normal", standardised=False):
    """The tables `[n_rows, d]` by silo, columns in a random order, and the true DAG `[d, d]`."""
    rng = np.random.default_rng(seed)
    dag = random_dag(d, edges, rng, "ER")
    X = ERRORS[errors](rng, (rows, d))
    for j in topological_order(dag):
        for i in np.flatnonzero(dag[:, j]):
            z = (X[:, i] - X[:, i].mean()) / X[:, i].std()
            X[:, j] += rng.choice([-1, 1]) * rng.uniform(0.5, 2) * EFFECTS[effect](z)
    X = X / X.std(axis=0) if standardised else X
    names = rng.permutation(d)
    X, dag = X[:, names], dag[np.ix_(names, names)]
    shares = rng.dirichlet(np.full(silos, 4.0)) * (rows - 50 * silos)
    parts = np.split(X, np.cumsum(shares.astype(int) + 50)[:-1])
    return {f"s{k}": part + 3 * X.std(axis=0) * rng.normal(size=d) for k, part in enumerate(parts)}, dag


def wrong_edges(found, truth):
    """The number of pairs that differ between two graphs; a reversal counts once."""
    return int(np.triu((found != truth) | (found.T != truth.T)).sum())
