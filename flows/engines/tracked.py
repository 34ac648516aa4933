"""The MLflow run of a run: opened before round 1, marked as failed if anything goes wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.tracking.mlflow.dataset_input import TrackedData
from fedbnsl.tracking.mlflow.run import RunLog, open_run, reopen_run

from ..job.job import Job
from ..job.privacy import about_told
from ..job.run import Listener


@contextmanager
def tracked(job: Job, schema: Schema, tags: dict[str, str], again: tuple[str, str] | None = None) -> Iterator[RunLog]:
    """Yield the log of `job` in MLflow; `again` is (run, tracking URI) of one that was interrupted.

    Raises `BadInput` if the store cannot be opened.
    """
    if again is not None:
        log = reopen_run(*again)
    else:
        data = TrackedData(job.dataset, about_told(job), schema)
        labels = {"algorithm": job.spec.name, "dataset": job.dataset, "engine": job.engine, "run": job.run_id}
        log = open_run(job.name, {**asdict(job.spec.settings), "seed": job.seed}, labels | tags, data)
    try:
        yield log
    except BaseException as error:
        log.fail(str(error) or type(error).__name__)
        raise


def logging_rounds(log: RunLog) -> Listener:
    """Return a listener that logs every round."""
    return lambda heard: log.round(heard.row, heard.structure)
