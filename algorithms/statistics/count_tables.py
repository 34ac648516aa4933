"""Counts of a silo's rows by the levels of discrete variables: the sums that tests and scores of labels need.

The joint state of variables (v_1, ..., v_m) is a mixed-radix number over their public numbers of levels, whose last
digit is the level of v_m. So the counts of all silos have the same positions, and their sum is the table of all rows.

- For tests: `count` gives the whole table of each set of variables; `Tables` lists the sets, and `TableReader` reads a
  table from the sums. The table of a set serves every test (x, y | z) with {x, y} ∪ z equal to the set.
- For scores: `count_cells` and `count_occurring` give the counts of a family (a child and its parents). Small tables
  are counted cell by cell; of large tables, only the occurring states are listed. Both list the states in ascending
  order, so they give bit-identical scores.
- For owners: `CountLimits` limits the tables that leave a silo; `limited_counts` applies the limits to a block of code.
- `one_to_one`: whether two columns A and B determine each other. If so, the data cannot distinguish A → B from B → A,
  and cannot tell which of the two acts on a third variable.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..errors import BadInput
from .moments import Chunked, over_parts

PAD = -1
"""padding of a set of variables to the size of the largest set"""
MAX_CELLS = 2.0**40
"""maximum number of cells of all tables of one query"""


class TableRefused(BadInput):
    """A requested count table exceeds the limits of a silo's owner."""


@dataclass(frozen=True)
class CountLimits:
    """An owner's limits on the count tables that leave a silo; the defaults allow everything."""

    cells: int = 1
    """minimum count that leaves a silo; smaller counts become 0"""
    variables: float = math.inf
    """maximum number of variables of a table"""
    parameters: float = math.inf
    """maximum number of free parameters of a table, as a share of the silo's rows"""

    def check(self, cells: int, rows: int, variables: int) -> None:
        """Raise `TableRefused` for a table with too many cells for a silo's `rows`, or with too many variables."""
        if variables > self.variables:
            raise TableRefused(f"a table of {variables} variables: the maximum is {self.variables}")
        if cells - 1 > self.parameters * rows:
            raise TableRefused(
                f"a table of {cells - 1:,} free parameters: the maximum is {self.parameters:g} of {rows:,} rows"
            )

    def apply(self, counts: NDArray[Any], rows: int, variables: int) -> NDArray[Any]:
        """The cells of one table of a silo's `rows`, without too small counts; raises as `check` does."""
        self.check(len(counts), rows, variables)
        return np.where(counts < self.cells, 0, counts).astype(counts.dtype) if self.cells > 1 else counts


NO_LIMITS = CountLimits()
_LIMITS: ContextVar[CountLimits] = ContextVar("limits", default=NO_LIMITS)


@contextmanager
def limited_counts(limits: CountLimits) -> Iterator[None]:
    """Within the block, all count tables obey `limits`, for any algorithm and any wrappers."""
    token = _LIMITS.set(limits)
    try:
        yield
    finally:
        _LIMITS.reset(token)


def count_limits() -> CountLimits:
    """The limits in force."""
    return _LIMITS.get()


@dataclass(frozen=True)
class CodePasses:
    """The level codes of a table that is read in passes, `[n_rows, n_variables]`."""

    table: Chunked


@dataclass(frozen=True)
class DistinctCodes:
    """The distinct rows of a table, each with the number of times that it occurs."""

    columns: NDArray[np.int16]
    """level codes of the distinct rows, `[n_variables, n_distinct]`"""
    weights: NDArray[np.uint32]
    """number of times that each of these rows occurs, `[n_distinct]`"""
    prepared: dict[bytes, Any] = field(default_factory=dict, repr=False, compare=False)
    """results that are computed from the rows once, by the terms of the requests for which they are used"""


Codes = NDArray[np.int16] | CodePasses | DistinctCodes
"""level codes `[n_variables, n_rows]`, in memory, read in passes, or of distinct rows"""


@dataclass(frozen=True)
class Tables:
    """The tables for a list of tests."""

    sets: NDArray[np.int16]
    """sets of variables, `[n_sets, size]`, each sorted and padded with -1"""
    table_of: NDArray[np.int64]
    """the number of each test's table, `[n_tests]`"""


