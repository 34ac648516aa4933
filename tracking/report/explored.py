"""Where the variables and edges of a structure lie that a reader can explore, and in which order a matrix has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedbnsl.algorithms.graphs.edge_classes import Edge, classify
from fedbnsl.algorithms.graphs.lagged_edges import LaggedEdge, classify_lagged
from fedbnsl.algorithms.graphs.structure import Structure

from ..pictures.drawing import LONGEST_NAME, box_width
from ..pictures.heat_map import causal_order
from ..pictures.layout import Layout, layered
from ..pictures.style import in_order_of_trust, shortened

DRAWN = 3000
"""edges up to which a graph can be explored; of more there is the matrix alone"""
LAID_OUT = 1500
"""edges up to which those across time have a say in where variables lie"""
DOTS = 72.0
"""units in an inch of the layout"""

APART = 2.5
"""how much further apart variables lie beside each other where edges across time go between them"""

Point = tuple[float, float]


@dataclass(frozen=True)
class Explored:
    """A structure laid out: y grows downwards, and lengths are points.

    `places` has x, y and width of each variable, none where there are too many edges to draw. `ways` are the points
    that an edge passes from its source to its target, for those that do not go straight.
    """

    variables: tuple[str, ...]
    edges: tuple[Edge, ...]
    places: tuple[tuple[float, float, float], ...]
    ways: Mapping[Edge, tuple[Point, ...]]
    order: tuple[int, ...]
    """the variables, causes before effects"""
    lags: int
    compared: bool


def compared_edges(structure: Structure, truth: Structure | None) -> tuple[list[Edge], list[LaggedEdge], bool]:
    """Return the edges within one time, those across, and whether both were compared with `truth`.

    A truth of time series that says only who drives whom is no measure of edges at one lag.
    """
    measure = None if truth is None or (structure.lags and not truth.lags) else truth
    return list(classify(structure, measure)), list(classify_lagged(structure, measure)), measure is not None


def explored(structure: Structure, truth: Structure | None) -> Explored:
    """Return `structure` laid out, its edges compared with `truth` as `compared_edges` does."""
    within, lagged, compared = compared_edges(structure, truth)
    edges = (*within, *lagged)
    places, ways = _places(structure.variables, within, lagged) if len(edges) <= DRAWN else ((), {})
    return Explored(
        structure.variables,
        edges,
        places,
        ways,
        tuple(causal_order(structure.variables, within)),
        max((edge.lag for edge in lagged), default=0),
        compared,
    )


def _places(
    variables: Sequence[str], within: Sequence[Edge], lagged: Sequence[LaggedEdge]
) -> tuple[tuple[tuple[float, float, float], ...], dict[Edge, tuple[Point, ...]]]:
    """Return the places of the variables and the ways of the edges within one time."""
    ordered, arcs = in_order_of_trust(variables, within)
    at = {name: number for number, name in enumerate(variables)}
    joined = {frozenset(arc) for arc in arcs}
    across = dict.fromkeys((at[edge.source], at[edge.target]) for edge in lagged if not edge.own)
    if len(arcs) + len(across) <= LAID_OUT:
        for arc in across:
            if frozenset(arc) not in joined:
                joined.add(frozenset(arc))
                arcs.append(arc)
    layout = layered([box_width(shortened(name, LONGEST_NAME)) for name in variables], arcs)
    boxes = zip(layout.centres.tolist(), layout.widths.tolist(), strict=True)
    wider = APART if lagged else 1.0
    places = tuple((*_point(wider * x, y), round(DOTS * width, 1)) for (x, y), width in boxes)
    ways = {edge: _way(layout, number, edge, wider) for number, edge in enumerate(ordered)}
    return places, {edge: way for edge, way in ways.items() if way}


def _way(layout: Layout, number: int, edge: Edge, wider: float) -> tuple[Point, ...]:
    """Return the points between the ends of the route `number`, from the source of `edge` to its target."""
    turned = edge.category == "reversed" and edge.one_way
    points = tuple(_point(wider * x, y) for x, y in layout.routes[number][1:-1].tolist())
    return points if layout.down[number] != turned else points[::-1]


def _point(x: float, y: float) -> Point:
    return round(DOTS * x, 1), round(-DOTS * y, 1)
