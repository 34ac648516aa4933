"""A search over orders with several starts, for the scores of `gaussian_order.py` and `block_order.py`.

Sweeps move single variables until no move improves the score, or up to a maximum number of sweeps. The search then
continues from an order of another member of the class found, in which other moves are possible. It ends when
`patience` orders in a row bring no improvement. Several searches start from random orders, and the best graph is
kept. All starting orders are random, so the order of the columns favours no variable.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..graphs.cpdag import cpdag, member_of
from ..graphs.dag import topological_order
from .settings import OrderSettings

SWEEPS = 50
"""maximum number of sweeps of moves from one order"""

Bools = NDArray[np.bool_]
Order = NDArray[np.int64]

# Two totals that differ by at most this are equal up to rounding.
SCORE_TOLERANCE = 1e-10
# The cost per row of a required parent that is later in the order than its child: more than any fit can gain.
MISPLACED_PARENT_COST = 1e3
# A search with a time limit looks at the clock after it has moved a group of at least this number of variables, or of
# all variables if there are fewer. For each group it selects the parents of all d variables again, which takes about
# 10 / d of a sweep.
MOVED_AT_ONCE = 100


@dataclass(frozen=True)
class BestOrder:
    """The best graph found, its score, the number of starts, and how many of them ended at that score.

    The graph is a DAG `[d, d]`, or `[m, d]`: its last m − d rows are data columns that precede all variables.
    """

    dag: Bools
    score: float
    starts: int
    agreeing: int
    complete: bool = True
    """whether the search ended by itself, not by its time limit"""


@dataclass(frozen=True)
class Moves:
    """The functions of a score that a search over orders needs."""

    sweep: Callable[[Order, Order, int], Order]
    """(order, the variables that may move, maximum number of sweeps) -> the order after moves of single variables,
    until no move improves the score or the maximum is reached"""
    graph: Callable[[Order], tuple[Bools, float]]
    """(order) -> its DAG `[d, d]` or `[m, d]`, and its total: −2 times its score per row"""


def best_of_starts(d: int, moves: Moves, settings: OrderSettings, ends: float = math.inf) -> BestOrder:
    """The best DAG found; its `score` is the total, −2 times the score per row, so the lowest total is the best.

    The search ends when `settings.agreeing_starts_of(d)` starts have reached the same best total, after
    `settings.starts` starts, or when `time.monotonic()` reaches `ends`.
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
    """The best DAG, and its total. Sweeps start from `order`, and then from other orders of the best DAG's class."""
    best, lowest, failed = np.zeros((len(order), len(order)), np.bool_), math.inf, 0
    while failed < settings.patience and not (math.isfinite(lowest) and time.monotonic() >= ends):
        order = moves.sweep(order, order, SWEEPS) if ends == math.inf else _sweep_in_time(moves, order, settings, ends)
        dag, total = moves.graph(order)
        failed = 0 if total < lowest - SCORE_TOLERANCE else failed + 1
        if failed == 0:
            best, lowest = np.asarray(dag), float(total)
        order = _other_order(best[: len(order)], rng)
    return best, lowest


def _sweep_in_time(moves: Moves, order: Order, settings: OrderSettings, ends: float) -> Order:
    """The order after at most `SWEEPS` sweeps in groups of variables, which end at the time `ends`."""
    for _ in range(SWEEPS):
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
    member = member_of(cpdag(dag[np.ix_(names, names)]))
    return np.asarray(names[topological_order(member, np.arange(len(member)))])
