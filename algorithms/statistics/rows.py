"""A silo's rows as searches ask about them, the questions they ask, and the numbers that come back to be added up.

Moments of numbers by configuration of labels: what a silo of mixed rows sends for a set of variables.

For every configuration of the set's discrete members, in mixed radix with the last one running fastest, stand the
number of rows, and the sums and the sums of products (upper triangle) of its continuous members. They add up over silos
if all silos measure from the same point. Site means say nothing about structure, so each silo measures from its own
means of all its rows: not from those of the configuration, which would take away what labels do to numbers.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray, Kind, Schema
from ..errors import BadInput
from .coding import coded_units
from .count_tables import PAD, CodePasses, Codes, count
from .em import gibbs_imputed, own_moments
from .moments import Table, chunks, column_units, moment_units, per_row

NOTHING: FloatArray = np.empty(0)
EMPTY = -1
"""the code of an empty cell of discrete data; of other data it is NaN"""


@dataclass(frozen=True)
class Rows:
    """A silo's rows: of discrete data the level codes `[d, n_rows]`, of others only their centred moments.

    Those of mixed data are moments of the coded table (`coding.py`).
    """

    kind: Kind
    columns: Codes
    cardinalities: NDArray[np.int64]
    """how many levels each variable has, `[d]`; ones where nothing is counted"""
    moments: FloatArray
    all_rows: int
    """number of rows of all silos"""


@dataclass(frozen=True)
class Query:
    """What the server asks: moments, tables over sets (counts, or moments by configuration), or about tests."""

    what: Literal["moments", "tables", "configurations", "sketches", "votes"]
    sets: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 2), np.int16))
    """of variables, `[n, size]`, filled up with -1; where tests are asked about, they themselves"""
    margins: FloatArray = field(default_factory=lambda: NOTHING)
    """for sketches: the summed margins of the tests' tables"""
    exchange: int = 0
    """number of this exchange"""


@dataclass(frozen=True)
class Numbers:
    """What a silo sends: numbers to be added to those of the others."""

    numbers: NDArray[Any]


