"""How thick the lines of edges are: the heavier, or, where resamples tell, the more of them have the edge."""

from collections.abc import Callable, Iterable

from fedbnsl.algorithms.graphs.edge_classes import Edge
from fedbnsl.algorithms.graphs.strengths import Strengths

from .style import STYLES

Thickness = Callable[[Edge], float]
"""edge -> its line width in points"""


def thickness(edges: Iterable[Edge], strengths: Strengths | None) -> Thickness:
    """Return the thickness of `edges`: by their strengths alone, or, without these, by category and weight."""
    if strengths is not None:
        return lambda edge: 0.5 + 2.0 * strengths.of(edge)[0]
    heaviest = max((abs(edge.weight or 0.0) for edge in edges), default=0.0) or 1.0
    return lambda edge: STYLES[edge.category].width + 0.9 * abs(edge.weight or 0.0) / heaviest
