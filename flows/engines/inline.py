"""The engine that runs in this process, without Prefect, Dask and MLflow."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.folder.about import NO_DECLARATION, Declared
from fedbnsl.tasks.silo.one_thread import on_one_thread
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.silo.source import FileSource, Parsed, SiloSource, TableSource
from fedbnsl.tasks.transport.federation import SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster
from fedbnsl.tracking.result import RunResult

from ..job.check import create_job
from ..job.job import Job, Session
from ..job.run import Listener, run
from ..options.learn import LearnSettings


def run_inline(
    job: Job,
    data: FederatedData,
    listeners: tuple[Listener, ...] = (),
    files: Mapping[str, Path] | None = None,
    declared: Declared = NO_DECLARATION,
) -> RunResult:
    """Run `job` on `data` in this process, with one BLAS thread as on a silo's worker.

    `files` are the silos' files, read as `declared`. The silos' privacy ledgers and, in a private run, their journals
    are beside these files. Without files, and for algorithms that pool the rows, ledgers and journals end with the run.
    """
    if registry.entry(job.spec.name).pooled:
        data, files = pool(data), None
    job = replace(job, about=data.about, truth=data.truth, silo_weights=data.silo_weights)
    with inline_session(job, data, files, declared) as session:
        return run(job, session, listeners)


@contextmanager
def inline_session(
    job: Job, data: FederatedData, files: Mapping[str, Path] | None = None, declared: Declared = NO_DECLARATION
) -> Iterator[Session]:
    """Yield a session for `job` with the silos of `data` in this process; the arguments are as for `run_inline`."""
    with on_one_thread(), _hosted(job, data, files or {}) as transport:
        federations: list[SiloFederation] = []

        def connect(job: Job, spec: AlgorithmSpec, run_id: str) -> SiloFederation:
            schema = job.run_schema(data.schema)
            own = (job.budget, job.declaration(declared))
            terms = RunTerms(run_id, registry.pack(spec), schema, job.settings.seed, *own, step_of=job.run_id)
            federations.append(SiloFederation(in_process_roster(transport, schema.silos), terms, job.settings.secure))
            return federations[-1]

        try:
            yield Session(data.schema, connect, notes=data.notes)
        finally:
            # An inline run cannot be resumed, so the keys of its noise are erased even if it was interrupted.
            for federation in federations:
                federation.finish()


@contextmanager
def _hosted(job: Job, data: FederatedData, files: Mapping[str, Path]) -> Iterator[InProcessTransport]:
    """Yield a transport to the services of the silos of `data`, which are closed after the block."""
    private = registry.build(job.spec).private is not None

    def source(silo: str) -> SiloSource:
        table, survival = data.tables[silo], data.survival.get(silo)
        if silo not in files:
            return TableSource(table, row_clusters=data.clusters.get(silo), survival=survival)
        parsed = Parsed(table, data.fingerprints[silo], survival)
        return FileSource(silo, files[silo], durable=private, parsed=parsed)

    with ExitStack() as opened:
        services = {silo: SiloService(silo, source(silo)) for silo in data.schema.silos}
        for service in services.values():
            opened.enter_context(closing(service))
        yield InProcessTransport(services)


def job_inline(settings: LearnSettings, run_id: str, data: FederatedData) -> Job:
    """The job for `settings` on `data`, in this process."""
    return create_job(settings, run_id, "inline", data.schema, data.about, data.truth, data.silo_weights)
