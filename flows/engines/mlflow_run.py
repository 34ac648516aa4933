"""The MLflow record of a run: its name, parameters and tags.

The record is opened before round 1, and marked as failed if the run raises an error.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.tracking.mlflow.run import RunStart
from fedbnsl.tracking.mlflow.saved_model import TrackedData
from fedbnsl.tracking.mlflow.store import tracking_uri
from fedbnsl.tracking.mlflow.tracker import BackgroundTracker

from ..job.job import Job
from ..job.run import Listener, Resumed
from .resuming import Started

PROMISES = ("epsilon", "delta", "budget")
"""settings of a privacy guarantee; zero means that there is no such guarantee"""


def mlflow_run_name(job: Job) -> str:
    """The name of the run in MLflow: algorithm, seed, time and data set; a name from the user stays unchanged.

    The parts that vary are first, because MLflow's tables truncate names.
    """
    generated = f"{job.settings.algorithm}-{job.dataset[:100]}-seed{job.settings.seed}-"
    name = job.settings.name or ""
    if not name.startswith(generated):
        return name
    day, _, clock = name.removeprefix(generated).partition("-")
    return f"{job.spec.name} s{job.settings.seed} {clock[:2]}:{clock[2:4]}:{clock[4:]} {day} {job.dataset}"


def mlflow_params(job: Job, schema: Schema) -> dict[str, Any]:
    """The parameters of the run in MLflow: those that all runs have, and the settings of the algorithm.

    `PROMISES` that are zero or None are left out, because ε = 0 would look like perfect privacy. The δ of a private run
    is that of its promise, which depends on the rows if the setting has the default.
    """
    settings, private = asdict(job.spec.settings), registry.build(job.spec).private
    settings |= {"delta": private.promise(schema).delta} if private else {}
    own = {name: value for name, value in settings.items() if name not in PROMISES or (value or 0) > 0}
    common = {
        "algorithm": job.spec.name,
        "family": registry.family(job.spec.name),
        "dataset": job.dataset,
        "engine": job.engine,
        "secure": job.settings.secure,
        "seed": job.settings.seed,
    }
    return own | common


@contextmanager
def mlflow_run(
    job: Job,
    schema: Schema,
    tags: dict[str, str],
    folder: Path,
    interrupted: tuple[Started, Resumed | None] | None = None,
    opened: Callable[[RunStart], None] = lambda opening: None,
) -> Iterator[BackgroundTracker]:
    """Yield the tracker of `job`, whose results go to `folder`; `interrupted` is the run to resume, if any.

    `opened` is called at once with a `RunStart`; another thread calls it again when the MLflow run has an id. Raises
    `BadInput` for an invalid tracking URI.
    """
    labels = {
        "algorithm": job.spec.name,
        "dataset": job.dataset,
        "engine": job.engine,
        "run": job.run_id,
        "folder": folder.name,
    }
    started, resumed = interrupted or (None, None)
    opening = RunStart(
        mlflow_run_name(job),
        mlflow_params(job, schema),
        labels | tags,
        TrackedData(job.dataset, job.description.about, schema),
        started.tracking_uri if started else tracking_uri(),
        started.tracking_id if started else "",
    )
    opened(opening)
    tracker = BackgroundTracker(folder, opening, resumed.rows if resumed else (), opened)
    try:
        yield tracker
    except BaseException as error:
        tracker.fail(str(error) or type(error).__name__)
        raise


def mlflow_listener(tracker: BackgroundTracker) -> Listener:
    """A listener that sends every round to `tracker`."""
    return lambda progress: tracker.round(progress.row, progress.structure)
