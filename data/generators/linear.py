"""Synthetic federated data: random DAGs with one linear model for all silos, or with a linear model for each silo.

Source: Fassy El Fehri et al., Appendix B.1.

The random streams of a seed: (0,) the graph, (1, silo) its rows, (2, silo) its weights.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import GRAPH, NOISE, Graph, Noise
from ..federated import FederatedData, continuous, silo_names
from .random_graphs import RandomGraphSettings, check_graph, random_dag, random_weights, variable_names
from .sampling import linear_sem, numbered_stream


@dataclass(frozen=True)
class LinearSettings(RandomGraphSettings):
    """The settings of a linear model on a random DAG; raises `BadInput` naming an invalid value."""

    graph: Graph = GRAPH
    noise: Noise = NOISE
    standardise: bool = False
    """divide each column by its standard deviation over all silos, so that error variances differ"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_graph(self.variables, self.expected_edges, self.graph)


def homogeneous(
    variables: int,
    silos: int,
    rows: int,
    seed: int,
    edges: int | None = None,
    graph: Graph = GRAPH,
    noise: Noise = NOISE,
    standardise: bool = False,
) -> FederatedData:
    """Draw silos of `rows` rows each from one linear model on a random DAG (Fassy El Fehri et al., B.1.1).

    The graph depends only on the seed, `variables`, `edges` and `graph`, and each silo has its own random stream, so
    that more rows or silos do not change the rows of other silos. The truth has the weights. Raises `BadInput` as
    `LinearSettings` does.
    """
    plan = LinearSettings(variables, silos, rows, seed, edges, graph, noise, standardise)
    weights = _global_weights(plan)
    return _draw(plan, weights, {}, _about("homogeneous", "Fassy El Fehri et al., B.1.1", parameters_of(plan)))


def heterogeneous(
    variables: int,
    silos: int,
    rows: int,
    seed: int,
    weight_variance: float,
    edges: int | None = None,
    graph: Graph = GRAPH,
    noise: Noise = NOISE,
    standardise: bool = False,
) -> FederatedData:
    """Draw silos whose linear models share a DAG; a silo's weights are drawn from N(global weight, `weight_variance`).

    Source: Fassy El Fehri et al., B.1.2. The truth has the global weights, and `silo_weights` has each silo's weights.
    Raises `BadInput` as `LinearSettings` does, and for a negative variance.
    """
    plan = LinearSettings(variables, silos, rows, seed, edges, graph, noise, standardise)
    if not 0 <= weight_variance < np.inf:
        raise BadInput(f"weight_variance: {weight_variance} is not a finite number ≥ 0")
    weights = _global_weights(plan)
    own = {}
    for number, silo in enumerate(silo_names(silos)):
        change = numbered_stream(seed, 2, number).normal(0.0, np.sqrt(weight_variance), weights.shape)
        own[silo] = np.where(weights != 0, weights + change, 0.0)
    return _draw(
        plan,
        weights,
        own,
        _about(
            "heterogeneous",
            "Fassy El Fehri et al., B.1.2",
            {**parameters_of(plan), "weight_variance": weight_variance},
        ),
    )


def _global_weights(plan: LinearSettings) -> FloatArray:
    rng = numbered_stream(plan.seed, 0)
    return random_weights(random_dag(plan.variables, plan.expected_edges, rng, plan.graph), rng)


def _draw(
    plan: LinearSettings, weights: FloatArray, own: dict[str, FloatArray], about: dict[str, Any]
) -> FederatedData:
    variables = variable_names(plan.variables)
    tables = {
        silo: linear_sem(own.get(silo, weights), plan.rows, numbered_stream(plan.seed, 1, number), plan.noise)
        for number, silo in enumerate(silo_names(plan.silos))
    }
    if plan.standardise:
        unit = np.concatenate([*tables.values()]).std(axis=0)
        tables = {silo: table / unit for silo, table in tables.items()}
        weights, own = weights * unit[:, None] / unit, {silo: W * unit[:, None] / unit for silo, W in own.items()}
    return FederatedData(continuous(tables, variables), tables, Structure(variables, weights), own, about)


def parameters_of(plan: LinearSettings) -> dict[str, Any]:
    """The parameters for `about.json`; `standardise` only if it is on."""
    described = {**asdict(plan), "edges": plan.expected_edges}
    if not plan.standardise:
        del described["standardise"]
    return described


def _about(generator: str, source: str, parameters: dict[str, Any]) -> dict[str, Any]:
    seed = parameters.pop("seed")
    return {"kind": "continuous", "generator": generator, "source": source, "parameters": parameters, "seed": seed}
