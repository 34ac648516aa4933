"""Whoever wants to know of drift or failure: a message to an address, or to a command.

A message tells what was learned and how it differs from before, or that a run failed and of which kind the failure is.
It has nothing of the rows, and not the words of an error, which may quote a cell. A hook that fails is said in one
line, and makes no difference to the run.
"""

import json
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from fedbnsl.algorithms.errors import BadInput, SilosAway
from fedbnsl.flows.job.finished import Finished
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import Event, RepeatSettings
from fedbnsl.tracking.comparison import named_changes
from fedbnsl.tracking.notice import notice

from .following import drifted

PATIENCE = 30.0
"""seconds that a hook may take"""

Message = Mapping[str, Any]


def tell_finished(settings: LearnSettings, repeat: RepeatSettings, finished: Finished) -> None:
    """Tell of a run that has come to its end: that it was learned, or failed for want of silos, and of drift."""
    result = finished.result
    if result.outcome == "silo lost":
        tell(repeat, "failure", _message(settings, repeat) | {"reason": "silos were lost"})
        return
    told = _message(settings, repeat) | {"algorithm": result.algorithm}
    if result.changes is not None:
        told |= result.changes.metrics | named_changes(result.changes)
    tell(repeat, "learned", told)
    if result.changes is not None and drifted(result.changes, repeat):
        tell(repeat, "drift", told)


def tell_failed(settings: LearnSettings, repeat: RepeatSettings, error: BaseException) -> None:
    """Tell of a run that has failed, and of which kind the failure is."""
    reason = "the run failed"
    if isinstance(error, BadInput):
        reason = "silos were away" if isinstance(error, SilosAway) else "something that was given is wrong"
    tell(repeat, "failure", _message(settings, repeat) | {"reason": reason})


def tell_unchanged(settings: LearnSettings, repeat: RepeatSettings) -> None:
    """Tell of a run that was skipped."""
    tell(repeat, "unchanged", _message(settings, repeat) | {"folder": None})


def tell(repeat: RepeatSettings, event: Event, message: Message) -> None:
    """Send `message` of `event` to the address and to the command, if it was asked for."""
    if event not in repeat.hook_on:
        return
    text = json.dumps({"event": event, **message}, ensure_ascii=False)
    if repeat.hook_url is not None:
        url = repeat.hook_url
        _tried(f"the hook at {urlsplit(url).hostname}", lambda: _post(url, text))
    if repeat.hook_command is not None:
        words = shlex.split(repeat.hook_command)
        _tried(f"the hook {words[0]}", lambda: _run(words, text))


def _message(settings: LearnSettings, repeat: RepeatSettings) -> dict[str, Any]:
    return {
        "deployment": repeat.deployment,
        "run": settings.name,
        "dataset": Path(settings.data).absolute().name,
        "algorithm": settings.algorithm,
        "folder": str(Path(str(settings.out)).absolute()),
    }


def _tried(what: str, call: Callable[[], None]) -> None:
    """Call a hook; what goes wrong is said by its kind, as its words may hold the address and what is secret in it."""
    try:
        call()
    except Exception as error:
        status = getattr(error, "code", None) or getattr(error, "returncode", None)
        why = f"{type(error).__name__} {status}" if isinstance(status, int) else type(error).__name__
        notice(f"{what} could not be told ({why}); the run is what it is without it")


def _post(url: str, text: str) -> None:
    request = Request(url, text.encode(), {"Content-Type": "application/json"}, method="POST")
    with urlopen(request, timeout=PATIENCE) as answer:
        answer.read(1)


def _run(words: list[str], text: str) -> None:
    subprocess.run(words, input=text.encode(), stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE)
