"""Experiments on a linear model: some silos randomise, weaken or change the mechanisms of variables.

The design is our own. Every silo has its own number of rows and its own offsets; the last silos have no experiment. In
a silo with an experiment, the mechanism of a target is

- randomised: N(0, 4), independent of its causes;
- soft: its causes act with half their strength in the opposite direction, and its noise is twice as large;
- inhibiting: its causes act with `strength` times their strength.

Only the randomised mechanism cuts a target off from its causes.
"""

from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.experiments import Targets
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import GRAPH, Experiment, Graph
from ..federated import FederatedData, continuous, silo_names
from .linear import LinearSettings, parameters_of
from .random_graphs import random_dag, variable_names
from .sampling import numbered_stream

WEIGHTS, DEVIATIONS = (0.5, 1.5), (0.5, 1.5)
"""ranges of the absolute weights and of the standard deviations of the noise, drawn uniformly"""
RANDOMISED_DEVIATION = 2.0
SOFT_WEIGHT, SOFT_NOISE = -0.5, 2.0
"""factors of the weights and of the noise of a target of a soft experiment"""


def interventions(
    variables: int,
    silos: int,
    rows: int,
    seed: int,
    experiment: Experiment,
    targeted_silos: int,
    edges: int | None = None,
    graph: Graph = GRAPH,
    strength: float = 0.2,
    site_means: float = 2.0,
) -> FederatedData:
    """Draw silos of about `rows` rows; each of the first `targeted_silos` sets one or two variables.

    The causal order of the columns is random. The number of rows of a silo is between half and one and a half times
    `rows`, and the offsets of its columns are drawn from N(0, `site_means`²). The targets are in the schema and in
    `about.json`; the truth has the weights. Raises `BadInput` as `LinearSettings` does, and unless at least one silo
    has no target.
    """
    plan = LinearSettings(variables, silos, rows, seed, edges, graph)
    if experiment not in get_args(Experiment):
        raise BadInput(f"experiment: {experiment!r} is not one of {', '.join(get_args(Experiment))}")
    if not 0 <= targeted_silos < silos:
        raise BadInput(f"targeted_silos: {targeted_silos} of {silos} silos: at least one must set no variable")
    rng, names = numbered_stream(seed, 4), variable_names(variables)
    dag = random_dag(variables, plan.expected_edges, rng, graph)
    weights = np.where(dag, rng.uniform(*WEIGHTS, dag.shape) * rng.choice([-1.0, 1.0], dag.shape), 0.0)
    deviations = rng.uniform(*DEVIATIONS, variables)
    tables, targets = {}, dict[str, Targets]()
    for number, silo in enumerate(silo_names(silos)):
        own = numbered_stream(seed, 5, number)
        count, offsets = max(2, round(rows * own.uniform(0.5, 1.5))), own.normal(0.0, site_means, variables)
        chosen = own.permutation(variables)[: own.integers(1, min(3, variables)) * (number < targeted_silos)]
        changed = np.isin(np.arange(variables), chosen)
        tables[silo] = _draw(weights, deviations, changed, experiment, strength, count, own) + offsets
        if changed.any():
            targets[silo] = (tuple(names[v] for v in np.flatnonzero(changed)),)
    own_parameters = {"experiment": experiment, "strength": strength, "site_means": site_means}
    parameters = {**parameters_of(plan), "targeted_silos": targeted_silos, **own_parameters}
    about = {
        **{"kind": "continuous", "generator": "interventions", "source": "ours"},
        **{
            "parameters": {name: parameters[name] for name in parameters if name not in ("seed", "noise")},
            "seed": seed,
        },
    }
    schema = replace(continuous(tables, names), targets=targets)
    return FederatedData(schema, tables, Structure(names, weights), {}, about)


def _draw(
    weights: FloatArray,
    deviations: FloatArray,
    changed: NDArray[np.bool_],
    experiment: Experiment,
    strength: float,
    rows: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw rows `[rows, d]` of the model in which the experiment replaces the mechanisms of the `changed` variables."""
    noise = rng.standard_normal((rows, len(weights)))
    X = np.zeros_like(noise)
    for j in topological_order(weights != 0):
        factor, deviation = 1.0, deviations[j]
        if changed[j]:
            factor, deviation = {
                "randomised": (0.0, RANDOMISED_DEVIATION),
                "soft": (SOFT_WEIGHT, SOFT_NOISE * deviation),
                "inhibiting": (strength, deviation),
            }[experiment]
        X[:, j] = factor * (X @ weights[:, j]) + deviation * noise[:, j]
    return X
