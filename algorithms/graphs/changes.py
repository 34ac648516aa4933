"""Changes from one structure to a later one: edges gained, lost or turned, and differences of weights."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .edges import Category, Edge, classify, classify_lagged
from .structure import Structure

Fate = Literal["gained", "lost", "turned", "marked otherwise", "kept"]
FATES: dict[Category, Fate] = {
    "extra": "gained",
    "missing": "lost",
    "reversed": "turned",
    "half-directed": "marked otherwise",
    "right": "kept",
}
"""the change of an edge, by its category in a comparison with the earlier structure as the truth"""


@dataclass(frozen=True)
class EdgeChange:
    """An edge of either structure, oriented as in the later structure; a lost edge is oriented as in the earlier one.

    `before` and `after` are the weights of the edge in the two structures; None if a structure lacks the edge or has no
    weights.
    """

    edge: Edge
    fate: Fate
    before: float | None
    after: float | None

    @property
    def weight_change(self) -> float | None:
        """The absolute difference of the two weights; a missing weight counts as 0. None if both are missing."""
        if self.before is None and self.after is None:
            return None
        return abs((self.after or 0.0) - (self.before or 0.0))


@dataclass(frozen=True)
class StructureChanges:
    """The changes of all edges over the common variables, and the variables that only one structure has."""

    edges: tuple[EdgeChange, ...]
    added_variables: tuple[str, ...] = ()
    removed_variables: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[EdgeChange, ...]:
        """The edges whose fate is not `kept`."""
        return tuple(one for one in self.edges if one.fate != "kept")

    def count(self, *fates: Fate) -> int:
        """The number of edges with one of these fates."""
        counted = Counter(one.fate for one in self.edges)
        return sum(counted[fate] for fate in fates)


def structure_changes(before: Structure, after: Structure) -> StructureChanges:
    """The changes from `before` to `after` over the variables of both."""
    shared = [name for name in after.variables if name in set(before.variables)]
    added = tuple(name for name in after.variables if name not in set(shared))
    removed = tuple(name for name in before.variables if name not in set(shared))
    before, after = induced_subgraph(before, shared), induced_subgraph(after, shared)
    if after.lags and before.lagged is None:
        before = replace(before, lagged=np.zeros((1, len(shared), len(shared))))
    within = [_change(edge) for edge in classify(after, before)]
    across = [_change(edge) for edge in classify_lagged(after, before)] if after.lags or before.lags else []
    return StructureChanges((*within, *across), added, removed)


def induced_subgraph(structure: Structure, variables: Sequence[str]) -> Structure:
    """The subgraph of `structure` over `variables`, in this order, without edge strengths (`Structure.scores`)."""
    positions = [structure.variables.index(name) for name in variables]
    block = np.ix_(positions, positions)
    lagged = None if structure.lagged is None else np.stack([one[block] for one in structure.lagged])
    return Structure(tuple(variables), structure.weights[block], structure.kind, lagged=lagged)


def change_texts(changes: Collection[EdgeChange], fate: Fate) -> list[str]:
    """The text of each edge with this fate."""
    return [one.edge.text for one in changes if one.fate == fate]


def _change(edge: Edge) -> EdgeChange:
    return EdgeChange(edge, FATES[edge.category], edge.true_weight, edge.weight)
