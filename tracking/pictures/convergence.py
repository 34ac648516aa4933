"""The measures of a run by round: acyclicity, residuals, edges and bytes as small multiples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .drawing import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, float]]
Series = tuple[list[float], list[float]]
"""rounds, values"""

COLOURS = ("#1f5a96", "#d1400b", "#0b7d62", "#8a2da5", "#6f6f6f")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), "-")

COUNTED = dict.fromkeys(("lagged_edges", "tests", "tests_left_out", "families", "phase", "resamples_running"), "count")
COUNTED |= {"rows": "rows", "ordered": "variables", "conditioning_set_size": "variables"}
"""the units of measures that are counts"""
SENT = {"bytes_up": "from silos", "bytes_down": "to silos", "formula_bytes": "papers' formula"}


@dataclass(frozen=True)
class Panel:
    """One panel: its title, a line per name, its unit, and whether its scale is logarithmic."""

    title: str
    lines: dict[str, Series]
    unit: str
    """label of the vertical axis"""
    logarithmic: bool = False


def panels(rounds: Rows) -> list[Panel]:
    """The panels of a run: h, residuals, edges, cumulative megabytes, then one for every other measure."""
    names = list(dict.fromkeys(name for row in rounds for name in row if name != "round"))
    residuals = [name for name in names if "residual" in name or name in ("primal", "dual")]
    sent = [name for name in names if name in SENT]
    others = [name for name in names if name not in {"h", "edges", *residuals, *sent}]
    drawn = [
        Panel(
            "h: acyclicity constraint, 0 for an acyclic graph",
            {"h": _series(rounds, "h")},
            "h (no unit)",
            logarithmic=True,
        ),
        Panel(
            "residuals",
            {name.replace("_residual", "").replace("_", " "): _series(rounds, name) for name in residuals},
            "norm (no unit)",
            logarithmic=True,
        ),
        Panel("edges", {"edges": _series(rounds, "edges")}, "count"),
        Panel("data sent, cumulative", {SENT[name]: _summed(rounds, name) for name in sent}, "MB"),
        *(_other(rounds, name) for name in others),
    ]
    return [panel for panel in drawn if any(values for _, values in panel.lines.values())]


def draw_rounds(rounds: Rows) -> "Figure":
    """A figure of the rounds with two panels per row; a note instead if no round was completed."""
    from matplotlib.figure import Figure

    drawn = panels(rounds)
    height = max(1, (len(drawn) + 1) // 2)
    tall = 2.35 * height
    figure = Figure(figsize=(9.0, tall))
    figure.subplots_adjust(0.08, 0.48 / tall, 0.99, 1 - 0.32 / tall, wspace=0.2, hspace=0.55)
    if not drawn:
        figure.text(0.5, 0.5, "no round was completed", ha="center", color=INK)
        return figure
    grid = figure.subplots(height, 2, squeeze=False, sharex=True)
    for axes, panel in zip(grid.flat, drawn, strict=False):
        _draw_panel(axes, panel)
    for axes in grid.flat[len(drawn) :]:
        axes.axis("off")
    return figure


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator

    positive = any(value > 0 for _, values in panel.lines.values() for value in values)
    for number, (name, (at, values)) in enumerate(panel.lines.items()):
        shown = [value if value > 0 else np.nan for value in values] if panel.logarithmic and positive else values
        style = {"color": COLOURS[number % 5], "linestyle": DASHES[number % 5], "linewidth": 1.5}
        axes.plot(at, shown, label=name, marker="o" if len(at) < 15 else "", markersize=3, **style)  # type: ignore[arg-type]
    if panel.logarithmic and positive:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set_title(panel.title, fontsize=9, color=INK, loc="left")
    axes.set_xlabel("round", fontsize=8)
    axes.set_ylabel(panel.unit, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    axes.tick_params(labelsize=7.5, labelbottom=True)
    axes.yaxis.get_offset_text().set_fontsize(7.5)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if len(panel.lines) > 1:
        axes.legend(fontsize=7.5, frameon=False, handlelength=2.8)


def _series(rounds: Rows, name: str) -> Series:
    known = [(row["round"], row[name]) for row in rounds if name in row and np.isfinite(row[name])]
    return [at for at, _ in known], [value for _, value in known]


def _summed(rounds: Rows, name: str) -> Series:
    at, values = _series(rounds, name)
    return at, list(np.cumsum(values) / 1e6)


def _other(rounds: Rows, name: str) -> Panel:
    """The panel of an algorithm-specific measure: logarithmic if its values span three decades."""
    series, unit = _series(rounds, name), COUNTED.get(name, "value (no unit)")
    smallest, largest = min(series[1], default=0.0), max(series[1], default=0.0)
    return Panel(name.replace("_", " "), {name: series}, unit, smallest > 0 and largest > 1e3 * smallest)
