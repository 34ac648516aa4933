"""The artifacts and the log of a run on Prefect's pages: progress, picture, tables and links.

Log lines are sent directly to the server, several at a time. Prefect's own log worker is not used for two reasons: it
would print errors on the terminal when the server ends, and the command line silences Prefect's loggers.
"""

import base64
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
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
from fedbnsl.tracking.metrics import known_in
from fedbnsl.tracking.mlflow.store import comparison_of
from fedbnsl.tracking.report.sections import SECTIONS
from fedbnsl.tracking.result import CompletedRun

from ..job.run import Progress, outcome_text, progress_text

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


Line = dict[str, Any]
"""a log line in the form of Prefect's API"""
SEND_SECONDS = 2.0
"""minimum time between two requests with log lines"""
MAX_LINE_CHARACTERS = 10_000
"""maximum length of a log line"""


class FlowRunLog:
    """A listener that logs every round of the flow run `flow_run_id`, and other lines."""

    def __init__(
        self, orchestration: Orchestration, flow_run_id: str, send: Callable[[list[Line]], None] | None = None
    ) -> None:
        """Start without lines; `send` delivers lines, by default to the Prefect server."""
        self._orchestration, self.flow_run_id = orchestration, flow_run_id
        self._send = send or _deliver
        self._pending: list[Line] = []
        self._next = 0.0
        self._lock = Lock()
        orchestration.say = self.log

    def __call__(self, progress: Progress) -> None:
        """Log the finished round."""
        self.log(round_line(progress), now=progress.round.outcome is not None)

    def log(self, line: str, level: int = logging.INFO, *, now: bool = False) -> None:
        """Log `line`. All pending lines are sent if `now`, or if the last request was `SEND_SECONDS` ago."""
        self._add(line, level)
        if now or time.monotonic() >= self._next:
            with self._lock:
                lines, self._pending = self._pending, []
            self._orchestration.report(lambda: self._send(lines))
            self._next = time.monotonic() + SEND_SECONDS

    def task_line(self, line: str, level: int, task_run: UUID) -> None:
        """Log `line` of the run of a task; it is sent with the next line of the flow run. Any thread may call this."""
        self._add(line, level, {"task_run_id": str(task_run)})

    def _add(self, line: str, level: int, more: Line | None = None) -> None:
        entry = {
            "name": "fedbnsl",
            "level": level,
            "message": line[:MAX_LINE_CHARACTERS],
            "timestamp": datetime.now(UTC).isoformat(),
            "flow_run_id": self.flow_run_id,
        }
        with self._lock:
            self._pending.append(entry | (more or {}))

    def fail(self, error: BaseException) -> None:
        """Log the reason why the run failed."""
        self.log(f"the run failed: {str(error) or type(error).__name__}", logging.ERROR, now=True)

    def finish(self, finished: CompletedRun) -> None:
        """Log the scores and findings of the finished run, and the paths of the results."""
        for line in result_lines(finished):
            self.log(line)
        self.log(f"all files: {finished.folder.absolute()}", now=True)


def round_line(progress: Progress) -> str:
    """The measures of a round and the bytes so far, in one line."""
    return f"round {progress.round.number} of at most {progress.max_rounds}: {progress_text(progress)}"


def result_lines(finished: CompletedRun) -> list[str]:
    """The outcome of the run, its scores and findings, and the path of the report."""
    result, known = finished.result, known_in("log", finished.result.metrics)
    scores = [f"{name} {value:.4g}" for name, value in known.items() if isinstance(value, int | float)]
    lines = [
        f"{outcome_text(result)}: {result.algorithm} on {result.dataset}",
        f"scores: {', '.join(scores)}",
        *(f"{one.message} {one.advice}" for one in result.diagnosed.findings),
    ]
    if "report.html" in finished.files:
        lines.append(f"report: {finished.files['report.html'].absolute()}")
    if finished.tracking_url:
        lines += [f"MLflow: {finished.tracking_url}", f"all runs compared: {comparison_of(finished.tracking_url)}"]
    return lines


def _deliver(lines: list[Line]) -> None:
    with get_client(sync_client=True) as client:
        client.create_logs(lines)


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
