"""A learned structure: named variables and a weighted or marked adjacency matrix; names of lagged variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from .dag import directed_part, find_cycle, is_acyclic
from .pag import ARROW, TAIL, Marks, directed_edges

if TYPE_CHECKING:
    import networkx as nx


def lagged_name(name: str, lag: int) -> str:
    """The name of variable `name` at time t − `lag`: unchanged for lag 0, "name[t-1]" for lag 1."""
    return f"{name}[t-{lag}]" if lag else name


def unrolled_names(variables: Sequence[str], lags: int) -> tuple[str, ...]:
    """The names of the variables at t, t − 1, ..., t − lags, `[(lags + 1)·d]`."""
    return tuple(lagged_name(name, lag) for lag in range(lags + 1) for name in variables)


GraphKind = Literal["dag", "cpdag", "pag"]


@dataclass(frozen=True)
class Structure:
    """A graph over `variables`: `weights[i, j] != 0` means i → j, `[n_variables, n_variables]`.

    In a CPDAG an undirected edge has entries in both directions. In a PAG every edge has both entries, and
    `weights[i, j]` is the edge's mark at j: 0 no edge, 1 a tail, 2 an arrow, 3 a circle (`pag.py`). `kind` says how to
    read the matrix and does not guarantee that the graph is acyclic: a "dag" may have cycles, see `acyclic`. `scores`
    are optional strengths before thresholding, for AUROC and AUPR.

    A dynamic structure also has `lagged` edges, `[lags, n_variables, n_variables]`: `lagged[k - 1, i, j] != 0` means
    that i at time t − k → j at time t. `weights` are then the edges within one time step, W of Chen, Ma & Yue, and
    `lagged` is their A, in which a variable may depend on its own past.
    """

    variables: tuple[str, ...]
    weights: NDArray[np.float64]
    kind: GraphKind = "dag"
    scores: NDArray[np.float64] | None = None
    lagged: NDArray[np.float64] | None = None
    lagged_scores: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for duplicate names, a matrix of another shape, and self-loops within a time step."""
        d = len(self.variables)
        duplicates = sorted({name for name in self.variables if self.variables.count(name) > 1})
        if duplicates:
            raise ValueError(f"variables named more than once: {', '.join(duplicates)}")
        for matrix in (self.weights, self.scores):
            if matrix is not None and matrix.shape != (d, d):
                raise ValueError(f"{d} variables need a {d} x {d} matrix, not {matrix.shape}")
        for lagged in (self.lagged, self.lagged_scores):
            if lagged is not None and lagged.shape != (self.lags, d, d):
                raise ValueError(f"{d} variables need {self.lags} x {d} x {d} lagged weights, not {lagged.shape}")
        if np.any(np.diag(self.weights)):
            raise ValueError(f"{self.variables[int(np.argmax(np.diag(self.weights) != 0))]} has an edge to itself")

    def __repr__(self) -> str:
        """One line with the kind of graph and the numbers of variables and edges."""
        edges = int(np.triu(self.adjacency | self.adjacency.T).sum())
        lagged = 0 if self.lagged is None else int(np.count_nonzero(self.lagged))
        over_time = f", {lagged} from earlier times" if self.lags else ""
        return f"Structure({self.kind}, {len(self.variables)} variables, {edges} edge{'s' * (edges != 1)}{over_time})"

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """Where the edges are, `[n_variables, n_variables]`."""
        return np.asarray(self.weights != 0)

    @property
    def lags(self) -> int:
        """The number of lags; 0 for a structure that is not dynamic."""
        return 0 if self.lagged is None else len(self.lagged)

    @property
    def acyclic(self) -> bool:
        """Whether there is no directed cycle; an undirected edge is not a cycle."""
        return is_acyclic(self._directed)

    @property
    def cycle(self) -> list[str] | None:
        """The variables along one directed cycle, for messages; None if there is none."""
        return find_cycle(self._directed, self.variables)

    @property
    def _directed(self) -> NDArray[np.bool_]:
        if self.kind == "pag":
            return directed_edges(self.marks)
        return self.adjacency if self.kind == "dag" else directed_part(self.adjacency)

    @property
    def marks(self) -> Marks:
        """The end marks of a PAG, `[n_variables, n_variables]`; raises ValueError for other kinds of graphs."""
        if self.kind != "pag":
            raise ValueError(f"a {self.kind} has no circles: its edges are in `weights`")
        return self.weights.astype(np.int8)

    def reordered(self, variables: Sequence[str]) -> "Structure":
        """The same graph with its variables in the order of `variables`; raises ValueError if the sets differ."""
        if sorted(variables) != sorted(self.variables):
            raise ValueError(f"{', '.join(variables)} is not an order of {', '.join(self.variables)}")
        position = {name: v for v, name in enumerate(self.variables)}
        order = [position[name] for name in variables]
        matrices = (self.weights, self.scores, self.lagged, self.lagged_scores)
        weights, scores, lagged, lagged_scores = (
            None if matrix is None else matrix[..., order, :][..., order] for matrix in matrices
        )
        assert weights is not None
        return Structure(tuple(variables), weights, self.kind, scores, lagged, lagged_scores)

    def among(self, variables: Sequence[str]) -> "Structure":
        """The graph of only these `variables`, in their order in this graph."""
        kept = [v for v, name in enumerate(self.variables) if name in variables]
        if len(kept) == len(self.variables):
            return self
        matrices = (self.weights, self.scores, self.lagged, self.lagged_scores)
        weights, *others = (None if matrix is None else matrix[..., kept, :][..., kept] for matrix in matrices)
        assert weights is not None
        return Structure(tuple(self.variables[v] for v in kept), weights, self.kind, *others)

    def with_sink(self, name: str, weights: Mapping[str, float]) -> "Structure":
        """The graph with a further variable that has edges from some variables, with these weights, and none to any.

        Raises `ValueError` for a name that a variable has already.
        """
        d = len(self.variables)
        added = [(self.variables.index(parent), weight) for parent, weight in weights.items()]
        new, scores, lagged, lagged_scores = (
            None if one is None else np.pad(one, [(0, 0)] * (one.ndim - 2) + [(0, 1), (0, 1)])
            for one in (self.weights, self.scores, self.lagged, self.lagged_scores)
        )
        assert new is not None
        for i, weight in added:
            if self.kind == "pag":
                new[i, d], new[d, i] = ARROW, TAIL
            else:
                new[i, d] = weight
            if scores is not None:
                scores[i, d] = abs(weight)
        return Structure((*self.variables, name), new, self.kind, scores, lagged, lagged_scores)

    def to_networkx(self) -> "nx.DiGraph[str]":
        """The structure as a directed networkx graph with edge attribute `weight`, which edges of a PAG do not have.

        A dynamic structure is unrolled: x at time t is the node "x", x at time t − 1 the node "x[t-1]". An edge without
        a direction is two arcs; the graph of `Learned` has the types of edges, too.
        """
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.variables)
        for i, j in np.argwhere(self.adjacency):
            weight = {} if self.kind == "pag" else {"weight": float(self.weights[i, j])}
            graph.add_edge(self.variables[i], self.variables[j], **weight)
        if self.lagged is not None:
            graph.add_weighted_edges_from(
                (lagged_name(self.variables[i], k + 1), self.variables[j], float(self.lagged[k, i, j]))
                for k, i, j in np.argwhere(self.lagged)
            )
        return graph


