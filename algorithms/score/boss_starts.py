"""BOSS from several random orders, of which the best result is used, because one start can end in a local optimum.

The starts share all family scores and grow-shrink trees, so each further start costs less than the first. The search
ends when `AGREEING_STARTS` starts have reached the best score, or after the last start. As many starts run in parallel
as must still agree, and their scores are requested in the same exchange. Their results are compared in the order of the
starts, so the result does not depend on the number of scores in an exchange. An exact search (`exact_search.py`) may
follow.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..graphs.cpdag import cpdag
from .boss import BossSearch, advance_boss, boss_from, graph_of
from .exact_search import best_dag, request_all_families
from .families import Families
from .grow_shrink import Trees, no_trees

AGREEING_STARTS = 3
"""number of starts that must end in the same greatest score; then the search ends without further starts"""
_SCORE_TOLERANCE = 1e-10
"""scores with a smaller relative difference count as equal: sums over silos are rounded differently"""


@dataclass(frozen=True)
class Starts:
    """The state of a search from several orders."""

    orders: NDArray[np.int64]
    """the orders to start from, `[n_starts, d]`"""
    begun: int
    """number of starts that have begun"""
    running: tuple[BossSearch, ...]
    """the running searches, without their trees: the last of the starts that have begun"""
    trees: Trees
    """the grow-shrink trees, which all searches share"""
    best: NDArray[np.int64]
    """the order of the greatest score found so far"""
    total: float
    """the score of `best`"""
    agreeing: int
    """number of starts that have ended in the score `total`"""
    most_parents: int
    """maximum number of parents in the exact search after the starts; 0 means that there is no exact search"""
    prior: Prior
    """background knowledge"""
    done: bool = False

    @property
    def ended(self) -> bool:
        """Whether no further start is needed."""
        return not self.running


def starts_from(prior: Prior, starts: int, rng: np.random.Generator, most_parents: int = 0) -> Starts:
    """The initial state of a search from `starts` random orders, with the background knowledge `prior`.

    With `most_parents`, the search ends with an exact search over all families of up to this number of parents.
    """
    return starts_of(np.array([rng.permutation(len(prior.required)) for _ in range(starts)]), prior, most_parents)


def starts_of(orders: NDArray[np.int64], prior: Prior, most_parents: int = 0) -> Starts:
    """The initial state of a search from `orders` `[n_starts, d]`, as `starts_from`."""
    return _begin_starts(Starts(orders, 0, (), no_trees(), orders[0], -np.inf, 0, most_parents, prior))


def advance_starts(starts: Starts, families: Families, lookahead: int = 0) -> Starts:
    """Advance the searches as far as the known scores allow, as `advance_boss` does."""
    while not starts.ended:
        starts = _advance_running(starts, families, lookahead)
        if not all(boss.done for boss in starts.running):
            return starts
        starts = _compare_ends(starts)
    complete = not starts.most_parents or request_all_families(
        starts.orders.shape[1], starts.most_parents, families.tables
    )
    return replace(starts, done=complete)


def copy_starts(starts: Starts) -> Starts:
    """The same state with copies of the grow-shrink trees, which `advance_starts` modifies."""
    return replace(starts, trees=starts.trees.copy())


def best_graph(starts: Starts, families: Families) -> NDArray[np.bool_]:
    """The CPDAG of the best order found, or of the exact search's DAG if this DAG scores better.

    The search must be done.
    """
    if starts.most_parents:
        dag, total = best_dag(starts.orders.shape[1], starts.most_parents, families.tables)
        if total > starts.total + _SCORE_TOLERANCE * abs(starts.total):
            return cpdag(dag, starts.prior.separated)
    return graph_of(starts.best, starts.trees, families, starts.prior)


def best_so_far(starts: Starts, families: Families) -> NDArray[np.bool_]:
    """The CPDAG of the best order whose sweeps have ended; a graph without edges if there is no such order yet."""
    ended = [(starts.total, starts.best), *((one.total, one.best) for one in starts.running)]
    total, order = max(ended, key=lambda one: one[0])
    d = starts.orders.shape[1]
    return graph_of(order, starts.trees, families, starts.prior) if total > -np.inf else np.zeros((d, d), np.bool_)


def _begin_starts(starts: Starts) -> Starts:
    """The state with as many new searches as starts must still agree, or with those that are left."""
    begun = min(len(starts.orders), starts.begun + AGREEING_STARTS - starts.agreeing)
    running = tuple(boss_from(order, starts.prior) for order in starts.orders[starts.begun : begun])
    return replace(starts, begun=begun, running=running)


def _advance_running(starts: Starts, families: Families, lookahead: int) -> Starts:
    """The state with each of its searches advanced; they share the trees."""
    running, trees = [], starts.trees
    for before in starts.running:
        boss = advance_boss(replace(before, trees=trees), families, lookahead)
        trees = boss.trees
        running.append(replace(boss, trees=no_trees()))
    return replace(starts, running=tuple(running), trees=trees)


def _compare_ends(starts: Starts) -> Starts:
    """The state with the best score updated by the ended searches, and the next searches begun."""
    for boss in starts.running:
        tolerance = _SCORE_TOLERANCE * abs(boss.total)
        if boss.total > starts.total + tolerance:
            starts = replace(starts, best=boss.order, total=boss.total, agreeing=1)
        elif boss.total >= starts.total - tolerance:
            starts = replace(starts, agreeing=starts.agreeing + 1)
    return _begin_starts(starts)
