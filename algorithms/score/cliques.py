"""Building blocks of the operators of an equivalence search: neighbours, cliques among them, paths, families.

All functions are compiled. A graph is a CPDAG, boolean `[n_variables, n_variables]`, with undirected edges in both
directions. Operators change the edge of a pair of variables (x, y). Lists are scratch arrays with a separate length,
because allocating arrays for each pair would be slow.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..graphs.kernels import successor_lists
from .families import UNKNOWN, find

Ints = NDArray[np.int64]

NO_VARIABLE = np.int64(-1)
"""means that there is no variable; constants with a type, because numba compiles functions again for literals"""
YES, NO = np.bool_(True), np.bool_(False)
NO_GAIN = -np.inf
"""the gain if there is no valid operator"""
MAX_CLIQUES = 256
"""maximum number of cliques that are examined for a pair; there are more only in graphs far too dense for their data"""


class Space(NamedTuple):
    """Scratch lists for the operators on pairs (x, y) with the same y, and the successors in a graph."""

    near: Ints
    """the neighbours of y"""
    parents: Ints
    """the parents of y"""
    candidates: Ints
    """neighbours that a clique may include"""
    clique: Ints
    places: Ints
    """the position of each included member in the candidates"""
    best: Ints
    """the best clique so far"""
    family: Ints
    without: NDArray[np.float64]
    """`[d + 1]`: entry v is the score of y given its parents and its neighbour v, entry d its score given its parents
    alone; NaN if not looked up for this y"""
    first: Ints
    """the offset of the successors of each variable, `[d + 1]`"""
    successors: Ints
    """for each variable v, the variables w with v → w or v — w"""


@njit(cache=True)
def workspace(d):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Scratch lists for d variables, without successors, for calls that do not check paths."""
    return _space(d, np.zeros(d + 1, np.int64), np.empty(0, np.int64))


@njit(cache=True)
def _space(d, first, successors):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return Space(
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d + 1, np.int64),
        np.full(d + 1, np.nan),
        first,
        successors,
    )


@njit(cache=True)
def workspace_with_successors(graph):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Scratch lists, and the successors in `graph` `[d, d]`."""
    first, successors = successor_lists(graph)
    return _space(len(graph), first, successors)


@njit(cache=True)
def turn_to(graph, y, space):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The neighbours and the parents of y, both in ascending order; discards the scores in `space.without`."""
    n_near, n_parents = neighbours_and_parents(graph, y, space.near, space.parents)
    space.without[:] = np.nan
    return space.near[:n_near], space.parents[:n_parents]


@njit(cache=True)
def neighbours_and_parents(graph, y, near, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the neighbours and the parents of y to `near` and `parents`, in ascending order; return both counts."""
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
def start_clique(graph, x, near, with_adjacent, with_others, clique, candidates):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the first clique among `near`, the neighbours of y, to `clique`, and its extensions to `candidates`.

    Returns the size of the clique, and the number of candidates; x is in neither. With `with_adjacent`, every clique
    includes all neighbours adjacent to x, and the size is -1 if these are no clique. Without it, neighbours adjacent to
    x are candidates. Neighbours not adjacent to x are candidates with `with_others`, and excluded without it.
    """
    size = n = 0
    for v in near:
        if v == x:
            continue
        adjacent = graph[v, x] or graph[x, v]
        if adjacent and with_adjacent:
            if not joins(graph, v, clique[:size]):
                return -1, 0
            clique[size] = v
            size += 1
        elif adjacent or with_others:
            candidates[n] = v
            n += 1
    return size, n


@njit(cache=True)
def next_clique(graph, candidates, clique, places, base, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Replace `clique[:size]` by the next clique, depth first; return its size, or -1 after the last clique.

    Every clique has the same first `base` members, and some of the `candidates`.
    """
    following = places[size - 1] + 1 if size > base else 0
    while True:
        while following < len(candidates) and not joins(graph, candidates[following], clique[:size]):
            following += 1
        if following < len(candidates):
            clique[size], places[size] = candidates[following], following
            return size + 1
        if size == base:
            return -1
        size -= 1
        following = places[size] + 1


@njit(cache=True)
def joins(graph, v, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether v is adjacent to every other member of `clique`."""
    for u in clique:  # noqa: SIM110 (compiled)
        if u == v or not (graph[v, u] or graph[u, v]):
            return False
    return True


@njit(cache=True)
def contains(variable, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether `variable` is one of `variables`."""
    for u in variables:  # noqa: SIM110 (compiled)
        if u == variable:
            return True
    return False


@njit(cache=True)
def copy_into(variables, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write `variables` to the beginning of `target`, in a loop: numba takes seconds to compile `target[:n] = ...`."""
    for i in range(len(variables)):
        target[i] = variables[i]


@njit(cache=True)
def open_path(graph, y, x, blocked, also_blocked, direct, space):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether a path y ⋯→ x along arrows and undirected edges avoids the variables in `blocked` and `also_blocked`.

    With `direct`, the edge between y and x itself counts as a path. `space` has the successors of the graph.
    """
    d = len(graph)
    visited = np.zeros(d, np.bool_)
    for v in blocked:
        visited[v] = True
    for v in also_blocked:
        visited[v] = True
    stack = np.empty(d, np.int64)
    visited[y], stack[0], n = True, y, 1
    while n > 0:
        n -= 1
        u = stack[n]
        if graph[u, x] and (direct or u != y):
            return True
        for v in space.successors[space.first[u] : space.first[u + 1]]:
            if not visited[v] and v != x:
                visited[v] = True
                stack[n] = v
                n += 1
    return False


@njit(cache=True)
def score_with(child, parents, excluded, clique, extra, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The score of `child` given `clique`, `extra`, and the `parents` other than `excluded`; NaN if it is unknown.

    `parents` are in ascending order. `excluded` and `extra` can be -1, which means no variable.
    """
    family[0] = child
    size = np.int64(1)
    for v in parents:
        if v != excluded:
            family[size] = v
            size += 1
    for v in clique:
        size = _insert_sorted(family, size, v)
    if extra >= 0:
        size = _insert_sorted(family, size, extra)
    number = find(family, size, tables)
    return np.nan if number == UNKNOWN else tables[3][number]


@njit(cache=True)
def _insert_sorted(family, size, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = size
    while at > 1 and family[at - 1] > v:
        family[at] = family[at - 1]
        at -= 1
    family[at] = v
    return size + 1
