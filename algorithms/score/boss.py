"""BOSS, best order score search: the order of the variables whose grow-shrink parents score best (Andrews et al. 2023).

- `BossSearch`: a sweep moves each variable in turn to the position in the order with the greatest total score. Sweeps
  are repeated until no move improves the score. Then the backward phase of GES on the class of the graph gives a new
  order, and sweeps start again. The search ends when the score no longer increases. The first sweep inserts the
  variables one by one into an empty order (our addition). In a full random order, most variables would have many wrong
  parents, and scoring these parents would cost more than the rest of the search. As in `ges.py`, `advance_boss` does
  not compute scores.
- `best_dag`: the best DAG over a few variables, by dynamic programming over their subsets (Silander & Myllymäki 2006).
  The best DAG over a set of variables has a sink. The sink has the best of its parent sets among the other variables,
  and the rest of the DAG is the best DAG over the other variables (as in Koivisto & Sood 2004). All families of up to
  `most_parents` parents are requested like the families of any search. So the exact search makes silos count no set of
  more than `most_parents` + 1 variables.
- `Starts`: BOSS from several random orders, of which the best result is used, because a single start can end in a local
  optimum. The starts share all family scores and grow-shrink trees, so each further start costs less than the first.
  The search ends when `AGREEING_STARTS` starts have reached the best score, or after the last start. As many starts run
  in parallel as must still agree, and their scores are requested in the same exchange. Their results are compared in
  the order of the starts, so the result does not depend on the number of scores in an exchange.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior
from ..graphs.cpdag import cpdag, member_of
from ..graphs.dag import topological_order
from .discrete import consistent_member
from .families import UNKNOWN, Families, Tables, find
from .ges import BACKWARD, MIN_GAIN, EquivalenceSearch, advance, search_from

# Grow-shrink trees: the parents of a variable among those before it in an order (Andrews et al. 2023, Algorithm 2).
#
# Growing adds the best allowed parent as long as this improves the score. Then shrinking removes parents as long as
# this improves the score. A node of the tree is a set of parents. A grown node has a branch for each further parent
# that improves its score, the best first. The branches do not depend on which parents are allowed, so all orders share
# the tree of a variable. Here a node is a family (a child and its parents), identified by its number in `Families`. So
# a set that is reached along different paths is one node, and is scored once.


Tree = tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.uint16], NDArray[np.int32], NDArray[np.int64]
]
"""begins, size, shrunk, added, leads_to, used: the arrays for compiled code"""

FULL = -2
"""the result of a walk that ends because there is no room for the branches of a node"""


@dataclass(frozen=True)
class Trees:
    """The nodes. Node e has the branches `begins[e]` to `begins[e] + size[e] − 1`; a node not yet grown has size −1."""

    begins: NDArray[np.int64]
    size: NDArray[np.int32]
    shrunk: NDArray[np.int32]
    """the family a node shrinks to, −1 if unknown"""
    added: NDArray[np.uint16]
    """for each branch, the parent that it adds"""
    leads_to: NDArray[np.int32]
    used: NDArray[np.int64]
    """number of used branches"""

    @property
    def arrays(self) -> Tree:
        """The arrays, for compiled code."""
        return self.begins, self.size, self.shrunk, self.added, self.leads_to, self.used

    def has_room(self, d: int) -> bool:
        """Whether there is room for the branches of another node of `d` variables."""
        return bool(self.used[0] + d <= len(self.added))

    def copy(self) -> "Trees":
        """A copy with its own arrays."""
        return Trees(
            self.begins.copy(),
            self.size.copy(),
            self.shrunk.copy(),
            self.added.copy(),
            self.leads_to.copy(),
            self.used.copy(),
        )

    def roomy(self, families: Families, d: int) -> "Trees":
        """The same trees with room for all of `families`, and for the branches of at least 64 more nodes."""
        more = len(families.score) - len(self.size)
        branches = int(self.used[0]) + 64 * d - len(self.added)
        trees = self
        if more > 0:
            trees = replace(
                trees,
                begins=np.concatenate([self.begins, np.zeros(more, np.int64)]),
                size=np.concatenate([self.size, np.full(more, -1, np.int32)]),
                shrunk=np.concatenate([self.shrunk, np.full(more, -1, np.int32)]),
            )
        if branches > 0:
            room = max(branches, len(self.added))
            trees = replace(
                trees,
                added=np.concatenate([self.added, np.zeros(room, np.uint16)]),
                leads_to=np.concatenate([self.leads_to, np.zeros(room, np.int32)]),
            )
        return trees


def no_trees() -> Trees:
    """Trees without a node."""
    none = np.empty(0, np.int32)
    return Trees(np.empty(0, np.int64), none, none, np.empty(0, np.uint16), none, np.zeros(1, np.int64))


@njit(cache=True)
def walk(y, allowed, tree, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The number of y's family with the parents that grow-shrink selects among `allowed`, or UNKNOWN or FULL.

    UNKNOWN means that scores are missing; they are now pending. FULL means that there is no room for branches. `family`
    `[d + 1]` is scratch space.
    """
    begins, size, shrunk, added, leads_to, _ = tree
    family[0] = y
    node = find(family, np.int64(1), tables)
    while node != UNKNOWN:
        if size[node] < 0:
            grown = _grow(node, len(allowed), tree, tables, family)
            if grown < 0:
                return grown
        branch = begins[node]
        while branch < begins[node] + size[node] and not allowed[added[branch]]:
            branch += 1
        if branch == begins[node] + size[node]:
            return _shrink(node, shrunk, tables, family)
        node = leads_to[branch]
    return UNKNOWN


