"""BOSS, best order score search: the order of the variables whose grow-shrink parents score best (Andrews et al. 2023).

Each variable in turn is moved to the place in the order where the total score is greatest, until no move improves it;
then the backward phase of GES on the class of the graph gives a new order; and so on until the score no longer rises.
The first sweep puts the variables one by one into an empty order (ours): most of a random order's parents would be
those of a wrong order, many for each variable, and to score them costs more than all the rest of the search.
As in `ges.py`, `advance_boss` scores nothing itself.

The best DAG over a few variables, by dynamic programming over their subsets (Silander & Myllymäki 2006).

The best DAG over a set of variables has a sink: without it, it is the best DAG over the others, and the sink has the
best of its parent sets among them (so, too, Koivisto & Sood 2004). All families of up to `most_parents` parents are
asked for like those of any search, so a silo counts no set of more than `most_parents` + 1 variables for it.

BOSS from several random orders, of which the best end is kept: a single start can stay in a local optimum.

The starts share all family scores and grow-shrink trees, so each further one costs less than the first. The search is
over once `AGREEING` of them have ended in the best score found; so starts that are needed for that in any case run side
by side, and ask for their scores in the same exchange. Their ends are compared in the order of the starts: what is
found does not depend on how many scores come in at a time.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior
from .discrete import agreeing_member
from .equivalence import class_of, member_of
from .families import Families, Tables, find
from .ges import BACKWARD, LEAST, EquivalenceSearch, advance, search_from
from .grow_shrink import Trees, no_trees, walk


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
    """The start of a search that places the variables in `order`, with trees of its own.

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
    """The CPDAG of the graph of `order`, in which a search over `trees` must have ended."""
    return class_of(order_graph(order, trees.arrays, families.tables)[0])


def _end_of_sweeps(boss: BossSearch, families: Families) -> BossSearch:
    """The search with its backward phase begun, or done if the score has not risen since the last one.

    The end is the order of the greatest score: the backward phase can lead to an order whose sweeps end lower.
    """
    dag, total = order_graph(boss.order, boss.trees.arrays, families.tables)
    if total <= boss.total + rounding(total):
        return replace(boss, order=boss.best, done=True)
    return replace(
        boss, best=boss.order, total=total, backward=search_from(np.asarray(dag), BACKWARD, prior=boss.backward.prior)
    )


def _reordered(boss: BossSearch, families: Families) -> BossSearch:
    """The search at the start of a sweep over an order of the graph that the backward phase found."""
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
    """The greatest difference between scores near `total` that is still rounding.

    A total is a sum over many variables and rows: on many rows its last digits exceed any fixed bound, and a search
    that took them for gains would never end.
    """
    return max(LEAST, 1e-12 * abs(total))


