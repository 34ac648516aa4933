"""The order in which variables come before each other, read off a matrix that is almost acyclic.

Once h is small, what is left of a cycle is its weakest edge. Settling the order turns the rest of the problem into a
convex lasso over the entries that respect it: edges lost on the way to acyclicity come back, and no cycle can be left.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import reaches
from ..core.schema import FloatArray


def settled_order(strength: FloatArray, precedes: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Return each variable's place, `[n_variables]`, in an order that keeps the strongest edges forward.

    Edges of `strength` `[n_variables, n_variables]` (0 where there is none) are taken strongest first, leaving out one
    that would close a cycle (ties by position); the order is a topological one of what was taken. Variables that
    `precedes` `[d, d]` puts before others come before them in any case.
    """
    import networkx as nx

    d = len(strength)
    rows, columns = np.nonzero(strength)

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(d))
    before = np.eye(d, dtype=bool)  # before[i, j]: i comes before j already
    if precedes is not None:
        graph.add_edges_from((int(i), int(j)) for i, j in np.argwhere(precedes))
        before |= reaches(precedes)
    for k in np.argsort(-strength[rows, columns], kind="stable"):
        i, j = int(rows[k]), int(columns[k])
        if not before[j, i]:
            graph.add_edge(i, j)
            before[np.ix_(before[:, i], before[j])] = True
    place = np.empty(d, dtype=np.int64)
    place[list(nx.lexicographical_topological_sort(graph))] = np.arange(d)
    return place


def free_entries(place: NDArray[np.int64], support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the entries of `support` `[m, d]` that an order allows: its first d rows forward, those of lags all."""
    d = support.shape[1]
    return np.vstack([forward(place, d) & support[:d], support[d:]])


def forward(place: NDArray[np.int64], d: int) -> NDArray[np.bool_]:
    """Return the entries `[d, d]` an order allows, from earlier to later; without one, all but the diagonal."""
    return ~np.eye(d, dtype=bool) if not len(place) else place[:, None] < place[None, :]
