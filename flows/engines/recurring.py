"""Runs of a deployment: one at a time, continued after a crash, skipped if there is nothing to learn, and reported.

Only one process at a time runs a deployment in a folder of runs. A run that meets another one is superseded, and so is
a run that was due before the last run began: after a power loss, missed runs become one. Before a run charges any ε, it
writes a claim: its folder, a digest of its settings, and the seals of the silos' rows. The next run of the deployment
continues a claimed run that was interrupted, unless the settings or the rows have changed.

Messages about runs go to an address or a command. A message reports the learned graph and its changes since the
previous run, or the kind of failure of a failed run. It contains no rows, and no text of an error, because such a text
may quote a cell. If a hook fails, one line is printed on stderr, and the run is unaffected.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from uuid import uuid4

from prefect.runtime import deployment, flow_run
from prefect.states import Completed, Failed

from fedbnsl.algorithms.core.protocol import BROKEN_OFF
from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, BadInput, RunCancelled, SilosUnavailable, foreign_text
from fedbnsl.tracking.comparison import changes_by_fate
from fedbnsl.tracking.kept_files import after_first_line, first_line
from fedbnsl.tracking.own_servers import locked_elsewhere
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import create_private_folder, notice

from ..options.learn import LearnSettings
from ..options.repeat import Event, HookOptions, RepeatSettings
from .resuming import resume_settings
from .retention import remove_surplus
from .run_comparison import Unchanged, claim_file, claimed_run, is_drift, last_run_file, runs_folder

SKIPPED, SUPERSEDED = "Skipped", "Superseded"
"""the names of the Prefect states of runs that did nothing"""


class Superseded(Exception):  # noqa: N818 - no error: another run does the work
    """A run is superseded by another run of its deployment."""


def ended_run(runs: Path, deployment: str) -> str | None:
    """The id of the last flow run of `deployment` in the folder `runs`; None if there is none or it is in progress."""
    try:
        held = os.open(_lock_file(runs, deployment), os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        return None if locked_elsewhere(held) else _last(_lock_file(runs, deployment), held)[1]
    finally:
        os.close(held)


def _last(file: Path, held: int) -> tuple[datetime | None, str | None]:
    """The time when the last run began, and the id of its flow run, by the open lock file; None before the first."""
    content = after_first_line(file, os.pread(held, 1000, 0))
    began, _, run = content.decode(errors="replace").partition(" ")
    return (datetime.fromisoformat(began), run) if run else (None, None)


def _lock_file(runs: Path, deployment: str) -> Path:
    return last_run_file(runs, deployment).with_suffix(".lock")


@contextmanager
def only_run(runs: Path, deployment: str, due: datetime) -> Iterator[None]:
    """Hold the lock of `deployment`, whose runs are in the folder `runs`, for a run that was `due` then.

    Raises `Superseded` if another run has the lock, or if the last run began after this one was due.
    """
    file = _lock_file(runs, deployment)
    create_private_folder(file.parent)
    held = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if locked_elsewhere(held):
            raise Superseded("another run of this deployment is in progress")
        began, _ = _last(file, held)
        if began and due < began:
            raise Superseded(f"it was due at {due:%Y-%m-%d %H:%M:%S %Z}, before the last run began")
        os.ftruncate(held, 0)
        began_now = f"{datetime.now(UTC).isoformat()} {flow_run.id or uuid4()}"
        os.pwrite(held, first_line(file) + began_now.encode(), 0)
        yield
    finally:
        os.close(held)


Learn = Callable[[LearnSettings, RepeatSettings], CompletedRun]


def run_recurring(settings: LearnSettings, repeat: RepeatSettings, learn: Learn) -> Any:
    """The result of `learn`, or the Prefect state of a run that was skipped, superseded or failed; notifies the hooks.

    A line in the log of `serve` reports the outcome. If a run fails with a `BadInput`, for instance because a silo is
    missing, this line and the state of the run have its message. Any other error is raised again.
    """
    named = repeat.model_copy(update={"deployment": repeat.deployment or str(deployment.name or "")})
    hooks, due = HookOptions.of_environment(), flow_run.scheduled_start_time
    try:
        with only_run(runs_folder(settings), named.deployment, due):
            settings = settings.named()
            settings, finished = _continued_or_new(settings, named, learn)
    except Superseded as why:
        notice(f"superseded: {why}")
        return Completed(name=SUPERSEDED, message=str(why))
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
    if named.keep is not None:
        for line in remove_surplus(runs_folder(settings), named.deployment, named.keep):
            notice(line)
    return finished


def _continued_or_new(
    settings: LearnSettings, repeat: RepeatSettings, learn: Learn
) -> tuple[LearnSettings, CompletedRun]:
    """The settings and the result of the interrupted run of the deployment, or of a new run with the named `settings`.

    An interrupted run that cannot be continued, for instance because its rows have changed, is given up. If silos do
    not respond, or a disk is full, it can be continued later.
    """
    folder = claimed_run(settings, repeat.deployment)
    if folder is not None:
        notice(f"continuing {folder.name}, which was interrupted")
        try:
            interrupted = resume_settings(folder)
            return interrupted, learn(interrupted, repeat)
        except RunCancelled:
            raise
        except BadInput as error:
            if error.may_pass:
                raise
            claim_file(last_run_file(runs_folder(settings), repeat.deployment)).unlink(missing_ok=True)
            notice(f"{folder.name} cannot be continued ({error}): learning anew")
    return settings, learn(settings, repeat)


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
