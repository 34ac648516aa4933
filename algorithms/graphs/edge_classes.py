"""Every edge of a learned structure compared with the truth: right, extra, missing, reversed or half-directed.

This is the one place that decides which edges are right: figures (`edge_counts.py`), pictures and lists come from it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .edge_text import SYMBOLS
from .edges import Edges, edges_of
from .marks import ARROW, TAIL
from .same_kind import of_same_kind
from .structure import Structure

Category = Literal["learned", "right", "extra", "missing", "reversed", "half-directed"]
CATEGORIES: tuple[Category, ...] = ("learned", "right", "extra", "missing", "reversed", "half-directed")


def edge_classes(learned: Edges, truth: Edges) -> dict[Category, NDArray[np.bool_]]:
    """Return which edges are in each category: masks over `learned`, and over `truth` for the category "missing".

    A learned edge is right if the truth has it with the same marks, extra if the truth does not join the two variables,
    reversed if the truth has its marks exchanged, and half-directed otherwise: directed in one and undirected in the
    other, or any other difference of two PAGs. A true edge is missing if no learned edge joins its variables.
    """
    exchanged = learned[:, [0, 1, 3, 2]]
    right = np.isin(_codes(learned), _codes(truth))
    extra = ~np.isin(pairs(learned), pairs(truth))
    reversed_ = np.isin(_codes(exchanged), _codes(truth)) & ~right
    return {
        "right": right,
        "extra": extra,
        "missing": ~np.isin(pairs(truth), pairs(learned)),
        "reversed": reversed_,
        "half-directed": ~(right | extra | reversed_),
    }


def pairs(edges: Edges) -> NDArray[np.int64]:
    """Return a number for the two variables that each edge joins, `[n_edges]`, whatever their order."""
    first, second = edges[:, :2].min(axis=1), edges[:, :2].max(axis=1)
    return np.asarray(first << 32 | second)


def differing_pairs(one: Edges, other: Edges) -> int:
    """Return how many pairs of variables are joined differently: the structural Hamming distance, a metric."""
    return len(np.unique(np.setxor1d(_codes(one), _codes(other)) >> 4))


def _codes(edges: Edges) -> NDArray[np.int64]:
    """Return a number for each edge, `[n_edges]`: the pair it joins, then its marks at the first and at the second."""
    source, target, at_source, at_target = edges.T
    at_first, at_second = np.where(source < target, (at_source, at_target), (at_target, at_source))
    return np.asarray(pairs(edges) << 4 | at_first << 2 | at_second)


@dataclass(frozen=True)
class Edge:
    """One edge of the structure, the truth or both.

    A missing edge is written as in the truth and has no `weight`; every other edge is written as it was learned.
    `true_weight` is the weight of the edge in the truth between the same two variables, None where it has none. An
    edge with a single arrow head points from source to target; otherwise the order of the variables decides.
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
    def cause(self) -> str:
        """What its source is called in lists."""
        return self.source

    @property
    def text(self) -> str:
        """The edge in one line."""
        return f"{self.cause} {SYMBOLS[self.at_source, self.at_target]} {self.target}"


def classify(structure: Structure, truth: Structure | None) -> tuple[Edge, ...]:
    """Return the edges of `structure`, and those of `truth` that it misses, in the order of the variables.

    Categories are those of `edge_classes`, after both structures are made `of_same_kind`. Without a truth every edge is
    just "learned". Raises `ValueError` if the truth is over other variables.
    """
    if truth is None:
        return tuple(_edge(structure, None, edge, "learned") for edge in edges_of(structure).tolist())
    structure, truth = of_same_kind(structure, truth.reordered(structure.variables))
    learned, true = edges_of(structure), edges_of(truth)
    found: list[tuple[list[int], Category]] = [
        (edge, category)
        for category, chosen in edge_classes(learned, true).items()
        for edge in (true if category == "missing" else learned)[chosen].tolist()
    ]
    found.sort(key=lambda one: (sorted(one[0][:2]), one[0][0]))
    return tuple(_edge(structure, truth, edge, category) for edge, category in found)


def count(edges: Iterable[Edge]) -> dict[Category, int]:
    """Return how many edges each category has, in the order of `CATEGORIES`, those without any included."""
    counted = Counter(edge.category for edge in edges)
    return {category: counted[category] for category in CATEGORIES}


def _edge(structure: Structure, truth: Structure | None, edge: list[int], category: Category) -> Edge:
    i, j, at_i, at_j = edge
    true = 0.0 if truth is None or truth.kind == "pag" else float(truth.weights[i, j] or truth.weights[j, i])
    known = category != "missing" and structure.kind != "pag"
    weight = float(structure.weights[i, j]) if known else None
    return Edge(structure.variables[i], structure.variables[j], weight, true or None, at_i, at_j, category)
