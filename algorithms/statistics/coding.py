"""Mixed tables as numbers: every discrete column as indicators of its levels but the first (Andrews et al. 2019).

Source: Andrews, Ramsey, Cooper 2019: Learning High-dimensional Directed Acyclic Graphs with Mixed Data-types.

The correlations of a coded table, each variable a block of columns: what the degenerate Gaussian model rests on.

Source: Andrews, Ramsey, Cooper 2019: Learning High-dimensional Directed Acyclic Graphs with Mixed Data-types.

Everything it asks is ln|R_XX·Z|, the log determinant of what a set of variables leaves of another one's correlations:
scores and likelihood ratios are differences of such. Levels that hardly any row has are merged into another one first,
as an indicator of so few rows is anything but Gaussian. That, too, is read off the sum: n times the variance of an
indicator is about how many rows have its level.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from .moments import ROUNDING, Chunked, Table, column_units, pooled_packing


@dataclass(frozen=True)
class Coding:
    """How d variables become D coded columns: a continuous one by itself, a discrete one of k levels as k − 1."""

    variables: tuple[str, ...]
    widths: tuple[int, ...]
    """coded columns of each variable: 1, or one less than it has levels"""
    discrete: tuple[bool, ...]

    @property
    def size(self) -> int:
        """The number of coded columns, D."""
        return sum(self.widths)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """Which variable each coded column belongs to, `[D]`."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @cached_property
    def blocks(self) -> tuple[NDArray[np.int64], ...]:
        """The coded columns of each variable."""
        ends = np.cumsum(self.widths)
        return tuple(np.arange(end - width, end) for end, width in zip(ends, self.widths, strict=True))

    def of(self, variables: Sequence[int]) -> "Coding":
        """How these `variables` alone, by their numbers, are coded."""
        chosen = [(self.variables[v], self.widths[v], self.discrete[v]) for v in variables]
        return Coding(*(tuple(one) for one in zip(*chosen, strict=True))) if chosen else Coding((), (), ())

    def coded(self, table: Table) -> Table:
        """The coded `table` `[n_rows, D]`: read in passes, if `table` `[n_rows, d]` is."""
        return self.rows(table) if isinstance(table, np.ndarray) else CodedPasses(table, self)

    def rows(self, rows: NDArray[np.float64]) -> FloatArray:
        """The coded `rows` `[n, D]` of `[n, d]`: an empty cell (NaN, or the code −1) leaves its block empty."""
        if not any(self.discrete):
            return rows
        out = np.empty((len(rows), self.size))
        for j, block in enumerate(self.blocks):
            if not self.discrete[j]:
                out[:, block[0]] = rows[:, j]
                continue
            out[:, block] = rows[:, j, None] == np.arange(1, len(block) + 1)
            out[np.ix_(np.isnan(rows[:, j]) | (rows[:, j] < 0), block)] = np.nan
        return out


@dataclass(frozen=True)
class CodedPasses:
    """A table that is read in passes, coded part by part."""

    table: Chunked
    coding: Coding

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and coded columns."""
        return self.table.shape[0], self.coding.size

    def __iter__(self) -> Iterator[FloatArray]:
        """Read and code the rows once more."""
        return map(self.coding.rows, self.table)


def coding_of(schema: Schema) -> Coding:
    """How the variables of `schema` are coded; of continuous data each is a column by itself."""
    discrete = tuple(name in schema.levels for name in schema.variables)
    widths = tuple(len(schema.levels[name]) - 1 if name in schema.levels else 1 for name in schema.variables)
    return Coding(schema.variables, widths, discrete)


def coded_names(schema: Schema) -> tuple[str, ...]:
    """A name for each coded column, `[D]`: that of a continuous variable, or with the level it indicates."""
    return tuple(
        f"{name}={level}" if level else name
        for name in schema.variables
        for level in (schema.levels[name][1:] if name in schema.levels else ("",))
    )


def coded_units(schema: Schema) -> FloatArray:
    """The units of the coded columns, `[D]`: indicators are 0 and 1, whatever the unit of a column of codes."""
    coding, units = coding_of(schema), column_units(schema)
    return np.where(np.array(coding.discrete), 1.0, units)[coding.owners] if len(units) else units


FEW = 10
"""a level that so many rows have, or fewer, is merged into another one"""
COLLINEAR = 1e-10
"""what others leave of a column's variance is not taken for less than this share: so little is rounding"""


