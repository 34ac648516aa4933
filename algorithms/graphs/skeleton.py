"""What a graph shares with its Markov-equivalent graphs: skeleton, v-structures, moral graph.

All take a boolean adjacency `[n_variables, n_variables]`, `[i, j]` for i → j; an edge that stands in both directions is
undirected.
"""

import numpy as np
from numpy.typing import NDArray

VStructure = tuple[int, int, int]
"""(i, k, j) with i < j: i → k ← j, and i and j not adjacent"""


def directed_part(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the directed edges alone, `[n_variables, n_variables]`."""
    return adjacency & ~adjacency.T


def skeleton(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the graph without directions: symmetric, `[n_variables, n_variables]`."""
    return adjacency | adjacency.T


def v_structures(adjacency: NDArray[np.bool_]) -> set[VStructure]:
    """Return the unshielded colliders: all (i, k, j), i < j, with i → k ← j directed and i, j not adjacent.

    Two DAGs are Markov equivalent if and only if they share skeleton and v-structures (Verma & Pearl 1990, Theorem 1).
    """
    directed = directed_part(adjacency)
    apart = ~skeleton(adjacency)
    found: set[VStructure] = set()
    for k in np.flatnonzero(directed.sum(axis=0) > 1):
        parents = np.flatnonzero(directed[:, k])
        first, second = np.nonzero(np.triu(apart[np.ix_(parents, parents)], 1))
        found.update((int(parents[a]), int(k), int(parents[b])) for a, b in zip(first, second, strict=True))
    return found


def moral_graph(adjacency: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the skeleton with all parents of a common child married: symmetric, `[n_variables, n_variables]`.

    Lauritzen & Spiegelhalter 1988. A CPDAG has the moral graph of the DAGs in its class, since unmarried parents are
    v-structures, and these are directed in it.
    """
    directed = directed_part(adjacency)
    moral = skeleton(adjacency)
    for k in np.flatnonzero(directed.sum(axis=0) > 1):
        parents = np.flatnonzero(directed[:, k])
        moral[np.ix_(parents, parents)] = True
    np.fill_diagonal(moral, False)
    return moral
