"""What an interrupted run needs in its folder to be resumed: its settings, and its last checkpoint."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.model import checked
from fedbnsl.tracking.checkpoint import Checkpoint, load, save
from fedbnsl.tracking.naming import naming

from ..job.job import Job
from ..job.run import Progress, Resumed
from .alone import alone
from .pins import Interrupted, Pin

CHECKPOINT = "checkpoint.bin"
STARTED = "started.json"


@dataclass(frozen=True)
class Started:
    """What is written before round 1, so that the run can be resumed from any working folder."""

    settings: LearnSettings
    run_id: str
    tracking_uri: str
    tracking_id: str
    pins: dict[str, Pin]
    """what the run is pinned to, by silo"""


def write_started(folder: Path, started: Started) -> None:
    """Create the folder of a run that begins."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = started.settings.model_dump(mode="json") | {
        "data": str(Path(started.settings.data).absolute()),
        "out": str(folder.absolute()),
        "federation": started.settings.federation and str(Path(started.settings.federation).absolute()),
    }
    pins = {silo: [pin.rows, pin.seal] for silo, pin in started.pins.items()}
    content = {**vars(started), "settings": settings, "pins": pins}
    with naming(folder / STARTED):
        (folder / f".{STARTED}").write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(folder / f".{STARTED}", folder / STARTED)


def read_started(folder: Path) -> Started:
    """Return how the run in `folder` began; raises `BadInput` if there is none that could be resumed."""
    path = folder / STARTED
    if (folder / "metrics.json").exists() and not path.exists():
        raise BadInput(f"{folder}: this run is finished; there is nothing to resume")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        settings = checked(LearnSettings, content.pop("settings"))
        pins = {silo: Pin(*pin) for silo, pin in content.pop("pins").items()}
        return Started(settings=settings, pins=pins, **content)
    except BadInput:
        raise
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"{folder}: no interrupted run to resume ({type(error).__name__}: {path.name})") from None


def settings_of(folder: Path) -> LearnSettings:
    """Return the settings with which the run in `folder` is resumed.

    Raises `BadInput` if there is nothing to resume, or if the run is still going.
    """
    settings = read_started(folder).settings
    with alone(folder):
        return settings.model_copy(update={"resume": True})


def standing_of(folder: Path) -> Interrupted:
    """Return how the silos of the interrupted run in `folder` stand."""
    lost = load(folder / CHECKPOINT).lost if (folder / CHECKPOINT).exists() else ()
    return Interrupted(read_started(folder).pins, dict.fromkeys(lost, "it was given up before the run was interrupted"))


def resumed_from(folder: Path) -> Resumed | None:
    """Return the last finished round of the run in `folder`, None if the first was not finished."""
    if not (folder / CHECKPOINT).exists():
        return None
    kept = load(folder / CHECKPOINT)
    algorithm = registry.build(registry.unpack(kept.spec))
    return Resumed(kept.number, kept.state(algorithm.server_type), kept.rows, kept.seconds)


def checkpointing(folder: Path, before: float = 0.0) -> Callable[[Progress], None]:
    """Return a listener that checkpoints every round; `before` is its run time in seconds until now."""
    start = perf_counter() - before

    def keep(heard: Progress) -> None:
        job: Job = heard.job
        state = wire.encode(heard.round.server)
        seconds = perf_counter() - start
        number, lost = heard.round.number, heard.round.lost
        checkpoint = Checkpoint(
            job.run_id,
            registry.pack(job.spec),
            job.seed,
            number,
            state,
            heard.rows,
            seconds,
            lost,
        )
        save(folder / CHECKPOINT, checkpoint)

    return keep


def forget(folder: Path) -> None:
    """Remove what only an interrupted run needs: the outputs are there."""
    for name in (STARTED, CHECKPOINT):
        (folder / name).unlink(missing_ok=True)
