"""The structure of a round as MLflow keeps it: as JSON, and as a small picture of its matrix or matrices."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.edge_text import typed_edges
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged
from fedbnsl.algorithms.graphs.marks import ARROW, CIRCLE
from fedbnsl.algorithms.graphs.structure import Structure

BLUE, RED, AMBER, GREY = (22, 84, 160), (196, 48, 18), (224, 160, 48), (150, 150, 150)
SIDE = 320
"""pixels of a matrix, or a few fewer"""
BETWEEN = 12
"""pixels between the matrices of a dynamic structure"""


def structure_json(structure: Structure, number: int) -> str:
    """Return a structure as JSON: its variables, and source, target, type and weight (none in a PAG) of every edge.

    A dynamic one has its number of `lags` besides, and every edge its `lag`, 0 within one time.
    """
    names, dynamic = structure.variables, structure.lagged is not None
    edges: list[dict[str, Any]] = [
        {"source": names[i], "target": names[j], "type": type_}
        | ({} if structure.kind == "pag" else {"weight": float(structure.weights[i, j])})
        | ({"lag": 0} if dynamic else {})
        for i, j, type_ in typed_edges(structure)
    ]
    edges += [
        {"source": edge.source, "target": edge.target, "type": "directed", "weight": edge.weight, "lag": edge.lag}
        for edge in classify_lagged(structure, None)
    ]
    content = {
        "round": number,
        "kind": structure.kind,
        "acyclic": structure.acyclic,
        **({"lags": structure.lags} if dynamic else {}),
        "variables": names,
        "edges": edges,
    }
    return json.dumps(content, ensure_ascii=False)


def adjacency_image(structure: Structure) -> NDArray[np.uint8]:
    """Return the structure as a picture `[height, width, 3]`, row causes column, white where there is no edge.

    Weights above zero are blue, below red; an edge keeps at least a quarter of the colour, however weak it is. Of a PAG
    the mark at the column's variable: an arrow blue, a circle amber, a tail grey. Of a dynamic structure the matrices W
    and A_1, A_2, ... stand beside each other, each on a scale of its own.
    """
    if structure.kind == "pag":
        weights = structure.weights
        arrow, circle = (weights == ARROW)[..., None], (weights == CIRCLE)[..., None]
        colour = np.where(arrow, np.array(BLUE), np.where(circle, np.array(AMBER), np.array(GREY)))
        return _picture((weights != 0).astype(np.float64), colour)
    pictures = [
        _signed(weights) for weights in (structure.weights, *(() if structure.lagged is None else structure.lagged))
    ]
    gap = np.full((len(pictures[0]), BETWEEN, 3), GREY, np.uint8)
    return np.hstack([part for picture in pictures for part in (gap, picture)][1:])


def _signed(weights: NDArray[np.float64]) -> NDArray[np.uint8]:
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    strength = np.where(weights != 0, 0.25 + 0.75 * np.abs(weights) / largest, 0.0)
    return _picture(strength, np.where(weights[..., None] > 0, np.array(BLUE), np.array(RED)))


def _picture(strength: NDArray[np.float64], colour: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the picture of a matrix, `strength` `[d, d]` saying how much of `colour` `[d, d, 3]` each cell has."""
    pixels = np.rint(255 + strength[..., None] * (colour - 255.0)).astype(np.uint8)
    size = max(1, SIDE // len(strength))
    return np.asarray(pixels.repeat(size, axis=0).repeat(size, axis=1))
