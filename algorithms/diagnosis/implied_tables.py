"""Fit of a graph of labels from one sum of count tables: its implied independences, Fisher's C and BIC.

One exchange sums the count tables of a run on labels: those for this fit, and those for the model's parameters
(`parameters/tables.py`) and for the comparison of the silos (`tables.py`), which need no further sum.

For the fit, the broadcast has three kinds of sets of variables: each variable with its parents in a DAG of the
learned class (its family), each missing edge with the parents of its later variable, and every pair of variables. The
reply has the count tables of these sets, of which the server needs only the sum. Tables of missing edges with few
rows per cell are left out, because their statistic is not χ². The families are left out if their tables together have
more than a quarter of `MAX_TABLE_CELLS` cells, and so are the pairs. Of the tables of missing edges, the smallest are
kept, as many as fit into the remaining cells. The choice depends only on public numbers.

A missing edge is tested by χ² given the parents, on the levels that are not rare. The correlation of two tests of the
same later variable is about Tschuprow's T² of their earlier variables given the parents. Here T² is computed from the
table of the two earlier variables alone, because tables of both with every set of parents would be large. If the
earlier variables are dependent only through the parents, the p-value of Fisher's C is then too large, which is
conservative.

Unless the user allows exact small counts, the figures are computed from counts after disclosure control
(`publishable_stack`), because with exact counts the difference of two figures could disclose one person. Large counts
are then rounded to a grid, which multiplies χ² by about 1 + (4/3)·(mean of 1/expected over the cells). So χ² is
divided by this factor. The remaining rows, in no large cell, are divided equally among the small cells.

BIC compares the graph with the empty graph, and with graphs in which a variable has one more parent. It does not
compare the graph with the saturated graph, which would need the joint table of all variables. In general this table
has more cells than there are rows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..graphs.dag import topological_order
from ..parameters.tables import Broadcast, families
from ..privacy.disclosure_control import GRID, MIN_COUNT, publishable_stack
from ..statistics.count_tables import PAD, count, offsets, tables_for
from ..statistics.declared_sums import require_counts
from ..statistics.rows import Rows, cardinalities_of, open_rows
from .implied import BicGains, Fit, MissingEdgeTests, missing_edges, summarised

MIN_ROWS_PER_CELL = 5
"""minimum number of rows per cell of a table that is tested"""
MIN_EXPECTED = 5
"""minimum expected count of the cells that a test includes"""
GRID_VARIANCE = (GRID**2 - 1) / 6
"""mean variance of the rounding of a count to its grid"""
MAX_TABLE_CELLS = 250_000
"""maximum number of cells of all tables together"""


@dataclass(frozen=True)
class FitTables(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Server:
    """The sets to count and, after the exchange, their summed counts."""

    schema: Schema
    dag: NDArray[np.bool_]
    tests: NDArray[np.int16]
    """missing edges that are tested: the earlier variable, the later variable, its parents; padded `[k, 2 + most]`"""
    implied: int
    """number of missing edges"""
    sets: NDArray[np.int16]
    """the sets to count, in lexicographic order, `[n_sets, size]`"""
    has_families: bool
    """whether each variable with its parents is among the sets"""
    has_pairs: bool
    """whether every pair is among the sets"""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


def start(schema: Schema, dag: NDArray[np.bool_], further: NDArray[np.int16] | None = None) -> Server:
    """The server's state before the exchange, for a `dag` `[d, d]`.

    The tables of `further` sets of at most two variables, `[n_sets, 2]`, are counted for other purposes.
    """
    levels, d = cardinalities_of(schema), len(dag)
    order, width = topological_order(dag, np.arange(d)), 2 + int(dag.sum(axis=0).max(initial=0))
    own, pairs = families(dag), _pairs(d)
    sizes = [float(np.where(sets == PAD, 1.0, levels[sets]).prod(axis=1).sum()) for sets in (own, pairs)]
    with_families, with_pairs = (size <= MAX_TABLE_CELLS / 4 for size in sizes)
    budget = MAX_TABLE_CELLS - sizes[0] * with_families - sizes[1] * with_pairs
    tests, cells = _testable(dag, order, levels, width, sum(schema.rows.values()))
    chosen = tests[: np.searchsorted(np.cumsum(cells), budget, side="right")]
    more = [own] * with_families + [pairs] * with_pairs + ([] if further is None else [further])
    padded = [np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=PAD) for one in more]
    sets = tables_for(np.concatenate([chosen, *padded]), d).sets
    implied = missing_edges(dag, order)
    return Server(schema.in_order(), dag, chosen, implied, sets, with_families, with_pairs)


def of_sets(schema: Schema, sets: NDArray[np.int16]) -> Server:
    """The state before an exchange that counts these `sets` `[n_sets, size]` for other purposes than a fit."""
    d = len(schema.variables)
    return Server(schema.in_order(), np.zeros((d, d), np.bool_), np.empty((0, 2), np.int16), 0, sets, False, False)


def _testable(
    dag: NDArray[np.bool_], order: Sequence[int], levels: NDArray[np.int64], width: int, rows: int
) -> tuple[NDArray[np.int16], FloatArray]:
    """The tests whose tables have enough `rows` per cell, `[n_tests, width]`, and the number of cells of each table.

    A test is a missing edge with the parents of its later variable. Tests are in ascending order of cells; tests with
    the same number of cells are in the order of the variables.
    """
    place, parents = np.empty(len(dag), np.int64), np.full((len(dag), width - 2), PAD)
    place[list(order)] = np.arange(len(dag))
    for child in range(len(dag)):
        own = np.flatnonzero(dag[:, child])
        parents[child, : len(own)] = own
    of_family = levels * np.where(parents == PAD, 1.0, levels[parents]).prod(axis=1)
    i, j = np.nonzero((place[:, None] < place) & ~dag)
    cells = levels[i] * of_family[j]
    kept = np.flatnonzero(cells * MIN_ROWS_PER_CELL <= rows)
    kept = kept[np.argsort(cells[kept], kind="stable")]  # `nonzero` is in the order of the variables
    return np.column_stack([i[kept], j[kept], parents[j[kept]]]).astype(np.int16), cells[kept]


def _pairs(d: int) -> NDArray[np.int16]:
    """All pairs of `d` variables, `[d(d − 1)/2, 2]`."""
    return np.stack(np.triu_indices(d, 1), axis=1).astype(np.int16)


def build(settings: FitTables) -> FederatedAlgorithm[Server, Rows, Broadcast, Summand]:
    """The one exchange, which begins in the state `start(...)`."""
    return sum_each_round(
        open_silo=open_rows,
        open_server=lambda schema: start(schema, np.zeros((len(schema.variables),) * 2, np.bool_)),
        broadcast=lambda server: Broadcast(server.sets),
        part=lambda silo, request: count(silo.columns, silo.cardinalities, request.sets),
        aggregate=aggregate,
        server_type=Server,
        broadcast_type=Broadcast,
        whole_numbers=True,
        greatest_total=lambda schema, request: sum(schema.rows.values()),
        needs_secure_sum=settings.masked,
    )


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the counts; raises `BadInput` for impossible counts."""
    schema = server.schema
    declared = sum(schema.rows[silo] for silo in replies.silos)
    require_counts(replies.total, offsets(server.sets, cardinalities_of(schema)), declared)
    return replace(server, counts=replies.total)


