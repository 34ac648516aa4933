"""Best order score search for variables that are blocks of columns: mixed data, and additive models.

Given an order, the parents of a variable are grown and shrunk among the earlier variables (Andrews et al. 2023,
Algorithm 2). They minimise the cost ln|R_XX·Pa| + price·|X|·Σ|Pa|, where R_XX·Pa is the residual covariance of the
child's columns X given the columns of the parents, and |Pa| is the number of columns of a parent. For mixed data X are
all columns of the child. The cost is then −2 times the degenerate Gaussian score of `gaussian.py` per row, up to a
constant. For additive models X is only the child's first column, the variable itself. The other columns are functions
of the variable. They are used only where the variable is a parent.

Growing is cached in a tree for each variable (ibid., §3.3). A node is a sequence of parents, with a list of the further
parents that reduce the cost, in descending order of their gains. For any set of earlier variables, the next parent is
the first variable of the list that is in the set. So a selection is a walk of a few steps, and gains are computed only
at new nodes. The trees are only a cache: when they are full, they are cleared.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..statistics.coding import COLLINEARITY_TOLERANCE, Blocks, log_residual_det
from .order_starts import MISPLACED_PARENT_COST, SCORE_TOLERANCE, BestOrder, Bools, Moves, Order, best_of_starts
from .settings import OrderSettings

MAX_NODES, MAX_ENTRIES = 1 << 15, 1 << 20
"""room for nodes in all trees, and for entries in their lists; with many variables there is more room (`_trees`)"""
NO_NODE = -1
"""means that there is no node, no variable, or no position"""

Model = tuple[FloatArray, Order, float, Bools, Bools, Order]
"""R, first, price, possible, required, widths: the blocks and the background knowledge, for compiled code"""
Trees = tuple[NDArray[Any], ...]
"""the trees, for compiled code (`_trees`)"""


def block_boss(
    blocks: Blocks,
    price: float,
    settings: OrderSettings,
    prior: Prior | None = None,
    *,
    first_column_only: bool = False,
    ends: float = math.inf,
) -> BestOrder:
    """The DAG of the best order found.

    `price` is the penalty on twice the log-likelihood for each pair of a column of the child and a column of a parent.
    All columns of a child are used, or only the first with `first_column_only`. The score is the log-likelihood minus
    half the penalties, up to a constant of the data. Trailing variables that can have no parents, such as the past of
    time series, are not ordered but precede all other variables. The search ends at the time `ends` of `time.monotonic`
    at the latest.
    """
    d = len(blocks.first) - 1
    knowledge, trees, widths = prior or no_prior(d), _trees(d), np.diff(blocks.first)
    widths = np.minimum(widths, 1) if first_column_only else widths
    model = (blocks.R, blocks.first, price / blocks.rows, knowledge.possible, knowledge.required, widths)
    moves = Moves(
        sweep=lambda order, movers, sweeps: _sweep(order, movers, model, trees, sweeps),
        graph=lambda order: _graph(order, model, trees),
    )
    ordered = knowledge.ordered
    found = best_of_starts(ordered, moves, settings, ends)
    dag = np.zeros((d, d), np.bool_)
    dag[:, :ordered] = found.dag
    nothing = np.zeros(d, np.bool_)
    total = found.score + sum(_select(v, nothing, model, trees)[0] for v in range(ordered, d))
    return replace(found, dag=dag, score=-0.5 * blocks.rows * total)


def _trees(d: int) -> Trees:
    """Empty trees of d variables, as arrays.

    The arrays are, in this order: the root of each variable; for each node, the parent node, the added variable, and
    the begin and end of its list; the cost of each node, NaN before shrinking; the parents of each node, after
    shrinking those that are left; for each entry of a list, the variable and the node to which it leads; the numbers of
    used nodes and of used entries.
    """
    nodes, entries = max(MAX_NODES, 4 * d), max(MAX_ENTRIES, 4 * d * d)
    return (
        np.full(d, NO_NODE, np.int32),
        np.empty((nodes, 4), np.int32),
        np.empty(nodes),
        np.empty((nodes, d), np.bool_),
        np.empty((entries, 2), np.int32),
        np.zeros(2, np.int64),
    )


def _sweep(order: Order, movers: Order, model: Model, trees: Trees, sweeps: int) -> Order:
    """`order` after at most `sweeps` sweeps that move each of `movers` to its best position, until none moves."""
    for _ in range(sweeps):
        moved = False
        for x in movers if len(movers) < len(order) else order.copy():
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
    """The position of x with the least total cost; its current position unless another position is better.

    The total with x at position i is the sum of three costs: of the variables before i, which cannot have x as a
    parent; of x; and of the variables after i, which can. Many totals are equal up to rounding, and sums over silos
    are rounded differently from pooled rows. So totals within `SCORE_TOLERANCE` of the least one count as equal, and
    x takes the first of these positions.
    """
    d = len(order)
    rest = order[order != x]
    before, change = np.arange(len(model[1]) - 1) >= d, np.empty(d)
    own = _select(x, before, model, trees)[0]
    change[0] = 0.0
    for i in range(d - 1):
        y = rest[i]
        before[x] = True
        with_x = _select(y, before, model, trees)[0]
        before[x] = False
        without = _select(y, before, model, trees)[0]
        before[y] = True
        after = _select(x, before, model, trees)[0]
        change[i + 1] = change[i] + without - with_x + after - own
        own = after
    place, least = int(np.argmax(order == x)), change.min()
    if change[place] <= least + SCORE_TOLERANCE:
        return place
    return int(np.argmax(change <= least + SCORE_TOLERANCE))


def _graph(order: Order, model: Model, trees: Trees) -> tuple[Bools, float]:
    """The DAG `[m, d]` of `order` `[d]`, and its total: −2 times its score per row."""
    d, m = len(order), len(model[1]) - 1
    dag, before, total = np.zeros((m, d), np.bool_), np.arange(m) >= d, 0.0
    for j in order:
        cost, node = _select(j, before, model, trees)
        total += cost
        dag[:, j] = trees[3][node]
        before[j] = True
    return dag, total


@njit(cache=True)
def _select(j, before, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The cost of j with the parents grown and shrunk among `before`, and the node with these parents.

    The cost includes `MISPLACED_PARENT_COST` for each required parent that is not in `before`.
    """
    required = model[4]
    roots, nodes, costs, _, entries, used = trees
    d = len(roots)
    if used[0] + d + 1 > len(nodes) or used[1] + d * (d + 1) > len(entries):
        roots[:], used[:] = NO_NODE, 0
    if roots[j] == NO_NODE:
        # With literal arguments, numba would compile `_new_node` a second time, for other types.
        roots[j] = _new_node(j, np.int32(NO_NODE), np.int32(NO_NODE), model, trees)
    node = roots[j]
    while True:
        entry, end = nodes[node, 2], nodes[node, 3]
        while entry < end and not before[entries[entry, 0]]:
            entry += 1
        if entry == end:
            break
        if entries[entry, 1] == NO_NODE:
            entries[entry, 1] = _new_node(j, node, entries[entry, 0], model, trees)
        node = entries[entry, 1]
    if np.isnan(costs[node]):
        _shrink(j, node, model, trees)
    late = 0
    for p in range(d):
        late += required[p, j] and not before[p]
    return costs[node] + MISPLACED_PARENT_COST * late, node


