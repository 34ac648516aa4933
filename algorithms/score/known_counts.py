"""The server's cache of counts: the summed corners of all sets counted so far, and scores of families from them.

The corner of a set of variables is its count table without the cells in which any variable has its common level. The
table of a family (a child and its parents) follows from the corners of all subsets of its variables
(`statistics/corner_counts.py`). The server requests the corners that it does not have, so each corner is counted and
sent only once in a run. A family within sets that were counted before needs no exchange. The tables, and so the scores,
are the same as those from counting each family.

The common level of a variable is its most frequent level in the rows of all silos. It is chosen after the first
exchange, which uses level 0.

The sets are nodes of a prefix tree (a trie): the parent of a set is its prefix, the set without its greatest variable.
Subsets of a family are looked up prefix first. So one access to a hash table finds each of them, by the number of its
prefix and its greatest variable.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.corner_counts import corner_offsets
from ..statistics.count_tables import PAD
from .discrete import EXCLUDED_SCORE, Criterion, score_cells, states_of
from .families import Batch

Ints = NDArray[np.int64]
_FIRST_CAPACITY = 1 << 10
_EMPTY_SET = -1


@dataclass(frozen=True)
class SetTree:
    """Sets of variables, numbered in the order of their insertion. All subsets of a set in the tree are in the tree."""

    keys: Ints = field(default_factory=lambda: np.full(_FIRST_CAPACITY, -1, np.int64))
    """by set, the number of its prefix and its greatest variable (`_key`), `[capacity]`"""
    slots: NDArray[np.int32] = field(default_factory=lambda: np.full(2 * _FIRST_CAPACITY, -1, np.int32))
    """a hash table of the keys: numbers of sets, -1 in a free slot, `[2 · capacity]`"""
    size: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """the number of sets, `[1]`"""

    @property
    def arrays(self) -> tuple[Ints, NDArray[np.int32], Ints]:
        """The arrays, which `_request` changes in place."""
        return self.keys, self.slots, self.size

    def copy(self) -> "SetTree":
        """A copy that shares no array with this tree."""
        return SetTree(self.keys.copy(), self.slots.copy(), self.size.copy())

    def grown(self) -> "SetTree":
        """The same sets with room for twice as many."""
        keys = np.concatenate([self.keys, np.full(len(self.keys), -1, np.int64)])
        slots = np.full(2 * len(keys), -1, np.int32)
        _fill_slots(keys, slots, int(self.size[0]))
        return SetTree(keys, slots, self.size)

    def listed(self, begin: int) -> NDArray[np.int16]:
        """The sets from number `begin`, `[n_sets, size]`, each in ascending order and padded."""
        return np.asarray(_listed(self.keys, begin, int(self.size[0])))


@dataclass(frozen=True)
class KnownCounts:
    """The corners of sets of variables, summed over the silos. All subsets of a known set are known."""

    common: NDArray[np.int16]
    """the level of each variable that corners leave out, `[d]`"""
    tree: SetTree = field(default_factory=SetTree)
    """the known sets, then the requested ones"""
    cells: NDArray[np.unsignedinteger] = field(default_factory=lambda: np.zeros(0, np.uint32))
    """the corners of all known sets, in their order"""
    begins: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """the offset of each known set's corner in `cells`, then the length of `cells`"""

    @property
    def is_complete(self) -> bool:
        """Whether no set is requested: the corners of all sets in the tree are known."""
        return bool(self.tree.size[0] == len(self.begins) - 1)

    @property
    def requested(self) -> NDArray[np.int16]:
        """The sets to count next, `[n_sets, size]`, padded."""
        return self.tree.listed(len(self.begins) - 1)

    def requesting(self, batch: Batch, cardinalities: Ints, most_cells: float) -> "KnownCounts":
        """The same counts; the unknown sets that `batch` needs are now requested.

        Families of more than `most_cells` cells are ignored.
        """
        tree = self.tree.copy()
        wanted = batch.cells(cardinalities) <= most_cells
        while not _request(batch.first, batch.members, wanted, *tree.arrays):
            tree = tree.grown()
        return replace(self, tree=tree)

    def with_sum(self, total: NDArray[np.generic], cardinalities: Ints, rows: int) -> "KnownCounts":
        """The counts with `total`, the summed corners of the requested sets over all `rows` rows."""
        kind = np.min_scalar_type(max(rows, 256))
        added = np.rint(np.asarray(total, np.float64)).astype(kind)
        sizes = corner_offsets(self.requested, cardinalities)[1:]
        known = replace(
            self,
            cells=np.concatenate([self.cells.astype(kind, copy=False), added]),
            begins=np.concatenate([self.begins, self.begins[-1] + sizes]),
        )
        return known if len(self.begins) > 1 else known._around_common_levels(cardinalities, rows)

    def _around_common_levels(self, cardinalities: Ints, rows: int) -> "KnownCounts":
        """The same counts about the most frequent level of each counted variable."""
        common, cells = self.common.copy(), self.cells.astype(np.int64)
        before = (*self.tree.arrays, self.begins, cells, rows, self.common, cardinalities)
        _choose_common(before, common)
        corners = np.empty_like(cells)
        _move_corners(before, common, corners)
        return replace(self, common=common, cells=corners.astype(self.cells.dtype))

    def scores(
        self, batch: Batch, cardinalities: Ints, rows: int, criterion: Criterion, most_cells: float
    ) -> FloatArray:
        """The scores of `batch` over `rows` rows; families of more than `most_cells` cells are excluded.

        The sets of the other families must be known.
        """
        widths = batch.cells(cardinalities)
        known = (*self.tree.arrays, self.begins, self.cells, rows, self.common, cardinalities)
        room = int(widths[widths <= most_cells].max(initial=1))
        return np.asarray(_score(known, batch.first, batch.members, widths <= most_cells, room, criterion))


