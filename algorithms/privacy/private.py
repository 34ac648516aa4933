"""The private part of an algorithm, and a silo's solve with it: reserve, draw, reply, in this order and no other.

The settings of a privacy promise, their checks, and the promise they make: the same for every private algorithm.
"""

import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import Any, Self

from ..core import wire
from ..core.promise import NO_SEED, SEEDED, Promise, ReplaceOne
from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from ..errors import require
from .ledger import Budget, ChargeRequest, Ledger
from .zcdp import Accounting, budget, delta_for


@dataclass(frozen=True)
class Spender:
    """Who answers in a round, and the ledger and budgets it answers with.

    `binding` stands for all that the answer depends on: broadcast, settings, schema and rows (see `bound`).
    """

    run: str
    silo: str
    ledger: Ledger
    binding: str
    budgets: tuple[Budget, ...] = ()


def binding_digest(*parts: object) -> str:
    """Return what stands for all `parts` together, which `wire` can encode: 64 hexadecimal digits."""
    return hashlib.sha256(wire.encode(parts)).hexdigest()


def private_solve(
    algorithm: FederatedAlgorithm[Any, Any, Any, Any],
    schema: Schema,
    state: Any,
    broadcast: Any,
    number: int,
    spender: Spender,
) -> tuple[Any, Any]:
    """Return what `algorithm.local_solve` returns, its noise paid for first.

    Raises `Overspent` before any noise is drawn.
    """
    private = algorithm.private
    if private is None:
        return algorithm.local_solve(state, broadcast)
    releases = private.releases(state, broadcast)
    if not releases:
        return algorithm.local_solve(state, broadcast)
    request = ChargeRequest(
        run=spender.run,
        number=number,
        binding=spender.binding,
        releases=releases,
        promise=private.promise(schema),
        rows=schema.rows[spender.silo],
        usual_delta=delta_for(0.0, schema),
        budgets=spender.budgets,
    )
    key = spender.ledger.reserve(request, _fresh_key(private.insecure_seed, spender.silo, number))
    return algorithm.local_solve(private.keyed(state, key), broadcast)


def _fresh_key(insecure_seed: int, silo: str, number: int) -> bytes:
    if insecure_seed == NO_SEED:
        return secrets.token_bytes(32)
    return hashlib.sha256(f"insecure noise {insecure_seed} {silo} {number}".encode()).digest()


@dataclass(frozen=True)
class PrivateSettings:
    """What an algorithm that can be private is asked to promise."""

    epsilon: float = 0.0
    """ε of the whole run; 0: replies are exact and nothing is promised"""
    delta: float = 0.0
    """δ; 0 stands for 1/n², n the rows of the smallest silo"""
    insecure_seed: int = NO_SEED
    """draw the noise from this seed, which makes the run NOT PRIVATE; -1: from the operating system"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.epsilon >= 0, "epsilon", self.epsilon, "above 0")
        require(0 <= self.delta < 1, "delta", self.delta, "between 0 and 1")
        require(self.insecure_seed >= NO_SEED, "insecure_seed", self.insecure_seed, "0 or more, or -1")

    def promising(self, epsilon: float | None, delta: float | None) -> Self:
        """Return the settings with this ε and δ; None leaves one as it is. Raises `BadInput` as the settings do."""
        return replace(
            self, epsilon=self.epsilon if epsilon is None else epsilon, delta=self.delta if delta is None else delta
        )

    def promise(
        self, schema: Schema, protects: str, accounting: Accounting = "zcdp", broken: tuple[str, ...] = ()
    ) -> Promise:
        """Return the promise to every record; `protects` says from whom, `broken` why it is none, besides a known seed.

        Raises `BadInput` for a silo of one row.
        """
        delta = delta_for(self.delta, schema)
        reasons = (*((SEEDED,) if self.insecure_seed != NO_SEED else ()), *broken)
        cost = budget(self.epsilon, delta, ReplaceOne, accounting)
        return Promise(self.epsilon, delta, cost, protects, "; ".join(reasons))


def require_private(settings: PrivateSettings) -> None:
    """Raise `BadInput` unless an ε above 0 is given: for algorithms that are private or nothing."""
    require(settings.epsilon > 0, "epsilon", settings.epsilon, "above 0")
