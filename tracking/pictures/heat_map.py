"""A structure as a matrix of marks, for more variables than a graph can show: row causes column."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.graphs.edge_classes import Category, Edge
from fedbnsl.algorithms.graphs.marks import CIRCLE

from .layering import reverse_feedback_arcs, topological
from .style import INK, STYLES, in_order_of_trust, legend_entries, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_heat_map(variables: Sequence[str], edges: Sequence[Edge], compared: bool, title: str) -> "Figure":
    """Return a figure with a mark per edge, the variables in topological order of the truth.

    True edges stand above the diagonal; a mark in the shaded half goes against the order. An edge that is not directed
    has a mark in both cells; a white dot in the cell of row i and column j is a circle at j.
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


def causal_order(variables: Sequence[str], edges: Sequence[Edge]) -> list[int]:
    """Return the variables, causes before effects: by the truth first, then by the learned edges as far as they fit."""
    _, arcs = in_order_of_trust(variables, edges)
    return topological(len(variables), reverse_feedback_arcs(len(variables), arcs))


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
    """Name as many variables as there is room for, and rule the matrix every ten."""
    step = max(1, int(np.ceil(5.2 / cell)))
    shown = sorted(variables, key=place.__getitem__)[::step]
    ticks = [place[name] for name in shown]
    size = float(np.clip(0.8 * cell * step, 4.0, 7.0))
    labels = [shortened(name, 12) for name in shown]
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
    axes.set_xlabel("to", fontsize=8)
    axes.set_ylabel("from", fontsize=8)
