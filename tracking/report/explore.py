"""The interactive view of the structure in the report: a graph and a matrix with zoom, hover and search.

Cytoscape.js (MIT licence, in the header of `scripts/cytoscape.min.js`) draws the graph, and a script of this package
draws the matrix. Variables and edges have the positions and routes of the layered drawing. Without JavaScript the
view is hidden, and the picture beside it shows everything.
"""

import json
import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges, Edge

from ..pictures.drawing import LONGEST_NAME, SIGNS, box_width
from ..pictures.layout import Layout, layered
from ..pictures.style import STYLES, Pen, causal_order, layout_order, pens, truncate
from ..result import RunResult, strengths_in
from .drawings import marks_of
from .files import csv_text

MAX_GRAPH_EDGES = 3000
"""number of edges up to which the view has a graph; with more edges, it has only the matrix"""
MAX_LAYOUT_EDGES = 1500
"""number of edges up to which lagged edges influence the positions of variables"""
UNITS_PER_INCH = 72.0
"""units of the view per inch of the layout"""

LAGGED_SPACING = 2.5
"""factor of the horizontal distances of variables if there are lagged edges between them"""

Point = tuple[float, float]


def _places(
    variables: Sequence[str], within: Sequence[Edge], lagged: Sequence[Edge]
) -> tuple[tuple[tuple[float, float, float], ...], dict[Edge, tuple[Point, ...]]]:
    """The positions of the variables and the routes of the edges within one time step."""
    ordered, arcs = layout_order(variables, within)
    at = {name: number for number, name in enumerate(variables)}
    joined = {frozenset(arc) for arc in arcs}
    across = dict.fromkeys((at[edge.source], at[edge.target]) for edge in lagged if not edge.own)
    if len(arcs) + len(across) <= MAX_LAYOUT_EDGES:
        for arc in across:
            if frozenset(arc) not in joined:
                joined.add(frozenset(arc))
                arcs.append(arc)
    layout = layered([box_width(truncate(name, LONGEST_NAME)) for name in variables], arcs)
    boxes = zip(layout.centres.tolist(), layout.widths.tolist(), strict=True)
    wider = LAGGED_SPACING if lagged else 1.0
    places = tuple((*_point(wider * x, y), round(UNITS_PER_INCH * width, 1)) for (x, y), width in boxes)
    ways = {edge: _way(layout, number, edge, wider) for number, edge in enumerate(ordered)}
    return places, {edge: way for edge, way in ways.items() if way}


def _way(layout: Layout, number: int, edge: Edge, wider: float) -> tuple[Point, ...]:
    """The points between the ends of the route `number`, from the source of `edge` to its target."""
    turned = edge.category == "reversed" and edge.one_way
    points = tuple(_point(wider * x, y) for x, y in layout.routes[number][1:-1].tolist())
    return points if layout.down[number] != turned else points[::-1]


def _point(x: float, y: float) -> Point:
    return round(UNITS_PER_INCH * x, 1), round(-UNITS_PER_INCH * y, 1)


LIBRARY, OWN_SCRIPTS = "cytoscape.min.js", ("words.js", "matrix.js", "graph.js", "explore.js")


@dataclass(frozen=True)
class Script:
    """A script of the page; a script with a `name` is JSON, which other scripts find by this name."""

    text: str
    name: str = ""

    @property
    def digest(self) -> str:
        """The hash of the script, by which the page's content security policy allows it."""
        return f"'sha256-{b64encode(sha256(self.text.encode()).digest()).decode()}'"


def explore_scripts(result: RunResult) -> list[Script]:
    """The data and the scripts of the view; empty for a structure without edges."""
    edges = len(result.compared_edges)
    if not edges:
        return []
    needed = (*OWN_SCRIPTS[:1], *[LIBRARY] * (edges <= MAX_GRAPH_EDGES), *OWN_SCRIPTS[1:])
    return [Script(as_json(graph_data(result)), "structure"), *(Script(script(name)) for name in needed)]


def as_json(value: Any) -> str:
    """`value` as JSON for a script element; nothing in the JSON can end the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def script(name: str) -> str:
    """The text of the script `name` of this package."""
    return files(__package__).joinpath("scripts", name).read_text("utf-8")


def graph_data(result: RunResult) -> dict[str, Any]:
    """The data for the scripts: variables with their positions, edges with their properties, and styles.

    y grows downwards, and lengths are in points. If there are too many edges to draw, variables have no positions, and
    edges no routes.
    """
    edges, labelled, marks = result.compared_edges, result.labelled, marks_of(result)
    letters = {basis: SIGNS[basis][2] for basis in marks.signed(edges)}
    variables = edges.structure.variables
    places, ways = _places(variables, edges.within, edges.lagged) if len(edges) <= MAX_GRAPH_EDGES else ((), {})
    kinds = {name: "labels" if name in labelled else "numbers" for name in variables} if labelled else {}
    nodes: list[dict[str, Any]] = [{"name": name, "kind": kinds.get(name, "")} for name in variables]
    for node, (x, y, width) in zip(nodes, places, strict=False):
        node |= {"x": x, "y": y, "width": width}
    return {
        "nodes": nodes,
        "edges": _edges(result, ways, letters),
        "order": causal_order(variables, edges.within),
        "csv": edges_csv(result.edges),
        "lags": max((edge.lag for edge in edges.lagged), default=0),
        "compared": edges.reference is not None,
        "signs": [f"{letters.get(basis, '▶')} {number} {SIGNS[basis][0]}" for basis, number in marks.bases(edges)],
        "styles": {name: {"colour": style.colour, "dash": list(style.dash or ())} for name, style in STYLES.items()},
    }


def edges_csv(edges: ClassifiedEdges) -> str:
    """The edges as a CSV file without weights, in the form that `fedbnsl rescore --edges` reads."""
    header, rows = edges.rows()
    kept = [k for k, name in enumerate(header) if name != "weight"]
    return csv_text([header[k] for k in kept], ([row[k] for k in kept] for row in rows))


def _edges(
    result: RunResult, ways: Mapping[Edge, tuple[Point, ...]], letters: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The edges with their known properties; `ways` has the points between the ends of edges that are not straight.

    `letters` has the sign of each basis of directions that has one.
    """
    all_edges, marks, strengths = tuple(result.compared_edges), marks_of(result), strengths_in(result)
    at = {name: number for number, name in enumerate(result.structure.variables)}
    pen, weighted = pens(all_edges, marks), any(edge.weight not in (None, 1.0) for edge in all_edges)
    edges = []
    for edge in all_edges:
        strength, direction = strengths.strength_and_direction(edge) if strengths else (None, None)
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
            "lag": edge.lag or None,
            "required": marks.is_required(edge) or None,
            **_direction(result, edge, pen(edge)),
            "sign": letters.get(marks.basis_of(edge)),
            "thick": _short(pen(edge).width) or 1.0,
            "opacity": pen(edge).opacity,
            "by": ways.get(edge),
        }
        edges.append({name: value for name, value in one.items() if value is not None})
    return edges


def _direction(result: RunResult, edge: Edge, pen: Pen) -> dict[str, Any]:
    """Whether the direction of `edge` is doubtful, and what it rests on."""
    return {"doubtful": pen.hollow or None, "basis": result.basis_of(edge) or None}


def _short(value: float | None) -> float | None:
    """`value` to six significant digits; None if it is not finite, because JSON has no such numbers."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
