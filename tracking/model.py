"""The model of a run: its network with parameters, for pgmpy and as a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.bif import format_bif
from fedbnsl.algorithms.parameters.network_json import network_as_json
from fedbnsl.algorithms.parameters.networks import Network

from .kept_files import with_format
from .result import RunResult

MODELS = ("model.bif", "model.json")
"""the files of the model: a run with parameters has `model.bif` if its network is discrete, otherwise `model.json`"""


def network_of(result: RunResult) -> Network:
    """The network of a run; raises `ValueError`, with the reason, if there is no network."""
    if result.parameters.network is None:
        raise ValueError(f"no Bayesian network: {result.parameters.how}")
    return result.parameters.network


def pgmpy_model(result: RunResult) -> Any:
    """The network as a pgmpy `DiscreteBayesianNetwork` or `LinearGaussianBayesianNetwork`.

    A dynamic network has nodes for several times, such as "x" and "x[t-1]". Raises `ValueError`, with the reason, if
    there is no such network, for instance for mixed variables.
    """
    return as_pgmpy(network_as_json(network_of(result)))


def pgmpy_dynamic(structure: Structure) -> Any:
    """A dynamic structure as a pgmpy `DynamicBayesianNetwork`, with edges within a time slice and into the next slice.

    The network has no parameters, because pgmpy's dynamic networks support only discrete variables. Raises `ValueError`
    unless the structure is an acyclic graph with a single lag.
    """
    from pgmpy.models import DynamicBayesianNetwork

    if structure.lagged is None or structure.lags != 1:
        raise ValueError(f"a network of two time slices needs a single lag, not {structure.lags}")
    if structure.kind != "dag" or not structure.acyclic:
        raise ValueError("a dynamic Bayesian network needs a directed acyclic graph within one time step")
    names = structure.variables
    model = DynamicBayesianNetwork()
    model.add_nodes_from(names)
    for lag, weights in enumerate((structure.weights, structure.lagged[0])):
        model.add_edges_from(((names[i], 0), (names[j], lag)) for i, j in np.argwhere(weights))
    return model


def model_file(result: RunResult) -> dict[str, str]:
    """The content of the network's file by its name: `model.bif` if the network is discrete, otherwise `model.json`.

    The JSON of a linear Gaussian network is in pgmpy's format. The result is empty if there is no
    network.
    """
    network = result.parameters.network
    if network is None:
        return {}
    if network.discrete:
        return {"model.bif": format_bif(network)}
    content = with_format(Path("model.json"), network_as_json(network))
    return {"model.json": json.dumps(content, indent=1, ensure_ascii=False) + "\n"}


def as_pgmpy(content: dict[str, Any]) -> Any:
    """The pgmpy network whose description in the form of `network_as_json` is `content`.

    Raises `ValueError` for a network of mixed variables.
    """
    cpds = content["cpds"]
    levels = content.get("levels")
    if levels is None:
        from io import StringIO

        from pgmpy.models import LinearGaussianBayesianNetwork

        return LinearGaussianBayesianNetwork.load(StringIO(json.dumps(content)))
    if "lags" in content or not all("table" in one for one in cpds.values()):
        raise ValueError("pgmpy has no networks of mixed variables: use the result's own network to sample and query")
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    model = DiscreteBayesianNetwork()
    model.add_nodes_from(content["nodes"])
    model.add_edges_from((parent, name) for name in content["nodes"] for parent in cpds[name]["parents"])
    for name in content["nodes"]:
        parents = cpds[name]["parents"]
        table = np.array(cpds[name]["table"], float).reshape(-1, len(levels[name])).T
        states = {one: levels[one] for one in (name, *parents)}
        model.add_cpds(TabularCPD(name, len(table), table, parents, [len(levels[one]) for one in parents], states))
    return model
