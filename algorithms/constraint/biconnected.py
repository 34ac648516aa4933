"""Biconnected components of a skeleton: for an edge, the variables on paths between its two ends.

A set that separates two variables can be chosen from the variables on paths between them (Colombo et al. 2012, §3.3:
FCI-path).
"""

import networkx as nx
import numpy as np
from numpy.typing import NDArray


def biconnected(joined: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return the biconnected components of a symmetric graph, `[n, d]`, and which of them holds each edge, `[d, d]`."""
    d = len(joined)
    component_of = np.zeros((d, d), np.int64)
    members = []
    for number, edges in enumerate(nx.biconnected_component_edges(nx.from_numpy_array(joined))):
        i, j = np.array(list(edges)).T
        component_of[i, j] = component_of[j, i] = number
        inside = np.zeros(d, np.bool_)
        inside[i] = inside[j] = True
        members.append(inside)
    return np.array(members, np.bool_).reshape(-1, d), component_of
