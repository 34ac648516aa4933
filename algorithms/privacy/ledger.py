"""The privacy ledger of a silo: every release is charged before its noise is drawn.

A run promises (ε, δ) to every record of every silo, and each silo enforces this promise. A round's releases are
reserved first: their cost is charged even if the round fails afterwards. A reservation that exceeds the promise of the
run, or the budget of all runs on the rows, is refused before any noise is drawn. The charge includes the key of the
round's noise. If the round is repeated after a crash, the same noise is drawn again, so nothing new is released or
charged. A request for the same round with another broadcast, other settings or other rows is refused, because its
answer would be a second release under the same noise, and the difference of the two releases would have no noise.

In order: budgets and ledgers, the decision on a charge (`decide`), a silo's solve of a private algorithm
(`private_solve`: reserve, draw, reply, always in this order), and the privacy settings of all private algorithms
(`PrivateSettings`).
"""

import hashlib
import math
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Protocol, Self

import numpy as np
from annotated_types import Ge

from ..core import wire
from ..core.promise import NO_SEED, SEEDED, Charge, Cost, Promise, Release, ReplaceOne, no_cost
from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from ..core.settings import NonNegative, Settings, ShareOrNone
from ..errors import BadInput, require_number
from .zcdp import Accounting, budget, delta_for, epsilon, rho_for

# Costs are summed in floating point; a plan that uses its budget exactly must not fail by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """The privacy budget of all runs on a silo's rows together; ε = ∞ means that there is no limit.

    The budget is enforced in ρ, independently of the δ of a run: all runs together may spend the largest ρ whose ε, at
    the budget's δ, is within the budget. Raises `BadInput` unless ε is above 0 and 0 ≤ δ < 1.
    """

    epsilon: float = math.inf
    delta: float = 0.0
    """δ of the budget; 0 means 1/n² for the n rows of the silo"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for an ε or a δ out of its range."""
        require_number(0 <= self.delta < 1, "delta of the budget", self.delta, "from 0 to below 1")
        require_number(self.epsilon > 0, "epsilon of the budget", self.epsilon, "above 0")

    def delta_of(self, rows: int) -> float:
        """The budget's δ at a silo with this number of `rows`."""
        return self.delta or 1.0 / rows**2

    def cost(self, rows: int) -> Cost[ReplaceOne]:
        """The maximum cost at a silo with this number of `rows`, rounded down."""
        if math.isinf(self.epsilon):
            return Cost(math.inf, ReplaceOne)
        return Cost(rho_for(self.epsilon, self.delta_of(rows)), ReplaceOne)


NO_LIMIT = Budget()


@dataclass(frozen=True)
class ChargeRequest:
    """A request by a silo with `rows` rows to charge the releases of one round within `budgets`.

    `binding` is a digest of the broadcast, the settings, the schema and the rows. `default_delta` is the default δ of a
    run on this schema.
    """

    run: str
    number: int
    binding: str
    releases: tuple[Release, ...]
    promise: Promise
    rows: int
    default_delta: float
    budgets: tuple[Budget, ...] = ()

    @property
    def cost(self) -> Cost[ReplaceOne]:
        """The cost of all releases; ∞ if the promise is broken, because then the noise hides nothing."""
        if self.promise.broken:
            return Cost(math.inf, ReplaceOne)
        return total(release.cost for release in self.releases)


class Overspent(BadInput):
    """A charge was refused, before any noise was drawn: it would exceed a budget, or repeat a round differently."""


class Ledger(Protocol):
    """The record of a silo's charges."""

    def reserve(self, request: ChargeRequest, key: bytes) -> bytes:
        """Charge `request`, with `key` for its noise; returns `key`, or the key of an earlier charge for this request.

        Raises `Overspent`, without a charge, as `decide` does.
        """
        ...

    def charges(self, run: str | None = None) -> tuple[Charge, ...]:
        """The charges of `run`; all charges if `run` is None."""
        ...

    def finish(self, run: str) -> None:
        """Erase the noise keys of the finished `run`; its charges remain."""
        ...


