"""Greedy equivalence search: GES on equivalence classes, from any graph (Chickering 2002; Hauser & Bühlmann 2012).

A search works through its plan, a list of kinds of operators: in the forward phase the best valid INSERT is applied
until none gains anything, at most `limit` times; then the best DELETE; then, if the plan has it, the best TURN, and the
plan starts again while anything changes. The best gain of every pair of variables is kept, and only the gains that the
last move can have changed are recomputed; the condition on paths is checked for the best candidates only.

A search scores nothing itself. `advance` continues until it needs unknown scores of families, records all of them as
wanted, and returns; the scores may then come from rows at hand or from an exchange with the silos.

With background knowledge, an operator on (x, y) is valid only if x → y is possible and some member of the class that it
leads to agrees with all that is known.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from .cliques import NONE
from .discrete import agreeing_member
from .equivalence import class_of
from .families import Batch, Families
from .operators import DELETE, INSERT, NEW_EDGE, TURN, WARY_INSERT, best_operator, moved, refresh

CHICKERING = (INSERT, DELETE)
WITH_TURNS = (INSERT, DELETE, TURN)
WARY = (WARY_INSERT, DELETE)
BACKWARD = (DELETE,)
LEAST = 1e-9
"""a gain not above it is rounding"""

Move = tuple[int, int, float, NDArray[np.int64]]
"""(x, y, gain, clique)"""

Scores = Callable[[Batch], FloatArray]
"""families -> their scores"""


@dataclass(frozen=True)
class EquivalenceSearch:
    """The state of a search. `gain[y, x]` is the best gain of an operator of this phase on (x, y), unless `stale`."""

    graph: NDArray[np.bool_]
    """the CPDAG, `[n_variables, n_variables]`"""
    gain: FloatArray
    stale: NDArray[np.bool_]
    plan: tuple[int, ...]
    phase: int
    limit: int
    """insertions still allowed; below 0: any number"""
    moves: int
    moves_before: int
    """how many of them before the plan was last begun"""
    prior: Prior
    """what is known of the graph beforehand"""

    @property
    def done(self) -> bool:
        """Whether no phase is left."""
        return self.phase == len(self.plan)


def search_from(
    dag: NDArray[np.bool_], plan: tuple[int, ...], limit: int = -1, prior: Prior | None = None
) -> EquivalenceSearch:
    """The start of a search from the class of `dag` that may insert `limit` edges (-1: any number).

    `dag` must agree with what `prior` says is known.
    """
    d = len(dag)
    none, every = np.full((d, d), NONE), np.ones((d, d), np.bool_)
    return EquivalenceSearch(class_of(dag), none, every, plan, 0, limit, 0, 0, prior or no_prior(d))


def advance(search: EquivalenceSearch, families: Families, ahead: int = 0) -> EquivalenceSearch:
    """Advance the search as far as the known scores allow: until it is done, or `families` lacks scores or room.

    With `ahead`, scores that the next `ahead` moves may need are requested together with the missing ones.
    """
    gain, stale = search.gain.copy(), search.stale.copy()
    search = replace(search, gain=gain, stale=stale)
    while not search.done:
        kind = search.plan[search.phase]
        if _refresh(search, kind, stale, gain, families):
            _look_ahead(search, families, ahead)
            return search
        move = _best_agreeing(search, kind, gain, families)
        if move[2] <= LEAST or (kind in NEW_EDGE and search.limit == 0):
            stale[:] = True
            search = _next_phase(search)
        else:
            search = _applied(search, kind, move)
    return search


def _refresh(
    search: EquivalenceSearch, kind: int, stale: NDArray[np.bool_], gain: FloatArray, families: Families
) -> int:
    """Bring `gain` up to date as `refresh` does; pairs whose operators knowledge rules out gain nothing, unasked."""
    if search.prior.anything:
        never = ~search.prior.possible.T
        if kind == DELETE:
            never = never | search.prior.joined
        gain[never], stale[never] = NONE, False
    return int(refresh(kind, search.graph, stale, gain, families.tables))


def _best_agreeing(search: EquivalenceSearch, kind: int, gain: FloatArray, families: Families) -> Move:
    """The best move to a class of which some member agrees with what is known.

    Writes to `gain`: a pair whose best operator leads elsewhere gains nothing until it is stale.
    """
    while True:
        move: Move = best_move(kind, search.graph, gain, families.tables)
        x, y, most, clique = move
        if most <= LEAST or not search.prior.anything:
            return move
        if agreeing_member(np.asarray(moved(kind, search.graph, x, y, clique)), search.prior) is not None:
            return move
        gain[y, x] = NONE


def _applied(search: EquivalenceSearch, kind: int, move: Move) -> EquivalenceSearch:
    """The search after `move` (x, y, gain, clique); marks in `search.stale` what it changes."""
    x, y, _, clique = move
    graph = moved(kind, search.graph, x, y, clique)
    make_stale(kind, search.graph, graph, search.stale)
    limit = search.limit - 1 if kind in NEW_EDGE else search.limit
    return replace(search, graph=graph, limit=limit, moves=search.moves + 1)


def _next_phase(search: EquivalenceSearch) -> EquivalenceSearch:
    """The search at the start of its next phase; a plan with turns begins again if anything has moved."""
    phase = search.phase + 1
    if phase == len(search.plan) and TURN in search.plan and search.moves > search.moves_before:
        return replace(search, phase=0, moves_before=search.moves)
    return replace(search, phase=phase)


def _look_ahead(search: EquivalenceSearch, families: Families, moves: int) -> None:
    """Record as wanted the scores that the search needs if its next moves are the best of those already scored."""
    search = replace(search, gain=search.gain.copy(), stale=search.stale.copy())
    kind = search.plan[search.phase]
    for _ in range(moves):
        known = np.where(search.stale, NONE, search.gain)
        move = best_move(kind, search.graph, known, families.tables)
        if move[2] <= LEAST or (kind in NEW_EDGE and search.limit == 0):
            break
        search = _applied(search, kind, move)
        _refresh(search, kind, search.stale, search.gain, families)
    after = _next_phase(search)
    if moves and not after.done:
        _refresh(search, after.plan[after.phase], np.ones_like(search.stale), search.gain, families)


def finish(search: EquivalenceSearch, families: Families, scores: Scores) -> tuple[NDArray[np.bool_], Families]:
    """The CPDAG the search ends in, with `scores` to score families, and all families known by then."""
    while True:
        search = advance(search, families)
        if search.done:
            return search.graph, families
        families = answered(families, scores)


def answered(families: Families, scores: Scores) -> Families:
    """`families` with all that is wanted scored, and room for more where there was none."""
    families = families.with_scores(scores(families.wanted))
    return families.grown() if families.full else families


@njit(cache=True)
def best_move(kind, graph, gain, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """X, y, gain and clique of the best valid operator; its gain is NONE if there is none.

    `gain` ignores the condition on paths, so it is an upper bound: the pair with the greatest bound is checked, and its
    bound replaced, until the greatest bound belongs to a pair that has been checked.
    """
    bound = gain.copy()
    looked = np.zeros(gain.shape, np.bool_)
    while True:
        x, y = _greatest(bound)
        if bound[y, x] <= 0 or looked[y, x]:
            break
        looked[y, x] = True
        bound[y, x], _ = best_operator(kind, graph, x, y, tables)
    if bound[y, x] <= 0:
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
def make_stale(kind, old, new, stale):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Mark in `stale[y, x]` the pairs whose operators differ between the CPDAGs `old` and `new`, ignoring paths.

    The operators on (x, y) depend on Ne(y), Pa(y), which of Ne(y) are adjacent to each other and to x, and whether x
    and y are joined; TURN on Ne(x) and Pa(x), too.
    """
    d = len(new)
    for y in range(d):
        for v in range(d):
            if old[v, y] != new[v, y] or (old[v, y] and old[y, v] != new[y, v]):
                stale[y, :] = True
                if kind == TURN:
                    stale[:, y] = True
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
