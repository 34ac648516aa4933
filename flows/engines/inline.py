"""The engine that needs nothing but this process: no Prefect, no Dask, no MLflow."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.in_process import InProcessFederation
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_path
from fedbnsl.tracking.result import RunResult

from ..job.job import Job
from ..job.run import Listener, run
from ..job.session import Session
from ..job.spec import spec_of
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
    ledgers = {silo: FileLedger(ledger_path(path, silo)) for silo, path in (files or {}).items()}

    def connect(job: Job, spec: AlgorithmSpec, run_id: str) -> InProcessFederation:
        return InProcessFederation(
            data.schema, data.tables, job.seed, job.secure, run_id, Budget(job.budget), dict(ledgers)
        )

    with threadpool_limits(1):
        return run(job, Session(data.schema, connect), listeners)


def job_inline(settings: LearnSettings, run_id: str, data: FederatedData | None = None) -> Job:
    """Return the job that `settings` ask for, on `data` if they are there already."""
    return Job(
        name=settings.name or "",
        run_id=run_id,
        spec=spec_of(settings),
        secure=settings.secure,
        budget=settings.budget or math.inf,
        parameters=settings.parameters,
        smoothing=settings.smoothing,
        bootstrap=settings.bootstrap,
        seed=settings.seed,
        engine="inline",
        dataset=Path(settings.data).absolute().name,
        about=data.about if data else {},
        truth=data.truth if data else None,
        silo_weights=data.silo_weights if data else {},
        allow_cyclic_truth=settings.allow_cyclic_truth,
    )
