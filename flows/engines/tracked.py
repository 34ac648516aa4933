"""The MLflow run of a run: opened before round 1, marked as failed if anything goes wrong, never waited for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.tracking.mlflow.background import BackgroundTracker
from fedbnsl.tracking.mlflow.dataset_input import TrackedData
from fedbnsl.tracking.mlflow.store import tracking_uri
from fedbnsl.tracking.mlflow.telling import Opening

from ..job.job import Job
from ..job.privacy import about_told
from ..job.run import Listener, Resumed
from .described import name_told, params_told
from .resuming import Started


@contextmanager
def tracked(
    job: Job,
    schema: Schema,
    tags: dict[str, str],
    folder: Path,
    again: tuple[Started, Resumed | None] | None = None,
    opened: Callable[[Opening], None] = lambda opening: None,
) -> Iterator[BackgroundTracker]:
    """Yield what tells MLflow of `job`, whose results go to `folder`; `again` is a run that was interrupted, if it was.

    `opened` is called by another thread with the opening that names the MLflow run once there is one. Raises `BadInput`
    for a tracking URI that no store can have.
    """
    labels = {
        "algorithm": job.spec.name,
        "dataset": job.dataset,
        "engine": job.engine,
        "run": job.run_id,
        "folder": folder.name,
    }
    started, resumed = again or (None, None)
    opening = Opening(
        name_told(job),
        params_told(job),
        labels | tags,
        TrackedData(job.dataset, about_told(job), schema),
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


def logging_rounds(tracker: BackgroundTracker) -> Listener:
    """Return a listener that tells of every round."""
    return lambda heard: tracker.round(heard.row, heard.structure)
