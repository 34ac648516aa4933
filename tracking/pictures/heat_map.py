"""Structures as matrices, for more variables than a drawn graph can show: rows are causes, columns are effects.

`draw_heat_map` shows a mark for each edge. `draw_matrices` shows the weights of a dynamic structure: W and every A_k
are side by side, with the true matrices below. Positive weights are blue, negative weights are red, and each matrix has
its own scale. Marks in the learned matrices show extra, missing and reversed edges.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.graphs.compare import summary_graph
from fedbnsl.algorithms.graphs.edges import Category, ClassifiedEdges, Edge, padded_lagged_weights
from fedbnsl.algorithms.graphs.pag import CIRCLE
from fedbnsl.algorithms.graphs.structure import Structure

from .drawing import NOT_IDENTIFIED
from .style import INK, STYLES, causal_order, legend_entries, truncate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_heat_map(
    variables: Sequence[str],
    edges: Sequence[Edge],
    compared: bool,
    title: str,
    not_identified: Collection[Arc] = (),
) -> "Figure":
    """A figure with a mark per edge and the variables in topological order of the true graph.

    True edges are above the diagonal; a mark in the shaded half contradicts the order. Undirected edges, and pairs that
    are `not_identified`, have marks in both cells. In a PAG, a white dot in row i and column j is a circle at j.
    """
    from matplotlib.figure import Figure

    d = len(variables)
    place = {variables[node]: rank for rank, node in enumerate(causal_order(variables, edges))}
    side = float(np.clip(0.085 * d, 6.5, 14.0))
    width, height = side + 1.2, side + (1.6 if title else 1.3)
    cell = 72 * side / d
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((1.0 / width, 0.35 / height, side / width, side / height))
    axes.set(xlim=(-0.5, d - 0.5), ylim=(d - 0.5, -0.5), aspect="equal")
    axes.fill([-0.5, d - 0.5, -0.5], [-0.5, d - 0.5, d - 0.5], color="#f1f1f1", linewidth=0, zorder=0)
    for category, label in legend_entries(edges, compared):
        _mark(axes, [edge for edge in edges if edge.category == category], category, place, cell, label)
    if not_identified:
        apart = [(place[one], place[other]) for pair in not_identified for one, other in (pair, pair[::-1])]
        label = f"{len(not_identified)} not identified"
        look: dict[str, Any] = {"color": NOT_IDENTIFIED, "linewidths": 0, "marker": "."}
        axes.scatter([x for x, _ in apart], [y for _, y in apart], s=(0.7 * cell) ** 2, label=label, zorder=2, **look)
    name_axes(axes, variables, place, cell)
    heading = figure.text(0.5, 1 - 0.2 / height, title, ha="center", va="center", fontsize=10.5, color=INK)
    heading.set_parse_math(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="center",
        bbox_to_anchor=(0.5, 1 - (0.5 if title else 0.2) / height),
        ncols=len(handles),
        frameon=False,
        fontsize=8.5,
        markerscale=max(1.0, 6.5 / (0.9 * cell)),
    )
    return figure


def _mark(
    axes: "Axes", edges: Sequence[Edge], category: Category, place: dict[str, int], cell: float, label: str
) -> None:
    style, size = STYLES[category], (0.9 * cell) ** 2
    cells = [(place[edge.source], place[edge.target]) for edge in edges]
    cells += [(place[edge.target], place[edge.source]) for edge in edges if not edge.directed]
    circles = [(place[edge.source], place[edge.target]) for edge in edges if edge.at_target == CIRCLE]
    circles += [(place[edge.target], place[edge.source]) for edge in edges if edge.at_source == CIRCLE]
    look: dict[str, Any] = {"color": style.colour, "linewidths": 0}
    if category == "missing":
        look = {"facecolors": "none", "edgecolors": style.colour, "linewidths": max(0.8, 0.14 * cell)}
        size *= 0.7
    columns, rows = [column for _, column in cells], [row for row, _ in cells]
    axes.scatter(columns, rows, s=size, marker=style.marker, label=label, zorder=3, **look)
    axes.scatter([at for _, at in circles], [at for at, _ in circles], s=0.2 * size, color="white", lw=0, zorder=4)


def name_axes(axes: "Axes", variables: Sequence[str], place: dict[str, int], cell: float) -> None:
    """Label as many variables as fit, and draw a grid line every ten."""
    step = max(1, int(np.ceil(5.2 / cell)))
    shown = sorted(variables, key=place.__getitem__)[::step]
    ticks = [place[name] for name in shown]
    size = float(np.clip(0.8 * cell * step, 4.0, 7.0))
    labels = [truncate(name, 12) for name in shown]
    axes.set_xticks(ticks, labels, fontsize=size, rotation=90)
    axes.set_yticks(ticks, labels, fontsize=size)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_parse_math(False)
    axes.xaxis.tick_top()
    axes.tick_params(length=1.5, pad=1.5)
    rules = np.arange(-0.5, len(variables), 10)
    axes.set_xticks(rules, minor=True)
    axes.set_yticks(rules, minor=True)
    axes.grid(which="minor", color="#dddddd", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    axes.set_xlabel("to (effect)", fontsize=8)
    axes.set_ylabel("from (cause)", fontsize=8)


DIFFERENCES: tuple[Category, ...] = ("extra", "missing", "reversed", "half-directed")
"""the categories of edges that differ from the true graph"""
COLOURS = "RdBu"
LEFT_INCHES, BELOW_INCHES, GAP_INCHES = 0.85, 0.35, 0.3
"""space to the left of a matrix for the row names, below it for the axis label, and between matrices"""
HEADING_INCHES, LETTER_INCHES, MAX_LABEL_LETTERS = 0.42, 0.06, 12
"""space above a matrix for its heading, and for each letter of the longest name; maximum number of letters of a name"""


def draw_matrices(edges: ClassifiedEdges, title: str = "") -> "Figure":
    """A figure of W and the A_k of a structure, and below them the matrices of the truth if it has lagged edges.

    A true graph without lags is a single matrix below, and the learned matrices then have no marks.
    """
    from matplotlib.figure import Figure

    structure, within, lagged = edges.structure, edges.within, edges.lagged
    names = structure.variables
    truth = None if edges.truth is None else edges.truth.reordered(names)
    lags = max(structure.lags, truth.lags if truth else 0)
    dynamic = truth if truth is not None and truth.lags else None
    order = causal_order(names, within)
    side = float(np.clip(0.085 * len(names), 2.4, 6.0))
    rows = 1 if truth is None else 2
    above = HEADING_INCHES + LETTER_INCHES * min(max(map(len, names)), MAX_LABEL_LETTERS)
    marked = [*within, *lagged] if dynamic else []
    header = 0.1 + 0.3 * bool(title) + 0.3 * any(edge.category in DIFFERENCES for edge in marked)
    width, height = (LEFT_INCHES + side) * (lags + 1) + GAP_INCHES, (above + side + BELOW_INCHES) * rows + header
    figure = Figure(figsize=(width, height))
    for row, shown in enumerate(one for one in (structure, truth) if one is not None):
        for k, matrix in enumerate(_matrices(shown, lags)):
            bottom = height - header - (row + 1) * (above + side + BELOW_INCHES) + BELOW_INCHES
            box = (LEFT_INCHES + k * (LEFT_INCHES + side), bottom, side, side)
            axes = figure.add_axes((box[0] / width, box[1] / height, side / width, side / height))
            _draw(axes, matrix[np.ix_(order, order)], names, order, 72 * side / len(names))
            axes.set_title(_heading(shown, k, learned=row == 0), fontsize=9, color=INK, pad=4)
            if row == 0 and dynamic:
                at_lag = within if k == 0 else [edge for edge in lagged if edge.lag == k]
                _mark_differences(axes, at_lag, {names[v]: at for at, v in enumerate(order)}, 72 * side / len(names))
    _write_header(figure, title, marked)
    return figure


def _matrices(structure: Structure, lags: int) -> list[NDArray[np.float64]]:
    """W and A_1 to A_`lags`; for a structure without lags, only its summary."""
    if not structure.lags:
        return [summary_graph(structure).weights]
    return [structure.weights, *padded_lagged_weights(structure, lags)]


def _heading(structure: Structure, k: int, *, learned: bool) -> str:
    """The heading of matrix k of `structure`."""
    whose = "learned" if learned else "true"
    if not structure.lags:
        return f"{whose}: effects at any lag"
    return f"{whose}: A, from t − {k}" if k else f"{whose}: W, within t"


def _draw(axes: "Axes", matrix: NDArray[np.float64], names: Sequence[str], order: Sequence[int], cell: float) -> None:
    """Draw one matrix, `[d, d]`, with variables in `order`; even the weakest edge has a fifth of the full colour."""
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    shown = np.where(matrix != 0, np.sign(matrix) * (0.2 + 0.8 * np.abs(matrix) / largest), 0.0)
    axes.imshow(shown, cmap=COLOURS, vmin=-1.15, vmax=1.15, interpolation="nearest")
    name_axes(axes, names, {names[v]: at for at, v in enumerate(order)}, cell)


def _mark_differences(axes: "Axes", edges: Sequence[Edge], place: dict[str, int], cell: float) -> None:
    """Mark the edges that differ from the true graph."""
    for category in DIFFERENCES:
        cells = [(place[edge.source], place[edge.target]) for edge in edges if edge.category == category]
        style = STYLES[category]
        look: dict[str, Any] = {
            "facecolors": style.colour,
            "edgecolors": "white",
            "linewidths": float(np.clip(0.05 * cell, 0.2, 0.8)),
        }
        if category == "missing":
            look = {
                "facecolors": "none",
                "edgecolors": style.colour,
                "linewidths": float(np.clip(0.1 * cell, 0.7, 1.5)),
            }
        size = float(np.clip(0.55 * cell, min(1.2 * cell, 4.5), 9.0)) ** 2
        axes.scatter([at for _, at in cells], [at for at, _ in cells], s=size, marker=style.marker, zorder=3, **look)


def _write_header(figure: "Figure", title: str, edges: Sequence[Edge]) -> None:
    """Write the title, and a legend of the marks if there are any."""
    from matplotlib.lines import Line2D

    _, height = figure.get_size_inches()
    heading = figure.text(0.5, 1 - 0.2 / height, title, ha="center", va="center", fontsize=10.5, color=INK)
    heading.set_parse_math(False)
    handles = [
        Line2D([], [], linestyle="", marker=STYLES[category].marker, color=STYLES[category].colour, label=label)
        for category, label in legend_entries(edges, bool(edges))
        if category in DIFFERENCES
    ]
    for handle in handles:
        if handle.get_marker() == STYLES["missing"].marker:
            handle.set_markerfacecolor("none")
    if handles:
        at = (0.5, 1 - (0.5 if title else 0.2) / height)
        figure.legend(handles=handles, loc="center", bbox_to_anchor=at, ncols=len(handles), frameon=False, fontsize=8.5)
