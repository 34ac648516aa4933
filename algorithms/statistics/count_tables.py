"""Count tables: how often each combination of levels of a set of variables occurs, as a silo counts and sends it.

A table over a set of variables serves every test on it, (x, y | z) with {x, y} ∪ z that set, so a level's tests need
each set once. Tables are dense, in mixed radix over the cardinalities (which are public), the last variable running
fastest: every silo's numbers stand in the same places, and their sum is the table of all rows.

How often each joint state of a few variables occurs, without ever laying out all the states that do not.

The state of variables V = (v_1, ..., v_m) is a mixed-radix number, its last digit that of v_m. Small tables are counted
cell by cell; of wide ones only the states that occur are kept, in ascending order: both list the same counts in the
same order, so a score comes out the same, bit for bit, however its family was counted.

Pairs of columns that determine each other: nothing in the data tells A → B from B → A, nor which acts on C.

The order of variables by least variance given all that came before: Algorithm 1 of Chen, Drton & Wang 2019.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .moments import Chunked

PAD = -1
"""fills up a set of variables to the size of the largest"""


@dataclass(frozen=True)
class CodePasses:
    """The level codes of a table that is read in passes, `[n_rows, n_variables]`."""

    table: Chunked


Codes = NDArray[np.int16] | CodePasses
"""level codes `[n_variables, n_rows]`, in memory or read in passes"""


@dataclass(frozen=True)
class Tables:
    """Which tables answer a list of tests."""

    sets: NDArray[np.int16]
    """of variables, `[n_sets, size]`, each sorted and filled up with -1"""
    table_of: NDArray[np.int64]
    """the number of each test's table, `[n_tests]`"""


def tables_for(tests: NDArray[np.int16], d: int) -> Tables:
    """The tables over the variables of each of `tests` `[n_tests, size]` on `d` variables.

    They stand in lexicographic order, each set once.
    """
    if not len(tests):
        return Tables(tests, np.empty(0, np.int64))
    filled = np.sort(np.where(tests == PAD, d, tests), axis=1).astype(np.int16)
    if (d + 1.0) ** filled.shape[1] < 2.0**63:
        key = filled @ (d + 1) ** np.arange(filled.shape[1] - 1, -1, -1, dtype=np.int64)
        _, first, table_of = np.unique(key, return_index=True, return_inverse=True)
        sets = filled[first]
    else:
        sets, table_of = np.unique(filled, axis=0, return_inverse=True)
    return Tables(np.where(sets == d, np.int16(PAD), sets), table_of.ravel())


