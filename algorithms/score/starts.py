"""BOSS from several random orders, of which the best end is kept: a single start can stay in a local optimum.

The starts share all family scores and grow-shrink trees, so each further one costs less than the first. The search is
over once `AGREEING` of them have ended in the best score found; so starts that are needed for that in any case run side
by side, and ask for their scores in the same exchange. Their ends are compared in the order of the starts: what is
found does not depend on how many scores come in at a time.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from .boss import BossSearch, advance_boss, boss_from, graph_of
from .equivalence import class_of
from .exact import ask_all, best_dag
from .families import Families
from .grow_shrink import Trees, no_trees

AGREEING = 3
"""starts that end in the same greatest score before the others are left out"""
_SAME = 1e-10
"""scores that differ by less than this share are equal: sums over silos are rounded differently"""


@dataclass(frozen=True)
class Starts:
    """The state of a search from several orders."""

    orders: NDArray[np.int64]
    """the orders to start from, `[n_starts, d]`"""
    begun: int
    """how many of them have been begun"""
    running: tuple[BossSearch, ...]
    """the searches from the last of these, without their trees"""
    trees: Trees
    """those of all searches"""
    best: NDArray[np.int64]
    """the order of the greatest score found so far"""
    total: float
    """its score"""
    agreeing: int
    """how many starts have ended in that score"""
    most_parents: int
    """after the starts, all families of up to so many parents are searched; 0: none are"""
    prior: Prior
    """what is known beforehand"""
    done: bool = False

    @property
    def ended(self) -> bool:
        """Whether no further start is needed."""
        return not self.running


def starts_from(prior: Prior, starts: int, rng: np.random.Generator, most_parents: int = 0) -> Starts:
    """Return the beginning of a search from `starts` random orders of the variables of which `prior` is known.

    With `most_parents`, it ends with an exact search over all families of up to so many parents.
    """
    orders = np.array([rng.permutation(len(prior.required)) for _ in range(starts)])
    return _begun(Starts(orders, 0, (), no_trees(), orders[0], -np.inf, 0, most_parents, prior))


def advance_starts(starts: Starts, families: Families, ahead: int = 0) -> Starts:
    """Advance the searches as far as the known scores allow, as `advance_boss` does."""
    while not starts.ended:
        starts = _advanced(starts, families, ahead)
        if not all(boss.done for boss in starts.running):
            return starts
        starts = _compared(starts)
    known = not starts.most_parents or ask_all(starts.orders.shape[1], starts.most_parents, families.tables)
    return replace(starts, done=known)


def copied(starts: Starts) -> Starts:
    """Return the same state with grow-shrink trees in arrays of their own, for `advance_starts` to write to."""
    return replace(starts, trees=starts.trees.copy())


def best_graph(starts: Starts, families: Families) -> NDArray[np.bool_]:
    """Return the CPDAG of the best order found, or of the best DAG if that is better; the search must be done."""
    if starts.most_parents:
        dag, total = best_dag(starts.orders.shape[1], starts.most_parents, families.tables)
        if total > starts.total + _SAME * abs(starts.total):
            return class_of(dag)
    return graph_of(starts.best, starts.trees, families)


def _begun(starts: Starts) -> Starts:
    """Return the search with as many further starts begun as are needed in any case."""
    begun = min(len(starts.orders), starts.begun + AGREEING - starts.agreeing)
    running = tuple(boss_from(order, starts.prior) for order in starts.orders[starts.begun : begun])
    return replace(starts, begun=begun, running=running)


def _advanced(starts: Starts, families: Families, ahead: int) -> Starts:
    """Return the state with each of its searches advanced; they grow the same trees."""
    running, trees = [], starts.trees
    for before in starts.running:
        boss = advance_boss(replace(before, trees=trees), families, ahead)
        trees = boss.trees
        running.append(replace(boss, trees=no_trees()))
    return replace(starts, running=tuple(running), trees=trees)


def _compared(starts: Starts) -> Starts:
    """Return the search with the ends of its starts compared with the best one, and the next starts begun."""
    for boss in starts.running:
        same = _SAME * abs(boss.total)
        if boss.total > starts.total + same:
            starts = replace(starts, best=boss.order, total=boss.total, agreeing=1)
        elif boss.total >= starts.total - same:
            starts = replace(starts, agreeing=starts.agreeing + 1)
    return _begun(starts)