def tables_for(tests: NDArray[np.int16], d: int) -> Tables:
    """The tables over the variables of each of `tests` `[n_tests, size]` on `d` variables.

    The tables are in lexicographic order, without duplicates.
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
    """The offset of each table, then the total number of cells, `[n_sets + 1]`.

    Raises `BadInput` for sets that are not increasing variables followed by padding, and for more than 2⁴⁰ cells, whose
    number could overflow. Without these checks, a coordinator could make compiled code count outside the tables.
    """
    require_sets(sets, len(cardinalities))
    with np.errstate(over="ignore", divide="ignore"):
        bits = np.where(sets == PAD, 0.0, np.log2(cardinalities)[sets]).sum(axis=1)
        if np.exp2(bits).sum() > MAX_CELLS:
            raise BadInput("the count tables would have more than 2^40 cells")
    sizes = np.where(sets == PAD, 1, cardinalities[sets]).prod(axis=1)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def require_sets(sets: NDArray[np.int16], d: int) -> None:
    """Raise `BadInput` unless every set has one or more of `d` variables, in increasing order, then padding.

    A coordinator sends sets, and compiled code does not check the bounds of arrays.
    """
    if sets.ndim != 2 or not sets.shape[1]:
        raise BadInput("the sets of variables to count are not a table of one or more columns")
    filled = np.where(sets == PAD, d, sets).astype(np.int64)
    increasing = (np.diff(filled, axis=1) > 0) | (filled[:, 1:] == d)
    if not ((sets >= PAD) & (sets < d)).all() or not increasing.all() or (filled[:, :1] == d).any():
        raise BadInput("a set of variables to count is not one of increasing variables followed by padding")


def count(columns: Codes, cardinalities: NDArray[np.int64], sets: NDArray[np.int16]) -> NDArray[np.unsignedinteger]:
    """The concatenated tables over `sets`, `[n_cells]`, of the rows in `columns` `[n_variables, n_rows]`.

    A table omits rows with an empty cell, -1, in its set. The counts have the smallest type that can represent the
    number of rows. Small counts are suppressed as the limits in force require; raises `TableRefused` for a table that
    exceeds these limits.
    """
    begins = offsets(sets, cardinalities)
    contiguous_sets = np.ascontiguousarray(sets)

    def add_rows(codes: NDArray[np.int16], weights: NDArray[np.uint32], counts: NDArray[np.uint32]) -> None:
        _add_rows(codes, weights, cardinalities, contiguous_sets, begins, counts)

    counts, rows = counted(columns, int(begins[-1]), add_rows)
    if count_limits() != NO_LIMITS:
        for s, members in enumerate(sets):
            table = slice(begins[s], begins[s + 1])
            counts[table] = count_limits().apply(counts[table], rows, int((members != PAD).sum()))
    return counts.astype(np.min_scalar_type(max(rows, 256)))


def _add_rows(*given: Any) -> None:
    """Call `_count`; a module-level function, so that other processes can load its cached compiled code."""
    _count(*given)


def counted(
    columns: Codes,
    cells: int,
    add_rows: Callable[[NDArray[np.int16], NDArray[np.uint32], NDArray[np.uint32]], None],
) -> tuple[NDArray[np.uint32], int]:
    """The number of rows in each of the `cells`, `[cells]`, and the number of all rows of `columns`.

    `add_rows` adds rows to counts, given the rows' codes and how often each row occurs; it may run in other processes.
    """

    def count_part(part: Codes) -> tuple[NDArray[np.uint32], int]:
        counts, rows = np.zeros(cells, np.uint32), 0
        for codes, weights in code_chunks(part):
            add_rows(codes, weights, counts)
            rows += int(weights.sum())
        return counts, rows

    if not isinstance(columns, CodePasses):
        return count_part(columns)
    parts = over_parts(columns.table, lambda table: count_part(CodePasses(table)))
    return reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]), parts)


def code_chunks(columns: Codes) -> Iterator[tuple[NDArray[np.int16], NDArray[np.uint32]]]:
    """Yield chunks: codes `[n_variables, n]`, and how often each row occurs; rows in memory are one chunk."""
    if isinstance(columns, DistinctCodes):
        yield columns.columns, columns.weights
        return
    parts = (rows.T for rows in columns.table) if isinstance(columns, CodePasses) else (columns,)
    for codes in parts:
        yield np.ascontiguousarray(codes, np.int16), np.ones(codes.shape[1], np.uint32)


class TableReader:
    """Count tables by the number of the test that requested them."""

    def __init__(self, tables: Tables, cardinalities: NDArray[np.int64], counts: NDArray[Any]) -> None:
        """Compute the offset of each table."""
        self.tables, self.cardinalities, self.counts = tables, cardinalities, counts
        self.begins = offsets(tables.sets, cardinalities)

    def strata(self, number: int, ends: tuple[int, ...]) -> FloatArray:
        """The table of test `number`, `[n_strata, levels of each of the ends]`."""
        s = self.tables.table_of[number]
        variables = [v for v in self.tables.sets[s].tolist() if v != PAD]
        table = self.counts[self.begins[s] : self.begins[s + 1]].reshape(self.cardinalities[variables])
        order = [variables.index(v) for v in (*(v for v in variables if v not in ends), *ends)]
        return table.transpose(order).reshape(-1, *self.cardinalities[list(ends)]).astype(np.float64)


@njit(cache=True)
def _count(columns, weights, cardinalities, sets, begins, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Count all sets; in lexicographic order, consecutive sets often share all variables except the last."""
    n, width = columns.shape[1], sets.shape[1]
    prefix = np.zeros(n, np.int32)
    prefix_variables = np.zeros(width, np.int64)  # the variables in `prefix`, each plus 1
    for s in range(len(sets)):
        size, same_prefix = 0, True
        for t in range(width):
            size += sets[s, t] >= 0
        for t in range(width):
            same_prefix = same_prefix and prefix_variables[t] == (sets[s, t] + 1 if t < size - 1 else 0)
        if not same_prefix:
            for r in range(n):
                prefix[r] = 0
            for t in range(width):
                prefix_variables[t] = sets[s, t] + 1 if t < size - 1 else 0
                if t < size - 1:
                    _append(prefix, columns, sets[s, t], cardinalities)
        last, begin = sets[s, size - 1], begins[s]
        radix = np.int32(cardinalities[last])
        for r in range(n):
            if prefix[r] >= 0 and columns[last, r] >= 0:
                counts[begin + prefix[r] * radix + columns[last, r]] += weights[r]