def offsets(sets: NDArray[np.int16], cardinalities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each table begins, and at the end how many cells there are in all, `[n_sets + 1]`."""
    sizes = np.where(sets == PAD, 1, cardinalities[sets]).prod(axis=1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def count(columns: Codes, cardinalities: NDArray[np.int64], sets: NDArray[np.int16]) -> NDArray[np.unsignedinteger]:
    """The tables over `sets`, one after another, `[n_cells]`, of the rows in `columns` `[n_variables, n_rows]`.

    A row is left out of the tables of those sets of which a cell is empty, -1.
    The numbers are of the smallest type that holds the number of rows, which is public.
    """
    begins = offsets(sets, cardinalities)
    counts = np.zeros(begins[-1], np.uint32)
    rows, wanted = 0, np.ascontiguousarray(sets)
    for part in _parts(columns):
        _count(part, cardinalities, wanted, begins, counts)
        rows += part.shape[1]
    return counts.astype(np.min_scalar_type(max(rows, 256)))


def _parts(columns: Codes) -> Iterator[NDArray[np.int16]]:
    """Yield the codes `[n_variables, n]`, all at once if they are in memory."""
    if isinstance(columns, CodePasses):
        for rows in columns.table:
            yield np.ascontiguousarray(rows.T, np.int16)
    else:
        yield np.ascontiguousarray(columns)


class ReadTables:
    """Count tables, read by the number of the test they were asked for."""

    def __init__(self, tables: Tables, cardinalities: NDArray[np.int64], counts: NDArray[Any]) -> None:
        """Find where each table begins."""
        self.tables, self.cardinalities, self.counts = tables, cardinalities, counts
        self.begins = offsets(tables.sets, cardinalities)

    def strata(self, number: int, ends: tuple[int, ...]) -> FloatArray:
        """The table that test `number` asked for, `[n_strata, levels of each of the ends]`."""
        s = self.tables.table_of[number]
        variables = [v for v in self.tables.sets[s].tolist() if v != PAD]
        table = self.counts[self.begins[s] : self.begins[s + 1]].reshape(self.cardinalities[variables])
        order = [variables.index(v) for v in (*(v for v in variables if v not in ends), *ends)]
        return table.transpose(order).reshape(-1, *self.cardinalities[list(ends)]).astype(np.float64)


@njit(cache=True)
def _count(columns, cardinalities, sets, begins, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Sets come in lexicographic order, so all but the last variable of a set often are those of the set before."""
    n, width = columns.shape[1], sets.shape[1]
    prefix = np.zeros(n, np.int32)
    counted = np.zeros(width, np.int64)  # the variables in `prefix`, each plus 1
    for s in range(len(sets)):
        size, same = 0, True
        for t in range(width):
            size += sets[s, t] >= 0
        for t in range(width):
            same = same and counted[t] == (sets[s, t] + 1 if t < size - 1 else 0)
        if not same:
            for r in range(n):
                prefix[r] = 0
            for t in range(width):
                counted[t] = sets[s, t] + 1 if t < size - 1 else 0
                if t < size - 1:
                    _append(prefix, columns, sets[s, t], cardinalities)
        last, begin = sets[s, size - 1], begins[s]
        radix = np.int32(cardinalities[last])
        for r in range(n):
            if prefix[r] >= 0 and columns[last, r] >= 0:
                counts[begin + prefix[r] * radix + columns[last, r]] += 1


@njit(cache=True)
def _append(prefix, columns, v, cardinalities):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make variable v the last digit of each row's number in `prefix`, which is -1 once a cell is empty."""
    radix = np.int32(cardinalities[v])
    for r in range(len(prefix)):
        there = prefix[r] >= 0 and columns[v, r] >= 0
        prefix[r] = prefix[r] * radix + columns[v, r] if there else -1


DENSE = 1 << 15
"""cells up to which a table is counted cell by cell"""
_WIDE = 1 << 40

Ints = NDArray[np.int64]


@njit(cache=True)
def count_cells(columns, arities, parents, child, cells, codes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Count the joint states of `parents` and then `child` into `cells`, one for each; `codes` `[n_rows]`: scratch."""
    cells[:] = 0
    codes[:] = 0
    for p in parents:
        radix, column = np.int32(arities[p]), columns[p]
        for row in range(len(codes)):
            codes[row] = codes[row] * radix + column[row]
    radix, column = np.int32(arities[child]), columns[child]
    for row in range(len(codes)):
        cells[codes[row] * radix + column[row]] += 1


def count_occurring(
    columns: NDArray[np.int16], arities: Ints, parents: NDArray[np.uint16], child: int
) -> tuple[Ints, Ints]:
    """The number (a rank) of the parents' state and the count of each joint state that occurs, ascending.

    Codes that might overflow are replaced by their ranks, which keeps the order.
    """
    codes = np.zeros(columns.shape[1], np.int64)
    states = 1
    for p in parents:
        if states > _WIDE // arities[p]:
            codes = np.unique(codes, return_inverse=True)[1]
            states = len(codes)
        codes = codes * arities[p] + columns[p]
        states *= int(arities[p])
    ranks = np.unique(codes, return_inverse=True)[1]
    occurring, counts = np.unique(ranks * arities[child] + columns[child], return_counts=True)
    return occurring // arities[child], counts


Pair = tuple[int, int]


def one_to_one(table: NDArray[np.integer]) -> bool:
    """Whether two discrete columns determine each other, from their counts `[levels of A, levels of B]`.

    Each level that occurs must occur with one level of the other column. A column with a single level is left out: it
    is constant, and determined by anything.
    """
    occurs = np.asarray(table) > 0
    by_row, by_column = occurs.sum(axis=1), occurs.sum(axis=0)
    return bool(by_row.max(initial=0) <= 1 and by_column.max(initial=0) <= 1 and occurs.sum() > 1)


def proportional(correlations: FloatArray, tolerance: float = 1e-6) -> tuple[Pair, ...]:
    """The pairs i < j of continuous columns with |correlation| above 1 − `tolerance`; of NaN none."""
    near = np.triu(np.abs(correlations) > 1 - tolerance, 1)
    return tuple((int(i), int(j)) for i, j in np.argwhere(near))


def top_down(covariance: FloatArray, precedes: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.int64], FloatArray]:
    """Each variable's place, `[d]`, and its variance given all before it, `[d]`, least variance first.

    None comes before one that `precedes` it, `[d, d]`. The variances are Schur complements, which one elimination keeps
    up to date: O(d³) in all.
    """
    d = len(covariance)
    before = np.zeros((d, d), bool) if precedes is None else precedes
    left, place, variances = covariance.copy(), np.full(d, -1, dtype=np.int64), np.empty(d)
    for at in range(d):
        may_be_next = (place < 0) & ~before[place < 0].any(axis=0)
        given = np.where(may_be_next, np.diag(left), np.inf)
        j = int(np.argmin(given))
        place[j], variances[j] = at, given[j]
        left -= np.outer(left[:, j], left[j]) / left[j, j]
    return place, variances
