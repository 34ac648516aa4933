"""Mixed tables as numbers: every discrete column as indicators of its levels but the first (Andrews et al. 2019).

Source: Andrews, Ramsey, Cooper 2019: Learning High-dimensional Directed Acyclic Graphs with Mixed Data-types.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from .chunks import Chunked, Table
from .units import of_columns


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
        """Return the coded columns of each variable."""
        ends = np.cumsum(self.widths)
        return tuple(np.arange(end - width, end) for end, width in zip(ends, self.widths, strict=True))

    def of(self, variables: Sequence[int]) -> "Coding":
        """Return how these `variables` alone, by their numbers, are coded."""
        chosen = [(self.variables[v], self.widths[v], self.discrete[v]) for v in variables]
        return Coding(*(tuple(one) for one in zip(*chosen, strict=True))) if chosen else Coding((), (), ())

    def coded(self, table: Table) -> Table:
        """Return the coded `table` `[n_rows, D]`: read in passes, if `table` `[n_rows, d]` is."""
        return self.rows(table) if isinstance(table, np.ndarray) else CodedPasses(table, self)

    def rows(self, rows: NDArray[np.float64]) -> FloatArray:
        """Return the coded `rows` `[n, D]` of `[n, d]`: an empty cell (NaN, or the code −1) leaves its block empty."""
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
    """Return how the variables of `schema` are coded; of continuous data each is a column by itself."""
    discrete = tuple(name in schema.levels for name in schema.variables)
    widths = tuple(len(schema.levels[name]) - 1 if name in schema.levels else 1 for name in schema.variables)
    return Coding(schema.variables, widths, discrete)


def coded_names(schema: Schema) -> tuple[str, ...]:
    """Return a name for each coded column, `[D]`: that of a continuous variable, or with the level it indicates."""
    return tuple(
        f"{name}={level}" if level else name
        for name in schema.variables
        for level in (schema.levels[name][1:] if name in schema.levels else ("",))
    )


def coded_units(schema: Schema) -> FloatArray:
    """Return the units of the coded columns, `[D]`: indicators are 0 and 1, whatever the unit of a column of codes."""
    coding, units = coding_of(schema), of_columns(schema)
    return np.where(np.array(coding.discrete), 1.0, units)[coding.owners] if len(units) else units
