"""Grow-shrink trees: the parents of a variable among those before it in an order (Andrews et al. 2023, Algorithm 2).

Growing adds the best allowed parent as long as this improves the score. Then shrinking removes parents as long as
this improves the score. A node of the tree is a set of parents. A grown node has a branch for each further parent
that improves its score, the best first. The branches do not depend on which parents are allowed, so all orders share
the tree of a variable. Here a node is a family (a child and its parents), identified by its number in `Families`. So
a set that is reached along different paths is one node, and is scored once.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from .families import UNKNOWN, Families, find

Tree = tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint16], NDArray[np.int32], NDArray[np.int64]
]
"""begins, size, shrunk, added, leads_to, used: the arrays for compiled code"""

FULL = -2
"""the result of a walk that ends because there is no room for the branches of a node"""


@dataclass(frozen=True)
class Trees:
    """The nodes. Node e has the branches `begins[e]` to `begins[e] + size[e] − 1`; a node not yet grown has size −1."""

    begins: NDArray[np.int64]
    size: NDArray[np.int32]
    shrunk: NDArray[np.int32]
    """the family a node shrinks to, −1 if unknown"""
    added: NDArray[np.uint16]
    """for each branch, the parent that it adds"""
    leads_to: NDArray[np.int32]
    used: NDArray[np.int64]
    """number of used branches"""

    @property
    def arrays(self) -> Tree:
        """The arrays, for compiled code."""
        return self.begins, self.size, self.shrunk, self.added, self.leads_to, self.used

    def has_room(self, d: int) -> bool:
        """Whether there is room for the branches of another node of `d` variables."""
        return bool(self.used[0] + d <= len(self.added))

    def copy(self) -> "Trees":
        """A copy with its own arrays."""
        return Trees(
            self.begins.copy(),
            self.size.copy(),
            self.shrunk.copy(),
            self.added.copy(),
            self.leads_to.copy(),
            self.used.copy(),
        )

    def roomy(self, families: Families, d: int) -> "Trees":
        """The same trees with room for all of `families`, and for the branches of at least 64 more nodes."""
        more = len(families.score) - len(self.size)
        branches = int(self.used[0]) + 64 * d - len(self.added)
        trees = self
        if more > 0:
            trees = replace(
                trees,
                begins=np.concatenate([self.begins, np.zeros(more, np.int64)]),
                size=np.concatenate([self.size, np.full(more, -1, np.int32)]),
                shrunk=np.concatenate([self.shrunk, np.full(more, -1, np.int32)]),
            )
        if branches > 0:
            room = max(branches, len(self.added))
            trees = replace(
                trees,
                added=np.concatenate([self.added, np.zeros(room, np.uint16)]),
                leads_to=np.concatenate([self.leads_to, np.zeros(room, np.int32)]),
            )
        return trees


def no_trees() -> Trees:
    """Trees without a node."""
    none = np.empty(0, np.int32)
    return Trees(np.empty(0, np.int64), none, none, np.empty(0, np.uint16), none, np.zeros(1, np.int64))


@njit(cache=True)
def walk(y, allowed, tree, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The number of y's family with the parents that grow-shrink selects among `allowed`, or UNKNOWN or FULL.

    UNKNOWN means that scores are missing; they are now pending. FULL means that there is no room for branches. `family`
    `[d + 1]` is scratch space.
    """
    begins, size, shrunk, added, leads_to, _ = tree
    family[0] = y
    node = find(family, np.int64(1), tables)
    while node != UNKNOWN:
        if size[node] < 0:
            grown = _grow(node, len(allowed), tree, tables, family)
            if grown < 0:
                return grown
        branch = begins[node]
        while branch < begins[node] + size[node] and not allowed[added[branch]]:
            branch += 1
        if branch == begins[node] + size[node]:
            return _shrink(node, shrunk, tables, family)
        node = leads_to[branch]
    return UNKNOWN


@njit(cache=True)
def _grow(node, d, tree, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Create the branches of `node` and return 0, or return UNKNOWN or FULL as `walk` does."""
    begins, size, _, added, leads_to, used = tree
    if used[0] + d > len(added):
        return FULL
    first, members, score = tables[1], tables[2], tables[3]
    parents = members[first[node] + 1 : first[node + 1]]
    y = members[first[node]]
    number = np.empty(d, np.int64)
    gain = np.full(d, -np.inf)
    unknown = False
    for v in range(d):
        if v == y or (parents == v).any():
            continue
        number[v] = find(family, _with(y, parents, v, family), tables)
        if number[v] == UNKNOWN:
            unknown = True
        elif score[number[v]] > score[node]:
            gain[v] = score[number[v]]
    if unknown:
        return UNKNOWN
    at = used[0]
    begins[node], size[node] = at, 0
    for v in range(d):
        if gain[v] > -np.inf:
            place = at
            while place > begins[node] and gain[added[place - 1]] < gain[v]:
                added[place], leads_to[place] = added[place - 1], leads_to[place - 1]
                place -= 1
            added[place], leads_to[place] = v, number[v]
            at += 1
    size[node] = at - used[0]
    used[0] = at
    return 0


@njit(cache=True)
def _shrink(node, shrunk, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The family that `node` shrinks to, or UNKNOWN."""
    if shrunk[node] >= 0:
        return shrunk[node]
    first, members, score = tables[1], tables[2], tables[3]
    best, previous = node, -1
    while best != previous:
        previous, unknown = best, False
        begin, end = first[previous], first[previous + 1]
        for left_out in range(begin + 1, end):
            size = np.int64(0)
            for at in range(begin, end):
                if at != left_out:
                    family[size] = members[at]
                    size += 1
            number = find(family, size, tables)
            if number == UNKNOWN:
                unknown = True
            elif score[number] > score[best]:
                best = number
        if unknown:
            return UNKNOWN
    shrunk[node] = best
    return best


@njit(cache=True)
def _with(y, parents, v, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write y, then `parents` and v in ascending order, into `family`; return the length of the family."""
    family[0] = y
    size, placed = 1, False
    for p in parents:
        if not placed and v < p:
            family[size] = v
            size, placed = size + 1, True
        family[size] = p
        size += 1
    if not placed:
        family[size] = v
        size += 1
    return size