@njit(cache=True)
def _append(prefix, columns, v, cardinalities):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Append variable v as the last digit of each row's number in `prefix`; the number is -1 after an empty cell."""
    radix = np.int32(cardinalities[v])
    for r in range(len(prefix)):
        complete = prefix[r] >= 0 and columns[v, r] >= 0
        prefix[r] = prefix[r] * radix + columns[v, r] if complete else -1


MAX_DENSE_CELLS = 1 << 15
"""maximum number of cells of a table that is counted cell by cell"""
_MAX_STATES = 1 << 40

Ints = NDArray[np.int64]


@njit(cache=True)
def count_cells(columns, arities, parents, child, cells, codes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Count the joint states of `parents`, then `child`, into `cells`; `codes` `[n_rows]` is scratch."""
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
    """The rank of the parents' state and the count of each occurring joint state, in ascending order.

    Codes that might overflow are replaced by their ranks, which preserves the order.
    """
    codes = np.zeros(columns.shape[1], np.int64)
    states = 1
    for p in parents:
        if states > _MAX_STATES // arities[p]:
            codes = np.unique(codes, return_inverse=True)[1]
            states = len(codes)
        codes = codes * arities[p] + columns[p]
        states *= int(arities[p])
    ranks = np.unique(codes, return_inverse=True)[1]
    occurring, counts = np.unique(ranks * arities[child] + columns[child], return_counts=True)
    return occurring // arities[child], counts


def one_to_one(table: NDArray[np.integer]) -> bool:
    """Whether two discrete columns determine each other, from their counts `[levels of A, levels of B]`.

    Each level that occurs must occur with exactly one level of the other column. The result is False for a constant
    column, which every column determines.
    """
    occurs = np.asarray(table) > 0
    by_row, by_column = occurs.sum(axis=1), occurs.sum(axis=0)
    return bool(by_row.max(initial=0) <= 1 and by_column.max(initial=0) <= 1 and occurs.sum() > 1)
