"""Count tables: how often each combination of levels of a set of variables occurs, as a silo counts and sends it.

A table over a set of variables serves every test on it, (x, y | z) with {x, y} ∪ z that set, so a level's tests need
each set once. Tables are dense, in mixed radix over the cardinalities (which are public), the last variable running
fastest: every silo's numbers stand in the same places, and their sum is the table of all rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .chunks import Chunked

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
    """Return the tables over the variables of each of `tests` `[n_tests, size]` on `d` variables.

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
    """Return where each table begins, and at the end how many cells there are in all, `[n_sets + 1]`."""
    sizes = np.where(sets == PAD, 1, cardinalities[sets]).prod(axis=1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def count(columns: Codes, cardinalities: NDArray[np.int64], sets: NDArray[np.int16]) -> NDArray[np.unsignedinteger]:
    """Return the tables over `sets`, one after another, `[n_cells]`, of the rows in `columns` `[n_variables, n_rows]`.

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
        """Return the table that test `number` asked for, `[n_strata, levels of each of the ends]`."""
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
