"""A silo's rows for searches, the queries of the server, and the numbers in the reply, which are added up over silos.

The replies to queries are count tables (`counts_of`) or their corners (`corners_of`), second moments (`moments_of`),
or moments of numbers by configuration of labels (`configuration_moments`). Silos of mixed rows send such moments for a
set of variables. For every configuration of the discrete members of the set (in mixed radix; the level of the last
member changes fastest), they are the number of rows, the sums of the continuous members, and their sums of products
(upper triangle). Offsets of silos carry no information about structure, so each silo first subtracts the means of all
its rows. It does not subtract the means of each configuration, because that would remove the effects of labels on
numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.protocol import Summand
from ..core.schema import FloatArray, Kind, Schema
from ..errors import BadInput
from .coding import coded_units
from .corner_counts import count_corners
from .count_tables import PAD, CodePasses, Codes, count, count_limits, offsets
from .expected_moments import own_moments
from .gibbs import gibbs_impute
from .moments import Table, chunks, column_units, conditions_of, moment_units, per_row

NO_VALUES: FloatArray = np.empty(0)
MAX_LEVELS = np.iinfo(np.int16).max
"""maximum number of levels of a variable, because codes are 16-bit numbers"""
EMPTY = -1
"""the code of an empty cell of discrete data; in other data it is NaN"""


@dataclass(frozen=True)
class Rows:
    """A silo's rows: for discrete data, level codes `[d, n_rows]`; for other data, only centred moments.

    The moments of mixed data are those of the coded table (`coding.py`).
    """

    kind: Kind
    columns: Codes
    cardinalities: NDArray[np.int64]
    """the number of levels of each variable, `[d]`; 1 if nothing is counted"""
    moments: FloatArray
    all_rows: int
    """number of rows of all silos"""


@dataclass(frozen=True)
class Query:
    """The server's query: for moments, for tables over sets (counts, or moments by configuration), or for tests.

    A query can also list families (a child and its parents); a silo then returns its own scores of these families.
    """

    what: Literal["moments", "tables", "corners", "configurations", "families", "sketches", "votes"]
    sets: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 2), np.int16))
    """sets of variables, or tests, `[n, size]`, padded with -1; families are one row, in which -1 follows each family;
    with experiments, the first column has the number of the sum to which a set belongs, in ascending order"""
    margins: FloatArray = field(default_factory=lambda: NO_VALUES)
    """for sketches, the summed margins of the tests' tables; for corners, the left-out level of each variable, `[d]`"""
    exchange: int = 0
    """number of this exchange"""


