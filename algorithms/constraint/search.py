"""The search for separating sets (PC-stable, FCI): a state that requests tests and is updated with their results.

Each variable has a pool from which conditioning sets are drawn. Level by level, with conditioning sets of growing size,
every pair that is still joined is tested given subsets of the pools of its two variables. The first set that makes the
pair independent separates it. The stage of the search determines the pools:

- "skeleton": the variables that are joined to the variable when the level begins (Colombo & Maathuis 2014,
  Algorithm 4.1).
- "possible-d-sep": the possible-d-sep sets of the skeleton (Spirtes et al. 2000, §6.7), for latent variables. If a set
  separates two variables, so does a set of variables on paths between them (Colombo et al. 2012, §3.3: FCI-path). All
  variables on such paths are in the biconnected component of the edge between the two (`biconnected`).
- "colliders": no further pair is separated. The search collects all sets that separate the ends of unshielded triples
  (Colombo & Maathuis 2014, §4.2: conservative and majority rule).

Background knowledge (Meek 1995): a pair between which no edge is allowed is never tested. A pair with a required arc is
tested only without a conditioning set, for the strength of its dependence, and is never separated. Without latent
variables, the parents of one of the two variables separate a pair, so a pool contains only possible parents.

The module also has the results of independence tests (`Results`) and the settings of all constraint-based algorithms
(`ConstraintSettings`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..core.settings import Count, CountOrNone, NonNegative, Settings, Share
from ..statistics.count_tables import PAD

# The order of independence tests: the conditioning sets of one size, the most promising first.
#
# PC-stable (Colombo & Maathuis 2014) fixes the pools from which conditioning sets are drawn at the start of each level,
# so the order of its tests is free. Here the data determine the order in which the sets of a pair (i, j) are tried. A
# variable is promising if both i and j depend on it strongly. All subsets of the k most promising variables precede any
# set with the next variable. So separating sets are found early. Except for ties, the first set found does not depend
# on the order of the columns.


Tests = NDArray[np.int16]
"""independence tests `[n_tests, 2 + size]`: x, y and the conditioning set, padded with -1"""


def stack(one: Tests, other: Tests) -> Tests:
    """Both lists of tests as one, padded to the larger conditioning set."""
    stacked = np.full((len(one) + len(other), max(one.shape[1], other.shape[1])), PAD, np.int16)
    stacked[: len(one), : one.shape[1]] = one
    stacked[len(one) :, : other.shape[1]] = other
    return stacked


def cells_of(tests: Tests, cardinalities: NDArray[np.int64]) -> float:
    """The number of cells of the tables of `tests`, counting a shared table once for each of its tests."""
    return float(np.where(tests == PAD, 1, cardinalities[tests]).prod(axis=1, dtype=np.float64).sum())


@dataclass(frozen=True)
class SubsetSource:
    """The source of the conditioning sets of one size, for `d` variables."""

    size: int
    pools: NDArray[np.bool_]
    """row i: the variables from which the conditioning sets of i are drawn, `[d, d]`"""
    tried: NDArray[np.bool_]
    """sets within row i or j have already been tried for the pair (i, j) and are skipped, `[d, d]`"""
    strength: FloatArray
    """strength of the dependence of two variables, `[d, d]`"""
    cardinalities: NDArray[np.int64]
    blocks: NDArray[np.bool_]
    """sets of variables, `[n_blocks, d]`; the conditioning sets of a pair are subsets of the pair's block"""
    block_of: NDArray[np.int64]
    """the block of each pair, `[d, d]`"""
    max_sets: int
    """largest number of conditioning sets for a pair"""
    most_cells: float
    """tests whose tables would have more cells are omitted"""


def next_tests(
    source: SubsetSource, pairs: NDArray[np.int64], n_tried: NDArray[np.int64], cells: float
) -> tuple[Tests, NDArray[np.int64], int]:
    """The next tests of each of the `pairs` `[n_pairs, 2]`, of which `n_tried` `[n_pairs]` sets have been tried before.

    Also returns the new number of tried sets for each pair, and the number of tests omitted because their tables are
    too large. The tables of all tests together have about `cells` cells, shared equally by the pairs with sets left.
    """
    share = cells / max(len(pairs), 1)
    pairs, n_tried = np.ascontiguousarray(pairs), np.ascontiguousarray(n_tried)
    packed = (
        source.size,
        *map(np.ascontiguousarray, (source.pools, source.tried, source.strength, source.cardinalities)),
        *map(np.ascontiguousarray, (source.blocks, source.block_of)),
        source.max_sets,
        float(source.most_cells),
    )
    while True:
        tests, now_tried, left_out, used, all_drawn = _next_tests(pairs, n_tried, share, packed)
        if all_drawn or 2 * used > cells:
            return tests, now_tried, int(left_out)
        share *= 2


