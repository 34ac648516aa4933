"""Corners of count tables: the cells in which no variable has its common level; all other cells follow from margins.

The table of a set S is determined by the corners of all subsets of S and the number of rows. Where a variable has its
common level, the count is the margin without this variable minus the counts of its other levels, as in the sparse
tables of Moore and Lee (1998, JAIR 8, section 3). So each corner is counted and sent once, however many sets contain
it. The corner of k variables with r levels has (r − 1)^k cells instead of r^k. Only rows in which no variable of the
set has its common level are visited; bitmaps of each variable's rows select these rows.

This requires rows without empty cells: with empty cells, each set would leave out different rows, and margins would not
agree.

- `distinct_codes`: the distinct rows of a silo with the number of times that each occurs.
- `count_corners`: the corners of one silo.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..errors import BadInput
from .count_tables import PAD, Codes, DistinctCodes, TableRefused, count_limits, counted, offsets

MIN_DISTINCT_ROWS = 1000
"""minimum number of rows of a table for which equal rows are grouped"""


def distinct_codes(columns: NDArray[np.int16]) -> DistinctCodes:
    """The distinct rows of codes `columns` `[n_variables, n_rows]`; all rows if there are few, or most are distinct."""
    n = columns.shape[1]
    first, weights = _distinct(columns) if n >= MIN_DISTINCT_ROWS else (np.arange(n), np.ones(n, np.uint32))
    if 4 * len(first) > 3 * n:
        return DistinctCodes(columns, np.ones(n, np.uint32))
    return DistinctCodes(np.ascontiguousarray(columns[:, first]), weights)


def corner_offsets(sets: NDArray[np.int16], cardinalities: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offset of the corner of each of the `sets`, then the total number of cells, as `offsets` of whole tables."""
    return offsets(sets, cardinalities - 1)


def count_corners(
    columns: Codes, cardinalities: NDArray[np.int64], sets: NDArray[np.int16], common: NDArray[np.int16]
) -> NDArray[np.unsignedinteger]:
    """The concatenated corners over `sets` `[n_sets, size]` of the rows in `columns`, `[n_cells]`.

    Parameters
    ----------
    columns
        Level codes `[n_variables, n_rows]`, of which none may be empty.
    cardinalities
        The number of levels of each variable, `[n_variables]`.
    sets
        Increasing variables, followed by padding.
    common
        The level of each variable that the corners leave out, `[n_variables]`. The other levels keep their order, and
        the level of the last variable of a set changes fastest.

    Raises
    ------
    BadInput
        For any other sets or levels. Without this check, a coordinator could send sets or levels with which compiled
        code counts outside the corners.
    TableRefused
        For a set whose table exceeds the limits in force, and if the limits suppress small counts, because a suppressed
        count could be computed from the margins.
    """
    if common.shape != cardinalities.shape or ((common < 0) | (common >= cardinalities)).any():
        raise BadInput("the common levels of a query are not one level of each variable")
    begins = corner_offsets(sets, cardinalities)
    order = np.lexsort(sets.T[::-1])
    known = _prepared(columns, common) if isinstance(columns, DistinctCodes) else None

    def add_rows(codes: NDArray[np.int16], weights: NDArray[np.uint32], counts: NDArray[np.uint32]) -> None:
        rows = known or (*_corner_rows(codes, common), weights)
        _add_corners(*rows, cardinalities - 1, sets[order], begins[:-1][order], counts)

    counts, rows = counted(columns, int(begins[-1]), add_rows)
    limits = count_limits()
    if limits.cells > 1:
        raise TableRefused(f"counts below {limits.cells} would follow from margins")
    for members in sets if np.isfinite([limits.variables, limits.parameters]).any() else ():
        members = members[members != PAD]
        limits.check(math.prod(cardinalities[members].tolist()), rows, len(members))
    return counts.astype(np.min_scalar_type(max(rows, 256)))


def _prepared(columns: DistinctCodes, common: NDArray[np.int16]) -> Any:
    """`_corner_rows` and the weights of the rows, computed once for all requests with the same common levels.

    The rows are sorted by whether each variable has its common level, starting with the most balanced variables. So
    the rows of a corner are close to each other, which halves the time to visit them.
    """
    terms = common.tobytes()
    if terms not in columns.prepared:
        columns.prepared.clear()
        differs = columns.columns != common[:, None]
        balanced = np.argsort(np.abs(differs.mean(axis=1) - 0.5), kind="stable")[:63]
        keys = np.zeros(columns.columns.shape[1], np.int64)
        for v in balanced.tolist():
            keys = keys << 1 | differs[v]
        order = np.argsort(keys, kind="stable")
        sorted_rows = _corner_rows(np.ascontiguousarray(columns.columns[:, order]), common)
        columns.prepared[terms] = (*sorted_rows, columns.weights[order])
    return columns.prepared[terms]