@njit(cache=True)
def better_place(order, x, n_variables, tree, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The order with x at its best place, and whether missing scores or missing room prevented that.

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
    """The DAG of the grow-shrink parents in `order` and its score; all of its walks must be known."""
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


_LEAST = 1e-9
"""a gain of no more is rounding: the parents, or the sink, that came first are then kept"""


@njit(cache=True)
def ask_all(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether all families of `d` variables with up to `most_parents` parents are scored; else they are now wanted.

    They are asked for set by set, the largest sets first: the table of a set serves its families and its subsets.
    """
    known = True
    family = np.empty(d, np.int64)
    for size in range(min(most_parents + 1, d), 0, -1):
        for members in range(1, 1 << d):
            if _size(members) == size:
                for child in range(d):
                    if members >> child & 1:
                        known = (_number(child, members ^ (1 << child), d, family, tables) >= 0) and known
    return known


def best_dag(d: int, most_parents: int, tables: Tables) -> tuple[NDArray[np.bool_], float]:
    """The DAG `[d, d]` of the greatest score among those with up to `most_parents` parents each, and its score.

    The scores of all their families must be known.
    """
    sinks, parents, total = _best_sinks(d, most_parents, tables)
    dag, members = np.zeros((d, d), np.bool_), (1 << d) - 1
    while members:
        sink = int(sinks[members])
        members ^= 1 << sink
        dag[:, sink] = parents[sink, members] >> np.arange(d) & 1
    return dag, float(total)


@njit(cache=True)
def _best_sinks(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The sink of the best DAG over each set of variables, the best parents by child and set, the best score.

    A set is a number whose bits are its members.
    """
    scores, parents = _best_parents(d, most_parents, tables)
    total, sinks = np.full(1 << d, -np.inf), np.full(1 << d, -1, np.int64)
    total[0] = 0.0
    for members in range(1, 1 << d):
        for sink in range(d):
            if members >> sink & 1:
                others = members ^ (1 << sink)
                score = total[others] + scores[sink, others]
                if score > total[members] + _LEAST:
                    total[members], sinks[members] = score, sink
    return sinks, parents, total[-1]


@njit(cache=True)
def _best_parents(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The best score of each child with parents within each set, and these parents, both `[d, 2^d]`."""
    scores, parents = np.full((d, 1 << d), -np.inf), np.zeros((d, 1 << d), np.int64)
    family = np.empty(d, np.int64)
    for child in range(d):
        for among in range(1 << d):
            if among >> child & 1:
                continue
            for left_out in range(d):
                if among >> left_out & 1:
                    fewer = among ^ (1 << left_out)
                    if scores[child, fewer] > scores[child, among] + _LEAST:
                        scores[child, among], parents[child, among] = scores[child, fewer], parents[child, fewer]
            if _size(among) <= most_parents:
                score = tables[3][_number(child, among, d, family, tables)]
                if score > scores[child, among] + _LEAST:
                    scores[child, among], parents[child, among] = score, among
    return scores, parents


@njit(cache=True)
def _number(child, parents, d, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of a family as `find` does; `family` `[d]` is scratch."""
    family[0] = child
    size = np.int64(1)
    for v in range(d):
        if parents >> v & 1:
            family[size] = v
            size += 1
    return find(family, size, tables)


@njit(cache=True)
def _size(members):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    size = 0
    while members:
        members &= members - 1
        size += 1
    return size


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
    """The beginning of a search from `starts` random orders of the variables of which `prior` is known.

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
    """The same state with grow-shrink trees in arrays of their own, for `advance_starts` to write to."""
    return replace(starts, trees=starts.trees.copy())


def best_graph(starts: Starts, families: Families) -> NDArray[np.bool_]:
    """The CPDAG of the best order found, or of the best DAG if that is better; the search must be done."""
    if starts.most_parents:
        dag, total = best_dag(starts.orders.shape[1], starts.most_parents, families.tables)
        if total > starts.total + _SAME * abs(starts.total):
            return class_of(dag)
    return graph_of(starts.best, starts.trees, families)


def _begun(starts: Starts) -> Starts:
    """The search with as many further starts begun as are needed in any case."""
    begun = min(len(starts.orders), starts.begun + AGREEING - starts.agreeing)
    running = tuple(boss_from(order, starts.prior) for order in starts.orders[starts.begun : begun])
    return replace(starts, begun=begun, running=running)


def _advanced(starts: Starts, families: Families, ahead: int) -> Starts:
    """The state with each of its searches advanced; they grow the same trees."""
    running, trees = [], starts.trees
    for before in starts.running:
        boss = advance_boss(replace(before, trees=trees), families, ahead)
        trees = boss.trees
        running.append(replace(boss, trees=no_trees()))
    return replace(starts, running=tuple(running), trees=trees)


def _compared(starts: Starts) -> Starts:
    """The search with the ends of its starts compared with the best one, and the next starts begun."""
    for boss in starts.running:
        same = _SAME * abs(boss.total)
        if boss.total > starts.total + same:
            starts = replace(starts, best=boss.order, total=boss.total, agreeing=1)
        elif boss.total >= starts.total - same:
            starts = replace(starts, agreeing=starts.agreeing + 1)
    return _begun(starts)
