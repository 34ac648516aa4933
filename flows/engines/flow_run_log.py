"""The log of a flow run and of its tasks on Prefect's pages.

Lines are sent directly to the server, several at a time. Prefect's own log worker is not used for two reasons: it would
print errors on the terminal when the server ends, and the command line silences Prefect's loggers.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client

from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tracking.metrics import known_in
from fedbnsl.tracking.mlflow.store import comparison_of
from fedbnsl.tracking.result import CompletedRun

from ..job.run import Progress, outcome_text, progress_text

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
