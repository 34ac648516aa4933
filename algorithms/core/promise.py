"""Types for privacy accounting: the promise of a private algorithm, the cost of a release, and a charge in a ledger.

`privacy/` converts costs to an ε (`zcdp`, `tight`) and charges them (`ledger`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from ..errors import require_number
from .schema import Schema

ULP = 2.0**-52

Silo = TypeVar("Silo")
Broadcast = TypeVar("Broadcast")

# Seeded noise is not private: anyone with the seed can reproduce it.
NO_SEED = -1
SEEDED = "its noise is drawn from a known seed"


class Adjacency:
    """A definition of neighbouring tables; a cost is meaningful only together with such a definition."""

    label: str


class ReplaceOne(Adjacency):
    """One record's values are replaced by any others; the number of rows is public."""

    label = "replace-one"


class AddRemove(Adjacency):
    """One record is added or removed; the number of rows is private."""

    label = "add-remove"


A = TypeVar("A", bound=Adjacency)


@dataclass(frozen=True)
class Cost(Generic[A]):
    """The ρ of a release in zCDP, for neighbouring tables as defined by `adjacency`.

    Only costs of the same adjacency can be added and compared. A release with an infinite ρ has no guarantee. Raises
    `BadInput` for a ρ that is negative or not a number.
    """

    rho: float
    adjacency: type[A]

    def __post_init__(self) -> None:
        """Raise `BadInput` for a ρ that is negative or not a number."""
        require_number(self.rho >= 0, "rho", self.rho, "0 or more")

    def __add__(self, other: "Cost[A]") -> "Cost[A]":
        """The cost of both releases together, rounded up. Raises `TypeError` if the adjacencies differ."""
        self._same(other)
        infinite = math.isinf(self.rho + other.rho)
        return Cost(math.inf if infinite else round_up(Fraction(self.rho) + Fraction(other.rho)), self.adjacency)

    def __mul__(self, times: int) -> "Cost[A]":
        """The cost of `times` such releases, rounded up."""
        require_number(times >= 0, "number of releases", times, "0 or more")
        if times == 0 or math.isinf(self.rho):
            return self if times else Cost(0.0, self.adjacency)
        return Cost(round_up(Fraction(self.rho) * times), self.adjacency)

    def __lt__(self, other: "Cost[A]") -> bool:
        """Whether this ρ is smaller. Raises `TypeError` if the adjacencies differ."""
        self._same(other)
        return self.rho < other.rho

    def __le__(self, other: "Cost[A]") -> bool:
        """Whether this ρ is not greater. Raises `TypeError` if the adjacencies differ."""
        self._same(other)
        return self.rho <= other.rho

    def portion(self, share: float, releases: int = 1) -> "Cost[A]":
        """The cost of each of `releases` releases if together they may cost this `share` of the whole.

        The cost is rounded down, so that, if the shares sum to 1, the floating-point sum of all portions does not
        exceed the whole.
        """
        require_number(0 <= share <= 1, "share", share, "from 0 to 1")
        require_number(releases >= 1, "number of releases", releases, "1 or more")
        return Cost(self.rho * share / releases * (1 - 8 * (releases + 1) * ULP), self.adjacency)

    def _same(self, other: "Cost[A]") -> None:
        if self.adjacency is not other.adjacency:
            labels = f"{self.adjacency.label} and {other.adjacency.label}"
            raise TypeError(f"costs of different adjacencies cannot be combined: {labels}")


def no_cost(adjacency: type[A]) -> Cost[A]:
    """The cost of releasing nothing."""
    return Cost(0.0, adjacency)


@dataclass(frozen=True)
class Release:
    """A planned release of a silo, and its cost."""

    what: str
    cost: Cost[ReplaceOne]


@dataclass(frozen=True)
class Promise:
    """The promise of a run to every record of a silo: (ε, δ), and the cost (ρ) that the run may spend.

    `broken` is the reason why the run has no privacy guarantee, or "" if it has one. Every output marks a run
    with a broken promise as NOT PRIVATE.
    """

    epsilon: float
    delta: float
    cost: Cost[ReplaceOne]
    protects: str
    """the parties against whom the promise protects"""
    broken: str = ""


@dataclass(frozen=True)
class Charge:
    """One line of a ledger: a reserved round, its releases and cost, and the key of its noise.

    `binding` is a digest of the round's inputs and rows. `key` is empty after the end of the run. `binding` and `key`
    never leave the silo.
    """

    run: str
    number: int
    binding: str = field(repr=False)
    what: str
    rho: float
    delta: float
    broken: str
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Private(Generic[Silo, Broadcast]):
    """The private part of an algorithm: its promise, and the cost of each reply, known before the reply is computed."""

    promise: Callable[[Schema], Promise]
    releases: Callable[[Silo, Broadcast], tuple[Release, ...]]
    """the releases of the next `local_solve`, computed from settings and public facts, never from the rows"""
    with_key: Callable[[Silo, bytes], Silo]
    """(state, key) -> the state with the 32-byte key of this round's noise"""
    insecure_seed: int = NO_SEED
    tight: Callable[[Schema], float | None] = lambda schema: None
    """schema -> an ε of the whole run by tight accounting, at most the ε of zCDP; None if only zCDP applies"""


def round_up(exact: Fraction) -> float:
    """The smallest float that is not less than `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
