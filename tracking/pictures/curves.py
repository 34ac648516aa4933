"""Adjusted curves of a survival outcome: the probability of no event until a time, by the levels of one parent."""

from typing import TYPE_CHECKING

import numpy as np

from fedbnsl.algorithms.parameters.survival_node import SurvivalNode

from .style import INK, truncate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#1f5a96", "#d1400b", "#2e7d32", "#7b4397", "#8a6d00", "#6f6f6f")
BAND_OPACITY = 0.15
MAX_LETTERS = 18
"""maximum number of letters of a level in a label"""


def draw_curves(node: SurvivalNode, title: str = "") -> "Figure":
    """A figure of the adjusted curves of `node`, with a point at the end of each of its intervals.

    Within an interval, the hazard is constant, and the line between two points is drawn straight. Each curve has a pale
    band of pointwise 95 % intervals.
    """
    from matplotlib.figure import Figure

    parent, curves = node.curves()
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    times = np.append(0.0, node.limits)
    for k, curve in enumerate(curves):
        name = f"{truncate(parent, MAX_LETTERS)} = {truncate(curve.label, MAX_LETTERS)}" if parent else curve.label
        colour = COLOURS[k % len(COLOURS)]
        free, low, high = (np.append(1.0, one) for one in (curve.free, curve.low, curve.high))
        axes.fill_between(times, low, high, color=colour, alpha=BAND_OPACITY, linewidth=0)
        axes.plot(times, free, color=colour, linewidth=1.4, marker="o", markersize=3, label=name)
    for text in axes.legend(fontsize=8, frameon=False).get_texts():
        text.set_parse_math(False)
    axes.set(xlim=(0.0, times[-1]), ylim=(0.0, 1.02))
    axes.set_xlabel(node.time, fontsize=9).set_parse_math(False)
    axes.set_ylabel(f"probability of no {node.outcome}", fontsize=9).set_parse_math(False)
    for side in ("right", "top"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=10.5, color=INK).set_parse_math(False)
    return figure
