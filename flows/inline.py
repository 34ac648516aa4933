"""The engine that needs nothing but this process: no Prefect, no Dask, no MLflow."""

from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.in_process import InProcessFederation
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.tracking.result import RunResult

from .run import Job, Listener, Session, run
from .settings import LearnSettings


def run_inline(job: Job, data: FederatedData, listeners: tuple[Listener, ...] = ()) -> RunResult:
    """Run `job` on `data` in this process, with one BLAS thread as on a silo's worker."""
    if registry.entry(job.algorithm).pooled:
        data = pool(data)
    job = replace(job, about=data.about, truth=data.truth, silo_weights=data.silo_weights)
    session = Session(
        data.schema, lambda algorithm, params, run_id: InProcessFederation(data.schema, data.tables, job.seed)
    )
    with threadpool_limits(1):
        return run(job, session, listeners)


def job_inline(settings: LearnSettings, run_id: str, data: FederatedData | None = None) -> Job:
    """Return the job that `settings` ask for, on `data` if they are there already."""
    return Job(
        name=settings.name or "",
        run_id=run_id,
        algorithm=settings.algorithm,
        params=dict(settings.params),
        seed=settings.seed,
        engine="inline",
        dataset=Path(settings.data).absolute().name,
        about=data.about if data else {},
        truth=data.truth if data else None,
        allow_cyclic_truth=settings.allow_cyclic_truth,
    )
