"""Where the silos of a run are: embedded workers that read a folder, or workers their owners have started."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import POOLED, outlive_pooling
from fedbnsl.data.folder.about import read_about
from fedbnsl.data.folder.declared import declared
from fedbnsl.data.folder.folder import TRUTH, read_truth, silo_files
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.rounds import Orchestration, evaluate
from fedbnsl.tasks.silo.run_terms import RunTerms
from fedbnsl.tasks.transport.cluster import connected, embedded, hosted_silos, require
from fedbnsl.tasks.transport.dask_transport import DaskTransport
from fedbnsl.tasks.transport.described_schema import federated_schema
from fedbnsl.tasks.transport.federation import SiloFederation
from fedbnsl.tasks.transport.roster import Roster
from fedbnsl.tasks.transport.waiting import Patience

from ..job.asked import job_asked
from ..job.job import Job
from ..job.reading import reading_of
from ..job.session import Session
from ..job.spec import pools


@dataclass(frozen=True)
class Silos:
    """The silos of a run, connected and described: the session over them, and what the folder says of them."""

    session: Session
    about: dict[str, Any]
    truth: Any
    silo_weights: dict[str, Any]
    federations: list[SiloFederation]

    def finish(self) -> None:
        """Let the silos forget the run, which is over."""
        for federation in self.federations:
            federation.finish()


@contextmanager
def silos_of(settings: LearnSettings, orchestration: Orchestration) -> Iterator[Silos]:
    """Yield the silos that `settings` name; raises `BadInput` where one is missing or its rows cannot be used."""
    folder = Path(settings.data)
    pooled = pools(settings)
    if settings.dask_address is None:
        files = silo_files(folder)
        cluster = embedded({POOLED: folder} if pooled else files)
        names = (POOLED,) if pooled else tuple(files)
    elif pooled:
        raise BadInput(f"{settings.algorithm} needs all rows in one place: it cannot run on the silos of their owners")
    else:
        cluster, names = connected(settings.dask_address), _named_in(folder)
    with cluster as client:
        names = names or hosted_silos(client)
        require(client, names or ("SILO",))
        about = read_about(folder) if folder.is_dir() else {}
        transport = DaskTransport(client)
        said = declared(about, reading_of(settings))
        found = federated_schema(transport, names, said)
        schema, aside = found.schema, tuple(found.schema.aside)
        truth, silo_weights = (
            read_truth(folder / TRUTH, schema.variables, aside) if (folder / TRUTH).exists() else (None, {})
        )
        federations: list[SiloFederation] = []

        def connect(job: Job, spec: AlgorithmSpec, run_id: str) -> SiloFederation:
            # Silos that an earlier federation of this run has given up are not waited for again.
            gone = dict(federations[-1].roster.gone) if federations else {}
            roster = Roster(transport, schema.silos, Patience(settings.silo_patience), gone)
            terms = RunTerms(run_id, registry.pack(spec), job.known(schema), settings.seed, job.budget, said)
            federation = SiloFederation(roster, terms, job.secure, orchestration.solves)
            federations.append(federation)
            return federation

        session = Session(
            schema,
            connect,
            wrap=lambda algorithm, federation: orchestration.wrap(algorithm, lambda: getattr(federation, "number", 0)),
            evaluate=lambda work: orchestration.perform(evaluate.submit, work),
            notes=found.notes,
        )
        yield Silos(session, about, truth, outlive_pooling(silo_weights) if pooled else silo_weights, federations)


def job_of(settings: LearnSettings, run_id: str, silos: Silos) -> Job:
    """Return the job that `settings` ask for on `silos`."""
    return job_asked(settings, run_id, "prefect", silos.session.schema, silos.about, silos.truth, silos.silo_weights)


def _named_in(folder: Path) -> tuple[str, ...]:
    """Return the silos that the coordinator's folder names: none if it holds no more than truth.csv and about.json."""
    try:
        return tuple(silo_files(folder))
    except BadInput:
        return ()
