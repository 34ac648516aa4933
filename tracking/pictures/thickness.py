"""How thick the lines of edges are: the heavier, or, where resamples tell, the more of them have the edge."""

from collections.abc import Callable, Iterable

from fedbnsl.algorithms.graphs.edge_classes import Edge
from fedbnsl.algorithms.graphs.strengths import Strengths

Thickness = Callable[[Edge], float]
"""edge -> what is added to the line width of its category, in points"""


def thickness(edges: Iterable[Edge], strengths: Strengths | None) -> Thickness:
    """Return the thickness of `edges`: by their strengths, or, without these, by weight among them."""
    if strengths is not None:
        return lambda edge: 3.0 * strengths.of(edge)[0] - 0.6
    heaviest = max((abs(edge.weight or 0.0) for edge in edges), default=0.0) or 1.0
    return lambda edge: 0.9 * abs(edge.weight or 0.0) / heaviest
