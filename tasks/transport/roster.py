"""The silos of a run: which take part, which are lost, and calls to all of them at once.

`SiloTransport` is the interface to the silos: over Dask, or directly within one process. `Patience` sets how long the
coordinator waits for an answer before it gives a silo up.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from fedbnsl.algorithms.core.names import pluralize
from fedbnsl.algorithms.core.protocol import SiloLost

from ..rounds import Start, Wait, in_threads
from ..silo.service import MethodCall


class PendingAnswer(Protocol):
    """An answer that has not arrived yet."""

    def result(self, timeout: float) -> Any:
        """Return the answer, or raise the silo's exception.

        Raises `TimeoutError` after `timeout` seconds, `SiloLost` if the answer can never arrive.
        """
        ...

    def release(self) -> None:
        """Stop waiting for the answer, and free its resources."""
        ...


class SiloTransport(Protocol):
    """A connection to the silos."""

    def present(self) -> tuple[str, ...]:
        """Return the names of the silos that are connected at this moment, sorted."""
        ...

    def submit(self, silo: str, call: MethodCall) -> PendingAnswer:
        """Send `call` to `silo` and return at once."""
        ...


@dataclass(frozen=True)
class Patience:
    """Timeouts in seconds after which the coordinator gives a silo up."""

    absent: float
    """for a worker that died to return"""
    solve: float = 3600.0
    """for one answer of a connected worker"""


def wait_for_answer(transport: SiloTransport, silo: str, call: MethodCall, patience: Patience) -> Any:
    """The answer of `silo` to `call`; raises `SiloLost` after the timeouts of `patience`."""
    pending = transport.submit(silo, call)
    try:
        return _wait(transport, silo, pending, patience)
    finally:
        pending.release()


def _wait(transport: SiloTransport, silo: str, pending: PendingAnswer, patience: Patience) -> Any:
    deadline, times_absent = time.monotonic() + patience.solve, 0
    while True:
        try:
            return pending.result(timeout=min(patience.absent / 2, max(0.1, deadline - time.monotonic())))
        except TimeoutError:
            times_absent = 0 if silo in transport.present() else times_absent + 1
            if times_absent > 1:
                raise SiloLost((silo,), f"its worker has been gone for {patience.absent:g} s") from None
            if time.monotonic() >= deadline:
                raise SiloLost((silo,), f"no reply within {patience.solve:g} s") from None


@dataclass
class Roster:
    """The `silos` of a run over a `transport`; `gone` has the lost ones, with the reason."""

    transport: SiloTransport
    silos: tuple[str, ...]
    patience: Patience
    gone: dict[str, str] = field(default_factory=dict)
    quorum: int = 1
    """minimum number of silos for a run to continue"""
    start: Start = in_threads
    """starts the calls of callers that do not pass their own"""

    @property
    def present(self) -> tuple[str, ...]:
        """The silos that are not lost."""
        return tuple(silo for silo in self.silos if silo not in self.gone)

    def require_all(self) -> None:
        """Raise `SiloLost` if a silo is lost."""
        if self.gone:
            raise SiloLost(tuple(self.gone), next(iter(self.gone.values())))

    def ask(
        self, calls: Mapping[str, MethodCall], *, tolerates_dropout: bool, start: Start | None = None
    ) -> dict[str, Any]:
        """Send each silo its call, all at once; returns the answers by silo.

        A silo that does not answer is lost for the rest of the run. Then raises `SiloLost`, unless `tolerates_dropout`
        and the remaining silos are a quorum.
        """
        works = {
            silo: partial(wait_for_answer, self.transport, silo, call, self.patience) for silo, call in calls.items()
        }
        answers, lost = _wait_for_all((start or self.start)(works))
        if lost and not tolerates_dropout:
            raise SiloLost(tuple(lost), next(iter(lost.values())))
        self.gone.update(lost)
        if lost and len(self.present) < self.quorum:
            left = f"{pluralize(len(self.present), 'silo')} left, and the quorum is {self.quorum}"
            raise SiloLost(tuple(self.gone), f"{next(iter(lost.values()))}; {left}")
        return answers


def _wait_for_all(waits: Mapping[str, Wait]) -> tuple[dict[str, Any], dict[str, str]]:
    """Wait for every silo; returns the answers and the lost silos with reasons, or raises the first other error."""
    answers: dict[str, Any] = {}
    lost: dict[str, str] = {}
    errors: list[Exception] = []
    for silo, wait in waits.items():
        try:
            answers[silo] = wait()
        except SiloLost as loss:
            lost[silo] = loss.reason
        except Exception as error:  # raised below, once every silo has answered
            errors.append(error)
    if errors:
        raise errors[0]
    return answers, lost
