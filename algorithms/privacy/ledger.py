"""The privacy ledger of a silo: every release is charged before its noise is drawn.

A run promises (ε, δ) to every record of every silo; the silo holds it to that. A round's releases are reserved first:
their cost is charged whether or not the round then succeeds, and a reservation that would go beyond what the run
promised, or beyond the budget of the data set over all runs, is refused before any noise exists. With the charge goes a
key from which the round's noise is drawn: who repeats the round, after a crash, draws the same noise again, which
releases nothing new and so costs nothing new. The same round for another broadcast, with other settings or from other
rows would be a second release under the same noise, whose difference from the first has none: it is refused.

The private part of an algorithm, and a silo's solve with it: reserve, draw, reply, in this order and no other.

The settings of a privacy promise, their checks, and the promise they make: the same for every private algorithm.
"""

import hashlib
import math
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from ..core import wire
from ..core.promise import NO_SEED, SEEDED, Charge, Cost, Promise, Release, ReplaceOne, no_cost
from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from ..errors import BadInput, require, require_number
from .zcdp import Accounting, budget, delta_for, epsilon, rho_for

# Costs are added up in floating point; a plan that fills its budget exactly must not fail by the last bit.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """The most that all runs on a silo's rows may spend together; ε = ∞ is no limit.

    It is kept in ρ, the greatest whose ε at the budget's own δ is within it, whatever δ a run is asked with. Raises
    `BadInput` for an ε that is not above 0, and for a δ that is not from 0 to below 1.
    """

    epsilon: float = math.inf
    delta: float = 0.0
    """0 stands for 1/n², n the rows of the silo"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for an ε or a δ out of its range."""
        require_number(0 <= self.delta < 1, "delta of the budget", self.delta, "from 0 to below 1")
        require_number(self.epsilon > 0, "epsilon of the budget", self.epsilon, "above 0")

    def delta_of(self, rows: int) -> float:
        """The budget's δ at a silo of so many rows."""
        return self.delta or 1.0 / rows**2

    def cost(self, rows: int) -> Cost[ReplaceOne]:
        """The most that may be spent at a silo of so many rows, rounded down."""
        if math.isinf(self.epsilon):
            return Cost(math.inf, ReplaceOne)
        return Cost(rho_for(self.epsilon, self.delta_of(rows)), ReplaceOne)


NO_LIMIT = Budget()


@dataclass(frozen=True)
class ChargeRequest:
    """One round's releases, as a silo of `rows` rows asks its ledger for them, and the budgets that they are to keep.

    `binding` stands for the broadcast they answer, the settings, the schema and the rows. `usual_delta` is the δ of a
    run that was asked for none.
    """

    run: str
    number: int
    binding: str
    releases: tuple[Release, ...]
    promise: Promise
    rows: int
    usual_delta: float
    budgets: tuple[Budget, ...] = ()

    @property
    def cost(self) -> Cost[ReplaceOne]:
        """The cost of all releases; ∞ where the promise is broken: their noise hides nothing."""
        if self.promise.broken:
            return Cost(math.inf, ReplaceOne)
        return total(release.cost for release in self.releases)


class Overspent(BadInput):
    """Raised instead of drawing noise: the release would cost more than is left."""


class Ledger(Protocol):
    """Where a silo writes its charges."""

    def reserve(self, request: ChargeRequest, key: bytes) -> bytes:
        """Charge `request` with `key` for its noise, or return the key of the same request charged before.

        Raises `Overspent`, and charges nothing, if it would cost more than is left.
        """
        ...

    def charges(self, run: str | None = None) -> tuple[Charge, ...]:
        """The charges of `run`, or all."""
        ...

    def finish(self, run: str) -> None:
        """Erase the keys of the noise of `run`, which is over; its charges stay."""
        ...


class MemoryLedger:
    """A ledger that ends with the process: for tables that are nobody's file."""

    def __init__(self) -> None:
        """Start with nothing spent."""
        self._charges: list[Charge] = []

    def reserve(self, request: ChargeRequest, key: bytes) -> bytes:
        """Charge `request` (see `Ledger`)."""
        decided = decide(self.charges(), request, key)
        if decided not in self._charges:
            self._charges.append(decided)
        return decided.key

    def charges(self, run: str | None = None) -> tuple[Charge, ...]:
        """The charges of `run`, or all."""
        return tuple(charge for charge in self._charges if run in (None, charge.run))

    def require(self, charged: set[tuple[str, int]]) -> None:
        """Do nothing: what is in memory together with the journal cannot be lost without it."""

    def finish(self, run: str) -> None:
        """Erase the keys of `run` (see `Ledger`)."""
        self._charges = [replace(one, key=b"") if one.run == run else one for one in self._charges]


