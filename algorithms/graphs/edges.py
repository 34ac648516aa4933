"""The edges of a structure as a list, for DAGs, CPDAGs and PAGs, and their comparison with the true edges.

The module holds, in this order:

- `edges_of`: each edge once, with its two marks.
- Notation: symbols for display, and the types in files of graphs. In files an edge of a CPDAG is `directed` or
  `undirected`; an edge of a PAG is written with both of its marks, such as `o->`.
- `to_same_kind`: replaces a DAG by the CPDAG or the PAG of its Markov equivalence class, so that two structures can be
  compared.
- `edge_classes`, `classify`: each edge is right, extra, missing, reversed or half-directed. All metrics, pictures and
  lists use this classification.
- `classify_lagged`: the lagged edges of a dynamic structure. Time gives them their direction, so none is reversed: an
  edge is right if the truth has it at the same lag.
- `ClassifiedEdges`: all edges of a structure, classified once for everything that shows them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .cpdag import cpdag, extend
from .pag import ARROW, CIRCLE, TAIL, pag_of
from .structure import GraphKind, Structure, lagged_name

Edges = NDArray[np.int64]
"""`[n_edges, 4]`: source, target, the mark at the source, the mark at the target"""


def edges_of(structure: Structure) -> Edges:
    """The edges, sorted by the pair of variables they join; an edge with one arrow head has it at the target.

    At most one edge joins two variables, except for a cycle of two variables in a "dag", which has two edges.
    """
    found = _pag_edges(structure) if structure.kind == "pag" else _arrows_and_lines(structure)
    pairs = np.sort(found[:, :2], axis=1)
    return found[np.lexsort((found[:, 0], pairs[:, 1], pairs[:, 0]))]


def edge_count(structure: Structure) -> int:
    """The number of edges."""
    return len(edges_of(structure))


def weighted(structure: Structure) -> bool:
    """Whether the edges have weights: not if the entries are marks of a PAG, and not if all entries are 0 or 1."""
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


SYMBOLS = {
    (TAIL, ARROW): "→",
    (TAIL, TAIL): "—",
    (ARROW, ARROW): "↔",
    (CIRCLE, ARROW): "o→",
    (CIRCLE, CIRCLE): "o—o",
    (CIRCLE, TAIL): "o—",
    (TAIL, CIRCLE): "—o",
}
"""marks at source and target of an edge -> its symbol for display"""

AT_SOURCE = {"-": TAIL, "<": ARROW, "o": CIRCLE}
AT_TARGET = {"-": TAIL, ">": ARROW, "o": CIRCLE}
PAG_TYPES = {f"{left}-{right}": (one, other) for left, one in AT_SOURCE.items() for right, other in AT_TARGET.items()}
"""type of an edge in a file of a PAG -> its marks at source and target"""
CPDAG_TYPES = {"directed": (TAIL, ARROW), "undirected": (TAIL, TAIL)}
"""type of an edge in a file of a CPDAG -> its marks at source and target"""


def edge_type(kind: GraphKind, at_source: int, at_target: int) -> str:
    """The type of an edge with these marks in files, such as "o->" in a PAG, else "directed" or "undirected"."""
    types = PAG_TYPES if kind == "pag" else CPDAG_TYPES
    return {marks: type_ for type_, marks in types.items()}[at_source, at_target]


def to_same_kind(one: Structure, other: Structure) -> tuple[Structure, Structure]:
    """Both structures as PAGs if one of them is a PAG; otherwise both as CPDAGs if one of them is a CPDAG.

    A structure that has no PAG or CPDAG is not replaced.
    """
    if "pag" in (one.kind, other.kind):
        return as_pag(one) or one, as_pag(other) or other
    if one.kind == other.kind:
        return one, other
    return as_cpdag(one) or one, as_cpdag(other) or other


def as_cpdag(structure: Structure) -> Structure | None:
    """The CPDAG of a DAG, with weights, or `structure` if it is a CPDAG; None for a "dag" with a cycle."""
    if structure.kind == "cpdag":
        return structure
    if not structure.acyclic:
        return None
    weights: NDArray[np.float64] = structure.weights + structure.weights.T
    return Structure(structure.variables, np.where(cpdag(structure.adjacency), weights, 0.0), "cpdag")


def as_pag(structure: Structure) -> Structure | None:
    """The PAG of the class of a DAG or a CPDAG, or `structure` if it is a PAG; None if there is no such class."""
    if structure.kind == "pag":
        return structure
    dag = structure.adjacency if structure.kind == "dag" else extend(structure.adjacency)
    if dag is None or not structure.acyclic:
        return None
    return Structure(structure.variables, pag_of(dag).astype(np.float64), "pag")


Category = Literal["learned", "right", "extra", "missing", "reversed", "half-directed"]
CATEGORIES: tuple[Category, ...] = ("learned", "right", "extra", "missing", "reversed", "half-directed")


def edge_classes(learned: Edges, truth: Edges) -> dict[Category, NDArray[np.bool_]]:
    """The edges of each category as masks over `learned`, and over `truth` for the category "missing".

    A learned edge is right if the truth has it with the same marks, extra if the truth does not join the two variables,
    and reversed if the truth has its marks exchanged. Otherwise it is half-directed: directed in one structure and
    undirected in the other, or any other difference of two PAGs. A true edge is missing if no learned edge joins its
    variables.
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
    """A number for the unordered pair of variables that each edge joins, `[n_edges]`."""
    first, second = edges[:, :2].min(axis=1), edges[:, :2].max(axis=1)
    return np.asarray(first << 32 | second)


