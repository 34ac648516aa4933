"""Synthetic nonlinear federated data: every variable is a random multilayer perceptron of its parents, plus noise.

Source: Zheng et al. 2020, §5 (the `mlp` model of their program); Ng & Zhang 2022, §6.

The random streams of a seed: (0,) the model, (1, silo) its rows.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import GRAPH, Graph
from ..federated import FederatedData, continuous, silo_names
from .linear import LinearSettings, parameters_of
from .random_graphs import random_dag, random_weights, variable_names
from .sampling import draw_noise, numbered_stream

HIDDEN = 100
"""number of sigmoid units of each variable's perceptron"""

Perceptrons = dict[int, tuple[FloatArray, FloatArray]]
"""for each variable with parents, the weights of its units `[n_parents, HIDDEN]` and of its output `[HIDDEN]`"""


def nonlinear(
    variables: int, silos: int, rows: int, seed: int, edges: int | None = None, graph: Graph = GRAPH
) -> FederatedData:
    """Draw silos of `rows` rows each from one nonlinear model on a random DAG.

    x_j = σ(x_pa(j)ᵀ W₁) w₂ + z with 100 sigmoid units, W₁ and w₂ uniform in [−2, −0.5] ∪ [0.5, 2], z ~ N(0, 1). The
    columns are in a random order. `edges` is the expected number of edges, by default the number of variables. The
    model depends only on the seed, `variables`, `edges` and `graph`, and each silo has its own random stream, so that
    more rows or silos do not change the rows of other silos. The edges of the truth have weight 1. Raises `BadInput` as
    `LinearSettings` does.
    """
    plan = LinearSettings(variables, silos, rows, seed, edges, graph)
    rng = numbered_stream(seed, 0)
    dag = random_dag(variables, plan.expected_edges, rng, graph)
    perceptrons = random_perceptrons(dag, rng)
    tables = {
        silo: nonlinear_sem(dag, perceptrons, rows, numbered_stream(seed, 1, number))
        for number, silo in enumerate(silo_names(silos))
    }
    names = variable_names(variables)
    parameters = {key: value for key, value in parameters_of(plan).items() if key not in ("seed", "noise")}
    about = {
        "kind": "continuous",
        "generator": "nonlinear",
        "source": "Zheng et al. 2020, §5; Ng & Zhang 2022, §6",
        "parameters": parameters | {"edges": plan.expected_edges},
        "seed": seed,
    }
    return FederatedData(continuous(tables, names), tables, Structure(names, dag.astype(float)), {}, about)


def random_perceptrons(dag: NDArray[np.bool_], rng: np.random.Generator) -> Perceptrons:
    """Draw the perceptron of every variable of `dag` `[n_variables, n_variables]` that has parents."""
    return {
        j: (
            random_weights(np.ones((count, HIDDEN), dtype=bool), rng),
            random_weights(np.ones(HIDDEN, dtype=bool), rng),
        )
        for j, count in enumerate(dag.sum(axis=0))
        if count
    }


def nonlinear_sem(dag: NDArray[np.bool_], perceptrons: Perceptrons, rows: int, rng: np.random.Generator) -> FloatArray:
    """Draw `rows` `[n_rows, n_variables]`: each variable is the perceptron of its parents, plus N(0, 1)."""
    values = draw_noise("gaussian", (rows, len(dag)), rng)
    for j in topological_order(dag):
        if j in perceptrons:
            inner, outer = perceptrons[j]
            values[:, j] += expit(values[:, dag[:, j]] @ inner) @ outer
    return values
