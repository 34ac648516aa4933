"""The structure as a reader can move about in it: a graph and a matrix with zoom, hover and search, inside the page.

The graph is drawn by Cytoscape.js (MIT licence, at the head of `scripts/cytoscape.min.js`), the matrix by a script of
ours. Variables lie where the layered drawing has them, and edges take the same ways round them. Without JavaScript
nothing of it shows, and the picture beside it shows everything.

Where the variables and edges of a structure lie that a reader can explore, and in which order a matrix has them.
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

from fedbnsl.algorithms.graphs.edges import Edge, LaggedEdge, classify, classify_lagged
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure

from ..pictures.drawing import LONGEST_NAME, STYLES, box_width, is_required, layout_order, thickness, truncate
from ..pictures.heat_map import causal_order
from ..pictures.layout import Layout, layered
from ..result import RunResult, strengths_in

DRAWN = 3000
"""edges up to which a graph can be explored; of more there is the matrix alone"""
LAID_OUT = 1500
"""edges up to which those across time have a say in where variables lie"""
DOTS = 72.0
"""units in an inch of the layout"""

APART = 2.5
"""how much further apart variables lie beside each other where edges across time go between them"""

Point = tuple[float, float]


@dataclass(frozen=True)
class LaidOutGraph:
    """A structure laid out: y grows downwards, and lengths are points.

    `places` has x, y and width of each variable, none where there are too many edges to draw. `ways` are the points
    that an edge passes from its source to its target, for those that do not go straight.
    """

    variables: tuple[str, ...]
    edges: tuple[Edge, ...]
    places: tuple[tuple[float, float, float], ...]
    ways: Mapping[Edge, tuple[Point, ...]]
    order: tuple[int, ...]
    """the variables, causes before effects"""
    lags: int
    compared: bool


def compared_edges(structure: Structure, truth: Structure | None) -> tuple[list[Edge], list[LaggedEdge], bool]:
    """The edges within one time, those across, and whether both were compared with `truth`.

    A truth of time series that says only who drives whom is no measure of edges at one lag.
    """
    measure = None if truth is None or (structure.lags and not truth.lags) else truth
    return list(classify(structure, measure)), list(classify_lagged(structure, measure)), measure is not None


def lay_out(structure: Structure, truth: Structure | None) -> LaidOutGraph:
    """`structure` laid out, its edges compared with `truth` as `compared_edges` does."""
    within, lagged, compared = compared_edges(structure, truth)
    edges = (*within, *lagged)
    places, ways = _places(structure.variables, within, lagged) if len(edges) <= DRAWN else ((), {})
    return LaidOutGraph(
        structure.variables,
        edges,
        places,
        ways,
        tuple(causal_order(structure.variables, within)),
        max((edge.lag for edge in lagged), default=0),
        compared,
    )


def _places(
    variables: Sequence[str], within: Sequence[Edge], lagged: Sequence[LaggedEdge]
) -> tuple[tuple[tuple[float, float, float], ...], dict[Edge, tuple[Point, ...]]]:
    """The places of the variables and the ways of the edges within one time."""
    ordered, arcs = layout_order(variables, within)
    at = {name: number for number, name in enumerate(variables)}
    joined = {frozenset(arc) for arc in arcs}
    across = dict.fromkeys((at[edge.source], at[edge.target]) for edge in lagged if not edge.own)
    if len(arcs) + len(across) <= LAID_OUT:
        for arc in across:
            if frozenset(arc) not in joined:
                joined.add(frozenset(arc))
                arcs.append(arc)
    layout = layered([box_width(truncate(name, LONGEST_NAME)) for name in variables], arcs)
    boxes = zip(layout.centres.tolist(), layout.widths.tolist(), strict=True)
    wider = APART if lagged else 1.0
    places = tuple((*_point(wider * x, y), round(DOTS * width, 1)) for (x, y), width in boxes)
    ways = {edge: _way(layout, number, edge, wider) for number, edge in enumerate(ordered)}
    return places, {edge: way for edge, way in ways.items() if way}


def _way(layout: Layout, number: int, edge: Edge, wider: float) -> tuple[Point, ...]:
    """The points between the ends of the route `number`, from the source of `edge` to its target."""
    turned = edge.category == "reversed" and edge.one_way
    points = tuple(_point(wider * x, y) for x, y in layout.routes[number][1:-1].tolist())
    return points if layout.down[number] != turned else points[::-1]


def _point(x: float, y: float) -> Point:
    return round(DOTS * x, 1), round(-DOTS * y, 1)


LIBRARY, OURS = "cytoscape.min.js", ("words.js", "matrix.js", "graph.js", "explore.js")


@dataclass(frozen=True)
class Script:
    """A script of the page; one with a `name` is JSON for the others, which find it by that."""

    text: str
    name: str = ""

    @property
    def digest(self) -> str:
        """The hash by which the page's policy allows it."""
        return f"'sha256-{b64encode(sha256(self.text.encode()).digest()).decode()}'"


def explore_scripts(result: RunResult) -> list[Script]:
    """The scripts that the page needs for it, what they show first: none of a structure without edges."""
    found = lay_out(result.structure, result.truth)
    if not found.edges:
        return []
    needed = (*OURS[:1], *[LIBRARY] * bool(found.places), *OURS[1:])
    return [Script(as_json(graph_data(found, result)), "structure"), *(Script(script(name)) for name in needed)]


def as_json(value: Any) -> str:
    """`value` as JSON for a script element: nothing in it can end the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def script(name: str) -> str:
    """The text of one of the scripts that come with the package."""
    return files(__package__).joinpath("scripts", name).read_text("utf-8")


def graph_data(found: LaidOutGraph, result: RunResult) -> dict[str, Any]:
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


def _edges(found: LaidOutGraph, result: RunResult, strengths: Strengths | None) -> list[dict[str, Any]]:
    """The edges by what is known of each; what is not known is left out."""
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
            "required": is_required(edge, result.knowledge.required) or None,
            "thick": _short(thick(edge)) or 1.0,
            "by": found.ways.get(edge) or None,
        }
        edges.append({name: value for name, value in one.items() if value is not None})
    return edges


def _short(value: float | None) -> float | None:
    """`value` to as many figures as a reader takes in, None for what is no number, as JSON has none of these."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
