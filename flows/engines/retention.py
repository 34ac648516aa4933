"""Retention: which runs may be removed, and their removal from their folder, MLflow and Prefect.

A finished run leaves a record in its folder that names its deployment, its MLflow run and its flow run. Runs are
removed by age (`fedbnsl clean --runs`) or by number (`fedbnsl serve --keep`). The last run of a deployment stays,
because the next one is compared with it. Privacy ledgers are beside the rows, so the spent ε remains recorded.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tracking.kept_files import read_json, write_json
from fedbnsl.tracking.mlflow.removal import StillUsed, remove_run
from fedbnsl.tracking.staging import first_line

from .resuming import CHECKPOINT, STARTED, read_started, run_lock
from .run_comparison import LAST_RUN_FILE, read_last_run

RECORD = ".record.json"


@dataclass(frozen=True)
class RunRecord:
    """The places other than its folder where a run is recorded; an empty text where it is not."""

    deployment: str = ""
    flow_run: str = ""
    tracking_uri: str = ""
    tracking_id: str = ""


@dataclass(frozen=True)
class StoredRun:
    """A run in a folder of runs, when it was last written, and its record."""

    folder: Path
    used: datetime
    record: RunRecord
    is_interrupted: bool
    """whether it can be resumed"""
    is_needed: bool
    """whether its deployment compares the next run with it, or continues it"""


def write_record(folder: Path, record: RunRecord) -> None:
    """Write the record of the run in `folder`."""
    write_json(folder / RECORD, asdict(record))


def read_record(folder: Path) -> RunRecord:
    """The record of the run in `folder`, as far as it is known; an interrupted run has only its MLflow run.

    A damaged record names no place. Raises `BadInput` for a record of another format.
    """
    try:
        return RunRecord(**read_json(folder / RECORD))
    except FileNotFoundError:
        with suppress(BadInput):
            started = read_started(folder)
            return RunRecord("", "", started.tracking_uri, started.tracking_id)
        return RunRecord()
    except BadInput:
        raise
    except (OSError, ValueError, TypeError, AttributeError):
        return RunRecord()


def stored_runs(runs: Path) -> list[StoredRun]:
    """The runs in the folder `runs`, the last used first; links to folders elsewhere are left out."""
    repeated = (runs / LAST_RUN_FILE).glob("*.*")
    states = [read_last_run(file) for file in repeated if file.suffix in (".json", ".claim")]
    needed = {Path(one.folder) for one in states if one is not None}
    found = []
    for folder in runs.iterdir():
        files = [folder / name for name in (STARTED, CHECKPOINT, "metrics.json", "config.json")]
        used = max((one.stat().st_mtime for one in files if one.is_file()), default=0.0)
        interrupted, finished = files[0].is_file(), files[2].is_file() and files[3].is_file()
        if (interrupted or finished) and not folder.is_symlink():
            moment, record = datetime.fromtimestamp(used), read_record(folder)
            found.append(StoredRun(folder, moment, record, interrupted, folder.absolute() in needed))
    return sorted(found, key=lambda one: one.used, reverse=True)


def runs_older_than(runs: Path, age: timedelta) -> list[StoredRun]:
    """The runs in the folder `runs` that were last written more than `age` ago and that no deployment needs."""
    return [one for one in stored_runs(runs) if one.used < datetime.now() - age and not one.is_needed]


def surplus_runs(runs: Path, deployment: str, keep: int) -> list[StoredRun]:
    """The finished runs of `deployment` beyond its `keep` newest ones; none without a name of the deployment.

    The records of other runs, such as those by hand, have no name either.
    """
    of_deployment = [one for one in stored_runs(runs) if deployment and one.record.deployment == deployment]
    return [one for one in of_deployment[keep:] if not one.is_needed]


Forget = Callable[[str], None]
"""function that removes a flow run by its id"""


def remove(run: StoredRun, forget_flow_run: Forget = lambda flow_run: None) -> None:
    """Remove `run` from MLflow, then its flow run, then its folder, so that a failed removal can be repeated.

    Raises `BadInput`, with the folder and the reason, if the run is in progress in another process, or if it cannot be
    removed somewhere.
    """
    with run_lock(run.folder):
        try:
            if run.record.tracking_id:
                remove_run(run.record.tracking_uri, run.record.tracking_id)
            if run.record.flow_run:
                forget_flow_run(run.record.flow_run)
            shutil.rmtree(run.folder)
        except StillUsed as use:
            raise BadInput(f"{run.folder}: stays, because {use}") from None
        except Exception as error:
            raise BadInput(f"{run.folder}: cannot be removed: {first_line(error)}") from error


def remove_surplus(runs: Path, deployment: str, keep: int) -> Iterator[str]:
    """Remove the runs of `deployment` beyond the `keep` newest ones; yields a line for each run that stays."""
    try:
        surplus = surplus_runs(runs, deployment, keep)
    except BadInput as why:
        yield str(why)
        return
    for run in surplus:
        try:
            remove(run, _forget_flow_run)
        except BadInput as why:
            yield str(why)


def _forget_flow_run(flow_run: str) -> None:
    from uuid import UUID

    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        client.delete_flow_run(UUID(flow_run))
