"""Directed graphs: skeleton, v-structures and moral graph; cycles and their removal, topological order, d-separation.

All functions take a boolean adjacency `[n_variables, n_variables]`, with `[i, j]` for i → j. The functions up to
`moral_graph` treat an edge in both directions as undirected; their results are the same for Markov-equivalent graphs,
except for `directed_part`. The functions after `moral_graph` treat an edge in both directions as a cycle of two.
"""

from collections import deque
from collections.abc import Collection, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

VStructure = tuple[int, int, int]
"""(i, k, j) with i < j: i → k ← j, and i and j not adjacent"""


def directed_part(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The graph with only its directed edges, `[n_variables, n_variables]`."""
    return adjacency & ~adjacency.T


def skeleton(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The graph without directions: symmetric, `[n_variables, n_variables]`."""
    return adjacency | adjacency.T


def v_structures(adjacency: NDArray[np.bool_]) -> set[VStructure]:
    """The unshielded colliders: all (i, k, j), i < j, with i → k ← j directed and i, j not adjacent.

    Two DAGs are Markov equivalent if and only if they share skeleton and v-structures (Verma & Pearl 1990, Theorem 1).
    """
    directed = directed_part(adjacency)
    not_adjacent = ~skeleton(adjacency)
    triples: set[VStructure] = set()
    for k in np.flatnonzero(directed.sum(axis=0) > 1):
        parents = np.flatnonzero(directed[:, k])
        first, second = np.nonzero(np.triu(not_adjacent[np.ix_(parents, parents)], 1))
        triples.update((int(parents[a]), int(k), int(parents[b])) for a, b in zip(first, second, strict=True))
    return triples


def moral_graph(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The skeleton with all parents of a common child married: symmetric, `[n_variables, n_variables]`.

    Lauritzen & Spiegelhalter 1988. A CPDAG has the moral graph of the DAGs in its class, because parents that are not
    joined form v-structures, which the CPDAG directs.
    """
    directed = directed_part(adjacency).astype(np.float32)
    moral: NDArray[np.bool_] = skeleton(adjacency) | (directed @ directed.T > 0)
    np.fill_diagonal(moral, False)
    return moral


def edges_on_cycles(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The edges that lie on a directed cycle, `[n_variables, n_variables]`.

    These are the edges within a strongly connected component (Tarjan 1972).
    """
    core = _core(adjacency)
    if not core.any():
        return core
    if len(core) <= SMALL:
        return core & transitive_closure(core).T
    from scipy.sparse.csgraph import connected_components  # imported late: listing the algorithms must not need SciPy

    component: NDArray[np.int32]
    _, component = connected_components(adjacency, directed=True, connection="strong")
    return adjacency & np.equal.outer(component, component)


SMALL = 64
"""largest number of variables for which squaring the matrix takes less time than the call of SciPy"""


def transitive_closure(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether a directed path of one or more edges leads from i to j, `[n_variables, n_variables]`."""
    reached = adjacency.astype(np.float32)
    for _ in range(len(adjacency).bit_length()):
        reached = np.minimum(reached + reached @ reached, 1)  # paths of up to twice as many edges
    return reached > 0


def _core(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The edges that are left after nodes without parents or without children have been removed repeatedly.

    An acyclic graph has no such edges, so SciPy need not be imported for it.
    """
    edges = adjacency
    while True:
        inner: NDArray[np.bool_] = np.asarray(edges.any(axis=0) & edges.any(axis=1))
        kept = edges & inner[:, None] & inner[None, :]
        if np.array_equal(kept, edges):
            return kept
        edges = kept


def is_acyclic(adjacency: NDArray[np.bool_]) -> bool:
    """Whether the graph has no directed cycle."""
    return not edges_on_cycles(adjacency).any()


def find_cycle(adjacency: NDArray[np.bool_], variables: Sequence[str]) -> list[str] | None:
    """The names along one directed cycle, without repeating the first at the end; None if there is no cycle.

    It is a shortest cycle through the alphabetically first of all variables on cycles, so messages do not depend on the
    order of the columns.
    """
    cyclic = edges_on_cycles(adjacency)
    by_name = sorted(range(len(variables)), key=lambda v: variables[v])
    start = next((v for v in by_name if cyclic[v].any()), None)
    if start is None:
        return None
    predecessor: dict[int, int] = {}
    queue = deque([start])
    while start not in predecessor:
        current = queue.popleft()
        for successor in by_name:
            if cyclic[current, successor] and successor not in predecessor:
                predecessor[successor] = current
                queue.append(successor)
    backwards = [start]
    while (previous := predecessor[backwards[-1]]) != start:
        backwards.append(previous)
    return [variables[v] for v in (start, *reversed(backwards[1:]))]


def topological_order(adjacency: NDArray[np.bool_], former: NDArray[np.int64] | None = None) -> list[int]:
    """The variables in topological order, parents first (Kahn 1962).

    Variables whose order is free are taken breadth first, by index; with `former`, an order of the variables, in this
    order. Raises ValueError if the graph has a directed cycle.
    """
    open_parents = adjacency.sum(axis=0)
    place = None if former is None else np.argsort(former)
    ready = [(int(v) if place is None else int(place[v]), int(v)) for v in np.flatnonzero(open_parents == 0)]
    heapify(ready)
    order = list[int]()
    while ready:
        v = heappop(ready)[1]
        children = np.flatnonzero(adjacency[v])
        open_parents[children] -= 1
        order.append(v)
        for child in children[open_parents[children] == 0]:
            heappush(ready, (len(adjacency) + len(order) if place is None else int(place[child]), int(child)))
    if len(order) < len(adjacency):
        raise ValueError("a graph with a directed cycle has no topological order")
    return order


def break_cycles(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Drop the weakest edges on cycles until none is left; return the matrix and the number of dropped edges.

    Of the edges that are still on a cycle, the edge with the least |weight| is dropped repeatedly; of several, the
    first in the matrix. One pass from weak to strong suffices, because dropping an edge creates no cycle. `weights`
    `[n_variables, n_variables]` is not modified.
    """
    graph = weights != 0
    sources, targets = np.nonzero(edges_on_cycles(graph))
    dropped = 0
    for e in np.argsort(np.abs(weights[sources, targets]), kind="stable"):
        i, j = int(sources[e]), int(targets[e])
        if reachable(graph, (j,))[i]:
            graph[i, j] = False
            dropped += 1
    return np.where(graph, weights, 0.0), dropped


def strongest_acyclic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """`weights` `[n_variables, n_variables]` without the weakest edges of the graph, so many that it has no cycle.

    This also drops weak edges that are on no cycle (the program of Ng & Zhang 2022).
    """
    kept = weights.copy()
    sources, targets = np.nonzero(kept)
    for e in np.argsort(np.abs(kept[sources, targets]), kind="stable"):
        if not edges_on_cycles(kept != 0).any():
            break
        kept[sources[e], targets[e]] = 0.0
    return kept


def reachable(adjacency: NDArray[np.bool_], start: Collection[int]) -> NDArray[np.bool_]:
    """The descendants of `start`, including `start`, as a mask `[n_variables]`.

    With the transposed adjacency, these are the ancestors.
    """
    reached = np.zeros(len(adjacency), dtype=np.bool_)
    reached[list(start)] = True
    frontier = reached.copy()
    while frontier.any():
        frontier = adjacency[frontier].any(axis=0) & ~reached
        reached |= frontier
    return reached


def d_separated(adjacency: NDArray[np.bool_], i: int, j: int, given: Collection[int] = ()) -> bool:
    """Whether `given` d-separates i from j in a DAG: the error-free result of a conditional-independence test.

    The criterion is separation in the moral graph of the ancestors of i, j and `given` (Lauritzen et al. 1990,
    Proposition 3). Acyclicity is not checked, because the function runs for every test. Raises ValueError if i, j and
    `given` overlap.
    """
    if i == j or i in given or j in given:
        raise ValueError(f"i={i}, j={j} and given={sorted(given)} must not overlap")
    ancestors = reachable(adjacency.T, (i, j, *given))
    moral = moral_graph(adjacency & ancestors[:, None] & ancestors[None, :])
    blocked = list(given)
    moral[:, blocked] = False
    return not reachable(moral, (i,))[j]
