"""Pictures of a structure against the truth, and pictures as bytes.

Up to 50 variables a layered drawing, above an adjacency heat map; a dynamic structure is drawn over time up to 30
variables, and above as its matrices. Figures are made with matplotlib's object interface,
so that threads do not disturb each other.
"""

import re
from collections.abc import Collection
from io import BytesIO, StringIO
from typing import TYPE_CHECKING

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.graphs.edge_classes import classify
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure

from .convergence import draw_rounds
from .drawing import draw_graph
from .heat_map import draw_heat_map
from .lagged_heat_map import draw_matrices
from .unrolled import draw_unrolled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DRAWN_UP_TO", "UNROLLED_UP_TO", "as_png", "as_svg", "draw_matrices", "draw_rounds", "draw_structure"]

DRAWN_UP_TO = 50
"""variables up to which a structure is drawn as a graph"""
UNROLLED_UP_TO = 30
"""variables up to which a dynamic structure is drawn over time"""


def draw_structure(
    structure: Structure,
    truth: Structure | None = None,
    title: str = "",
    strengths: Strengths | None = None,
    required: Collection[Arc] = (),
    labels: Collection[str] = (),
) -> "Figure":
    """Return a figure of `structure`, held against `truth` if there is one; of `strengths` its lines are as thick.

    Edges that background knowledge `required`, and variables that hold `labels` among others that hold numbers, are
    marked where the structure is drawn as a graph.

    A truth of time series that says only who drives whom has no place in a drawing over time: it stands beside the
    matrices. Raises `ValueError` if the truth is over other variables.
    """
    if structure.lags:
        return _draw_dynamic(structure, truth, title, strengths)
    edges, compared = classify(structure, truth), truth is not None
    if len(structure.variables) > DRAWN_UP_TO:
        return draw_heat_map(structure.variables, edges, compared, title)
    return draw_graph(structure.variables, edges, compared, title, strengths, required, labels)


def _draw_dynamic(structure: Structure, truth: Structure | None, title: str, strengths: Strengths | None) -> "Figure":
    if len(structure.variables) > UNROLLED_UP_TO:
        return draw_matrices(structure, truth, title)
    dynamic = truth if truth is not None and truth.lags else None
    within, lagged = classify(structure, dynamic), classify_lagged(structure, dynamic)
    lags = max(structure.lags, dynamic.lags if dynamic else 0)
    return draw_unrolled(structure.variables, lags, within, lagged, dynamic is not None, title, strengths)


def as_png(figure: "Figure", dots_per_inch: int = 150) -> bytes:
    """Return the figure as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dots_per_inch)
    return buffer.getvalue()


def as_svg(figure: "Figure", label: str) -> str:
    """Return the figure as an SVG element to stand inside HTML: no reference to anything outside it.

    `label` makes its inner names differ from those of other figures on the page.
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
