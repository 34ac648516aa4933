"""What the operators of an equivalence search are made of: neighbours, cliques among them, paths, families.

Compiled throughout. A graph is a CPDAG, boolean `[n_variables, n_variables]`, an undirected edge standing in both
directions. Lists are arrays with a length of their own, so that nothing is allocated for a pair of variables.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .families import UNKNOWN, find

Ints = NDArray[np.int64]

NOBODY = np.int64(-1)
"""no variable; a plain −1, or a plain True below, would have code compiled for itself alone"""
YES, NO = np.bool_(True), np.bool_(False)
NONE = -np.inf
"""the gain where there is no valid operator"""
MOST_CLIQUES = 256
"""how many cliques of one pair are looked at, at most: only graphs far too dense for their data have more"""


class Space(NamedTuple):
    """Scratch lists of variables."""

    near: Ints
    """the neighbours of y"""
    parents: Ints
    """the parents of y"""
    candidates: Ints
    """neighbours that a clique may take in"""
    clique: Ints
    places: Ints
    """where in the candidates each member taken in stands"""
    best: Ints
    """the best clique so far"""
    family: Ints


@njit(cache=True)
def workspace(d):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Scratch lists for d variables."""
    return Space(
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d, np.int64),
        np.empty(d + 1, np.int64),
    )


@njit(cache=True)
def neighbours_and_parents(graph, y, near, parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """List Ne(y) and Pa(y) in ascending order; return how many there are of each."""
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
    """Set up the cliques among `near`, the neighbours of y, but x: return the size of the first one and the candidates.

    `with_adjacent`: those adjacent to x are all in every clique (size -1 if they are none themselves), else they are
    candidates. `with_others`: those that are not adjacent to x are candidates, else they are left out.
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
    """Turn `clique[:size]` into the next clique of its first `base` members and some `candidates`, depth first.

    Returns the size of the next one, -1 after the last.
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
def among(v, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether v is one of `variables`."""
    for u in variables:  # noqa: SIM110 (compiled)
        if u == v:
            return True
    return False


@njit(cache=True)
def keep(variables, into):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write `variables` to the beginning of `into` (an assignment of slices takes seconds to compile)."""
    for i in range(len(variables)):
        into[i] = variables[i]


@njit(cache=True)
def open_path(graph, y, x, blocked, also_blocked, direct):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether a path y ⋯→ x along arrows and undirected edges avoids both lists; the edge itself if `direct`."""
    d = len(graph)
    seen = np.zeros(d, np.bool_)
    for v in blocked:
        seen[v] = True
    for v in also_blocked:
        seen[v] = True
    waiting = np.empty(d, np.int64)
    seen[y], waiting[0], n = True, y, 1
    while n > 0:
        n -= 1
        u = waiting[n]
        if graph[u, x] and (direct or u != y):
            return True
        for v in range(d):
            if graph[u, v] and not seen[v] and v != x:
                seen[v] = True
                waiting[n] = v
                n += 1
    return False


@njit(cache=True)
def score_with(child, parents, but, clique, extra, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Score `child` given `parents` (ascending, less `but`), `clique`, `extra` (-1: none); NaN if unknown."""
    family[0] = child
    size = np.int64(1)
    for v in parents:
        if v != but:
            family[size] = v
            size += 1
    for v in clique:
        size = _put(family, size, v)
    if extra >= 0:
        size = _put(family, size, extra)
    number = find(family, size, tables)
    return np.nan if number == UNKNOWN else tables[3][number]


@njit(cache=True)
def _put(family, size, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = size
    while at > 1 and family[at - 1] > v:
        family[at] = family[at - 1]
        at -= 1
    family[at] = v
    return size + 1
