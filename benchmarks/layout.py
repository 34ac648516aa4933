"""The layered drawing compared with igraph's: edge crossings, width and CPU time.

`pip install igraph` (under the GPL, so no part of the project), then `python benchmarks/layout.py`: ER graphs, with
nodes as wide as their names require, and means over five seeds. igraph uses one width for nodes and for the slots of
long edges.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np
from measure import show

from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.tracking.pictures.layout import GAP_WIDTH, IndexArc, crossings, layered

WIDTH = 0.5
"""inches that a node with a name of three characters takes"""
Pieces = list[tuple[tuple[float, float], tuple[float, float]]]
Drawn = tuple[Pieces, float]
"""pieces of edges from an upper point to a lower one, each (x, row), and the width of the drawing in inches"""


def ours(n: int, arcs: list[IndexArc]) -> Drawn:
    """Return the drawing of `layered`."""
    layout = layered([WIDTH] * n, arcs)
    left, _, right, _ = layout.bounds
    pieces: Pieces = []
    for (source, target), down, route in zip(arcs, layout.down, layout.routes, strict=True):
        upper, lower = (source, target) if down else (target, source)
        xs = [layout.centres[upper, 0], *route[1:-1:2, 0], layout.centres[lower, 0]]
        rows = range(layout.layers[upper], layout.layers[lower] + 1)
        pieces += list(pairwise(zip(xs, rows, strict=True)))
    return pieces, right - left


def igraphs(n: int, arcs: list[IndexArc]) -> Drawn:
    """Return the drawing of igraph's `layout_sugiyama`; centres are a node's width and our gap apart."""
    import igraph

    layout = igraph.Graph(n, arcs, directed=True).layout_sugiyama(hgap=WIDTH + GAP_WIDTH, maxiter=1000)
    pieces: Pieces = []
    for (source, target), slots in zip(arcs, layout.edge_routing, strict=True):
        points = sorted(((x, y) for x, y in (layout[source], *slots, layout[target])), key=lambda at: at[1])
        rows = range(round(points[0][1]), round(points[-1][1]) + 1)
        # A slot on a straight line is not among the points.
        xs = np.interp(rows, [y for _, y in points], [x for x, _ in points])
        pieces += list(pairwise(zip(map(float, xs), rows, strict=True)))
    reached = [x for piece in pieces for x, _ in piece]
    return pieces, max(reached) - min(reached) + WIDTH


def crossed(pieces: Pieces) -> int:
    """The number of crossings between pieces of edges."""
    points = sorted({end for piece in pieces for end in piece}, key=lambda at: (at[1], at[0]))
    number = {point: at for at, point in enumerate(points)}
    rows: dict[float, list[int]] = {}
    for point in points:
        rows.setdefault(point[1], []).append(number[point])
    below: list[list[int]] = [[] for _ in points]
    for upper, lower in pieces:
        below[number[upper]].append(number[lower])
    return crossings(list(rows.values()), below)


def measured(draw: Callable[[int, list[IndexArc]], Drawn], graphs: list[tuple[int, list[IndexArc]]]) -> dict[str, Any]:
    """The means over `graphs`."""
    found = []
    for n, arcs in graphs:
        before = time.process_time()
        pieces, width = draw(n, arcs)
        found.append((crossed(pieces), width, time.process_time() - before))
    named = zip(("crossings", "width, inches", "CPU s"), zip(*found, strict=True), strict=True)
    return {name: round(mean(values), 2) for name, values in named}


def main() -> None:
    """Compare on three sizes."""
    lines = []
    for n, edges in ((20, 30), (50, 100), (100, 200)):
        dags = [random_dag(n, edges, np.random.default_rng(seed)) for seed in range(2, 7)]
        graphs = [(n, [(int(a), int(b)) for a, b in np.argwhere(dag)]) for dag in dags]
        for name, draw in (("ours", ours), ("igraph", igraphs)):
            lines.append({"graph": f"d = {n}, {edges} edges", "layout": name, **measured(draw, graphs)})
    show("layout", lines, {})


if __name__ == "__main__":
    main()
