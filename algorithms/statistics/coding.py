"""Coding of mixed tables as numbers, and the correlations of coded tables for the degenerate Gaussian model.

`Coding` codes a discrete column by indicators of its levels except the first. `Blocks` has the correlations of a coded
table, in which each variable is a block of columns. Scores and likelihood ratios of the degenerate Gaussian model are
differences of ln|R_XX·Z|, the log determinant of a variable's residual correlations given a set of variables
(`log_residual_det`). Rare levels are merged into another level first, because the indicator of a few rows is far from
Gaussian. The sums suffice to find rare levels: n times the variance of an indicator is about the number of rows with
its level.

Source: Andrews, Ramsey, Cooper 2019: Learning High-dimensional Directed Acyclic Graphs with Mixed Data-types.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray, Schema
from .moments import ROUNDING, MappedPasses, Table, column_units, pooled_packing


@dataclass(frozen=True)
class Coding:
    """The map of d variables to D coded columns: 1 for a continuous variable, k − 1 for a discrete one of k levels."""

    variables: tuple[str, ...]
    widths: tuple[int, ...]
    """number of coded columns of each variable: 1 for numbers, the number of levels minus 1 for labels"""
    discrete: tuple[bool, ...]

    @property
    def size(self) -> int:
        """The number of coded columns, D."""
        return sum(self.widths)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The variable of each coded column, `[D]`."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @cached_property
    def blocks(self) -> tuple[NDArray[np.int64], ...]:
        """The coded columns of each variable."""
        ends = np.cumsum(self.widths)
        return tuple(np.arange(end - width, end) for end, width in zip(ends, self.widths, strict=True))

    def subset(self, variables: Sequence[int]) -> "Coding":
        """The coding of these `variables`, given by number."""
        chosen = [(self.variables[v], self.widths[v], self.discrete[v]) for v in variables]
        return Coding(*(tuple(one) for one in zip(*chosen, strict=True))) if chosen else Coding((), (), ())

    def encode(self, table: Table) -> Table:
        """The coded `table` `[n_rows, D]`, which is read in passes if `table` `[n_rows, d]` is."""
        return self.rows(table) if isinstance(table, np.ndarray) else MappedPasses(table, self.rows, self.size)

    def rows(self, rows: NDArray[np.float64]) -> FloatArray:
        """The coded `rows` `[n, D]` of `[n, d]`: the block of an empty cell (NaN, or the code −1) is empty."""
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


def coding_of(schema: Schema) -> Coding:
    """The coding of the variables of `schema`; every continuous variable is one column."""
    discrete = tuple(name in schema.levels for name in schema.variables)
    widths = tuple(len(schema.levels[name]) - 1 if name in schema.levels else 1 for name in schema.variables)
    return Coding(schema.variables, widths, discrete)


def coded_names(schema: Schema) -> tuple[str, ...]:
    """A name for each coded column, `[D]`: the variable, with `=level` for an indicator."""
    return tuple(
        f"{name}={level}" if level else name
        for name in schema.variables
        for level in (schema.levels[name][1:] if name in schema.levels else ("",))
    )


def coded_units(schema: Schema) -> FloatArray:
    """The units of the coded columns, `[D]`: 1 for indicators."""
    coding, units = coding_of(schema), column_units(schema)
    return np.where(np.array(coding.discrete), 1.0, units)[coding.owners] if len(units) else units


RARE_LEVEL_ROWS = 10
"""a level of at most this number of rows is rare, and is merged into another level"""
COLLINEARITY_TOLERANCE = 1e-10
"""lower bound on a column's residual share of variance: smaller values are rounding errors"""


@dataclass(frozen=True)
class Blocks:
    """Correlations `R` `[K, K]` of coded columns, and the offset `first` `[d + 1]` of the columns of each variable.

    Variable j has the columns `first[j]` to `first[j + 1] − 1`. A variable that is constant, or has only one level that
    is not rare, has no column.
    """

    rows: int
    R: FloatArray
    first: NDArray[np.int64]


def blocks_of(moments: FloatArray, coding: Coding) -> Blocks:
    """The correlations from (summed) pooled `moments` of the coded columns, without rare levels."""
    one = pooled_packing(coding.size).unpack(moments)
    rows = int(one["rows"])
    mean_square = np.diag(one["products"]) / rows
    S = one["products"] / rows - np.outer(one["sums"], one["sums"]) / rows**2
    return blocks_of_covariance(S, rows, coding, np.asarray(np.diag(S) > ROUNDING * mean_square))


def blocks_of_covariance(
    S: FloatArray,
    rows: int,
    coding: Coding,
    varies: NDArray[np.bool_] | None = None,
    rare_rows: float = RARE_LEVEL_ROWS,
) -> Blocks:
    """The correlations of the non-constant coded columns, without rare levels, from their covariance `S` `[D, D]`.

    `varies` `[D]` is whether each column is not constant; by default, the variances decide.
    """
    selected = np.diag(S) > 0 if varies is None else varies & (np.diag(S) > 0)
    for j, block in enumerate(coding.blocks):
        if coding.discrete[j]:
            selected[block] &= _frequent_levels(S[np.ix_(block, block)] * rows, rare_rows)
    scale = np.sqrt(np.diag(S)[selected])
    R = S[np.ix_(selected, selected)] / np.outer(scale, scale)
    np.fill_diagonal(R, 1.0)
    widths = [int(selected[block].sum()) for block in coding.blocks]
    return Blocks(rows, np.ascontiguousarray(R), np.concatenate([[0], np.cumsum(widths)]).astype(np.int64))


def _frequent_levels(scatter: FloatArray, rare_rows: float) -> NDArray[np.bool_]:
    """Whether to keep each indicator of one variable, `[width]`, from the sums of their products about the means.

    Dropping the indicator of a rare level merges the level into the first level, which has no indicator. If the first
    level is rare itself, it is merged with the most frequent level, whose indicator has the greatest variance.
    """
    counts = np.diag(scatter)
    frequent = counts > rare_rows
    if frequent.any() and scatter.sum() <= rare_rows:
        frequent[int(np.argmax(counts))] = False
    return np.asarray(frequent)


@njit(cache=True)
def log_residual_det(R, first, child, parents, wide=-1):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Ln|R_XX·Z|, where Z are the columns of all `parents`, and X are the first `wide` columns of variable `child`.

    If `wide` is −1, X are all columns of the child. The result is 0 if X has no column.

    The determinant is computed row by row from a Cholesky factor of the correlations of the parents followed by the
    child. A parent's column adds nothing if other columns determine it.
    """
    k = 0
    for p in parents:
        k += first[p + 1] - first[p]
    n_given = k
    last = first[child + 1] if wide < 0 else first[child] + wide
    columns = np.empty(k + last - first[child], np.int64)
    k = 0
    for m in range(len(parents) + 1):
        v = child if m == len(parents) else parents[m]
        for column in range(first[v], last if m == len(parents) else first[v + 1]):
            columns[k] = column
            k += 1
    L, total = np.zeros((k, k)), 0.0
    for i in range(k):
        for j in range(i):
            dot = R[columns[i], columns[j]]
            for t in range(j):
                dot -= L[i, t] * L[j, t]
            L[i, j] = dot / L[j, j] if L[j, j] > 0 else 0.0
        residual = 1.0
        for t in range(i):
            residual -= L[i, t] * L[i, t]
        if i >= n_given:
            residual = max(residual, COLLINEARITY_TOLERANCE)
            total += math.log(residual)
        L[i, i] = math.sqrt(residual) if residual > COLLINEARITY_TOLERANCE else 0.0
    return total
