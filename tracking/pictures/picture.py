"""Pictures of a structure, compared with the true graph if there is one, and their export as PNG or SVG.

Structures of up to 50 variables are drawn as layered graphs, larger ones as adjacency heat maps. Dynamic structures of
up to 30 variables are drawn over time, larger ones as their matrices. Figures use matplotlib's object interface, which
is safe in threads.
"""

import re
from collections.abc import Collection
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.graphs.edges import classify, classify_lagged
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure

from .convergence import draw_rounds
from .drawing import draw_graph
from .heat_map import draw_heat_map, draw_matrices
from .unrolled import draw_unrolled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_png", "as_svg", "draw_matrices", "draw_rounds", "draw_structure"]

MAX_DRAWN_VARIABLES = 50
"""variables up to which a structure is drawn as a graph"""
MAX_UNROLLED_VARIABLES = 30
"""variables up to which a dynamic structure is drawn over time"""


def draw_structure(
    structure: Structure,
    truth: Structure | None = None,
    title: str = "",
    strengths: Strengths | None = None,
    required: Collection[Arc] = (),
    labels: Collection[str] = (),
) -> "Figure":
    """A figure of `structure`, compared with `truth` if there is one; line widths show the `strengths`.

    A drawing as a graph marks the edges that background knowledge `required`, and the variables with `labels` where
    others have numbers. A true graph of time series without lags is not part of a drawing over time, but is shown
    beside the matrices. Raises `ValueError` if the truth has other variables.
    """
    if structure.lags:
        return _draw_dynamic(structure, truth, title, strengths)
    edges, compared = classify(structure, truth), truth is not None
    if len(structure.variables) > MAX_DRAWN_VARIABLES:
        return draw_heat_map(structure.variables, edges, compared, title)
    return draw_graph(structure.variables, edges, compared, title, strengths, required, labels)


def _draw_dynamic(structure: Structure, truth: Structure | None, title: str, strengths: Strengths | None) -> "Figure":
    if len(structure.variables) > MAX_UNROLLED_VARIABLES:
        return draw_matrices(structure, truth, title)
    dynamic = truth if truth is not None and truth.lags else None
    within, lagged = classify(structure, dynamic), classify_lagged(structure, dynamic)
    lags = max(structure.lags, dynamic.lags if dynamic else 0)
    return draw_unrolled(structure.variables, lags, within, lagged, dynamic is not None, title, strengths)


def as_png(figure: "Figure", dots_per_inch: int = 150) -> bytes:
    """The figure as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def as_svg(figure: "Figure", label: str) -> str:
    """The figure as an SVG element for a page, without references to other files.

    `label` distinguishes its element ids from those of other figures on the page.
    """
    import matplotlib as mpl

    buffer = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": label, "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    element = buffer.getvalue()
    element = element[element.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", element)
    return element.replace("<svg", '<svg style="max-width:100%;height:auto"', 1)
