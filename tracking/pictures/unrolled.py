"""A dynamic structure drawn over time: a column for each time from t − lags to t, and a row for each variable.

Lagged edges lead from an earlier column to the last column. Edges within one time step apply at every step but are
drawn once, as arcs to the right of the last column. An edge over several lags passes between the boxes of the columns
on its way. Lengths are inches.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedbnsl.algorithms.graphs.edges import Edge
from fedbnsl.algorithms.graphs.pag import ARROW

from .drawing import (
    HEAD,
    LONGEST_NAME,
    MARGIN,
    MIN_WIDTH,
    TITLE,
    draw_box,
    draw_path,
    fitted_legend,
    route_path,
    write_header,
)
from .layout import FloatArray
from .style import INK, NO_MARKS, STYLES, Marks, Pen, causal_order, pens, truncate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT, PITCH = 0.28, 0.46
"""height of a box, and distance between rows"""
HEADER = 0.35
ARC = 0.22
"""distance to which the control points of an arc extend to the right, in addition to a term that grows with the rows"""


End = Literal["source", "target"]
Ports = dict[tuple[Edge, End], float]
"""the height at which each edge touches the box at its source and at its target"""


@dataclass(frozen=True)
class Grid:
    """The positions of the boxes: rows from the top down, and columns from the left; the last column is time t."""

    row: dict[str, int]
    lags: int
    width: float
    """width of a box"""
    gap: float
    """distance between two columns"""

    def left(self, lag: int) -> float:
        """The x of the left side of the column of t − `lag`."""
        return (self.lags - lag) * (self.width + self.gap)

    def right(self, lag: int) -> float:
        """The x of the right side of the column of t − `lag`."""
        return self.left(lag) + self.width

    def y(self, name: str) -> float:
        """The y of the centres of the boxes of `name`."""
        return -PITCH * self.row[name]


def draw_unrolled(
    variables: Sequence[str],
    lags: int,
    within: Sequence[Edge],
    lagged: Sequence[Edge],
    compared: bool,
    title: str = "",
    marks: Marks = NO_MARKS,
) -> "Figure":
    """A figure of the edges `within` one time step and the `lagged` edges; W determines the order of the rows."""
    from matplotlib.figure import Figure

    order = causal_order(variables, within)
    names = {name: truncate(name, LONGEST_NAME) for name in variables}
    depth = PITCH * len(variables)
    width = max(0.42, 0.2 + 0.078 * max(map(len, names.values())))
    grid = Grid({variables[v]: at for at, v in enumerate(order)}, lags, width, float(np.clip(0.42 * depth, 1.5, 3.6)))
    reach = max((_reach(grid, edge) for edge in within), default=0.0)
    left, right = -MARGIN, grid.right(0) + 0.75 * reach + MARGIN + HEAD
    top, bottom = PITCH / 2 + HEADER, -depth + PITCH / 2 - MARGIN
    legend = fitted_legend([*within, *lagged], compared, marks, right - left)
    figure_width = max(right - left, MIN_WIDTH, legend.width)
    figure_height = top - bottom + legend.height + (TITLE if title else 0.0)
    figure = Figure(figsize=(figure_width, figure_height))
    axes = figure.add_axes((0, 0, 1, 1))
    middle = (left + right) / 2
    axes.set(
        xlim=(middle - figure_width / 2, middle + figure_width / 2),
        ylim=(bottom, bottom + figure_height),
        aspect="equal",
    )
    axes.axis("off")
    _draw_edges(axes, grid, within, lagged, marks)
    for lag in range(lags + 1):
        _draw_column(axes, grid, names, lag)
    write_header(axes, title, legend, middle, top)
    return figure


def _draw_edges(axes: "Axes", grid: Grid, within: Sequence[Edge], lagged: Sequence[Edge], marks: Marks) -> None:
    """Draw all edges; line widths show the strength, or the weight relative to edges of the same kind."""
    ports, tracks = _ports(grid, within, lagged), _tracks(grid, lagged)
    pen, lagged_pen = pens(within, marks), pens(lagged, marks)
    for edge in within:
        _draw_arc(axes, grid, edge, ports, pen(edge))
    for one in lagged:
        _draw_lagged(axes, grid, one, ports, tracks, lagged_pen(one))


def _ports(grid: Grid, within: Sequence[Edge], lagged: Sequence[Edge]) -> Ports:
    """The heights at which edges touch their boxes, spread over the side of a box so that few edges cross beside it.

    At each box, lagged edges are sorted by the rows of their other ends. Arcs that lead up are above arcs that lead
    down, and wider arcs enclose narrower ones.
    """
    sides: dict[tuple[str, int, str], list[tuple[float, tuple[Edge, End]]]] = defaultdict(list)
    for one in lagged:
        sides["right", one.lag, one.source].append((grid.row[one.target], (one, "source")))
        sides["left", 0, one.target].append((grid.row[one.source], (one, "target")))
    for edge in within:
        down = grid.row[edge.target] - grid.row[edge.source]
        sides["right", 0, edge.source].append((1 / down, (edge, "source")))
        sides["right", 0, edge.target].append((-1 / down, (edge, "target")))
    ports: Ports = {}
    for (_, _, name), ends in sides.items():
        step = min(0.09, 0.8 * HEIGHT / len(ends))
        for place, (_, end) in enumerate(sorted(ends, key=itemgetter(0))):
            ports[end] = grid.y(name) + step * ((len(ends) - 1) / 2 - place)
    return ports


def _draw_column(axes: "Axes", grid: Grid, names: dict[str, str], lag: int) -> None:
    """Draw the boxes of t − `lag` and the column heading."""
    x = grid.left(lag) + grid.width / 2
    time = f"t − {lag}" if lag else "t"
    axes.text(x, PITCH / 2 + HEADER / 2, time, ha="center", va="center", fontsize=9.5, color=INK)
    for name, shown in names.items():
        draw_box(axes, shown, x, grid.y(name), grid.width, HEIGHT)


def _draw_lagged(
    axes: "Axes",
    grid: Grid,
    edge: Edge,
    ports: Ports,
    tracks: dict[tuple[Edge, int], float],
    pen: Pen,
) -> None:
    """Draw an edge from an earlier column to the last column, on its track past the columns on its way."""
    start, end = ports[edge, "source"], ports[edge, "target"]
    points = [(grid.right(edge.lag), start)]
    for lag in range(edge.lag - 1, 0, -1):
        points += [(grid.left(lag), tracks[edge, lag]), (grid.right(lag), tracks[edge, lag])]
    points.append((grid.left(0) - 0.8 * HEAD, end))
    draw_path(axes, edge, route_path(np.array(points), (0.45, 0.0)), pen)
    _draw_head(axes, edge, np.array([grid.left(0), end]), -1.0, pen)


def _tracks(grid: Grid, lagged: Sequence[Edge]) -> dict[tuple[Edge, int], float]:
    """The y at which each edge passes each column on its way, between two rows and beside other edges."""
    between: dict[tuple[int, int], list[tuple[float, Edge]]] = defaultdict(list)
    for edge in lagged:
        start, end = grid.row[edge.source], grid.row[edge.target]
        for lag in range(1, edge.lag):
            row = end + (start - end) * lag / edge.lag
            between[lag, min(math.floor(row), max(grid.row.values()) - 1)].append((row, edge))
    tracks = {}
    for (lag, above), edges in between.items():
        step = min(0.03, 0.8 * (PITCH - HEIGHT) / len(edges))
        for place, (_, edge) in enumerate(sorted(edges, key=itemgetter(0))):
            tracks[edge, lag] = -PITCH * (above + 0.5) + step * ((len(edges) - 1) / 2 - place)
    return tracks


def _draw_arc(axes: "Axes", grid: Grid, edge: Edge, ports: Ports, pen: Pen) -> None:
    """Draw an edge within one time step, from the right side of a box at t to the right side of another box."""
    from matplotlib.path import Path

    x, bulge = grid.right(0), _reach(grid, edge)
    start, end = ports[edge, "source"], ports[edge, "target"]
    stops = [0.8 * HEAD if mark == ARROW else 0.0 for mark in (edge.at_source, edge.at_target)]
    vertices = [(x + stops[0], start), (x + bulge, start), (x + bulge, end), (x + stops[1], end)]
    draw_path(axes, edge, Path(vertices, [Path.MOVETO, *[Path.CURVE4] * 3]), pen)
    for mark, y in ((edge.at_source, start), (edge.at_target, end)):
        if mark == ARROW:
            _draw_head(axes, edge, np.array([x, y]), 1.0, pen)


def _reach(grid: Grid, edge: Edge) -> float:
    """The distance of the control points of an edge within one time step from the right side of its boxes."""
    return float(ARC + 0.62 * np.sqrt(abs(grid.row[edge.source] - grid.row[edge.target])))


def _draw_head(axes: "Axes", edge: Edge, tip: FloatArray, outwards: float, pen: Pen) -> None:
    """Draw an arrowhead that touches a box at `tip` from its right side (`outwards` 1) or its left side (−1)."""
    from matplotlib.patches import Polygon

    wing = 0.36 + 0.06 * STYLES[edge.category].width
    corners = tip + HEAD * np.array([(0.0, 0.0), (outwards, -wing), (outwards, wing)])
    colour = STYLES[edge.category].colour
    fill, line = ("white", 0.9) if pen.hollow else (colour, 0.0)
    axes.add_artist(Polygon(corners, closed=True, fc=fill, ec=colour, linewidth=line, zorder=4, alpha=pen.opacity))
