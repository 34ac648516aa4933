"""The structure as a reader can move about in it: a graph and a matrix with zoom, hover and search, inside the page.

The graph is drawn by Cytoscape.js (MIT licence, at the head of `scripts/cytoscape.min.js`), the matrix by a script of
ours. Variables lie where the layered drawing has them, and edges take the same ways round them. Without JavaScript
nothing of it shows, and the picture beside it shows everything.
"""

import math
from functools import cache
from importlib.resources import files
from typing import Any

from fedbnsl.algorithms.graphs.strengths import Strengths

from ..pictures.drawing import was_required
from ..pictures.style import STYLES
from ..pictures.thickness import thickness
from ..result import RunResult, strengths_in
from .explored import Explored, compared_edges, explored
from .page import Script, as_json, paragraph, unfolding

LIBRARY, OURS = "cytoscape.min.js", ("words.js", "matrix.js", "graph.js", "explore.js")
TITLE = "Explore: zoom, search, read off"
HOW = (
    "Turn the wheel to zoom, drag to move. Point at a variable or an edge to read what is known of it. Click a "
    "variable to see it with its neighbours alone, and the ground to see all again."
)


def explore_section(result: RunResult, *, opened: bool = False) -> list[str]:
    """Return the part of the page in which the structure can be explored: none of a structure without edges."""
    if not any(compared_edges(result.structure, result.truth)[:2]):
        return []
    view = '<div id="explore" class="explore"></div>'
    return [f"<div hidden>{unfolding(TITLE, paragraph(HOW, 'soft'), view, opened=opened)}</div>"]


def explore_scripts(result: RunResult) -> list[Script]:
    """Return the scripts that the page needs for it, what they show first: none of a structure without edges."""
    found = explored(result.structure, result.truth)
    if not found.edges:
        return []
    needed = (*OURS[:1], *[LIBRARY] * bool(found.places), *OURS[1:])
    return [Script(as_json(told(found, result)), "structure"), *(Script(script(name)) for name in needed)]


@cache
def script(name: str) -> str:
    """Return the text of one of the scripts that come with the package."""
    return files(__package__).joinpath("scripts", name).read_text("utf-8")


def told(found: Explored, result: RunResult) -> dict[str, Any]:
    """Return what the scripts are told: variables with their places, edges with all that is known, and their looks."""
    labelled, strengths = result.labelled, strengths_in(result)
    kinds = {name: "labels" if name in labelled else "numbers" for name in found.variables} if labelled else {}
    nodes: list[dict[str, Any]] = [{"name": name, "kind": kinds.get(name, "")} for name in found.variables]
    for node, (x, y, width) in zip(nodes, found.places, strict=False):
        node |= {"x": x, "y": y, "width": width}
    return {
        "nodes": nodes,
        "edges": _edges(found, result, strengths),
        "order": found.order,
        "lags": found.lags,
        "compared": found.compared,
        "styles": {name: {"colour": style.colour, "dash": list(style.dash or ())} for name, style in STYLES.items()},
    }


def _edges(found: Explored, result: RunResult, strengths: Strengths | None) -> list[dict[str, Any]]:
    """Return the edges by what is known of each; what is not known is left out."""
    at = {name: number for number, name in enumerate(found.variables)}
    thick, weighted = thickness(found.edges, strengths), any(edge.weight not in (None, 1.0) for edge in found.edges)
    edges = []
    for edge in found.edges:
        strength, direction = strengths.of(edge) if strengths else (None, None)
        one: dict[str, Any] = {
            "source": at[edge.source],
            "target": at[edge.target],
            "marks": [edge.at_source, edge.at_target],
            "text": edge.text,
            "category": edge.category,
            "weight": _short(edge.weight) if weighted else None,
            "true": _short(edge.true_weight) if edge.true_weight != 1.0 else None,
            "strength": _short(strength),
            "direction": _short(direction),
            "lag": getattr(edge, "lag", None),
            "required": was_required(edge, result.knowledge.required) or None,
            "thick": _short(thick(edge)) or 1.0,
            "by": found.ways.get(edge) or None,
        }
        edges.append({name: value for name, value in one.items() if value is not None})
    return edges


def _short(value: float | None) -> float | None:
    """Return `value` to as many figures as a reader takes in, None for what is no number, as JSON has none of these."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
