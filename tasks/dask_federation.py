"""The federation over Dask: every exchange is one `local_solve` task a silo, run on the worker that holds its rows."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedbnsl.algorithms import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.protocol import FederatedAlgorithm, Replies, Schema, SiloLost, Traffic, gather, traffic_of
from fedbnsl.data.about import declared_levels
from fedbnsl.data.levels import joint_schema

from . import silo_runtime
from .cluster import hosted_silos
from .hosted_rows import Described
from .rounds import Step, local_solve
from .worker import resource


@dataclass(frozen=True)
class Patience:
    """How long the coordinator waits, in seconds, before it gives a silo up."""

    absent: float = 60.0
    """for a worker that died to come back"""
    solve: float = 3600.0
    """for one solve of a worker that is there"""


@dataclass
class DaskFederation:
    """Silos on Dask workers; `number` is the round under way."""

    client: Any
    schema: Schema
    run_id: str
    algorithm: str
    params: dict[str, Any]
    seed: int
    patience: Patience = field(default_factory=Patience)
    number: int = 0

    def exchange(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: int, broadcast: Any
    ) -> tuple[Replies[Any], Traffic]:
        """Ask every silo in its own Prefect task (see `Federation.exchange`)."""
        self.number = number
        packed = wire.encode(broadcast)
        call = silo_runtime.Call(self.run_id, self.algorithm, self.params, wire.encode(self.schema), self.seed)
        steps = {silo: Step(_Solve(self, silo, call, number, packed)) for silo in self.schema.silos}
        futures = {silo: local_solve.submit(silo, number, step) for silo, step in steps.items()}
        _wait(futures)
        replies = {silo: wire.decode(algorithm.reply_type, step.result) for silo, step in steps.items()}
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    def finish(self) -> None:
        """Let the silos forget the finished run; one that does not answer keeps its journal."""
        futures = [
            self.client.submit(silo_runtime.finish, silo, self.run_id, resources={resource(silo): 1}, pure=False)
            for silo in self.schema.silos
        ]
        deadline = time.monotonic() + self.patience.absent
        for future in futures:
            with contextlib.suppress(Exception):
                future.result(timeout=max(0.1, deadline - time.monotonic()))


@dataclass(frozen=True)
class _Solve:
    """One call to one silo: submit the solve to its worker and wait for the reply."""

    federation: DaskFederation
    silo: str
    call: silo_runtime.Call
    number: int
    broadcast: bytes

    def __call__(self) -> bytes:
        """Return the encoded reply; raises `SiloLost` when the silo stays silent."""
        client, silo = self.federation.client, self.silo
        pinned = {resource(silo): 1}
        future = client.submit(
            silo_runtime.solve, silo, self.call, self.number, self.broadcast, resources=pinned, pure=False
        )
        try:
            return _reply(client, silo, future, self.federation.patience)
        finally:
            future.release()


def _reply(client: Any, silo: str, future: Any, patience: Patience) -> bytes:
    from distributed import KilledWorker

    deadline, looks_without = time.monotonic() + patience.solve, 0
    while True:
        try:
            reply: bytes = future.result(timeout=min(patience.absent / 2, max(0.1, deadline - time.monotonic())))
            return reply
        except KilledWorker:
            raise SiloLost((silo,), "its worker died again and again while solving") from None
        except TimeoutError:
            looks_without = 0 if silo in hosted_silos(client) else looks_without + 1
            if looks_without > 1:
                raise SiloLost((silo,), f"its worker has been gone for {patience.absent:g} s") from None
            if time.monotonic() >= deadline:
                raise SiloLost((silo,), f"no reply within {patience.solve:g} s") from None


def _wait(futures: Mapping[str, Any]) -> None:
    """Wait for every task; raise one `SiloLost` for all that were lost, or the first other error."""
    lost: list[SiloLost] = []
    errors: list[Exception] = []
    for future in futures.values():
        try:
            future.result()
        except SiloLost as loss:
            lost.append(loss)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    if lost:
        raise SiloLost(tuple(silo for loss in lost for silo in loss.silos), lost[0].reason)


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
