"""The federated data set as MLflow records it: schema, sizes and checksums, and no row."""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms.core.schema import Schema

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

SOURCE_LIMIT = 65_535
"""bytes MLflow takes for the source of a data set"""


@dataclass(frozen=True)
class TrackedData:
    """What the coordinator knows of a federated data set: its name, `about.json`, and what is public."""

    name: str
    about: dict[str, Any]
    schema: Schema

    @property
    def digest(self) -> str:
        """What tells this data set from others of its name: from the checksums of its files, or else from its sizes."""
        known = self.about.get("checksums") or {"variables": self.schema.variables, "rows": self.schema.rows}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]


def dataset_input(data: TrackedData) -> "DatasetInput":
    """Return `data` as an input of an MLflow run."""
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