def differing_pairs(one: Edges, other: Edges) -> int:
    """The number of pairs of variables that are joined differently: the structural Hamming distance, a metric."""
    return len(np.unique(np.setxor1d(_codes(one), _codes(other)) >> 4))


def _codes(edges: Edges) -> NDArray[np.int64]:
    """A number for each edge, `[n_edges]`: the pair it joins, then its marks at the first and the second variable."""
    source, target, at_source, at_target = edges.T
    at_first, at_second = np.where(source < target, (at_source, at_target), (at_target, at_source))
    return np.asarray(pairs(edges) << 4 | at_first << 2 | at_second)


@dataclass(frozen=True)
class Edge:
    """An edge of the structure, the truth or both.

    A missing edge is oriented as in the truth and has no `weight`; every other edge is oriented as learned. Edges of a
    PAG have no weights. `true_weight` is the weight of the true edge between the same two variables, None if there is
    none. An edge with a single arrow head points from source to target; otherwise the order of the variables decides
    which of the two is the source.
    """

    source: str
    target: str
    weight: float | None
    true_weight: float | None
    at_source: int
    """the edge's mark at the source: a tail, an arrow or a circle"""
    at_target: int
    category: Category
    lag: int = 0
    """the number of time steps by which the source is earlier than the target"""

    @property
    def directed(self) -> bool:
        """Whether the edge is source → target, with a tail at the source."""
        return (self.at_source, self.at_target) == (TAIL, ARROW)

    @property
    def one_way(self) -> bool:
        """Whether the edge has an arrow head only at the target."""
        return self.at_target == ARROW != self.at_source

    @property
    def own(self) -> bool:
        """Whether a variable depends on its own past."""
        return self.source == self.target

    @property
    def cause(self) -> str:
        """The label of the source at its lag, in lists."""
        return lagged_name(self.source, self.lag)

    @property
    def text(self) -> str:
        """The edge as text."""
        return f"{self.cause} {SYMBOLS[self.at_source, self.at_target]} {self.target}"


def classify(structure: Structure, truth: Structure | None) -> tuple[Edge, ...]:
    """The edges of `structure` and the missing edges of `truth`, in the order of the variables.

    Categories are those of `edge_classes`, after `to_same_kind`. Without a truth every edge is "learned". Raises
    `ValueError` if the truth has other variables.
    """
    if truth is None:
        return tuple(_edge(structure, None, edge, "learned") for edge in edges_of(structure).tolist())
    structure, truth = to_same_kind(structure, truth.reordered(structure.variables))
    learned, true = edges_of(structure), edges_of(truth)
    found: list[tuple[list[int], Category]] = [
        (edge, category)
        for category, chosen in edge_classes(learned, true).items()
        for edge in (true if category == "missing" else learned)[chosen].tolist()
    ]
    found.sort(key=lambda one: (sorted(one[0][:2]), one[0][0]))
    return tuple(_edge(structure, truth, edge, category) for edge, category in found)


def count(edges: Iterable[Edge]) -> dict[Category, int]:
    """The number of edges in each category, in the order of `CATEGORIES`, zeros included."""
    counted = Counter(edge.category for edge in edges)
    return {category: counted[category] for category in CATEGORIES}


def _edge(structure: Structure, truth: Structure | None, edge: list[int], category: Category) -> Edge:
    i, j, at_i, at_j = edge
    true_weight = 0.0 if truth is None or truth.kind == "pag" else float(truth.weights[i, j] or truth.weights[j, i])
    has_weight = category != "missing" and structure.kind != "pag"
    weight = float(structure.weights[i, j]) if has_weight else None
    return Edge(structure.variables[i], structure.variables[j], weight, true_weight or None, at_i, at_j, category)


