"""A search over orders that starts several times: what `gaussian_order.py` and `block_order.py` have in common.

A sweep ends in an optimum of single moves, of which there are others. So the search goes on from orders of other
members of the class found, in which other moves are possible, until several of them bring nothing; and it starts from
several random orders, and the best score is kept. No column is preferred for its place.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .equivalence import class_of, member_of
from .families import OrderSettings

Bools = NDArray[np.bool_]
Order = NDArray[np.int64]

# Scores, per row, that differ by less are equal but for rounding.
EQUAL = 1e-10
# What a required parent that stands too late in an order costs, per row: more than any fit can gain.
MISPLACED = 1e3


@dataclass(frozen=True)
class Found:
    """The best graph found: a DAG `[d, d]`, its score, and how many of the starts ended at that score."""

    dag: Bools
    score: float
    starts: int
    agreeing: int


@dataclass(frozen=True)
class Moves:
    """What a search over orders needs to know of a score."""

    swept: Callable[[Order], Order]
    """(order) -> the order after moves of single variables, until none is better"""
    graph: Callable[[Order], tuple[Bools, float]]
    """(order) -> its DAG `[d, d]`, and its total: −2 times its score, per row"""


def best_of_starts(d: int, moves: Moves, settings: OrderSettings) -> Found:
    """The DAG of the best order found; as its score, the total.

    After `settings.agreeing` starts with the same best score no other is tried, and at most `settings.starts` in all.
    """
    rng = np.random.default_rng(settings.seed)
    best, lowest, agreeing, tried = np.zeros((d, d), np.bool_), math.inf, 0, 0
    while tried < settings.starts and agreeing < settings.agreeing_of(d):
        dag, total = _search(moves, rng.permutation(d), settings, rng)
        tried += 1
        agreeing = 1 if total < lowest - EQUAL else agreeing + (total <= lowest + EQUAL)
        if total < lowest - EQUAL:
            best, lowest = dag, total
    return Found(best, lowest, tried, agreeing)


def _search(moves: Moves, order: Order, settings: OrderSettings, rng: np.random.Generator) -> tuple[Bools, float]:
    """The DAG that sweeps from `order`, and then from other orders of its class, end in, and its total."""
    best, lowest, failed = np.zeros((len(order), len(order)), np.bool_), math.inf, 0
    while failed < settings.patience:
        order = moves.swept(order)
        dag, total = moves.graph(order)
        failed = 0 if total < lowest - EQUAL else failed + 1
        if failed == 0:
            best, lowest = np.asarray(dag), float(total)
        order = _other_order(best, rng)
    return best, lowest


def _other_order(dag: Bools, rng: np.random.Generator) -> Order:
    """An order of some member of the class of `dag`, drawn at random (not uniformly)."""
    names = rng.permutation(len(dag))
    member = member_of(class_of(np.ascontiguousarray(dag[np.ix_(names, names)])))
    return np.asarray(names[_topological(member)])


@njit(cache=True)
def _topological(dag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """An order of `dag`, of several variables that may come next the first."""
    d = len(dag)
    order, waits = np.empty(d, np.int64), np.zeros(d, np.int64)
    for j in range(d):
        waits[j] = dag[:, j].sum()
    for place in range(d):
        first = 0
        while waits[first] != 0:
            first += 1
        order[place], waits[first] = first, -1
        for j in range(d):
            if dag[first, j]:
                waits[j] -= 1
    return order
