"""The silos in this process: their own services, called directly; and federations of tables in memory.

What a silo answers and what it refuses is its service's, as it is over Dask. Only the way there is shorter.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import Replies, Sparse, Traffic, pack_state
from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.privacy.ledger import NO_LIMIT, Budget, MemoryLedger
from fedbnsl.algorithms.statistics.moments import Table

from ..rounds import in_turn
from ..silo.journal import RunState
from ..silo.runs import RunTerms
from ..silo.service import MethodCall, SiloService
from ..silo.source import TableSource
from .federation import Patience, Roster, SiloFederation, SiloTransport

AT_ONCE = Patience(absent=60.0)
"""for answers that are there when they are awaited"""


@dataclass(frozen=True)
class InProcessTransport:
    """Services by silo (see `SiloTransport`)."""

    services: Mapping[str, SiloService]

    def present(self) -> tuple[str, ...]:
        """All silos."""
        return tuple(sorted(self.services))

    def submit(self, silo: str, call: MethodCall) -> "Answered":
        """Carry out `call` before returning; raises what the silo raises."""
        return Answered(call.on(self.services[silo]))


@dataclass(frozen=True)
class Answered:
    """An answer that is there (see `PendingAnswer`)."""

    answer: Any

    def result(self, timeout: float) -> Any:
        """The answer at once."""
        return self.answer

    def release(self) -> None:
        """Do nothing: nothing is held."""


def roster_of(transport: SiloTransport, silos: tuple[str, ...]) -> Roster:
    """`silos` over a `transport` within this process: they answer in turn, and none of them is waited for."""
    return Roster(transport, silos, AT_ONCE, start=in_turn)


@dataclass(frozen=True)
class _TermsOf(RunTerms):
    """The terms of a run of an `algorithm` that is at hand, which need not be in the registry."""

    at_hand: Algorithm | None = None

    def algorithm(self) -> Algorithm:
        """The algorithm."""
        assert self.at_hand is not None
        return self.at_hand


_TOKENS: WeakKeyDictionary[Algorithm, bytes] = WeakKeyDictionary()


def _token(algorithm: Algorithm) -> bytes:
    """Return what stands for this algorithm alone: its settings are inside its functions and cannot be compared."""
    return _TOKENS.setdefault(algorithm, secrets.token_bytes(32))


@dataclass
class InProcessFederation:
    """Silos with tables `[n_rows, n_variables]` in memory (see `Federation`): for tests, notebooks and benchmarks.

    With `secure`, or for an algorithm that needs it, replies are masked as they are between machines. Each algorithm
    that is run over it has a run of its own, which begins anew with its round 1.
    """

    schema: Schema
    tables: Mapping[str, Table]
    seed: int = 0
    secure: bool = False
    run_id: str = "run"
    budget: Budget = NO_LIMIT
    ledgers: Mapping[str, MemoryLedger] = field(default_factory=dict)
    """those of other federations on the same tables, by silo"""

    def __post_init__(self) -> None:
        """Begin without a run."""
        self._ledgers = {silo: self.ledgers.get(silo) or MemoryLedger() for silo in self.schema.silos}
        self._runs: dict[Algorithm, _Run] = {}

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Have every silo run the local solve (see `Federation.exchange`)."""
        run = self._run(algorithm, number)
        return run.federation(self.secure).exchange(algorithm, number, broadcast, sparse)

    def reply(self, algorithm: Algorithm, number: int, silo: str, broadcast: Any) -> Any:
        """Return what one silo replies, in the clear; a silo that missed the rounds before opens its rows only now."""
        run = self._run(algorithm, number, (silo,))
        return wire.decode(algorithm.reply_type, run.services[silo].solve(run.terms, number, wire.encode(broadcast)))

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """Return what each silo has charged for this run, or for all on its ledger (see `Federation.charges`)."""
        return {silo: ledger.charges(run) for silo, ledger in self._ledgers.items()}

    def transport(self, services: Mapping[str, SiloService]) -> SiloTransport:
        """The way to the silos; a test may listen in."""
        return InProcessTransport(services)

    def states(self) -> dict[str, Any]:
        """The silos' own states in the run begun last, which in a real federation nobody sees together."""
        *_, run = self._runs.values()
        return {silo: service.state(self.run_id) for silo, service in run.services.items()}

    def reopen(self, algorithm: Algorithm) -> None:
        """Open every silo anew, with no more of its state than a journal keeps."""
        run = self._runs[algorithm]
        for silo, service in run.services.items():
            number, state = service.round_of(self.run_id), pack_state(algorithm, service.state(self.run_id))
            begun = RunState(number or 0, state)
            run.services[silo] = SiloService(silo, TableSource(self.tables[silo], self._ledgers[silo], begun))

    def _run(self, algorithm: Algorithm, number: int, silos: tuple[str, ...] = ()) -> "_Run":
        """The run of `algorithm`, in which those `silos`, or all, are ready for round `number`."""
        if algorithm not in self._runs:
            about = (self.run_id, _token(algorithm), self.schema, self.seed, self.budget)
            self._runs[algorithm] = _Run(_TermsOf(*about, at_hand=algorithm), {}, self.transport)
        run = self._runs[algorithm]
        for silo in silos or self.schema.silos:
            if number == 1 or silo not in run.services or not _ready(run.services[silo], self.run_id, number):
                source = TableSource(self.tables[silo], self._ledgers[silo], RunState(number - 1))
                run.services[silo] = SiloService(silo, source)
        return run


def _ready(service: SiloService, run_id: str, number: int) -> bool:
    """Whether `service` can answer round `number`: it has answered the round before, or has just been opened."""
    return service.round_of(run_id) in (None, number - 1)


@dataclass(frozen=True)
class _Run:
    """A run of one algorithm: its terms, its silos' services, and the way to them."""

    terms: RunTerms
    services: dict[str, SiloService]
    way: Callable[[Mapping[str, SiloService]], SiloTransport]

    def federation(self, secure: bool) -> SiloFederation:
        """The federation of the services."""
        return SiloFederation(roster_of(self.way(self.services), self.terms.schema.silos), self.terms, secure)


def federate(
    tables: Mapping[str, Table],
    variables: tuple[str, ...] | None = None,
    kind: Kind = "continuous",
    seed: int = 0,
    *,
    secure: bool = False,
) -> InProcessFederation:
    """The federation whose silos hold `tables`; columns are named x0, x1, ... unless `variables` says else."""
    width = next(iter(tables.values())).shape[1]
    names = variables or tuple(f"x{i}" for i in range(width))
    schema = Schema(names, {silo: table.shape[0] for silo, table in tables.items()}, kind)
    return InProcessFederation(schema, tables, seed, secure)