class MemoryLedger:
    """A ledger in memory, which ends with the process, for tables in memory."""

    def __init__(self) -> None:
        self._charges: list[Charge] = []

    def reserve(self, request: ChargeRequest, key: bytes) -> bytes:
        """Charge `request` (see `Ledger`)."""
        decided = decide(self.charges(), request, key)
        if decided not in self._charges:
            self._charges.append(decided)
        return decided.key

    def charges(self, run: str | None = None) -> tuple[Charge, ...]:
        """The charges of `run`; all charges if `run` is None."""
        return tuple(charge for charge in self._charges if run in (None, charge.run))

    def require(self, charged: set[tuple[str, int]]) -> None:
        """Do nothing: ledger and journal are in the same memory and can only be lost together."""

    def finish(self, run: str) -> None:
        """Erase the keys of `run` (see `Ledger`)."""
        self._charges = [replace(one, key=b"") if one.run == run else one for one in self._charges]


def decide(
    charges: tuple[Charge, ...], request: ChargeRequest, key: bytes, other_ledgers: tuple[Charge, ...] = ()
) -> Charge:
    """The charge for `request`: the existing one, or a new one that uses `key`.

    `other_ledgers` are charges on the same rows in other ledgers. Raises `Overspent` if the run would exceed its
    promise, if all runs together would exceed a budget, if the δ of the run is above the δ that a budget allows, if the
    round was charged with another binding, or if the noise key of the round has been erased.
    """
    for charge in charges:
        if (charge.run, charge.number) == (request.run, request.number):
            return _charge_of_resumed_run(charge, request)
    run = total(Cost(charge.rho, ReplaceOne) for charge in charges if charge.run == request.run) + request.cost
    _check_budget(run, request.promise.cost, request)
    others = [charge for charge in charges if charge.run != request.run]
    spent_before = total(Cost(charge.rho, ReplaceOne) for charge in (*others, *other_ledgers))
    # The full promise of the run must fit the budget. A run that would exceed it later is refused in its first round.
    for limit in request.budgets:
        _refuse_over_budget(spent_before + max(run, request.promise.cost), request, limit)
    what = "; ".join(release.what for release in request.releases)
    promise = request.promise
    return Charge(
        request.run, request.number, request.binding, what, request.cost.rho, promise.delta, promise.broken, key
    )


def total(costs: Iterable[Cost[ReplaceOne]]) -> Cost[ReplaceOne]:
    """The sum of `costs`."""
    return sum(costs, no_cost(ReplaceOne))


def spent(charges: Iterable[Charge], delta: float) -> float:
    """The ε of all `charges` together, at `delta`; 0 if there are no charges."""
    return epsilon(total(Cost(charge.rho, ReplaceOne) for charge in charges), delta)


def _charge_of_resumed_run(charge: Charge, request: ChargeRequest) -> Charge:
    """The earlier `charge` of this round; raises `Overspent` if it was made for another request, or has no key left."""
    if charge.binding != request.binding:
        raise Overspent(
            f"round {request.number} of run {request.run} was charged for another broadcast, other settings or other "
            "rows: another answer would be a second release under the same noise"
        )
    if not charge.key:
        raise Overspent(f"round {request.number} of run {request.run} is over, and its noise erased: start a new run")
    return charge


def _check_budget(cost: Cost[ReplaceOne], allowed: Cost[ReplaceOne], request: ChargeRequest) -> None:
    if not request.promise.broken and cost.rho > allowed.rho * (1 + ROUNDING):
        raise Overspent(
            f"round {request.number} would increase the cost of the run to ρ = {cost.rho:.6g}, above the "
            f"{allowed.rho:.6g} that its ε = {request.promise.epsilon:g} allows: refused before any noise was drawn"
        )


def _refuse_over_budget(cost: Cost[ReplaceOne], request: ChargeRequest, budget: Budget) -> None:
    if math.isinf(budget.epsilon):
        return
    allowed_delta = budget.delta or request.default_delta
    if request.promise.delta > allowed_delta:
        raise Overspent(
            f"round {request.number}: the run's δ = {request.promise.delta:.3g} is above the {allowed_delta:.3g} that "
            "the budget allows: refused before any noise was drawn"
        )
    delta = budget.delta_of(request.rows)
    if cost.rho > budget.cost(request.rows).rho * (1 + ROUNDING):
        raise Overspent(
            f"round {request.number}: including this run, all runs on these rows would spend "
            f"ε = {epsilon(cost, delta):.4g} at the budget's δ = {delta:.3g}, above the budget of {budget.epsilon:g}: "
            "refused before any noise was drawn"
        )


