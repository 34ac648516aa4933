"""The DAG that gets parameters: a learned DAG itself, or a member of the class of a CPDAG."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..graphs.cpdag import cpdag, extend
from ..graphs.dag import is_acyclic
from ..graphs.structure import Structure


@dataclass(frozen=True)
class Extension:
    """A DAG `[n_variables, n_variables]` and, in words, how it was chosen; or no DAG, and why."""

    dag: NDArray[np.bool_] | None
    how: str = ""


def extension(structure: Structure) -> Extension:
    """Return the DAG whose parameters are those of `structure`.

    For a CPDAG this is a member of its class (Dor & Tarsi 1992); all members have the same likelihood. A graph learned
    from data may look like a CPDAG without being that of any DAG; then `nearest_dag` is taken.
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
        alike = ": all of them fit the data equally well" * (not structure.lags)
        return Extension(dag, f"of a DAG of the CPDAG's class{alike}")
    dag = nearest_dag(structure.adjacency)
    differ = cpdag(dag) != structure.adjacency
    changed = int(np.triu(differ | differ.T).sum())
    return Extension(
        dag,
        f"the CPDAG is that of no DAG: the model is that of one with the same skeleton, in whose CPDAG {changed} "
        f"edge{'s differ' if changed != 1 else ' differs'}",
    )


def nearest_dag(pdag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a DAG with the skeleton of `pdag`: by Dor & Tarsi's method, with the best sink where none is valid.

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
