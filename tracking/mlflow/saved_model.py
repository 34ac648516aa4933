"""The model of a run as MLflow keeps it: saved as a folder with its code, and loaded again for pgmpy."""

import json
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..model import as_pgmpy
from .store import open_client, tracking_uri

NETWORK = "network.json"
LOGGED = "models:/"


def save_pyfunc(network: dict[str, Any], folder: Path, identity: dict[str, Any]) -> None:
    """Write a network, as `as_json` describes it, into the new `folder` as an MLflow model.

    `identity` goes into its description (`MLmodel`). Its inputs may be of any type: MLflow would refuse whole numbers
    for a column of doubles.
    """
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, Schema

    labels = network.get("levels", {})
    source = folder.with_name(NETWORK)
    source.write_text(json.dumps(network, indent=1, ensure_ascii=False), encoding="utf-8")
    names, anything = network.get("variables", network["nodes"]), AnyType()
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


def _code(network: dict[str, Any]) -> str:
    """Return the name of the file that predicts from `network`."""
    if "tables" in network:
        return "pyfunc_discrete.py"
    if "families" in network:
        return "pyfunc_mixed.py"
    return "pyfunc_dynamic.py" if "lags" in network else "pyfunc_model.py"


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
