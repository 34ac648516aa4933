"""The edges of the silos' own structures: the number of silos that have each edge, and the weights of the edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges, Edge, LaggedEdge


@dataclass(frozen=True)
class SiloEdge:
    """An edge of some silos' own structures, and its weight at each of these silos; None without weights."""

    edge: Edge
    weights: dict[str, float | None]
    turned: int
    """number of silos with the opposite edge within one time step"""

    @property
    def lag(self) -> int:
        """The lag of the edge's source in steps; 0 within one time step."""
        return self.edge.lag if isinstance(self.edge, LaggedEdge) else 0

    @property
    def known(self) -> list[float]:
        """The weights that are known."""
        return [weight for weight in self.weights.values() if weight is not None]

    @property
    def mean(self) -> float | None:
        """The mean weight over the silos that have the edge; None if no weight is known."""
        return fmean(self.known) if self.known else None


def silo_edges(structures: Mapping[str, ClassifiedEdges]) -> list[SiloEdge]:
    """Every edge of any silo's own structure, sorted by the number of silos, then by strength."""
    first: dict[str, Edge] = {}
    weights: dict[str, dict[str, float | None]] = {}
    for silo in sorted(structures):
        for edge in structures[silo]:
            first.setdefault(edge.text, edge)
            weights.setdefault(edge.text, {})[silo] = edge.weight
    directed = {(one.source, one.target): weights[text] for text, one in first.items() if _turns(one)}
    found = [
        SiloEdge(one, weights[text], len(directed.get((one.target, one.source), ())) if _turns(one) else 0)
        for text, one in first.items()
    ]
    return sorted(found, key=lambda one: (-len(one.weights), -abs(one.mean or 0.0), one.edge.text))


def _turns(edge: Edge) -> bool:
    """Whether the edge could have the opposite direction; not so for a lagged edge, whose direction is that of time."""
    return edge.directed and not isinstance(edge, LaggedEdge)