def _add_corners(*given: Any) -> None:
    """Call `_count_corners`; a module-level function, so that other processes can load its cached compiled code."""
    _count_corners(*given)


@njit(cache=True)
def _distinct(columns):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The first row number of each distinct row, and how often the row occurs, by a hash table of rows."""
    d, n = columns.shape
    hashes = np.full(n, 1469598103934665603, np.uint64)
    for v in range(d):
        for row in range(n):
            hashes[row] = (hashes[row] ^ np.uint64(columns[v, row])) * np.uint64(1099511628211)
    size = 16
    while size < 2 * n:
        size *= 2
    slots = np.full(size, -1, np.int32)
    first, weights, found = np.empty(n, np.int32), np.zeros(n, np.uint32), 0
    for row in range(n):
        h = hashes[row]
        at = np.int64((h ^ (h >> np.uint64(29))) & np.uint64(size - 1))
        while slots[at] >= 0:
            other = first[slots[at]]
            same = hashes[other] == h
            v = 0
            while same and v < d:
                same = columns[v, other] == columns[v, row]
                v += 1
            if same:
                break
            at = (at + 1) & (size - 1)
        if slots[at] < 0:
            slots[at], first[found] = found, row
            found += 1
        weights[slots[at]] += np.uint32(1)
    return first[:found].copy(), weights[:found].copy()


# The lowest set bit of x is x & −x. The top six bits of its product with a de Bruijn sequence give its position.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITIONS = np.zeros(64, np.uint64)
_POSITIONS[[int(_DE_BRUIJN) << i >> 58 & 63 for i in range(64)]] = np.arange(64)


@njit(cache=True)
def _corner_rows(columns, common):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """By variable, a bit for each row without its common level, `[n_variables, n_words]`, and the rows' levels.

    The levels are numbered without the common level, `[n_variables, n_rows]`.
    """
    d, n = columns.shape
    bits, levels = np.zeros((d, (n + 63) // 64), np.uint64), np.empty((d, n), np.uint16)
    for v in range(d):
        for row in range(n):
            level = columns[v, row]
            bits[v, row >> 6] |= np.uint64(level != common[v] and level >= 0) << np.uint64(row & 63)
            levels[v, row] = level - (level > common[v])
    return bits, levels


@njit(cache=True)
def _count_corners(bits, levels, weights, radices, sets, begins, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the corners over `sets` to `counts` at `begins`, from the rows as `_corner_rows` describes them.

    In lexicographic order, consecutive sets share the rows in which all their first variables are in the corner.
    Indices are unsigned, because numba must check signed ones for negative values, which count from the end.
    """
    width, words = sets.shape[1], bits.shape[1]
    inside, prefix = np.empty((width, words), np.uint64), np.full(width, -1, np.int64)
    rows = np.empty(64 * words, np.uint32)
    several, stride = np.empty(width, np.uint64), np.empty(width, np.uint64)  # variables of several levels in corners
    for s in range(len(sets)):
        size, shared = 0, 0
        while size < width and sets[s, size] >= 0:
            size += 1
        while shared < size - 1 and prefix[shared] == sets[s, shared]:
            shared += 1
        prefix[shared:] = -1
        for t in range(shared, size - 1):
            prefix[t] = sets[s, t]
            if t == 0:
                inside[0] = bits[prefix[0]]
            else:
                for word in range(words):
                    inside[t, word] = inside[t - 1, word] & bits[prefix[t], word]
        last = bits[sets[s, size - 1]]
        before = inside[size - 2] if size > 1 else last
        found = np.uint64(0)
        for word in range(words):
            remaining = before[word] & last[word]
            while remaining:
                rest = remaining & (remaining - np.uint64(1))
                rows[found] = 64 * word + _POSITIONS[((remaining ^ rest) * _DE_BRUIJN) >> np.uint64(58)]
                remaining = rest
                found += np.uint64(1)
        n_several, cells = 0, np.int64(1)
        for i in range(size - 1, -1, -1):
            if radices[sets[s, i]] > 1:
                several[n_several], stride[n_several] = sets[s, i], cells
                cells *= radices[sets[s, i]]
                n_several += 1
        begin = np.uint64(begins[s])
        for one in range(found):
            row, at = rows[one], begin
            for i in range(n_several):
                at += stride[i] * np.uint64(levels[several[i], row])
            counts[at] += weights[row]
