"""The table of known and pending scores of families (a child and its parents).

A search looks up scores by (child, parent set). A family without a score becomes pending, and the search continues with
everything that does not depend on this family. Then pending families are scored in a batch, from local rows or by an
exchange with the silos. So the search is the same for pooled rows and for silos, and requests many scores at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..errors import BadInput
from ..statistics.count_tables import PAD

Tables = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.uint16], FloatArray, NDArray[np.int64]]
"""slots, first, members, score, used: the arrays for compiled code"""

MAX_GROWTH = 16
"""maximum factor by which full tables grow at a time"""
UNKNOWN = -1
"""the result of `find` for a family whose score is unknown"""


@dataclass(frozen=True)
class Families:
    """A hash table of families in the order of their first request; the last families have no score and are pending.

    Family e is `members[first[e]:first[e + 1]]`: its child, then its parents in ascending order. `used` has the numbers
    of families, of scored families, and of requests that did not fit. `find` and `with_scores` write to the arrays.
    """

    slots: NDArray[np.int32]
    first: NDArray[np.int64]
    members: NDArray[np.uint16]
    score: FloatArray
    used: NDArray[np.int64]

    @property
    def tables(self) -> Tables:
        """The arrays, for compiled code."""
        return self.slots, self.first, self.members, self.score, self.used

    @property
    def full(self) -> bool:
        """Whether a requested family did not fit into the table."""
        return bool(self.used[2])

    @property
    def pending(self) -> "Batch":
        """The requested families without scores, in the order of the requests."""
        families, scored, _ = self.used
        first = self.first[scored : families + 1]
        return Batch(first - first[0], self.members[first[0] : first[-1]])

    def copy(self) -> "Families":
        """A copy with its own arrays."""
        return Families(self.slots.copy(), self.first.copy(), self.members.copy(), self.score.copy(), self.used.copy())

    def with_scores(self, scores: FloatArray) -> "Families":
        """Store the scores of the first pending families, in their order."""
        scored = self.used[1]
        self.score[scored : scored + len(scores)] = scores
        self.used[1] += len(scores)
        return self

    def grown(self) -> "Families":
        """The same families in larger tables.

        They grow at least by a factor of two and at most by `MAX_GROWTH`. Within these limits there is room for all
        requests that did not fit, as if each had been for another family.
        """
        families, more = int(self.used[0]), len(self.score)
        while len(self.score) + more < min(families + int(self.used[2]), MAX_GROWTH * len(self.score)):
            more = 2 * more + len(self.score)
        slots = np.full(2 * (len(self.score) + more), -1, np.int32)
        _fill_slots(slots, self.first, self.members, families)
        return replace(
            self,
            slots=slots,
            first=np.concatenate([self.first, np.zeros(more, np.int64)]),
            members=np.concatenate([self.members, np.zeros(4 * more, np.uint16)]),
            score=np.concatenate([self.score, np.zeros(more)]),
            used=np.array([families, self.used[1], 0]),
        )


@dataclass(frozen=True)
class Batch:
    """Families to score at once: family m is `members[first[m]:first[m + 1]]`, child first."""

    first: NDArray[np.int64]
    members: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.first) - 1

    def family(self, m: int) -> tuple[int, NDArray[np.uint16]]:
        """The child and the parents of family m."""
        return int(self.members[self.first[m]]), self.members[self.first[m] + 1 : self.first[m + 1]]

    @property
    def children(self) -> NDArray[np.int64]:
        """The child of each family, `[n_families]`."""
        return self.members[self.first[:-1]].astype(np.int64)

    def head(self, n: int) -> "Batch":
        """The first `n` families, or all if there are fewer."""
        return Batch(self.first[: n + 1], self.members[: self.first[min(n, len(self))]])

    def selected(self, chosen: NDArray[np.bool_]) -> "Batch":
        """The `chosen` `[n_families]` families."""
        sizes = np.diff(self.first)
        first = np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64)
        return Batch(first, self.members[np.repeat(chosen, sizes)])

    def cells(self, cardinalities: NDArray[np.int64]) -> FloatArray:
        """The number of cells of each family's table, `[n_families]`; floats, because it may exceed 64-bit integers."""
        if not len(self):
            return np.zeros(0)
        members = self.members[: self.first[-1]]
        return np.multiply.reduceat(cardinalities[members].astype(np.float64), self.first[:-1])


