"""Every edge of a learned structure held against the truth: right, extra, missing, reversed or half-directed.

The counts agree with those of `fedbnsl.algorithms.graphs.compare`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.structure import Structure

Category = Literal["learned", "right", "extra", "missing", "reversed", "half-directed"]
CATEGORIES: tuple[Category, ...] = ("learned", "right", "extra", "missing", "reversed", "half-directed")

Mark = tuple[int, int, bool]
"""(source, target, directed)"""


@dataclass(frozen=True)
class Edge:
    """One edge of the structure, the truth or both.

    A missing edge is written as in the truth and has no `weight`; every other edge is written as it was learned.
    `true_weight` is the weight of the edge in the truth between the same two variables, None where it has none.
    `directed` is False for an undirected edge of a CPDAG, which has a source and a target by the order of the
    variables only.
    """

    source: str
    target: str
    weight: float | None
    true_weight: float | None
    directed: bool
    category: Category


def classify(structure: Structure, truth: Structure | None) -> tuple[Edge, ...]:
    """Return the edges of `structure`, and those of `truth` that it misses, in the order of the variables.

    A learned edge is right if the truth has it too, extra if the truth does not join the two variables, half-directed
    if it is directed in one and undirected in the other, else reversed. Where one of the two is a CPDAG and the other
    an acyclic DAG, the DAG is replaced by its CPDAG first. Without a truth every edge is just "learned".

    Raises `ValueError` if the truth is over other variables.
    """
    if truth is not None:
        truth = truth.reordered(structure.variables)
        structure, truth = _as_kind_of(structure, truth), _as_kind_of(truth, structure)
    joined = structure.adjacency | (truth.adjacency if truth else False)
    pairs = np.argwhere(np.triu(joined | joined.T))
    return tuple(edge for i, j in pairs for edge in _between(structure, truth, int(i), int(j)))


def count(edges: Iterable[Edge]) -> dict[Category, int]:
    """Return how many edges each category has, in the order of `CATEGORIES`, those without any included."""
    counted = Counter(edge.category for edge in edges)
    return {category: counted[category] for category in CATEGORIES}


def marks(structure: Structure) -> list[Mark]:
    """Return the edges of a structure by source and target, an undirected edge once."""
    joined = structure.adjacency | structure.adjacency.T
    return sorted(mark for i, j in np.argwhere(np.triu(joined)) for mark in _marks(structure, int(i), int(j)))


def _as_kind_of(structure: Structure, other: Structure) -> Structure:
    """Return a DAG as its CPDAG, with its weights, if `other` is a CPDAG; any other structure as it is."""
    if not (structure.kind == "dag" and other.kind == "cpdag" and structure.acyclic):
        return structure
    either: NDArray[np.float64] = structure.weights + structure.weights.T
    return Structure(structure.variables, np.where(cpdag(structure.adjacency), either, 0.0), "cpdag")


def _marks(structure: Structure, i: int, j: int) -> list[Mark]:
    there, back = structure.weights[i, j] != 0, structure.weights[j, i] != 0
    if there and back and structure.kind != "dag":
        return [(i, j, False)]
    return [(i, j, True)] * bool(there) + [(j, i, True)] * bool(back)


def _between(structure: Structure, truth: Structure | None, i: int, j: int) -> list[Edge]:
    """Return the edges between two variables."""
    learned = _marks(structure, i, j)
    if truth is None:
        return [_edge(structure, None, mark, "learned") for mark in learned]
    true = _marks(truth, i, j)
    if not learned:
        return [_edge(structure, truth, mark, "missing") for mark in true]
    return [_edge(structure, truth, mark, _category(mark, true)) for mark in learned]


def _category(mark: Mark, true: list[Mark]) -> Category:
    if mark in true:
        return "right"
    if not true:
        return "extra"
    return "reversed" if mark[2] == true[0][2] else "half-directed"


def _edge(structure: Structure, truth: Structure | None, mark: Mark, category: Category) -> Edge:
    i, j, directed = mark
    true = 0.0 if truth is None else float(truth.weights[i, j] or truth.weights[j, i])
    weight = None if category == "missing" else float(structure.weights[i, j])
    return Edge(structure.variables[i], structure.variables[j], weight, true or None, directed, category)