def open_rows(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Rows:
    """The rows of `table` `[n_rows, n_variables]` for searches.

    If the schema has an imputation model, the moments are expected moments, and empty cells of labels are drawn with
    `rng`. Without such a model, empty cells of labels stay empty. Raises `BadInput` for a code outside the levels of
    its variable, and for time series.
    """
    cardinalities, all_rows = cardinalities_of(schema), sum(schema.rows.values())
    if isinstance(table, np.ndarray):
        require_codes(table, schema, silo)
    if schema.kind != "discrete":
        moments = own_moments(table, schema, silo)
        return Rows(schema.kind, np.empty((0, 0), np.int16), cardinalities, moments, all_rows)
    return Rows(schema.kind, _codes(table, schema, rng), cardinalities, NO_VALUES, all_rows)


def _codes(table: Table, schema: Schema, rng: np.random.Generator) -> Codes:
    """The codes of discrete rows, imputed if the schema has an imputation model."""
    if not len(schema.imputation_model.dag):
        return _transposed(table) if isinstance(table, np.ndarray) else CodePasses(table)
    sizes = cardinalities_of(schema)
    parts = [
        gibbs_impute(np.ascontiguousarray(rows.T, np.int16), sizes, schema.imputation_model, rng)
        for rows in chunks(table)
    ]
    return np.concatenate(parts, axis=1)


_TRANSPOSED: dict[int, tuple[ref[NDArray[Any]], ref[NDArray[np.int16]]]] = {}
"""id of a table -> the table and its codes, while both are in use"""


def _transposed(table: NDArray[Any]) -> NDArray[np.int16]:
    """The codes `[n_variables, n_rows]` of `table`, one array for all exchanges of a run; nothing writes to it."""
    known = _TRANSPOSED.get(id(table))
    codes = known[1]() if known is not None and known[0]() is table else None
    if codes is None:
        codes = np.ascontiguousarray(table.T, np.int16)
        for key, (one, other) in list(_TRANSPOSED.items()):
            if one() is None or other() is None:
                _TRANSPOSED.pop(key, None)
        _TRANSPOSED[id(table)] = ref(table), ref(codes)
    return codes


def require_codes(table: NDArray[Any], schema: Schema, silo: str) -> None:
    """Raise `BadInput` for a code in `table` `[n_rows, d]` outside the levels of its variable."""
    for v in np.flatnonzero(schema.discrete):
        last, column = len(schema.levels[schema.variables[v]]) - 1, table[:, v]
        valid = (column >= 0) & (column <= last) & (column == np.floor(column))
        if schema.gaps:
            valid |= np.isnan(column) | (column == EMPTY)
        invalid = np.flatnonzero(~valid)
        if len(invalid):
            row, name = invalid[0], schema.variables[v]
            raise BadInput(f"{silo}: row {row + 1}, column {name}: {table[row, v]} is not a level's code, 0 to {last}")


def cardinalities_of(schema: Schema) -> NDArray[np.int64]:
    """The number of levels of each variable, `[d]`; 1 in continuous and mixed data, where nothing is counted.

    Raises `BadInput` for time series.
    """
    if schema.kind == "time-series":
        raise BadInput("this search needs rows drawn independently, not a time series")
    if schema.kind != "discrete":
        return np.ones(len(schema.variables), np.int64)
    return configurations_of(schema)


Answer = Callable[[Rows, Query], NDArray[Any]]
"""(a silo's rows, query) -> the silo's part of the sum"""


def answer_as_asked(rows: Rows, query: Query, answers: Mapping[str, Answer]) -> NDArray[Any]:
    """The answer to `query` of the kind that it names; raises `BadInput` for a kind that is not among the `answers`.

    The gate of a silo decides by the name of the kind, so no other numbers may leave under it.
    """
    if query.what not in answers:
        raise BadInput(f"a query for {query.what}, which this learner does not ask for")
    return answers[query.what](rows, query)


def counts_of(rows: Rows, query: Query) -> NDArray[Any]:
    """The count tables of `rows` over the sets of `query`."""
    return np.asarray(count(rows.columns, rows.cardinalities, query.sets))


def corners_of(rows: Rows, query: Query) -> NDArray[Any]:
    """The corners of the count tables of `rows` over the sets of `query`."""
    return count_corners(rows.columns, rows.cardinalities, query.sets, query.margins.astype(np.int16))


def moments_of(rows: Rows, query: Query) -> NDArray[Any]:
    """The moments of `rows`, divided by the number of all rows."""
    return per_row(rows.moments, rows.all_rows)


def entry_units(schema: Schema, query: Query) -> FloatArray:
    """The approximate magnitudes of the numbers in the reply to `query`; counts have unit 1."""
    return moment_units(coded_units(schema)) if query.what == "moments" else np.ones(1)


def greatest_count(schema: Schema, query: Query) -> int | None:
    """The upper bound on summed counts, which is the number of all rows; None for a query that is not for counts."""
    return sum(schema.rows.values()) if query.what in ("tables", "corners") else None


def bytes_of(message: Query | Summand) -> int:
    """The bytes of the message's numbers."""
    arrays = (message.values,) if isinstance(message, Summand) else (message.sets, message.margins)
    return sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class SegmentRows(Rows):
    """A silo's windows of series, for fits with separate weights in each segment of the series."""

    segments: FloatArray
    """the centred moments of each segment, `[n_segments, size]`"""


@dataclass(frozen=True)
class ConditionRows(Rows):
    """A silo's rows with experiments: the rows of each condition, and the conditions that are part of each sum."""

    parts: tuple[Rows, ...]
    used: NDArray[np.bool_]
    """`[2·n_sums, n_conditions]`: the conditions in each sum, then the conditions left out of each sum"""


def open_conditions(
    table: Table, schema: Schema, silo: str, open_part: Callable[[Table, Schema], Rows]
) -> ConditionRows:
    """The rows of `table` `[n_rows, d]` by condition, each opened by `open_part` (table, schema).

    Raises `BadInput` for conditions within a silo whose rows are read in passes.
    """
    public = replace(schema, stretches={}, targets={})
    parts = tuple(open_part(part, public) for part in conditions_of(table, schema.conditions(silo), silo))
    used, first = schema.experiments.used[silo], parts[0]
    own = (first.kind, first.columns, first.cardinalities, NO_VALUES, first.all_rows)
    return ConditionRows(*own, parts=parts, used=np.vstack([used, ~used]))


def answer_by_sum(rows: ConditionRows, query: Query, answer: Answer) -> NDArray[Any]:
    """The silo's parts of all sums, concatenated; a part adds up the `answer` of each condition that is in the sum.

    The part is zero for a sum that excludes all conditions of the silo.
    """
    sums, in_tables = [], query.what != "moments"
    for k, used in enumerate(rows.used if in_tables else rows.used[: len(rows.used) // 2]):
        own = query
        if in_tables:
            own = replace(query, sets=np.ascontiguousarray(query.sets[query.sets[:, 0] == k, 1:]))
            if not len(own.sets):
                continue
        numbers = [answer(part, own) for part, is_used in zip(rows.parts, used, strict=True) if is_used]
        sums.append(sum(numbers) if numbers else np.zeros_like(answer(rows.parts[0], own)))
    return np.concatenate(sums)


@dataclass(frozen=True)
class MixedRows(Rows):
    """A silo's mixed rows: level codes in `columns` `[d, n_rows]`, and numbers minus the silo's means."""

    values: FloatArray
    """`[n_rows, d]`; 0 in discrete columns"""
    discrete: NDArray[np.bool_]


def open_mixed_rows(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> MixedRows:
    """The rows of `table` `[n_rows, d]`; raises `BadInput` as `open_rows` does."""
    rows, discrete = vars(open_rows(table, schema, silo, rng)), schema.discrete
    values = np.where(discrete, 0.0, table)
    for part in np.split(values, np.cumsum(schema.stretches.get(silo, (len(table),)))[:-1]):
        part -= part.mean(axis=0)
    codes = np.where(discrete, table, 0).T.astype(np.int16)
    rows |= {"columns": np.ascontiguousarray(codes), "cardinalities": configurations_of(schema)}
    return MixedRows(**rows, values=values, discrete=discrete)


def configurations_of(schema: Schema) -> NDArray[np.int64]:
    """The factor of each variable in the number of configurations, `[d]`: its number of levels, or 1 for a number.

    Raises `BadInput` for a variable with more levels than a code can number.
    """
    sizes = np.array([len(schema.levels.get(name, ("",))) for name in schema.variables], np.int64)
    if (sizes > MAX_LEVELS).any():
        raise BadInput(f"column {schema.variables[sizes.argmax()]} has more than {MAX_LEVELS:,} levels")
    return sizes


def configuration_offsets(
    sets: NDArray[np.int16], levels: NDArray[np.int64], discrete: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The offset of the numbers of each of the `sets`, then the total length, `[n_sets + 1]`; raises as `offsets`."""
    offsets(sets, levels)
    present = sets != PAD
    configurations = np.where(present, levels[sets], 1).prod(axis=1, dtype=np.int64)
    continuous = (present & ~discrete[sets]).sum(axis=1)
    sizes = configurations * (1 + continuous + continuous * (continuous + 1) // 2)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def configuration_moments(rows: MixedRows, sets: NDArray[np.int16]) -> FloatArray:
    """The concatenated moments over the `sets`; sums and products are divided by the number of all rows."""
    begins = configuration_offsets(sets, rows.cardinalities, rows.discrete)
    for members in sets:
        labels = members[(members != PAD) & rows.discrete[members]]
        count_limits().check(int(rows.cardinalities[labels].prod()), len(rows.values), len(labels))
    return np.asarray(
        _sum_configurations(rows.columns, rows.values, rows.cardinalities, rows.discrete, sets, begins, rows.all_rows)
    )


def rescaled_configurations(
    numbers: FloatArray, sets: NDArray[np.int16], levels: NDArray[np.int64], discrete: NDArray[np.bool_], factor: float
) -> FloatArray:
    """The summed `numbers` over the `sets`, in which sums and products are multiplied by `factor`, but not counts."""
    found, begins = numbers * factor, configuration_offsets(sets, levels, discrete)
    for members, begin, end in zip(sets, begins[:-1], begins[1:], strict=True):
        c = int((~discrete[members[members != PAD]]).sum())
        counts = np.arange(begin, end, 1 + c + c * (c + 1) // 2)
        found[counts] = numbers[counts]
    return found


def configuration_units(schema: Schema, sets: NDArray[np.int16]) -> FloatArray:
    """The approximate magnitudes of the numbers of `configuration_moments`, in the same order."""
    levels, discrete, units = configurations_of(schema), schema.discrete, column_units(schema)
    set_units = []
    for members in sets:
        members = members[members != PAD]
        member_units = units[members[~discrete[members]]]
        configuration_unit = np.concatenate(
            [np.ones(1), member_units, np.outer(member_units, member_units)[np.triu_indices(len(member_units))]]
        )
        set_units.append(np.tile(configuration_unit, int(levels[members].prod())))
    return np.concatenate([np.empty(0), *set_units])


@njit(cache=True)
def _sum_configurations(codes, values, levels, discrete, sets, begins, all_rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    total = np.zeros(begins[-1])
    continuous = np.empty(sets.shape[1], np.int64)
    for s in range(len(sets)):
        c = 0
        for v in sets[s]:
            if v != PAD and not discrete[v]:
                continuous[c] = v
                c += 1
        size = 1 + c + c * (c + 1) // 2
        for row in range(len(values)):
            index = 0
            for v in sets[s]:
                if v != PAD and discrete[v]:
                    index = index * levels[v] + codes[v, row]
            index = begins[s] + index * size
            total[index] += 1
            entry = index + 1 + c
            for a in range(c):
                value = values[row, continuous[a]]
                total[index + 1 + a] += value / all_rows
                for b in range(a, c):
                    total[entry] += value * values[row, continuous[b]] / all_rows
                    entry += 1
    return total
