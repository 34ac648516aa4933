"""Completed partially directed graphs (CPDAG): Meek's rules, the CPDAG of a DAG, and a DAG out of a CPDAG.

A partially directed graph is a boolean adjacency `[n_variables, n_variables]`: `[i, j]` alone is i → j, `[i, j]` and
`[j, i]` are i — j. Sources: Meek 1995, "Causal inference and causal explanation with background knowledge"; Dor & Tarsi
1992, "A simple algorithm to construct a consistent extension of a partially oriented graph".
"""

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .dag import is_acyclic
from .skeleton import directed_part, skeleton, v_structures

Rule = Callable[[NDArray[np.bool_], int, int], bool]
"""(partially directed graph, i, j), where i — j -> whether the rule orients it i → j"""


def rule_1(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Say whether k → i — j with k, j not adjacent, for some k: j → i would be a new v-structure (Meek R1)."""
    into_i = pdag[:, i] & ~pdag[i]
    return bool((into_i & ~pdag[:, j] & ~pdag[j]).any())


def rule_2(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Say whether i → k → j for some k: j → i would close a cycle (Meek R2)."""
    out_of_i = pdag[i] & ~pdag[:, i]
    return bool((out_of_i & pdag[:, j] & ~pdag[j]).any())


def rule_3(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Say whether i — k → j and i — l → j with k, l not adjacent: j → i would force the v-structure k → i ← l (R3)."""
    between = np.flatnonzero(pdag[i] & pdag[:, i] & pdag[:, j] & ~pdag[j])
    if len(between) < 2:
        return False
    among = pdag[np.ix_(between, between)]
    return bool((~(among | among.T) & ~np.eye(len(between), dtype=np.bool_)).any())


def rule_4(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Say whether i — k → l → j with i, l adjacent and k, j not (Meek R4; it fires only with background knowledge)."""
    ks = np.flatnonzero(pdag[i] & pdag[:, i] & ~pdag[:, j] & ~pdag[j])
    ls = np.flatnonzero((pdag[i] | pdag[:, i]) & pdag[:, j] & ~pdag[j])
    return bool((pdag[np.ix_(ks, ls)] & ~pdag[np.ix_(ls, ks)].T).any())


RULES: tuple[Rule, ...] = (rule_1, rule_2, rule_3, rule_4)


def meek_closure(pdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return `pdag` with every undirected edge oriented that Meek's rules R1-R4 orient.

    If the directed edges are v-structures and background knowledge that some DAG satisfies, what stays undirected can
    go either way (Meek 1995, Theorem 4), and the order of work does not matter. If no DAG satisfies them, as can happen
    with a learned graph, the result depends on the order, which is fixed: same graph in, same graph out.
    """
    closed = pdag.copy()
    undirected = np.argwhere(np.triu(closed & closed.T))
    waiting: dict[tuple[int, int], None] = {(int(i), int(j)): None for i, j in undirected}
    while waiting:
        (first, second), _ = waiting.popitem()
        for i, j in ((first, second), (second, first)):
            if any(rule(closed, i, j) for rule in RULES):
                closed[j, i] = False
                waiting.update(dict.fromkeys(_affected(closed, i, j)))
                break
    return closed


def _affected(pdag: NDArray[np.bool_], i: int, j: int) -> list[tuple[int, int]]:
    """Return the undirected edges (a, b), a < b, to which a rule may newly apply now that i → j.

    The new arrow can complete the premise of R1 (as k → i), or the last arrow in that of R2-R4, for undirected edges at
    j; as the first arrow of R2 or R4 it can do so for those between a child of j and i or a neighbour of i.
    """
    edges = [(j, int(b)) for b in np.flatnonzero(pdag[j] & pdag[:, j])]
    children = np.flatnonzero(pdag[j] & ~pdag[:, j])
    starts = np.append(np.flatnonzero(pdag[i] & pdag[:, i]), i)
    undirected = pdag[np.ix_(starts, children)] & pdag[np.ix_(children, starts)].T
    edges += [(int(starts[a]), int(children[b])) for a, b in np.argwhere(undirected)]
    return [(min(edge), max(edge)) for edge in edges]


def cpdag(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the CPDAG of a DAG: an edge is directed if it has the same direction in all Markov-equivalent DAGs.

    The skeleton with the v-structures oriented, closed under Meek's rules (Meek 1995, Theorem 3). Raises ValueError if
    `adjacency` has a directed cycle.
    """
    if not is_acyclic(adjacency):
        raise ValueError("a graph with a directed cycle has no CPDAG")
    pattern = skeleton(adjacency)
    for i, k, j in v_structures(adjacency):
        pattern[k, i] = pattern[k, j] = False
    return meek_closure(pattern)


def extend(pdag: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Return a DAG with the skeleton, the directed edges and the v-structures of `pdag`, or None if there is none.

    Dor & Tarsi 1992: take a variable that can be a sink, point its undirected edges at it, take it out, and go on. Only
    its neighbours can become sinks by that, so only they are looked at again.
    """
    rest = pdag.copy()
    dag = directed_part(pdag)
    left = np.ones(len(pdag), dtype=np.bool_)
    waiting = deque(range(len(pdag)))
    while waiting:
        sink = waiting.popleft()
        if not left[sink] or not _can_be_sink(rest, sink):
            continue
        neighbours = np.flatnonzero(rest[:, sink])
        dag[neighbours, sink] = True
        rest[sink] = rest[:, sink] = False
        left[sink] = False
        waiting.extend(int(v) for v in neighbours)
    return None if left.any() else dag


def _can_be_sink(pdag: NDArray[np.bool_], v: int) -> bool:
    """Say whether no edge leaves v, and every undirected neighbour of v is adjacent to all other neighbours of v."""
    if (pdag[v] & ~pdag[:, v]).any():
        return False
    undirected = np.flatnonzero(pdag[v])
    apart = pdag[:, v] & ~(pdag[undirected] | pdag[:, undirected].T)
    return int(apart.sum()) == len(undirected)  # a neighbour is not adjacent to itself, but must be to all others
