"""Insert and Delete on equivalence classes: which are valid, and what they gain (Chickering 2002, Theorems 15-18).

For a pair (x, y) in a CPDAG, Ne(y) are the neighbours (undirected), Pa(y) the parents, NA the neighbours of y that are
adjacent to x. Both operators are told apart by a clique C of neighbours of y, and both gain the difference between the
families (y, C ∪ Pa(y) ∪ {x}) and (y, C ∪ Pa(y) \\ {x}):

- Insert(x, y, T), x and y not adjacent: C = NA ∪ T for neighbours T of y not adjacent to x; valid if C is a clique and
  every semi-directed path from y to x goes through C.
- Delete(x, y, H), x → y or x — y: C = NA \\ H; valid if C is a clique.

So one enumeration of cliques serves both. The condition on paths takes all of the graph, and what a clique passes, a
larger one passes too; a search asks for it only of operators it is about to apply.
"""

import numpy as np
from numba import njit

from .families import UNKNOWN, find

INSERT, DELETE = 0, 1
NONE = -np.inf
"""the gain where there is no valid operator"""


@njit(cache=True)
def refresh(kind, graph, stale, gain, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Bring `gain[y, x]` up to date wherever `stale[y, x]`, for all pairs whose scores are known; return how many were not.

    `gain[y, x]` is then the most that an operator of `kind` on (x, y) gains, paths left aside. What is not known is
    put down as wanted, and stays stale.
    """
    d = len(graph)
    space = workspace(d)
    left = 0
    for y in range(d):
        looked = False
        for x in range(d):
            if not stale[y, x]:
                continue
            if not applies(kind, graph, x, y):
                gain[y, x] = NONE
                stale[y, x] = False
                continue
            if not looked:
                looked = True
                n_near, n_parents = _look(graph, y, space)
            best, _, known = best_clique(kind, graph, x, y, n_near, n_parents, space, False, tables)
            if known:
                gain[y, x] = best
                stale[y, x] = False
            else:
                left += 1
    return left


@njit(cache=True)
def best_operator(kind, graph, x, y, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return what the best valid operator of `kind` on (x, y) gains, and its clique C; all scores must be known."""
    space = workspace(len(graph))
    n_near, n_parents = _look(graph, y, space)
    gain, size, _ = best_clique(kind, graph, x, y, n_near, n_parents, space, True, tables)
    return gain, space[5][:size].copy()


@njit(cache=True)
def applies(kind, graph, x, y):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Say whether x and y are joined, or not, as an operator of `kind` on (x, y) takes it."""
    if kind == INSERT:
        return x != y and not graph[x, y] and not graph[y, x]
    return graph[x, y]


@njit(cache=True)
def workspace(d):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return scratch lists of up to d variables: neighbours, parents, candidates, clique, places, best clique, family."""
    return (
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d + 2, np.int64),
    )


@njit(cache=True)
def _look(graph, y, space):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    near, parents = space[0], space[1]
    n_near = n_parents = 0
    for v in range(len(graph)):
        if graph[v, y]:
            if graph[y, v]:
                near[n_near] = v
                n_near += 1
            else:
                parents[n_parents] = v
                n_parents += 1
    return n_near, n_parents


@njit(cache=True)
def best_clique(kind, graph, x, y, n_near, n_parents, space, check, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the best gain over the cliques C of the operators on (x, y), the size of the best, whether all are known.

    The best one is left in `space[5]`. With `check`, only operators that pass the condition on paths count.
    """
    near, parents, candidates, clique, places, best_of, _ = space
    best, best_size, known = NONE, 0, True
    size = candidate = 0
    for i in range(n_near):
        v = near[i]
        if v == x:
            continue
        adjacent = graph[v, x] or graph[x, v]
        if kind == INSERT and adjacent:
            if not _joins(graph, v, clique, size):
                return NONE, 0, True
            clique[size] = v
            size += 1
        elif kind == INSERT or adjacent:
            candidates[candidate] = v
            candidate += 1
    base, following = size, 0
    while True:
        gain = _gain(kind, x, y, parents[:n_parents], clique[:size], space[6], tables)
        known = known and not np.isnan(gain)
        if gain > best and not (check and kind == INSERT and _open_path(graph, y, x, clique[:size])):
            best, best_size = gain, size
            best_of[:size] = clique[:size]
        while following < candidate and not _joins(graph, candidates[following], clique, size):
            following += 1
        while following == candidate and size > base:
            size -= 1
            following = places[size] + 1
            while following < candidate and not _joins(graph, candidates[following], clique, size):
                following += 1
        if following == candidate:
            return best, best_size, known
        clique[size], places[size] = candidates[following], following
        size += 1
        following += 1


@njit(cache=True)
def _joins(graph, v, clique, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(size):
        if not graph[v, clique[i]] and not graph[clique[i], v]:
            return False
    return True


@njit(cache=True)
def _gain(kind, x, y, parents, clique, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the gain of the operator with clique C, NaN where a score is not known."""
    size = 1
    family[0] = y
    for i in range(len(parents)):
        if parents[i] != x:
            family[size] = parents[i]
            size += 1
    for i in range(len(clique)):
        size = _put(family, size, clique[i])
    without = find(family, size, tables)
    size = _put(family, size, x)
    with_x = find(family, size, tables)
    if without == UNKNOWN or with_x == UNKNOWN:
        return np.nan
    gain = tables[3][with_x] - tables[3][without]
    return gain if kind == INSERT else -gain


@njit(cache=True)
def _put(family, size, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put v among the parents `family[1:size]`, which stay in order; return the new size."""
    at = size
    while at > 1 and family[at - 1] > v:
        family[at] = family[at - 1]
        at -= 1
    family[at] = v
    return size + 1


@njit(cache=True)
def _open_path(graph, y, x, blocked):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Say whether a path y ⋯→ x along arrows and undirected edges avoids `blocked`."""
    d = len(graph)
    seen = np.zeros(d, np.bool_)
    waiting = np.empty(d, np.int64)
    for i in range(len(blocked)):
        seen[blocked[i]] = True
    seen[y], waiting[0], n = True, y, 1
    while n > 0:
        n -= 1
        u = waiting[n]
        for v in range(d):
            if graph[u, v] and not seen[v]:
                if v == x:
                    return True
                seen[v] = True
                waiting[n] = v
                n += 1
    return False
