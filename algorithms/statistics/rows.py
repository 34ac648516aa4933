"""A silo's rows as searches ask about them, the questions they ask, and the numbers that come back to be added up."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Kind, Schema
from ..errors import BadInput
from .chunks import Table, chunks
from .coding import coded_units
from .count_tables import CodePasses, Codes, count
from .expectation import own_moments
from .gibbs import filled
from .moments import per_row
from .units import of_moments

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
    """Return the rows of `table` `[n_rows, n_variables]` as searches need them.

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
    """Return the codes of discrete rows, their empty cells filled if all silos have found out how."""
    if not len(schema.filling.dag):
        return np.ascontiguousarray(table.T, np.int16) if isinstance(table, np.ndarray) else CodePasses(table)
    sizes = cardinalities_of(schema)
    parts = [filled(np.ascontiguousarray(rows.T, np.int16), sizes, schema.filling, rng) for rows in chunks(table)]
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
    """Return how many levels each variable has, `[d]`: ones where nothing is counted, in continuous and mixed data.

    Raises `BadInput` for time series.
    """
    if schema.kind == "time-series":
        raise BadInput("this search needs rows drawn independently, not a time series")
    if schema.kind != "discrete":
        return np.ones(len(schema.variables), np.int64)
    return np.array([len(schema.levels[v]) for v in schema.variables], np.int64)


def counts_of(rows: Rows, query: Query) -> Numbers:
    """Return the rows' count tables over the sets asked for."""
    return Numbers(count(rows.columns, rows.cardinalities, query.sets))


def moments_of(rows: Rows) -> Numbers:
    """Return the rows' moments, as parts of the means over all rows."""
    return Numbers(per_row(rows.moments, rows.all_rows))


def summand(sent: Numbers) -> FloatArray:
    """Return the numbers of one silo. Sums of counts are exact: floats hold all whole numbers up to 2⁵³."""
    return sent.numbers.astype(np.float64)


def entry_units(schema: Schema, query: Query) -> FloatArray:
    """Return about how large the numbers are that a `query` asks for: counts are themselves."""
    return of_moments(coded_units(schema)) if query.what == "moments" else np.ones(1)


def bytes_of(message: Query | Numbers) -> int:
    """Return the bytes of the message's numbers."""
    arrays = (message.numbers,) if isinstance(message, Numbers) else (message.sets, message.margins)
    return sum(array.nbytes for array in arrays)
