"""Best order score search where each variable is a block of columns: mixed data by the degenerate Gaussian score.

Given an order, the parents of a variable are grown and shrunk among those before it (Andrews et al. 2023, Algorithm 2),
by twice the score of `gaussian.py`, per row: ln|R_XX·Pa| + price·|X|·Σ|Pa|, which is to be least.

The growing is put down in a tree for each variable (ibid., §3.3): a node is a sequence of parents, and knows by how
much every further one would help, the best first. Of any set of variables that stand before, the next parent is the
first one in that list, so a selection is a walk of a few steps, and numbers are computed only where no walk has been.
The trees are a memory and nothing else: when they are full, all is forgotten.
"""

import numpy as np
from numba import njit

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..statistics.coding import COLLINEAR, Blocks, log_left
from .families import OrderSettings
from .order_starts import EQUAL, MISPLACED, Found, Moves, best_of_starts

NODES, ENTRIES = 1 << 15, 1 << 20
"""nodes of all trees, and entries in their lists, before they are forgotten"""
NONE = -1


def block_boss(blocks: Blocks, price: float, settings: OrderSettings, prior: Prior | None = None) -> Found:
    """The DAG of the best order found.

    `price` is what each pair of a column of the child and one of a parent costs in twice the log-likelihood. The score
    is that of the likelihood, less half the prices, up to a constant of the data.
    """
    d = len(blocks.first) - 1
    known, trees = prior or no_prior(d), _trees(d)
    model = (blocks.R, blocks.first, price / blocks.rows, known.possible, known.required)
    moves = Moves(
        swept=lambda order: np.asarray(_swept(order, model, trees, settings.sweeps)),
        graph=lambda order: _graph(order, model, trees),
    )
    found = best_of_starts(d, moves, settings)
    return Found(found.dag, -0.5 * blocks.rows * found.score, found.starts, found.agreeing)


def _trees(d: int) -> tuple[FloatArray, ...]:
    """Empty trees of d variables.

    By variable its root; by node its place above, the variable added there, where its list begins and ends, its cost
    (NaN as long as it has not been shrunk) and the parents that are left; by entry the variable, and the node it leads
    to; and how many nodes and entries there are.
    """
    nodes, entries = max(NODES, 4 * d), max(ENTRIES, 4 * d * d)
    return (
        np.full(d, NONE, np.int32),
        np.empty((nodes, 4), np.int32),
        np.empty(nodes),
        np.empty((nodes, d), np.bool_),
        np.empty((entries, 2), np.int32),
        np.zeros(2, np.int64),
    )


