"""Networks as JSON: Gaussian ones in the format of pgmpy, discrete ones as levels, parents and tables by variable."""

from typing import Any

import numpy as np

from ..errors import BadInput
from ..graphs.structure import Structure
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