@njit(cache=True)
def _new_node(j, above, added, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """A new node of j's tree: the parents of the node `above` and the parent `added`, with its list of candidates."""
    R, first, price, possible, required, widths = model
    _, nodes, costs, parents, entries, used = trees
    d, node = len(first) - 1, used[0]
    used[0] += 1
    nodes[node, 0], nodes[node, 1] = above, added
    parents[node] = False
    ancestor = node
    while nodes[ancestor, 0] != NO_NODE:
        parents[node, nodes[ancestor, 1]] = True
        ancestor = nodes[ancestor, 0]
    gains = _gains(R, first, price, j, widths[j], parents[node], possible[:, j])
    begin = used[1]
    for c in range(d):
        if required[c, j] and possible[c, j] and not parents[node, c]:
            gains[c] = np.inf
        if gains[c] > 0:
            place = used[1]
            while place > begin and gains[entries[place - 1, 0]] < gains[c]:
                entries[place, 0] = entries[place - 1, 0]
                place -= 1
            entries[place, 0], entries[used[1], 1] = c, NO_NODE
            used[1] += 1
    nodes[node, 2], nodes[node, 3] = begin, used[1]
    costs[node] = np.nan
    return node


@njit(cache=True)
def _gains(R, first, price, j, wide, chosen, possible):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The reduction of j's cost by each further parent in addition to `chosen`, `[d]`; 0 if it cannot be added."""
    Q = _factor(R, first, chosen)
    d = len(first) - 1
    gains = np.zeros(d)
    alone = _log_residual_det_with(R, Q, first, np.int64(NO_NODE), j, wide)
    for c in range(d):
        width = first[c + 1] - first[c]
        if possible[c] and not chosen[c] and c != j and width > 0:
            gains[c] = alone - _log_residual_det_with(R, Q, first, c, j, wide) - price * width * wide
    return gains


@njit(cache=True)
def _factor(R, first, chosen):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Q such that R − QᵀQ is the residual covariance matrix given the `chosen` variables.

    Q has a row for each column of these variables, and as many columns as R.
    """
    m = 0
    for p in range(len(chosen)):
        if chosen[p]:
            m += first[p + 1] - first[p]
    Q, r = np.zeros((m, len(R))), 0
    for p in range(len(chosen)):
        if not chosen[p]:
            continue
        for column in range(first[p], first[p + 1]):
            for c in range(len(R)):
                Q[r, c] = R[column, c]
            for t in range(r):
                share = Q[t, column]
                for c in range(len(R)):
                    Q[r, c] -= share * Q[t, c]
            residual = Q[r, column]
            scale = 1 / np.sqrt(residual) if residual > COLLINEARITY_TOLERANCE else 0.0
            for c in range(len(R)):
                Q[r, c] *= scale
            r += 1
    return Q


@njit(cache=True)
def _log_residual_det_with(R, Q, first, added, j, wide):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The log determinant of the residual covariance of j's first `wide` columns, given the parents in `Q` and `added`.

    If `added` is NO_NODE, only the parents in `Q` are given.
    """
    n_given = 0 if added == NO_NODE else first[added + 1] - first[added]
    k = n_given + wide
    L, product = np.empty((k, k)), 1.0
    for a in range(k):
        column = first[added] + a if a < n_given else first[j] + a - n_given
        for b in range(a + 1):
            other = first[added] + b if b < n_given else first[j] + b - n_given
            residual = R[column, other]
            for r in range(len(Q)):
                residual -= Q[r, column] * Q[r, other]
            for t in range(b):
                residual -= L[a, t] * L[b, t]
            if b < a:
                L[a, b] = residual / L[b, b] if L[b, b] > 0 else 0.0
        if a >= n_given:
            residual = max(residual, COLLINEARITY_TOLERANCE)
            product *= residual
        L[a, a] = np.sqrt(residual) if residual > COLLINEARITY_TOLERANCE else 0.0
    return np.log(product)


@njit(cache=True)
def _shrink(j, node, model, trees):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Remove parents of `node` as long as this reduces j's cost; store the cost and the remaining parents.

    Required parents are not removed.
    """
    R, first, price, _, required, widths = model
    costs, node_parents, wide = trees[2], trees[3], widths[j]
    parents = np.flatnonzero(node_parents[node])
    log_det = log_residual_det(R, first, j, parents, wide)
    while True:
        weakest, best_saving, log_det_without = NO_NODE, 0.0, log_det
        for a in range(len(parents)):
            p = parents[a]
            if required[p, j]:
                continue
            without = log_residual_det(R, first, j, np.concatenate((parents[:a], parents[a + 1 :])), wide)
            saved = log_det - without + price * wide * (first[p + 1] - first[p])
            if saved > best_saving + SCORE_TOLERANCE:
                weakest, best_saving, log_det_without = a, saved, without
        if weakest == NO_NODE:
            break
        node_parents[node, parents[weakest]] = False
        parents, log_det = np.concatenate((parents[:weakest], parents[weakest + 1 :])), log_det_without
    pairs = 0
    for p in parents:
        pairs += wide * (first[p + 1] - first[p])
    costs[node] = log_det + price * pairs