def no_counts(d: int) -> KnownCounts:
    """The counts of `d` variables before the first exchange."""
    return KnownCounts(np.zeros(d, np.int16))


@njit(cache=True)
def _key(prefix, variable):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The key of the set of a prefix, by its number, and a greater variable."""
    return (np.int64(prefix) + 1) << 16 | np.int64(variable)


@njit(cache=True)
def _locate(key, keys, slots):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of the set of `key`, or -1 if it is not in the tree, and its slot."""
    at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (len(slots) - 1)
    while slots[at] >= 0 and keys[slots[at]] != key:
        at = (at + 1) & (len(slots) - 1)
    return slots[at], at


@njit(cache=True)
def _fill_slots(keys, slots, n_sets):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Insert the first `n_sets` keys into the empty `slots`."""
    for number in range(n_sets):
        slots[_locate(keys[number], keys, slots)[1]] = number


@njit(cache=True)
def _members_of(number, keys):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of variables of set `number`."""
    n = 0
    while number != _EMPTY_SET:
        n, number = n + 1, (keys[number] >> 16) - 1
    return n


@njit(cache=True)
def _list_members(number, keys, members):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the variables of set `number` into `members`, which has their number, in ascending order."""
    for i in range(len(members) - 1, -1, -1):
        members[i], number = keys[number] & 0xFFFF, (keys[number] >> 16) - 1


@njit(cache=True)
def _listed(keys, begin, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The sets `begin` to `end`, `[n_sets, size of the largest]`, padded."""
    width = 1
    for number in range(begin, end):
        width = max(width, _members_of(number, keys))
    sets = np.full((end - begin, width), np.int16(PAD), np.int16)
    for number in range(begin, end):
        _list_members(number, keys, sets[number - begin, : _members_of(number, keys)])
    return sets