@dataclass(frozen=True)
class Spender:
    """The silo that answers in a round, with its ledger and budgets.

    `binding` is a digest of all inputs of the answer: broadcast, settings, schema and rows (see `binding_digest`).
    """

    run: str
    silo: str
    ledger: Ledger
    binding: str
    budgets: tuple[Budget, ...] = ()


def binding_digest(*parts: object) -> str:
    """A SHA-256 digest of all `parts`, which `wire` must be able to encode: 64 hexadecimal digits."""
    return hashlib.sha256(wire.encode(parts)).hexdigest()


MAX_BROADCAST = 1e30
"""the largest absolute value that a private run may broadcast"""


def require_bounded(broadcast: Any, *, private: bool = False) -> None:
    """Raise `BadInput` for a number in `broadcast` that is not finite or, in a `private` run, beyond ±`MAX_BROADCAST`.

    No algorithm broadcasts such a number. With one, compiled code may read outside its arrays, and LAPACK may not end.
    In a private run, records are clipped, but the product of a huge weight and the values of one record may overflow,
    and the product with another record may not. Then the reply would disclose, by being finite or not, which record is
    in the table, regardless of the noise.
    """
    if is_dataclass(broadcast) and not isinstance(broadcast, type):
        for one in fields(broadcast):
            require_bounded(getattr(broadcast, one.name), private=private)
    elif isinstance(broadcast, Mapping):
        for value in broadcast.values():
            require_bounded(value, private=private)
    elif isinstance(broadcast, list | tuple):
        for value in broadcast:
            require_bounded(value, private=private)
    elif _is_beyond(broadcast, MAX_BROADCAST if private else sys.float_info.max):
        raise BadInput(
            f"a broadcast of a private run must have finite numbers of at most {MAX_BROADCAST:g}"
            if private
            else "a broadcast must have finite numbers"
        )


def _is_beyond(value: Any, limit: float) -> bool:
    is_float = isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
    return is_float and not bool((np.abs(value) <= limit).all())


def private_solve(
    algorithm: FederatedAlgorithm[Any, Any, Any, Any],
    schema: Schema,
    state: Any,
    broadcast: Any,
    number: int,
    spender: Spender,
) -> tuple[Any, Any]:
    """(state, reply) of `algorithm.local_solve`, with its noise charged to the ledger first.

    Raises `Overspent`, before any noise is drawn, if the ledger refuses the charge.
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
        default_delta=delta_for(0.0, schema),
        budgets=spender.budgets,
    )
    key = spender.ledger.reserve(request, _fresh_key(private.insecure_seed, spender.silo, number))
    return algorithm.local_solve(private.with_key(state, key), broadcast)


def _fresh_key(insecure_seed: int, silo: str, number: int) -> bytes:
    if insecure_seed == NO_SEED:
        return secrets.token_bytes(32)
    return hashlib.sha256(f"insecure noise {insecure_seed} {silo} {number}".encode()).digest()


@dataclass(frozen=True)
class PrivateSettings(Settings):
    """The privacy settings of an algorithm that can be private."""

    epsilon: NonNegative = 0.0
    """ε of the whole run; 0: exact replies without a privacy guarantee"""
    delta: ShareOrNone = 0.0
    """δ of the whole run; 0: 1/n² for the n rows of the smallest silo"""
    insecure_seed: Annotated[int, Ge(NO_SEED)] = NO_SEED
    """draw the noise from this seed, which makes the run NOT PRIVATE; -1: noise from the operating system"""

    def with_budget(self, epsilon: float | None, delta: float | None) -> Self:
        """The settings with this ε and δ; None keeps the current value. Raises `BadInput` for a value out of range."""
        return replace(
            self, epsilon=self.epsilon if epsilon is None else epsilon, delta=self.delta if delta is None else delta
        )

    def promise(
        self, schema: Schema, protects: str, accounting: Accounting = "zcdp", broken: tuple[str, ...] = ()
    ) -> Promise:
        """The promise to every record.

        `protects` states against whom records are protected. `broken` has the reasons, other than a known seed, why
        there is no guarantee. Raises `BadInput` for a silo of one row.
        """
        delta = delta_for(self.delta, schema)
        reasons = (*((SEEDED,) if self.insecure_seed != NO_SEED else ()), *broken)
        cost = budget(self.epsilon, delta, ReplaceOne, accounting)
        return Promise(self.epsilon, delta, cost, protects, "; ".join(reasons))
