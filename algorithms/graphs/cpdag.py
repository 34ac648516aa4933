"""Completed partially directed graphs (CPDAGs): Meek's rules, the CPDAG of a DAG, and DAGs in the class of a CPDAG.

`dag_extension` chooses the DAG for which the parameters of a learned structure are estimated.

A partially directed graph is a boolean adjacency `[n_variables, n_variables]`: `[i, j]` alone is i → j, `[i, j]` and
`[j, i]` are i — j. `kernels.py` has the compiled functions.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dag import is_acyclic
from .kernels import ALL_RULES, class_of_dag, closure, extension
from .structure import Structure

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


@dataclass(frozen=True)
class Extension:
    """A DAG `[n_variables, n_variables]` and a text on how it was chosen; or no DAG, and the reason."""

    dag: NDArray[np.bool_] | None
    how: str = ""


def dag_extension(structure: Structure) -> Extension:
    """The DAG for which the parameters of `structure` are estimated.

    For a CPDAG this is a member of its class (Dor & Tarsi 1992). All members have the same likelihood, unless there are
    lags. A graph learned from data may have the form of a CPDAG without being the class of a DAG. Then the DAG is that
    of `nearest_dag`.
    """
    if structure.kind == "pag":
        return Extension(None, "a PAG leaves causes and confounding undecided: it is no Bayesian network")
    if structure.kind == "dag":
        cycle = structure.cycle
        if cycle:
            return Extension(None, f"a cycle is left: {' → '.join([*cycle, cycle[0]])}")
        return Extension(structure.adjacency)
    dag = extend(structure.adjacency)
    if dag is not None:
        alike = " (all DAGs of the class fit the data equally well)" * (not structure.lags)
        return Extension(dag, f"for one DAG of the CPDAG's class{alike}")
    dag = nearest_dag(structure.adjacency)
    differ = cpdag(dag) != structure.adjacency
    changed = int(np.triu(differ | differ.T).sum())
    return Extension(
        dag,
        f"the CPDAG is that of no DAG: the model is that of one with the same skeleton, in whose CPDAG {changed} "
        f"edge{'s differ' if changed != 1 else ' differs'}",
    )


def nearest_dag(pdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A DAG with the skeleton of `pdag`, by Dor & Tarsi's method; if there is no valid sink, the best one is used.

    The best sink reverses the fewest arrows. Of several such sinks, it adds the fewest v-structures, and of several of
    these, it is the first.
    """
    rest, dag = pdag.copy(), np.zeros_like(pdag)
    cost = {v: _sink_cost(rest, v) for v in range(len(pdag))}
    while cost:
        sink = min(cost, key=cost.__getitem__)
        neighbours = rest[:, sink] | rest[sink]
        dag[neighbours, sink] = True
        rest[sink] = rest[:, sink] = False
        del cost[sink]
        cost |= {int(v): _sink_cost(rest, int(v)) for v in np.flatnonzero(neighbours)}
    assert is_acyclic(dag)
    return dag


def _sink_cost(pdag: NDArray[np.bool_], v: int) -> tuple[int, int]:
    """The numbers of reversed arrows out of v and of new v-structures if v becomes a sink."""
    out, undirected = pdag[v] & ~pdag[:, v], pdag[v] & pdag[:, v]
    neighbours = np.flatnonzero(pdag[v] | pdag[:, v])
    joined = pdag | pdag.T
    not_adjacent = ~joined[np.ix_(neighbours, neighbours)]
    new_parents = np.asarray((undirected | out)[neighbours])
    # a neighbour is not adjacent to itself
    new = (not_adjacent & (new_parents[:, None] | new_parents[None, :])).sum() - new_parents.sum()
    return int(out.sum()), int(new) // 2
