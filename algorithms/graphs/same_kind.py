"""Structures made comparable: a DAG replaced by the CPDAG or the PAG of its Markov equivalence class."""

import numpy as np
from numpy.typing import NDArray

from .cpdag import cpdag, extend
from .pag import pag_of
from .structure import Structure


def of_same_kind(one: Structure, other: Structure) -> tuple[Structure, Structure]:
    """Return both, each replaced by its CPDAG or PAG if the other is one; a graph that has none stays as it is."""
    if "pag" in (one.kind, other.kind):
        return as_pag(one) or one, as_pag(other) or other
    if one.kind == other.kind:
        return one, other
    return as_cpdag(one) or one, as_cpdag(other) or other


def as_cpdag(structure: Structure) -> Structure | None:
    """Return a CPDAG as it is and a DAG as its CPDAG, an edge with its weight; None for a "dag" with a cycle."""
    if structure.kind == "cpdag":
        return structure
    if not structure.acyclic:
        return None
    weights: NDArray[np.float64] = structure.weights + structure.weights.T
    return Structure(structure.variables, np.where(cpdag(structure.adjacency), weights, 0.0), "cpdag")


def as_pag(structure: Structure) -> Structure | None:
    """Return a PAG as it is, a DAG or a CPDAG as the PAG of its class; None where there is no such class."""
    if structure.kind == "pag":
        return structure
    dag = structure.adjacency if structure.kind == "dag" else extend(structure.adjacency)
    if dag is None or not structure.acyclic:
        return None
    return Structure(structure.variables, pag_of(dag).astype(np.float64), "pag")
