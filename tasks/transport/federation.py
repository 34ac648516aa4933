"""The federation over Dask: every exchange is one `local_solve` task a silo, run on the worker that holds its rows."""

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Replies, SiloLost, Sparse, Traffic, gather, traffic_of
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.session import Aborted, Phase
from fedbnsl.data.folder.about import declared_levels
from fedbnsl.data.folder.levels import joint_schema

from ..rounds import Step, local_solve
from ..silo import secure_sums as secure_silo
from ..silo import service as silo_runtime
from ..silo.rows import Described
from ..silo.secure_sums import Question
from ..worker import resource
from .cluster import hosted_silos


@dataclass(frozen=True)
class Patience:
    """How long the coordinator waits, in seconds, before it gives a silo up."""

    absent: float = 60.0
    """for a worker that died to come back"""
    solve: float = 3600.0
    """for one solve of a worker that is there"""


# How often a round is begun anew with fresh keys, where a worker died with those it had.
ATTEMPTS = 3


@dataclass
class DaskFederation:
    """Silos on Dask workers; `number` is the round under way, `gone` those given up for the rest of the run."""

    client: Any
    schema: Schema
    run_id: str
    spec: AlgorithmSpec
    seed: int
    patience: Patience = field(default_factory=Patience)
    secure: bool = False
    budget: float = math.inf
    number: int = 0
    gone: dict[str, str] = field(default_factory=dict)

    def exchange(
        self,
        algorithm: FederatedAlgorithm[Any, Any, Any, Any],
        number: int,
        broadcast: Any,
        sparse: Sparse | None = None,
    ) -> tuple[Replies[Any], Traffic]:
        """Ask every silo in its own Prefect task (see `Federation.exchange`)."""
        self.number = number
        if self.gone and not algorithm.bears_loss:
            raise SiloLost(tuple(self.gone), next(iter(self.gone.values())))
        packed, call = wire.encode(broadcast), self.call
        if masked.applies(algorithm, self.schema, asked=self.secure):
            return self._secure_exchange(algorithm, number, broadcast, sparse)
        asked = {silo: Ask(silo_runtime.solve, (silo, call, number, packed)) for silo in self.present}
        answers = self.ask(asked, bears_loss=algorithm.bears_loss, as_tasks=True)
        replies = {silo: wire.decode(algorithm.reply_type, reply) for silo, reply in answers.items()}
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """Return what each silo's ledger says (see `Federation.charges`); those that are gone are left out."""
        asked = {silo: Ask(silo_runtime.charges, (silo, run)) for silo in self.present}
        found: dict[str, tuple[Charge, ...]] = self.ask(asked, bears_loss=True)
        return found

    def finish(self) -> None:
        """Let the silos forget the finished run; one that does not answer keeps its journal."""
        with contextlib.suppress(Exception):
            self.ask({silo: Ask(silo_runtime.finish, (silo, self.run_id)) for silo in self.present}, bears_loss=True)

    @property
    def present(self) -> tuple[str, ...]:
        """The silos that have not been given up."""
        return tuple(silo for silo in self.schema.silos if silo not in self.gone)

    @property
    def call(self) -> silo_runtime.Call:
        """What every question of this run says of it."""
        schema = wire.encode(self.schema)
        return silo_runtime.Call(self.run_id, registry.pack(self.spec), schema, self.seed, self.budget)

    def ask(self, asked: "Mapping[str, Ask]", *, bears_loss: bool, as_tasks: bool = False) -> dict[str, Any]:
        """Put a question to each silo, all at once, and return the answers by silo.

        `as_tasks`: each in a Prefect task. A silo that stays silent is given up for the rest of the run; unless
        `bears_loss`, that raises `SiloLost`.
        """
        steps = {silo: Step(_Solve(self, silo, question)) for silo, question in asked.items()}
        if as_tasks:
            waits: dict[str, Callable[[], Any]] = {
                silo: local_solve.submit(silo, self.number, step).result for silo, step in steps.items()
            }
        else:
            pool = ThreadPoolExecutor(max(1, len(steps)))
            waits = {silo: pool.submit(step.run).result for silo, step in steps.items()}
            pool.shutdown(wait=False)
        lost = _wait(waits)
        if lost and not bears_loss:
            raise SiloLost(tuple(lost), next(iter(lost.values())))
        self.gone.update(lost)
        return {silo: step.result for silo, step in steps.items() if silo not in lost}

    def _secure_exchange(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: int, broadcast: Any, sparse: Sparse | None
    ) -> tuple[Replies[Any], Traffic]:
        """Have the silos add up behind masks; where a worker died with its keys, once more with new ones."""
        for attempt in range(1, ATTEMPTS + 1):
            session = masked.session_of(self.run_id, number, masked.new_attempt(), self.schema)
            transport = SecureTransport(self, wire.encode(broadcast), sparse, bears_loss=algorithm.bears_loss)
            try:
                return masked.masked_round(algorithm, session, transport, broadcast, sparse)
            except Aborted as reason:
                if attempt == ATTEMPTS or len(self.present) < session.threshold:
                    raise SiloLost(tuple(self.gone) or self.schema.silos, str(reason)) from None
        raise AssertionError("the loop returns or raises")


