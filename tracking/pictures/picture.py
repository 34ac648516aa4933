"""Pictures of a run: its structure, compared with the true graph if there is one, and its measures by round.

Structures of up to 50 variables are drawn as layered graphs, and larger structures as adjacency heat maps. Dynamic
structures of up to 30 variables are drawn over time, and larger dynamic structures as their matrices. The measures
(acyclicity, residuals, edges, bytes) are small multiples. Figures use matplotlib's object interface, which is safe in
threads.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

import numpy as np

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges

from .drawing import draw_graph
from .heat_map import draw_heat_map, draw_matrices
from .style import INK, NO_MARKS, Marks
from .unrolled import draw_unrolled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_png", "as_svg", "draw_matrices", "draw_rounds", "draw_structure"]

MAX_DRAWN_VARIABLES = 50
"""number of variables up to which a structure is drawn as a graph"""
MAX_UNROLLED_VARIABLES = 30
"""number of variables up to which a dynamic structure is drawn over time"""
Rows = Sequence[Mapping[str, float]]
Series = tuple[list[float], list[float]]
"""rounds, and the values in these rounds"""

COLOURS = ("#1f5a96", "#d1400b", "#0b7d62", "#8a2da5", "#6f6f6f")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), "-")

COUNTED = dict.fromkeys(("lagged_edges", "tests", "tests_left_out", "families", "phase", "resamples_running"), "count")
COUNTED |= {"rows": "rows", "ordered": "variables", "conditioning_set_size": "variables"}
"""the units of measures that are counts"""
SENT = {"bytes_up": "from silos", "bytes_down": "to silos", "formula_bytes": "papers' formula"}


def draw_structure(edges: ClassifiedEdges, title: str = "", marks: Marks = NO_MARKS) -> "Figure":
    """A figure of a structure with `marks`, compared with its truth if there is one.

    A heat map and matrices have no marks, except for pairs that are not identified. A true graph of time series without
    lags is not part of a drawing over time, but is shown below the matrices. Raises `ValueError` if the truth has other
    variables.
    """
    variables, lags, compared = edges.structure.variables, edges.structure.lags, edges.reference is not None
    if lags:
        if len(variables) > MAX_UNROLLED_VARIABLES:
            return draw_matrices(edges, title)
        most = max(lags, edges.reference.lags if edges.reference else 0)
        return draw_unrolled(variables, most, edges.within, edges.lagged, compared, title, marks)
    if len(variables) > MAX_DRAWN_VARIABLES:
        return draw_heat_map(variables, edges.within, compared, title, marks.not_identified)
    return draw_graph(variables, edges.within, compared, title, marks)


def as_png(figure: "Figure", dots_per_inch: int = 150) -> bytes:
    """The figure as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def as_svg(figure: "Figure", label: str, words: str = "") -> str:
    """The figure as an SVG element for a page, without references to other files.

    `label` distinguishes the element ids of this figure from the ids of other figures on the page. `words` say what the
    picture shows, for readers who do not see it.
    """
    from html import escape

    import matplotlib as mpl

    buffer = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": label, "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    element = buffer.getvalue()
    element = element[element.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", element)
    shown = f'role="img" aria-label="{escape(words)}"' if words else 'aria-hidden="true"'
    return element.replace("<svg", f'<svg {shown} style="max-width:100%;height:auto"', 1)


@dataclass(frozen=True)
class Panel:
    """One panel: its title, its lines by name, its unit, and whether its scale is logarithmic."""

    title: str
    lines: dict[str, Series]
    unit: str
    """label of the vertical axis"""
    logarithmic: bool = False


def panels(rounds: Rows) -> list[Panel]:
    """The panels of a run: h, residuals, edges, cumulative megabytes, then a panel for every other measure."""
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
    """A figure of the rounds with two panels per row; if no round was completed, it has only a note."""
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
    """The panel of an algorithm-specific measure; it is logarithmic if the values span three decades."""
    series, unit = _series(rounds, name), COUNTED.get(name, "value (no unit)")
    smallest, largest = min(series[1], default=0.0), max(series[1], default=0.0)
    return Panel(name.replace("_", " "), {name: series}, unit, smallest > 0 and largest > 1e3 * smallest)
