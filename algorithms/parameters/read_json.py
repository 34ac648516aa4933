"""Networks from the JSON that `network_json.py` writes."""

from typing import Any

import numpy as np

from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.structure import Structure
from ..statistics.coding import Coding
from .mixed_network import Linear, Local, Logistic, MixedNetwork, Tabular
from .network_json import gaussian_from_json
from .networks import DynamicGaussianNetwork, GaussianNetwork


def network_from_json(content: dict[str, Any], origin: str) -> GaussianNetwork | DynamicGaussianNetwork | MixedNetwork:
    """Return the Gaussian, dynamic or mixed network that `as_json` has described; `origin` names it in messages.

    Raises `BadInput` for a description that is not complete, or does not fit together.
    """
    try:
        if "families" in content:
            return _mixed(content)
        network = gaussian_from_json(content, origin)
        return _dynamic(network, content["variables"], content["lags"]) if "lags" in content else network
    except BadInput:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{origin}: not a network as fedbnsl writes it: {type(error).__name__}: {error}") from None


def _dynamic(whole: GaussianNetwork, variables: list[str], lags: int) -> DynamicGaussianNetwork:
    """Return the network over time whose moments t − lags, ..., t are those of `whole` (`unrolled.py`)."""
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


def _family(said: dict[str, Any], levels: dict[str, tuple[str, ...]], name: str, parents: list[str]) -> Local:
    if said["kind"] == "table":
        return Tabular(np.array(said["table"], np.float64))
    if said["kind"] == "linear":
        return Linear(said["intercept"], _weights(said["coefficients"], levels, parents), said["variance"])
    labels = levels[name]
    rows = [_weights(said["coefficients"][label], levels, parents) for label in labels]
    return Logistic(np.array([said["intercepts"][label] for label in labels]), np.array(rows))


def _weights(terms: dict[str, Any], levels: dict[str, tuple[str, ...]], parents: list[str]) -> FloatArray:
    """Return the weights of the coded columns of the parents: of a discrete one, those of its levels but the first."""
    columns: list[float] = []
    for parent in parents:
        columns += [terms[parent][label] for label in levels[parent][1:]] if parent in levels else [terms[parent]]
    return np.array(columns, np.float64)