@dataclass(frozen=True)
class Blocks:
    """Correlations `R` `[K, K]` of coded columns; those of variable j are `first[j]` to `first[j + 1]`, `[d + 1]`.

    A variable that is constant, or has but one level that is not rare, has no column.
    """

    rows: int
    R: FloatArray
    first: NDArray[np.int64]


def blocks_of(moments: FloatArray, coding: Coding) -> Blocks:
    """The correlations that the (summed) pooled `moments` of the coded columns give, without rare levels."""
    one = pooled_packing(coding.size).unpack(moments)
    rows = int(one["rows"])
    mean_square = np.diag(one["products"]) / rows
    S = one["products"] / rows - np.outer(one["sums"], one["sums"]) / rows**2
    return blocks_of_covariance(S, rows, coding, np.asarray(np.diag(S) > ROUNDING * mean_square))


def blocks_of_covariance(
    S: FloatArray, rows: int, coding: Coding, varies: NDArray[np.bool_] | None = None, few: float = FEW
) -> Blocks:
    """The correlations of the coded columns of covariance `S` `[D, D]` that vary, without rare levels."""
    keep = np.diag(S) > 0 if varies is None else varies & (np.diag(S) > 0)
    for j, block in enumerate(coding.blocks):
        if coding.discrete[j]:
            keep[block] &= _kept(S[np.ix_(block, block)] * rows, few)
    scale = np.sqrt(np.diag(S)[keep])
    R = S[np.ix_(keep, keep)] / np.outer(scale, scale)
    np.fill_diagonal(R, 1.0)
    widths = [int(keep[block].sum()) for block in coding.blocks]
    return Blocks(rows, np.ascontiguousarray(R), np.concatenate([[0], np.cumsum(widths)]).astype(np.int64))


def _kept(scatter: FloatArray, few: float) -> NDArray[np.bool_]:
    """Which indicators of one variable stay, `[width]`, by the sum of their products about the means.

    Without the indicator of a rare level, the level belongs to the first one, which has none. If the first is rare
    itself, it joins the commonest level, which is of all levels the one whose indicator varies most.
    """
    counts = np.diag(scatter)
    keep = counts > few
    if keep.any() and scatter.sum() <= few:
        keep[int(np.argmax(counts))] = False
    return np.asarray(keep)


@njit(cache=True)
def log_left(R, first, child, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Ln|R_XX·Z|: X the columns of variable `child`, Z those of all `parents`; 0 if X has no column.

    By a Cholesky factor of the parents' correlations with the child's below, row by row. A parent's column that the
    others determine adds nothing.
    """
    k = 0
    for p in parents:
        k += first[p + 1] - first[p]
    given = k
    columns = np.empty(k + first[child + 1] - first[child], np.int64)
    k = 0
    for m in range(len(parents) + 1):
        v = child if m == len(parents) else parents[m]
        for column in range(first[v], first[v + 1]):
            columns[k] = column
            k += 1
    L, total = np.zeros((k, k)), 0.0
    for i in range(k):
        for j in range(i):
            dot = R[columns[i], columns[j]]
            for t in range(j):
                dot -= L[i, t] * L[j, t]
            L[i, j] = dot / L[j, j] if L[j, j] > 0 else 0.0
        left = 1.0
        for t in range(i):
            left -= L[i, t] * L[i, t]
        if i >= given:
            left = max(left, COLLINEAR)
            total += math.log(left)
        L[i, i] = math.sqrt(left) if left > COLLINEAR else 0.0
    return total
