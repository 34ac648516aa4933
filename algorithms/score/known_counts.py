"""The server's cache of counts: the summed corners of all sets counted so far, and scores of families from them.

The table of a family follows from the corners of all subsets of its variables (`statistics/corner_counts.py`). The
server requests the corners that it does not have, so each corner is counted and sent only once in a run. A family
within sets that were counted before needs no exchange. The tables are the same as if they were counted, and so are the
scores.

The common level of a variable, which corners leave out, is the most frequent one in the rows of all silos. It is chosen
after the first exchange, which uses level 0.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.compiled import njit
from ..core.schema import FloatArray
from ..statistics.count_tables import PAD
from .discrete import EXCLUDED_SCORE, Criterion, score_cells, states_of
from .families import Batch, Families, find, locate, no_families

Ints = NDArray[np.int64]
_MAX_MEMBERS = 64


@dataclass(frozen=True)
class KnownCounts:
    """The corners of sets of variables, summed over the silos. All subsets of a known set are known."""

    common: NDArray[np.int16]
    """the level of each variable that corners leave out, `[d]`"""
    sets: Families = field(default_factory=no_families)
    """the sets, each with its variables in ascending order; the pending ones are requested. Scores are not used"""
    cells: NDArray[np.unsignedinteger] = field(default_factory=lambda: np.zeros(0, np.uint32))
    """the corners of all known sets, in their order"""
    begins: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    """the offset of each known set's corner in `cells`, then their number"""

    @property
    def requested(self) -> NDArray[np.int16]:
        """The sets to count next, `[n_sets, size]`, padded."""
        return _padded(self.sets.pending)

    def requesting(self, batch: Batch, cardinalities: Ints, most_cells: float) -> "KnownCounts":
        """The counts with the unknown sets pending that the families of `batch` of up to `most_cells` cells need."""
        sets = self.sets.copy()
        wanted = _products(batch, cardinalities) <= most_cells
        while not _request(batch.first, batch.members, wanted, sets.tables):
            sets = sets.grown()
        return replace(self, sets=sets)

    def with_sum(self, total: NDArray[np.generic], cardinalities: Ints, rows: int) -> "KnownCounts":
        """The counts with the summed corners of the requested sets, of `rows` rows."""
        kind = np.min_scalar_type(max(rows, 256))
        added = np.rint(np.asarray(total, np.float64)).astype(kind)
        sizes = _products(self.sets.pending, cardinalities - 1).astype(np.int64)
        families, scored, room = self.sets.used
        known = replace(
            self,
            sets=replace(self.sets, used=np.array([families, families, room])),
            cells=np.concatenate([self.cells.astype(kind, copy=False), added]),
            begins=np.concatenate([self.begins, self.begins[-1] + np.cumsum(sizes)]),
        )
        return known if scored else known._around_common_levels(cardinalities, rows)

    def _around_common_levels(self, cardinalities: Ints, rows: int) -> "KnownCounts":
        """The same counts about the most frequent level of each counted variable."""
        common, cells = self.common.copy(), self.cells.astype(np.int64)
        before = (self.sets.tables, self.begins, cells, rows, self.common, cardinalities)
        _choose_common(before, common)
        corners = np.empty_like(cells)
        _move_corners(before, common, corners)
        return replace(self, common=common, cells=corners.astype(self.cells.dtype))

    def scores(
        self, batch: Batch, cardinalities: Ints, rows: int, criterion: Criterion, most_cells: float
    ) -> FloatArray:
        """The scores of `batch`, whose sets must be known, over `rows` rows; wider families are excluded."""
        widths = _products(batch, cardinalities)
        known = (self.sets.tables, self.begins, self.cells, rows, self.common, cardinalities)
        room = int(widths[widths <= most_cells].max(initial=1))
        return np.asarray(_score(known, batch.first, batch.members, widths <= most_cells, room, criterion))


def no_counts(d: int) -> KnownCounts:
    """The counts of `d` variables before the first exchange."""
    return KnownCounts(np.zeros(d, np.int16))