def decide(
    charges: tuple[Charge, ...], request: ChargeRequest, key: bytes, elsewhere: tuple[Charge, ...] = ()
) -> Charge:
    """The charge for `request`: the one made before, or a new one that uses `key`.

    `elsewhere` are charges on the same rows in other ledgers. Raises `Overspent` if the run or all runs together would
    spend too much, if its δ is above that of a budget, or if the round was charged for anything else or is over.
    """
    for charge in charges:
        if (charge.run, charge.number) == (request.run, request.number):
            return _charged_before(charge, request)
    run = total(Cost(charge.rho, ReplaceOne) for charge in charges if charge.run == request.run) + request.cost
    _refuse_over(run, request.promise.cost, request)
    others = [charge for charge in charges if charge.run != request.run]
    spent_before = total(Cost(charge.rho, ReplaceOne) for charge in (*others, *elsewhere))
    # The run is held to the budget with all it may yet spend: better refused in its first round than in its last.
    for limit in request.budgets:
        _refuse_over_budget(spent_before + max(run, request.promise.cost), request, limit)
    what = "; ".join(release.what for release in request.releases)
    promise = request.promise
    return Charge(
        request.run, request.number, request.binding, what, request.cost.rho, promise.delta, promise.broken, key
    )


def total(costs: Iterable[Cost[ReplaceOne]]) -> Cost[ReplaceOne]:
    """The cost of all releases together."""
    return sum(costs, no_cost(ReplaceOne))


def spent(charges: Iterable[Charge], delta: float) -> float:
    """The ε at `delta` of all `charges` together: 0 for none."""
    return epsilon(total(Cost(charge.rho, ReplaceOne) for charge in charges), delta)


def _charged_before(charge: Charge, request: ChargeRequest) -> Charge:
    """The charge of this round if it was made for just this request."""
    if charge.binding != request.binding:
        raise Overspent(
            f"round {request.number} of run {request.run} was charged for another broadcast, other settings or other "
            "rows: answering this one too would be a second release under the same noise"
        )
    if not charge.key:
        raise Overspent(f"round {request.number} of run {request.run} is over, and its noise erased: begin a new run")
    return charge


def _refuse_over(cost: Cost[ReplaceOne], allowed: Cost[ReplaceOne], request: ChargeRequest) -> None:
    if not request.promise.broken and cost.rho > allowed.rho * (1 + ROUNDING):
        raise Overspent(
            f"round {request.number} would bring what the run has spent to ρ = {cost.rho:.6g}, above the "
            f"{allowed.rho:.6g} that its ε = {request.promise.epsilon:g} allows: refused before any noise was drawn"
        )


def _refuse_over_budget(cost: Cost[ReplaceOne], request: ChargeRequest, budget: Budget) -> None:
    if math.isinf(budget.epsilon):
        return
    most = budget.delta or request.usual_delta
    if request.promise.delta > most:
        raise Overspent(
            f"round {request.number}: the run's δ = {request.promise.delta:.3g} is above the {most:.3g} that the "
            "budget allows: refused before any noise was drawn"
        )
    delta = budget.delta_of(request.rows)
    if cost.rho > budget.cost(request.rows).rho * (1 + ROUNDING):
        raise Overspent(
            f"round {request.number}: with what this run may spend, all runs on these rows come to "
            f"ε = {epsilon(cost, delta):.4g} at the budget's δ = {delta:.3g}, above the budget of {budget.epsilon:g}: "
            "refused before any noise was drawn"
        )


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
        """The settings with this ε and δ; None leaves one as it is. Raises `BadInput` as the settings do."""
        return replace(
            self, epsilon=self.epsilon if epsilon is None else epsilon, delta=self.delta if delta is None else delta
        )

    def promise(
        self, schema: Schema, protects: str, accounting: Accounting = "zcdp", broken: tuple[str, ...] = ()
    ) -> Promise:
        """The promise to every record; `protects` says from whom, `broken` why it is none, besides a known seed.

        Raises `BadInput` for a silo of one row.
        """
        delta = delta_for(self.delta, schema)
        reasons = (*((SEEDED,) if self.insecure_seed != NO_SEED else ()), *broken)
        cost = budget(self.epsilon, delta, ReplaceOne, accounting)
        return Promise(self.epsilon, delta, cost, protects, "; ".join(reasons))


def require_private(settings: PrivateSettings) -> None:
    """Raise `BadInput` unless an ε above 0 is given: for algorithms that are private or nothing."""
    require(settings.epsilon > 0, "epsilon", settings.epsilon, "above 0")
