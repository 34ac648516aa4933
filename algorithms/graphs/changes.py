"""What has changed from one structure to a later one: edges gained, lost, turned, and how far weights have moved."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .edges import Category, Edge, LaggedEdge, classify, classify_lagged
from .structure import Structure

Fate = Literal["gained", "lost", "turned", "marked otherwise", "kept"]
FATES: dict[Category, Fate] = {
    "extra": "gained",
    "missing": "lost",
    "reversed": "turned",
    "half-directed": "marked otherwise",
    "right": "kept",
}
"""what became of an edge, by how it compares with the earlier structure as if that were the truth"""


@dataclass(frozen=True)
class EdgeChange:
    """An edge of either structure, written as the later one has it, or, if `lost`, as the earlier one had it.

    `before` and `after` are its weights, None where it has none or the structures have no weights.
    """

    edge: Edge
    fate: Fate
    before: float | None
    after: float | None

    @property
    def lag(self) -> int:
        """How many steps it reaches back; 0 within one time."""
        return self.edge.lag if isinstance(self.edge, LaggedEdge) else 0

    @property
    def moved(self) -> float | None:
        """How far the weight has moved from 0 or from what it was, None where that is not known."""
        if self.before is None and self.after is None:
            return None
        return abs((self.after or 0.0) - (self.before or 0.0))


@dataclass(frozen=True)
class StructureChanges:
    """Every edge of two structures over their common variables; `joined` and `left` are variables of only one."""

    edges: tuple[EdgeChange, ...]
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[EdgeChange, ...]:
        """The edges that are not as they were."""
        return tuple(one for one in self.edges if one.fate != "kept")

    def count(self, *fates: Fate) -> int:
        """How many edges have one of these fates."""
        counted = Counter(one.fate for one in self.edges)
        return sum(counted[fate] for fate in fates)


def structure_changes(before: Structure, after: Structure) -> StructureChanges:
    """Return what has changed from `before` to `after`, over the variables that both have."""
    shared = [name for name in after.variables if name in set(before.variables)]
    joined = tuple(name for name in after.variables if name not in set(shared))
    left = tuple(name for name in before.variables if name not in set(shared))
    before, after = restricted(before, shared), restricted(after, shared)
    if after.lags and before.lagged is None:
        before = replace(before, lagged=np.zeros((1, len(shared), len(shared))))
    within = [_change(edge) for edge in classify(after, before)]
    across = [_change(edge) for edge in classify_lagged(after, before)] if after.lags or before.lags else []
    return StructureChanges((*within, *across), joined, left)


def restricted(structure: Structure, variables: Sequence[str]) -> Structure:
    """Return what `structure` says of some of its `variables`, in that order; strengths are left out."""
    at = [structure.variables.index(name) for name in variables]
    block = np.ix_(at, at)
    lagged = None if structure.lagged is None else np.stack([one[block] for one in structure.lagged])
    return Structure(tuple(variables), structure.weights[block], structure.kind, lagged=lagged)


def change_texts(changes: Collection[EdgeChange], fate: Fate) -> list[str]:
    """The edges of this fate, each in one line."""
    return [one.edge.text for one in changes if one.fate == fate]


def _change(edge: Edge) -> EdgeChange:
    return EdgeChange(edge, FATES[edge.category], edge.true_weight, edge.weight)
