"""Strength and direction of each edge over many structures, and their averaged network.

The strength of a pair of variables is the share of structures that join it. The direction i → j is the share of these
structures in which the edge points from i to j; an undirected edge counts as half an edge in each direction. The
averaged network has the edges of significant strength, with their majority directions.

Sources: Friedman, Goldszmidt, Wyner 1999, "Data analysis with Bayesian networks: a bootstrap approach"; `boot.strength`
of R's bnlearn (Scutari 2010), which introduced the terms; Scutari, Nagarajan 2013, "Identifying significant edges in
graphical models of molecular networks"; `inclusion.threshold` and `averaged.network` of R's bnlearn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dag import reachable
from .edges import Edge, edges_of, padded_lagged_weights
from .pag import ARROW
from .structure import GraphKind, Structure

SURE = 0.8
"""share of the structures with an edge above which they agree with its direction"""
MAJORITY = 0.5
"""the strength of a significant edge is above this share of the structures"""


@dataclass(frozen=True)
class Strengths:
    """For each possible edge over `variables`, how many of all structures have it; `structures` is their number."""

    variables: tuple[str, ...]
    structures: int
    arrows: NDArray[np.float64]
    """number of structures with i → j, `[d, d]`"""
    lines: NDArray[np.float64]
    """number of structures whose edge between i and j points in neither or in both directions, `[d, d]`, symmetric"""
    lagged_counts: NDArray[np.float64]
    """number of structures with i → j at each lag, `[lags, d, d]`"""
    dags: bool
    """whether all structures are DAGs"""

    @property
    def joined(self) -> NDArray[np.float64]:
        """The number of structures that join i and j, `[d, d]`, symmetric."""
        return self.arrows + self.arrows.T + self.lines

    @property
    def strength(self) -> NDArray[np.float64]:
        """The share of structures that join i and j, `[d, d]`, symmetric."""
        return self.joined / self.structures

    @property
    def lagged(self) -> NDArray[np.float64]:
        """The share of structures with i → j at each lag, `[lags, d, d]`."""
        return self.lagged_counts / self.structures

    @property
    def direction(self) -> NDArray[np.float64]:
        """Of the structures that join i and j, the share with i → j, `[d, d]`; 0 if there are none.

        An edge in `lines` counts as half an edge in each direction.
        """
        joined = self.joined
        return np.divide(self.arrows + self.lines / 2, joined, out=np.zeros_like(joined), where=joined > 0)

    def strength_and_direction(self, edge: Edge) -> tuple[float | None, float | None]:
        """The strength of `edge`, and its direction from source to target: None if no structure joins its variables.

        The direction of a lagged edge is 1, because time determines it. Both are None for an edge to a survival
        outcome, which the structures do not have.
        """
        if edge.target not in self.variables:
            return None, None
        i, j = self.variables.index(edge.source), self.variables.index(edge.target)
        if edge.lag:
            share = float(self.lagged[edge.lag - 1, i, j]) if edge.lag <= len(self.lagged_counts) else 0.0
            return share, 1.0 if share else None
        strength = float(self.strength[i, j])
        return strength, float(self.direction[i, j]) if strength else None

    def doubtful(self, edge: Edge) -> bool:
        """Whether the edge is directed, but fewer than `SURE` of the structures with it agree with its direction."""
        direction = self.strength_and_direction(edge)[1]
        return edge.category != "missing" and edge.one_way and direction is not None and direction < SURE

    def unstable(self, edge: Edge) -> bool:
        """Whether at most half of the structures join the variables of `edge`; the averaged network then does not."""
        strength = self.strength_and_direction(edge)[0]
        return strength is not None and strength <= MAJORITY


def edge_strengths(structures: Sequence[Structure]) -> Strengths:
    """The strengths over `structures`, which must have the same variables."""
    lags = max(one.lags for one in structures)
    edge_matrices = [_arrow_matrices(one) for one in structures]
    return Strengths(
        structures[0].variables,
        len(structures),
        np.sum([arrows for arrows, _ in edge_matrices], axis=0, dtype=np.float64),
        np.sum([lines for _, lines in edge_matrices], axis=0, dtype=np.float64),
        np.sum([padded_lagged_weights(one, lags) != 0 for one in structures], axis=0, dtype=np.float64),
        all(one.kind == "dag" for one in structures),
    )


def _arrow_matrices(structure: Structure) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where i → j, and where an edge is undirected or has both directions, `[d, d]` each.

    In a PAG an edge points from i to j if it has an arrow head at j only, with any other mark at i.
    """
    edges = edges_of(structure)
    arrows, lines = np.zeros((2, *structure.weights.shape), np.bool_)
    one_way = (edges[:, 3] == ARROW) & (edges[:, 2] != ARROW)
    arrows[edges[one_way, 0], edges[one_way, 1]] = True
    lines[edges[~one_way, 0], edges[~one_way, 1]] = True
    both = arrows & arrows.T
    return arrows & ~both, lines | lines.T | both


