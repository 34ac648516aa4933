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
class Prior:
    """Background knowledge as matrices over the variables in their order, as searches use it.

    `possible[i, j]` says whether i may be a parent of j, `required[i, j]` that it is.
    """

    possible: NDArray[np.bool_]
    required: NDArray[np.bool_]

    @property
    def anything(self) -> bool:
        """Whether any edge is ruled out or required."""
        free = self.possible | np.eye(len(self.possible), dtype=np.bool_)
        return bool(self.required.any()) or not bool(free.all())

    def reordered(self, variables: NDArray[np.int64]) -> "Prior":
        """The same over the variables in another order: place k is that of variable `variables[k]`."""
        places = np.ix_(variables, variables)
        return Prior(self.possible[places], self.required[places])

    @property
    def joinable(self) -> NDArray[np.bool_]:
        """The pairs that an edge may join in one direction or the other, `[d, d]`, symmetric, the diagonal False."""
        return np.asarray((self.possible | self.possible.T) & ~np.eye(len(self.possible), dtype=np.bool_))

    @property
    def joined(self) -> NDArray[np.bool_]:
        """The pairs that a required arc joins, `[d, d]`, symmetric."""
        return np.asarray(self.required | self.required.T)

    @property
    def one_way(self) -> NDArray[np.bool_]:
        """The arcs that are the only possible direction of an edge between their ends, `[d, d]`."""
        return np.asarray(self.possible & ~self.possible.T)

    @property
    def precedes(self) -> NDArray[np.bool_]:
        """Which variables come before which in some order of every graph that agrees, `[d, d]`.

        Those with a way of possible arcs to the other and none back, as from tier to tier, those with a required arc to
        it, and what follows from both.
        """
        if not self.anything:
            return np.zeros_like(self.possible)
        ways = reachable(self.possible)
        return reachable((ways & ~ways.T) | self.required)


def no_prior(d: int) -> Prior:
    """The prior of d variables of which nothing is known."""
    return Prior(np.ones((d, d), np.bool_), np.zeros((d, d), np.bool_))


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
            raise BadInput(f"background knowledge: {arc_text(both[0])} is both required and forbidden")
        for source, target in (*self.required, *self.forbidden):
            if source == target:
                raise BadInput(f"background knowledge: {arc_text((source, target))} leads from a variable to itself")
        names = sorted({name for arc in self.required for name in arc})
        cycle = find_cycle(_matrix(self.required, names), names)
        if cycle:
            raise BadInput(f"background knowledge: required arcs form the cycle {' -> '.join([*cycle, cycle[0]])}")

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.required or self.forbidden)

    def check(self, variables: Sequence[str]) -> None:
        """Raise `BadInput` for an arc that names something that is not among the `variables`."""
        for arc in (*self.required, *self.forbidden):
            for name in arc:
                if name not in variables:
                    raise BadInput(f"background knowledge: {arc_text(arc)}: {shown(name)} is not a column of the data")

    def needed(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Where arcs are required, `[n_variables, n_variables]`."""
        return _matrix(self.required, variables)

    def possible(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Where arcs may be, `[n_variables, n_variables]`.

        Not where they are forbidden, nor from a variable to itself, nor against the required arcs: from a variable to
        one of its required ancestors.
        """
        needed = self.needed(variables)
        behind = reachable(needed).T if self.required else needed
        return ~(_matrix(self.forbidden, variables) | behind | np.eye(len(variables), dtype=np.bool_))

    def prior(self, variables: Sequence[str]) -> Prior:
        """Return what is known as matrices over the `variables`."""
        return Prior(self.possible(variables), self.needed(variables))

    def precedes(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Which variables come before which in some order of every graph that agrees, `[d, d]`."""
        return self.prior(variables).precedes


def reachable(arcs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return from which variables a way of one or more `arcs` leads to which, both `[d, d]`."""
    ways = arcs.astype(np.float32)
    for _ in range(len(arcs).bit_length()):
        ways = ((ways + ways @ ways) > 0).astype(np.float32)
    return ways > 0


def tier_arcs(tiers: Sequence[Sequence[str]]) -> tuple[Arc, ...]:
    """The arcs that are forbidden if no variable may be caused by one of a later tier.

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


def no_parent_arcs(names: Iterable[str], variables: Sequence[str]) -> tuple[Arc, ...]:
    """The arcs that are forbidden if the variables called `names` have no parents."""
    return tuple((other, name) for name in names for other in variables if other != name)


def arc_text(arc: Arc) -> str:
    """An arc for a message."""
    return f"{arc[0]} -> {arc[1]}"


def _matrix(arcs: Iterable[Arc], variables: Sequence[str]) -> NDArray[np.bool_]:
    place = {name: v for v, name in enumerate(variables)}
    found = np.zeros((len(place), len(place)), np.bool_)
    for source, target in arcs:
        found[place[source], place[target]] = True
    return found


NO_KNOWLEDGE = Knowledge()