def fit_of_tables(server: Server, *, blank: bool) -> Fit:
    """The fit of the server's DAG to the counts of its final state; if `blank`, to counts after disclosure control."""
    tables, d, variance = CountsBySet(server, blank=blank), len(server.dag), GRID_VARIANCE * blank
    found, by_shape = StratifiedTests.none(len(server.tests)), list(tables.by_shape(server.tests))
    for chosen, strata in by_shape:
        found.put(chosen, stratified_tests(strata, variance))
    usable = np.flatnonzero(found.degrees)
    i, j = (server.tests[usable, end].astype(np.int64) for end in (0, 1))
    shared = 0.0
    if server.has_pairs:
        alike, pairs = np.zeros((d, d)), _pairs(d)
        for chosen, strata in tables.by_shape(pairs):
            a, b = pairs[chosen].T
            alike[a, b] = alike[b, a] = stratified_tests(strata, variance).tschuprow ** 2
        for later in np.unique(j):
            same = i[j == later]
            shared += float(np.triu(alike[np.ix_(same, same)], 1).sum())
    bic = _table_bic(server, tables, by_shape) if server.has_families else None
    tests = MissingEdgeTests(i, j, found.tschuprow[usable], found.p[usable], shared)
    few = "few rows for their tables, or only rare levels"
    return summarised([tests], server.implied, tables.names, server.dag, bic, untested=few, combined=server.has_pairs)


