"""The log of a run in Prefect's run page: a line a round, the scores, where report and MLflow run are, or the error.

The lines go straight to the server, several at a time: Prefect's own log worker would complain on the terminal when the
server goes, and the command line silences Prefect's loggers.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import get_client

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.flows.job.figures import figures
from fedbnsl.flows.job.finished import Finished
from fedbnsl.flows.job.run import Progress
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tracking.mlflow.views import comparison_of

Line = dict[str, Any]
"""a line as Prefect's API takes it"""
EVERY = 2.0
"""seconds between two requests with what has been said since"""
LONGEST = 10_000
"""characters of a line"""
SCORES = ("shd", "tpr", "fdr", "f1", "edges", "lagged_shd", "lagged_edges", "epsilon", "seconds")


class FlowRunLog:
    """A listener that logs every round of the flow run `flow_run_id`, and what else it is told to say."""

    def __init__(
        self, orchestration: Orchestration, flow_run_id: str, send: Callable[[list[Line]], None] | None = None
    ) -> None:
        """Start with nothing said; `send` delivers lines, by default to the Prefect server."""
        self._orchestration, self._flow_run_id = orchestration, flow_run_id
        self._send = send or _deliver
        self._kept: list[Line] = []
        self._next = 0.0

    def __call__(self, heard: Progress) -> None:
        """Log the round that is over."""
        self.say(round_line(heard), now=heard.round.outcome is not None)

    def say(self, line: str, level: int = logging.INFO, *, now: bool = False) -> None:
        """Log `line`, at the latest with the next one that is said after a while, or `now`."""
        said = {
            "name": "fedbnsl",
            "level": level,
            "message": line[:LONGEST],
            "timestamp": datetime.now(UTC).isoformat(),
            "flow_run_id": self._flow_run_id,
        }
        self._kept.append(said)
        if now or time.monotonic() >= self._next:
            kept, self._kept = self._kept, []
            self._orchestration.tell(lambda: self._send(kept))
            self._next = time.monotonic() + EVERY

    def fail(self, error: BaseException) -> None:
        """Log why the run has ended without a result."""
        self.say(f"the run failed: {str(error) or type(error).__name__}", logging.ERROR, now=True)

    def finish(self, finished: Finished) -> None:
        """Log the scores of the run that is over, what to know of them, and where the results are."""
        for line in closing_lines(finished):
            self.say(line)
        self.say(f"all files: {finished.folder.absolute()}", now=True)


def round_line(heard: Progress) -> str:
    """Return what a round came to, in one line: its measures, and the bytes sent until then."""
    return f"round {heard.round.number} of at most {heard.max_rounds}: {figures(heard)}"


def closing_lines(finished: Finished) -> list[str]:
    """Return how the run ended, its scores, findings that a reader must know, and where the report is."""
    result, metrics = finished.result, finished.result.metrics
    known = {name: metrics.get(name) for name in SCORES}
    scores = [f"{name} {value:.4g}" for name, value in known.items() if isinstance(value, int | float)]
    lines = [
        f"{result.outcome} after {counted(len(result.rounds), 'round')}: {result.algorithm} on {result.dataset}",
        f"scores: {', '.join(scores)}",
        *(f"{one.said} {one.advice}" for one in result.diagnosed.findings),
    ]
    if "report.html" in finished.files:
        lines.append(f"report: {finished.files['report.html'].absolute()}")
    if finished.tracking_url:
        lines += [f"MLflow: {finished.tracking_url}", f"all runs compared: {comparison_of(finished.tracking_url)}"]
    return lines


def _deliver(lines: list[Line]) -> None:
    with get_client(sync_client=True) as client:
        client.create_logs(lines)
