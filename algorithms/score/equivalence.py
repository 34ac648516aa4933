"""The compiled steps of each move of an equivalence search, from PDAG to DAG and from DAG to CPDAG; messages of arcs.

The steps do the same as `extend` and `cpdag` of `graphs/cpdag.py`. They are compiled, because a search runs them
thousands of times. Graphs are boolean `[n_variables, n_variables]`; a partially directed graph (PDAG) has undirected
edges in both directions. In messages, a DAG is the list of its arcs (`Arcs`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.compiled import njit
from ..graphs.cpdag import pdag_with_knowledge
from ..graphs.dag import is_acyclic

_UNSET, _REVERSIBLE, _COMPELLED = 0, 1, 2


NO_PAIRS: NDArray[np.bool_] = np.empty((0, 0), np.bool_)


def class_of(dag: NDArray[np.bool_], separated: NDArray[np.bool_] = NO_PAIRS) -> NDArray[np.bool_]:
    """The CPDAG of `dag`; raises ValueError if `dag` has a directed cycle.

    `separated` `[d, d]` has the pairs of which an experiment targets exactly one variable (`Prior.separated`). With it,
    the result is the interventional essential graph: edges of these pairs have the direction of `dag`, and Meek's rules
    give the directions that follow (Hauser, Bühlmann 2012, Theorem 18; Meek 1995, Theorem 4).
    """
    if not is_acyclic(dag):
        raise ValueError("a graph with a directed cycle has no CPDAG")
    found = np.asarray(cpdag_of(dag))
    return pdag_with_knowledge(found, dag & separated, ~np.eye(len(dag), dtype=np.bool_)) if len(separated) else found


def member_of(cpdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A DAG of the class `cpdag`; raises ValueError if the class is empty."""
    dag, complete = extension(cpdag)
    if not complete:
        raise ValueError("the partially directed graph has no consistent extension")
    return np.asarray(dag)


@njit(cache=True)
def extension(pdag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """A DAG with the skeleton, arrows and v-structures of `pdag`, and whether such a DAG exists (Dor & Tarsi 1992).

    The search for sinks begins at the last variable. Only neighbours of a removed sink are examined again.
    """
    d = len(pdag)
    rest, dag = pdag.copy(), pdag & ~pdag.T
    queue, is_waiting, n_left = np.arange(d), np.ones(d, np.bool_), d
    stack = d
    while stack > 0:
        stack -= 1
        sink = queue[stack]
        is_waiting[sink] = False
        if not _can_be_sink(rest, sink):
            continue
        n_left -= 1
        for v in range(d):
            if rest[v, sink]:
                dag[v, sink] = True
                rest[v, sink] = rest[sink, v] = False
                if not is_waiting[v]:
                    is_waiting[v] = True
                    queue[stack] = v
                    stack += 1
        rest[sink, sink] = True
    return dag, n_left == 0


@njit(cache=True)
def _can_be_sink(pdag, sink):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if pdag[sink, sink]:
        return False
    d = len(pdag)
    for v in range(d):
        if pdag[sink, v] and not pdag[v, sink]:
            return False
    for v in range(d):
        if pdag[sink, v]:
            for w in range(d):
                if pdag[w, sink] and w != v and not pdag[v, w] and not pdag[w, v]:
                    return False
    return True


@njit(cache=True)
def cpdag_of(dag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The CPDAG of an acyclic `dag` by ordering and labelling its edges (Chickering 1995, Figures 5 and 6)."""
    d = len(dag)
    order, parents, n_parents = _topological_order(dag)
    label = np.zeros((d, d), np.int8)
    for y in order:
        for at in range(n_parents[y]):
            if label[parents[y, at], y] == _UNSET:
                _label(label, dag, parents[y, at], y, parents, n_parents)
    cpdag = dag.copy()
    for x in range(d):
        for y in range(d):
            if label[x, y] == _REVERSIBLE:
                cpdag[y, x] = True
    return cpdag


@njit(cache=True)
def _topological_order(dag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """A topological order, each variable's parents in reverse order, and the number of parents of each variable."""
    d = len(dag)
    order, placed = np.empty(d, np.int64), 0
    n_parents = np.zeros(d, np.int64)
    for x in range(d):
        for y in range(d):
            n_parents[y] += dag[x, y]
    open_parents = n_parents.copy()
    for v in range(d):
        if open_parents[v] == 0:
            order[placed] = v
            placed += 1
    at = 0
    while at < placed:
        for y in range(d):
            if dag[order[at], y]:
                open_parents[y] -= 1
                if open_parents[y] == 0:
                    order[placed] = y
                    placed += 1
        at += 1
    most = 0
    for y in range(d):
        most = max(most, n_parents[y])
    parents = np.empty((d, most), np.int64)
    filled = np.zeros(d, np.int64)
    for place in range(d - 1, -1, -1):
        x = order[place]
        for y in range(d):
            if dag[x, y]:
                parents[y, filled[y]] = x
                filled[y] += 1
    return order, parents, n_parents


@njit(cache=True)
def _label(label, dag, x, y, parents, n_parents):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Label x → y, the lowest edge without a label, and the other edges into y whose label it determines."""
    into_y = parents[y, : n_parents[y]]
    for w in parents[x, : n_parents[x]]:
        if label[w, x] == _COMPELLED:
            if not dag[w, y]:
                for z in into_y:
                    label[z, y] = _COMPELLED
                return
            label[w, y] = _COMPELLED
    kind = _REVERSIBLE
    for z in into_y:
        if z != x and not dag[z, x]:
            kind = _COMPELLED
    for z in into_y:
        if label[z, y] == _UNSET:
            label[z, y] = kind


@dataclass(frozen=True)
class Arcs:
    """The arcs of a DAG, `[n_arcs, 2]`, each from the first to the second variable of its pair."""

    arcs: NDArray[np.uint16]


def arcs_of(dag: NDArray[np.bool_]) -> Arcs:
    """The arcs of `dag` `[n_variables, n_variables]` in ascending order."""
    return Arcs(np.argwhere(dag).astype(np.uint16))


def dag_of(message: Arcs, d: int) -> NDArray[np.bool_]:
    """The adjacency `[d, d]` of the arcs in `message`."""
    dag = np.zeros((d, d), np.bool_)
    dag[message.arcs[:, 0], message.arcs[:, 1]] = True
    return dag


def dags_of(messages: Sequence[Arcs], d: int) -> NDArray[np.bool_]:
    """The adjacencies of several messages, `[k, d, d]`."""
    return np.stack([dag_of(message, d) for message in messages])
