"""The files for resuming a run from its folder: lock, settings, fingerprints of the silos' rows, last checkpoint.

Only one process at a time may work on a run's folder; the kernel releases the lock when a process dies. The fingerprint
of a silo's rows is called its seal. Only the silo can compute the seal (`tasks/silo/seals.py`). The seal shows the
coordinator whether the rows are the same as before, and discloses nothing else.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.checkpoint import Checkpoint, load, save
from fedbnsl.tracking.kept_files import read_json, write_json
from fedbnsl.tracking.outputs import FILES
from fedbnsl.tracking.staging import create_private_folder, notice, remove_leftovers

from ..job.job import Job
from ..job.reading import is_private
from ..job.run import Progress, Resumed
from ..options.learn import LearnSettings
from ..options.model import validate

LOCK = ".running"
IRRELEVANT_OPTIONS = {"name", "out", "resume", "silo_patience"}
"""the settings that do not affect the result"""


@contextmanager
def run_lock(folder: Path, *, fresh: bool = False) -> Iterator[None]:
    """Lock the run in `folder`: create the folder if needed, and remove temporary files of a killed run.

    Raises `BadInput` if another process has the lock, if the folder cannot be written, or if the run is `fresh` and the
    folder is not empty. On file systems that do not support locks, such as some network drives, there is no lock.
    """
    new = not folder.exists()
    try:
        create_private_folder(folder)
        held = _locked(folder)
    except BadInput:
        raise
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    try:
        remove_leftovers(folder)
        if fresh and any(one.name != LOCK for one in folder.iterdir()):
            raise BadInput(f"{folder}: already exists; give a new or an empty folder")
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()
        os.close(held)
        if new:
            with suppress(OSError):
                folder.rmdir()


def _locked(folder: Path) -> int:
    """The descriptor of the locked file; opens the file again if another process removed it in the meantime."""
    while True:
        held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform == "win32":
            return held
        import fcntl

        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            raise BadInput(f"{folder}: the run is already in progress in another process") from None
        except OSError:
            return held
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held), os.stat(folder / LOCK)):
                return held
        os.close(held)


@dataclass(frozen=True)
class Pin:
    """The state of a silo when the run began: its number of rows, and the seal of the rows."""

    rows: int
    seal: str


@dataclass(frozen=True)
class Interrupted:
    """The silos of an interrupted run: the pin of each silo, and the reason why a silo was dropped, if it was."""

    pins: Mapping[str, Pin]
    gone: Mapping[str, str] = field(default_factory=dict)


def check_pins(began: Mapping[str, Pin], now: Mapping[str, Pin]) -> None:
    """Raise `BadInput`, naming the silo, if a silo is missing or new, or its rows have changed since the run began."""
    for silo, pin in began.items():
        if silo not in now:
            raise BadInput(f"silo {silo} took part when the run began, and is not connected")
        if now[silo].rows != pin.rows:
            raise BadInput(
                f"silo {silo} had {pin.rows} rows when the run began and has {now[silo].rows}: start a new run"
            )
        if now[silo].seal != pin.seal:
            raise BadInput(f"silo {silo} has different rows than when the run began: start a new run")
    new = sorted(set(now) - set(began))
    if new:
        raise BadInput(f"silo {new[0]} did not take part when the run began: start a new run")


CHECKPOINT = "checkpoint.bin"
STARTED = "started.json"


@dataclass(frozen=True)
class Started:
    """The content of `started.json`, which is written before round 1; its paths are absolute.

    So a run can be resumed from any working folder.
    """

    settings: LearnSettings
    run_id: str
    tracking_uri: str
    tracking_id: str
    pins: dict[str, Pin]
    """the pin of each silo"""


def write_started(folder: Path, started: Started) -> None:
    """Write `started.json` to the folder of a run, which is created if needed; paths become absolute."""
    create_private_folder(folder)
    settings = _portable(started.settings, folder)
    pins = {silo: [pin.rows, pin.seal] for silo, pin in started.pins.items()}
    write_json(folder / STARTED, {**vars(started), "settings": settings, "pins": pins})


def is_resumable(folder: Path) -> bool:
    """Whether `folder` has a run that has begun and not finished."""
    return (folder / STARTED).exists()


def to_continue(folder: Path) -> str:
    """The end of a line on an unfinished run in `folder`: the command that continues it."""
    return f"to continue: fedbnsl learn --resume {folder}"


def _portable(settings: LearnSettings, folder: Path) -> dict[str, Any]:
    """The settings of the run in `folder` as JSON, with absolute paths."""
    return settings.model_dump(mode="json") | {
        "data": str(Path(settings.data).absolute()),
        "out": str(folder.absolute()),
        "federation": settings.federation and str(Path(settings.federation).absolute()),
    }


def repeated(settings: LearnSettings) -> LearnSettings:
    """The settings with which a command whose run failed is repeated, with named `settings`.

    If the folder of the results has an unfinished run of the same settings, the command continues it, so that no round
    is made or charged twice. A run without an ε that has not finished a round starts again. Raises `BadInput` if the
    unfinished run has other settings, or is in progress.
    """
    folder = Path(str(settings.out))
    if not is_resumable(folder):
        return settings
    began, given = (
        {name: value for name, value in _portable(one, folder).items() if name not in IRRELEVANT_OPTIONS}
        for one in (read_started(folder).settings, settings)
    )
    if began != given:
        raise BadInput(
            f"{folder}: has an unfinished run with other settings: fedbnsl learn --resume {folder} continues it; or "
            "give another folder"
        )
    if is_private(settings) or (folder / CHECKPOINT).exists():
        notice(f"continuing the unfinished run in {folder}")
        return resume_settings(folder).model_copy(update={"silo_patience": settings.silo_patience})
    with run_lock(folder):
        for name in (STARTED, *FILES):
            (folder / name).unlink(missing_ok=True)
    return settings


def read_started(folder: Path) -> Started:
    """The content of `started.json` of the run in `folder`; raises `BadInput` if the run cannot be resumed."""
    path = folder / STARTED
    if (folder / "metrics.json").exists() and not path.exists():
        raise BadInput(f"{folder}: this run is finished; there is nothing to resume")
    try:
        content = read_json(path)
        settings = validate(LearnSettings, content.pop("settings"))
        pins = {silo: Pin(*pin) for silo, pin in content.pop("pins").items()}
        return Started(settings=settings, pins=pins, **content)
    except BadInput:
        raise
    except FileNotFoundError:
        why = f"it has no {path.name}, so no round was done; learn without --resume"
        raise BadInput(f"{folder}: no interrupted run to resume: {why}") from None
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise BadInput(f"{folder}: no interrupted run to resume ({type(error).__name__}: {path.name})") from None


def resume_settings(folder: Path) -> LearnSettings:
    """The settings for resuming the run in `folder`.

    Raises `BadInput` if there is nothing to resume, or if the run is already in progress.
    """
    settings = read_started(folder).settings
    with run_lock(folder):
        return settings.model_copy(update={"resume": True})


def interrupted_silos(folder: Path) -> Interrupted:
    """The silos of the interrupted run in `folder`."""
    lost = load(folder / CHECKPOINT).lost if (folder / CHECKPOINT).exists() else ()
    return Interrupted(read_started(folder).pins, dict.fromkeys(lost, "it was given up before the run was interrupted"))


def resumed_from(folder: Path) -> Resumed | None:
    """The last finished round of the run in `folder`; None if no round was finished."""
    if not (folder / CHECKPOINT).exists():
        return None
    last = load(folder / CHECKPOINT)
    algorithm = registry.build(registry.unpack(last.spec))
    return Resumed(last.number, last.state(algorithm.server_type), last.rows, last.seconds)


def checkpoint_listener(folder: Path, before: float = 0.0) -> Callable[[Progress], None]:
    """A listener that writes a checkpoint after every round; `before` is the run's duration so far, in seconds."""
    start = perf_counter() - before

    def write_checkpoint(progress: Progress) -> None:
        job: Job = progress.job
        state = wire.encode(progress.round.server)
        seconds = perf_counter() - start
        number, lost = progress.round.number, progress.round.lost
        checkpoint = Checkpoint(
            job.run_id,
            registry.pack(job.spec),
            job.settings.seed,
            number,
            state,
            progress.rows,
            seconds,
            lost,
        )
        save(folder / CHECKPOINT, checkpoint)

    return write_checkpoint


def remove_checkpoint(folder: Path) -> None:
    """Remove the files that only an interrupted run needs."""
    for name in (STARTED, CHECKPOINT):
        (folder / name).unlink(missing_ok=True)