def empty_structure(variables: tuple[str, ...]) -> Structure:
    """The structure without edges, for exchanges that learn no structure."""
    d = len(variables)
    return Structure(variables, np.zeros((d, d)))


def stacked(variables: Sequence[str], weights: NDArray[np.float64], scores: NDArray[np.float64]) -> Structure:
    """The DAG of `weights` and `scores` `[(lags + 1)·d, d]`: W of the edges within one time step above A₁, A₂, ...

    With d rows the structure is not dynamic.
    """
    names, d = tuple(variables), len(variables)
    if len(weights) == d:
        return Structure(names, weights, scores=scores)
    lagged, lagged_scores = (below[d:].reshape(-1, d, d) for below in (weights, scores))
    return Structure(names, weights[:d], "dag", scores[:d], lagged, lagged_scores)


def unstacked(structure: Structure) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weights and strengths of `structure` as arguments of `stacked`, `[(lags + 1)·d, d]`: W above A₁, A₂, ..."""
    d = len(structure.variables)
    lagged = np.zeros((0, d, d)) if structure.lagged is None else structure.lagged
    within = np.abs(structure.weights) if structure.scores is None else structure.scores
    past = np.abs(lagged) if structure.lagged_scores is None else structure.lagged_scores
    return np.vstack([structure.weights, *lagged]), np.vstack([within, *past])
