"""Structural fusion of DAGs over the same variables (Puerta, Aledo, Gámez & Laborda 2021; Torrijos et al. 2024, §2.3).

First, the greedy heuristic order (GHO) finds a common order σ of the variables, from the last one to the first. Then
each DAG is replaced by its minimal directed independence map for σ. The consensus has the arcs that enough of these
maps share. All maps agree with σ, so the consensus is acyclic. The independences of the union of all maps hold in
every one of the DAGs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..graphs.kernels import add_descendants
from .cliques import NO_VARIABLE


def fuse(dags: NDArray[np.bool_], quota: float, variables: Sequence[str]) -> NDArray[np.bool_]:
    """The consensus of `dags` `[k, d, d]`: the arcs in at least max(1, ⌊quota·k⌋) of their independence maps.

    A quota of 0 is the UNION of Torrijos et al. 2024, §4.1; .25 and .5 are their C25 and C50. The names in `variables`
    break ties in the common order.
    """
    names = np.argsort(np.argsort(np.array(variables)))
    order = greedy_order(dags, names)
    votes = np.sum([independence_map(dag, order) for dag in dags], axis=0)
    return np.asarray(votes >= max(1, int(quota * len(dags))))


@njit(cache=True)
def greedy_order(dags, names):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The order σ of `dags` `[k, d, d]` found by the greedy heuristic GHO, ancestors first.

    Each step makes the variable with the least cost a sink in every DAG, and removes it. Its cost in a DAG is its
    number of children minus one, plus the number of arcs that must be added to reverse the arcs to the children. Costs
    are summed over the DAGs. `names` `[d]` are the ranks of the variables' names; of equal costs, the lower rank is
    taken. Only costs near a removed sink are computed again.
    """
    rest = dags.copy()
    k, d, _ = rest.shape
    cost = np.zeros((k, d), np.int64)
    stale = np.ones((k, d), np.bool_)
    remaining = np.ones(d, np.bool_)
    order, by_name = np.empty(d, np.int64), np.empty(d, np.int64)
    for v in range(d):
        by_name[names[v]] = v
    for place in range(d - 1, -1, -1):
        best, least = int(NO_VARIABLE), 0
        for v in range(d):
            if not remaining[v]:
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
        remaining[best] = False
        for g in range(k):
            _remove_sink(rest[g], best, by_name, stale[g])
    return order


@njit(cache=True)
def _sink_cost(dag, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of children of v minus one, plus the number of arcs to add until the arcs to its children are covered.

    An arc v → c is covered if c has the same parents as v, and v itself.
    """
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
def _remove_sink(dag, v, by_name, stale):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make v a sink of `dag` and remove it: the arcs to its children are covered and reversed, the nearest child first.

    Before an arc v → c is reversed, c gets the parents of v, and v those of c. Children whose arcs were reversed before
    are now parents of v.
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
    """The children of v in topological order; where it leaves a choice, in the order of the names."""
    d = len(dag)
    children, n = np.empty(d, np.int64), 0
    for u in by_name:
        if dag[v, u]:
            children[n] = u
            n += 1
    below = np.zeros((n, d), np.bool_)
    for i in range(n):
        add_descendants(dag, children[i], below[i])
    ordered, placed = np.empty(n, np.int64), np.zeros(n, np.bool_)
    for place in range(n):
        for i in range(n):
            free = not placed[i]
            for j in range(n):
                if j != i and not placed[j] and below[j, children[i]]:
                    free = False
            if free:
                ordered[place], placed[i] = children[i], True
                break
    return ordered


@njit(cache=True)
def independence_map(dag, order):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The minimal directed independence map of `dag` for `order`.

    It is unique. (Reversing covered arcs one by one would give a DAG with all arcs of this map, but sometimes more.)
    The parents of v are the variables w before v that the other variables before v do not d-separate from v (Peña
    2011). To find them, take the moral graph of v, all variables before v, and their ancestors. The parents are the
    variables before v that a path from v reaches through no other variable before v (Lauritzen et al. 1990).
    """
    d = len(dag)
    result = np.zeros((d, d), np.bool_)
    before = np.zeros(d, np.bool_)
    ancestor = np.zeros(d, np.bool_)
    stack = np.empty(d, np.int64)
    for v in order:
        add_descendants(dag.T, v, ancestor)
        visited = np.zeros(d, np.bool_)
        visited[v], stack[0], n = True, v, 1
        while n > 0:
            n -= 1
            u = stack[n]
            for w in range(d):
                if ancestor[w] and not visited[w] and _married(dag, ancestor, u, w):
                    visited[w] = True
                    if before[w]:
                        result[w, v] = True
                    else:
                        stack[n] = w
                        n += 1
        before[v] = True
    return result


@njit(cache=True)
def _married(dag, ancestor, u, w):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether u and w are joined in the moral graph of the `ancestor`s."""
    if dag[u, w] or dag[w, u]:
        return True
    for child in range(len(dag)):  # noqa: SIM110 (compiled)
        if ancestor[child] and dag[u, child] and dag[w, child]:
            return True
    return False
