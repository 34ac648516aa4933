"""Completed partially directed graphs (CPDAGs): Meek's rules, the CPDAG of a DAG, and DAGs in the class of a CPDAG.

A partially directed graph is a boolean adjacency `[n_variables, n_variables]`: `[i, j]` alone is i → j, `[i, j]` and
`[j, i]` are i — j. `kernels.py` has the compiled functions.
"""

import numpy as np
from numpy.typing import NDArray

from .dag import is_acyclic
from .kernels import ALL_RULES, class_of_dag, closure, extension

Bools = NDArray[np.bool_]
NO_PAIRS: Bools = np.empty((0, 0), np.bool_)


def meek_closure(pdag: Bools, rules: Bools = ALL_RULES) -> Bools:
    """`pdag` closed under Meek's rules R1-R4, or those in `rules` `[4]`: none applies to an edge left undirected.

    If some DAG satisfies the directed edges (v-structures and background knowledge), each edge left undirected can have
    either direction (Meek 1995, Theorem 4), and the order of the rules does not matter. If no DAG satisfies them, as
    can happen with a learned graph, the result depends on the order, which is deterministic.
    """
    return np.asarray(closure(np.ascontiguousarray(pdag), rules))


def cpdag(dag: Bools, separated: Bools = NO_PAIRS) -> Bools:
    """The CPDAG of a DAG: an edge is directed if it has the same direction in all Markov-equivalent DAGs.

    `separated` `[d, d]` has the pairs of which an experiment targets exactly one variable (`Prior.separated`). With it,
    the result is the interventional essential graph: edges of these pairs have the direction of `dag`, and Meek's rules
    give the directions that follow (Hauser, Bühlmann 2012, Theorem 18; Meek 1995, Theorem 4). Raises `ValueError` if
    `dag` has a directed cycle.
    """
    if not is_acyclic(dag):
        raise ValueError("a graph with a directed cycle has no CPDAG")
    found = np.asarray(class_of_dag(np.ascontiguousarray(dag)))
    return pdag_with_knowledge(found, dag & separated, ~np.eye(len(dag), dtype=np.bool_)) if len(separated) else found


def extend(pdag: Bools) -> Bools | None:
    """A DAG with the skeleton, the directed edges and the v-structures of `pdag`, or None if there is none.

    Source: Dor & Tarsi 1992.
    """
    dag, complete = extension(np.ascontiguousarray(pdag), False)
    return np.asarray(dag) if complete else None


def member_of(pdag: Bools) -> Bools:
    """The DAG of the class `pdag` that searches score; raises ValueError if the class is empty.

    `extend` often finds another member.
    """
    dag, complete = extension(np.ascontiguousarray(pdag), True)
    if not complete:
        raise ValueError("the partially directed graph has no consistent extension")
    return np.asarray(dag)


def pdag_with_knowledge(pdag: Bools, required: Bools, possible: Bools) -> Bools:
    """The Meek closure of `pdag` with all `required` arcs and no arcs that are not `possible`.

    A graph that already has the required arcs and no impossible ones is returned unchanged.
    """
    directed = pdag & ~pdag.T
    reversible = directed & ~possible & possible.T
    constrained = ((pdag & possible) | reversible.T | required) & ~required.T
    if np.array_equal(constrained, pdag):
        return pdag
    return meek_closure(constrained)
