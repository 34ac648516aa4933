"""The DAG for which parameters are estimated: a learned DAG itself, or a member of a CPDAG's class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cpdag import cpdag, extend
from .dag import is_acyclic
from .structure import Structure


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
