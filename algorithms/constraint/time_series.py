"""PC for time series: the conditioning of PCMCI+ (Runge 2020), from one sum of the moments of windows.

A window is a row together with its 2L earlier rows, where L is the lag order. Links lead from x at time t − τ to y at
time t, for τ from 0 to L. The search has four steps, all at the server:

1. `lagged_parents`: for each variable a superset of its lagged parents, each tested given the strongest others.
2. `mci_search`: every remaining lagged link and all links within the time step are tested given the lagged parents of y
   and of x, and growing sets of present variables that are adjacent to y (momentary conditional independence). The
   parents of x at t − τ reach back 2L steps. Conditioning on them keeps autocorrelation from inflating the tests.
3. Colliders within the time step are found by the rule of the setting `orientation`.
4. Meek's rules direct further links within the time step. Time directs all lagged links.

What leaves a silo: the moments of its windows, once. Their sum decides all tests, so a run needs one exchange of
(m + 1)(m + 2)/2 numbers for m = (2L + 1)d columns.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies, Summand
from ..core.schema import AUTO, FloatArray, Lags, Schema, require_fixed_lags
from ..errors import BadInput
from ..graphs.structure import Structure
from ..statistics.coding import coding_of
from ..statistics.count_tables import PAD
from ..statistics.lagged import window_rows, window_schema, windows
from ..statistics.moments import centred_moments, correlation, pooled_moments, undo_per_row
from ..statistics.rows import Query, Rows, entry_units
from .federated import Server, SummedEvidence
from .moment_tests import student_t
from .orientation import Triples, classify, orient
from .search import Results, SeparatorSearch, untested_search
from .settings import ConstraintSettings
from .subsets import stack

MAX_BATCH = 4_000_000
"""approximate number of entries in the correlation matrices of a batch of tests"""
IN_TURN = ((1,), (2,), (3,))
"""Meek's rules in the order of Runge (2020); without background knowledge, the first three suffice"""

SeriesAlgorithm = FederatedAlgorithm[Server, Any, Query, Summand]


@dataclass(frozen=True)
class LaggedTestSettings(ConstraintSettings):
    """Settings of a constraint-based search that also learns from time series."""

    lags: Lags = AUTO
    """time series: how many steps back an edge may reach; auto: by BIC, in an exchange before the search"""
    center_series: bool = True
    """time series: subtract the means of each series, or the means of the silo if its series are short"""


def with_series(search: SeriesAlgorithm, settings: LaggedTestSettings) -> SeriesAlgorithm:
    """`search`, which learns from tables, extended to time series."""

    def columns(schema: Schema) -> Schema:
        return window_schema(schema, 2 * _reach(schema, settings.lags))

    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Any:
        if schema.kind != "time-series":
            return search.open_silo(table, schema, silo, rng)
        public, cut = columns(schema), window_rows if settings.center_series else windows
        rows = cut(table, schema.stretches[silo], 2 * _reach(schema, settings.lags))
        moments = centred_moments(rows, public.stretches[silo]) if settings.center_series else pooled_moments(rows)
        cardinalities = np.ones(rows.shape[1], np.int64)
        return Rows("continuous", np.empty((0, 0), np.int16), cardinalities, moments, sum(public.rows.values()))

    def open_server(schema: Schema) -> Server:
        if schema.kind != "time-series":
            return search.open_server(schema)
        public, d = columns(schema), len(schema.variables)
        m = (_reach(schema, settings.lags) + 1) * d
        first = np.array([(x, y) for x in range(d, m) for y in range(d)], np.int16)
        rows, cardinalities = dict(sorted(public.rows.items())), np.ones(d, np.int64)
        state = replace(untested_search(np.zeros((m, m), np.bool_)), tests=first)
        return Server(schema.variables, schema.kind, cardinalities, coding_of(public), rows, schema.knowledge, state)

    def aggregate(server: Server, replies: Replies[Summand]) -> Server:
        if server.kind != "time-series":
            return search.aggregate(server, replies)
        moments, lags = undo_per_row(replies.total, server.all_rows), require_fixed_lags(settings.lags)
        n, R = correlation(moments, (2 * lags + 1) * len(server.variables))
        found = series_search(R, n - (not settings.center_series), server.prior, lags, settings)
        known = SummedEvidence("moments", moments, replies.silos)
        return replace(server, search=found, known=known, exchanges=server.exchanges + 1)

    return replace(
        search,
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: (
            Query("moments", exchange=server.exchanges) if server.kind == "time-series" else search.broadcast(server)
        ),
        aggregate=aggregate,
        structure=lambda server: (
            series_graph(server, settings) if server.kind == "time-series" else search.structure(server)
        ),
        entry_units=lambda schema, query: entry_units(
            columns(schema) if schema.kind == "time-series" else schema, query
        ),
    )