@njit(cache=True)
def _grow(node, d, tree, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Create the branches of `node` and return 0, or return UNKNOWN or FULL as `walk` does."""
    begins, size, _, added, leads_to, used = tree
    if used[0] + d > len(added):
        return FULL
    first, members, score = tables[1], tables[2], tables[3]
    parents = members[first[node] + 1 : first[node + 1]]
    y = members[first[node]]
    number = np.empty(d, np.int64)
    gain = np.full(d, -np.inf)
    unknown = False
    for v in range(d):
        if v == y or (parents == v).any():
            continue
        number[v] = find(family, _with(y, parents, v, family), tables)
        if number[v] == UNKNOWN:
            unknown = True
        elif score[number[v]] > score[node]:
            gain[v] = score[number[v]]
    if unknown:
        return UNKNOWN
    at = used[0]
    begins[node], size[node] = at, 0
    for v in range(d):
        if gain[v] > -np.inf:
            place = at
            while place > begins[node] and gain[added[place - 1]] < gain[v]:
                added[place], leads_to[place] = added[place - 1], leads_to[place - 1]
                place -= 1
            added[place], leads_to[place] = v, number[v]
            at += 1
    size[node] = at - used[0]
    used[0] = at
    return 0


@njit(cache=True)
def _shrink(node, shrunk, tables, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The family that `node` shrinks to, or UNKNOWN."""
    if shrunk[node] >= 0:
        return shrunk[node]
    first, members, score = tables[1], tables[2], tables[3]
    best, previous = node, -1
    while best != previous:
        previous, unknown = best, False
        begin, end = first[previous], first[previous + 1]
        for left_out in range(begin + 1, end):
            size = np.int64(0)
            for at in range(begin, end):
                if at != left_out:
                    family[size] = members[at]
                    size += 1
            number = find(family, size, tables)
            if number == UNKNOWN:
                unknown = True
            elif score[number] > score[best]:
                best = number
        if unknown:
            return UNKNOWN
    shrunk[node] = best
    return best


@njit(cache=True)
def _with(y, parents, v, family):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write y, then `parents` and v in ascending order, into `family`; return the length of the family."""
    family[0] = y
    size, placed = 1, False
    for p in parents:
        if not placed and v < p:
            family[size] = v
            size, placed = size + 1, True
        family[size] = p
        size += 1
    if not placed:
        family[size] = v
        size += 1
    return size


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

    The scores must account for the background knowledge `prior` (`discrete.apply_knowledge`).
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


_MIN_GAIN = 1e-9
"""minimum gain of other parents or another sink; smaller gains are rounding errors"""


@njit(cache=True)
def request_all_families(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether all families of `d` variables with up to `most_parents` parents are scored; unscored ones become pending.

    The families are requested set by set, the largest sets first, because the table of a set also gives the scores of
    its subsets.
    """
    all_known = True
    family = np.empty(d, np.int64)
    for size in range(min(most_parents + 1, d), 0, -1):
        for members in range(1, 1 << d):
            if _size(members) == size:
                for child in range(d):
                    if members >> child & 1:
                        all_known = (_number(child, members ^ (1 << child), d, family, tables) >= 0) and all_known
    return all_known


def best_dag(d: int, most_parents: int, tables: Tables) -> tuple[NDArray[np.bool_], float]:
    """The DAG `[d, d]` of the greatest score among those with up to `most_parents` parents each, and its score.

    The scores of all these families must be known.
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
    """The sink of the best DAG over each set of variables, `[2^d]`; the best parents, `[d, 2^d]`; and the best score.

    The parents are those of each child within each set. A set is a number with a bit for each variable. The best score
    is that of the best DAG over all variables.
    """
    scores, parents = _best_parents(d, most_parents, tables)
    total, sinks = np.full(1 << d, -np.inf), np.full(1 << d, -1, np.int64)
    total[0] = 0.0
    for members in range(1, 1 << d):
        for sink in range(d):
            if members >> sink & 1:
                others = members ^ (1 << sink)
                score = total[others] + scores[sink, others]
                if score > total[members] + _MIN_GAIN:
                    total[members], sinks[members] = score, sink
    return sinks, parents, total[-1]


@njit(cache=True)
def _best_parents(d, most_parents, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The best score of each child with parents within each set, and the set of these parents, both `[d, 2^d]`."""
    scores, parents = np.full((d, 1 << d), -np.inf), np.zeros((d, 1 << d), np.int64)
    family = np.empty(d, np.int64)
    for child in range(d):
        for candidates in range(1 << d):
            if candidates >> child & 1:
                continue
            for left_out in range(d):
                if candidates >> left_out & 1:
                    fewer = candidates ^ (1 << left_out)
                    if scores[child, fewer] > scores[child, candidates] + _MIN_GAIN:
                        scores[child, candidates], parents[child, candidates] = (
                            scores[child, fewer],
                            parents[child, fewer],
                        )
            if _size(candidates) <= most_parents:
                score = tables[3][_number(child, candidates, d, family, tables)]
                if score > scores[child, candidates] + _MIN_GAIN:
                    scores[child, candidates], parents[child, candidates] = score, candidates
    return scores, parents


@njit(cache=True)
def _number(child, parents, d, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of the family of `child` and the set `parents`, as from `find`; `family` `[d]` is scratch."""
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
