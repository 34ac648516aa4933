"""The private part of an algorithm, and a silo's solve with it: reserve, draw, reply, in this order and no other."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from ..core import wire
from ..core.promise import NO_SEED
from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from .ledger import Budget, ChargeRequest, Ledger
from .shares import delta_for


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


def bound(*parts: object) -> str:
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
