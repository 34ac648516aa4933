"""What is known of a graph before anything is learned: edges it has, and edges it cannot have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, shown
from ..graphs.dag import find_cycle

Arc = tuple[str, str]
"""(cause, effect)"""


@dataclass(frozen=True)
class Knowledge:
    """Arcs that every learned graph must have, and arcs that none may have; both public.

    Raises `BadInput` for an arc that is both, for one from a variable to itself, and for required arcs that form a
    cycle: nothing that contradicts itself can be imposed.
    """

    required: tuple[Arc, ...] = ()
    forbidden: tuple[Arc, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself, by name."""
        both = sorted(set(self.required) & set(self.forbidden))
        if both:
            raise BadInput(f"background knowledge: {arrow(both[0])} is both required and forbidden")
        for source, target in (*self.required, *self.forbidden):
            if source == target:
                raise BadInput(f"background knowledge: {arrow((source, target))} leads from a variable to itself")
        names = sorted({name for arc in self.required for name in arc})
        cycle = find_cycle(_matrix(self.required, names), names)
        if cycle:
            raise BadInput(f"background knowledge: required arcs form the cycle {' -> '.join([*cycle, cycle[0]])}")

    def __bool__(self) -> bool:
        """Say whether anything is known."""
        return bool(self.required or self.forbidden)

    def check(self, variables: Sequence[str]) -> None:
        """Raise `BadInput` for an arc that names something that is not among the `variables`."""
        for arc in (*self.required, *self.forbidden):
            for name in arc:
                if name not in variables:
                    raise BadInput(f"background knowledge: {arrow(arc)}: {shown(name)} is not a column of the data")

    def needed(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Return where arcs are required, `[n_variables, n_variables]`."""
        return _matrix(self.required, variables)

    def possible(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Return where arcs may be, `[n_variables, n_variables]`.

        Not where they are forbidden, nor from a variable to itself, nor against the required arcs: from a variable to
        one of its required ancestors.
        """
        behind = reaches(self.needed(variables)).T
        return ~(_matrix(self.forbidden, variables) | behind | np.eye(len(variables), dtype=np.bool_))

    def precedes(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Return which variables come before which in some order of every graph that agrees, `[d, d]`.

        Those with a way of required arcs to the other, and those with a way of possible arcs to it and none back, as
        from tier to tier.
        """
        ways = reaches(self.possible(variables))
        return (reaches(self.needed(variables)) | (ways & ~ways.T)) if self else np.zeros_like(ways)


def reaches(arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return from which variables a way of one or more `arcs` leads to which, both `[d, d]`."""
    ways = arcs.copy()
    for _ in range(len(arcs).bit_length()):
        ways = ways | (ways @ ways)
    return ways


def of_tiers(tiers: Sequence[Sequence[str]]) -> tuple[Arc, ...]:
    """Return the arcs that are forbidden if no variable may be caused by one of a later tier.

    Raises `BadInput` for a variable that stands in two tiers.
    """
    names = [name for tier in tiers for name in tier]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"background knowledge: {shown(twice[0])} stands in two tiers")
    return tuple(
        (late, early)
        for place, tier in enumerate(tiers)
        for early in tier
        for later in tiers[place + 1 :]
        for late in later
    )


def without_parents(names: Iterable[str], variables: Sequence[str]) -> tuple[Arc, ...]:
    """Return the arcs that are forbidden if the variables called `names` have no parents."""
    return tuple((other, name) for name in names for other in variables if other != name)


def arrow(arc: Arc) -> str:
    """Return an arc for a message."""
    return f"{arc[0]} -> {arc[1]}"


def _matrix(arcs: Iterable[Arc], variables: Sequence[str]) -> NDArray[np.bool_]:
    place = {name: v for v, name in enumerate(variables)}
    found = np.zeros((len(place), len(place)), np.bool_)
    for source, target in arcs:
        found[place[source], place[target]] = True
    return found


NOTHING_KNOWN = Knowledge()
