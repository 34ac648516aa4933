"""A federation in this process: for tests, notebooks, benchmarks and `--engine inline`."""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from .core import wire
from .core.promise import Charge
from .core.protocol import FederatedAlgorithm, Replies, Sparse, Traffic, gather, rounds, traffic_of
from .core.schema import Kind, Schema
from .graphs.structure import Structure
from .privacy.ledger import NO_LIMIT, Budget, Ledger, MemoryLedger
from .privacy.private import Spender, bound, private_solve
from .secure import masked
from .secure.exchange import Transport, answer
from .secure.masks import Ring
from .secure.participant import Participant
from .secure.session import Phase
from .statistics.chunks import Table, chunks

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]


def silo_generator(seed: int, silo: str) -> np.random.Generator:
    """Return the randomness of one silo: it depends on the seed and its name, never on the order of the silos."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(silo.encode()),)))


@dataclass
class InProcessFederation:
    """Silos as tables `[n_rows, n_variables]` in memory, each with a state that only `local_solve` ever sees.

    With `secure`, or for an algorithm that needs it, replies are masked as they are between machines.
    """

    schema: Schema
    tables: Mapping[str, Table]
    seed: int = 0
    secure: bool = False
    run_id: str = "run"
    budget: Budget = NO_LIMIT
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    seals: Mapping[str, str] = field(default_factory=dict)
    """of the silos' rows, where they have files; a silo without one seals its table as it is in memory"""
    spec: bytes = b""
    """the packed specification of the algorithm, if it has one; else the algorithm stands for its own settings"""
    _states: dict[str, Any] = field(default_factory=dict)

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run the local solve of every silo in turn (see `Federation.exchange`)."""
        if masked.applies(algorithm, self.schema, asked=self.secure):
            units = masked.units_of(algorithm, self.schema, broadcast)
            session = masked.session_of(self.run_id, number, masked.new_attempt(), self.schema)

            def vector(silo: str) -> Ring:
                reply = self._solve(algorithm, number, silo, broadcast)
                return masked.to_ring(algorithm, reply, sparse, len(self.schema.rows), units)

            return masked.masked_round(
                algorithm, session, self.transport(_InProcessTransport(vector)), broadcast, sparse, units
            )
        replies = {silo: self._solve(algorithm, number, silo, broadcast) for silo in self.schema.silos}
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    def transport(self, usual: Transport) -> Transport:
        """Return the way that the messages of secure sums take: the usual one; a test may listen in."""
        return usual

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """Return what each silo has charged for this run, or for all on its ledger (see `Federation.charges`)."""
        return {silo: ledger.charges(run) for silo, ledger in sorted(self.ledgers.items())}

    def _solve(self, algorithm: Algorithm, number: int, silo: str, broadcast: Any) -> Any:
        if silo not in self._states:
            if masked.applies(algorithm, self.schema, asked=self.secure) and not algorithm.whole_numbers:
                masked.check_range(algorithm, self.tables[silo], self.schema, silo)
            rng = silo_generator(self.seed, silo)
            self._states[silo] = algorithm.open_silo(self.tables[silo], self.schema, silo, rng)
        if algorithm.private is None:
            self._states[silo], reply = algorithm.local_solve(self._states[silo], broadcast)
            return reply
        ledger = self.ledgers.setdefault(silo, MemoryLedger())
        spender = Spender(self.run_id, silo, ledger, self._binding(algorithm, silo, broadcast), (self.budget,))
        self._states[silo], reply = private_solve(
            algorithm, self.schema, self._states[silo], broadcast, number, spender
        )
        return reply

    def _binding(self, algorithm: Algorithm, silo: str, broadcast: Any) -> str:
        """Return what stands for all that a private answer depends on."""
        settings = self.spec or _token(algorithm)
        return bound(broadcast, settings, self.schema.in_order(), self.seals.get(silo) or table_seal(self.tables[silo]))


_SECRET = secrets.token_bytes(32)
"""of this process: a plain digest of a table could be compared with guesses"""
_TOKENS: WeakKeyDictionary[Algorithm, bytes] = WeakKeyDictionary()


def table_seal(table: Table) -> str:
    """Return what stands for the rows of `table` within this process: 64 hexadecimal digits."""
    digest = hmac.new(_SECRET, digestmod=hashlib.sha256)
    for rows in chunks(table):
        digest.update(wire.encode(rows))
    return digest.hexdigest()


def _token(algorithm: Algorithm) -> bytes:
    """Return what stands for this algorithm alone: its settings are inside its functions and cannot be compared."""
    return _TOKENS.setdefault(algorithm, secrets.token_bytes(32))


@dataclass
class _InProcessTransport:
    """Silos of a secure sum in this process: each has keys that the others do not see."""

    vector: Callable[[str], Ring]
    _participants: dict[str, Participant] = field(default_factory=dict)

    def ask(self, phase: Phase, messages: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Have every silo answer (see `secure.exchange.Transport`)."""
        answers = {}
        for silo, message in messages.items():
            self._participants[silo], answers[silo] = answer(
                self._participants.get(silo),
                phase,
                message,
                silo=silo,
                entropy=secrets.token_bytes(32),
                vector=lambda silo=silo: self.vector(silo),  # type: ignore[misc]
            )
        return answers


def learn_alone(algorithm: Algorithm, schema: Schema, table: NDArray[Any]) -> Structure:
    """Return what `algorithm` learns from the `table` of the one silo of `schema`."""
    (silo,) = schema.silos
    *_, last = rounds(algorithm, InProcessFederation(schema, {silo: table}))
    return algorithm.structure(last.server)


def federate(
    tables: Mapping[str, Table],
    variables: tuple[str, ...] | None = None,
    kind: Kind = "continuous",
    seed: int = 0,
    *,
    secure: bool = False,
) -> InProcessFederation:
    """Return the federation whose silos hold `tables`; columns are named x0, x1, ... unless `variables` says else."""
    width = next(iter(tables.values())).shape[1]
    names = variables or tuple(f"x{i}" for i in range(width))
    schema = Schema(names, {silo: table.shape[0] for silo, table in tables.items()}, kind)
    return InProcessFederation(schema, tables, seed, secure)
