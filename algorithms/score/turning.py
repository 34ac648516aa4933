"""Turning an edge: y → x or y — x becomes x → y (Hauser & Bühlmann 2012, Propositions 31-34).

The operator takes a member of the class in which C are the neighbours of y that point at y, and reverses the edge
there. N are the neighbours of y that are adjacent to x.

- y → x: C is a clique with N ⊂ C, and every path from y to x but the edge itself goes through C or a neighbour of x. In
  the member no neighbour of x points at x.
- y — x: C is a clique, not within N, and C ∩ N separates C \\ N from N \\ C among the neighbours of y. In the member
  C ∩ N are the neighbours of x, besides y, that point at x.
"""

import numpy as np
from numba import njit

from .cliques import (
    MOST_CLIQUES,
    NO,
    NOBODY,
    NONE,
    YES,
    among,
    keep,
    neighbours_and_parents,
    next_clique,
    open_path,
    score_with,
    start_clique,
)
from .equivalence import extension


@njit(cache=True)
def best_turn(graph, x, y, space, check, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the most that turning the edge into x → y gains, NaN if a score is unknown, and the size of C.

    C is left in `space.best`. Without `check`, the condition on paths is left aside.
    """
    d = len(graph)
    n_near, n_parents = neighbours_and_parents(graph, y, space.near, space.parents)
    near, parents = space.near[:n_near], space.parents[:n_parents]
    near_x, parents_x = np.empty(d, np.int64), np.empty(d, np.int64)
    n_near_x, n_parents_x = neighbours_and_parents(graph, x, near_x, parents_x)
    near_x, parents_x = near_x[:n_near_x], parents_x[:n_parents_x]
    directed = not graph[x, y]
    best, best_size, unknown = NONE, 0, False
    size, n = start_clique(graph, x, near, directed, YES, space.clique, space.candidates)
    base, tried = size, 0
    while size >= 0 and tried < MOST_CLIQUES:
        clique = space.clique[:size]
        tried += 1
        if directed or _turns(graph, x, near, clique):
            gain = _gain(graph, x, y, parents, parents_x, clique, directed, space.family, tables)
            if np.isnan(gain):
                unknown = True
            elif gain > best and not (check and directed and open_path(graph, y, x, clique, near_x, NO)):
                best, best_size = gain, size
                keep(clique, space.best)
        size = next_clique(graph, space.candidates[:n], space.clique, space.places, base, size)
    return (np.nan if unknown else best), best_size


@njit(cache=True)
def _gain(graph, x, y, parents, parents_x, clique, directed, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    shared = clique[:0].copy() if directed else _adjacent_to(graph, x, clique)
    before_y = score_with(y, parents, NOBODY, clique, NOBODY, family, tables)
    after_y = score_with(y, parents, NOBODY, clique, x, family, tables)
    before_x = score_with(x, parents_x, y, shared, y, family, tables)
    after_x = score_with(x, parents_x, y, shared, NOBODY, family, tables)
    return after_y - before_y + after_x - before_x


@njit(cache=True)
def _adjacent_to(graph, x, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    adjacent = np.empty(len(variables), np.int64)
    n = 0
    for v in variables:
        if graph[v, x] or graph[x, v]:
            adjacent[n] = v
            n += 1
    return adjacent[:n]


@njit(cache=True)
def _turns(graph, x, near, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Say whether C has a member outside N, and C ∩ N separates C ∖ N from N ∖ C within `near`, Ne(y)."""
    d = len(graph)
    seen = np.zeros(d, np.bool_)
    waiting = np.empty(d, np.int64)
    n = 0
    for v in clique:
        seen[v] = True
        if not (graph[v, x] or graph[x, v]):
            waiting[n] = v
            n += 1
    if n == 0:
        return False
    while n > 0:
        n -= 1
        u = waiting[n]
        for v in near:
            if v != x and not seen[v] and (graph[u, v] or graph[v, u]):
                if graph[v, x] or graph[x, v]:
                    return False
                seen[v] = True
                waiting[n] = v
                n += 1
    return True


@njit(cache=True)
def turned(graph, x, y, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the DAG that the valid turn of the edge into x → y with clique C leads to."""
    pdag = graph.copy()
    directed = not graph[x, y]
    for v in range(len(graph)):
        in_clique = among(v, clique)
        if v != x and graph[v, y] and graph[y, v]:
            if in_clique:
                pdag[y, v] = False
            else:
                pdag[v, y] = False
        if v != y and graph[v, x] and graph[x, v]:
            if in_clique and not directed:
                pdag[x, v] = False
            else:
                pdag[v, x] = False
    pdag[x, y] = False
    dag, _ = extension(pdag)
    dag[y, x], dag[x, y] = False, True
    return dag
