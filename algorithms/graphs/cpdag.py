"""Completed partially directed graphs (CPDAG): Meek's rules, the CPDAG of a DAG, and a DAG out of a CPDAG.

A partially directed graph is a boolean adjacency `[n_variables, n_variables]`: `[i, j]` alone is i → j, `[i, j]` and
`[j, i]` are i — j. Sources: Meek 1995, "Causal inference and causal explanation with background knowledge"; Dor & Tarsi
1992, "A simple algorithm to construct a consistent extension of a partially oriented graph".

Background knowledge imposed on a graph: what any learner finds, made to agree with what is known beforehand.

Learners that know of it while they search find better graphs; this makes sure of the rest: votes, fusions, and
directions that a class left open (Meek 1995: background knowledge, and then rules R1 to R4).

Causal feature selection: the variables that make all others irrelevant for predicting a target.

Source: Wang, Ma & Wang 2023, §7.5.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .dag import directed_part, edges_on_cycles, is_acyclic, skeleton, v_structures
from .pag import ARROW, TAIL
from .structure import GraphKind, Structure

Rule = Callable[[NDArray[np.bool_], int, int], bool]
"""(partially directed graph, i, j), where i — j -> whether the rule orients it i → j"""


def rule_1(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Whether k → i — j with k, j not adjacent, for some k: j → i would be a new v-structure (Meek R1)."""
    into_i = pdag[:, i] & ~pdag[i]
    return bool((into_i & ~pdag[:, j] & ~pdag[j]).any())


