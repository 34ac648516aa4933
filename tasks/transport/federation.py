"""The federation of silos that are reached over a transport: an exchange is one call of `solve` a silo."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import Replies, Sparse, Traffic, gather, traffic_of
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.secure import masked

from ..silo.method_call import Method, MethodCall
from ..silo.run_terms import RunTerms
from ..steps import Start
from .roster import Roster
from .secure_exchange import SecureTransport, secure_exchange


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
        if not algorithm.bears_loss:
            self.roster.require_all()
        packed, start = wire.encode(broadcast), self.start_solves(number) if self.start_solves else self.roster.start
        if masked.applies(algorithm, self.schema, asked=self.secure):
            transport = SecureTransport(self.roster, self.terms, number, packed, sparse, algorithm.bears_loss, start)
            return secure_exchange(algorithm, transport, broadcast)
        answers = self.ask("solve", self.terms, number, packed, bears_loss=algorithm.bears_loss, start=start)
        replies = {silo: wire.decode(algorithm.reply_type, reply) for silo, reply in answers.items()}
        sizes = (len(packed), sum(map(len, answers.values())))
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies, sizes)

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """Return what each silo's ledger says (see `Federation.charges`); silos given up are left out."""
        return self.ask("charges", run, bears_loss=True)

    def finish(self) -> None:
        """Let the silos forget the finished run; one that does not answer keeps its journal."""
        # The run has its result: nothing that goes wrong in tidying up may take it away.
        with contextlib.suppress(Exception):
            self.ask("finish", self.terms.run_id, bears_loss=True)

    def ask(self, method: Method, *arguments: Any, bears_loss: bool, start: Start | None = None) -> dict[str, Any]:
        """Call `method` of every silo that is present, and return the answers by silo (see `Roster.ask`)."""
        call = MethodCall(method, arguments)
        return self.roster.ask(dict.fromkeys(self.roster.present, call), bears_loss=bears_loss, start=start)