def classify_lagged(structure: Structure, truth: Structure | None) -> tuple[Edge, ...]:
    """The lagged edges of `structure` and the missing lagged edges of `truth`, by lag, source and target.

    Without a truth, or with a truth that is not dynamic, every edge is "learned". Raises `ValueError` if the truth has
    other variables.
    """
    true = None if truth is None else truth.reordered(structure.variables).lagged
    if true is None:
        learned = padded_lagged_weights(structure, structure.lags)
        return tuple(_lagged_edge(structure, learned, None, index) for index in np.argwhere(learned).tolist())
    lags = max(structure.lags, len(true))
    learned, true = padded_lagged_weights(structure, lags), pad_lags(true, lags)
    return tuple(
        _lagged_edge(structure, learned, true, index) for index in np.argwhere((learned != 0) | (true != 0)).tolist()
    )


def padded_lagged_weights(structure: Structure, lags: int) -> NDArray[np.float64]:
    """The lagged weights of `structure`, `[lags, d, d]`, zero at lags that it does not have."""
    d = len(structure.variables)
    return pad_lags(np.zeros((0, d, d)) if structure.lagged is None else structure.lagged, lags)


def pad_lags(lagged: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """`lagged` padded with zeros to `lags` lags; `lags` must be at least its length."""
    return np.concatenate([lagged, np.zeros((lags - len(lagged), *lagged.shape[1:]))])


def _lagged_edge(
    structure: Structure, learned: NDArray[np.float64], true: NDArray[np.float64] | None, index: list[int]
) -> Edge:
    k, i, j = index
    weight, true_weight = float(learned[k, i, j]), 0.0 if true is None else float(true[k, i, j])
    category: Category = "learned"
    if true is not None:
        category = "missing" if not weight else "right" if true_weight else "extra"
    source, target = structure.variables[i], structure.variables[j]
    return Edge(source, target, weight or None, true_weight or None, TAIL, ARROW, category, k + 1)


@dataclass(frozen=True, eq=False)
class ClassifiedEdges:
    """The edges of a structure, classified once, on first use; without a truth every edge is "learned"."""

    structure: Structure
    truth: Structure | None = None

    @property
    def reference(self) -> Structure | None:
        """The truth, if edges are compared with it: not if it has no lags, so that a true edge can be at any lag."""
        return None if self.truth is None or (self.structure.lags and not self.truth.lags) else self.truth

    @cached_property
    def within(self) -> tuple[Edge, ...]:
        """The edges within one time step."""
        return classify(self.structure, self.reference)

    @cached_property
    def lagged(self) -> tuple[Edge, ...]:
        """The lagged edges."""
        return classify_lagged(self.structure, self.reference)

    def __iter__(self) -> Iterator[Edge]:
        """Yield all edges, those within one time step first."""
        yield from self.within
        yield from self.lagged

    def __len__(self) -> int:
        return len(self.within) + len(self.lagged)

    def rows(self) -> tuple[tuple[str, ...], list[tuple[str | float | None, ...]]]:
        """The header and the rows of a file of the learned edges: source, target, weight, type and lag.

        A PAG has no weights, a DAG has no types, and only a dynamic structure has lags. The type is that of both marks
        in a PAG, otherwise `directed` or `undirected`.
        """
        structure = self.structure
        has_weights, has_types, dynamic = structure.kind != "pag", structure.kind != "dag", structure.lagged is not None
        rows: list[tuple[str | float | None, ...]] = []
        for edge in self:
            types = [edge_type(structure.kind, edge.at_source, edge.at_target)] * has_types
            rows.append((edge.source, edge.target, *[edge.weight] * has_weights, *types, *[edge.lag] * dynamic))
        return ("source", "target", *["weight"] * has_weights, *["type"] * has_types, *["lag"] * dynamic), rows


EdgeKey = tuple[str, str, int]
"""the two variables of an edge and its lag; source first if the lag is above 0, otherwise sorted by name"""


@dataclass(frozen=True)
class EdgeFigures:
    """The figures of one edge; a figure that is not known is None."""

    log_likelihood: float | None = None
    bic: float | None = None
    p_value: float | None = None
    score: float | None = None
    largest_p_value: float | None = None


FIGURES = tuple(one.name for one in fields(EdgeFigures))
"""the names of the figures, in the order of the columns of `structure.csv`"""
NO_FIGURES: Mapping[EdgeKey, EdgeFigures] = {}


def key_of(edge: Edge) -> EdgeKey:
    """The key of `edge` among the figures of a graph."""
    if edge.lag:
        return edge.source, edge.target, edge.lag
    first, second = sorted((edge.source, edge.target))
    return first, second, 0


def known_figures(figures: Mapping[EdgeKey, EdgeFigures]) -> tuple[str, ...]:
    """The names of the figures that at least one edge has."""
    return tuple(name for name in FIGURES if any(getattr(one, name) is not None for one in figures.values()))