def rule_2(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Whether i → k → j for some k: j → i would close a cycle (Meek R2)."""
    out_of_i = pdag[i] & ~pdag[:, i]
    return bool((out_of_i & pdag[:, j] & ~pdag[j]).any())


def rule_3(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Whether i — k → j and i — l → j with k, l not adjacent: j → i would force the v-structure k → i ← l (R3)."""
    between = np.flatnonzero(pdag[i] & pdag[:, i] & pdag[:, j] & ~pdag[j])
    if len(between) < 2:
        return False
    among = pdag[np.ix_(between, between)]
    return bool((~(among | among.T) & ~np.eye(len(between), dtype=np.bool_)).any())


def rule_4(pdag: NDArray[np.bool_], i: int, j: int) -> bool:
    """Whether i — k → l → j with i, l adjacent and k, j not (Meek R4; it fires only with background knowledge)."""
    ks = np.flatnonzero(pdag[i] & pdag[:, i] & ~pdag[:, j] & ~pdag[j])
    ls = np.flatnonzero((pdag[i] | pdag[:, i]) & pdag[:, j] & ~pdag[j])
    return bool((pdag[np.ix_(ks, ls)] & ~pdag[np.ix_(ls, ks)].T).any())


RULES: tuple[Rule, ...] = (rule_1, rule_2, rule_3, rule_4)


def meek_closure(pdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`pdag` with every undirected edge oriented that Meek's rules R1-R4 orient.

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
    """The undirected edges (a, b), a < b, to which a rule may newly apply now that i → j.

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
    """The CPDAG of a DAG: an edge is directed if it has the same direction in all Markov-equivalent DAGs.

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
    """A DAG with the skeleton, the directed edges and the v-structures of `pdag`, or None if there is none.

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
    """Whether no edge leaves v, and every undirected neighbour of v is adjacent to all other neighbours of v."""
    if (pdag[v] & ~pdag[:, v]).any():
        return False
    undirected = np.flatnonzero(pdag[v])
    apart = pdag[:, v] & ~(pdag[undirected] | pdag[:, undirected].T)
    return int(apart.sum()) == len(undirected)  # a neighbour is not adjacent to itself, but must be to all others


Bools = NDArray[np.bool_]


def impose_knowledge(structure: Structure, needed: Bools, possible: Bools) -> Structure:
    """`structure` with all arcs that are `needed` and none that are not `possible`, both `[d, d]`.

    A needed arc that was not learned has the weight 1. Where needed arcs close a cycle of a DAG, the weakest other edge
    of it goes. Lagged edges stay as they are.
    """
    if not needed.any() and possible[~np.eye(len(possible), dtype=np.bool_)].all():
        return structure
    if structure.kind == "pag":
        return replace(structure, weights=_pag(structure.weights, needed, possible))
    if structure.kind == "cpdag":
        return replace(structure, weights=pdag_with_knowledge(structure.adjacency, needed, possible).astype(np.float64))
    return replace(structure, weights=_dag(structure.weights, needed, possible))


def known_truth(truth: Structure, kind: GraphKind, needed: Bools, possible: Bools) -> Structure:
    """Return what a structure of this `kind`, learned with what is known, is compared with.

    A class learned with background knowledge has directions that the CPDAG of the `truth` leaves open. So a DAG is
    replaced by its CPDAG with the directions that follow, if what is known is true of it; all else stays as it is.
    """
    edges = truth.adjacency
    agrees = not (needed & ~edges).any() and not (edges & ~possible).any()
    if kind != "cpdag" or truth.kind != "dag" or not truth.acyclic or truth.lagged is not None or not agrees:
        return truth
    directed = pdag_with_knowledge(cpdag(edges), needed, possible)
    return replace(truth, weights=np.where(directed, truth.weights + truth.weights.T, 0.0), kind="cpdag")


def _dag(weights: NDArray[np.float64], needed: Bools, possible: Bools) -> NDArray[np.float64]:
    found = np.where(needed & (weights == 0), 1.0, np.where(possible | needed, weights, 0.0))
    if not needed.any():
        return found
    while (on_cycle := edges_on_cycles(found != 0) & ~needed).any() and (found[on_cycle] != 0).any():
        strengths = np.where(on_cycle, np.abs(found), np.inf)
        found[np.unravel_index(int(np.argmin(strengths)), found.shape)] = 0.0
    return found


def pdag_with_knowledge(pdag: Bools, needed: Bools, possible: Bools) -> Bools:
    """A partially directed graph with all arcs `needed` and none that are not `possible`, and Meek's closure.

    A graph that has all of that and none of those already stays as it is.
    """
    directed = pdag & ~pdag.T
    turned = directed & ~possible & possible.T
    kept = ((pdag & possible) | turned.T | needed) & ~needed.T
    if np.array_equal(kept, pdag):
        return pdag
    return meek_closure(kept)


def _pag(marks: NDArray[np.float64], needed: Bools, possible: Bools) -> NDArray[np.float64]:
    found = marks.copy()
    joined = (found != 0) & (possible | possible.T | needed | needed.T)
    found[~joined] = 0.0
    for i, j in np.argwhere(needed):
        found[i, j], found[j, i] = ARROW, TAIL
    for i, j in np.argwhere((found != 0) & ~possible & ~needed & ~needed.T & possible.T):
        # i is no cause of j: the edge has an arrow at i.
        found[j, i] = ARROW
    return found


@dataclass(frozen=True)
class MarkovBlanket:
    """The Markov blanket of a variable, by names; in a CPDAG a neighbour may be parent or child."""

    parents: tuple[str, ...]
    children: tuple[str, ...]
    neighbours: tuple[str, ...]
    spouses: tuple[str, ...]
    """other parents of the children"""

    @property
    def all(self) -> tuple[str, ...]:
        """Every variable of the blanket once, sorted by name."""
        return tuple(sorted({*self.parents, *self.children, *self.neighbours, *self.spouses}))


def markov_blanket(structure: Structure, target: str) -> MarkovBlanket:
    """Parents, children, undirected neighbours and spouses of `target` in a DAG or a CPDAG.

    All DAGs of a CPDAG's class have this blanket: parents that share a child are joined, or form a v-structure, which
    the CPDAG directs. Raises BadInput if there is no such variable, or for a PAG.
    """
    if target not in structure.variables:
        raise BadInput(f"target is '{target}': the variables are {', '.join(structure.variables)}")
    if structure.kind == "pag":
        raise BadInput("a PAG tells no parents from spouses: choose features by a DAG or a CPDAG")
    t = structure.variables.index(target)
    edges = structure.adjacency
    directed = directed_part(edges)
    children = directed[t]
    spouses = directed[:, children].any(axis=1) & ~edges[t] & ~edges[:, t]
    spouses[t] = False

    def names(chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(structure.variables[v] for v in np.flatnonzero(chosen))

    return MarkovBlanket(names(directed[:, t]), names(children), names(edges[t] & edges[:, t]), names(spouses))
