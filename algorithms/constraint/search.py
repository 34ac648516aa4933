"""The search for separating sets (PC-stable, FCI), as a state that asks for tests and takes in their results.

Level by level, with conditioning sets of growing size, every pair that is still joined is tested given subsets of the
pools of its two ends, and is separated by the first set that makes it independent. A stage says what the pools are:

- "skeleton": the variables joined to each end when the level began (Colombo & Maathuis 2014, Algorithm 4.1);
- "possible-d-sep": the possible-d-sep sets of the skeleton (Spirtes et al. 2000, §6.7), for latent variables;
- "colliders": no pair is separated any more; the search collects all sets that separate the ends of unshielded triples
  (ibid., §4.2: conservative and majority rule).

Background knowledge (Meek 1995): a pair that no edge may join is never joined, and so never tested; one that a required
arc joins is tested given nothing, for the strength of its dependence, but never separated. Where there are no latent
variables, the parents of one end separate a pair, so variables that cannot be parents are left out of the pools.

Biconnected components of a skeleton: for an edge, the variables on paths between its two ends.

A set that separates two variables can be chosen from the variables on paths between them (Colombo et al. 2012, §3.3:
FCI-path).

The results of independence tests.

The settings that the constraint-based algorithms share.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..errors import require
from ..statistics.count_tables import PAD
from .subsets import Draw, Tests, cells_of, next_tests, stack


def biconnected(joined: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The biconnected components of a symmetric graph, `[n, d]`, and which of them holds each edge, `[d, d]`."""
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
    """Per test, `[n_tests]`: the p-value of independence, and the strength of the dependence on a common scale.

    A vote or an oracle has no p-value: it gives 1 for independent and 0 for dependent.
    """

    p: FloatArray
    strength: FloatArray


IndependenceTests = Callable[[Tests], Results]


Orientation = Literal["sepset", "conservative", "clear", "majority"]


