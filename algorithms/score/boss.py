"""BOSS, best order score search: the order of the variables whose grow-shrink parents score best (Andrews et al. 2023).

A sweep moves each variable in turn to the position in the order with the greatest total score. Sweeps are repeated
until no move improves the score. Then the backward phase of GES on the class of the graph gives a new order, and sweeps
start again. The search ends when the score no longer increases. The first sweep inserts the variables one by one into
an empty order (our addition). In a full random order, most variables would have many wrong parents, and scoring these
parents would cost more than the rest of the search. As in `ges.py`, `advance_boss` does not compute scores. The parents
of a variable in an order come from its grow-shrink tree (`grow_shrink.py`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior
from ..graphs.cpdag import cpdag, member_of
from ..graphs.dag import topological_order
from .families import Families, find
from .ges import BACKWARD, MIN_GAIN, EquivalenceSearch, advance, search_from
from .grow_shrink import Trees, no_trees, walk
from .knowledge_constraints import consistent_member


@dataclass(frozen=True)
class BossSearch:
    """The state of a search. It is in the backward phase until `backward` is done, and then in a sweep of moves."""

    order: NDArray[np.int64]
    """the order of the variables; in the first sweep, only the variables inserted so far"""
    sweep: NDArray[np.int64]
    """the variables in the order in which this sweep tries to move them"""
    at: int
    """number of variables that this sweep has tried"""
    moved: bool
    """whether this sweep has moved any variable"""
    best: NDArray[np.int64]
    """the order at the start of the last backward phase; before the first one, the order in which variables enter"""
    total: float
    """the score of `best`"""
    backward: EquivalenceSearch
    trees: Trees
    first: int = 0
    """number of variables that can have no parents; they stay at the beginning of every order"""
    done: bool = False


def boss_from(order: NDArray[np.int64], prior: Prior | None = None) -> BossSearch:
    """The start of a search that inserts the variables in `order`, with its own trees.

    The scores must account for the background knowledge `prior` (`apply_knowledge`).
    """
    d = len(order)
    rest = replace(search_from(np.zeros((d, d), np.bool_), BACKWARD, prior=prior), phase=len(BACKWARD))
    is_first = np.zeros(d, np.bool_) if prior is None else prior.parentless[order]
    start, moving = order[is_first], order[~is_first]
    return BossSearch(start, moving, 0, False, np.concatenate([start, moving]), -np.inf, rest, no_trees(), len(start))


def advance_boss(boss: BossSearch, families: Families, lookahead: int = 0) -> BossSearch:
    """Advance the search as far as the known scores allow: until it is done, or `families` lacks scores or room.

    If `lookahead` is positive, the scores that the other moves of the sweep may need are requested together with the
    missing scores. Pending scores of another search do not stop this search. Writes to the arrays of `boss.trees`,
    which are a cache: their content depends only on the scores.
    """
    moving, d = len(boss.sweep), boss.first + len(boss.sweep)
    while not boss.done:
        before = boss = replace(boss, trees=boss.trees.roomy(families, d))
        if not boss.backward.done:
            backward = advance(boss.backward, families, lookahead)
            boss = _restart_sweep(replace(boss, backward=backward), families) if backward.done else boss
        elif boss.at < moving:
            x = boss.sweep[boss.at]
            order, stopped = better_place(boss.order, x, d, boss.trees.arrays, families.tables, boss.first)
            if not stopped:
                better = not np.array_equal(order, boss.order)
                boss = replace(boss, order=order, at=boss.at + 1, moved=boss.moved or better)
            elif lookahead:
                for other in boss.sweep[boss.at + 1 :]:
                    better_place(boss.order, other, d, boss.trees.arrays, families.tables, boss.first)
        elif boss.moved:
            boss = replace(boss, sweep=boss.order[boss.first :], at=0, moved=False)
        else:
            boss = _end_of_sweeps(boss, families)
        if families.full or (boss is before and boss.trees.has_room(d)):
            return boss
    return boss


def graph_of(order: NDArray[np.int64], trees: Trees, families: Families, prior: Prior) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` of the DAG of `order`; `trees` and `prior` are those of the search that found the order."""
    first = int(prior.parentless.sum())
    return cpdag(order_graph(order, trees.arrays, families.tables, first)[0], prior.separated)


