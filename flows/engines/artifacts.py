"""What the Prefect UI shows of a run besides its tasks: its log, progress, picture, scores, a link to MLflow."""

import logging
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
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

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.edge_classes import classify
from fedbnsl.algorithms.graphs.edge_text import SYMBOLS
from fedbnsl.algorithms.graphs.edges import weighted
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged
from fedbnsl.flows.job.figures import figures
from fedbnsl.flows.job.finished import Finished
from fedbnsl.flows.job.job import Job
from fedbnsl.flows.job.run import Progress
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tracking.notice import first_line

SCORES = ("shd", "tpr", "fdr", "f1", "edges", "seconds")
EVERY = 2.0
"""seconds between two updates of progress and log: each is a request to the server"""
LARGEST = 400_000
"""bytes of the largest picture that is shown: it is kept in Prefect's database"""


class RunPage:
    """A listener that keeps the log and the progress artifact of the current flow run up to date."""

    def __init__(self, orchestration: Orchestration, flow_run_id: str) -> None:
        """Start with an empty log and without an artifact: the first round creates it."""
        self._orchestration = orchestration
        self._flow_run_id = flow_run_id
        self._lines: list[tuple[datetime, str]] = []
        self._id: UUID | None = None
        self._next = 0.0

    def say(self, line: str) -> None:
        """Add `line` to the log; it is sent with the next update."""
        self._lines.append((datetime.now(UTC), line))

    def __call__(self, heard: Progress) -> None:
        """Log the round, and update log and artifact if it is time, or the run is over."""
        self.say(f"round {heard.round.number}: {figures(heard)}")
        if self._id is None or heard.round.outcome or time.monotonic() >= self._next:
            done = 100.0 if heard.round.outcome else 100.0 * heard.round.number / heard.max_rounds
            self._orchestration.tell(lambda: self._show(done))
            self.send()
            self._next = time.monotonic() + EVERY

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Send what was logged within the block, and the error that ended it, if one did."""
        try:
            yield
        except BaseException as error:
            self.say(f"the run has ended: {first_line(error)}")
            raise
        finally:
            self.send()

    def send(self) -> None:
        """Send the lines that have not been sent."""
        lines, self._lines = self._lines, []
        if lines:
            self._orchestration.tell(lambda: send_log(self._flow_run_id, lines))

    def finish(self, finished: Finished) -> None:
        """Log what came out, and publish it as artifacts."""
        for line in outcome_lines(finished):
            self.say(line)
        self.send()
        self._orchestration.tell(lambda: publish(finished))

    def _show(self, done: float) -> None:
        if self._id is not None:
            update_progress_artifact(self._id, progress=done)
            return
        made: Any = create_progress_artifact(done, key="rounds", description="Rounds of at most the given number")
        self._id = made


def send_log(flow_run_id: str, lines: list[tuple[datetime, str]]) -> None:
    """Add `lines`, each with its time, to the log of the flow run."""
    with get_client(sync_client=True) as client:
        client.create_logs(
            {
                "name": "fedbnsl",
                "level": logging.INFO,
                "message": line,
                "timestamp": when.isoformat(),
                "flow_run_id": flow_run_id,
            }
            for when, line in lines
        )


def first_words(job: Job, schema: Schema) -> str:
    """Return what the log begins with: what is learned from what."""
    size = (counted(len(schema.variables), "variable"), counted(len(schema.silos), "silo"))
    return f"{job.spec.name} on {job.dataset}: {', '.join(size)}, {counted(sum(schema.rows.values()), 'row')}"


def outcome_lines(finished: Finished) -> list[str]:
    """Return what the log says at the end: the outcome, the scores, what was spent, and where the files are."""
    result = finished.result
    scores = {key: value for key in SCORES if (value := result.metrics.get(key)) is not None}
    said = [f"{result.outcome} after {counted(len(result.rounds), 'round')}"]
    if scores:
        said.append("  ".join(f"{key} {value:.4g}" for key, value in scores.items() if isinstance(value, int | float)))
    if result.privacy is not None:
        said.append(f"ε spent by this run: {result.privacy.spent}, δ {result.privacy.delta}")
    if "report.html" in finished.files:
        said.append(f"report: {finished.files['report.html'].absolute()}")
    return [*said, *([f"MLflow: {finished.tracking_url}"] if finished.tracking_url else [])]


def picture_uri(picture: Path) -> str | None:
    """Return a PNG as a data URI, which a page shows without asking anybody; None for one that is large."""
    content = picture.read_bytes()
    return None if len(content) > LARGEST else f"data:image/png;base64,{b64encode(content).decode()}"


def publish(finished: Finished) -> None:
    """Create the picture of the structure, the tables of scores and edges, and the link to the MLflow run."""
    result = finished.result
    picture = finished.files.get("structure.png")
    if picture is not None and (uri := picture_uri(picture)):
        create_image_artifact(uri, key="picture", description=f"{result.algorithm} on {result.dataset}")
    scores = [{"score": key, "value": value} for key, value in result.metrics.items() if value is not None]
    create_table_artifact(table=scores, key="scores", description=f"{result.algorithm} on {result.dataset}")
    edges = [
        {"source": edge.cause, "edge": SYMBOLS[edge.at_source, edge.at_target], "target": edge.target}
        | ({"weight": round(edge.weight or 0.0, 4)} if weighted(result.structure) else {})
        for edge in (*classify(result.structure, None), *classify_lagged(result.structure, None))
    ]
    create_table_artifact(table=edges, key="structure", description=f"{len(edges)} edges; all files: {finished.folder}")
    if finished.tracking_url:
        create_link_artifact(link=finished.tracking_url, link_text="MLflow run", key="mlflow")


def tag_flow_run(flow_run_id: str, tags: list[str]) -> None:
    """Add `tags` to those of the flow run."""
    with get_client(sync_client=True) as client:
        present = client.read_flow_run(UUID(flow_run_id)).tags
        client.update_flow_run(UUID(flow_run_id), tags=sorted({*present, *tags}))
