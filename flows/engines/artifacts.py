"""The artifacts and the log of a run on Prefect's pages: progress, picture, tables and links.

Log lines are sent directly to the server, several at a time. Prefect's own log worker is not used for two reasons: it
would print errors on the terminal when the server ends, and the command line silences Prefect's loggers.
"""

import base64
import json
import logging
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
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
from prefect.runtime import deployment
from prefect.states import Completed, Failed

from fedbnsl.algorithms.core.protocol import BROKEN_OFF
from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, BadInput, RunCancelled, SilosUnavailable, foreign_text
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tracking.comparison import Comparison, changes_by_fate
from fedbnsl.tracking.metrics import known_in
from fedbnsl.tracking.mlflow.store import comparison_of
from fedbnsl.tracking.report.sections import SECTIONS
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import notice

from ..job.run import Progress, outcome_text, progress_text
from ..options.learn import LearnSettings
from ..options.repeat import Event, HookOptions, RepeatSettings
from .run_comparison import Unchanged, is_drift

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


# Messages about scheduled runs to an address or a command, and the artifact that lists changes since the previous run.
#
# A message reports the learned graph and its changes since the previous run, or the kind of failure of a failed run. It
# contains no rows, and no text of an error, because such a text may quote a cell. If a hook fails, one line is printed
# on stderr, and the run is unaffected.


HOOK_TIMEOUT_SECONDS = 30.0
"""maximum duration of a hook in seconds"""

Message = Mapping[str, Any]


def notify_finished(
    settings: LearnSettings, repeat: RepeatSettings, finished: CompletedRun, hooks: HookOptions
) -> None:
    """Notify of a finished run: `failure` if it was broken off; otherwise `learned`, and `drift` if there is drift."""
    result = finished.result
    if result.outcome in BROKEN_OFF:
        reason = "silos were lost" if result.outcome == "silo lost" else "the run was cancelled"
        notify(hooks, "failure", _message(settings, repeat) | {"reason": reason})
        return
    message = _message(settings, repeat) | {"algorithm": result.algorithm}
    if result.changes is not None:
        message |= result.changes.metrics | changes_by_fate(result.changes)
    notify(hooks, "learned", message)
    if result.changes is not None and is_drift(result.changes, repeat):
        notify(hooks, "drift", message)


def notify_failed(settings: LearnSettings, repeat: RepeatSettings, error: BaseException, hooks: HookOptions) -> None:
    """Send `failure` with the kind of the error, but without its text."""
    reason = "the run failed"
    if isinstance(error, BadInput):
        reason = "silos did not respond" if isinstance(error, SilosUnavailable) else "wrong input"
    notify(hooks, "failure", _message(settings, repeat) | {"reason": reason})


def notify_unchanged(settings: LearnSettings, repeat: RepeatSettings, hooks: HookOptions) -> None:
    """Send `unchanged` for a skipped run."""
    notify(hooks, "unchanged", _message(settings, repeat) | {"folder": None})


def notify(hooks: HookOptions, event: Event, message: Message) -> None:
    """Send `message` on `event` to the address and the command of `hooks`, if `hooks` has this event."""
    if event not in hooks.hook_on:
        return
    text = json.dumps({"event": event, **message}, ensure_ascii=False)
    if hooks.hook_url is not None:
        url = hooks.hook_url
        _call_hook(f"the hook at {urlsplit(url).hostname}", lambda: _post(url, text))
    if hooks.hook_command is not None:
        words = shlex.split(hooks.hook_command)
        _call_hook(f"the hook {words[0]}", lambda: _run(words, text))


def _message(settings: LearnSettings, repeat: RepeatSettings) -> dict[str, Any]:
    return {
        "deployment": repeat.deployment,
        "run": settings.name,
        "dataset": settings.dataset,
        "algorithm": settings.algorithm,
        "folder": str(Path(str(settings.out)).absolute()),
    }


def _call_hook(what: str, call: Callable[[], None]) -> None:
    """Call a hook; if it fails, print a notice with the kind of the error, whose text may contain a secret address."""
    try:
        call()
    except Exception as error:
        status = getattr(error, "code", None) or getattr(error, "returncode", None)
        why = f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
        notice(f"{what} failed ({why}); the run is unaffected")


def _post(url: str, text: str) -> None:
    request = Request(url, text.encode(), {"Content-Type": "application/json"}, method="POST")
    with urlopen(request, timeout=HOOK_TIMEOUT_SECONDS) as answer:
        answer.read(1)


def _run(words: list[str], text: str) -> None:
    subprocess.run(words, input=text.encode(), stdout=subprocess.DEVNULL, check=True, timeout=HOOK_TIMEOUT_SECONDS)


SKIPPED = "Skipped"
"""the name of the Prefect state of a skipped run"""
MAX_LISTED_EDGES = 40
"""maximum number of edges that the artifact lists under each kind of change"""


def run_recurring(
    settings: LearnSettings, repeat: RepeatSettings, learned: Callable[[LearnSettings, RepeatSettings], CompletedRun]
) -> Any:
    """The result of `learned`, or the Prefect state of a run that was skipped or failed; notifies the hooks.

    A line in the log of `serve` reports the outcome. If a run fails with a `BadInput`, for instance because a silo is
    missing, this line and the state of the run have its message. Any other error is raised again.
    """
    named = repeat.model_copy(update={"deployment": repeat.deployment or str(deployment.name or "")})
    hooks = HookOptions.of_environment()
    try:
        finished = learned(settings, named)
    except Unchanged as same:
        notice(f"skipped: {same}")
        notify_unchanged(settings, named, hooks)
        return Completed(name=SKIPPED, message=str(same))
    except RunCancelled:
        notify(hooks, "failure", _message(settings, named) | {"reason": "the run was cancelled"})
        raise
    except Exception as error:
        notify_failed(settings, named, error, hooks)
        if not isinstance(error, BadInput):
            raise
        notice(f"{named.deployment} failed: {error}")
        return Failed(message=foreign_text(str(error), MAX_LINE_LENGTH))
    changes = finished.result.changes
    notice(f"{named.deployment} learned {finished.result.name}: {changes.summary if changes else 'the first run'}")
    notify_finished(settings, named, finished, hooks)
    return finished


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