def _products(batch: Batch, factors: Ints) -> FloatArray:
    """The product of `factors` `[d]` over the members of each family of `batch`."""
    if not len(batch):
        return np.zeros(0)
    members = batch.members[: batch.first[-1]]
    return np.multiply.reduceat(factors[members].astype(np.float64), batch.first[:-1])


def _padded(batch: Batch) -> NDArray[np.int16]:
    sizes = np.diff(batch.first)
    sets = np.full((len(batch), int(sizes.max(initial=1))), PAD, np.int16)
    sets[np.arange(sets.shape[1]) < sizes[:, None]] = batch.members
    return sets


@njit(cache=True)
def _request(first, members, wanted, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make the unknown subsets of the wanted families pending; whether there was room for all.

    The whole set is the last one requested, so a set in the table has all its subsets there.
    """
    key = np.empty(_MAX_MEMBERS, np.int64)
    for m in range(len(wanted)):
        if not wanted[m]:
            continue
        own = np.sort(members[first[m] : first[m + 1]])
        everything = (1 << len(own)) - 1
        n = _select(own, everything, key)
        if locate(key, n, tables)[0] >= 0:
            continue
        for subset in range(1, everything + 1):
            n = _select(own, subset, key)
            find(key, n, tables)
            if tables[4][2]:
                return False
    return True


@njit(cache=True)
def _select(members, subset, key):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the `members` at the bits of `subset` into `key`; return their number."""
    n = np.int64(0)
    for i in range(len(members)):
        if subset >> i & 1:
            key[n] = members[i]
            n += 1
    return n


@njit(cache=True)
def _fill(members, stride, known, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The counts over ascending `members`, with these strides, into `table`, from the `known` corners.

    First a variable's common level stands for all its levels; then the others are subtracted, one variable at a time.
    """
    tables, begins, cells, rows, common, cardinalities = known
    size = len(members)
    origin, key, level = np.int64(0), np.empty(_MAX_MEMBERS, np.int64), np.zeros(size, np.int64)
    for i in range(size):
        origin += stride[i] * common[members[i]]
    table[origin] = rows
    for subset in range(1, 1 << size):
        n = _select(members, subset, key)
        entry = locate(key, n, tables)[0]
        level[:] = 0
        for cell in range(begins[entry], begins[entry + 1]):
            at = origin
            for i in range(size):
                if subset >> i & 1:
                    left_out = common[members[i]]
                    at += stride[i] * (level[i] + (level[i] >= left_out) - left_out)
            table[at] = cells[cell]
            i = size - 1
            while i >= 0:
                if subset >> i & 1:
                    level[i] += 1
                    if level[i] < cardinalities[members[i]] - 1:
                        break
                    level[i] = 0
                i -= 1
    for i in range(size):
        step, r, left_out = stride[i], cardinalities[members[i]], common[members[i]]
        for block in range(0, len(table), step * r):
            for offset in range(block, block + step):
                others = np.int64(0)
                for a in range(r):
                    if a != left_out:
                        others += table[offset + a * step]
                table[offset + left_out * step] -= others


@njit(cache=True)
def _score(known, first, members, wanted, room, criterion):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The scores of the wanted families; the others are excluded. No table has more than `room` cells."""
    cardinalities = known[5]
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
    """The strides of `members` in the table of a family: the child runs fastest, then the last parent."""
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
    tables, cardinalities = known[0], known[5]
    key = np.empty(1, np.int64)
    for v in range(len(common)):
        key[0] = v
        if locate(key, np.int64(1), tables)[0] >= 0:
            table = np.empty(cardinalities[v], np.int64)
            _fill(key, np.ones(1, np.int64), known, table)
            common[v] = np.argmax(table)


@njit(cache=True)
def _move_corners(known, common, corners):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the corner of each known set about the levels `common` into `corners`."""
    tables, begins, cardinalities = known[0], known[1], known[5]
    first, members = tables[1], tables[2]
    for s in range(len(begins) - 1):
        own = members[first[s] : first[s + 1]].astype(np.int64)
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
