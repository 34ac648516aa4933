"""Parsing networks from the JSON that their method `as_json` writes.

The format of Gaussian networks is pgmpy's. A dynamic network is a Gaussian network with one node per variable and time
step. A mixed network has the levels and parents of each variable, and its regression or probability table.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..core.adjustment import Adjustment
from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.structure import Structure
from ..statistics.coding import Coding
from .mixed_network import DynamicMixedNetwork, Linear, Local, Logistic, MixedNetwork, Tabular
from .networks import DynamicGaussianNetwork, GaussianNetwork


def gaussian_from_json(content: dict[str, Any], origin: str) -> GaussianNetwork:
    """The Gaussian network from the JSON of `as_json` or pgmpy; `origin` names it in messages.

    Raises `BadInput` if the arcs do not match the coefficients.
    """
    variables = tuple(content["nodes"])
    place = {variable: number for number, variable in enumerate(variables)}
    weights = np.zeros((len(variables), len(variables)))
    intercepts, variances = np.zeros(len(variables)), np.zeros(len(variables))
    for variable, model in content["cpds"].items():
        j = place[variable]
        variances[j] = model["variance"][0]
        for parent, (coefficient,) in model["coefficients"].items():
            if parent == "(Intercept)":
                intercepts[j] = coefficient
            else:
                weights[place[parent], j] = coefficient
    if {(variables[i], variables[j]) for i, j in np.argwhere(weights)} != {tuple(arc) for arc in content["arcs"]}:
        raise BadInput(f"{origin}: the arcs do not match the coefficients")
    return GaussianNetwork(Structure(variables, weights), intercepts, variances)


def network_from_json(
    content: dict[str, Any], origin: str
) -> GaussianNetwork | DynamicGaussianNetwork | MixedNetwork | DynamicMixedNetwork:
    """The Gaussian or mixed network, static or dynamic, from the JSON of `as_json`; `origin` names it in messages.

    Raises `BadInput` for incomplete or inconsistent content.
    """
    try:
        adjustment = Adjustment(**content.get("adjustment", {}))
        if "families" in content:
            mixed = _mixed(content)
            return DynamicMixedNetwork(tuple(content["variables"]), mixed, adjustment) if "lags" in content else mixed
        network = gaussian_from_json(content, origin)
        if "lags" not in content:
            return network
        return replace(_dynamic(network, content["variables"], content["lags"]), adjustment=adjustment)
    except BadInput:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{origin}: not a network in the format of fedbnsl: {type(error).__name__}: {error}") from None


def _dynamic(whole: GaussianNetwork, variables: list[str], lags: int) -> DynamicGaussianNetwork:
    """The network over time from its unrolled form `whole`."""
    d, weights = len(variables), whole.structure.weights
    lagged = weights[d:, :d].reshape(lags, d, d)
    intercepts, variances = (each.reshape(lags + 1, d) for each in (whole.intercepts, whole.variances))
    structure = Structure(tuple(variables), weights[:d, :d], lagged=lagged)
    return DynamicGaussianNetwork(structure, intercepts[0], variances[0], intercepts[1], variances[1])


def _mixed(content: dict[str, Any]) -> MixedNetwork:
    names = tuple(content["nodes"])
    levels = {name: tuple(labels) for name, labels in content["levels"].items()}
    widths = tuple(len(levels[name]) - 1 if name in levels else 1 for name in names)
    place = {name: number for number, name in enumerate(names)}
    parents = tuple(tuple(place[one] for one in content["parents"][name]) for name in names)
    local = tuple(_family(content["families"][name], levels, name, content["parents"][name]) for name in names)
    return MixedNetwork(Coding(names, widths, tuple(name in levels for name in names)), levels, parents, local)


def _family(content: dict[str, Any], levels: dict[str, tuple[str, ...]], name: str, parents: list[str]) -> Local:
    if content["kind"] == "table":
        return Tabular(np.array(content["table"], np.float64))
    if content["kind"] == "linear":
        return Linear(content["intercept"], _weights(content["coefficients"], levels, parents), content["variance"])
    labels = levels[name]
    rows = [_weights(content["coefficients"][label], levels, parents) for label in labels]
    return Logistic(np.array([content["intercepts"][label] for label in labels]), np.array(rows))


def _weights(terms: dict[str, Any], levels: dict[str, tuple[str, ...]], parents: list[str]) -> FloatArray:
    """The weights of the parents' coded columns: a discrete parent has one column for each level except the first."""
    columns: list[float] = []
    for parent in parents:
        columns += [terms[parent][label] for label in levels[parent][1:]] if parent in levels else [terms[parent]]
    return np.array(columns, np.float64)