def families_of(dag: NDArray[np.bool_]) -> Batch:
    """The family of each variable in `dag` `[d, d]`."""
    members = [np.concatenate([[child], np.flatnonzero(dag[:, child])]) for child in range(len(dag))]
    first = np.cumsum([0, *map(len, members)]).astype(np.int64)
    return Batch(first, np.concatenate(members).astype(np.uint16))


def listed_families(sets: NDArray[Any], d: int) -> Batch:
    """The families of `d` variables that a query lists in the only row of `sets`, each followed by one `PAD`.

    Raises `BadInput` for any other list. A coordinator may send anything, and with invalid numbers of variables,
    compiled code would read outside its arrays.
    """
    listed = sets.ravel().astype(np.int64)
    ends = np.flatnonzero(listed == PAD)
    first = np.concatenate([[0], ends - np.arange(len(ends))])
    batch = Batch(first.astype(np.int64), listed[listed != PAD].astype(np.uint16))
    family = np.repeat(np.arange(len(ends)), np.diff(first)) if len(ends) else np.empty(0, np.int64)
    complete = len(sets) == 1 and len(ends) > 0 and ends[-1] == len(listed) - 1 and (np.diff(first) > 0).all()
    if not complete or not ((listed >= PAD) & (listed < d)).all() or _repeats(family, batch.members, d):
        raise BadInput("a family to score is not a variable and its parents, each named once, followed by padding")
    return batch


def _repeats(family: NDArray[np.int64], members: NDArray[np.uint16], d: int) -> bool:
    """Whether a member occurs twice in the same family."""
    # The keys are almost in order, and `np.unique` would hash them, which is hundreds of times slower.
    keys = np.sort(family * d + members, kind="stable")
    return bool((keys[1:] == keys[:-1]).any())


def split_by_group(batch: Batch, group: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], Batch]]:
    """Split `batch` by the `group` `[d]` of the child.

    Yields the number of a group, the numbers of its families in `batch`, and these families.
    """
    if not group.any():
        yield 0, np.arange(len(batch)), batch
        return
    of_family = group[batch.children]
    for k in np.unique(of_family).tolist():
        yield k, np.flatnonzero(of_family == k), batch.selected(of_family == k)


def no_families(room: int = 1024) -> Families:
    """An empty table with capacity for `room` families (a power of two)."""
    return Families(
        slots=np.full(2 * room, -1, np.int32),
        first=np.zeros(room + 1, np.int64),
        members=np.zeros(4 * room, np.uint16),
        score=np.zeros(room),
        used=np.zeros(3, np.int64),
    )


@njit(cache=True)
def _slot(key, size, slots):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    h = np.uint64(1469598103934665603)
    for i in range(size):
        h = (h ^ np.uint64(key[i])) * np.uint64(1099511628211)
    h ^= h >> np.uint64(29)
    return np.int64(h & np.uint64(len(slots) - 1))


@njit(cache=True)
def locate(key, size, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The number of family `key[:size]`, or -1 if it is not in the table, and its slot."""
    slots, first, members = tables[0], tables[1], tables[2]
    at = _slot(key, size, slots)
    while slots[at] >= 0:
        entry = slots[at]
        start = first[entry]
        if first[entry + 1] - start == size:
            i = 0
            while i < size and members[start + i] == key[i]:
                i += 1
            if i == size:
                return entry, at
        at = (at + 1) & (len(slots) - 1)
    return np.int32(-1), at


@njit(cache=True)
def find(key, size, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The number of family `key[:size]`, or UNKNOWN if its score is unknown.

    An unknown family becomes pending. If there is no room for it, the request is counted in `used[2]`.
    """
    slots, first, members, score, used = tables
    known, at = locate(key, size, tables)
    if known >= 0:
        return known if known < used[1] else UNKNOWN
    entry = used[0]
    if entry == len(score) or first[entry] + size > len(members):
        used[2] += 1
        return UNKNOWN
    slots[at] = entry
    for i in range(size):
        members[first[entry] + i] = key[i]
    first[entry + 1] = first[entry] + size
    used[0] = entry + 1
    return UNKNOWN


@njit(cache=True)
def _fill_slots(slots, first, members, families):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for entry in range(families):
        at = _slot(members[first[entry] : first[entry + 1]], first[entry + 1] - first[entry], slots)
        while slots[at] >= 0:
            at = (at + 1) & (len(slots) - 1)
        slots[at] = entry
