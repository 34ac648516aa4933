"""The model of a run as MLflow keeps it: saved as a folder with its code, and loaded again for pgmpy."""

import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedbnsl.algorithms.parameters.mixed_network import MixedNetwork
from fedbnsl.algorithms.parameters.network_json import as_json
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork, DynamicGaussianNetwork, Network

from ..model import as_pgmpy, network_of
from ..result import RunResult
from .store import open_client, tracking_uri

NETWORK = "network.json"
LOGGED = "models:/"


def save_pyfunc(result: RunResult, folder: Path, identity: dict[str, Any]) -> None:
    """Write the result into the new `folder` as an MLflow model; `identity` goes into its description (`MLmodel`).

    Its inputs may be of any type: MLflow would refuse whole numbers for a column of doubles. Raises `ValueError` if
    there is no network.
    """
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    network = network_of(result)
    labels = getattr(network, "levels", {})
    source = folder.with_name(NETWORK)
    source.write_text(json.dumps(as_json(network), indent=1, ensure_ascii=False), encoding="utf-8")
    names, anything = result.structure.variables, AnyType()
    signature = ModelSignature(
        inputs=Schema([ColSpec(anything, name=name) for name in names]),
        outputs=Schema([ColSpec("string" if name in labels else "double", name=name) for name in names]),
    )
    with warnings.catch_warnings():
        # MLflow advises to log an example row, but rows stay with their owners.
        warnings.simplefilter("ignore", UserWarning)
        mlflow.pyfunc.save_model(
            str(folder),
            python_model=str(Path(__file__).parent / _code(network)),
            artifacts={"network": str(source)},
            signature=signature,
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "numpy", "pandas", "pgmpy")],
            mlflow_model=Model(**identity),
        )


def _code(network: Network) -> str:
    """Return the name of the file that predicts from `network`."""
    if isinstance(network, DiscreteNetwork):
        return "pyfunc_discrete.py"
    if isinstance(network, MixedNetwork):
        return "pyfunc_mixed.py"
    return "pyfunc_dynamic.py" if isinstance(network, DynamicGaussianNetwork) else "pyfunc_model.py"


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
