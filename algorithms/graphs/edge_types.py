"""How edges that are not all arrows are written: `directed` and `undirected` in a CPDAG, both marks in a PAG."""

from collections.abc import Iterator

import numpy as np

from .pag_rules import ARROW, CIRCLE, TAIL
from .structure import Structure

AT_SOURCE = {"-": TAIL, "<": ARROW, "o": CIRCLE}
AT_TARGET = {"-": TAIL, ">": ARROW, "o": CIRCLE}
MARKS = {f"{left}-{right}": (one, other) for left, one in AT_SOURCE.items() for right, other in AT_TARGET.items()}
"""type of an edge in a PAG -> its marks at source and target"""
CPDAG_TYPES = ("directed", "undirected")

Ends = tuple[int, int, int, int]
"""an edge: source, target, its mark at the source, its mark at the target"""


def edge_count(structure: Structure) -> int:
    """Return how many edges there are; in a CPDAG or PAG two variables are joined by one, whatever its marks."""
    edges = structure.adjacency
    return int(edges.sum() if structure.kind == "dag" else np.triu(edges | edges.T).sum())


def marks_of(type_: str) -> tuple[int, int]:
    """Return the marks at source and target of an edge of a PAG."""
    return MARKS[type_]


def ends_of(structure: Structure, i: int, j: int) -> list[Ends]:
    """Return the edges between variables i and j, i < j, arrows from source to target where possible.

    One or none, but in a "dag" in which they cause each other two.
    """
    there, back = structure.weights[i, j] != 0, structure.weights[j, i] != 0
    if structure.kind == "pag":
        at_i, at_j = int(structure.weights[j, i]), int(structure.weights[i, j])
        turned = at_i == ARROW != at_j
        return [(j, i, at_j, at_i) if turned else (i, j, at_i, at_j)] if there else []
    if there and back and structure.kind == "cpdag":
        return [(i, j, TAIL, TAIL)]
    return [(i, j, TAIL, ARROW)] * bool(there) + [(j, i, TAIL, ARROW)] * bool(back)


def written(structure: Structure) -> Iterator[tuple[int, int, str]]:
    """Yield source, target and type of every edge: of a PAG both marks, else `directed` or `undirected`."""
    joined = structure.adjacency | structure.adjacency.T
    for pair in np.argwhere(np.triu(joined)):
        for i, j, *marks in ends_of(structure, *map(int, pair)):
            if structure.kind == "pag":
                yield i, j, next(type_ for type_, both in MARKS.items() if both == tuple(marks))
            else:
                yield i, j, "directed" if marks == [TAIL, ARROW] else "undirected"
