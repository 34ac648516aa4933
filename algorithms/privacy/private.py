"""The private part of an algorithm, and a silo's solve with it: reserve, draw, reply, in this order and no other."""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .ledger import Budget, Ledger, Promise, Release, Request

if TYPE_CHECKING:
    from ..core.protocol import FederatedAlgorithm, Schema

Silo = TypeVar("Silo")
Broadcast = TypeVar("Broadcast")

# Nobody may take seeded noise for private noise: the seed gives all of it away.
NO_SEED = -1
SEEDED = "its noise is drawn from a known seed"


@dataclass(frozen=True)
class Private(Generic[Silo, Broadcast]):
    """What makes an algorithm private: a promise, and a price for every reply before it is made."""

    promise: "Callable[[Schema], Promise]"
    releases: Callable[[Silo, Broadcast], tuple[Release, ...]]
    """what `local_solve` is about to release: from the settings and what is public alone, never from the rows"""
    keyed: Callable[[Silo, bytes], Silo]
    """the state with the 32 bytes from which this round's noise is drawn"""
    insecure_seed: int = NO_SEED
    tight: "Callable[[Schema], float | None]" = lambda schema: None
    """an ε that the whole run keeps to, by tight accounting: at most what zCDP says; None: zCDP is all there is"""


@dataclass(frozen=True)
class Spender:
    """Who answers in a run, and the ledger and budget it answers with."""

    run: str
    silo: str
    ledger: Ledger
    budget: Budget


def private_solve(
    algorithm: "FederatedAlgorithm[Any, Any, Any, Any]",
    schema: "Schema",
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
    request = Request(spender.run, number, digest, releases, private.promise(schema), spender.budget)
    key = spender.ledger.reserve(request, _fresh_key(private.insecure_seed, spender.silo, number))
    return algorithm.local_solve(private.keyed(state, key), broadcast)


def _fresh_key(insecure_seed: int, silo: str, number: int) -> bytes:
    if insecure_seed == NO_SEED:
        return secrets.token_bytes(32)
    return hashlib.sha256(f"insecure noise {insecure_seed} {silo} {number}".encode()).digest()
