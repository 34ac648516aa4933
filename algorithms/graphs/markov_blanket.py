"""Markov blankets: the variables that make all others irrelevant for predicting a target (causal feature selection).

Source: Wang, Ma & Wang 2023, §7.5.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from .dag import directed_part
from .structure import Structure


@dataclass(frozen=True)
class MarkovBlanket:
    """The Markov blanket of a variable by names; in a CPDAG a neighbour may be a parent or a child."""

    parents: tuple[str, ...]
    children: tuple[str, ...]
    neighbours: tuple[str, ...]
    spouses: tuple[str, ...]
    """other parents of the children"""

    @property
    def all(self) -> tuple[str, ...]:
        """The variables of the blanket, sorted by name."""
        return tuple(sorted({*self.parents, *self.children, *self.neighbours, *self.spouses}))


def markov_blanket(structure: Structure, target: str) -> MarkovBlanket:
    """Parents, children, undirected neighbours and spouses of `target` in a DAG or a CPDAG.

    All DAGs of a CPDAG's class have this blanket: parents that share a child are joined or form a v-structure, which
    the CPDAG directs. Raises BadInput for an unknown variable and for a PAG.
    """
    if target not in structure.variables:
        raise BadInput(f"there is no variable '{target}': available: {', '.join(structure.variables)}")
    if structure.kind == "pag":
        raise BadInput("a PAG does not distinguish parents from spouses: select features by a DAG or a CPDAG")
    t = structure.variables.index(target)
    edges = structure.adjacency
    directed = directed_part(edges)
    children = directed[t]
    spouses = directed[:, children].any(axis=1) & ~edges[t] & ~edges[:, t]
    spouses[t] = False

    def names(chosen: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(structure.variables[v] for v in np.flatnonzero(chosen))

    return MarkovBlanket(names(directed[:, t]), names(children), names(edges[t] & edges[:, t]), names(spouses))
