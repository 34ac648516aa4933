"""A structure drawn as a graph: layers of named boxes, and edges that never cross a box.

`style.py` has the styles of edges by category, their line widths, and their order in the layout.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.graphs.edges import Edge
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE

from .layout import FloatArray, layered
from .style import (
    INK,
    NO_MARKS,
    STYLES,
    UNSTABLE_OPACITY,
    Marks,
    Pen,
    layout_order,
    legend_entries,
    pens,
    truncate,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

FONT_SIZE = 8.5
LONGEST_NAME = 18
HEAD = 0.11
"""length of an arrowhead, inches"""
RING = 0.038
"""radius of a circle mark, inches"""
LEGEND, LEGEND_ROW, TITLE = 0.4, 0.19, 0.35
"""heights of a legend of one row, of each further row, and of a title, inches"""
MARGIN = 0.2
MIN_WIDTH = 4.8
"""minimum width of a figure, inches"""
FILL, LABELS_FILL = "#f2f5f9", "#fbeedd"
"""colours of boxes: the default, and the colour for variables with labels if other variables have numbers"""
NOT_IDENTIFIED = "#a9b2bd"
"""colour of the dotted line between two variables that no row observes together"""
BAND, BAND_WIDTH = "#f0e442", 6.0
"""colour and width, in points, of the band behind a required edge"""
TARGET, TARGET_WIDTH = "#8a2da5", 2.2
"""colour and width, in points, of the border of a variable that an experiment set"""


SIGNS = {
    "conditional independences": ("by independences", "^", "△"),
    "conditional independences or non-Gaussian errors": ("by independences or errors", "v", "▽"),
    "equal variances": ("by equal variances", "o", "○"),
    "non-Gaussian errors": ("by non-Gaussian errors", "h", "⬡"),
    "additive errors": ("by additive errors", "p", "⬠"),
    "background knowledge": ("by knowledge", "s", "□"),
    "experiments": ("by experiments", "D", "◇"),
    "survival outcome": ("into survival outcomes", "*", "☆"),
    "time": ("by time", ">", "▷"),
}
"""by what a direction rests on, its words in the legend, and the sign on the line, drawn and as a letter"""


def draw_graph(
    variables: Sequence[str], edges: Sequence[Edge], compared: bool, title: str, marks: Marks = NO_MARKS
) -> "Figure":
    """A figure as large as the graph needs: one inch of layout is one inch on paper.

    Line widths show the strengths or, without strengths, the weights. Required edges have a yellow band. A line has a
    sign for what its direction rests on, unless this is what most directions rest on. If other variables have numbers,
    variables with labels have square, tinted boxes. Dotted lines without marks join the pairs that are not identified;
    these lines come last in the layout. Boxes of targets have a thick border.
    """
    from matplotlib.figure import Figure

    names, (ordered, arcs) = [truncate(name, LONGEST_NAME) for name in variables], layout_order(variables, edges)
    index = {name: place for place, name in enumerate(variables)}
    pairs = [(index[one], index[other]) for one, other in marks.not_identified]
    layout = layered([box_width(name) for name in names], [*arcs, *pairs])
    left, bottom, right, top = layout.bounds
    legend = fitted_legend(edges, compared, marks, right - left)
    width = max(right - left + 2 * MARGIN, MIN_WIDTH, legend.width)
    height = top - bottom + 2 * MARGIN + legend.height + (TITLE if title else 0.0)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    middle = (left + right) / 2
    axes.set(xlim=(middle - width / 2, middle + width / 2), ylim=(bottom - MARGIN, bottom - MARGIN + height))
    axes.axis("off")
    pen, signed = pens(edges, marks), marks.signed(edges)
    for route in layout.routes[len(arcs) :]:
        _draw_dots(axes, route)
    for edge, route, down in zip(ordered, layout.routes, layout.down, strict=False):
        downwards = down if not (edge.category == "reversed" and edge.one_way) else not down
        _draw_edge(axes, edge, route, downwards, pen(edge))
        if marks.is_required(edge):
            _draw_band(axes, route)
        basis = marks.basis_of(edge)
        if basis in signed:
            colour = STYLES[edge.category].colour
            axes.plot(*route_middle(route), SIGNS[basis][1], c=colour, ls="", ms=5.5, mfc="white", zorder=4)
    for variable, name, (x, y), box in zip(variables, names, layout.centres, layout.widths, strict=True):
        given = {"labels": variable in marks.labels, "target": variable in marks.targets}
        draw_box(axes, name, x, y, box, layout.height, **given)
    write_header(axes, title, legend, middle, top + MARGIN)
    return figure


def box_width(name: str) -> float:
    """The width of a box with this name, in inches."""
    return max(0.42, 0.2 + 0.0092 * FONT_SIZE * len(name))


def _draw_band(axes: "Axes", route: FloatArray) -> None:
    """Draw the band behind a required edge."""
    from matplotlib.patches import PathPatch

    band = PathPatch(route_path(route), fill=False, edgecolor=BAND, linewidth=BAND_WIDTH, capstyle="butt")
    band.set_zorder(1)
    axes.add_artist(band)


def _draw_dots(axes: "Axes", route: FloatArray) -> None:
    """Draw the dotted line between two variables that no row observes together."""
    from matplotlib.patches import PathPatch

    line = PathPatch(route_path(route), fill=False, edgecolor=NOT_IDENTIFIED, linewidth=1.0, linestyle=":")
    line.set_zorder(1)
    axes.add_artist(line)


def _draw_edge(axes: "Axes", edge: Edge, route: FloatArray, downwards: bool, pen: Pen) -> None:
    """Draw an edge with its marks.

    `downwards` is whether the source of the edge is at the upper end of the route.
    """
    colour, route = STYLES[edge.category].colour, route.copy()
    ends = (edge.at_source, edge.at_target) if downwards else (edge.at_target, edge.at_source)
    for mark, end, inwards in zip(ends, (0, -1), (-1, 1), strict=True):
        route[end, 1] += inwards * _draw_mark(axes, mark, route[end].copy(), inwards, colour, pen)
    draw_path(axes, edge, route_path(route), pen)


def draw_path(axes: "Axes", edge: Edge, path: "Path", pen: Pen) -> None:
    """Draw the line of an edge along `path`."""
    from matplotlib.patches import PathPatch

    style = STYLES[edge.category]
    line = PathPatch(path, fill=False, ec=style.colour, lw=pen.width, ls=style.line, capstyle="butt", alpha=pen.opacity)
    line.set_zorder(2 if edge.category in ("right", "learned") else 3)
    axes.add_artist(line)


def _draw_mark(axes: "Axes", mark: int, tip: FloatArray, inwards: int, colour: str, pen: Pen) -> float:
    """Draw a mark that touches a box at `tip` from above or below; returns the gap between the line and the box."""
    from matplotlib.patches import Circle, Polygon

    if mark == ARROW:
        wing = 0.36 + 0.06 * pen.width
        corners = tip + inwards * HEAD * np.array([(0.0, 0.0), (-wing, 1.0), (wing, 1.0)])
        fill, line = ("white", 0.9) if pen.hollow else (colour, 0.0)
        head = Polygon(corners, closed=True, fc=fill, ec=colour, linewidth=line, zorder=4, alpha=pen.opacity)
        axes.add_artist(head)
        return HEAD if pen.hollow else 0.8 * HEAD
    if mark == CIRCLE:
        centre = tip + np.array([0.0, inwards * RING])
        axes.add_artist(Circle((centre[0], centre[1]), RING, facecolor="white", edgecolor=colour, lw=1.1, zorder=4))
        return 2 * RING
    return 0.0


def route_path(route: FloatArray, bend: tuple[float, float] = (0.0, 0.55)) -> "Path":
    """A route of the layout as a curve, with S-curves between the layers and straight lines through the layers.

    The control points of an S-curve are at the shares `bend` of the way from its ends.
    """
    from matplotlib.path import Path

    vertices, codes = [route[0]], [Path.MOVETO]
    for number, (start, end) in enumerate(pairwise(route)):
        if number % 2:
            vertices.append(end)
            codes.append(Path.LINETO)
        else:
            handle = (end - start) * bend
            vertices += [start + handle, end - handle, end]
            codes += [Path.CURVE4] * 3
    return Path(np.array(vertices), codes)


def route_middle(route: FloatArray) -> FloatArray:
    """The point halfway along a route."""
    steps = np.linalg.norm(np.diff(route, axis=0), axis=1)
    along = np.concatenate([[0.0], steps.cumsum()])
    return np.array([np.interp(along[-1] / 2, along, values) for values in route.T])


def draw_box(
    axes: "Axes",
    name: str,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    labels: bool = False,
    target: bool = False,
) -> None:
    """Draw the box of a variable around (`x`, `y`) with its name; the box is square if the variable has `labels`.

    The box of a `target` of experiments has a thick border.
    """
    from matplotlib.patches import FancyBboxPatch

    inset = 0.09
    shape = f"square,pad={inset}" if labels else f"round,pad={inset},rounding_size={inset}"
    fill = LABELS_FILL if labels else FILL
    corner = (x - width / 2 + inset, y - height / 2 + inset)
    edge, line = (TARGET, TARGET_WIDTH) if target else ("#4a5a6e", 0.9)
    box = FancyBboxPatch(corner, width - 2 * inset, height - 2 * inset, shape, fc=fill, ec=edge, lw=line)
    box.set_zorder(5)
    axes.add_artist(box)
    label = axes.text(x, y, name, ha="center", va="center_baseline", fontsize=FONT_SIZE, color=INK, zorder=6)
    label.set_parse_math(False)


@dataclass(frozen=True)
class Legend:
    """The entries of a legend in rows and columns, and its width and height in inches."""

    handles: Sequence["Artist"]
    columns: int
    width: float
    height: float


def fitted_legend(edges: Sequence[Edge], compared: bool, marks: Marks, room: float) -> Legend:
    """The legend of a picture, in as few rows as fit into `room` inches and into `MIN_WIDTH`."""
    handles = _legend_handles(edges, compared, marks)
    widths = [0.66 + 0.068 * len(str(handle.get_label())) for handle in handles]
    for rows in range(1, len(handles) + 1):
        # Matplotlib fills columns from above.
        columns = math.ceil(len(handles) / rows)
        width = sum(max(part) for part in np.array_split(widths, columns))
        if width <= max(room, MIN_WIDTH):
            break
    return Legend(handles, columns, width, LEGEND + LEGEND_ROW * (rows - 1))


def _legend_handles(edges: Sequence[Edge], compared: bool, marks: Marks) -> list["Artist"]:
    """The entries of the legend: categories of edges, what directions rest on, further marks, and kinds of boxes."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    learned = [edge for edge in edges if edge.category != "missing"]
    unstable, doubtful = (sum(map(is_so, learned)) for is_so in (marks.unstable, marks.doubtful))
    required, apart = sum(map(marks.is_required, edges)), len(marks.not_identified)
    handles: list[Artist] = [
        Line2D([], [], color=STYLES[category].colour, linewidth=2.0, linestyle=STYLES[category].line, label=label)
        for category, label in legend_entries(edges, compared)
    ]
    signed = marks.signed(edges)
    for basis, number in marks.bases(edges):
        words, sign, _ = SIGNS[basis]
        shape: dict[str, Any] = {"marker": sign, "mfc": "white"} if basis in signed else {"marker": ">", "mfc": INK}
        handles.append(Line2D([], [], color=INK, lw=1.0, mec=INK, label=f"{number} {words}", **shape))
    if required:
        handles.append(Line2D([], [], color=BAND, linewidth=BAND_WIDTH, label=f"{required} required"))
    if unstable:
        handles.append(Line2D([], [], color=INK, linewidth=1.0, alpha=UNSTABLE_OPACITY, label=f"{unstable} unstable"))
    if doubtful:
        head = Line2D([], [], color=INK, linewidth=1.0, marker=">", mfc="white", mec=INK, markersize=6)
        head.set_label(f"{doubtful} of doubtful direction")
        handles.append(head)
    if apart:
        handles.append(Line2D([], [], color=NOT_IDENTIFIED, linestyle=":", label=f"{apart} not identified"))
    if marks.targets:
        targets = f"{len(marks.targets)} {marks.targets_label}"
        handles.append(Patch(fc=FILL, ec=TARGET, lw=TARGET_WIDTH, label=targets))
    for fill, kind in ((FILL, "numbers"), (LABELS_FILL, "labels")) if marks.labels else ():
        handles.append(Patch(fc=fill, ec="#4a5a6e", label=kind))
    return handles


def write_header(axes: "Axes", title: str, legend: Legend, middle: float, bottom: float) -> None:
    """Write the title, and below it the legend, whose lower edge is at `bottom`."""
    above = bottom + legend.height + TITLE / 2
    heading = axes.text(middle, above, title, ha="center", va="center", fontsize=10.5, color=INK)
    heading.set_parse_math(False)
    axes.legend(
        handles=legend.handles,
        loc="center",
        bbox_to_anchor=(middle, bottom + legend.height / 2),
        bbox_transform=axes.transData,
        ncols=legend.columns,
        frameon=False,
        fontsize=8.5,
        handlelength=3.0,
        columnspacing=1.5,
        borderpad=0,
    )