# These functions use explicit loops, because numba takes seconds to compile each slice or sort.


@njit(cache=True)
def _next_tests(pairs, n_tried, share, source):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """As `next_tests`, but each pair has about `share` cells.

    Also returns the number of cells of all tables, and whether all sets of all pairs have been tried.
    """
    width = 2 + source[0]
    tests = np.empty((max(64, len(pairs)), width), np.int16)
    now_tried = np.empty(len(pairs), np.int64)
    n_tests, left_out, used, all_drawn = 0, 0, 0.0, True
    for pair in range(len(pairs)):
        pair_tests, n, now_tried[pair], cells, too_large, drawn = _pair_tests(
            pairs[pair, 0], pairs[pair, 1], n_tried[pair], share, source
        )
        while n_tests + n > len(tests):
            tests = _doubled(tests)
        for t in range(n):
            for column in range(width):
                tests[n_tests + t, column] = pair_tests[t, column]
        n_tests += n
        left_out += too_large
        used += cells
        all_drawn = all_drawn and drawn
    return tests[:n_tests], now_tried, left_out, used, all_drawn


@njit(cache=True)
def _pair_tests(i, j, n_tried, share, source):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The tests of a pair: the subsets of both pools in one colexicographic order, after the first `n_tried`."""
    size, pools, tried, strength, cardinalities, blocks, block_of, max_sets, most_cells = source
    candidates, mine, theirs = _rank_candidates(i, j, pools, blocks[block_of[i, j]], strength)
    one, other, given = np.arange(size), np.arange(size), np.empty(size, np.int64)
    one_left, other_left = len(mine) >= size, len(theirs) >= size
    tests, n_tests = np.empty((4, 2 + size), np.int16), 0
    cells, seen, too_large = 0.0, 0, 0
    while (one_left or other_left) and cells < share and seen < max_sets:
        order = _compare(one, mine, one_left, other, theirs, other_left)
        for t in range(size):
            given[t] = candidates[mine[one[t]]] if order <= 0 else candidates[theirs[other[t]]]
        if order <= 0:
            one_left = _advance(one, len(mine))
        if order >= 0:
            other_left = _advance(other, len(theirs))
        if size > 0 and (_within(given, tried, i) or _within(given, tried, j)):
            continue
        seen += 1
        if seen <= n_tried:
            continue
        product = float(cardinalities[i] * cardinalities[j])
        for k in given:
            product *= cardinalities[k]
        if product > most_cells:
            too_large += 1
            continue
        if n_tests == len(tests):
            tests = _doubled(tests)
        tests[n_tests, 0], tests[n_tests, 1] = i, j
        for t in range(size):
            tests[n_tests, 2 + t] = given[t]
        n_tests += 1
        cells += product
    drawn = seen >= max_sets or not (one_left or other_left)
    return tests, n_tests, max(seen, n_tried), cells, too_large, drawn


@njit(cache=True)
def _doubled(tests):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`tests` with twice the capacity."""
    longer = np.empty((2 * len(tests), tests.shape[1]), np.int16)
    for t in range(len(tests)):
        for column in range(tests.shape[1]):
            longer[t, column] = tests[t, column]
    return longer


@njit(cache=True)
def _rank_candidates(i, j, pools, block, strength):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The variables in the pools of i and j, most promising first, and the positions of i's and of j's among them.

    A Shell sort by promise; ties are broken by the number of the variable.
    """
    d, n = len(block), 0
    candidates, promise = np.empty(d, np.int64), np.empty(d)
    for k in range(d):
        if k != i and k != j and block[k] and (pools[i, k] or pools[j, k]):
            candidates[n], promise[k] = k, min(strength[i, k], strength[j, k])
            n += 1
    gap = n // 2
    while gap > 0:
        for at in range(gap, n):
            current, to = candidates[at], at
            while to >= gap and _ranks_below(candidates[to - gap], current, promise):
                candidates[to] = candidates[to - gap]
                to -= gap
            candidates[to] = current
        gap //= 2
    mine, theirs, n_mine, n_theirs = np.empty(n, np.int64), np.empty(n, np.int64), 0, 0
    for at in range(n):
        if pools[i, candidates[at]]:
            mine[n_mine] = at
            n_mine += 1
        if pools[j, candidates[at]]:
            theirs[n_theirs] = at
            n_theirs += 1
    return candidates, mine[:n_mine], theirs[:n_theirs]


@njit(cache=True)
def _ranks_below(k, other, promise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return promise[k] < promise[other] or (promise[k] == promise[other] and k > other)


@njit(cache=True)
def _compare(one, mine, one_left, other, theirs, other_left):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """-1 if `one` precedes `other`, 1 if it follows, 0 if they are the same set, in colexicographic order."""
    if not one_left:
        return 1
    if not other_left:
        return -1
    for t in range(len(one) - 1, -1, -1):
        if mine[one[t]] != theirs[other[t]]:
            return -1 if mine[one[t]] < theirs[other[t]] else 1
    return 0


@njit(cache=True)
def _advance(chosen, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Advance to the next subset of range(n) in colexicographic order; return False if there is none."""
    size = len(chosen)
    if size == 0:
        return False
    t = 0
    while t < size - 1 and chosen[t] + 1 == chosen[t + 1]:
        chosen[t] = t
        t += 1
    chosen[t] += 1
    return chosen[size - 1] < n


