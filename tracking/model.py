"""The model of a run: its network for pgmpy, and as a file beside the other outputs."""

import json
from typing import Any

import numpy as np

from fedbnsl.algorithms.parameters.bif import format_bif, why_no_bif
from fedbnsl.algorithms.parameters.network_json import as_json
from fedbnsl.algorithms.parameters.networks import GaussianNetwork, Network

from .result import RunResult


def why_no_model(result: RunResult) -> str | None:
    """Return why the run has no network with parameters, None if it has."""
    return result.parameters.how if result.parameters.network is None else None


def network_of(result: RunResult) -> Network:
    """Return the network of a run; raises `ValueError` that says why there is none."""
    if result.parameters.network is None:
        raise ValueError(f"no Bayesian network: {result.parameters.how}")
    return result.parameters.network


def pgmpy_model(result: RunResult) -> Any:
    """Return the network as a pgmpy `DiscreteBayesianNetwork` or `LinearGaussianBayesianNetwork`.

    Raises `ValueError` that says why, if there is none.
    """
    return as_pgmpy(as_json(network_of(result)))


def model_file(result: RunResult) -> dict[str, str]:
    """Return the file that holds the network, by name: `model.bif`, or `model.json` as pgmpy writes a Gaussian one.

    None if there is no network, or BIF has no words for its labels.
    """
    network = result.parameters.network
    if isinstance(network, GaussianNetwork):
        return {"model.json": json.dumps(as_json(network), indent=1, ensure_ascii=False) + "\n"}
    if network is None or why_no_bif(network):
        return {}
    return {"model.bif": format_bif(network)}


def as_pgmpy(content: dict[str, Any]) -> Any:
    """Return the pgmpy network that `as_json` has described."""
    if "tables" not in content:
        from io import StringIO

        from pgmpy.models import LinearGaussianBayesianNetwork

        return LinearGaussianBayesianNetwork.load(StringIO(json.dumps(content)))
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    model = DiscreteBayesianNetwork()
    model.add_nodes_from(content["nodes"])
    model.add_edges_from((parent, name) for name in content["nodes"] for parent in content["parents"][name])
    levels = content["levels"]
    for name in content["nodes"]:
        parents = content["parents"][name]
        table = np.array(content["tables"][name], float).reshape(-1, len(levels[name])).T
        states = {one: levels[one] for one in (name, *parents)}
        model.add_cpds(TabularCPD(name, len(table), table, parents, [len(levels[one]) for one in parents], states))
    return model
