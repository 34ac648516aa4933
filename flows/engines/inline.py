"""The engine that needs nothing but this process: no Prefect, no Dask, no MLflow."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.in_process import InProcessFederation
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.tasks.silo.ledger import ledger_of
from fedbnsl.tasks.silo.seal import seal
from fedbnsl.tracking.result import RunResult

from ..job.asked import job_asked
from ..job.job import Job
from ..job.run import Listener, run
from ..job.session import Session
from ..options.learn import LearnSettings


def run_inline(
    job: Job, data: FederatedData, listeners: tuple[Listener, ...] = (), files: Mapping[str, Path] | None = None
) -> RunResult:
    """Run `job` on `data` in this process, with one BLAS thread as on a silo's worker.

    `files` are those the silos were read from: beside them their privacy ledgers are kept. Without, a ledger ends with
    the run.
    """
    if registry.entry(job.spec.name).pooled:
        data = pool(data)
    job = replace(job, about=data.about, truth=data.truth, silo_weights=data.silo_weights)
    ledgers = {silo: ledger_of(path, silo) for silo, path in (files or {}).items()}

    def connect(job: Job, spec: AlgorithmSpec, run_id: str) -> InProcessFederation:
        private = registry.build(spec).private is not None
        return InProcessFederation(
            job.known(data.schema),
            data.tables,
            job.seed,
            job.secure,
            run_id,
            job.budget,
            dict(ledgers),
            seals={silo: seal(path, f"run {run_id}") for silo, path in (files or {}).items()} if private else {},
            spec=registry.pack(spec),
        )

    with threadpool_limits(1):
        result = run(job, Session(data.schema, connect, notes=data.notes), listeners)
    for ledger in ledgers.values():
        ledger.finish(job.run_id)
    return result


def job_inline(settings: LearnSettings, run_id: str, data: FederatedData) -> Job:
    """Return the job that `settings` ask for on `data`, in this process."""
    return job_asked(settings, run_id, "inline", data.schema, data.about, data.truth, data.silo_weights)
