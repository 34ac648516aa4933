"""The edges of a structure as a list: DAG, CPDAG and PAG alike."""

import numpy as np
from numpy.typing import NDArray

from .marks import ARROW, TAIL
from .structure import Structure

Edges = NDArray[np.int64]
"""`[n_edges, 4]`: source, target, the mark at the source, the mark at the target"""


def edges_of(structure: Structure) -> Edges:
    """Return every edge once, sorted by the pair of variables it joins; a single arrow head is at the target.

    Two variables are joined by one edge at most, except in a "dag" with a cycle of two: there by two.
    """
    found = _pag_edges(structure) if structure.kind == "pag" else _arrows_and_lines(structure)
    pairs = np.sort(found[:, :2], axis=1)
    return found[np.lexsort((found[:, 0], pairs[:, 1], pairs[:, 0]))]


def edge_count(structure: Structure) -> int:
    """Return the number of edges."""
    return len(edges_of(structure))


def weighted(structure: Structure) -> bool:
    """Say whether the edges have weights: the numbers of a PAG are marks, and many other graphs have only ones."""
    matrices = [structure.weights] if structure.lagged is None else [structure.weights, *structure.lagged]
    return structure.kind != "pag" and not all(np.isin(matrix, (0.0, 1.0)).all() for matrix in matrices)


def _arrows_and_lines(structure: Structure) -> Edges:
    adjacency = structure.adjacency
    undirected = adjacency & adjacency.T if structure.kind == "cpdag" else np.zeros_like(adjacency)
    arrows, lines = np.argwhere(adjacency & ~undirected), np.argwhere(np.triu(undirected))
    marks = np.repeat([[TAIL, ARROW], [TAIL, TAIL]], [len(arrows), len(lines)], axis=0)
    return np.hstack([np.concatenate([arrows, lines]), marks])


def _pag_edges(structure: Structure) -> Edges:
    marks = structure.marks
    i, j = np.nonzero(np.triu(marks))
    found = np.column_stack([i, j, marks[j, i], marks[i, j]])
    points_back = (found[:, 2] == ARROW) & (found[:, 3] != ARROW)
    found[points_back] = found[points_back][:, [1, 0, 3, 2]]
    return found
