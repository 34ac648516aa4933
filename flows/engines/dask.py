"""The silos of a run: Dask workers on this machine that read a folder, or silos on their owners' machines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable, pluralize
from fedbnsl.algorithms.secure.masks import default_threshold
from fedbnsl.data.federated import POOLED, weights_after_pooling
from fedbnsl.data.folder.about import Declared, declarations, read_about
from fedbnsl.data.folder.folder import TRUTH, files_of, nodes_left_out, place_of, read_truth, small_silo_notes
from fedbnsl.data.folder.schema_inference import InferredSchema
from fedbnsl.tasks.platforms.launch import connect_to_platform
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.silo.guard import with_full_noise
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.signed_records import SignedRecord
from fedbnsl.tasks.transport.channel import RelayTransport, connect_to_coordinator
from fedbnsl.tasks.transport.cluster import DaskTransport, embedded_cluster
from fedbnsl.tasks.transport.configuration import read_federation_file
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.federation import Patience, Roster, SiloFederation, SiloTransport, wait_for_silos
from fedbnsl.tracking.result import SUPPRESSED_CELLS

from ..job.check import create_job, needs_pooling
from ..job.job import Job, Session
from ..job.reading import is_private, reading_of, selected_silos
from ..options.learn import LearnSettings
from .resuming import Interrupted, Pin
from .run_context import Workers

Names = tuple[str, ...]


@dataclass(frozen=True)
class Silos:
    """The connected silos of a run: the session with the silos, and the description and truth in the data folder."""

    session: Session
    about: dict[str, Any]
    truth: Any
    silo_weights: dict[str, Any]
    federations: list[SiloFederation]
    connect: Callable[[Job, AlgorithmSpec, str], SiloFederation]
    without_members: tuple[str, ...] = ()
    """silos whose owners list no members; in a private run, each silo's noise must then suffice alone"""
    at_sums: tuple[str, ...] = ()
    """silos whose owners allow only masked sums of moments and counts"""

    def begin(self, job: Job) -> dict[str, Pin]:
        """Have every silo admit `job` by its owner's policy, and return each silo's pin: its rows and their seal.

        Raises `NotAllowed` if a silo refuses the job; no silo has then spent any ε.
        """
        seals = self.seals(job, job.run_id)
        return {silo: Pin(self.session.schema.rows[silo], seal) for silo, seal in seals.items()}

    def seals(self, job: Job, context: str) -> dict[str, str]:
        """Have every silo admit `job`, and return the seals of the silos' rows for `context`; raises as `begin` does.

        A seal is a fingerprint of the rows with a secret of the silo; seals of different contexts differ.
        """
        federation = self.connect(job, job.spec, job.run_id)
        hidden = registry.build(job.spec).is_masked(self.session.schema, requested=job.settings.secure)
        federation.ask("admit", federation.terms, hidden, tolerates_dropout=False)
        return federation.ask("seal", context, tolerates_dropout=False)

    def sign(self, run_id: str, files: dict[str, str]) -> dict[str, SignedRecord | str]:
        """By silo, its signed record of the run with these `files`, or why it has signed none."""
        roster = self.federations[-1].roster
        call = MethodCall("sign", (run_id, files))
        found: dict[str, SignedRecord | str] = {}
        with suppress(BadInput):
            found = roster.ask(dict.fromkeys(roster.present, call), tolerates_dropout=True)
        for silo in sorted({*roster.present} - {*found}):  # one has refused, so each is asked by itself
            try:
                found |= roster.ask({silo: call}, tolerates_dropout=True)
            except BadInput as refusal:
                found[silo] = str(refusal)
        return {silo: found[silo] if silo in found else f"lost: {roster.lost[silo]}" for silo in roster.silos}

    def finish(self) -> None:
        """Have the silos delete the finished run."""
        for federation in self.federations:
            federation.finish()


def _files(settings: LearnSettings) -> dict[str, Path]:
    """The file of each silo of a folder; for algorithms that pool the rows, the folder as the file of a single silo."""
    folder = Path(settings.data)
    return {POOLED: folder} if needs_pooling(settings) else dict(files_of(folder, reading_of(settings)))


@contextmanager
def _transport(settings: LearnSettings, started: Workers | None) -> Iterator[tuple[SiloTransport, Names]]:
    """Yield the transport to the silos of `settings`, and the silos that should take part.

    If no silos are named, the tuple is empty, and all connected silos take part.
    """
    if settings.federation is None:
        files = _files(settings)
        reuse = started is not None and started.files == files
        with nullcontext(started.client) if started and reuse else embedded_cluster(files) as client:
            yield DaskTransport(client), tuple(files)
        return
    if needs_pooling(settings):
        raise BadInput(f"{settings.algorithm} needs all rows in one place: it cannot run on the silos of their owners")
    file = read_federation_file(Path(settings.federation))
    platform = settings.platform
    with connect_to_coordinator(file) if platform is None else connect_to_platform(file, platform) as transport:
        yield transport, selected_silos(settings) or file.silos


@contextmanager
def prestarted_workers(settings: LearnSettings) -> Iterator[Workers | None]:
    """Start the workers of the run of `settings` on this machine, and yield them; None for a federation."""
    if settings.federation is not None:
        yield None
        return
    files = _files(settings)
    with embedded_cluster(files) as client:
        yield Workers(files, client)


