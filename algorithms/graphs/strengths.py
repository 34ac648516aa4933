"""How many of many structures have each edge, and which way round: its strength and its direction.

Sources: Friedman, Goldszmidt, Wyner 1999, "Data analysis with Bayesian networks: a bootstrap approach"; `boot.strength`
of R's bnlearn (Scutari 2010), whose words these are. The strength of a pair is the share of structures in which it is
joined, either way; the direction i → j is the share of those in which the edge points from i to j. An edge that is not
directed counts as half an edge each way.

The averaged network of many structures: the edges that are strong enough, the way most structures have them.

Source: Scutari, Nagarajan 2013, "Identifying significant edges in graphical models of molecular networks";
`inclusion.threshold` and `averaged.network` of R's bnlearn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dag import reachable
from .edges import Edge, LaggedEdge, edges_of, padded_lagged_weights
from .pag import ARROW
from .structure import GraphKind, Structure


@dataclass(frozen=True)
class Strengths:
    """How many of `structures` structures over `variables` have each edge."""

    variables: tuple[str, ...]
    structures: int
    arrows: NDArray[np.float64]
    """how many have i → j, `[d, d]`"""
    lines: NDArray[np.float64]
    """how many join i and j by an edge that is not directed, `[d, d]`, symmetric"""
    at_lags: NDArray[np.float64]
    """how many have i → j at each lag, `[lags, d, d]`"""
    dags: bool
    """whether all of the structures are DAGs"""

    @property
    def joined(self) -> NDArray[np.float64]:
        """How many of the structures join i and j, `[d, d]`, symmetric."""
        return self.arrows + self.arrows.T + self.lines

    @property
    def strength(self) -> NDArray[np.float64]:
        """The share of the structures in which i and j are joined, `[d, d]`, symmetric."""
        return self.joined / self.structures

    @property
    def lagged(self) -> NDArray[np.float64]:
        """The share of the structures that have i → j at each lag, `[lags, d, d]`."""
        return self.at_lags / self.structures

    @property
    def direction(self) -> NDArray[np.float64]:
        """Of the structures that join i and j, the share in which i → j, `[d, d]`; 0 where none joins them."""
        joined = self.joined
        return np.divide(self.arrows + self.lines / 2, joined, out=np.zeros_like(joined), where=joined > 0)

    def of(self, edge: Edge) -> tuple[float, float | None]:
        """Strength and direction of `edge` from its source to its target; None where no structure has it.

        Time gives lagged edges their direction.
        """
        i, j = self.variables.index(edge.source), self.variables.index(edge.target)
        if isinstance(edge, LaggedEdge):
            share = float(self.lagged[edge.lag - 1, i, j]) if edge.lag <= len(self.at_lags) else 0.0
            return share, 1.0 if share else None
        strength = float(self.strength[i, j])
        return strength, float(self.direction[i, j]) if strength else None


def edge_strengths(structures: Sequence[Structure]) -> Strengths:
    """How many of the `structures`, all over the same variables, have each edge."""
    lags = max(one.lags for one in structures)
    pointing = [_arrows_and_lines(one) for one in structures]
    return Strengths(
        structures[0].variables,
        len(structures),
        np.sum([arrows for arrows, _ in pointing], axis=0, dtype=np.float64),
        np.sum([lines for _, lines in pointing], axis=0, dtype=np.float64),
        np.sum([padded_lagged_weights(one, lags) != 0 for one in structures], axis=0, dtype=np.float64),
        all(one.kind == "dag" for one in structures),
    )


def _arrows_and_lines(structure: Structure) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where i → j, and where an edge points neither way, or both, `[d, d]` each.

    In a PAG an edge points from i to j if it has an arrow head at j alone, whatever its mark at i.
    """
    edges = edges_of(structure)
    arrows, lines = np.zeros((2, *structure.weights.shape), np.bool_)
    one_way = (edges[:, 3] == ARROW) & (edges[:, 2] != ARROW)
    arrows[edges[one_way, 0], edges[one_way, 1]] = True
    lines[edges[~one_way, 0], edges[~one_way, 1]] = True
    both = arrows & arrows.T
    return arrows & ~both, lines | lines.T | both


def edge_shares(strengths: Strengths) -> NDArray[np.float64]:
    """The strengths of all edges that there might be: of every pair of variables, and at every lag."""
    pairs = strengths.strength[np.triu_indices(len(strengths.variables), 1)]
    return np.concatenate([pairs, strengths.lagged.ravel()])


def inclusion_threshold(strengths: NDArray[np.float64]) -> float:
    """The strength that an edge must exceed to be significant, given those of all possible edges `[n]`.

    If it were certain of each edge whether it is there, all strengths were 0 or 1, and their empirical distribution
    function F a constant t between 0 and 1: the share of edges that are not there. The threshold is F⁻¹(t) for that t
    whose distance ∫|F(x) − t|dx over [0, 1] is least (Scutari & Nagarajan 2013, §3.2). As F does not fall, the median
    of its values is t = F(½), and the threshold the greatest strength that is not above ½. So the significant edges
    are those that more than half of the structures have. 0 if there is no such strength.
    """
    at_most_half = strengths[strengths <= 0.5]
    return float(at_most_half.max(initial=0.0))


def averaged_network(strengths: Strengths) -> Structure:
    """The averaged network: of the significant edges the strongest first, each unless it closes a cycle.

    An edge points the way it has in more than half of the structures that have it; without such a majority it is not
    directed. So what most CPDAGs leave open stays open, where bnlearn directs it by any chance majority among the
    others; of DAGs both give the same. If all structures are DAGs and no edge has both ways equally often, the network
    is a DAG, else a CPDAG in form: it need not be the class of a DAG. Its weights are 1.
    """
    threshold = inclusion_threshold(edge_shares(strengths))
    found = np.zeros(strengths.arrows.shape, np.bool_)
    arrows = np.zeros_like(found)
    for i, j in _strongest_first(strengths, threshold):
        if not 2 * strengths.arrows[i, j] > strengths.joined[i, j]:
            found[i, j] = found[j, i] = True
        elif not reachable(arrows, (j,))[i]:
            found[i, j] = arrows[i, j] = True
    kind: GraphKind = "cpdag" if not strengths.dags or (found & found.T).any() else "dag"
    lagged = (strengths.lagged > threshold).astype(np.float64) if len(strengths.at_lags) else None
    return Structure(strengths.variables, found.astype(np.float64), kind, lagged=lagged)


def _strongest_first(strengths: Strengths, threshold: float) -> list[tuple[int, int]]:
    """The significant pairs, each the way most structures have it: by strength, then by direction."""
    strength, direction = strengths.strength, strengths.direction
    pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(strength) > threshold)]
    turned = [(i, j) if direction[i, j] >= direction[j, i] else (j, i) for i, j in pairs]
    return sorted(turned, key=lambda pair: (-strength[pair], -direction[pair], pair))
