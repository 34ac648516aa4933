"""The figures of a graph's edges: what each edge adds to the fit, and its p-values (`diagnosis/edge_figures.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from .edges import Edge, LaggedEdge

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
    if isinstance(edge, LaggedEdge):
        return edge.source, edge.target, edge.lag
    first, second = sorted((edge.source, edge.target))
    return first, second, 0


def known_figures(figures: Mapping[EdgeKey, EdgeFigures]) -> tuple[str, ...]:
    """The names of the figures that at least one edge has."""
    return tuple(name for name in FIGURES if any(getattr(one, name) is not None for one in figures.values()))
