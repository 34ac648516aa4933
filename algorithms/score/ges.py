"""Greedy equivalence search: GES on equivalence classes, from any graph (Chickering 2002).

Forward, the valid Insert that gains most is applied until none gains anything, at most `limit` times; then backward,
the best Delete. The search holds the best gain of every pair of variables and computes anew only those that the last
move can have changed; the condition on paths, which depends on the whole graph, is asked of the best ones only.

A search never scores anything itself. `advance` goes on until it needs scores of families that are not known, puts all
of them down as wanted, and returns; so scores may come from rows at hand or from an exchange with silos.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..protocol import FloatArray
from .equivalence import class_of, cpdag_of, extension
from .families import Batch, Families, no_families
from .operators import DELETE, INSERT, NONE, best_operator, refresh

PHASES = (INSERT, DELETE)
LEAST = 1e-9
"""a gain not above it is rounding"""


@dataclass(frozen=True)
class Search:
    """Where a search stands. `gain[y, x]` is the most an operator of this phase on (x, y) gains, where not `stale`."""

    graph: NDArray[np.bool_]
    """the CPDAG, `[n_variables, n_variables]`"""
    gain: FloatArray
    stale: NDArray[np.bool_]
    phase: int
    limit: int
    """insertions still allowed; below 0: any number"""
    moves: int
    total: float
    """what all moves have gained"""

    @property
    def done(self) -> bool:
        """Whether no phase is left."""
        return self.phase == len(PHASES)


def search_from(dag: NDArray[np.bool_], limit: int = -1) -> Search:
    """Return the start of a search from the class of `dag` that may insert `limit` edges (-1: any number)."""
    d = len(dag)
    stale = ~np.eye(d, dtype=np.bool_)
    return Search(class_of(dag), np.full((d, d), NONE), stale, 0, limit, 0, 0.0)


def advance(search: Search, families: Families) -> Search:
    """Return the search as far as it gets with the scores known; it is done, or `families` has some wanted or is full."""
    gain, stale = search.gain.copy(), search.stale.copy()
    search = replace(search, gain=gain, stale=stale)
    while not search.done:
        kind = PHASES[search.phase]
        if refresh(kind, search.graph, stale, gain, families.tables):
            return search
        x, y, most, clique = best_move(kind, search.graph, gain, families.tables)
        if most <= LEAST or (kind == INSERT and search.limit == 0):
            stale[:] = True
            np.fill_diagonal(stale, False)
            search = replace(search, phase=search.phase + 1)
            continue
        graph = moved(kind, search.graph, x, y, clique)
        make_stale(search.graph, graph, stale)
        limit = search.limit - 1 if kind == INSERT else search.limit
        search = replace(search, graph=graph, limit=limit, moves=search.moves + 1, total=search.total + most)
    return search


def ges(dag: NDArray[np.bool_], scores: Callable[[Batch], FloatArray], limit: int = -1) -> Search:
    """Return the finished search from the class of `dag`, with `scores` to score families."""
    search, families = search_from(dag, limit), no_families()
    while True:
        search = advance(search, families)
        if search.done:
            return search
        families = answered(families, scores)


def answered(families: Families, scores: Callable[[Batch], FloatArray]) -> Families:
    """Return `families` with all that is wanted scored, and room for more where there was none."""
    wanted = families.wanted
    families = families.with_scores(scores(wanted))
    return families.grown() if families.full else families


@njit(cache=True)
def best_move(kind, graph, gain, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return x, y, gain and clique of the best valid operator; its gain is NONE if there is none.

    `gain` leaves the paths aside, so it bounds what a pair has to offer: the best pair is looked at closely until the
    best is one that has been.
    """
    bound = gain.copy()
    looked = np.zeros(gain.shape, np.bool_)
    while True:
        x, y = _greatest(bound)
        if bound[y, x] == NONE or looked[y, x]:
            break
        looked[y, x] = True
        bound[y, x], _ = best_operator(kind, graph, x, y, tables)
    if bound[y, x] == NONE:
        return x, y, NONE, np.empty(0, np.int64)
    most, clique = best_operator(kind, graph, x, y, tables)
    return x, y, most, clique


@njit(cache=True)
def _greatest(bound):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at_x = at_y = 0
    for y in range(len(bound)):
        for x in range(len(bound)):
            if bound[y, x] > bound[at_y, at_x]:
                at_x, at_y = x, y
    return at_x, at_y


@njit(cache=True)
def moved(kind, graph, x, y, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the CPDAG after the valid operator of `kind` on (x, y) with clique C (Chickering 2002, Definitions 12, 13)."""
    pdag = graph.copy()
    in_clique = np.zeros(len(graph), np.bool_)
    for v in clique:
        in_clique[v] = True
    if kind == INSERT:
        pdag[x, y] = True
    else:
        pdag[x, y] = pdag[y, x] = False
    for v in range(len(graph)):
        if v == x or not (graph[v, y] and graph[y, v]):
            continue
        adjacent = graph[v, x] or graph[x, v]
        if kind == INSERT and in_clique[v] and not adjacent:
            pdag[y, v] = False
        elif kind == DELETE and adjacent and not in_clique[v]:
            pdag[v, y] = False
            if graph[x, v]:
                pdag[v, x] = False
    dag, _ = extension(pdag)
    return cpdag_of(dag)


@njit(cache=True)
def make_stale(old, new, stale):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Mark in `stale[y, x]` the pairs whose operators differ between the CPDAGs `old` and `new`, paths left aside.

    The operators on (x, y) depend on Ne(y), Pa(y), which of Ne(y) are adjacent to each other and to x, and whether x
    and y are joined.
    """
    d = len(new)
    for y in range(d):
        for v in range(d):
            if old[v, y] != new[v, y] or (old[v, y] and old[y, v] != new[y, v]):
                stale[y, :] = True
                break
    for a in range(d):
        for b in range(a):
            if (old[a, b] or old[b, a]) == (new[a, b] or new[b, a]):
                continue
            stale[a, b] = stale[b, a] = True
            for y in range(d):
                near_a, near_b = new[a, y] and new[y, a], new[b, y] and new[y, b]
                if near_a and near_b:
                    stale[y, :] = True
                elif near_a:
                    stale[y, b] = True
                elif near_b:
                    stale[y, a] = True
    for y in range(d):
        stale[y, y] = False
