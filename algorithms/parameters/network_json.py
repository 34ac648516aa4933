"""Networks as JSON, the format of `model.json` and of the models in MLflow.

A linear Gaussian network is as pgmpy's `LinearGaussianBayesianNetwork.save` writes it: `nodes`, `arcs`, and in `cpds`
each node's `parents`, `coefficients` and `variance`. Other networks add to this format:

- `levels` by name, if there are labels
- a label among the parents of a regression has one coefficient per level, 0 for the first level
- the `coefficients` of a label are those of a logistic regression, by level; a label with a `table` has no
  coefficients
- a network over time has `variables` and `lags`; its nodes are the variables at time t, "x", and before, "x[t-1]"
- `adjustment` has the components that were subtracted from series before the fit
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..core.adjustment import Adjustment
from ..core.schema import FloatArray
from ..errors import BadInput
from .distributions import Distribution, Linear, Logistic, Tabular
from .networks import Network

INTERCEPT = "(Intercept)"

Levels = Mapping[str, Sequence[str]]


def network_as_json(network: Network) -> dict[str, Any]:
    """The network as JSON."""
    nodes, levels = network.nodes, network.levels
    cpds: dict[str, Any] = {}
    for name, own, local in zip(nodes, network.parent_numbers, network.local, strict=True):
        parents = [nodes[u] for u in own]
        if isinstance(local, Tabular):
            cpds[name] = {"table": local.table.tolist(), "parents": parents}
        elif isinstance(local, Linear):
            coefficients = _coefficients(local.intercept, local.weights, parents, levels)
            cpds[name] = {"coefficients": coefficients, "variance": [local.variance], "parents": parents}
        else:
            assert isinstance(local, Logistic)
            each = zip(levels[name], local.intercepts.tolist(), local.weights, strict=True)
            by_level = {label: _coefficients(one, weights, parents, levels) for label, one, weights in each}
            cpds[name] = {"coefficients": by_level, "parents": parents}
    labels = {"levels": {name: list(labels) for name, labels in levels.items()}} if levels else {}
    over_time = {"variables": list(network.variables), "lags": network.lags} if network.lags else {}
    adjusted = {"adjustment": asdict(network.adjustment)} if network.adjustment else {}
    arcs = [[nodes[i], nodes[j]] for i, j in np.argwhere(network.dag)]
    return {"nodes": list(nodes), "arcs": arcs, **labels, "cpds": cpds, **over_time, **adjusted}


def _coefficients(intercept: float, weights: FloatArray, parents: Sequence[str], levels: Levels) -> dict[str, Any]:
    """The intercept and the weights by parent, each a list of one number, or a number for each level of a label."""
    found: dict[str, Any] = {INTERCEPT: [intercept]}
    columns = iter(weights.tolist())
    for name in parents:
        if name in levels:
            found[name] = {label: 0.0 if k == 0 else next(columns) for k, label in enumerate(levels[name])}
        else:
            found[name] = [next(columns)]
    return found


def network_from_json(content: dict[str, Any], origin: str) -> Network:
    """The network from the JSON of `network_as_json` or pgmpy; `origin` names it in messages.

    Raises `BadInput` for incomplete or inconsistent content.
    """
    try:
        nodes, lags = tuple(content["nodes"]), content.get("lags", 0)
        variables = tuple(content.get("variables", nodes))
        if lags < 0 or len(nodes) != (lags + 1) * len(variables):
            raise BadInput(f"{origin}: {len(nodes)} nodes for {len(variables)} variables and {lags} lags")
        levels = {name: tuple(labels) for name, labels in content.get("levels", {}).items()}
        parents = {name: tuple(content["cpds"][name]["parents"]) for name in nodes}
        if {(one, name) for name in nodes for one in parents[name]} != {tuple(arc) for arc in content["arcs"]}:
            raise BadInput(f"{origin}: the arcs do not match the coefficients")
        return Network(
            variables,
            levels,
            parents,
            {name: _distribution(content["cpds"][name], name, levels) for name in nodes},
            lags,
            Adjustment(**content.get("adjustment", {})),
        )
    except BadInput:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{origin}: not a network in the format of fedbnsl: {type(error).__name__}: {error}") from None


def _distribution(content: dict[str, Any], name: str, levels: Levels) -> Distribution:
    if "table" in content:
        return Tabular(np.array(content["table"], np.float64))

    def regression(terms: dict[str, Any]) -> tuple[float, list[float]]:
        columns: list[float] = []
        for parent in content["parents"]:
            own = terms[parent]
            columns += [own[label] for label in levels[parent][1:]] if parent in levels else own
        return float(terms[INTERCEPT][0]), columns

    if name not in levels:
        intercept, weights = regression(content["coefficients"])
        return Linear(intercept, np.array(weights, np.float64), float(content["variance"][0]))
    each = [regression(content["coefficients"][label]) for label in levels[name]]
    return Logistic(np.array([one[0] for one in each]), np.array([one[1] for one in each], np.float64))
