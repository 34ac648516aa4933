"""What the Prefect UI shows of a run besides its tasks: progress, the picture, tables of scores and edges, a link."""

import base64
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client

from fedbnsl.algorithms.graphs.edge_classes import classify
from fedbnsl.algorithms.graphs.edge_text import SYMBOLS
from fedbnsl.algorithms.graphs.edges import weighted
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged
from fedbnsl.flows.job.finished import Finished
from fedbnsl.flows.job.run import Progress
from fedbnsl.tasks.rounds import Orchestration

EVERY = 2.0
"""seconds between two updates of the progress: each is a request to the server"""
LARGEST_PICTURE = 1_000_000
"""bytes of a picture that Prefect's database is given"""


class ProgressArtifact:
    """A listener that keeps the progress artifact of the current flow run up to date."""

    def __init__(self, orchestration: Orchestration) -> None:
        """Start without an artifact: the first round creates it."""
        self._orchestration = orchestration
        self._id: UUID | None = None
        self._next = 0.0

    def __call__(self, heard: Progress) -> None:
        """Update the artifact if it is time, or the run is over."""
        if self._id is None or heard.round.outcome or time.monotonic() >= self._next:
            done = 100.0 if heard.round.outcome else 100.0 * heard.round.number / heard.max_rounds
            self._orchestration.tell(lambda: self._show(done))
            self._next = time.monotonic() + EVERY

    def _show(self, done: float) -> None:
        if self._id is not None:
            update_progress_artifact(self._id, progress=done)
            return
        made: Any = create_progress_artifact(done, key="rounds", description="Rounds of at most the given number")
        self._id = made


def publish(finished: Finished) -> None:
    """Create the picture, the table of scores, the table of edges and the link to the MLflow run."""
    result = finished.result
    picture = finished.files.get("structure.png")
    if picture is not None and picture.stat().st_size <= LARGEST_PICTURE:
        title = f"What {result.algorithm} learned from {result.dataset}"
        create_image_artifact(image_url=data_uri(picture), key="picture", description=title)
    scores = [{"score": key, "value": value} for key, value in result.metrics.items() if value is not None]
    create_table_artifact(table=scores, key="scores", description=f"{result.algorithm} on {result.dataset}")
    edges = [
        {"source": edge.cause, "edge": SYMBOLS[edge.at_source, edge.at_target], "target": edge.target}
        | ({"weight": round(edge.weight or 0.0, 4)} if weighted(result.structure) else {})
        for edge in (*classify(result.structure, None), *classify_lagged(result.structure, None))
    ]
    create_table_artifact(table=edges, key="structure", description=f"{len(edges)} edges; all files: {finished.folder}")
    if finished.tracking_url:
        create_link_artifact(
            link=finished.tracking_url, link_text="MLflow run", key="mlflow", description="This run in MLflow"
        )


def data_uri(picture: Path) -> str:
    """Return the PNG file `picture` as an address that holds it: pages show it wherever its folder is."""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def tag_flow_run(flow_run_id: str, tags: list[str]) -> None:
    """Add `tags` to those of the flow run."""
    with get_client(sync_client=True) as client:
        present = client.read_flow_run(UUID(flow_run_id)).tags
        client.update_flow_run(UUID(flow_run_id), tags=sorted({*present, *tags}))