class CountsBySet:
    """The summed count tables of a server's final state; if `blank`, after disclosure control."""

    def __init__(self, server: Server, *, blank: bool) -> None:
        """Find the position of each set's table in the counts."""
        self.names, self.levels = server.schema.variables, cardinalities_of(server.schema)
        self._counts, self._blank, self._rows = server.counts, blank, sum(server.schema.rows.values())
        begins = offsets(server.sets, self.levels).tolist()
        sets = [tuple(v for v in row if v != PAD) for row in server.sets.tolist()]
        self._places = dict(zip(sets, pairwise(begins), strict=True))
        self._tables: dict[tuple[int, ...], FloatArray] = {}

    def table(self, members: Sequence[int]) -> FloatArray:
        """The counts over ascending `members`, one axis for each."""
        return np.asarray(self._stacked([members])[0])

    def _stacked(self, sets: Sequence[Sequence[int]]) -> FloatArray:
        """The counts over each of the `sets` of variables, all with the same numbers of levels; each computed once."""
        unknown = list(dict.fromkeys(key for key in map(tuple, sets) if key not in self._tables))
        if unknown:
            shape = [int(self.levels[v]) for v in unknown[0]]
            counts = np.stack([self._counts[slice(*self._places[key])] for key in unknown])
            counts = counts.reshape(len(unknown), *shape)
            numbers = _blanked(counts, self._rows) if self._blank else counts.astype(np.float64)
            self._tables |= zip(unknown, numbers, strict=True)
        return np.stack([self._tables[tuple(members)] for members in sets])

    def counts(self, sets: NDArray[np.int16]) -> NDArray[np.int64]:
        """The exact counts over `sets` `[n_sets, size]` of ascending members, padded with -1, concatenated."""
        places = [self._places[tuple(v for v in row if v != PAD)] for row in sets.tolist()]
        return np.concatenate([self._counts[slice(*place)] for place in places])

    def strata(self, test: Sequence[int]) -> FloatArray:
        """The counts by state of the other variables, level of the first, and level of the second `[states, x, y]`."""
        ((_, strata),) = self.by_shape(np.array([test], np.int16))
        return np.asarray(strata[0])

    def by_shape(self, tests: NDArray[np.int16]) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield, for each shape of table, the positions in `tests` `[k, size]` of its tests, and their strata.

        The strata are `[tests, states, x, y]`.
        """
        alike: dict[tuple[Any, ...], list[int]] = {}
        sets = [sorted(v for v in test if v != PAD) for test in tests.tolist()]
        for t, ((x, y, *_), members) in enumerate(zip(tests.tolist(), sets, strict=True)):
            key = (*(int(self.levels[v]) for v in members), members.index(x), members.index(y))
            alike.setdefault(key, []).append(t)
        for (*_, x, y), chosen in alike.items():
            stacked = np.moveaxis(self._stacked([sets[t] for t in chosen]), (x + 1, y + 1), (-2, -1))
            yield np.array(chosen), stacked.reshape(len(chosen), -1, *stacked.shape[-2:])

    def family(self, child: int, parents: Sequence[int]) -> FloatArray:
        """The counts by state of the `parents` and level of the `child`, `[states, levels]`."""
        ordered = sorted((child, *parents))
        table = np.moveaxis(self.table(ordered), ordered.index(child), -1)
        return table.reshape(-1, table.shape[-1])


def _blanked(counts: NDArray[np.int64], rows: int) -> FloatArray:
    """The counts of tables `[n_tables, ...]` of `rows` rows after disclosure control.

    The small cells of a table equally share the rows that are in no large cell.
    """
    published, axes = publishable_stack(counts), tuple(range(1, counts.ndim))
    small = published < GRID
    left = rows - np.where(small, 0.0, published).sum(axis=axes, keepdims=True)
    each = np.clip(left / np.maximum(small.sum(axis=axes, keepdims=True), 1), 0.0, MIN_COUNT - 1.0)
    return np.where(small, each, published)


@dataclass(frozen=True)
class StratifiedTests:
    """χ² tests over strata, `[n_tests]` each, with Tschuprow's T of the levels that they include."""

    p: FloatArray
    degrees: NDArray[np.int64]
    """degrees of freedom; 0 if there is nothing to test"""
    tschuprow: FloatArray

    @staticmethod
    def none(n_tests: int) -> "StratifiedTests":
        """Tests that have no result yet."""
        return StratifiedTests(np.ones(n_tests), np.zeros(n_tests, np.int64), np.zeros(n_tests))

    def put(self, chosen: NDArray[np.int64], tests: "StratifiedTests") -> None:
        """Write `tests` to the positions `chosen`."""
        self.p[chosen], self.degrees[chosen], self.tschuprow[chosen] = tests.p, tests.degrees, tests.tschuprow