@njit(cache=True)
def _within(given, tried, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether row i of `tried` has all of `given`."""
    inside = True
    for k in given:
        inside = inside and tried[i, k]
    return inside


def biconnected(joined: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The biconnected components of a symmetric graph, `[n, d]`, and the component of each edge, `[d, d]`."""
    import networkx as nx  # imported late: the import takes as long as reading a small data set

    d = len(joined)
    component_of = np.zeros((d, d), np.int64)
    members = []
    for number, edges in enumerate(nx.biconnected_component_edges(nx.from_numpy_array(joined))):
        i, j = np.array(list(edges)).T
        component_of[i, j] = component_of[j, i] = number
        inside = np.zeros(d, np.bool_)
        inside[i] = inside[j] = True
        members.append(inside)
    return np.array(members, np.bool_).reshape(-1, d), component_of


@dataclass(frozen=True)
class Results:
    """The p-value of independence and the strength of the dependence of each test, `[n_tests]` each.

    Votes and oracles have no p-values: they return 1 for independent and 0 for dependent.
    """

    p: FloatArray
    strength: FloatArray


IndependenceTests = Callable[[Tests], Results]


Orientation = Literal["sepset", "conservative", "clear", "majority"]


@dataclass(frozen=True)
class ConstraintSettings(Settings):
    """Settings of a constraint-based search; the defaults are those of Wang, Ma & Wang 2023 if they state one."""

    alpha: Share = 0.05
    """α, the level of the tests: p > α counts as independence"""
    statistic: Literal["chi2", "g2"] = "chi2"
    """the statistic of discrete data; continuous data are tested by Fisher's z, mixed by likelihood ratios"""
    orientation: Orientation = "clear"
    """how colliders are identified: by the separating set found first (sepset); or, with one more exchange, by all
    separating sets, of which all (conservative), four in five (clear) or more than half (majority) must agree"""
    depth: Annotated[int, Ge(-1)] = -1
    """the largest conditioning set (-1: as large as the graph requires)"""
    max_sets: CountOrNone = 100
    """number of conditioning sets of one size to try for a pair, the most promising first (0: all)"""
    rows_per_cell: NonNegative = 1.0
    """a test is made only with at least this number of rows per cell of its table"""
    cells: Count = 2_000_000
    """approximate number of table cells to request in one exchange"""
    rounds: Count = 10_000
    """largest number of exchanges"""


Pools = Callable[["SeparatorSearch"], NDArray[np.bool_]]
"""the search at the end of the skeleton -> the possible-d-sep set of each variable, `[d, d]` by rows"""


@dataclass(frozen=True)
class SeparatorSearch:
    """The complete state of a search. `d` is the number of variables."""

    stage: str
    level: int
    joined: NDArray[np.bool_]
    """pairs not separated so far, `[d, d]`, symmetric"""
    pools: NDArray[np.bool_]
    """the variables from which the conditioning sets of each variable are drawn on this level, `[d, d]` by rows"""
    tried: NDArray[np.bool_]
    """sets within row i or row j have already been tried for the pair (i, j) and are skipped, `[d, d]`"""
    n_tested: NDArray[np.int64]
    """number of conditioning sets of this level that have been tried for each pair i < j, `[d, d]`"""
    strength: FloatArray
    """strength of the marginal dependence of two variables, `[d, d]`"""
    separators: Tests
    """the tests that found independence; for each separated pair, the test that separated it comes first"""
    p: FloatArray
    """the p-values of `separators`"""
    tests: Tests
    """the tests of the next exchange; empty when the search is done"""
    deepest: int = 0
    """the size of the largest conditioning sets tried"""
    made: int = 0
    """number of tests made"""
    left_out: int = 0
    """number of tests omitted because there are too few rows"""
    largest_p: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    """the largest p-value of the tests of each pair before the stage "colliders", `[d, d]`, symmetric"""

    @property
    def done(self) -> bool:
        """Whether no test is left to request."""
        return not len(self.tests)


def untested_search(joined: NDArray[np.bool_]) -> SeparatorSearch:
    """A search without tests in which these pairs are `joined` `[d, d]`."""
    none, zeros = np.zeros_like(joined), np.zeros(joined.shape)
    no_tests, counts = np.empty((0, 2), np.int16), zeros.astype(np.int64)
    return SeparatorSearch(
        "skeleton", 0, joined, joined, none, counts, zeros, no_tests, np.empty(0), no_tests, largest_p=zeros
    )


@dataclass(frozen=True)
class SearchPlan:
    """The stages and limits of a search of PC or FCI."""

    stages: tuple[str, ...]
    depth: int
    """largest number of variables in a conditioning set; -1 for no limit"""
    cells: int
    """approximate number of table cells per exchange"""
    alpha: float
    cardinalities: NDArray[np.int64]
    """the numbers of levels of the variables; ones if no tables are counted"""
    max_sets: int
    """largest number of conditioning sets of one size for a pair"""
    most_cells: float
    """largest number of cells of a table; tests with larger tables are omitted"""
    prior: Prior
    """background knowledge of the graph"""
    possible_d_sep: Pools | None = None

    @property
    def relevant(self) -> NDArray[np.bool_]:
        """The variables that the conditioning sets of each variable may contain, `[d, d]` by rows.

        They are the possible parents of the variable, but with possible-d-sep sets all variables.
        """
        return np.ones_like(self.prior.possible) if self.possible_d_sep else self.prior.possible.T


def create_plan(
    settings: ConstraintSettings,
    cardinalities: NDArray[np.int64],
    rows: int,
    pools: Pools | None,
    prior: Prior | None = None,
) -> SearchPlan:
    """The plan of PC or, with possible-d-sep `pools`, of FCI, with the background knowledge `prior`."""
    stages = ["skeleton"]
    if pools is not None:
        stages.append("possible-d-sep")
    if settings.orientation != "sepset":
        stages.append("colliders")
    max_cells = rows / settings.rows_per_cell if settings.rows_per_cell else np.inf
    return SearchPlan(
        (*stages, "done"),
        settings.depth,
        settings.cells,
        settings.alpha,
        cardinalities,
        settings.max_sets or np.iinfo(np.int64).max,
        max_cells,
        prior or no_prior(len(cardinalities)),
        pools,
    )


def start(plan: SearchPlan) -> SeparatorSearch:
    """The initial search and the tests of its first exchange; all pairs that background knowledge allows are joined."""
    return request_tests(plan, untested_search(plan.prior.possible_pairs))


def step(plan: SearchPlan, search: SeparatorSearch, results: Results) -> SeparatorSearch:
    """The search after the `results` of its tests, with the next tests to request."""
    return request_tests(plan, apply_results(plan, search, results))


def run(plan: SearchPlan, answer: IndependenceTests) -> SeparatorSearch:
    """The finished search, in which `answer` gives the results of all tests."""
    search = start(plan)
    while not search.done:
        search = step(plan, search, answer(search.tests))
    return search


def apply_results(plan: SearchPlan, search: SeparatorSearch, results: Results) -> SeparatorSearch:
    """The search updated with `results`, without new tests."""
    independent = np.flatnonzero(results.p > plan.alpha)
    joined, strength, largest = search.joined, search.strength, search.largest_p
    if search.stage != "colliders":
        largest = with_maxima(largest, search.tests, results.p)
        pairs = search.tests[independent, :2] @ np.array([len(joined), 1])
        independent = independent[np.unique(pairs, return_index=True)[1]]
        joined = joined.copy()
        x, y = search.tests[independent, :2].T
        joined[x, y] = joined[y, x] = False
        joined |= plan.prior.required_pairs
    if search.level == 0 and search.stage == "skeleton":
        strength = strength.copy()
        x, y = search.tests[:, :2].T
        strength[x, y] = strength[y, x] = results.strength
    return replace(
        search,
        joined=joined,
        strength=strength,
        largest_p=largest,
        separators=stack(search.separators, search.tests[independent]),
        p=np.concatenate([search.p, results.p[independent]]),
        tests=search.tests[:0],
        made=search.made + len(search.tests),
    )


def with_maxima(largest: FloatArray, tests: Tests, p: FloatArray) -> FloatArray:
    """The maximum of `largest` `[d, d]` and the p-values `p` of `tests`, for each pair."""
    updated = largest.copy()
    x, y = tests[:, :2].T
    np.maximum.at(updated, (x, y), p)
    np.maximum.at(updated, (y, x), p)
    return updated


def request_tests(plan: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    """The search with the tests of its next exchange, from the next level or stage that has tests.

    A level whose tables have too many cells is split into parts. The stage "colliders" separates no pair, so its levels
    do not depend on each other and are requested together.
    """
    while search.stage != "done":
        requested = _request_level(plan, search)
        if len(requested.tests) > len(search.tests):
            search = requested
            if search.stage != "colliders" or cells_of(search.tests, plan.cardinalities) >= plan.cells:
                break
        else:
            following = _next_level(plan, requested)
            if following.stage != search.stage and len(search.tests):
                break
            search = following
    return search


def _request_level(plan: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    pairs = np.argwhere(np.triu(_pairs(plan, search)))
    if not len(pairs):
        return search
    blocks, block_of = _blocks(plan, search)
    source = SubsetSource(
        search.level,
        search.pools,
        search.tried,
        search.strength,
        plan.cardinalities,
        blocks,
        block_of,
        plan.max_sets,
        plan.most_cells,
    )
    n_tried = search.n_tested[pairs[:, 0], pairs[:, 1]]
    tests, now_tried, left_out = next_tests(source, pairs, n_tried, plan.cells)
    tried_by_pair = search.n_tested.copy()
    tried_by_pair[pairs[:, 0], pairs[:, 1]] = now_tried
    return replace(
        search, tests=stack(search.tests, tests), n_tested=tried_by_pair, left_out=search.left_out + left_out
    )


def _blocks(plan: SearchPlan, search: SeparatorSearch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Sets of variables (blocks), and the block that limits the conditioning sets of each pair (see `SubsetSource`)."""
    if search.stage == "possible-d-sep":
        return biconnected(search.tried)
    return np.ones((1, len(search.joined)), np.bool_), np.zeros(search.joined.shape, np.int64)


def _pairs(plan: SearchPlan, search: SeparatorSearch) -> NDArray[np.bool_]:
    """The pairs to be tested, symmetric: the ends of unshielded triples in the last stage, before it the joined pairs.

    Pairs with a required arc are tested only on level 0.
    """
    if search.stage != "colliders":
        return search.joined & ~plan.prior.required_pairs if search.level else search.joined
    common = search.joined.astype(np.float32) @ search.joined.astype(np.float32) > 0
    return common & ~search.joined & ~np.eye(len(common), dtype=np.bool_)


def _next_level(plan: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    level = search.level + 1
    following = replace(search, level=level, n_tested=np.zeros_like(search.n_tested))
    if search.stage == "skeleton":
        following = replace(following, pools=search.joined & plan.relevant)
    if _has_tests(plan, following):
        deepest = search.deepest if search.stage == "colliders" else max(level, search.deepest)
        return replace(following, deepest=deepest)
    return _next_stage(plan, following)


def _has_tests(plan: SearchPlan, search: SeparatorSearch) -> bool:
    """Whether the pools, the depth and the number of rows allow conditioning sets as large as the level."""
    if search.stage == "colliders":
        return search.level <= search.deepest
    if 0 <= plan.depth < search.level:
        return False
    if np.sort(plan.cardinalities)[: search.level + 2].prod(dtype=np.float64) > plan.most_cells:
        return False
    sizes = search.pools.sum(axis=1)[:, None] - search.pools
    return bool((sizes[_pairs(plan, search)] >= search.level).any())


def _next_stage(plan: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    stage = plan.stages[plan.stages.index(search.stage) + 1]
    search = replace(search, stage=stage, n_tested=np.zeros_like(search.n_tested))
    none = np.zeros_like(search.joined)
    if stage == "possible-d-sep":
        assert plan.possible_d_sep is not None
        search = replace(search, level=1, pools=plan.possible_d_sep(search), tried=search.joined)
        return search if _has_tests(plan, search) else _next_stage(plan, search)
    return replace(search, level=0, pools=search.joined & plan.relevant, tried=none)


def separating_sets(search: SeparatorSearch) -> dict[tuple[int, int], list[frozenset[int]]]:
    """The sets that separate each pair (i, j), i < j, in the order in which they were found."""
    found: dict[tuple[int, int], list[frozenset[int]]] = {}
    for i, j, *given in search.separators.tolist():
        separator = frozenset(k for k in given if k != PAD)
        if separator not in (of_pair := found.setdefault((i, j), [])):
            of_pair.append(separator)
    return found
