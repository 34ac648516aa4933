"""The learned structure as a model: a linear Gaussian Bayesian network for pgmpy, and for MLflow.

X_j = Σ_i W_ij X_i + ε_j with ε_j ~ N(0, σ_j²), where σ_j² is the mean squared residual of the run, or 1 where the run
did not ask the silos for it. Intercepts are 0, because nothing is centred.
"""

import json
import warnings
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from .mlflow_store import open_client, tracking_uri
from .result import RunResult

NETWORK = "network.json"
LOGGED = "models:/"


def why_no_model(result: RunResult) -> str | None:
    """Return why there is no linear Gaussian network of `result`, None if there is one."""
    if result.schema.kind != "continuous":
        return f"the data are {result.schema.kind}, not continuous"
    if result.structure.kind != "dag":
        return f"a {result.structure.kind.upper()} leaves directions open"
    cycle = result.structure.cycle
    return f"a cycle is left: {' → '.join([*cycle, cycle[0]])}" if cycle else None


def where_noise_comes_from(result: RunResult) -> str:
    """Return what the standard deviations of the model are."""
    if result.residual_variances is None:
        return "not asked for: every standard deviation is 1"
    return "root mean squared residual over all rows"


def network(result: RunResult) -> dict[str, Any]:
    """Return the network in the JSON format of pgmpy's `LinearGaussianBayesianNetwork.save`.

    Raises `ValueError` if there is none (`why_no_model`).
    """
    reason = why_no_model(result)
    if reason:
        raise ValueError(f"no Bayesian network: {reason}")
    names, weights = result.structure.variables, result.structure.weights
    variances = result.residual_variances or (1.0,) * len(names)
    cpds = {}
    for j, name in enumerate(names):
        parents = [int(i) for i in np.flatnonzero(weights[:, j])]
        cpds[name] = {
            "coefficients": {"(Intercept)": [0.0], **{names[i]: [float(weights[i, j])] for i in parents}},
            "variance": [float(variances[j])],
            "parents": [names[i] for i in parents],
        }
    arcs = [[names[i], names[j]] for i, j in np.argwhere(weights != 0)]
    return {"nodes": list(names), "arcs": arcs, "cpds": cpds}


def pgmpy_model(result: RunResult) -> Any:
    """Return the result as a pgmpy `LinearGaussianBayesianNetwork`.

    Raises `ValueError` if there is none: a cycle is left, directions are open, or the data are not continuous.
    """
    from pgmpy.models import LinearGaussianBayesianNetwork

    return LinearGaussianBayesianNetwork.load(StringIO(json.dumps(network(result))))


def save_pyfunc(result: RunResult, folder: Path, identity: dict[str, Any]) -> None:
    """Write the result into the new `folder` as an MLflow model; `identity` goes into its description (`MLmodel`).

    Its inputs may be of any numeric type: MLflow would refuse whole numbers for a column of doubles. Raises
    `ValueError` if there is no network.
    """
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    names = result.structure.variables
    source = folder.with_name(NETWORK)
    source.write_text(json.dumps(network(result), indent=1, ensure_ascii=False), encoding="utf-8")
    anything = AnyType()
    signature = ModelSignature(
        inputs=Schema([ColSpec(anything, name=name) for name in names]),
        outputs=Schema([ColSpec("double", name=name) for name in names]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # MLflow advises to log an example row: rows stay with their owners
        mlflow.pyfunc.save_model(
            str(folder),
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
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
    from pgmpy.models import LinearGaussianBayesianNetwork

    if uri.startswith(LOGGED):
        uri = open_client(tracking_uri(store)).get_logged_model(uri.removeprefix(LOGGED)).artifact_location
    folder = Path(download_artifacts(artifact_uri=uri))
    return LinearGaussianBayesianNetwork.load(str(folder / "artifacts" / NETWORK))
