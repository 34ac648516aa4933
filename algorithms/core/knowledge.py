"""Background knowledge of a graph: required and forbidden edges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput, quoted
from ..graphs.dag import find_cycle, transitive_closure

Arc = tuple[str, str]
"""(cause, effect)"""


@dataclass(frozen=True)
class Prior:
    """Background knowledge as matrices over the variables, for searches.

    `possible[i, j]` says whether i may be a parent of j, and `required[i, j]` whether i must be a parent of j.
    """

    possible: NDArray[np.bool_]
    required: NDArray[np.bool_]
    separated: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """whether an experiment targets exactly one of i and j, so that the data direct an edge between them; the matrix is
    symmetric, and empty without experiments"""

    @property
    def is_informative(self) -> bool:
        """Whether any edge is forbidden or required."""
        free = self.possible | np.eye(len(self.possible), dtype=np.bool_)
        return bool(self.required.any()) or not bool(free.all())

    def reordered(self, variables: NDArray[np.int64]) -> "Prior":
        """The prior with the variables in another order: position k has variable `variables[k]`."""
        positions = np.ix_(variables, variables)
        separated = self.separated[positions] if len(self.separated) else self.separated
        return Prior(self.possible[positions], self.required[positions], separated)

    def of_windows(self, columns: int) -> "Prior":
        """The prior of time-series windows with this number of `columns`.

        The first d columns are the d variables at the present time, and all others are lagged. A lagged column may be a
        parent of every present variable, and has no parents.
        """
        d = len(self.possible)
        possible, required = np.zeros((columns, columns), np.bool_), np.zeros((columns, columns), np.bool_)
        possible[:d, :d], required[:d, :d] = self.possible, self.required
        possible[d:, :d] = True
        return Prior(possible, required)

    @property
    def parentless(self) -> NDArray[np.bool_]:
        """Whether background knowledge leaves a variable without possible parents, `[d]`."""
        others = ~np.eye(len(self.possible), dtype=np.bool_)
        return np.asarray(~((self.possible | self.required) & others).any(axis=0))

    @property
    def ordered(self) -> int:
        """The number of variables that a search must order: all up to the last variable that may have parents.

        Variables without possible parents at the end, such as lagged columns, need no place.
        """
        return int(np.flatnonzero(~self.parentless).max(initial=-1)) + 1

    @property
    def possible_pairs(self) -> NDArray[np.bool_]:
        """The pairs with a possible arc in at least one direction, `[d, d]`, symmetric, the diagonal False."""
        return np.asarray((self.possible | self.possible.T) & ~np.eye(len(self.possible), dtype=np.bool_))

    @property
    def required_pairs(self) -> NDArray[np.bool_]:
        """The pairs with a required arc, `[d, d]`, symmetric."""
        return np.asarray(self.required | self.required.T)

    @property
    def one_way_arcs(self) -> NDArray[np.bool_]:
        """The possible arcs whose reverse is impossible, `[d, d]`."""
        return np.asarray(self.possible & ~self.possible.T)

    @property
    def precedence(self) -> NDArray[np.bool_]:
        """A strict partial order, `[d, d]`, with which every graph that satisfies the prior is compatible.

        i precedes j if there is a required arc from i to j. i also precedes j if there is a path of possible arcs from
        i to j but none from j to i (for example, from tier to tier). The relation is transitively closed.
        """
        if not self.is_informative:
            return np.zeros_like(self.possible)
        paths = transitive_closure(self.possible)
        return transitive_closure((paths & ~paths.T) | self.required)


def no_prior(d: int) -> Prior:
    """The prior of d variables without background knowledge."""
    return Prior(np.ones((d, d), np.bool_), np.zeros((d, d), np.bool_))


@dataclass(frozen=True)
class Knowledge:
    """Arcs that every learned graph must have, and arcs that no learned graph may have; both sets are public.

    Raises `BadInput` for contradictions: an arc that is both required and forbidden, an arc from a variable to itself,
    and required arcs that form a cycle.
    """

    required: tuple[Arc, ...] = ()
    forbidden: tuple[Arc, ...] = ()

    def __post_init__(self) -> None:
        """Raise `BadInput`, naming the arcs, if there is a contradiction."""
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
        """Whether there is any required or forbidden arc."""
        return bool(self.required or self.forbidden)

    def among(self, variables: Sequence[str]) -> "Knowledge":
        """The knowledge of arcs between these `variables`."""
        known = set(variables)
        required, forbidden = (tuple(a for a in arcs if known >= {*a}) for arcs in (self.required, self.forbidden))
        return Knowledge(required, forbidden)

    def check(self, variables: Sequence[str]) -> None:
        """Raise `BadInput` for an arc with a name that is not in `variables`."""
        for arc in (*self.required, *self.forbidden):
            for name in arc:
                if name not in variables:
                    raise BadInput(f"background knowledge: {arc_text(arc)}: {quoted(name)} is not a column of the data")

    def required_matrix(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each arc is required, `[n_variables, n_variables]`."""
        return _matrix(self.required, variables)

    def possible(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each arc is possible, `[n_variables, n_variables]`.

        Three kinds of arcs are impossible: forbidden arcs, arcs from a variable to itself, and arcs from a variable to
        one of its ancestors in the graph of required arcs.
        """
        required = self.required_matrix(variables)
        backward = transitive_closure(required).T if self.required else required
        return ~(_matrix(self.forbidden, variables) | backward | np.eye(len(variables), dtype=np.bool_))

    def prior(self, variables: Sequence[str]) -> Prior:
        """The background knowledge as matrices over the `variables`."""
        return Prior(self.possible(variables), self.required_matrix(variables))

    def precedence(self, variables: Sequence[str]) -> NDArray[np.bool_]:
        """The order that the background knowledge implies, `[d, d]` (see `Prior.precedence`)."""
        return self.prior(variables).precedence


def tier_arcs(tiers: Sequence[Sequence[str]]) -> tuple[Arc, ...]:
    """The forbidden arcs if no variable of a later tier can cause a variable of an earlier tier.

    Raises `BadInput` if a variable is in two tiers.
    """
    names = [name for tier in tiers for name in tier]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"background knowledge: {quoted(twice[0])} is in two tiers")
    return tuple(
        (late, early)
        for place, tier in enumerate(tiers)
        for early in tier
        for later in tiers[place + 1 :]
        for late in later
    )


def no_parent_arcs(names: Iterable[str], variables: Sequence[str]) -> tuple[Arc, ...]:
    """The forbidden arcs if the variables `names` have no parents."""
    return tuple((other, name) for name in names for other in variables if other != name)


def arc_text(arc: Arc) -> str:
    """`arc` as text for a message."""
    return f"{arc[0]} -> {arc[1]}"


def _matrix(arcs: Iterable[Arc], variables: Sequence[str]) -> NDArray[np.bool_]:
    index = {name: v for v, name in enumerate(variables)}
    matrix = np.zeros((len(index), len(index)), np.bool_)
    for source, target in arcs:
        matrix[index[source], index[target]] = True
    return matrix


NO_KNOWLEDGE = Knowledge()
