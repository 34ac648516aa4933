"""A search over orders with several starts, shared by `gaussian_order.py` and `block_order.py`.

A sweep ends in a local optimum of single moves. So the search continues from orders of other members of the class
found, in which other moves are possible, until several of them bring no improvement; and it starts from several random
orders, and the best score is kept. The position of a column has no influence.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..graphs.dag import topological_order
from .equivalence import class_of, member_of
from .families import OrderSettings

Bools = NDArray[np.bool_]
Order = NDArray[np.int64]

# Scores per row with a smaller difference are equal up to rounding.
SCORE_TOLERANCE = 1e-10
# The cost per row of a required parent that is later in the order than its child: more than any fit can gain.
MISPLACED_PARENT_COST = 1e3
# The number of variables that a search with a time to end moves before it looks at the clock. Each time it selects the
# parents of all d variables again, which takes about 10 / d of a sweep.
MOVED_AT_ONCE = 100


@dataclass(frozen=True)
class BestOrder:
    """The best graph found, its score, the number of starts, and the number ending at that score.

    It is a DAG `[d, d]`, or `[m, d]` with m − d columns that precede all variables.
    """

    dag: Bools
    score: float
    starts: int
    agreeing: int
    complete: bool = True
    """whether the search ended before its time was over"""


@dataclass(frozen=True)
class Moves:
    """The functions of a score that a search over orders needs."""

    sweep: Callable[[Order, Order, int], Order]
    """(order, the variables that may move, most sweeps) -> the order after moves of single variables, until none
    improves the score"""
    graph: Callable[[Order], tuple[Bools, float]]
    """(order) -> its DAG `[d, d]`, and its total: −2 times its score per row"""


def best_of_starts(d: int, moves: Moves, settings: OrderSettings, ends: float = math.inf) -> BestOrder:
    """The DAG of the best order found, with its total as the score.

    The search ends after `settings.agreeing_starts` starts have reached the same best score, after `settings.starts`
    starts, or when `time.monotonic()` reaches `ends`.
    """
    rng = np.random.default_rng(settings.seed)
    best, lowest, agreeing, tried = np.zeros((d, d), np.bool_), math.inf, 0, 0
    while tried < settings.starts and agreeing < settings.agreeing_starts_of(d):
        dag, total = _search(moves, rng.permutation(d), settings, rng, ends)
        tried += 1
        agreeing = 1 if total < lowest - SCORE_TOLERANCE else agreeing + (total <= lowest + SCORE_TOLERANCE)
        if total < lowest - SCORE_TOLERANCE:
            best, lowest = dag, total
        if time.monotonic() >= ends:
            return BestOrder(best, lowest, tried, agreeing, complete=False)
    return BestOrder(best, lowest, tried, agreeing)


def _search(
    moves: Moves, order: Order, settings: OrderSettings, rng: np.random.Generator, ends: float
) -> tuple[Bools, float]:
    """The best DAG of sweeps from `order`, and then from other orders of its class, and its total."""
    best, lowest, failed = np.zeros((len(order), len(order)), np.bool_), math.inf, 0
    while failed < settings.patience and not (math.isfinite(lowest) and time.monotonic() >= ends):
        order = moves.sweep(order, order, settings.sweeps) if ends == math.inf else _sweep(moves, order, settings, ends)
        dag, total = moves.graph(order)
        failed = 0 if total < lowest - SCORE_TOLERANCE else failed + 1
        if failed == 0:
            best, lowest = np.asarray(dag), float(total)
        order = _other_order(best[: len(order)], rng)
    return best, lowest


def _sweep(moves: Moves, order: Order, settings: OrderSettings, ends: float) -> Order:
    """The same sweeps, `MOVED_AT_ONCE` variables at a time, until the time `ends`."""
    for _ in range(settings.sweeps):
        before = order
        for some in np.array_split(order, max(1, len(order) // MOVED_AT_ONCE)):
            order = moves.sweep(order, some, 1)
            if time.monotonic() >= ends:
                return order
        if (order == before).all():
            break
    return order


def _other_order(dag: Bools, rng: np.random.Generator) -> Order:
    """An order of a random member of the class of `dag` (not uniform)."""
    names = rng.permutation(len(dag))
    member = member_of(class_of(np.ascontiguousarray(dag[np.ix_(names, names)])))
    return np.asarray(names[topological_order(member, np.arange(len(member)))])