def _reach(schema: Schema, lags: Lags) -> int:
    """The lag order L. Raises `BadInput` if L has not been chosen yet, and for a silo without two windows."""
    order = require_fixed_lags(lags)
    for silo in schema.silos:
        longest = max(schema.stretches[silo], default=0)
        if longest < 2 * order + 2:
            raise BadInput(
                f"silo {silo}: fewer rows than 2 x lags + 2: its longest unbroken series has {longest} rows, tests "
                f"with lags = {order} need at least {2 * order + 2}"
            )
    return order


def series_search(
    R: FloatArray, freedom: int, prior: Prior, lags: int, settings: ConstraintSettings
) -> SeparatorSearch:
    """The finished search, from correlations `R` `[(2L + 1)d, (2L + 1)d]` of windows of 2L + 1 rows.

    `freedom` is the number of windows minus the number of subtracted means. `prior` is the background knowledge of the
    d variables. Column τd + i is variable i at time t − τ. The separating sets in the result have only variables of the
    present.
    """
    tester = BatchTester(R, freedom)
    parents = lagged_parents(tester, len(prior.possible), lags, settings)
    return mci_search(tester, parents, prior, lags, settings)


class BatchTester:
    """Tests of partial correlations in batches; `made` counts the tests."""

    def __init__(self, R: FloatArray, freedom: int) -> None:
        """Prepare tests on correlations `R` with `freedom` degrees of freedom."""
        self.R, self.freedom, self.made = R, freedom, 0

    def __call__(self, tests: Sequence[Iterable[int]]) -> Results:
        """The results of `tests`, each x, y and the conditioning set."""
        self.made += len(tests)
        rows = [np.fromiter(test, np.int16) for test in tests]
        width = max(map(len, rows), default=2)
        padded = np.full((len(rows), width), PAD, np.int16)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = row
        batches = np.array_split(padded, max(1, -(-padded.size * width // MAX_BATCH)))
        results = [student_t(self.freedom, self.R, batch) for batch in batches]
        return Results(*(np.concatenate([getattr(one, name) for one in results]) for name in ("p", "strength")))


def lagged_parents(
    test: Callable[[Sequence[Iterable[int]]], Results], d: int, lags: int, settings: ConstraintSettings
) -> list[list[int]]:
    """A superset of the lagged parents of each variable, the strongest first (Runge 2020, Algorithm 1).

    For p = 0, 1, ..., each candidate is tested given the p strongest others, and dropped if the test finds
    independence. The strength of a candidate is the smallest |r| of its tests.
    """
    parents = [list(range(d, (lags + 1) * d)) for _ in range(d)]
    weakest = np.full(((lags + 1) * d, d), np.inf)
    size = 0
    while not 0 <= settings.depth < size:
        links = [(x, y) for y in range(d) if len(parents[y]) > size for x in parents[y]]
        if not links:
            break
        results = test([(x, y, *[z for z in parents[y][: size + 1] if z != x][:size]) for x, y in links])
        for (x, y), p, strength in zip(links, results.p, results.strength, strict=True):
            weakest[x, y] = min(weakest[x, y], strength) if p <= settings.alpha else -1.0
        parents = [_strongest_first(own, weakest[:, y]) for y, own in enumerate(parents)]
        size += 1
    return parents


def _strongest_first(candidates: list[int], strength: FloatArray) -> list[int]:
    """The candidates in descending order of strength, without dropped candidates, which have strength −1."""
    kept = [x for x in candidates if strength[x] >= 0]
    return sorted(kept, key=lambda x: -strength[x])


def mci_search(
    test: BatchTester, parents: list[list[int]], prior: Prior, lags: int, settings: ConstraintSettings
) -> SeparatorSearch:
    """The finished search: the skeleton of lagged and contemporaneous links, and separating sets of other pairs."""
    d, m = len(parents), (lags + 1) * len(parents)
    joined, required = np.zeros((m, m), np.bool_), prior.required_pairs
    joined[:d, :d] = prior.possible_pairs | required
    for y, own in enumerate(parents):
        joined[own, y] = joined[y, own] = True
    weakest, largest = np.zeros((m, d)), np.zeros((m, m))

    def neighbours(y: int) -> list[int]:
        near = np.flatnonzero(joined[:d, y] & (prior.possible | prior.required)[:, y])
        return sorted(near.tolist(), key=lambda x: -weakest[x, y])

    separators: list[tuple[int, ...]] = []
    if settings.orientation == "sepset":  # pairs without a link at this point are separated by lagged variables alone
        separators = [(y, x) for x in range(d, m) for y in range(d) if not joined[x, y]]
    size = 0
    while not 0 <= settings.depth < size:
        near = [neighbours(y) for y in range(d)]
        pools = {
            (x, y): [z for z in near[y] if z != x]
            for x in sorted(range(m), key=lambda x: x % d)
            for y in range(d)
            if joined[x, y] and not (x < d and required[x, y])
        }
        candidates = [(x, y, given) for (x, y), pool in pools.items() for given in _subsets(pool, size, settings)]
        if not candidates:
            break
        results = test([(x, y, *given, *_conditions(parents, x, y)) for x, y, given in candidates])
        weakest = np.where(joined[:, :d], weakest if size else np.inf, 0.0)
        for (x, y, given), p, strength in zip(candidates, results.p, results.strength, strict=True):
            if not joined[x, y]:
                continue
            weakest[x, y] = min(weakest[x, y], strength)
            largest[x, y] = largest[y, x] = max(largest[x, y], p)
            if p > settings.alpha:
                joined[x, y] = joined[y, x] = False
                separators.append((min(x, y), max(x, y), *given))
        size += 1
    if settings.orientation != "sepset":
        separators = _separators(test, parents, joined, settings)
    found = untested_search(joined)
    listed = found.separators
    for width in sorted({len(one) for one in separators}):
        listed = stack(listed, np.array([one for one in separators if len(one) == width], np.int16))
    deepest = max(size - 1, 0)
    return replace(found, level=size, deepest=deepest, separators=listed, made=test.made, largest_p=largest)


def _conditions(parents: list[list[int]], x: int, y: int) -> list[int]:
    """The lagged conditions of a test of x and y: the lagged parents of y, and the lagged parents of x at x's time."""
    lag, own = divmod(x, len(parents))
    return sorted(({*parents[y]} - {x}) | {z + lag * len(parents) for z in parents[own]})


def _subsets(pool: Sequence[int], size: int, settings: ConstraintSettings) -> list[tuple[int, ...]]:
    """The first `max_sets` subsets of `pool` with this `size`."""
    return list(islice(combinations(pool, size), settings.max_sets or None))


def _separators(
    test: BatchTester, parents: list[list[int]], joined: NDArray[np.bool_], settings: ConstraintSettings
) -> list[tuple[int, ...]]:
    """All sets of present neighbours that separate the ends x, y of unshielded triples, each as (x, y, *set)."""
    d = len(parents)
    ends = _unshielded_ends(joined, d)
    sets = {
        (x, y): [
            given
            for pool in (
                [z for z in np.flatnonzero(joined[:d, end]).tolist() if z not in (x, y)]
                for end in ((x, y) if x < d else (y,))
            )
            for size_of in range(len(pool) + 1 if settings.depth < 0 else min(len(pool), settings.depth) + 1)
            for given in _subsets(pool, size_of, settings)
        ]
        for x, y in ends
    }
    candidates = [(x, y, given) for (x, y), own in sets.items() for given in dict.fromkeys(own)]
    results = test([(x, y, *given, *_conditions(parents, x, y)) for x, y, given in candidates])
    return [
        (min(x, y), max(x, y), *given)
        for (x, y, given), p in zip(candidates, results.p, strict=True)
        if p > settings.alpha
    ]


def _unshielded_ends(joined: NDArray[np.bool_], d: int) -> list[tuple[int, int]]:
    """The nonadjacent pairs of x at any lag and y at lag 0 with a common present neighbour, each pair once."""
    common = joined[:, :d].astype(np.float32) @ joined[:d, :d].astype(np.float32) > 0
    x, y = np.nonzero(common & ~joined[:, :d])
    return [(i, j) for i, j in zip(x.tolist(), y.tolist(), strict=True) if i > j]


def series_graph(server: Server, settings: ConstraintSettings) -> Structure:
    """The graph of the lagged links and of the links within the time step.

    Colliders, time and background knowledge direct links. The graph is a DAG if all links are directed and there is no
    cycle; otherwise it is a CPDAG.
    """
    variables, search, prior = server.variables, server.search, server.prior
    d, m = len(variables), len(search.joined)
    found = classify(search, settings.orientation)
    present = Triples(found.colliders, frozenset(one for one in found.ambiguous if one[0] < d and one[1] < d))
    rules = (*IN_TURN, (4,)) if prior.is_informative else IN_TURN
    edges = orient(search.joined, present, prior.of_windows(m).one_way_arcs, rules).astype(np.float64)
    whole = Structure(variables, edges[:d, :d], "dag", lagged=edges[d:, :d].reshape(-1, d, d))
    return whole if whole.acyclic else replace(whole, kind="cpdag")