def open_rows(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Rows:
    """The rows of `table` `[n_rows, n_variables]` as searches need them.

    Where all silos have found out how to reckon with empty cells, moments are those expected, and codes are drawn from
    `rng`; else empty cells stay as they are. Raises `BadInput` for a code outside the levels of its variable, and for
    time series.
    """
    cardinalities, all_rows = cardinalities_of(schema), sum(schema.rows.values())
    if isinstance(table, np.ndarray):
        require_codes(table, schema, silo)
    if schema.kind != "discrete":
        moments = own_moments(table, schema, silo)
        return Rows(schema.kind, np.empty((0, 0), np.int16), cardinalities, moments, all_rows)
    return Rows(schema.kind, _codes(table, schema, rng), cardinalities, NOTHING, all_rows)


def _codes(table: Table, schema: Schema, rng: np.random.Generator) -> Codes:
    """The codes of discrete rows, their empty cells filled if all silos have found out how."""
    if not len(schema.imputation_model.dag):
        return np.ascontiguousarray(table.T, np.int16) if isinstance(table, np.ndarray) else CodePasses(table)
    sizes = cardinalities_of(schema)
    parts = [
        gibbs_imputed(np.ascontiguousarray(rows.T, np.int16), sizes, schema.imputation_model, rng)
        for rows in chunks(table)
    ]
    return np.concatenate(parts, axis=1)


def require_codes(table: NDArray[Any], schema: Schema, silo: str) -> None:
    """Raise `BadInput` for a code in `table` `[n_rows, d]` that is none of the levels of its variable."""
    for v in np.flatnonzero(schema.discrete):
        last, column = len(schema.levels[schema.variables[v]]) - 1, table[:, v]
        good = (column >= 0) & (column <= last) & (column == np.floor(column))
        if schema.gaps:
            good |= np.isnan(column) | (column == EMPTY)
        wrong = np.flatnonzero(~good)
        if len(wrong):
            row, name = wrong[0], schema.variables[v]
            raise BadInput(f"{silo}: row {row + 1}, column {name}: {table[row, v]} is not a level's code, 0 to {last}")


def cardinalities_of(schema: Schema) -> NDArray[np.int64]:
    """How many levels each variable has, `[d]`: ones where nothing is counted, in continuous and mixed data.

    Raises `BadInput` for time series.
    """
    if schema.kind == "time-series":
        raise BadInput("this search needs rows drawn independently, not a time series")
    if schema.kind != "discrete":
        return np.ones(len(schema.variables), np.int64)
    return np.array([len(schema.levels[v]) for v in schema.variables], np.int64)


def counts_of(rows: Rows, query: Query) -> Numbers:
    """The rows' count tables over the sets asked for."""
    return Numbers(count(rows.columns, rows.cardinalities, query.sets))


def moments_of(rows: Rows) -> Numbers:
    """The rows' moments, as parts of the means over all rows."""
    return Numbers(per_row(rows.moments, rows.all_rows))


def summand(sent: Numbers) -> FloatArray:
    """The numbers of one silo. Sums of counts are exact: floats hold all whole numbers up to 2⁵³."""
    return sent.numbers.astype(np.float64)


def entry_units(schema: Schema, query: Query) -> FloatArray:
    """About how large the numbers are that a `query` asks for: counts are themselves."""
    return moment_units(coded_units(schema)) if query.what == "moments" else np.ones(1)


def bytes_of(message: Query | Numbers) -> int:
    """The bytes of the message's numbers."""
    arrays = (message.numbers,) if isinstance(message, Numbers) else (message.sets, message.margins)
    return sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class MixedRows(Rows):
    """A silo's mixed rows: level codes in `columns` `[d, n_rows]`, and numbers about the silo's means."""

    values: FloatArray
    """`[n_rows, d]`; 0 in discrete columns"""
    discrete: NDArray[np.bool_]


def open_mixed_rows(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> MixedRows:
    """The rows of `table` `[n_rows, d]`. Raises `BadInput` for a code outside the levels of its variable."""
    rows, discrete = vars(open_rows(table, schema, silo, rng)), schema.discrete
    values = np.where(discrete, 0.0, table)
    for part in np.split(values, np.cumsum(schema.stretches.get(silo, (len(table),)))[:-1]):
        part -= part.mean(axis=0)
    codes = np.where(discrete, table, 0).T.astype(np.int16)
    rows |= {"columns": np.ascontiguousarray(codes), "cardinalities": configurations_of(schema)}
    return MixedRows(**rows, values=values, discrete=discrete)


def configurations_of(schema: Schema) -> NDArray[np.int64]:
    """By how many each variable multiplies the configurations of a set, `[d]`: its levels, or 1 for a number."""
    return np.array([len(schema.levels.get(name, ("",))) for name in schema.variables], np.int64)


def configuration_offsets(
    sets: NDArray[np.int16], levels: NDArray[np.int64], discrete: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Where the numbers of each of the `sets` begin, and behind them where the last ones end, `[n_sets + 1]`."""
    there = sets != PAD
    configurations = np.where(there, levels[sets], 1).prod(axis=1, dtype=np.int64)
    numbers = (there & ~discrete[sets]).sum(axis=1)
    sizes = configurations * (1 + numbers + numbers * (numbers + 1) // 2)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def configuration_moments(rows: MixedRows, sets: NDArray[np.int16]) -> FloatArray:
    """The moments over the `sets`, one after another; sums and products are parts of means over all rows."""
    begins = configuration_offsets(sets, rows.cardinalities, rows.discrete)
    return np.asarray(_added(rows.columns, rows.values, rows.cardinalities, rows.discrete, sets, begins, rows.all_rows))


def configuration_units(schema: Schema, sets: NDArray[np.int16]) -> FloatArray:
    """About how large the numbers of `by_configuration` are, in the order in which they stand."""
    levels, discrete, units = configurations_of(schema), schema.discrete, column_units(schema)
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