@njit(cache=True)
def _request(first, members, wanted, keys, slots, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Insert the subsets of the wanted families into the tree; return whether there was room for all.

    The whole set of a family is inserted after its subsets. So if a set is in the tree, all its subsets are, too.
    """
    for m in range(len(wanted)):
        if not wanted[m]:
            continue
        own = np.sort(members[first[m] : first[m + 1]])
        whole = np.int64(_EMPTY_SET)
        for i in range(len(own)):
            whole = np.int64(_locate(_key(whole, own[i]), keys, slots)[0])
            if whole < 0:
                break
        if whole >= 0:
            continue
        numbers = np.full(1 << len(own), _EMPTY_SET, np.int64)
        for i in range(len(own)):
            for subset in range(1 << i):
                key = _key(numbers[subset], own[i])
                number, at = _locate(key, keys, slots)
                if number < 0:
                    number = size[0]
                    if number == len(keys):
                        return False
                    keys[number], slots[at] = key, number
                    size[0] += 1
                numbers[subset | 1 << i] = number
    return True


@njit(cache=True)
def _fill(members, stride, known, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the counts over the ascending `members`, with these strides, to `table`, from the `known` corners.

    The corners of the subsets are margins. So at first, the cell of a variable's common level has the sum over all
    levels. Then the counts of the other levels are subtracted from it, one variable at a time.
    """
    keys, slots, _, begins, cells, rows, common, cardinalities = known
    size, most = len(members), 1
    for v in members:
        most = max(most, cardinalities[v])
    origin, shift = np.int64(0), np.empty((size, most), np.int64)  # of each level that corners have, numbered as there
    for i in range(size):
        left_out = common[members[i]]
        origin += stride[i] * left_out
        for other in range(cardinalities[members[i]] - 1):
            shift[i, other] = stride[i] * (other + (other >= left_out) - left_out)
    table[origin] = rows
    numbers = np.full(1 << size, _EMPTY_SET, np.int64)
    inside, level = np.empty(size, np.int64), np.zeros(size, np.int64)
    for last in range(size):
        for rest in range(1 << last):
            entry = np.int64(_locate(_key(numbers[rest], members[last]), keys, slots)[0])
            numbers[rest | 1 << last] = entry
            at, n = origin, 0
            for i in range(last):
                if rest >> i & 1:
                    inside[n], level[n] = i, 0
                    at += shift[i, 0]
                    n += 1
            width = cardinalities[members[last]] - 1
            for cell in range(begins[entry], begins[entry + 1], max(width, 1)):
                for offset in range(width):
                    table[at + shift[last, offset]] = cells[cell + offset]
                j = n - 1  # to the next levels of the other variables
                while j >= 0:
                    i = inside[j]
                    at -= shift[i, level[j]]
                    level[j] += 1
                    if level[j] < cardinalities[members[i]] - 1:
                        at += shift[i, level[j]]
                        break
                    level[j] = 0
                    at += shift[i, 0]
                    j -= 1
    for i in range(size):
        _subtract_levels(table, stride[i], cardinalities[members[i]], common[members[i]])


@njit(cache=True)
def _subtract_levels(table, step, r, common):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Subtract the counts of the other levels of a variable from those of its common level, which are margins so far.

    The variable has `r` levels and the stride `step` in `table`.
    """
    for block in range(0, len(table), step * r):
        margin = block + step * common
        for other in range(block, block + step * r, step):
            if other != margin:
                for offset in range(step):
                    table[margin + offset] -= table[other + offset]


@njit(cache=True)
def _score(known, first, members, wanted, room, criterion):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The scores of the wanted families, whose tables have at most `room` cells; the other families are excluded."""
    cardinalities = known[-1]
    scores = np.full(len(wanted), EXCLUDED_SCORE)
    cells, state, count = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    for m in range(len(wanted)):
        if not wanted[m]:
            continue
        child, parents = members[first[m]], members[first[m] + 1 : first[m + 1]]
        own = np.sort(members[first[m] : first[m + 1]])
        stride = _strides(own, child, parents, cardinalities)
        q = states_of(cardinalities, parents)
        table = cells[: int(q * cardinalities[child])]
        _fill(own, stride, known, table)
        scores[m] = score_cells(table, cardinalities[child], q, criterion, state, count) + criterion.prior[len(parents)]
    return scores


@njit(cache=True)
def _strides(members, child, parents, cardinalities):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The strides of `members` in the table of a family: the child's level runs fastest, then the last parent's."""
    stride = np.ones(len(members), np.int64)
    step = np.int64(cardinalities[child])
    for at in range(len(parents) - 1, -1, -1):
        for i in range(len(members)):
            if members[i] == parents[at]:
                stride[i] = step
        step *= cardinalities[parents[at]]
    return stride


@njit(cache=True)
def _choose_common(known, common):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the most frequent level of each counted variable into `common`."""
    keys, slots, cardinalities = known[0], known[1], known[-1]
    own = np.empty(1, np.int64)
    for v in range(len(common)):
        if _locate(_key(_EMPTY_SET, v), keys, slots)[0] >= 0:
            own[0] = v
            table = np.empty(cardinalities[v], np.int64)
            _fill(own, np.ones(1, np.int64), known, table)
            common[v] = np.argmax(table)


@njit(cache=True)
def _move_corners(known, common, corners):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the corner of each known set, for the new common levels `common`, into `corners`."""
    keys, begins, cardinalities = known[0], known[3], known[-1]
    for s in range(len(begins) - 1):
        own = np.empty(_members_of(s, keys), np.int64)
        _list_members(s, keys, own)
        stride = np.ones(len(own), np.int64)
        for i in range(len(own) - 2, -1, -1):
            stride[i] = stride[i + 1] * cardinalities[own[i + 1]]
        table = np.empty(stride[0] * cardinalities[own[0]], np.int64)
        _fill(own, stride, known, table)
        at = begins[s]
        for cell in range(len(table)):
            inside = True
            for i in range(len(own)):
                inside = inside and cell // stride[i] % cardinalities[own[i]] != common[own[i]]
            if inside:
                corners[at] = table[cell]
                at += 1