def stratified_tests(strata: FloatArray, variance: float) -> StratifiedTests:
    """χ² of independence within `strata` `[n_tests, s, x, y]` of counts that were rounded with this `variance`.

    With rare levels, the statistic is not χ²: one row in a cell with an expected count of .01 adds 100. So each stratum
    is reduced to the levels with at least √(5 n) of its n rows, whose expected counts are 5 or more. Independent
    variables are also independent on any subset of levels that is selected by margins.
    """
    n = strata.sum(axis=(-2, -1))
    least = np.sqrt(MIN_EXPECTED * n)[..., None]
    common_x, common_y = strata.sum(axis=-1) >= least, strata.sum(axis=-2) >= least
    strata = strata * common_x[..., :, None] * common_y[..., None, :]
    x, y, n = strata.sum(axis=-1), strata.sum(axis=-2), strata.sum(axis=(-2, -1))
    degrees = np.maximum((x > 0).sum(axis=-1) - 1, 0) * np.maximum((y > 0).sum(axis=-1) - 1, 0)
    expected = x[..., :, None] * y[..., None, :] / np.maximum(n, 1)[..., None, None]
    inverse = np.divide(1.0, expected, out=np.zeros_like(expected), where=expected > 0)
    tested = (expected > 0) & (degrees > 0)[..., None, None]
    df, rows = degrees.sum(axis=-1), np.where(degrees > 0, n, 0.0).sum(axis=-1)
    cells, axes = np.maximum(tested.sum(axis=(-3, -2, -1)), 1), (-3, -2, -1)
    inflation = 1 + variance * (inverse * tested).sum(axis=axes) / cells
    statistic = ((strata - expected) ** 2 * inverse).sum(axis=axes) / inflation
    some = df > 0
    p, t = np.ones(len(df)), np.zeros(len(df))
    p[some] = chdtrc(df[some], statistic[some])
    t[some] = np.sqrt(statistic[some] / (np.sqrt(df[some]) * rows[some]))
    return StratifiedTests(p, df, t)


def _table_bic(server: Server, tables: CountsBySet, tests: list[tuple[NDArray[np.int64], FloatArray]]) -> BicGains:
    """The gain of the graph over the empty graph, and the sum of the gains of the best further parent of each variable.

    `tests` are the strata of the missing edges, as `CountsBySet.by_shape` yields them.
    """
    levels, d = tables.levels.tolist(), len(server.dag)
    parents = [np.flatnonzero(server.dag[:, v]).tolist() for v in range(d)]
    own = [tables.family(v, parents[v]) for v in range(d)]
    price = 0.5 * math.log(max(own[0].sum(), 2))
    fits = [conditional_log_likelihood(one) for one in own]
    graph = sum(fits[v] - price * (levels[v] - 1) * len(own[v]) for v in range(d))
    empty = sum(conditional_log_likelihood(own[v].sum(axis=0)) - price * (levels[v] - 1) for v in range(d))
    gains = np.zeros(d)
    for chosen, strata in tests:  # both scores come from the same table, because two tables are rounded separately
        _, states, x, y = strata.shape
        more = conditional_log_likelihoods(strata) - conditional_log_likelihoods(strata.sum(axis=2))
        np.maximum.at(gains, server.tests[chosen, 1].astype(np.int64), more - price * (y - 1) * states * (x - 1))
    return BicGains(graph - empty, one_more=float(gains.sum()))


def conditional_log_likelihoods(counts: FloatArray) -> FloatArray:
    """Σ n ln(n / Σ n) of the last axis given the other axes, for each element of the first axis."""
    margins = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    shares = np.divide(counts, margins, out=np.ones_like(counts), where=counts > 0)
    return np.asarray((counts * np.log(shares)).reshape(len(counts), -1).sum(axis=1))


def conditional_log_likelihood(counts: FloatArray) -> float:
    """Σ n ln(n / Σ n) of one table: the maximum log-likelihood of the last axis given the others."""
    return float(conditional_log_likelihoods(counts[None])[0])
