"""The model of a run: its network for pgmpy, as a file beside the other outputs, and for MLflow."""

import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.parameters.bif import bif, why_no_bif
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork, GaussianNetwork, Network

from .mlflow.store import open_client, tracking_uri
from .result import RunResult

NETWORK = "network.json"
LOGGED = "models:/"
CODE = Path(__file__).parent / "mlflow"
"""the files that MLflow copies into a model"""


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
    return {"model.bif": bif(network)}


def as_json(network: Network) -> dict[str, Any]:
    """Return a Gaussian network in the JSON format of pgmpy's `LinearGaussianBayesianNetwork.save`, or a discrete one.

    The latter has `levels`, `parents` and `tables` by variable, as in `DiscreteNetwork`.
    """
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


def save_pyfunc(result: RunResult, folder: Path, identity: dict[str, Any]) -> None:
    """Write the result into the new `folder` as an MLflow model; `identity` goes into its description (`MLmodel`).

    Its inputs may be of any type: MLflow would refuse whole numbers for a column of doubles. Raises `ValueError` if
    there is no network.
    """
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    network = network_of(result)
    discrete = isinstance(network, DiscreteNetwork)
    source = folder.with_name(NETWORK)
    source.write_text(json.dumps(as_json(network), indent=1, ensure_ascii=False), encoding="utf-8")
    names, anything = result.structure.variables, AnyType()
    signature = ModelSignature(
        inputs=Schema([ColSpec(anything, name=name) for name in names]),
        outputs=Schema([ColSpec("string" if discrete else "double", name=name) for name in names]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # MLflow advises to log an example row: rows stay with their owners
        mlflow.pyfunc.save_model(
            str(folder),
            python_model=str(
                Path(__file__).parent / "mlflow" / ("pyfunc_discrete.py" if discrete else "pyfunc_model.py")
            ),
            artifacts={"network": str(source)},
            signature=signature,
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "numpy", "pandas", "pgmpy")],
            mlflow_model=Model(**identity),
        )


def load_pgmpy(uri: str, store: str | None = None) -> Any:
    """Return the pgmpy network of a model that a run has logged: `models:/<model id>`, or the folder of a model.

    `store` is the tracking URI: by default MLFLOW_TRACKING_URI, else `mlflow.db` in this folder. Raises `BadInput` if
    it cannot be opened.
    """
    from mlflow.artifacts import download_artifacts

    if uri.startswith(LOGGED):
        uri = open_client(tracking_uri(store)).get_logged_model(uri.removeprefix(LOGGED)).artifact_location
    folder = Path(download_artifacts(artifact_uri=uri))
    return as_pgmpy(json.loads((folder / "artifacts" / NETWORK).read_text(encoding="utf-8")))
