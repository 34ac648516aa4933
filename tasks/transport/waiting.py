"""How long the coordinator waits for the answer of a silo, and when it gives the silo up."""

import time
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.core.protocol import SiloLost

from ..silo.method_call import MethodCall
from .silo_transport import PendingAnswer, SiloTransport


@dataclass(frozen=True)
class Patience:
    """How long the coordinator waits, in seconds, before it gives a silo up."""

    absent: float
    """for a worker that died to come back"""
    solve: float = 3600.0
    """for one answer of a worker that is there"""


def answer_of(transport: SiloTransport, silo: str, call: MethodCall, patience: Patience) -> Any:
    """Return the answer of `silo` to `call`; raises `SiloLost` once patience is exhausted."""
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
