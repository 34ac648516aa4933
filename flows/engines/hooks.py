"""Messages about scheduled runs to an address or a command, and the artifact that lists changes since the previous run.

A message reports the learned graph and its changes since the previous run, or the kind of failure of a failed run. It
contains no rows, and no text of an error, because such a text may quote a cell. If a hook fails, one line is printed
on stderr, and the run is unaffected.
"""

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from prefect.artifacts import create_markdown_artifact
from prefect.runtime import deployment
from prefect.states import Completed, Failed

from fedbnsl.algorithms.errors import MAX_LINE_LENGTH, BadInput, SilosUnavailable, foreign_text
from fedbnsl.tracking.comparison import Comparison, changes_by_fate
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import notice

from ..options.learn import LearnSettings
from ..options.repeat import Event, HookOptions, RepeatSettings
from .run_comparison import Unchanged, is_drift

HOOK_TIMEOUT_SECONDS = 30.0
"""maximum duration of a hook in seconds"""

Message = Mapping[str, Any]


def notify_finished(
    settings: LearnSettings, repeat: RepeatSettings, finished: CompletedRun, hooks: HookOptions
) -> None:
    """Notify of a finished run: `failure` if silos were lost; otherwise `learned`, and `drift` if there is drift."""
    result = finished.result
    if result.outcome == "silo lost":
        notify(hooks, "failure", _message(settings, repeat) | {"reason": "silos were lost"})
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
