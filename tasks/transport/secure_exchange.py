"""A round behind a secure sum: the coordinator learns the sum of the replies and nothing else of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.core.protocol import Replies, SiloLost, Sparse, Traffic
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.session import Aborted, Phase

from ..silo.method_call import MethodCall
from ..silo.run_terms import RunTerms
from ..silo.secure_sums import Question
from ..steps import Start
from .roster import Roster

ATTEMPTS = 3
"""how often a sum is tried: a worker that dies loses its keys, and the others begin anew with fresh ones"""


@dataclass(frozen=True)
class SecureTransport:
    """The way to the silos for the secure sum of round `number` (see `secure.exchange.Transport`).

    The silos solve in phase "mask"; `start` says how these solves are started.
    """

    roster: Roster
    terms: RunTerms
    number: int
    broadcast: bytes
    sparse: Sparse | None
    bears_loss: bool
    start: Start | None = None

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return the answers of those silos that gave one."""
        solving = phase == "mask"
        context = (self.broadcast, self.sparse) if solving else ()
        calls = {
            silo: MethodCall("secure_answer", (self.terms, self.number, Question(phase, message, *context)))
            for silo, message in messages.items()
            if silo in self.roster.present
        }
        # A silo may be lost once its summand is in: the others can undo its masks.
        bears_loss = self.bears_loss or phase == "unmask"
        return self.roster.ask(calls, bears_loss=bears_loss, start=self.start if solving else None)


def secure_exchange(algorithm: Algorithm, transport: SecureTransport, broadcast: Any) -> tuple[Replies[Any], Traffic]:
    """Return the sum of the silos' replies to `broadcast`; raises `SiloLost` if too few of them can be reached."""
    roster, terms = transport.roster, transport.terms
    for attempt in range(1, ATTEMPTS + 1):
        session = masked.session_of(terms.run_id, transport.number, masked.new_attempt(), terms.schema)
        try:
            units = masked.units_of(algorithm, terms.schema, broadcast)
            size = len(transport.broadcast)
            return masked.masked_round(algorithm, session, transport, broadcast, size, transport.sparse, units)
        except Aborted as reason:
            if attempt == ATTEMPTS or len(roster.present) < session.threshold:
                raise SiloLost(tuple(roster.gone) or terms.schema.silos, str(reason)) from None
    raise AssertionError("the loop returns or raises")
