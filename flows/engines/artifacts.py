"""The artifacts of a run on Prefect's pages: progress, picture, tables, links, and changes since the last run."""

import base64
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client

from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tracking.comparison import Comparison, changes_by_fate
from fedbnsl.tracking.report.sections import SECTIONS
from fedbnsl.tracking.result import CompletedRun

from ..job.run import Progress

UPDATE_SECONDS = 2.0
"""minimum time between two updates of the progress, each of which is a request to the server"""
MAX_PICTURE_BYTES = 1_000_000
"""maximum size of a picture in Prefect's database"""


class ProgressArtifact:
    """A listener that updates the progress artifact of the current flow run."""

    def __init__(self, orchestration: Orchestration) -> None:
        """Start without an artifact, because the first round creates it."""
        self._orchestration = orchestration
        self._id: UUID | None = None
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        """Update the artifact if the last update was `UPDATE_SECONDS` ago, and after the last round."""
        if self._id is None or progress.round.outcome or time.monotonic() >= self._next:
            done = 100.0 if progress.round.outcome else 100.0 * progress.round.number / progress.max_rounds
            self._orchestration.report(lambda: self._show(done))
            self._next = time.monotonic() + UPDATE_SECONDS

    def _show(self, done: float) -> None:
        if self._id is not None:
            update_progress_artifact(self._id, progress=done)
            return
        artifact: Any = create_progress_artifact(done, key="rounds", description="Rounds of at most the given number")
        self._id = artifact


def publish(finished: CompletedRun) -> None:
    """Create the picture, the tables of the result's sections, and the link to the MLflow run.

    Parts that the run does not have, and pictures of more than `MAX_PICTURE_BYTES`, are left out.
    """
    result = finished.result
    picture = finished.files.get("structure.png")
    if picture is not None and picture.stat().st_size <= MAX_PICTURE_BYTES:
        title = f"What {result.algorithm} learned from {result.dataset}"
        create_image_artifact(image_url=data_uri(picture), key="picture", description=title)
    for section in SECTIONS:
        for one in section.tables(result):
            create_table_artifact(
                table=one.table.records, key=one.key, description=f"{one.description}; all files: {finished.folder}"
            )
    if finished.tracking_url:
        create_link_artifact(
            link=finished.tracking_url, link_text="MLflow run", key="mlflow", description="This run in MLflow"
        )


def data_uri(picture: Path) -> str:
    """The PNG file `picture` as a data URI, which pages can show without access to its folder."""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def tag_flow_run(flow_run_id: str, tags: list[str]) -> None:
    """Add `tags` to the tags of the flow run."""
    with get_client(sync_client=True) as client:
        present = client.read_flow_run(UUID(flow_run_id)).tags
        client.update_flow_run(UUID(flow_run_id), tags=sorted({*present, *tags}))


MAX_LISTED_EDGES = 40
"""maximum number of edges that the artifact lists under each kind of change"""


def publish_changes(changes: Comparison) -> None:
    """Create the artifact of the changes since the previous run."""
    create_markdown_artifact(markdown(changes), key="changes", description=f"since {changes.earlier}")


def markdown(changes: Comparison) -> str:
    """The changes as Markdown; edges are code, so that names of variables cannot be markup."""
    lines = [f"# Changes since `{changes.earlier}`", "", changes.summary[:1].upper() + changes.summary[1:] + "."]
    for fate, edges in changes_by_fate(changes).items():
        if edges:
            more = [f"- … and {len(edges) - MAX_LISTED_EDGES} more"] * (len(edges) > MAX_LISTED_EDGES)
            lines += [
                "",
                f"**{fate}**",
                "",
                *(f"- `{edge.replace('`', '´')}`" for edge in edges[:MAX_LISTED_EDGES]),
                *more,
            ]
    return "\n".join(lines)
