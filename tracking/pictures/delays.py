"""The delays between cause and effect: for each edge, the number of further events against time.

After one event of type j, the mean number of events of type i that it has caused directly grows with the time t as
α_ij (1 − exp(−t/delay)) (Hawkes 1971; Laub, Taimre & Pollett 2015, §3). All edges share the mean delay.
"""

from typing import TYPE_CHECKING

import numpy as np

from fedbnsl.algorithms.events.hawkes import Intensities
from fedbnsl.algorithms.graphs.edges import ClassifiedEdges

from .style import INK, truncate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CURVES = 8
"""maximum number of edges that are drawn; the strongest edges are drawn"""
MAX_LETTERS = 14
"""maximum number of letters of a type of event in a label"""
DELAYS = 4.0
"""length of the time axis in mean delays; in this time, 98 % of the further events have occurred"""
SHARES = (0.5, 0.95)
"""shares of the further events whose times are marked"""
LABEL_GAP = 0.055
"""minimum distance between two labels, as a share of the height"""
COLOUR, PALE = "#1f5a96", "#9a9a9a"


def share_times(found: Intensities) -> tuple[float, ...]:
    """The times after an event of a cause at which the `SHARES` of the further events that it causes have occurred."""
    return tuple(float(-found.delay * np.log1p(-share)) for share in SHARES)


def draw_delays(found: Intensities, learned: ClassifiedEdges, title: str = "") -> "Figure":
    """A figure with a curve for each of the strongest `learned` edges, and lines at the times of `SHARES`.

    The process must have a delay; a run that lost a silo before the delay was chosen has none.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    edges = sorted(learned.within, key=lambda one: -abs(one.weight or 0.0))[:MAX_CURVES]
    highest = max((abs(one.weight or 0.0) for one in edges), default=1.0)
    times = np.linspace(0.0, DELAYS, 200) * found.delay
    growth = -np.expm1(-times / found.delay)
    place = np.inf
    for edge in edges:
        weight = edge.weight or 0.0
        axes.plot(times, weight * growth, color=COLOUR, linewidth=1.4)
        place = min(weight * growth[-1], place - LABEL_GAP * highest)
        name = f"{truncate(edge.source, MAX_LETTERS)} → {truncate(edge.target, MAX_LETTERS)}"
        label = axes.text(times[-1] * 1.015, place, name, va="center", fontsize=8, color=INK)
        label.set_parse_math(False)
    for share, at in zip(SHARES, share_times(found), strict=True):
        axes.axvline(at, color=PALE, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
        axes.text(at, 1.06 * highest, f"{share:.0%} by {at:.3g}", fontsize=8, color=INK, ha="center", va="bottom")
    axes.set(xlim=(0.0, times[-1]), ylim=(0.0, 1.05 * highest))
    axes.set_xlabel("time since an event of the cause, in the unit of the data", fontsize=9)
    axes.set_ylabel("further events of the effect", fontsize=9)
    for side in ("right", "top"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=10.5, color=INK).set_parse_math(False)
    return figure