def edge_shares(strengths: Strengths) -> NDArray[np.float64]:
    """The strengths of all possible edges: of every pair of variables, and at every lag."""
    pairs = strengths.strength[np.triu_indices(len(strengths.variables), 1)]
    return np.concatenate([pairs, strengths.lagged.ravel()])


def inclusion_threshold(strengths: NDArray[np.float64]) -> float:
    """The strength that a significant edge must exceed, from the strengths of all possible edges `[n]`.

    If every edge were certain, all strengths would be 0 or 1, and their empirical distribution function F would be
    constant on [0, 1), with the share t of absent edges as its value. The threshold is F⁻¹(t) for the t with the least
    distance ∫|F(x) − t|dx over [0, 1] (Scutari & Nagarajan 2013, §3.2). F is nondecreasing, so the minimiser is the
    median of its values, t = F(½), and the threshold is the greatest strength that is at most ½, or 0 if there is none.
    So an edge is significant if more than half of the structures have it.
    """
    at_most_half = strengths[strengths <= MAJORITY]
    return float(at_most_half.max(initial=0.0))


def averaged_network(strengths: Strengths) -> Structure:
    """The averaged network: the significant edges, strongest first, without directed edges that would close a cycle.

    An edge has a direction if more than half of the structures with the edge agree on it; otherwise it is undirected.
    So edges that most CPDAGs leave undirected stay undirected. (bnlearn directs them by a chance majority among the
    other structures. For DAGs both rules agree.) The network is a DAG if all structures are DAGs and no significant
    edge has both directions equally often. Otherwise it has the edge types of a CPDAG, but there may be no DAG whose
    CPDAG it is. All weights are 1.
    """
    threshold = inclusion_threshold(edge_shares(strengths))
    edges = np.zeros(strengths.arrows.shape, np.bool_)
    arrows = np.zeros_like(edges)
    for i, j in _strongest_first(strengths, threshold):
        if not 2 * strengths.arrows[i, j] > strengths.joined[i, j]:
            edges[i, j] = edges[j, i] = True
        elif not reachable(arrows, (j,))[i]:
            edges[i, j] = arrows[i, j] = True
    kind: GraphKind = "cpdag" if not strengths.dags or (edges & edges.T).any() else "dag"
    lagged = (strengths.lagged > threshold).astype(np.float64) if len(strengths.lagged_counts) else None
    return Structure(strengths.variables, edges.astype(np.float64), kind, lagged=lagged)


def _strongest_first(strengths: Strengths, threshold: float) -> list[tuple[int, int]]:
    """The significant pairs in their most frequent direction, sorted by strength, then by direction."""
    strength, direction = strengths.strength, strengths.direction
    pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(strength) > threshold)]
    oriented = [(i, j) if direction[i, j] >= direction[j, i] else (j, i) for i, j in pairs]
    return sorted(oriented, key=lambda pair: (-strength[pair], -direction[pair], pair))
