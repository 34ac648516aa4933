"""One DAG to hang parameters on: a learned DAG itself, or a DAG of the class that a CPDAG stands for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..graphs.cpdag import cpdag, extend
from ..graphs.dag import is_acyclic
from ..graphs.structure import Structure


@dataclass(frozen=True)
class Extension:
    """A DAG `[n_variables, n_variables]`, and in words how it was chosen; no DAG, and why there is none."""

    dag: NDArray[np.bool_] | None
    how: str = ""


def extension(structure: Structure) -> Extension:
    """Return the DAG whose parameters are those of `structure`.

    Of a CPDAG one of its class (Dor & Tarsi 1992): all of them have the same likelihood. What was learned from data may
    look like a CPDAG and be that of no DAG; then one of the same skeleton that keeps as much as can be kept in passing.
    """
    if structure.kind == "pag":
        return Extension(None, "a PAG leaves open what causes what and what is confounded: it is no Bayesian network")
    if structure.kind == "dag":
        cycle = structure.cycle
        if cycle:
            return Extension(None, f"a cycle is left: {' → '.join([*cycle, cycle[0]])}")
        return Extension(structure.adjacency)
    dag = extend(structure.adjacency)
    if dag is not None:
        return Extension(dag, "of a DAG of the CPDAG's class: all of them fit the data equally well")
    dag = nearest_dag(structure.adjacency)
    differ = cpdag(dag) != structure.adjacency
    changed = int(np.triu(differ | differ.T).sum())
    return Extension(
        dag,
        f"the CPDAG is that of no DAG: the model is that of one with the same skeleton, in whose CPDAG {changed} "
        f"edge{'s differ' if changed != 1 else ' differs'}",
    )


def nearest_dag(pdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a DAG with the skeleton of `pdag`: as Dor & Tarsi, but where no variable can be a sink, the best one is.

    The best turns the fewest arrows and then adds the fewest v-structures; the first among equals.
    """
    rest, dag = pdag.copy(), np.zeros_like(pdag)
    price = {v: _as_sink(rest, v) for v in range(len(pdag))}
    while price:
        sink = min(price, key=price.__getitem__)
        neighbours = rest[:, sink] | rest[sink]
        dag[neighbours, sink] = True
        rest[sink] = rest[:, sink] = False
        del price[sink]
        price |= {int(v): _as_sink(rest, int(v)) for v in np.flatnonzero(neighbours)}
    assert is_acyclic(dag)
    return dag


def _as_sink(pdag: NDArray[np.bool_], v: int) -> tuple[int, int]:
    """Return how many arrows out of v would be turned, and how many new v-structures there would be, were v a sink."""
    out, undirected = pdag[v] & ~pdag[:, v], pdag[v] & pdag[:, v]
    neighbours = np.flatnonzero(pdag[v] | pdag[:, v])
    joined = pdag | pdag.T
    apart = ~joined[np.ix_(neighbours, neighbours)]
    turned = np.asarray((undirected | out)[neighbours])
    new = (apart & (turned[:, None] | turned[None, :])).sum() - turned.sum()  # a neighbour is apart from itself
    return int(out.sum()), int(new) // 2
