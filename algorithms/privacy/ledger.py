"""The privacy ledger of a silo: every release is charged before its noise is drawn.

A run promises (ε, δ) to every record of every silo; the silo holds it to that. A round's releases are reserved first:
their cost is charged whether or not the round then succeeds, and a reservation that would go beyond what the run
promised, or beyond the budget of the data set over all runs, is refused before any noise exists. With the charge goes a
key from which the round's noise is drawn: who repeats the round, after a crash, draws the same noise again, which
releases nothing new and so costs nothing new. The same round for another broadcast would be a second release under the
same noise: it is refused.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from ..core.promise import Charge, Cost, Promise, Release, ReplaceOne, nothing
from ..errors import BadInput
from .zcdp import epsilon

# Costs are added up in floating point; a plan that fills its budget exactly must not fail by the last bit.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """The most that all runs on a silo's data may spend together; ε = ∞ is no limit."""

    epsilon: float = math.inf


@dataclass(frozen=True)
class ChargeRequest:
    """One round's releases, as a silo asks its ledger for them. `digest` stands for the broadcast they answer."""

    run: str
    number: int
    digest: str
    releases: tuple[Release, ...]
    promise: Promise
    budget: Budget = field(default_factory=Budget)

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
        """Return the charges of `run`, or all."""
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
        """Return the charges of `run`, or all."""
        return tuple(charge for charge in self._charges if run in (None, charge.run))


def decide(charges: tuple[Charge, ...], request: ChargeRequest, key: bytes) -> Charge:
    """Return the charge for `request`: the one made before, or a new one that uses `key`.

    Raises `Overspent` if the run or all runs together would spend too much, or if the round was charged for another
    broadcast.
    """
    for charge in charges:
        if (charge.run, charge.number) == (request.run, request.number):
            if charge.digest != request.digest:
                raise Overspent(
                    f"round {request.number} of run {request.run} was charged for another broadcast: "
                    "answering this one too would be a second release"
                )
            return charge
    run = total(Cost(charge.rho, ReplaceOne) for charge in charges if charge.run == request.run) + request.cost
    _refuse_over(run, request.promise.cost, request)
    others = total(Cost(charge.rho, ReplaceOne) for charge in charges if charge.run != request.run)
    # The run is held to the budget with all it may yet spend: better refused in its first round than in its last.
    _refuse_over_budget(others + max(run, request.promise.cost), request)
    what = "; ".join(release.what for release in request.releases)
    promise = request.promise
    return Charge(
        request.run, request.number, request.digest, what, request.cost.rho, promise.delta, promise.broken, key
    )


def total(costs: Iterable[Cost[ReplaceOne]]) -> Cost[ReplaceOne]:
    """Return the cost of all releases together."""
    return sum(costs, nothing(ReplaceOne))


def spent(charges: Iterable[Charge], delta: float) -> float:
    """Return the ε at `delta` of all `charges` together: 0 for none."""
    return epsilon(total(Cost(charge.rho, ReplaceOne) for charge in charges), delta)


def _refuse_over(cost: Cost[ReplaceOne], allowed: Cost[ReplaceOne], request: ChargeRequest) -> None:
    if not request.promise.broken and cost.rho > allowed.rho * (1 + ROUNDING):
        raise Overspent(
            f"round {request.number} would bring what the run has spent to ρ = {cost.rho:.6g}, above the "
            f"{allowed.rho:.6g} that its ε = {request.promise.epsilon:g} allows: refused before any noise was drawn"
        )


def _refuse_over_budget(cost: Cost[ReplaceOne], request: ChargeRequest) -> None:
    if math.isinf(request.budget.epsilon):
        return
    after = epsilon(cost, request.promise.delta)
    if after > request.budget.epsilon * (1 + ROUNDING):
        raise Overspent(
            f"round {request.number}: with what this run may spend, all runs on these rows come to ε = {after:.4g}, "
            f"above the budget of {request.budget.epsilon:g}: refused before any noise was drawn"
        )
