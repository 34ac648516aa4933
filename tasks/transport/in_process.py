"""Silos in this process: direct calls of their services, and federations of tables in memory.

The services are the same as over Dask, so a silo answers and refuses the same requests; only the transport differs.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import Algorithm, Replies, Sparse, Traffic, pack_state
from fedbnsl.algorithms.core.release import Disclosed
from fedbnsl.algorithms.core.schema import Kind, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.privacy.ledger import NO_LIMIT, Budget, MemoryLedger
from fedbnsl.algorithms.statistics.moments import Table

from ..rounds import run_on_wait
from ..silo.journal import RunState
from ..silo.messages import MethodCall
from ..silo.runs import RunTerms
from ..silo.service import SiloService
from ..silo.source import TableSource
from .federation import Patience, Roster, SiloFederation, SiloTransport

IMMEDIATE = Patience(absent=60.0)
"""timeouts for answers that are available at once"""


@dataclass(frozen=True)
class InProcessTransport:
    """Services by silo (see `SiloTransport`)."""

    services: Mapping[str, SiloService]

    def present(self) -> tuple[str, ...]:
        """All silos."""
        return tuple(sorted(self.services))

    def silence(self) -> Mapping[str, float]:
        """No silence of any silo."""
        return dict.fromkeys(self.services, 0.0)

    def submit(self, silo: str, call: MethodCall) -> "ImmediateAnswer":
        """Run `call` before returning; raises the silo's exception."""
        return ImmediateAnswer(call.on(self.services[silo]))


@dataclass(frozen=True)
class ImmediateAnswer:
    """An answer that is already available (see `PendingAnswer`)."""

    answer: Any

    def result(self, timeout: float) -> Any:
        """The answer."""
        return self.answer

    def release(self) -> None:
        """Do nothing: there are no resources to free."""


def in_process_roster(transport: SiloTransport, silos: tuple[str, ...]) -> Roster:
    """The roster of `silos` over a `transport` in this process; the silos answer one after the other."""
    return Roster(transport, silos, IMMEDIATE, start=run_on_wait)


@dataclass(frozen=True, eq=False)
class _LocalTerms(RunTerms):
    """The terms of a run of `local_algorithm`, which need not be in the registry."""

    local_algorithm: Algorithm | None = None

    @cached_property
    def spec_value(self) -> AlgorithmSpec:
        """A specification that only names the algorithm."""
        return AlgorithmSpec("an algorithm of this process", None)

    def algorithm(self) -> Algorithm:
        """The algorithm."""
        assert self.local_algorithm is not None
        return self.local_algorithm


_TOKENS: WeakKeyDictionary[Algorithm, bytes] = WeakKeyDictionary()


def _token(algorithm: Algorithm) -> bytes:
    """A random token that identifies `algorithm`, whose settings are inside its functions and cannot be compared."""
    return _TOKENS.setdefault(algorithm, secrets.token_bytes(32))


@dataclass
class InProcessFederation:
    """Silos with tables `[n_rows, n_variables]` in memory (see `Federation`): for tests, notebooks and benchmarks.

    With `secure`, or for an algorithm that needs a secure sum, replies are masked as in a federation. Each algorithm
    has its own run, which starts again whenever round 1 of the algorithm is requested.
    """

    schema: Schema
    tables: Mapping[str, Table]
    seed: int = 0
    secure: bool = False
    run_id: str = "run"
    budget: Budget = NO_LIMIT
    ledgers: Mapping[str, MemoryLedger] = field(default_factory=dict)
    """ledgers of other federations on the same tables, by silo"""

    def __post_init__(self) -> None:
        self._ledgers = {silo: self.ledgers.get(silo) or MemoryLedger() for silo in self.schema.silos}
        self._runs: dict[Algorithm, _Run] = {}

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run the local solve at every silo (see `Federation.exchange`)."""
        run = self._run(algorithm, number)
        return run.federation(self.secure).exchange(algorithm, number, broadcast, sparse)

    def reply(self, algorithm: Algorithm, number: int, silo: str, broadcast: Any) -> Any:
        """One silo's unmasked reply; a silo that missed the earlier rounds opens its rows now."""
        run = self._run(algorithm, number, (silo,))
        return wire.decode(algorithm.reply_type, run.services[silo].solve(run.terms, number, wire.encode(broadcast)))

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """The charges of each silo for this run, or all charges in its ledger (see `Federation.charges`)."""
        return {silo: ledger.charges(run) for silo, ledger in self._ledgers.items()}

    def releases(self, run: str) -> dict[str, tuple[Disclosed, ...]]:
        """What each silo has sent, over all algorithms (see `Federation.releases`)."""
        runs = self._runs.values()
        return {
            silo: tuple(line for one in runs if silo in one.services for line in one.services[silo].releases(run))
            for silo in self.schema.silos
        }

    def transport(self, services: Mapping[str, SiloService]) -> SiloTransport:
        """The transport to the silos; a test may override it."""
        return InProcessTransport(services)

    def states(self) -> dict[str, Any]:
        """The silos' private states in the latest run, for tests; in a real federation no party sees them together."""
        *_, run = self._runs.values()
        return {silo: service.state(self.run_id) for silo, service in run.services.items()}

    def reopen(self, algorithm: Algorithm) -> None:
        """Reopen every silo with only the state that a journal stores."""
        run = self._runs[algorithm]
        for silo, service in run.services.items():
            number, state = service.round_of(self.run_id), pack_state(algorithm, service.state(self.run_id))
            run_state = RunState(number or 0, state)
            run.services[silo] = SiloService(silo, TableSource(self.tables[silo], self._ledgers[silo], run_state))

    def _run(self, algorithm: Algorithm, number: int, silos: tuple[str, ...] = ()) -> "_Run":
        """The run of `algorithm`, in which `silos` (if empty, all silos) are ready for round `number`."""
        if algorithm not in self._runs:
            terms = (self.run_id, _token(algorithm), self.schema, self.seed, self.budget)
            self._runs[algorithm] = _Run(_LocalTerms(*terms, local_algorithm=algorithm), {}, self.transport)
        run = self._runs[algorithm]
        for silo in silos or self.schema.silos:
            if number == 1 or silo not in run.services or not _ready(run.services[silo], self.run_id, number):
                source = TableSource(self.tables[silo], self._ledgers[silo], RunState(number - 1))
                run.services[silo] = SiloService(silo, source)
        return run


def _ready(service: SiloService, run_id: str, number: int) -> bool:
    """Whether `service` can answer round `number`: it has answered the preceding round, or has no open run."""
    return service.round_of(run_id) in (None, number - 1)


@dataclass(frozen=True)
class _Run:
    """A run of one algorithm: its terms, its silos' services, and the function that connects them."""

    terms: RunTerms
    services: dict[str, SiloService]
    connect: Callable[[Mapping[str, SiloService]], SiloTransport]

    def federation(self, secure: bool) -> SiloFederation:
        """The federation of the services."""
        roster = in_process_roster(self.connect(self.services), self.terms.schema.silos)
        return SiloFederation(roster, self.terms, secure)


def federate(
    tables: Mapping[str, Table],
    variables: tuple[str, ...] | None = None,
    kind: Kind = "continuous",
    seed: int = 0,
    *,
    secure: bool = False,
) -> InProcessFederation:
    """A federation of the silos with these `tables`; default column names are x0, x1, ..."""
    width = next(iter(tables.values())).shape[1]
    names = variables or tuple(f"x{i}" for i in range(width))
    schema = Schema(names, {silo: table.shape[0] for silo, table in tables.items()}, kind)
    return InProcessFederation(schema, tables, seed, secure)
