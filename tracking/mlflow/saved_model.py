"""The artifacts of a run in MLflow: its model, its data set and the structures of its rounds.

A model is a folder with its code; `load_pgmpy` loads it for pgmpy. A data set consists of its schema, sizes and
checksums, without rows. A structure is JSON, with a small picture of its matrix or matrices.
"""

import hashlib
import json
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms.core.schema import Schema

from ..model import as_pgmpy
from .store import open_client, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput
import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE
from fedbnsl.algorithms.graphs.structure import Structure

NETWORK = "network.json"
MODEL_SCHEME = "models:/"


def save_pyfunc(network: dict[str, Any], folder: Path, identity: dict[str, Any]) -> None:
    """Write a network in the form of `network_as_json` to the new `folder` as an MLflow model.

    `identity` becomes part of the model's description (`MLmodel`). The inputs of the model may have any type, because
    MLflow would refuse integers for a column of doubles.
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
            python_model=str(Path(__file__).parent / "pyfunc_model.py"),
            artifacts={"network": str(source)},
            signature=signature,
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "numpy", "pandas", "pgmpy")],
            mlflow_model=Model(**identity),
        )


def load_pgmpy(uri: str, store: str | None = None) -> Any:
    """The pgmpy network of the model at `uri`.

    `uri` is `models:/<model id>`, `models:/NAME@ALIAS`, `models:/NAME/VERSION`, or a folder. `store` is the tracking
    URI, by default that of `tracking_uri`. Raises `BadInput` if the store cannot be opened.
    """
    from mlflow.artifacts import download_artifacts

    if uri.startswith(MODEL_SCHEME):
        uri = _location(open_client(tracking_uri(store)), uri.removeprefix(MODEL_SCHEME))
    folder = Path(download_artifacts(artifact_uri=uri))
    return as_pgmpy(json.loads((folder / "artifacts" / NETWORK).read_text(encoding="utf-8")))


def _location(client: "MlflowClient", model: str) -> str:
    """The location of a model's files; `model` is NAME@ALIAS or NAME/VERSION if it is registered, otherwise its id."""
    name, at, alias = model.rpartition("@")
    if at:
        return str(client.get_model_version_by_alias(name, alias).source)
    name, slash, version = model.rpartition("/")
    if slash:
        return str(client.get_model_version(name, version).source)
    return str(client.get_logged_model(model).artifact_location)


SOURCE_LIMIT = 65_535
"""maximum number of characters of the source of a data set in MLflow"""


@dataclass(frozen=True)
class TrackedData:
    """The coordinator's knowledge of a federated data set: its name, `about.json`, and its public schema."""

    name: str
    about: dict[str, Any]
    schema: Schema

    @property
    def digest(self) -> str:
        """A digest of the files' checksums or, without checksums, of variables and numbers of rows.

        The digest distinguishes data sets with the same name.
        """
        known = self.about.get("checksums") or {"variables": self.schema.variables, "rows": self.schema.rows}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def dataset_input(data: TrackedData) -> "DatasetInput":
    """`data` as an input of an MLflow run."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    schema = data.schema
    columns = [{"type": "string" if name in schema.levels else "double", "name": name} for name in schema.variables]
    profile = {
        "num_rows": sum(schema.rows.values()),
        "num_silos": len(schema.rows),
        "rows": {silo: schema.rows[silo] for silo in schema.silos},
        "checksums": data.about.get("checksums", {}),
    }
    made = {key: value for key, value in data.about.items() if key not in ("checksums", "levels")}
    source = json.dumps({"name": data.name, **made}, default=str)
    dataset = Dataset(
        name=data.name[:500],
        digest=data.digest,
        source_type="federated",
        source=source if len(source) <= SOURCE_LIMIT else json.dumps({"name": data.name[:500]}),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps(profile),
    )
    return DatasetInput(dataset, tags=[InputTag("mlflow.data.context", "training")])


BLUE, RED, AMBER, GREY = (22, 84, 160), (196, 48, 18), (224, 160, 48), (150, 150, 150)
MATRIX_PIXELS = 320
"""maximum width of a matrix in pixels, which is rounded down to whole cells"""
GAP = 12
"""distance between the matrices of a dynamic structure, in pixels"""


def structure_json(structure: Structure, number: int) -> str:
    """A structure as JSON: its variables, and source, target, type and weight of every edge (a PAG has no weights).

    A dynamic structure also has its number of `lags`, and every edge has its `lag`, which is 0 within one time step.
    """
    header, rows = ClassifiedEdges(structure).rows()
    edges: list[dict[str, Any]] = [{"type": "directed", **dict(zip(header, row, strict=True))} for row in rows]
    content = {
        "round": number,
        "kind": structure.kind,
        "acyclic": structure.acyclic,
        **({"lags": structure.lags} if structure.lagged is not None else {}),
        "variables": structure.variables,
        "edges": edges,
    }
    return json.dumps(content, ensure_ascii=False)


def adjacency_image(structure: Structure) -> NDArray[np.uint8]:
    """The structure as a picture `[height, width, 3]`: rows are causes, columns are effects, and other cells are white.

    Positive weights are blue, and negative weights are red; even the weakest edge has a quarter of the full colour. For
    a PAG the colour shows the mark at the column's variable: blue for an arrow, amber for a circle, grey for a tail.
    For a dynamic structure the matrices W and A_1, A_2, ... are side by side, each on its own scale.
    """
    if structure.kind == "pag":
        weights = structure.weights
        arrow, circle = (weights == ARROW)[..., None], (weights == CIRCLE)[..., None]
        colour = np.where(arrow, np.array(BLUE), np.where(circle, np.array(AMBER), np.array(GREY)))
        return _picture((weights != 0).astype(np.float64), colour)
    pictures = [
        _signed(weights) for weights in (structure.weights, *(() if structure.lagged is None else structure.lagged))
    ]
    gap = np.full((len(pictures[0]), GAP, 3), GREY, np.uint8)
    return np.hstack([part for picture in pictures for part in (gap, picture)][1:])


def _signed(weights: NDArray[np.float64]) -> NDArray[np.uint8]:
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    strength = np.where(weights != 0, 0.25 + 0.75 * np.abs(weights) / largest, 0.0)
    return _picture(strength, np.where(weights[..., None] > 0, np.array(BLUE), np.array(RED)))


def _picture(strength: NDArray[np.float64], colour: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The picture of a matrix; `strength` `[d, d]` is the share of `colour` `[d, d, 3]` in each cell."""
    pixels = np.rint(255 + strength[..., None] * (colour - 255.0)).astype(np.uint8)
    size = max(1, MATRIX_PIXELS // len(strength))
    return np.asarray(pixels.repeat(size, axis=0).repeat(size, axis=1))
