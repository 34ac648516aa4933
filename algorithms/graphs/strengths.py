"""How many of many structures have each edge, and which way round: its strength and its direction.

Sources: Friedman, Goldszmidt, Wyner 1999, "Data analysis with Bayesian networks: a bootstrap approach"; `boot.strength`
of R's bnlearn (Scutari 2010), whose words these are. The strength of a pair is the share of structures in which it is
joined, either way; the direction i → j is the share of those in which the edge points from i to j. An edge that is not
directed counts as half an edge each way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .edge_classes import Edge
from .edges import edges_of
from .lagged_edges import LaggedEdge, lagged_of
from .marks import ARROW
from .structure import Structure


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
        """Return strength and direction of `edge` from its source to its target; None where no structure has it.

        Time gives lagged edges their direction.
        """
        i, j = self.variables.index(edge.source), self.variables.index(edge.target)
        if isinstance(edge, LaggedEdge):
            share = float(self.lagged[edge.lag - 1, i, j]) if edge.lag <= len(self.at_lags) else 0.0
            return share, 1.0 if share else None
        strength = float(self.strength[i, j])
        return strength, float(self.direction[i, j]) if strength else None


def strengths_of(structures: Sequence[Structure]) -> Strengths:
    """Return how many of the `structures`, all over the same variables, have each edge."""
    lags = max(one.lags for one in structures)
    pointing = [_arrows_and_lines(one) for one in structures]
    return Strengths(
        structures[0].variables,
        len(structures),
        np.sum([arrows for arrows, _ in pointing], axis=0, dtype=np.float64),
        np.sum([lines for _, lines in pointing], axis=0, dtype=np.float64),
        np.sum([lagged_of(one, lags) != 0 for one in structures], axis=0, dtype=np.float64),
        all(one.kind == "dag" for one in structures),
    )


def _arrows_and_lines(structure: Structure) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where i → j, and where an edge points neither way, or both, `[d, d]` each.

    In a PAG an edge points from i to j if it has an arrow head at j alone, whatever its mark at i.
    """
    edges = edges_of(structure)
    arrows, lines = np.zeros((2, *structure.weights.shape), np.bool_)
    one_way = (edges[:, 3] == ARROW) & (edges[:, 2] != ARROW)
    arrows[edges[one_way, 0], edges[one_way, 1]] = True
    lines[edges[~one_way, 0], edges[~one_way, 1]] = True
    both = arrows & arrows.T
    return arrows & ~both, lines | lines.T | both