@dataclass(frozen=True)
class ConstraintSettings:
    """Settings of a constraint-based search; the defaults are those of Wang, Ma & Wang 2023 where they state one."""

    alpha: float = 0.05
    """α, the level of the tests: p > α is taken for independence"""
    statistic: Literal["chi2", "g2"] = "chi2"
    """the statistic of discrete data; continuous data are tested by Fisher's z, mixed by likelihood ratios"""
    orientation: Orientation = "clear"
    """how colliders are identified: by the separating set found first (sepset), or by all separating sets, in one more
    exchange, of which all (conservative), four in five (clear) or more than half (majority) must agree"""
    depth: int = -1
    """the largest conditioning set (-1: as large as the graph requires)"""
    most_sets: int = 100
    """how many conditioning sets of one size to try for a pair, the most promising first (0: all)"""
    rows_per_cell: float = 1.0
    """a test is made only if there are at least this many rows per cell of its table"""
    cells: int = 2_000_000
    """approximate number of table cells to ask for in one exchange"""
    rounds: int = 10_000
    """exchanges, at most"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(0 < self.alpha < 1, "alpha", self.alpha, "above 0 and below 1")
        require(self.most_sets >= 0, "most_sets", self.most_sets, "0 or more")
        require(self.depth >= -1, "depth", self.depth, "-1 or more")
        require(self.rows_per_cell >= 0, "rows_per_cell", self.rows_per_cell, "0 or more")
        for name in ("cells", "rounds"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")


Pools = Callable[["SeparatorSearch"], NDArray[np.bool_]]
"""the search at the end of the skeleton -> the possible-d-sep set of each variable, `[d, d]` by rows"""


@dataclass(frozen=True)
class SeparatorSearch:
    """The state of a search: all that it needs to continue. `d` is the number of variables."""

    stage: str
    level: int
    joined: NDArray[np.bool_]
    """pairs not separated so far, `[d, d]`, symmetric"""
    pools: NDArray[np.bool_]
    """the variables from which the conditioning sets of each variable are drawn on this level, `[d, d]` by rows"""
    tried: NDArray[np.bool_]
    """sets within these rows have been tried before"""
    asked: NDArray[np.int64]
    """how many conditioning sets of this level have been tried for each pair i < j, `[d, d]`"""
    strength: FloatArray
    """how strongly two variables depend on each other, given nothing, `[d, d]`"""
    separators: Tests
    """the tests that found independence; for each separated pair, the one that separated it comes first"""
    p: FloatArray
    """their p-values"""
    tests: Tests
    """the tests asked for now; empty when the search is done"""
    deepest: int = 0
    """the largest conditioning set tried"""
    made: int = 0
    """tests made"""
    left_out: int = 0
    """tests left out because there are too few rows"""

    @property
    def done(self) -> bool:
        """Whether no test is left to ask for."""
        return not len(self.tests)


@dataclass(frozen=True)
class SearchPlan:
    """What a search of PC or FCI consists of."""

    stages: tuple[str, ...]
    depth: int
    """largest conditioning set; -1 for any"""
    cells: int
    """approximate number of table cells per exchange"""
    alpha: float
    cardinalities: NDArray[np.int64]
    """of the variables; ones if no tables are counted"""
    most_sets: int
    """most conditioning sets of one size for a pair"""
    most_cells: float
    """larger tables are not asked for"""
    prior: Prior
    """what is known of the graph beforehand"""
    possible_d_sep: Pools | None = None

    @property
    def relevant(self) -> NDArray[np.bool_]:
        """By rows the variables that the conditioning sets of each may take in, `[d, d]`.

        Its possible parents; with latent variables all.
        """
        return np.ones_like(self.prior.possible) if self.possible_d_sep else self.prior.possible.T


def plan(
    settings: ConstraintSettings,
    cardinalities: NDArray[np.int64],
    rows: int,
    pools: Pools | None,
    prior: Prior | None = None,
) -> SearchPlan:
    """The plan of PC or, with possible-d-sep `pools`, of FCI, for what `prior` says is known."""
    stages = ["skeleton"]
    if pools is not None:
        stages.append("possible-d-sep")
    if settings.orientation != "sepset":
        stages.append("colliders")
    most = rows / settings.rows_per_cell if settings.rows_per_cell else np.inf
    return SearchPlan(
        (*stages, "done"),
        settings.depth,
        settings.cells,
        settings.alpha,
        cardinalities,
        settings.most_sets or np.iinfo(np.int64).max,
        most,
        prior or no_prior(len(cardinalities)),
        pools,
    )


def start(the: SearchPlan) -> SeparatorSearch:
    """The search with all pairs joined that an edge may join, and the tests of its first exchange."""
    d = len(the.cardinalities)
    all_pairs = the.prior.joinable
    none = np.zeros((d, d), dtype=np.bool_)
    no_tests = np.empty((0, 2), np.int16)
    zeros = np.zeros((d, d))
    search = SeparatorSearch(
        "skeleton", 0, all_pairs, all_pairs, none, zeros.astype(np.int64), zeros, no_tests, np.empty(0), no_tests
    )
    return ask(the, search)


def step(the: SearchPlan, search: SeparatorSearch, results: Results) -> SeparatorSearch:
    """The search after the `results` of its tests, with the next tests to make."""
    return ask(the, absorb(the, search, results))


def run(the: SearchPlan, answer: IndependenceTests) -> SeparatorSearch:
    """The finished search, with all of its tests decided by `answer`."""
    search = start(the)
    while not search.done:
        search = step(the, search, answer(search.tests))
    return search


def absorb(the: SearchPlan, search: SeparatorSearch, results: Results) -> SeparatorSearch:
    """The search with `results` taken in, without new tests."""
    independent = np.flatnonzero(results.p > the.alpha)
    joined, strength = search.joined, search.strength
    if search.stage != "colliders":
        pairs = search.tests[independent, :2] @ np.array([len(joined), 1])
        independent = independent[np.unique(pairs, return_index=True)[1]]
        joined = joined.copy()
        x, y = search.tests[independent, :2].T
        joined[x, y] = joined[y, x] = False
        joined |= the.prior.joined
    if search.level == 0 and search.stage == "skeleton":
        strength = strength.copy()
        x, y = search.tests[:, :2].T
        strength[x, y] = strength[y, x] = results.strength
    return replace(
        search,
        joined=joined,
        strength=strength,
        separators=stack(search.separators, search.tests[independent]),
        p=np.concatenate([search.p, results.p[independent]]),
        tests=search.tests[:0],
        made=search.made + len(search.tests),
    )


def ask(the: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    """The search with the tests of its next exchange, from the next level or stage that has any.

    A level whose tables have too many cells is split into parts. The stage "colliders" separates no pair, so its levels
    need not wait for each other and are asked for together.
    """
    while search.stage != "done":
        more = _ask_on_this_level(the, search)
        if len(more.tests) > len(search.tests):
            search = more
            if search.stage != "colliders" or cells_of(search.tests, the.cardinalities) >= the.cells:
                break
        else:
            following = _next_level(the, more)
            if following.stage != search.stage and len(search.tests):
                break
            search = following
    return search


def _ask_on_this_level(the: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    pairs = np.argwhere(np.triu(_pairs(the, search)))
    if not len(pairs):
        return search
    blocks, block_of = _blocks(the, search)
    draw = Draw(
        search.level,
        search.pools,
        search.tried,
        search.strength,
        the.cardinalities,
        blocks,
        block_of,
        the.most_sets,
        the.most_cells,
    )
    asked_before = search.asked[pairs[:, 0], pairs[:, 1]]
    tests, asked, left_out = next_tests(draw, pairs, asked_before, the.cells)
    now = search.asked.copy()
    now[pairs[:, 0], pairs[:, 1]] = asked
    return replace(search, tests=stack(search.tests, tests), asked=now, left_out=search.left_out + left_out)


def _blocks(the: SearchPlan, search: SeparatorSearch) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The variables each pair's conditioning sets may use: in FCI's second stage, those between its ends."""
    if search.stage == "possible-d-sep":
        return biconnected(search.tried)
    return np.ones((1, len(search.joined)), np.bool_), np.zeros(search.joined.shape, np.int64)


