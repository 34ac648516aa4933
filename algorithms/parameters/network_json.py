"""Networks as JSON: Gaussian ones in the format of pgmpy, others by variable: levels, parents, tables, regressions."""

from typing import Any

import numpy as np

from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.structure import Structure
from .mixed_network import Linear, MixedNetwork, Tabular
from .networks import DiscreteNetwork, DynamicGaussianNetwork, GaussianNetwork, Network
from .unrolled import unrolled


def as_json(network: Network) -> dict[str, Any]:
    """Return a Gaussian network in the JSON format of pgmpy's `LinearGaussianBayesianNetwork.save`, or a discrete one.

    The latter has `levels`, `parents` and `tables` by variable, as in `DiscreteNetwork`. A dynamic network is written
    as the Gaussian one over several times that it is (`unrolled.py`), and beside it its `variables` and `lags`.
    """
    if isinstance(network, DynamicGaussianNetwork):
        over_time = {"variables": list(network.structure.variables), "lags": network.structure.lags}
        return {**as_json(unrolled(network)), **over_time}
    if isinstance(network, DiscreteNetwork):
        return {
            "nodes": list(network.variables),
            "levels": {name: list(network.levels[name]) for name in network.variables},
            "parents": {name: list(network.parents[name]) for name in network.variables},
            "tables": {name: network.tables[name].tolist() for name in network.variables},
        }
    if isinstance(network, MixedNetwork):
        return mixed_as_json(network)
    names, weights = network.structure.variables, network.structure.weights
    cpds: dict[str, Any] = {}
    for j, name in enumerate(names):
        parents = [int(i) for i in np.flatnonzero(weights[:, j])]
        intercept: dict[str, list[float]] = {"(Intercept)": [float(network.intercepts[j])]}
        cpds[name] = {
            "coefficients": {**intercept, **{names[i]: [float(weights[i, j])] for i in parents}},
            "variance": [float(network.variances[j])],
            "parents": [names[i] for i in parents],
        }
    arcs = [[names[i], names[j]] for i, j in np.argwhere(weights != 0)]
    return {"nodes": list(names), "arcs": arcs, "cpds": cpds}


def mixed_as_json(network: MixedNetwork) -> dict[str, Any]:
    """Return `nodes`, `levels`, `parents`, and by variable its `families`: linear, logistic or a table.

    Coefficients are numbers by continuous parent, and by level of a discrete one, the first of which has 0.
    """
    families: dict[str, Any] = {}
    for name, own, local in zip(network.variables, network.parents, network.local, strict=True):
        if isinstance(local, Tabular):
            families[name] = {"kind": "table", "table": local.table.tolist()}
        elif isinstance(local, Linear):
            terms = _coefficients(network, own, local.weights)
            families[name] = {
                "kind": "linear",
                "intercept": local.intercept,
                "coefficients": terms,
                "variance": local.variance,
            }
        else:
            families[name] = {
                "kind": "logistic",
                "intercepts": dict(zip(network.levels[name], local.intercepts.tolist(), strict=True)),
                "coefficients": {
                    label: _coefficients(network, own, weights)
                    for label, weights in zip(network.levels[name], local.weights, strict=True)
                },
            }
    return {
        "nodes": list(network.variables),
        "levels": {name: list(labels) for name, labels in network.levels.items()},
        "parents": {
            name: [network.variables[u] for u in own]
            for name, own in zip(network.variables, network.parents, strict=True)
        },
        "families": families,
    }


def _coefficients(network: MixedNetwork, own: tuple[int, ...], weights: FloatArray) -> dict[str, Any]:
    """Return the weights of coded parents by parent: a number, or by level of a discrete one."""
    found: dict[str, Any] = {}
    begin = 0
    for u in own:
        name, width = network.variables[u], network.coding.widths[u]
        part = weights[begin : begin + width].tolist()
        begin += width
        found[name] = dict(zip(network.levels[name], [0.0, *part], strict=True)) if name in network.levels else part[0]
    return found


def gaussian_from_json(content: dict[str, Any], origin: str) -> GaussianNetwork:
    """Return the Gaussian network that `as_json`, or pgmpy, has described; `origin` names it in messages.

    Raises `BadInput` if the arcs are not those of the coefficients.
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
        raise BadInput(f"{origin}: the arcs are not those of the coefficients")
    return GaussianNetwork(Structure(variables, weights), intercepts, variances)
