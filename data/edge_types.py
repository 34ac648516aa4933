"""How edges that are not all arrows are written: `directed` and `undirected` in a CPDAG, both marks in a PAG."""

from collections.abc import Iterator, Sequence

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL
from fedbnsl.algorithms.graphs.structure import GraphKind, Structure

from .check import shown

AT_SOURCE = {"-": TAIL, "<": ARROW, "o": CIRCLE}
AT_TARGET = {"-": TAIL, ">": ARROW, "o": CIRCLE}
MARKS = {f"{left}-{right}": (one, other) for left, one in AT_SOURCE.items() for right, other in AT_TARGET.items()}
"""type of an edge in a PAG -> its marks at source and target"""
CPDAG_TYPES = ("directed", "undirected")


def kind_of_types(types: Sequence[tuple[str, str]]) -> GraphKind:
    """Return the kind of graph whose edges have these types, each given with its place; without edges, a CPDAG.

    Raises `BadInput` for a type that is none, and for those of a CPDAG and of a PAG in one graph.
    """
    kind: GraphKind | None = None
    for place, type_ in types:
        if type_ not in CPDAG_TYPES and type_ not in MARKS:
            raise BadInput(f"{place}, column 'type': {shown(type_)} is not one of {', '.join((*CPDAG_TYPES, *MARKS))}")
        found: GraphKind = "cpdag" if type_ in CPDAG_TYPES else "pag"
        if kind not in (None, found):
            raise BadInput(
                f"{place}, column 'type': {shown(type_)}, but the edges above have types of a {kind.upper()}"
            )
        kind = found
    return kind or "cpdag"


def edge_count(structure: Structure) -> int:
    """Return how many edges there are; in a CPDAG or PAG two variables are joined by one, whatever its marks."""
    edges = structure.adjacency
    return int(edges.sum() if structure.kind == "dag" else np.triu(edges | edges.T).sum())


def marks_of(type_: str) -> tuple[int, int]:
    """Return the marks at source and target of an edge of a PAG."""
    return MARKS[type_]


def written(structure: Structure) -> Iterator[tuple[int, int, str]]:
    """Yield source, target and type of every edge of a CPDAG or PAG once, arrows from left to right where possible."""
    edges = structure.adjacency
    for i, j in np.argwhere(np.triu(edges | edges.T)):
        if structure.kind == "pag":
            yield _with_marks(int(i), int(j), int(structure.weights[j, i]), int(structure.weights[i, j]))
        elif edges[i, j] and edges[j, i]:
            yield int(i), int(j), "undirected"
        else:
            yield (int(i), int(j), "directed") if edges[i, j] else (int(j), int(i), "directed")


def _with_marks(i: int, j: int, at_i: int, at_j: int) -> tuple[int, int, str]:
    if at_i == ARROW and at_j != ARROW:
        i, j, at_i, at_j = j, i, at_j, at_i
    return i, j, next(type_ for type_, marks in MARKS.items() if marks == (at_i, at_j))