def _pairs(the: SearchPlan, search: SeparatorSearch) -> NDArray[np.bool_]:
    """The pairs to be tested, symmetric: those still joined, or the ends of unshielded triples."""
    if search.stage != "colliders":
        return search.joined & ~the.prior.joined if search.level else search.joined
    common = search.joined.astype(np.float32) @ search.joined.astype(np.float32) > 0
    return common & ~search.joined & ~np.eye(len(common), dtype=np.bool_)


def _next_level(the: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    level = search.level + 1
    following = replace(search, level=level, asked=np.zeros_like(search.asked))
    if search.stage == "skeleton":
        following = replace(following, pools=search.joined & the.relevant)
    if _has_tests(the, following):
        deepest = search.deepest if search.stage == "colliders" else max(level, search.deepest)
        return replace(following, deepest=deepest)
    return _next_stage(the, following)


def _has_tests(the: SearchPlan, search: SeparatorSearch) -> bool:
    """Whether the pools, the depth and the number of rows allow conditioning sets as large as the level."""
    if search.stage == "colliders":
        return search.level <= search.deepest
    if 0 <= the.depth < search.level:
        return False
    if np.sort(the.cardinalities)[: search.level + 2].prod(dtype=np.float64) > the.most_cells:
        return False
    sizes = search.pools.sum(axis=1)[:, None] - search.pools
    return bool((sizes[_pairs(the, search)] >= search.level).any())


def _next_stage(the: SearchPlan, search: SeparatorSearch) -> SeparatorSearch:
    stage = the.stages[the.stages.index(search.stage) + 1]
    search = replace(search, stage=stage, asked=np.zeros_like(search.asked))
    none = np.zeros_like(search.joined)
    if stage == "possible-d-sep":
        assert the.possible_d_sep is not None
        search = replace(search, level=1, pools=the.possible_d_sep(search), tried=search.joined)
        return search if _has_tests(the, search) else _next_stage(the, search)
    return replace(search, level=0, pools=search.joined & the.relevant, tried=none)


def separating_sets(search: SeparatorSearch) -> dict[tuple[int, int], list[frozenset[int]]]:
    """Return, for each pair (i, j), i < j, the sets that separate it, the one found first in front."""
    found: dict[tuple[int, int], list[frozenset[int]]] = {}
    for i, j, *given in search.separators.tolist():
        separator = frozenset(k for k in given if k != PAD)
        if separator not in (of_pair := found.setdefault((i, j), [])):
            of_pair.append(separator)
    return found
