"""The settings of a privacy promise, their checks, and the promise they make: the same for every private algorithm."""

from dataclasses import dataclass, replace
from typing import Self

from ..core.promise import NO_SEED, SEEDED, Promise, ReplaceOne
from ..core.schema import Schema
from ..errors import require
from .shares import delta_for
from .zcdp import Accounting, budget


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
