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
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..statistics.count_tables import PAD
from .settings import ConstraintSettings
from .subsets import SubsetSource, Tests, cells_of, next_tests, stack


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
    exhausted: NDArray[np.bool_]
    """sets already tried, which are skipped: for a pair (i, j), the subsets of row i and those of row j, `[d, d]`; in
    the stage "possible-d-sep" these rows are the skeleton"""
    n_tried: NDArray[np.int64]
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
    cells_per_exchange: int
    """approximate number of cells of the tables of an exchange together"""
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
    most_cells = rows / settings.rows_per_cell if settings.rows_per_cell else np.inf
    return SearchPlan(
        (*stages, "done"),
        settings.depth,
        settings.cells,
        settings.alpha,
        cardinalities,
        settings.max_sets or np.iinfo(np.int64).max,
        most_cells,
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
            if search.stage != "colliders" or cells_of(search.tests, plan.cardinalities) >= plan.cells_per_exchange:
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
        search.exhausted,
        search.strength,
        plan.cardinalities,
        blocks,
        block_of,
        plan.max_sets,
        plan.most_cells,
    )
    n_tried = search.n_tried[pairs[:, 0], pairs[:, 1]]
    tests, now_tried, left_out = next_tests(source, pairs, n_tried, plan.cells_per_exchange)
    tried_by_pair = search.n_tried.copy()
    tried_by_pair[pairs[:, 0], pairs[:, 1]] = now_tried
    return replace(search, tests=stack(search.tests, tests), n_tried=tried_by_pair, left_out=search.left_out + left_out)


def _blocks(plan: SearchPlan, search: SeparatorSearch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Sets of variables (blocks), and the block that limits the conditioning sets of each pair (see `SubsetSource`)."""
    if search.stage == "possible-d-sep":
        # `exhausted` is the skeleton. All paths between two neighbours are in the biconnected component of their edge.
        return biconnected(search.exhausted)
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
    following = replace(search, level=level, n_tried=np.zeros_like(search.n_tried))
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
    search = replace(search, stage=stage, n_tried=np.zeros_like(search.n_tried))
    none = np.zeros_like(search.joined)
    if stage == "possible-d-sep":
        assert plan.possible_d_sep is not None
        search = replace(search, level=1, pools=plan.possible_d_sep(search), exhausted=search.joined)
        return search if _has_tests(plan, search) else _next_stage(plan, search)
    return replace(search, level=0, pools=search.joined & plan.relevant, exhausted=none)


def separating_sets(search: SeparatorSearch) -> dict[tuple[int, int], list[frozenset[int]]]:
    """The sets that separate each pair (i, j), i < j, in the order in which they were found."""
    found: dict[tuple[int, int], list[frozenset[int]]] = {}
    for i, j, *given in search.separators.tolist():
        separator = frozenset(k for k in given if k != PAD)
        if separator not in (of_pair := found.setdefault((i, j), [])):
            of_pair.append(separator)
    return found
