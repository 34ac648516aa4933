"""The matrices of a dynamic structure beside each other: W and every A_k, as learned and, below, as the truth has them.

Row causes column. Weights above zero are blue, below red, on one scale for all lagged matrices and one for W. In the
learned matrices, a mark says where an edge is extra, missing or reversed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.edge_classes import Category, Edge, classify
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged, lagged_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.graphs.summary import summary

from .heat_map import causal_order, name_axes
from .style import INK, STYLES, legend_entries

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAULTS: tuple[Category, ...] = ("extra", "missing", "reversed", "half-directed")
COLOURS = "RdBu"
LEFT, BELOW, BETWEEN = 0.85, 0.35, 0.3
"""inches at the left of a matrix for the names and below it for what its columns are, and at its right"""
HEADING, LETTER, LONGEST = 0.42, 0.06, 12
"""inches above a matrix for what it is called, and for each letter of the longest name, cut after so many"""


def draw_matrices(structure: Structure, truth: Structure | None, title: str = "") -> "Figure":
    """Return a figure of W and the A_k of `structure`, and below them those of the truth if it has lagged edges.

    A truth that says only who drives whom stands below by itself, with no mark in the learned matrices.
    """
    from matplotlib.figure import Figure

    names = structure.variables
    truth = None if truth is None else truth.reordered(names)
    lags = max(structure.lags, truth.lags if truth else 0)
    dynamic = truth if truth is not None and truth.lags else None
    within, lagged = classify(structure, dynamic), classify_lagged(structure, dynamic)
    order = causal_order(names, within)
    side = float(np.clip(0.085 * len(names), 2.4, 6.0))
    rows = 1 if truth is None else 2
    above = HEADING + LETTER * min(max(map(len, names)), LONGEST)
    marked = [*within, *lagged] if dynamic else []
    header = 0.1 + 0.3 * bool(title) + 0.3 * any(edge.category in FAULTS for edge in marked)
    width, height = (LEFT + side) * (lags + 1) + BETWEEN, (above + side + BELOW) * rows + header
    figure = Figure(figsize=(width, height))
    for row, shown in enumerate(one for one in (structure, truth) if one is not None):
        for k, matrix in enumerate(_matrices(shown, lags)):
            bottom = height - header - (row + 1) * (above + side + BELOW) + BELOW
            box = (LEFT + k * (LEFT + side), bottom, side, side)
            axes = figure.add_axes((box[0] / width, box[1] / height, side / width, side / height))
            _draw(axes, matrix[np.ix_(order, order)], names, order, 72 * side / len(names))
            axes.set_title(_called(shown, k, learned=row == 0), fontsize=9, color=INK, pad=4)
            if row == 0 and dynamic:
                edges = within if k == 0 else [edge for edge in lagged if edge.lag == k]
                _mark(axes, edges, {names[v]: at for at, v in enumerate(order)}, 72 * side / len(names))
    _write_header(figure, title, marked)
    return figure


def _matrices(structure: Structure, lags: int) -> list[NDArray[np.float64]]:
    """Return W and the A_k, `lags` of them; only the summary of a structure that has no lags."""
    if not structure.lags:
        return [summary(structure).weights]
    return [structure.weights, *lagged_of(structure, lags)]


def _called(structure: Structure, k: int, *, learned: bool) -> str:
    """Return what the matrix k of `structure` is called."""
    whose = "learned" if learned else "truth"
    if not structure.lags:
        return f"{whose}: who drives whom"
    return f"{whose}: A, from t − {k}" if k else f"{whose}: W, within t"


def _draw(axes: "Axes", matrix: NDArray[np.float64], names: Sequence[str], order: Sequence[int], cell: float) -> None:
    """Draw one matrix, `[d, d]`, its rows and columns in `order`; an edge keeps a fifth of the colour, however weak."""
    largest = float(np.abs(matrix).max(initial=0.0)) or 1.0
    shown = np.where(matrix != 0, np.sign(matrix) * (0.2 + 0.8 * np.abs(matrix) / largest), 0.0)
    axes.imshow(shown, cmap=COLOURS, vmin=-1.15, vmax=1.15, interpolation="nearest")
    name_axes(axes, names, {names[v]: at for at, v in enumerate(order)}, cell)


def _mark(axes: "Axes", edges: Sequence[Edge], place: dict[str, int], cell: float) -> None:
    """Mark the edges that are not as in the truth."""
    for category in FAULTS:
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
    """Write the title, and what the marks mean if there are any."""
    from matplotlib.lines import Line2D

    _, height = figure.get_size_inches()
    heading = figure.text(0.5, 1 - 0.2 / height, title, ha="center", va="center", fontsize=10.5, color=INK)
    heading.set_parse_math(False)
    handles = [
        Line2D([], [], linestyle="", marker=STYLES[category].marker, color=STYLES[category].colour, label=label)
        for category, label in legend_entries(edges, bool(edges))
        if category in FAULTS
    ]
    for handle in handles:
        if handle.get_marker() == STYLES["missing"].marker:
            handle.set_markerfacecolor("none")
    if handles:
        at = (0.5, 1 - (0.5 if title else 0.2) / height)
        figure.legend(handles=handles, loc="center", bbox_to_anchor=at, ncols=len(handles), frameon=False, fontsize=8.5)
