"""What a private algorithm promises, what a release costs, and what a ledger records: the vocabulary of privacy.

`privacy/` has the rest: how costs become an ε, and how they are charged.
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

# Nobody may take seeded noise for private noise: the seed gives all of it away.
NO_SEED = -1
SEEDED = "its noise is drawn from a known seed"


class Adjacency:
    """What neighbouring tables are; a cost means nothing without it."""

    label: str


class ReplaceOne(Adjacency):
    """One record's values are replaced by any others; the number of rows is public."""

    label = "replace-one"


class AddRemove(Adjacency):
    """One record is added or left out; the number of rows is private."""

    label = "add-remove"


A = TypeVar("A", bound=Adjacency)


@dataclass(frozen=True)
class Cost(Generic[A]):
    """ρ of a release, for neighbours as `adjacency` says; costs of different adjacencies cannot be added or compared.

    An infinite ρ is a release without any guarantee. Raises `BadInput` for a ρ that is negative or not a number.
    """

    rho: float
    adjacency: type[A]

    def __post_init__(self) -> None:
        """Raise `BadInput` for a ρ that is negative or not a number."""
        require_number(self.rho >= 0, "rho", self.rho, "0 or more")

    def __add__(self, other: "Cost[A]") -> "Cost[A]":
        """The cost of both releases, rounded up. Raises `TypeError` across adjacencies."""
        self._same(other)
        infinite = math.isinf(self.rho + other.rho)
        return Cost(math.inf if infinite else at_least(Fraction(self.rho) + Fraction(other.rho)), self.adjacency)

    def __mul__(self, times: int) -> "Cost[A]":
        """The cost of as many such releases, rounded up."""
        require_number(times >= 0, "number of releases", times, "0 or more")
        if times == 0 or math.isinf(self.rho):
            return self if times else Cost(0.0, self.adjacency)
        return Cost(at_least(Fraction(self.rho) * times), self.adjacency)

    def __lt__(self, other: "Cost[A]") -> bool:
        """Tell whether this is the smaller ρ. Raises `TypeError` across adjacencies."""
        self._same(other)
        return self.rho < other.rho

    def __le__(self, other: "Cost[A]") -> bool:
        """Tell whether this ρ is no greater. Raises `TypeError` across adjacencies."""
        self._same(other)
        return self.rho <= other.rho

    def portion(self, share: float, releases: int = 1) -> "Cost[A]":
        """Return what each of `releases` may cost out of this `share` of the whole.

        Rounded down by enough that, with shares that make 1, all of them added up one by one are within the whole.
        """
        require_number(0 <= share <= 1, "share", share, "from 0 to 1")
        require_number(releases >= 1, "number of releases", releases, "1 or more")
        return Cost(self.rho * share / releases * (1 - 8 * (releases + 1) * ULP), self.adjacency)

    def _same(self, other: "Cost[A]") -> None:
        if self.adjacency is not other.adjacency:
            labels = f"{self.adjacency.label} and {other.adjacency.label}"
            raise TypeError(f"costs for different neighbours do not mix: {labels}")


def no_cost(adjacency: type[A]) -> Cost[A]:
    """The cost of releasing nothing."""
    return Cost(0.0, adjacency)


@dataclass(frozen=True)
class Release:
    """Something that a silo is about to release, and its cost."""

    what: str
    cost: Cost[ReplaceOne]


@dataclass(frozen=True)
class Promise:
    """What a run promises to every record of a silo: (ε, δ), and the ρ it may spend for that.

    `broken` says why nothing is promised at all, "" otherwise: such a run is NOT PRIVATE wherever it is shown.
    """

    epsilon: float
    delta: float
    cost: Cost[ReplaceOne]
    protects: str
    """from whom the promise protects"""
    broken: str = ""


@dataclass(frozen=True)
class Charge:
    """One line of a ledger: a reserved round, what it released and cost, and the key of its noise.

    `binding` stands for what the round answers and from which rows; the key is empty once the run is over. Neither
    leaves the silo.
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
    """What makes an algorithm private: a promise, and the cost of every reply before it is made."""

    promise: Callable[[Schema], Promise]
    releases: Callable[[Silo, Broadcast], tuple[Release, ...]]
    """what `local_solve` is about to release: from the settings and what is public alone, never from the rows"""
    keyed: Callable[[Silo, bytes], Silo]
    """the state with the 32 bytes from which this round's noise is drawn"""
    insecure_seed: int = NO_SEED
    tight: Callable[[Schema], float | None] = lambda schema: None
    """an ε for the whole run by tight accounting, at most that of zCDP; None: there is only zCDP"""


def at_least(exact: Fraction) -> float:
    """The smallest float that is no less than `exact`."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