@dataclass(frozen=True)
class SecureTransport:
    """The way to the silos of one secure sum; solving, in phase "mask", is a Prefect task a silo."""

    federation: DaskFederation
    broadcast: bytes
    sparse: Sparse | None
    bears_loss: bool

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the answers of those silos that gave one (see `secure.exchange.Transport`)."""
        federation, call, solving = self.federation, self.federation.call, phase == "mask"
        extra = (self.broadcast, secure_silo.packed(self.sparse)) if solving else ()
        asked = {
            silo: Ask(
                silo_runtime.secure_answer,
                (silo, call, federation.number, Question(phase, message, *extra)),
            )
            for silo, message in messages.items()
            if silo in federation.present
        }
        # Whoever put its part into the sum may go: the others can unmask it.
        return federation.ask(asked, bears_loss=self.bears_loss or phase == "unmask", as_tasks=solving)


@dataclass(frozen=True)
class Ask:
    """A function of the silo runtime, and what to call it with."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class _Solve:
    """One call to one silo: submit it to its worker and wait for the reply."""

    federation: DaskFederation
    silo: str
    question: Ask

    def __call__(self) -> Any:
        """Return the reply; raises `SiloLost` when the silo stays silent."""
        client, silo = self.federation.client, self.silo
        future = client.submit(
            self.question.function, *self.question.arguments, resources={resource(silo): 1}, pure=False
        )
        try:
            return _reply(client, silo, future, self.federation.patience)
        finally:
            future.release()


def _reply(client: Any, silo: str, future: Any, patience: Patience) -> Any:
    from distributed import KilledWorker

    deadline, looks_without = time.monotonic() + patience.solve, 0
    while True:
        try:
            return future.result(timeout=min(patience.absent / 2, max(0.1, deadline - time.monotonic())))
        except KilledWorker:
            raise SiloLost((silo,), "its worker died again and again while solving") from None
        except TimeoutError:
            looks_without = 0 if silo in hosted_silos(client) else looks_without + 1
            if looks_without > 1:
                raise SiloLost((silo,), f"its worker has been gone for {patience.absent:g} s") from None
            if time.monotonic() >= deadline:
                raise SiloLost((silo,), f"no reply within {patience.solve:g} s") from None


def _wait(pending: Mapping[str, Callable[[], Any]]) -> dict[str, str]:
    """Wait for every answer; return those that are lost, with the reason, or raise the first other error."""
    lost: dict[str, str] = {}
    errors: list[Exception] = []
    for silo, result in pending.items():
        try:
            result()
        except SiloLost as loss:
            lost[silo] = loss.reason
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return lost


def federated_schema(client: Any, silos: tuple[str, ...], about: Mapping[str, Any]) -> Schema:
    """Return the public schema that `silos` describe; raises `BadInput` where they disagree or their rows are bad.

    Where `about` does not say what kind of data they are and some silos hold labels, all are read as discrete data.
    Each then tells the labels that occur in its columns, unless `about` declares the levels.
    """
    parts = _described(client, silos, about)
    if len({type(part) for part in parts}) > 1:
        parts = _described(client, silos, {**about, "kind": "discrete"})
    first = parts[0]
    for part in parts[1:]:
        if set(part.variables) != set(first.variables):
            odd = sorted(set(part.variables) ^ set(first.variables))
            raise BadInput(f"silos {first.silo} and {part.silo} disagree: column {odd[0]} is in one of them only")
    return joint_schema("the silos", [part.schema() for part in parts], declared_levels(about))


def _described(client: Any, silos: tuple[str, ...], about: Mapping[str, Any]) -> list[Described]:
    told = {key: about[key] for key in ("kind", "levels") if key in about}
    futures = [
        client.submit(silo_runtime.describe, silo, told, resources={resource(silo): 1}, pure=False) for silo in silos
    ]
    return [future.result(timeout=600) for future in futures]
