"""Greedy equivalence search: GES on equivalence classes, from any graph (Chickering 2002; Hauser & Bühlmann 2012).

The plan of a search is a list of kinds of operators, with a phase for each. A phase applies the best valid operator of
its kind until none improves the score. The number of insertions can have a `limit`. A plan with TURN is repeated as
long as anything changes. The best gain of every pair of variables is stored, and only the gains that the last move can
have changed are computed again. Some operators are valid only under a condition on paths
(`operators.py`). It is checked only for the operators with the greatest gains.

With sparse candidates (Friedman, Nachman & Pe'er 1999), two variables may be joined only if one of them is among the
`candidates` variables with the greatest marginal gains for the other. So with many variables, most pairs are never
counted together with a third variable.

A search computes no scores. `advance` continues until it needs families whose scores are unknown, adds all of them to
the pending families, and returns; the scores then come from local rows or from an exchange with the silos.

With background knowledge, an operator on (x, y) is valid only if x → y is possible and some member of the resulting
class agrees with the knowledge.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..graphs.cpdag import cpdag
from ..graphs.kernels import class_of_dag
from .cliques import NO_GAIN, workspace_with_successors
from .families import Batch, Families
from .knowledge_constraints import consistent_member
from .operators import DELETE, INSERT, NEW_EDGE, TURN, WARY_INSERT, apply_operator, best_operator, refresh

CHICKERING = (INSERT, DELETE)
WITH_TURNS = (INSERT, DELETE, TURN)
WARY = (WARY_INSERT, DELETE)
BACKWARD = (DELETE,)
MIN_GAIN = 1e-9
"""gains up to this value are rounding errors"""

Move = tuple[int, int, float, NDArray[np.int64]]
"""(x, y, gain, clique)"""

Scores = Callable[[Batch], FloatArray]
"""families -> their scores"""


@dataclass(frozen=True)
class EquivalenceSearch:
    """The state of a search.

    `gain[y, x]` is the best gain of an operator of this phase on (x, y). It is outdated where `stale[y, x]`.
    """

    graph: NDArray[np.bool_]
    """the CPDAG, `[n_variables, n_variables]`"""
    gain: FloatArray
    stale: NDArray[np.bool_]
    plan: tuple[int, ...]
    phase: int
    limit: int
    """number of insertions still allowed; negative: unlimited"""
    moves: int
    moves_before: int
    """number of moves at the last start of the plan"""
    prior: Prior
    """background knowledge of the graph"""
    next_kind: int = -1
    """the kind of operator of the next phase, if its scores were requested ahead; -1: none were"""
    next_graph: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """the graph for which these scores were requested, `[d, d]`"""
    next_stale: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """whether a score of each pair in `next_graph` was unknown when it was requested, `[d, d]`"""
    candidates: int = 0
    """number of candidates of each variable, those with the greatest marginal gains; 0: all other variables"""
    candidate_pairs: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    """the pairs that an edge may join, `[d, d]`, symmetric; empty until the marginal gains are known"""

    @property
    def done(self) -> bool:
        """Whether no phase is left."""
        return self.phase == len(self.plan)


def search_from(
    dag: NDArray[np.bool_], plan: tuple[int, ...], limit: int = -1, prior: Prior | None = None
) -> EquivalenceSearch:
    """The start of a search from the class of `dag` that may insert `limit` edges (-1: any number).

    `dag` must agree with the background knowledge `prior`.
    """
    d = len(dag)
    no_gain, all_stale = np.full((d, d), NO_GAIN), np.ones((d, d), np.bool_)
    prior = prior or no_prior(d)
    graph = cpdag(dag, prior.separated)
    return EquivalenceSearch(graph, no_gain, all_stale, plan, 0, limit, 0, 0, prior)


def advance(search: EquivalenceSearch, families: Families, lookahead: int = 0) -> EquivalenceSearch:
    """Advance the search as far as the known scores allow: until it is done, or `families` lacks scores or room.

    If `lookahead` is positive and candidates are not sparse, scores that the next `lookahead` moves may need are
    requested together with the missing scores.
    """
    gain, stale = search.gain.copy(), search.stale.copy()
    search = replace(search, gain=gain, stale=stale)
    while not search.done:
        kind = search.plan[search.phase]
        if _refresh(search, kind, stale, gain, families):
            return search if search.candidates else _look_ahead(search, families, lookahead)
        if search.candidates and not len(search.candidate_pairs):
            search = replace(search, candidate_pairs=_greatest_gains(gain, search.candidates))
            gain[~search.candidate_pairs] = NO_GAIN
        move = _best_consistent(search, kind, gain, families)
        if move[2] <= MIN_GAIN or (kind in NEW_EDGE and search.limit == 0):
            stale[:] = True
            search = _next_phase(search)
        else:
            search = _apply(search, kind, move)
    return search


def _refresh(
    search: EquivalenceSearch, kind: int, stale: NDArray[np.bool_], gain: FloatArray, families: Families
) -> int:
    """Update `gain` and `stale` as `refresh` does, and return the number of stale pairs.

    Pairs that candidates or background knowledge exclude have no gain, and their scores are not requested.
    """
    if kind in NEW_EDGE and len(search.candidate_pairs):
        others = ~search.candidate_pairs
        gain[others], stale[others] = NO_GAIN, False
    if search.prior.is_informative:
        impossible = ~search.prior.possible.T
        if kind == DELETE:
            impossible = impossible | search.prior.required_pairs
        gain[impossible], stale[impossible] = NO_GAIN, False
    return int(refresh(kind, search.graph, stale, gain, families.tables))


def _greatest_gains(gain: FloatArray, candidates: int) -> NDArray[np.bool_]:
    """The pairs `[d, d]` of which one is among the `candidates` with the greatest `gain` for the other."""
    d = len(gain)
    greatest = np.argsort(-gain, axis=1, kind="stable")[:, :candidates]
    pairs = np.zeros((d, d), np.bool_)
    pairs[np.arange(d)[:, None], greatest] = True
    return pairs | pairs.T


def _best_consistent(search: EquivalenceSearch, kind: int, gain: FloatArray, families: Families) -> Move:
    """The best move to a class with a member that agrees with the background knowledge.

    Writes to `gain`: a pair whose best operator leads to a class without such a member has no gain until the pair is
    stale again.
    """
    while True:
        move: Move = best_move(kind, search.graph, gain, families.tables)
        x, y, most, _ = move
        if most <= MIN_GAIN or not search.prior.is_informative:
            return move
        if consistent_member(_class_after(search, kind, move), search.prior) is not None:
            return move
        gain[y, x] = NO_GAIN


def _apply(search: EquivalenceSearch, kind: int, move: Move) -> EquivalenceSearch:
    """The search after `move` (x, y, gain, clique); marks the pairs that it changes in `search.stale`."""
    graph = _class_after(search, kind, move)
    make_stale(kind, search.graph, graph, search.stale)
    limit = search.limit - 1 if kind in NEW_EDGE else search.limit
    return replace(search, graph=graph, limit=limit, moves=search.moves + 1)


def _class_after(search: EquivalenceSearch, kind: int, move: Move) -> NDArray[np.bool_]:
    """The class after `move`."""
    x, y, _, clique = move
    dag = np.asarray(apply_operator(kind, search.graph, x, y, clique))
    separated = search.prior.separated
    return cpdag(dag, separated) if len(separated) else np.asarray(class_of_dag(dag))


def _next_phase(search: EquivalenceSearch) -> EquivalenceSearch:
    """The search at the start of its next phase; a plan with turns restarts after any move."""
    phase = search.phase + 1
    if phase == len(search.plan) and TURN in search.plan and search.moves > search.moves_before:
        return replace(search, phase=0, moves_before=search.moves)
    return replace(search, phase=phase)


def _look_ahead(search: EquivalenceSearch, families: Families, moves: int) -> EquivalenceSearch:
    """Request the scores that the search needs if its next moves are the best among the scored moves.

    Returns `search` with notes on what was requested for its next phase (`next_kind`, `next_graph`, `next_stale`). A
    later call then examines only the pairs whose scores were unknown or that have changed.
    """
    present, waiting = search, search.stale.copy()
    search = replace(search, gain=search.gain.copy())
    kind = search.plan[search.phase]
    for _ in range(moves):
        known = np.where(waiting, NO_GAIN, search.gain)
        move = best_move(kind, search.graph, known, families.tables)
        if move[2] <= MIN_GAIN or (kind in NEW_EDGE and search.limit == 0):
            break
        # Only pairs that the move changes are examined, because pending scores of other pairs cannot arrive
        # meanwhile.
        search = _apply(replace(search, stale=np.zeros_like(waiting)), kind, move)
        waiting &= ~search.stale
        _refresh(search, kind, search.stale, search.gain, families)
        waiting |= search.stale
    after = _next_phase(search)
    if not moves or after.done:
        return present
    kind, stale = after.plan[after.phase], np.ones_like(search.stale)
    if kind == present.next_kind:
        stale = present.next_stale.copy()
        make_stale(kind, present.next_graph, search.graph, stale)
    _refresh(search, kind, stale, search.gain, families)
    return replace(present, next_kind=kind, next_graph=search.graph, next_stale=stale)


def finish(search: EquivalenceSearch, families: Families, scores: Scores) -> tuple[NDArray[np.bool_], Families]:
    """The CPDAG at the end of the search, and all families scored until then; `scores` computes the scores."""
    while True:
        search = advance(search, families)
        if search.done:
            return search.graph, families
        families = score_pending(families, scores)


def score_pending(families: Families, scores: Scores) -> Families:
    """`families` with all pending families scored, in larger tables if these were full."""
    families = families.with_scores(scores(families.pending))
    return families.grown() if families.full else families


@njit(cache=True)
def best_move(kind, graph, gain, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The best valid operator: x, y, its gain, and its clique; the gain is NO_GAIN if there is none.

    `gain` ignores the condition on paths, so it is an upper bound. The pair with the greatest bound is checked and gets
    its exact gain as the new bound, until the pair with the greatest bound has been checked before.
    """
    bound = gain.copy()
    checked = np.zeros(gain.shape, np.bool_)
    greatest, of_row = np.empty(len(bound), np.int64), np.empty(len(bound))
    for y in range(len(bound)):
        greatest[y] = _greatest(bound[y])
        of_row[y] = bound[y, greatest[y]]
    space = workspace_with_successors(graph)
    while True:
        y = _greatest(of_row)
        x = greatest[y]
        if bound[y, x] <= 0 or checked[y, x]:
            break
        checked[y, x] = True
        bound[y, x], _ = best_operator(kind, graph, x, y, space, tables)
        greatest[y] = _greatest(bound[y])
        of_row[y] = bound[y, greatest[y]]
    if bound[y, x] <= 0:
        return x, y, NO_GAIN, np.empty(0, np.int64)
    most, clique = best_operator(kind, graph, x, y, space, tables)
    return x, y, most, clique


@njit(cache=True)
def _greatest(row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The first position of the greatest value in `row`."""
    at = 0
    for x in range(1, len(row)):
        if row[x] > row[at]:
            at = x
    return at


@njit(cache=True)
def make_stale(kind, old, new, stale):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Mark in `stale[y, x]` the pairs whose operators differ between the CPDAGs `old` and `new`, ignoring paths.

    The operators on (x, y) depend on the neighbours and the parents of y, on which of these neighbours are adjacent to
    each other and to x, and on whether x and y are adjacent. TURN also depends on the neighbours and the parents of x.
    """
    d = len(new)
    for a in range(d):
        for b in range(d):
            if old[a, b] == new[a, b]:
                continue
            for x, y in ((a, b), (b, a)):
                # x is a parent or a neighbour of y in only one of the graphs, or a parent in one and a neighbour in the
                # other.
                if old[x, y] != new[x, y] or old[x, y]:
                    stale[y, :] = True
                    if kind == TURN:
                        stale[:, y] = True
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