@njit(cache=True)
def _swept(order, model, trees, sweeps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`order` after moving each variable to its best place, until none moves or `sweeps` are over."""
    for _ in range(sweeps):
        moved = False
        for x in order.copy():
            place = _best_place(order, x, model, trees)
            if order[place] != x:
                rest = order[order != x]
                order = np.concatenate((rest[:place], np.array([x]), rest[place:]))
                moved = True
        if not moved:
            break
    return order


@njit(cache=True)
def _best_place(order, x, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The place of x in the order at which the total is least: its own unless another one is better.

    The total with x at place i is that of the variables before it without x, of x, and of those after it with x. Many
    places are equal but for rounding, which must not decide: sums over silos round otherwise than pooled rows.
    """
    d = len(order)
    rest = order[order != x]
    before, change = np.zeros(d, np.bool_), np.empty(d)
    own = _select(x, before, model, trees)[0]
    change[0] = 0.0
    for i in range(d - 1):
        y = rest[i]
        before[x] = True
        given = _select(y, before, model, trees)[0]
        before[x] = False
        without = _select(y, before, model, trees)[0]
        before[y] = True
        after = _select(x, before, model, trees)[0]
        change[i + 1] = change[i] + without - given + after - own
        own = after
    place, least = int(np.argmax(order == x)), change.min()
    if change[place] <= least + EQUAL:
        return place
    return int(np.argmax(change <= least + EQUAL))


@njit(cache=True)
def _graph(order, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The DAG of `order`, and its total: −2 times its score, per row."""
    d = len(order)
    dag, before, total = np.zeros((d, d), np.bool_), np.zeros(d, np.bool_), 0.0
    for j in order:
        cost, node = _select(j, before, model, trees)
        total += cost
        dag[:, j] = trees[3][node]
        before[j] = True
    return dag, total


@njit(cache=True)
def _select(j, before, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return what j costs with the parents grown and shrunk among `before`, and the node that has these parents."""
    required = model[4]
    roots, nodes, costs, _, entries, used = trees
    d = len(roots)
    if used[0] + d + 1 > len(nodes) or used[1] + d * (d + 1) > len(entries):
        roots[:], used[:] = NONE, 0
    if roots[j] == NONE:
        roots[j] = _new_node(j, NONE, NONE, model, trees)
    node = roots[j]
    while True:
        entry, end = nodes[node, 2], nodes[node, 3]
        while entry < end and not before[entries[entry, 0]]:
            entry += 1
        if entry == end:
            break
        if entries[entry, 1] == NONE:
            entries[entry, 1] = _new_node(j, node, entries[entry, 0], model, trees)
        node = entries[entry, 1]
    if np.isnan(costs[node]):
        _shrink(j, node, model, trees)
    late = 0
    for p in range(d):
        late += required[p, j] and not before[p]
    return costs[node] + MISPLACED * late, node


@njit(cache=True)
def _new_node(j, above, added, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """A new node of j's tree: the parents of the node `above` and the one `added`, with its list of others."""
    R, first, price, possible, required = model
    _, nodes, costs, kept, entries, used = trees
    d, node = len(first) - 1, used[0]
    used[0] += 1
    nodes[node, 0], nodes[node, 1] = above, added
    kept[node] = False
    at = node
    while nodes[at, 0] != NONE:
        kept[node, nodes[at, 1]] = True
        at = nodes[at, 0]
    helps = _helps(R, first, price, j, kept[node], possible[:, j])
    for c in range(d):
        if required[c, j] and possible[c, j] and not kept[node, c]:
            helps[c] = np.inf
    nodes[node, 2] = used[1]
    for c in np.argsort(-helps, kind="mergesort"):
        if not helps[c] > 0:
            break
        entries[used[1], 0], entries[used[1], 1] = c, NONE
        used[1] += 1
    nodes[node, 3] = used[1]
    costs[node] = np.nan
    return node


@njit(cache=True)
def _helps(R, first, price, j, chosen, possible):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """By how much each variable would lower the cost of j beyond the parents `chosen`, `[d]`; 0 for those."""
    Q = _factor(R, first, chosen)
    d, wide = len(first) - 1, first[j + 1] - first[j]
    helps = np.zeros(d)
    alone = _log_left_with(R, Q, first, NONE, j)
    for c in range(d):
        width = first[c + 1] - first[c]
        if possible[c] and not chosen[c] and c != j and width > 0:
            helps[c] = alone - _log_left_with(R, Q, first, c, j) - price * width * wide
    return helps


@njit(cache=True)
def _factor(R, first, chosen):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Q `[columns of the chosen, K]` such that R − QᵀQ are the covariances that the chosen variables leave."""
    m = 0
    for p in range(len(chosen)):
        if chosen[p]:
            m += first[p + 1] - first[p]
    Q, r = np.zeros((m, len(R))), 0
    for p in range(len(chosen)):
        if not chosen[p]:
            continue
        for column in range(first[p], first[p + 1]):
            Q[r] = R[column]
            for t in range(r):
                share = Q[t, column]
                for c in range(len(R)):
                    Q[r, c] -= share * Q[t, c]
            left = Q[r, column]
            Q[r] *= 1 / np.sqrt(left) if left > COLLINEAR else 0.0
            r += 1
    return Q


@njit(cache=True)
def _log_left_with(R, Q, first, added, j):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The log determinant of what the variables of `Q`, and `added` unless it is NONE, leave of j."""
    given = 0 if added == NONE else first[added + 1] - first[added]
    k = given + first[j + 1] - first[j]
    L, product = np.empty((k, k)), 1.0
    for a in range(k):
        column = first[added] + a if a < given else first[j] + a - given
        for b in range(a + 1):
            other = first[added] + b if b < given else first[j] + b - given
            left = R[column, other]
            for r in range(len(Q)):
                left -= Q[r, column] * Q[r, other]
            for t in range(b):
                left -= L[a, t] * L[b, t]
            if b < a:
                L[a, b] = left / L[b, b] if L[b, b] > 0 else 0.0
        if a >= given:
            left = max(left, COLLINEAR)
            product *= left
        L[a, a] = np.sqrt(left) if left > COLLINEAR else 0.0
    return np.log(product)


@njit(cache=True)
def _shrink(j, node, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put down what j costs at this node once parents are gone that help too little beyond the others, and the rest."""
    R, first, price, _, required = model
    costs, kept = trees[2], trees[3]
    wide = first[j + 1] - first[j]
    parents = np.flatnonzero(kept[node])
    left = log_left(R, first, j, parents)
    while True:
        weakest, most, left_then = NONE, 0.0, left
        for a in range(len(parents)):
            p = parents[a]
            if required[p, j]:
                continue
            without = log_left(R, first, j, np.concatenate((parents[:a], parents[a + 1 :])))
            saved = left - without + price * wide * (first[p + 1] - first[p])
            if saved > most + EQUAL:
                weakest, most, left_then = a, saved, without
        if weakest == NONE:
            break
        kept[node, parents[weakest]] = False
        parents, left = np.concatenate((parents[:weakest], parents[weakest + 1 :])), left_then
    pairs = 0
    for p in parents:
        pairs += wide * (first[p + 1] - first[p])
    costs[node] = left + price * pairs
