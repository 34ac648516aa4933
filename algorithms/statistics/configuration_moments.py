"""Moments of numbers by configuration of labels: what a silo of mixed rows sends for a set of variables.

For every configuration of the set's discrete members, in mixed radix with the last one running fastest, stand the
number of rows, and the sums and the sums of products (upper triangle) of its continuous members. They add up over silos
if all silos measure from the same point. Site means say nothing about structure, so each silo measures from its own
means of all its rows: not from those of the configuration, which would take away what labels do to numbers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from .count_tables import PAD
from .rows import Rows, open_rows
from .units import of_columns


@dataclass(frozen=True)
class MixedRows(Rows):
    """A silo's mixed rows: level codes in `columns` `[d, n_rows]`, and numbers about the silo's means."""

    values: FloatArray
    """`[n_rows, d]`; 0 in discrete columns"""
    discrete: NDArray[np.bool_]


def open_mixed_rows(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> MixedRows:
    """Return the rows of `table` `[n_rows, d]`. Raises `BadInput` for a code outside the levels of its variable."""
    rows, discrete = vars(open_rows(table, schema, silo, rng)), schema.discrete
    values = np.where(discrete, 0.0, table)
    for part in np.split(values, np.cumsum(schema.stretches.get(silo, (len(table),)))[:-1]):
        part -= part.mean(axis=0)
    codes = np.where(discrete, table, 0).T.astype(np.int16)
    rows |= {"columns": np.ascontiguousarray(codes), "cardinalities": configurations_of(schema)}
    return MixedRows(**rows, values=values, discrete=discrete)


def configurations_of(schema: Schema) -> NDArray[np.int64]:
    """Return by how many each variable multiplies the configurations of a set, `[d]`: its levels, or 1 for a number."""
    return np.array([len(schema.levels.get(name, ("",))) for name in schema.variables], np.int64)


def places(sets: NDArray[np.int16], levels: NDArray[np.int64], discrete: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where the numbers of each of the `sets` begin, and behind them where the last ones end, `[n_sets + 1]`."""
    there = sets != PAD
    configurations = np.where(there, levels[sets], 1).prod(axis=1, dtype=np.int64)
    numbers = (there & ~discrete[sets]).sum(axis=1)
    sizes = configurations * (1 + numbers + numbers * (numbers + 1) // 2)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def by_configuration(rows: MixedRows, sets: NDArray[np.int16]) -> FloatArray:
    """Return the moments over the `sets`, one after another; sums and products are parts of means over all rows."""
    begins = places(sets, rows.cardinalities, rows.discrete)
    return np.asarray(_added(rows.columns, rows.values, rows.cardinalities, rows.discrete, sets, begins, rows.all_rows))


def units_by_configuration(schema: Schema, sets: NDArray[np.int16]) -> FloatArray:
    """Return about how large the numbers of `by_configuration` are, in the order in which they stand."""
    levels, discrete, units = configurations_of(schema), schema.discrete, of_columns(schema)
    of_sets = []
    for members in sets:
        members = members[members != PAD]
        of = units[members[~discrete[members]]]
        one = np.concatenate([np.ones(1), of, np.outer(of, of)[np.triu_indices(len(of))]])
        of_sets.append(np.tile(one, int(levels[members].prod())))
    return np.concatenate([np.empty(0), *of_sets])


@njit(cache=True)
def _added(codes, values, levels, discrete, sets, begins, all_rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = np.zeros(begins[-1])
    numbers = np.empty(sets.shape[1], np.int64)
    for s in range(len(sets)):
        c = 0
        for v in sets[s]:
            if v != PAD and not discrete[v]:
                numbers[c] = v
                c += 1
        size = 1 + c + c * (c + 1) // 2
        for row in range(len(values)):
            at = 0
            for v in sets[s]:
                if v != PAD and discrete[v]:
                    at = at * levels[v] + codes[v, row]
            at = begins[s] + at * size
            total[at] += 1
            entry = at + 1 + c
            for a in range(c):
                value = values[row, numbers[a]]
                total[at + 1 + a] += value / all_rows
                for b in range(a, c):
                    total[entry] += value * values[row, numbers[b]] / all_rows
                    entry += 1
    return total
