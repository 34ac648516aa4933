"""The private part of an algorithm, and a silo's solve with it: reserve, draw, reply, in this order and no other."""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from ..core.promise import NO_SEED
from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from .ledger import Budget, ChargeRequest, Ledger


@dataclass(frozen=True)
class Spender:
    """Who answers in a run, and the ledger and budget it answers with."""

    run: str
    silo: str
    ledger: Ledger
    budget: Budget


def private_solve(
    algorithm: FederatedAlgorithm[Any, Any, Any, Any],
    schema: Schema,
    state: Any,
    broadcast: Any,
    packed: bytes,
    number: int,
    spender: Spender,
) -> tuple[Any, Any]:
    """Return what `algorithm.local_solve` returns, its noise paid for first; `packed` is the encoded broadcast.

    Raises `Overspent` before any noise is drawn.
    """
    private = algorithm.private
    if private is None:
        return algorithm.local_solve(state, broadcast)
    releases = private.releases(state, broadcast)
    if not releases:
        return algorithm.local_solve(state, broadcast)
    digest = hashlib.sha256(packed).hexdigest()
    request = ChargeRequest(spender.run, number, digest, releases, private.promise(schema), spender.budget)
    key = spender.ledger.reserve(request, _fresh_key(private.insecure_seed, spender.silo, number))
    return algorithm.local_solve(private.keyed(state, key), broadcast)


def _fresh_key(insecure_seed: int, silo: str, number: int) -> bytes:
    if insecure_seed == NO_SEED:
        return secrets.token_bytes(32)
    return hashlib.sha256(f"insecure noise {insecure_seed} {silo} {number}".encode()).digest()