@contextmanager
def connect_silos(
    settings: LearnSettings,
    orchestration: Orchestration,
    resumed: Interrupted | None = None,
    workers: Workers | None = None,
    changed_rows: int = 0,
) -> Iterator[Silos]:
    """Connect to the silos of `settings`, or of the `resumed` run, and yield them; `workers` were started before.

    `changed_rows` applies to runs without an ε, even if no owner sets such a number: silos refuse a run if fewer rows,
    but not none, have changed since an earlier run. Raises `SilosUnavailable` if too few silos connect, and `BadInput`
    if the rows of a silo cannot be used.
    """
    folder, pooled = Path(settings.data), needs_pooling(settings)
    with _transport(settings, workers) as (transport, expected):
        expected, quorum = (expected, settings.quorum) if resumed is None else (tuple(resumed.pins), None)
        if quorum and expected and quorum > len(expected):
            raise BadInput(f"--quorum {quorum}: the run has only {pluralize(len(expected), 'silo')}")
        connected = wait_for_silos(transport, expected, settings.silo_patience, quorum)
        lost = dict(resumed.gone if resumed else {})
        roster = partial(
            Roster,
            transport,
            patience=Patience(settings.silo_patience),
            quorum=settings.quorum or 1,
            is_cancelled=orchestration.cancellation.is_requested,
        )
        about = read_about(folder)
        folder = place_of(folder)
        declared = declarations(about, reading_of(settings))
        names, inferred = _described(roster, connected, quorum, declared, tuple(expected))
        absent = tuple(
            f"{silo} did not {'describe its rows' if silo in connected else 'connect'}: learned without it"
            for silo in expected or connected
            if silo not in names
        )
        declared, schema = inferred.declared or declared, inferred.schema
        excluded = nodes_left_out(schema, about)
        truth, silo_weights = (
            read_truth(folder / TRUTH, schema.nodes, excluded) if (folder / TRUTH).exists() else (None, {})
        )
        federations: list[SiloFederation] = []

        def connect(job: Job, spec: AlgorithmSpec, run_id: str) -> SiloFederation:
            terms = replace(_terms(job, spec, run_id, schema, declared), changed_rows=changed_rows)
            # No exchange of this run waits again for a silo that another one has given up.
            members = roster(schema.silos, lost=lost)
            federation = SiloFederation(members, terms, job.settings.secure, orchestration.solves)
            federations.append(federation)
            return federation

        session = Session(
            schema,
            connect,
            wrap=lambda algorithm, federation: orchestration.wrap(algorithm, lambda: getattr(federation, "label", "")),
            evaluate=lambda work: orchestration.perform("evaluate", "", work),
            notes=(
                *absent,
                *(() if settings.federation else small_silo_notes(Path(settings.data), reading_of(settings))),
                *_policy_notes(settings, inferred),
                *inferred.notes,
                *_warnings(transport),
            ),
        )
        weights = weights_after_pooling(silo_weights) if pooled else silo_weights
        at_sums = tuple(silo for silo, level in inferred.levels.items() if level == "sums")
        yield Silos(session, about, truth, weights, federations, connect, inferred.without_members, at_sums)


def _warnings(transport: SiloTransport) -> tuple[str, ...]:
    """What the coordinator of a federation warns of, such as certificates that expire soon."""
    return transport.client.warnings if isinstance(transport, RelayTransport) else ()


def _described(
    roster: Callable[[Names], Roster], names: Names, quorum: int | None, declared: Declared, expected: Names
) -> tuple[Names, InferredSchema]:
    """The silos among `names` that describe their rows, and their schema.

    Raises `SilosUnavailable` if a silo does not respond, unless there is a `quorum` and so many silos are left.
    """
    while True:
        try:
            return names, schema_from_descriptions(roster(names), declared, expected)
        except SiloLost as loss:
            names = tuple(silo for silo in names if silo not in loss.silos)
            if quorum is None or len(names) < quorum:
                raise SilosUnavailable(f"{loss}, before the rows were described") from None


def _terms(job: Job, spec: AlgorithmSpec, run_id: str, schema: Schema, declared: Declared) -> RunTerms:
    """The terms of an exchange of `job` that runs the algorithm `spec`."""
    seed, terms_schema = job.settings.seed, job.run_schema(schema)
    return RunTerms(
        run_id, registry.pack(spec), terms_schema, seed, job.budget, job.declaration(declared), step_of=job.run_id
    )


def _policy_notes(settings: LearnSettings, inferred: InferredSchema) -> tuple[str, ...]:
    """A line if owners' policies change small counts or, in a private run, the noise."""
    if not is_private(settings):
        return (SUPPRESSED_CELLS,) if inferred.suppressed_cells else ()
    if not inferred.without_members:
        return ()
    silos = ", ".join(inferred.without_members)
    return (
        f"{silos}: no [members] in silo.toml, so every silo adds noise that suffices alone; the sum has more noise",
    )


def quorum_note(job: Job, schema: Schema) -> str:
    """A line if fewer silos than all cannot do, although the quorum of `job` says so; otherwise empty."""
    quorum, silos, algorithm = job.settings.quorum, len(schema.silos), registry.build(job.spec)
    if quorum is None or quorum >= silos:
        return ""
    if not algorithm.tolerates_dropout:
        return f"--quorum {quorum} applies before round 1 only: {job.spec.name} needs all {silos} silos in every round"
    least = default_threshold(silos)
    if quorum < least and algorithm.is_masked(schema, requested=job.settings.secure):
        return f"--quorum {quorum} has the effect of {least}: masked sums of {silos} silos need {least} of them"
    return ""


def job_of(settings: LearnSettings, run_id: str, silos: Silos) -> Job:
    """The job for `settings` on `silos`; each silo's noise suffices alone if a silo requires it."""
    schema = silos.session.schema
    job = create_job(settings, run_id, "prefect", schema, silos.about, silos.truth, silos.silo_weights)
    if silos.at_sums:
        job = replace(job, spec=registry.at_sums(job.spec), at_sums=silos.at_sums)
    return replace(job, spec=with_full_noise(job.spec, schema)) if silos.without_members else job
