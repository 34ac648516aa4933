"""BOSS, best order score search: the order of the variables whose grow-shrink parents score best (Andrews et al. 2023).

Each variable in turn is moved to the place in the order where the total score is greatest, until no move improves it;
then the backward phase of GES on the class of the graph gives a new order; and so on until the score no longer rises.
The first sweep puts the variables one by one into an empty order (ours): most of a random order's parents would be
those of a wrong order, many for each variable, and to score them costs more than all the rest of the search.
As in `ges.py`, `advance_boss` scores nothing itself.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior
from .equivalence import class_of, member_of
from .families import Families
from .ges import BACKWARD, LEAST, EquivalenceSearch, advance, search_from
from .grow_shrink import Trees, no_trees, walk
from .known import agreeing_member


@dataclass(frozen=True)
class BossSearch:
    """The state of a search: in a sweep of moves if `backward` is done, else in the backward phase."""

    order: NDArray[np.int64]
    """the variables, the first one without parents; in the first sweep those that it has placed"""
    sweep: NDArray[np.int64]
    """the variables in the order in which this sweep tries to move them"""
    at: int
    """how many of them it has tried"""
    moved: bool
    """whether it has moved any"""
    best: NDArray[np.int64]
    """the order that the last backward phase began with"""
    total: float
    """its score"""
    backward: EquivalenceSearch
    trees: Trees
    done: bool = False


def boss_from(order: NDArray[np.int64], prior: Prior | None = None) -> BossSearch:
    """Return the start of a search that places the variables in `order`, with trees of its own.

    What is known beforehand, `prior`, must be in the scores (`known.priced`).
    """
    d = len(order)
    rest = replace(search_from(np.zeros((d, d), np.bool_), BACKWARD, prior=prior), phase=len(BACKWARD))
    return BossSearch(order[:0], order, 0, False, order, -np.inf, rest, no_trees())


def advance_boss(boss: BossSearch, families: Families, ahead: int = 0) -> BossSearch:
    """Advance the search as far as the known scores allow: until it is done, or `families` lacks scores or room.

    With `ahead`, the scores that the other moves of the sweep may need are requested together with the missing ones.
    Scores that another search waits for do not stop this one. Writes to the arrays of `boss.trees`, which hold nothing
    but what follows from the scores.
    """
    d = len(boss.sweep)
    while not boss.done:
        before = boss = replace(boss, trees=boss.trees.roomy(families, d))
        if not boss.backward.done:
            backward = advance(boss.backward, families, ahead)
            boss = _reordered(replace(boss, backward=backward), families) if backward.done else boss
        elif boss.at < d:
            x = boss.sweep[boss.at]
            order, stopped = better_place(boss.order, x, d, boss.trees.arrays, families.tables)
            if not stopped:
                better = not np.array_equal(order, boss.order)
                boss = replace(boss, order=order, at=boss.at + 1, moved=boss.moved or better)
            elif ahead:
                for other in boss.sweep[boss.at + 1 :]:
                    better_place(boss.order, other, d, boss.trees.arrays, families.tables)
        elif boss.moved:
            boss = replace(boss, sweep=boss.order, at=0, moved=False)
        else:
            boss = _end_of_sweeps(boss, families)
        if families.full or (boss is before and boss.trees.has_room(d)):
            return boss
    return boss


def graph_of(order: NDArray[np.int64], trees: Trees, families: Families) -> NDArray[np.bool_]:
    """Return the CPDAG of the graph of `order`, in which a search over `trees` must have ended."""
    return class_of(order_graph(order, trees.arrays, families.tables)[0])


def _end_of_sweeps(boss: BossSearch, families: Families) -> BossSearch:
    """Return the search with its backward phase begun, or done if the score has not risen since the last one.

    The end is the order of the greatest score: the backward phase can lead to an order whose sweeps end lower.
    """
    dag, total = order_graph(boss.order, boss.trees.arrays, families.tables)
    if total <= boss.total + rounding(total):
        return replace(boss, order=boss.best, done=True)
    return replace(
        boss, best=boss.order, total=total, backward=search_from(np.asarray(dag), BACKWARD, prior=boss.backward.prior)
    )


def _reordered(boss: BossSearch, families: Families) -> BossSearch:
    """Return the search at the start of a sweep over an order of the graph that the backward phase found."""
    dag = agreeing_member(boss.backward.graph, boss.backward.prior)
    if dag is None:
        dag = member_of(boss.backward.graph)
    left, order = list(boss.order), []
    while left:
        first = next(v for v in left if not dag[left, v].any())
        left.remove(first)
        order.append(first)
    return replace(boss, order=np.array(order), sweep=np.array(order), at=0, moved=False)


@njit(cache=True)
def rounding(total):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the greatest difference between scores near `total` that is still rounding.

    A total is a sum over many variables and rows: on many rows its last digits exceed any fixed bound, and a search
    that took them for gains would never end.
    """
    return max(LEAST, 1e-12 * abs(total))


@njit(cache=True)
def better_place(order, x, n_variables, tree, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the order with x at its best place, and whether missing scores or missing room prevented that.

    `order` holds some or all of the `n_variables` variables; x may be new to it.

    The score of x at place i, and those of the others after i, with and without x before them, are sums over walks. Of
    places that differ only by rounding the first is taken, because sums over silos are rounded differently.
    """
    rest = order[order != x]
    d = len(rest) + 1
    own, without, with_x = np.zeros(d), np.zeros(d - 1), np.zeros(d - 1)
    family = np.empty(n_variables + 1, np.int64)
    allowed = np.zeros(n_variables, np.bool_)
    stopped = False
    for i in range(d):
        own[i], stop = _score(x, allowed, tree, tables, family)
        stopped = stopped or stop
        if i < d - 1:
            v = rest[i]
            without[i], stop = _score(v, allowed, tree, tables, family)
            allowed[x] = True
            with_x[i], stop_x = _score(v, allowed, tree, tables, family)
            allowed[x] = False
            allowed[v] = True
            stopped = stopped or stop or stop_x
    if stopped:
        return order, True
    total = own
    for i in range(d):
        total[i] += without[:i].sum() + with_x[i:].sum()
    least = rounding(total.max())
    best = int(np.argmax(total >= total.max() - least))
    if d == len(order) and total[best] <= total[np.flatnonzero(order == x)[0]] + least:
        return order, False
    return np.concatenate((rest[:best], np.array([x]), rest[best:])), False


@njit(cache=True)
def _score(v, allowed, tree, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    node = walk(v, allowed, tree, tables, family)
    return (tables[3][node], False) if node >= 0 else (0.0, True)


@njit(cache=True)
def order_graph(order, tree, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the DAG of the grow-shrink parents in `order` and its score; all of its walks must be known."""
    d = len(order)
    dag = np.zeros((d, d), np.bool_)
    family = np.empty(d + 1, np.int64)
    allowed = np.zeros(d, np.bool_)
    total = 0.0
    for v in order:
        node = walk(v, allowed, tree, tables, family)
        for at in range(tables[1][node] + 1, tables[1][node + 1]):
            dag[tables[2][at], v] = True
        total += tables[3][node]
        allowed[v] = True
    return dag, total
