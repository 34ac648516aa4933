"""The federation of the silos of a run, over any transport.

An exchange is one call of `solve` per silo. In a masked exchange, a secure sum takes its place: the coordinator learns
the sum of the replies and nothing else about them.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import Replies, SiloLost, Sparse, Traffic, gather, traffic_of
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.masks import Aborted, Phase

from ..rounds import Start
from ..silo.runs import RunTerms
from ..silo.secure_sums import SecureSumRequest
from ..silo.service import Method, MethodCall
from .roster import Roster

ATTEMPTS = 3
"""attempts at a secure sum: a worker that dies loses its keys, and the others start again with new ones"""


@dataclass(frozen=True)
class SecureTransport:
    """The way to the silos for the secure sum of round `number` (see `secure.exchange.Transport`).

    The silos solve in phase "mask"; `start` starts these solves.
    """

    roster: Roster
    terms: RunTerms
    number: int
    broadcast: bytes
    sparse: Sparse | None
    tolerates_dropout: bool
    start: Start | None = None

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The answers of the silos that responded."""
        solving = phase == "mask"
        context = (self.broadcast, self.sparse) if solving else ()
        calls = {
            silo: MethodCall("secure_answer", (self.terms, self.number, SecureSumRequest(phase, message, *context)))
            for silo, message in messages.items()
            if silo in self.roster.present
        }
        # A silo may be lost once its summand is in: the others can undo its masks.
        tolerates_dropout = self.tolerates_dropout or phase == "unmask"
        return self.roster.ask(calls, tolerates_dropout=tolerates_dropout, start=self.start if solving else None)


def secure_exchange(algorithm: Algorithm, transport: SecureTransport, broadcast: Any) -> tuple[Replies[Any], Traffic]:
    """The sum of the silos' replies to `broadcast`; raises `SiloLost` if too few silos respond."""
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


@dataclass
class SiloFederation:
    """The silos of `roster` in the run of `terms` (see `Federation`); `number` is the round under way."""

    roster: Roster
    terms: RunTerms
    secure: bool = False
    start_solves: Callable[[int], Start] | None = None
    """(round) -> how the silos' solves are started, and who is told of them; else as all calls are"""
    number: int = 0

    @property
    def schema(self) -> Schema:
        """What is public."""
        return self.terms.schema

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Ask every silo that is present (see `Federation.exchange`)."""
        self.number = number
        if not algorithm.tolerates_dropout:
            self.roster.require_all()
        packed, start = wire.encode(broadcast), self.start_solves(number) if self.start_solves else self.roster.start
        if masked.is_masked(algorithm, self.schema, asked=self.secure):
            transport = SecureTransport(
                self.roster, self.terms, number, packed, sparse, algorithm.tolerates_dropout, start
            )
            return secure_exchange(algorithm, transport, broadcast)
        answers = self.ask(
            "solve", self.terms, number, packed, tolerates_dropout=algorithm.tolerates_dropout, start=start
        )
        replies = {silo: wire.decode(algorithm.reply_type, reply) for silo, reply in answers.items()}
        sizes = (len(packed), sum(map(len, answers.values())))
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies, sizes)

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """The charges in each silo's ledger (see `Federation.charges`), except for lost silos."""
        return self.ask("charges", run, tolerates_dropout=True)

    def finish(self) -> None:
        """Have the silos delete the finished run; a silo that does not respond keeps its journal."""
        # The run has its result: an error in the clean-up must not discard it.
        with contextlib.suppress(Exception):
            self.ask("finish", self.terms.run_id, tolerates_dropout=True)

    def ask(
        self, method: Method, *arguments: Any, tolerates_dropout: bool, start: Start | None = None
    ) -> dict[str, Any]:
        """Call `method` of every silo that is present; returns the answers by silo (see `Roster.ask`)."""
        call = MethodCall(method, arguments)
        return self.roster.ask(
            dict.fromkeys(self.roster.present, call), tolerates_dropout=tolerates_dropout, start=start
        )
