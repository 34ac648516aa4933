"""Every edge of a learned structure held against the truth: right, extra, missing, reversed or half-directed.

The counts agree with those of `fedbnsl.algorithms.graphs.compare`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare_pag import as_pag
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.edge_types import Ends, ends_of
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL
from fedbnsl.algorithms.graphs.structure import Structure

Category = Literal["learned", "right", "extra", "missing", "reversed", "half-directed"]
CATEGORIES: tuple[Category, ...] = ("learned", "right", "extra", "missing", "reversed", "half-directed")

SYMBOLS = {
    (TAIL, ARROW): "→",
    (TAIL, TAIL): "—",
    (ARROW, ARROW): "↔",
    (CIRCLE, ARROW): "o→",
    (CIRCLE, CIRCLE): "o—o",
    (CIRCLE, TAIL): "o—",
    (TAIL, CIRCLE): "—o",
}


@dataclass(frozen=True)
class Edge:
    """One edge of the structure, the truth or both.

    A missing edge is written as in the truth and has no `weight`; every other edge is written as it was learned.
    `true_weight` is the weight of the edge in the truth between the same two variables, None where it has none. An
    arrow points from source to target where there is only one; else the order of the variables decides.
    """

    source: str
    target: str
    weight: float | None
    true_weight: float | None
    at_source: int
    """its mark there: a tail, an arrow or a circle"""
    at_target: int
    category: Category

    @property
    def directed(self) -> bool:
        """Whether it says which of the two is the cause."""
        return (self.at_source, self.at_target) == (TAIL, ARROW)

    @property
    def one_way(self) -> bool:
        """Whether it has an arrow at the target alone."""
        return self.at_target == ARROW != self.at_source

    @property
    def text(self) -> str:
        """The edge in one line."""
        return f"{self.source} {SYMBOLS[self.at_source, self.at_target]} {self.target}"


def classify(structure: Structure, truth: Structure | None) -> tuple[Edge, ...]:
    """Return the edges of `structure`, and those of `truth` that it misses, in the order of the variables.

    A learned edge is right if the truth has it with the same marks, extra if the truth does not join the two variables,
    reversed if the truth has its marks exchanged, else half-directed: directed in one and undirected in the other, or
    any other difference of two PAGs. Where one of the two is a CPDAG or a PAG and the other is not, that is replaced by
    the CPDAG or PAG of its class first, if it has one. Without a truth every edge is just "learned".

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


def weighted(structure: Structure) -> bool:
    """Say whether the edges have weights: those of a PAG are marks, and many a graph's are all 1."""
    return structure.kind != "pag" and not np.isin(structure.weights, (0.0, 1.0)).all()


def _as_kind_of(structure: Structure, other: Structure) -> Structure:
    """Return `structure` as the CPDAG or PAG of its class if `other` is one; as it is where there is no class."""
    if structure.kind == "dag" and other.kind == "cpdag" and structure.acyclic:
        either: NDArray[np.float64] = structure.weights + structure.weights.T
        return Structure(structure.variables, np.where(cpdag(structure.adjacency), either, 0.0), "cpdag")
    if other.kind == "pag" and structure.kind != "pag":
        try:
            return Structure(structure.variables, as_pag(structure).astype(np.float64), "pag")
        except BadInput:
            return structure
    return structure


def _between(structure: Structure, truth: Structure | None, i: int, j: int) -> list[Edge]:
    """Return the edges between two variables."""
    learned = ends_of(structure, i, j)
    if truth is None:
        return [_edge(structure, None, ends, "learned") for ends in learned]
    true = ends_of(truth, i, j)
    if not learned:
        return [_edge(structure, truth, ends, "missing") for ends in true]
    return [_edge(structure, truth, ends, _category(ends, true)) for ends in learned]


def _category(ends: Ends, true: list[Ends]) -> Category:
    if ends in true:
        return "right"
    if not true:
        return "extra"
    i, j, at_i, at_j = ends
    return "reversed" if {(i, j, at_j, at_i), (j, i, at_i, at_j)} & set(true) else "half-directed"


def _edge(structure: Structure, truth: Structure | None, ends: Ends, category: Category) -> Edge:
    i, j, at_i, at_j = ends
    true = 0.0 if truth is None or truth.kind == "pag" else float(truth.weights[i, j] or truth.weights[j, i])
    known = category != "missing" and structure.kind != "pag"
    weight = float(structure.weights[i, j]) if known else None
    return Edge(structure.variables[i], structure.variables[j], weight, true or None, at_i, at_j, category)
