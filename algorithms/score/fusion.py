"""Structural fusion of DAGs over the same variables (Puerta, Aledo, Gámez & Laborda 2021; Torrijos et al. 2024, §2.3).

A common order σ is found greedily from the sinks up (GHO); each DAG is replaced by its minimal directed independence
map for σ; the consensus has the arcs that enough of these maps share. All of them agree with σ, so it is acyclic. The
consensus of the union (every arc of every map) has no independence that one of the DAGs lacks.
"""

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .cliques import NOBODY


def fuse(dags: NDArray[np.bool_], quota: float, variables: Sequence[str]) -> NDArray[np.bool_]:
    """The consensus of `dags` `[k, d, d]`: the arcs in at least max(1, ⌊quota·k⌋) of their maps for GHO's order.

    quota 0 is the UNION, .25 and .5 are C25 and C50 (Torrijos et al. 2024, §4.1). Ties in the order go by the names in
    `variables`.
    """
    names = np.argsort(np.argsort(np.array(variables)))
    order = greedy_order(dags, names)
    votes = np.sum([independence_map(dag, order) for dag in dags], axis=0)
    return np.asarray(votes >= max(1, int(quota * len(dags))))


@njit(cache=True)
def greedy_order(dags, names):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The order σ of `dags` `[k, d, d]` found by the greedy heuristic GHO, ancestors first.

    Again and again the variable whose arcs are cheapest to reverse, summed over all DAGs, is made a sink in each of
    them and taken out. The cost in one DAG is its children less one, plus the arcs to be added; the least of `names`
    decides between equal costs. Only near a sink that was taken out do costs change.
    """
    rest = dags.copy()
    k, d, _ = rest.shape
    cost = np.zeros((k, d), np.int64)
    stale = np.ones((k, d), np.bool_)
    left = np.ones(d, np.bool_)
    order, by_name = np.empty(d, np.int64), np.empty(d, np.int64)
    for v in range(d):
        by_name[names[v]] = v
    for place in range(d - 1, -1, -1):
        best, least = int(NOBODY), 0
        for v in range(d):
            if not left[v]:
                continue
            total = 0
            for g in range(k):
                if stale[g, v]:
                    cost[g, v] = _sink_cost(rest[g], v)
                    stale[g, v] = False
                total += cost[g, v]
            if best < 0 or total < least or (total == least and names[v] < names[best]):
                best, least = v, total
        order[place] = best
        left[best] = False
        for g in range(k):
            _take_out(rest[g], best, by_name, stale[g])
    return order


@njit(cache=True)
def _sink_cost(dag, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The children of v less one, plus the arcs that covering its arcs adds, as they stand now."""
    d = len(dag)
    cost = -1
    married = np.zeros(d, np.bool_)
    for child in range(d):
        if not dag[v, child]:
            continue
        cost += 1
        for u in range(d):
            if dag[u, v] and not dag[u, child]:
                cost += 1
            elif u != v and dag[u, child] and not dag[u, v] and not dag[v, u] and not married[u]:
                married[u] = True
                cost += 1
    return cost


@njit(cache=True)
def _take_out(dag, v, by_name, stale):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make v a sink of `dag` and take it out: its arcs are covered and reversed, the nearest child first.

    Reversing v → c in turn gives c the parents of v, among them the children reversed before, and v those of c.
    """
    d = len(dag)
    near = np.zeros(d, np.bool_)
    for child in _nearest_first(dag, v, by_name):
        for u in range(d):
            if u != v and u != child and (dag[u, v] or dag[u, child]):
                dag[u, v] = dag[u, child] = near[u] = True
        dag[v, child], dag[child, v], near[child] = False, True, True
    for u in range(d):
        near[u] = near[u] or dag[u, v]
        dag[u, v] = False
    for u in range(d):
        if near[u]:
            stale[u] = True
            for parent in range(d):
                if dag[parent, u]:
                    stale[parent] = True


@njit(cache=True)
def _nearest_first(dag, v, by_name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The children of v so that none leads to one before it; of those that may come next the first by name."""
    d = len(dag)
    children, n = np.empty(d, np.int64), 0
    for u in by_name:
        if dag[v, u]:
            children[n] = u
            n += 1
    below = np.zeros((n, d), np.bool_)
    for i in range(n):
        _add_descendants(dag, children[i], below[i])
    ordered, taken = np.empty(n, np.int64), np.zeros(n, np.bool_)
    for place in range(n):
        for i in range(n):
            free = not taken[i]
            for j in range(n):
                if not taken[j] and below[j, children[i]]:
                    free = False
            if free:
                ordered[place], taken[i] = children[i], True
                break
    return ordered


@njit(cache=True)
def _add_descendants(dag, start, below):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Mark in `below` the variables that a directed path from `start` leads to."""
    waiting = np.empty(len(dag), np.int64)
    waiting[0], n = start, 1
    while n > 0:
        n -= 1
        u = waiting[n]
        for w in range(len(dag)):
            if dag[u, w] and not below[w]:
                below[w] = True
                waiting[n] = w
                n += 1


@njit(cache=True)
def independence_map(dag, order):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The minimal directed independence map of `dag` for `order`.

    It is unique. Reversing covered arcs one by one leads to a DAG of that order which holds all its arcs, and now and
    then more. The parents of v are the variables w before v that are not d-separated from v by the others before
    v (Peña 2011): those that v reaches in the moral graph of the ancestors of v and of all before it, through
    variables after v only (Lauritzen et al. 1990).
    """
    d = len(dag)
    result = np.zeros((d, d), np.bool_)
    before = np.zeros(d, np.bool_)
    ancestor = np.zeros(d, np.bool_)
    waiting = np.empty(d, np.int64)
    for v in order:
        _add_ancestors(dag, v, ancestor, waiting)
        seen = np.zeros(d, np.bool_)
        seen[v], waiting[0], n = True, v, 1
        while n > 0:
            n -= 1
            u = waiting[n]
            for w in range(d):
                if ancestor[w] and not seen[w] and _married(dag, ancestor, u, w):
                    seen[w] = True
                    if before[w]:
                        result[w, v] = True
                    else:
                        waiting[n] = w
                        n += 1
        before[v] = True
    return result


@njit(cache=True)
def _add_ancestors(dag, v, ancestor, waiting):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if ancestor[v]:
        return
    ancestor[v], waiting[0], n = True, v, 1
    while n > 0:
        n -= 1
        u = waiting[n]
        for w in range(len(dag)):
            if dag[w, u] and not ancestor[w]:
                ancestor[w] = True
                waiting[n] = w
                n += 1


@njit(cache=True)
def _married(dag, ancestor, u, w):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether u and w are joined in the moral graph of the `ancestor`s."""
    if dag[u, w] or dag[w, u]:
        return True
    for child in range(len(dag)):  # noqa: SIM110 (compiled)
        if ancestor[child] and dag[u, child] and dag[w, child]:
            return True
    return False