def _end_of_sweeps(boss: BossSearch, families: Families) -> BossSearch:
    """The search at the start of its backward phase, or done if the score has not increased since the last such phase.

    A search that is done returns to the order `best`, because sweeps after a backward phase can end in a lower score.
    The state is unchanged while scores of the first `boss.first` variables are unknown: no sweep looks them up before.
    """
    dag, total = order_graph(boss.order, boss.trees.arrays, families.tables, boss.first)
    if np.isnan(total):
        return boss
    if total <= boss.total + rounding_error(total):
        return replace(boss, order=boss.best, done=True)
    return replace(
        boss, best=boss.order, total=total, backward=search_from(np.asarray(dag), BACKWARD, prior=boss.backward.prior)
    )


def _restart_sweep(boss: BossSearch, families: Families) -> BossSearch:
    """The search at the start of a sweep over an order of the graph from the backward phase."""
    dag = consistent_member(boss.backward.graph, boss.backward.prior)
    if dag is None:
        dag = member_of(boss.backward.graph)
    order = np.array(topological_order(dag, boss.order), np.int64)
    return replace(boss, order=order, sweep=order[boss.first :], at=0, moved=False)


@njit(cache=True)
def rounding_error(total):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """A bound on the rounding error of scores near `total`.

    A total is a sum over many variables and rows, so its rounding error grows with the number of rows. A search that
    treated rounding errors as gains might never end.
    """
    return max(MIN_GAIN, 1e-12 * abs(total))


@njit(cache=True)
def better_place(order, x, n_variables, tree, tables, first=0):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The order with x at its best position, and whether missing scores or room prevented the move.

    `order` has some or all of the `n_variables` variables. If x is not in `order`, it is inserted. The first `first`
    variables stay before x.

    Walks in the trees give the score of x at each position i, and the scores of the other variables with and without x
    before them. Sums over silos are rounded differently from pooled rows. So scores that differ only by rounding count
    as equal: x keeps its position if no other is better, and moves to the first of the best positions if one is.
    """
    rest = order[order != x]
    d = len(rest) + 1
    own, without, with_x = np.zeros(d), np.zeros(d - 1), np.zeros(d - 1)
    family = np.empty(n_variables + 1, np.int64)
    allowed = np.zeros(n_variables, np.bool_)
    allowed[order[:first]] = True
    stopped = False
    for i in range(first, d):
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
    total[:first] = -np.inf
    for i in range(first, d):
        total[i] += without[:i].sum() + with_x[i:].sum()
    tolerance = rounding_error(total.max())
    best = int(np.argmax(total >= total.max() - tolerance))
    if d == len(order) and total[best] <= total[np.flatnonzero(order == x)[0]] + tolerance:
        return order, False
    return np.concatenate((rest[:best], np.array([x]), rest[best:])), False


@njit(cache=True)
def _score(v, allowed, tree, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    node = walk(v, allowed, tree, tables, family)
    return (tables[3][node], False) if node >= 0 else (0.0, True)


@njit(cache=True)
def order_graph(order, tree, tables, first=0):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The DAG `[d, d]` of the grow-shrink parents in `order`, and its score; the `first` variables have no parents.

    The score is NaN if scores, or room in the tables, are missing. Missing scores become pending.
    """
    d = len(order)
    dag = np.zeros((d, d), np.bool_)
    family = np.empty(d + 1, np.int64)
    allowed = np.zeros(d, np.bool_)
    total = 0.0
    for i in range(d):
        v = order[i]
        if i < first:
            family[0] = v
            node = np.int64(find(family, np.int64(1), tables))
        else:
            node = walk(v, allowed, tree, tables, family)
        if node < 0:
            total = np.nan
            continue
        for at in range(tables[1][node] + 1, tables[1][node + 1]):
            dag[tables[2][at], v] = True
        total += tables[3][node]
        allowed[v] = True
    return dag, total
