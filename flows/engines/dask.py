"""Where the silos of a run are: embedded workers that read a folder, or workers their owners have started."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masked
from fedbnsl.data.federated import POOLED, outlive_pooling
from fedbnsl.data.folder.about import read_about
from fedbnsl.data.folder.declared import declared
from fedbnsl.data.folder.folder import TRUTH, read_truth, silo_files
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.silo.run_terms import RunTerms
from fedbnsl.tasks.transport.cluster import connected, embedded, gathered
from fedbnsl.tasks.transport.configuration import read_federation_file
from fedbnsl.tasks.transport.dask_transport import DaskTransport
from fedbnsl.tasks.transport.described_schema import federated_schema
from fedbnsl.tasks.transport.federation import SiloFederation
from fedbnsl.tasks.transport.roster import Roster
from fedbnsl.tasks.transport.waiting import Patience

from ..job.asked import job_asked
from ..job.job import Job
from ..job.reading import reading_of
from ..job.reading import silos_of as silos_asked
from ..job.session import Session
from ..job.spec import pools
from .pins import Interrupted, Pin

Names = tuple[str, ...]


@dataclass(frozen=True)
class Silos:
    """The silos of a run, connected and described: the session over them, and what the folder says of them."""

    session: Session
    about: dict[str, Any]
    truth: Any
    silo_weights: dict[str, Any]
    federations: list[SiloFederation]
    connect: Callable[[Job, AlgorithmSpec, str], SiloFederation]

    def begin(self, job: Job) -> dict[str, Pin]:
        """Have every silo admit `job` by its owner's policy, and return what the run is pinned to.

        Raises `NotAllowed` if one refuses: then nothing has been spent at any of them.
        """
        seals = self.seals(job, job.run_id)
        return {silo: Pin(self.session.schema.rows[silo], seal) for silo, seal in seals.items()}

    def seals(self, job: Job, context: str) -> dict[str, str]:
        """Have every silo admit `job`, and return the seals of their rows for one `context`, as `begin` does."""
        federation = self.connect(job, job.spec, job.run_id)
        hidden = masked.applies(registry.build(job.spec), self.session.schema, asked=job.secure)
        federation.ask("admit", federation.terms, hidden, bears_loss=False)
        return federation.ask("seal", context, bears_loss=False)

    def finish(self) -> None:
        """Let the silos forget the run, which is over."""
        for federation in self.federations:
            federation.finish()


def _files(settings: LearnSettings) -> dict[str, Path]:
    """Return the silos of a folder with their files, or, for what needs all rows in one place, one with all of them."""
    folder = Path(settings.data)
    return {POOLED: folder} if pools(settings) else dict(silo_files(folder, silos_asked(settings)))


def _cluster(settings: LearnSettings) -> tuple[AbstractContextManager[Any], Names]:
    """Return where the silos are, and the names of those that are to take part; no names: whoever is there."""
    wanted = silos_asked(settings)
    if settings.federation is None:
        files, started = _files(settings), _started.get()
        there = started is not None and started[0] == files
        return (nullcontext(started[1]) if started and there else embedded(files)), tuple(files)
    if pools(settings):
        raise BadInput(f"{settings.algorithm} needs all rows in one place: it cannot run on the silos of their owners")
    file = read_federation_file(Path(settings.federation))
    return connected(file), wanted or file.silos


_started: ContextVar[tuple[dict[str, Path], Any] | None] = ContextVar("started", default=None)
"""the silos of workers on this machine that have been started ahead of a run, and a client of them"""


@contextmanager
def workers_ahead(settings: LearnSettings) -> Iterator[None]:
    """Have the run of `settings` within the block find its workers on this machine started, if it needs such."""
    if settings.federation is not None:
        yield
        return
    files = _files(settings)
    with embedded(files) as client:
        token = _started.set((files, client))
        try:
            yield
        finally:
            _started.reset(token)


@contextmanager
def silos_of(
    settings: LearnSettings, orchestration: Orchestration, resumed: Interrupted | None = None
) -> Iterator[Silos]:
    """Yield the silos that `settings` name, or those of the run that is `resumed`.

    Raises `SilosAway` where one is missing, `BadInput` where its rows cannot be used.
    """
    folder, pooled = Path(settings.data), pools(settings)
    cluster, asked = _cluster(settings)
    with cluster as client:
        asked, quorum = (asked, settings.quorum) if resumed is None else (tuple(resumed.pins), None)
        names = gathered(client, asked, settings.silo_patience, quorum)
        stayed_away = tuple(f"{silo} did not come: learned without it" for silo in asked if silo not in names)
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
            gone = dict(federations[-1].roster.gone) if federations else dict(resumed.gone if resumed else {})
            roster = Roster(transport, schema.silos, Patience(settings.silo_patience), gone, settings.quorum or 1)
            known = job.known(schema)
            terms = RunTerms(run_id, registry.pack(spec), known, job.seed, job.budget, said, step_of=job.run_id)
            federation = SiloFederation(roster, terms, job.secure, orchestration.solves)
            federations.append(federation)
            return federation

        session = Session(
            schema,
            connect,
            wrap=lambda algorithm, federation: orchestration.wrap(algorithm, lambda: getattr(federation, "number", 0)),
            evaluate=lambda work: orchestration.perform("evaluate", "", work),
            notes=(*stayed_away, *found.notes),
        )
        yield Silos(
            session, about, truth, outlive_pooling(silo_weights) if pooled else silo_weights, federations, connect
        )


def job_of(settings: LearnSettings, run_id: str, silos: Silos) -> Job:
    """Return the job that `settings` ask for on `silos`."""
    return job_asked(settings, run_id, "prefect", silos.session.schema, silos.about, silos.truth, silos.silo_weights)
