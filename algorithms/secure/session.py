"""The public terms of one secure sum, to which every key and every sealed message is bound."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..core import wire
from ..errors import BadInput

MOST_SILOS = 256

Phase = Literal["advertise", "share", "mask", "unmask"]


class Aborted(Exception):  # noqa: N818 - an event, not a programming error
    """The protocol was aborted, and nothing was learned about the sum; the message says why, in one line."""


class Refused(Aborted):
    """A silo refused to continue, because answering would not be safe; the message names the silo and says why."""


@dataclass(frozen=True)
class SecureSession:
    """Who takes part in which sum. `silos` are sorted; fewer than `threshold` of them can recover nothing.

    Raises `BadInput` for fewer than 2 or more than 256 silos, for names that are not sorted and distinct, and for a
    threshold that is not above half of the silos: two disjoint groups could each be made to reveal one share, and both
    shares of a silo together undo its masks.
    """

    run: str
    round: int
    attempt: int
    silos: tuple[str, ...]
    threshold: int

    def __post_init__(self) -> None:
        """Raise `BadInput` for terms that would protect nothing."""
        n = len(self.silos)
        if not 2 <= n <= MOST_SILOS:
            raise BadInput(f"a secure sum takes 2 to {MOST_SILOS} silos: there are {n}")
        if self.silos != tuple(sorted(set(self.silos))):
            raise BadInput(f"the silos of a secure sum must be distinct and sorted: they are {', '.join(self.silos)}")
        if not n // 2 + 1 <= self.threshold <= n:
            raise BadInput(
                f"the threshold of a secure sum of {n} silos is {self.threshold}: it must be {n // 2 + 1} to {n}"
            )

    @cached_property
    def digest(self) -> bytes:
        """A hash of all terms: what keys are bound to."""
        return hashlib.sha256(wire.encode(self)).digest()

    def point(self, silo: str) -> int:
        """Return where the sharing polynomials are evaluated for `silo`: 1 to n."""
        return self.silos.index(silo) + 1


def default_threshold(silos: int) -> int:
    """Return the threshold for a number of silos: more than two thirds of them, and at least 2."""
    return min(silos, max(2, 2 * silos // 3 + 1))
