"""A true graph of recorded series: a file as `truth.csv`, or JSON with nodes and edges."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.structure import Structure

from ..folder.truth import read_truth


def read_summary(path: Path, variables: tuple[str, ...]) -> Structure:
    """Return the graph in `path` over `variables`: a .json file is `{"edges": [[source, target], ...]}`.

    Such a graph says which variable drives which, not after how many steps, and may have cycles. Raises `BadInput`
    naming file, edge and variable, or as `read_truth` does.
    """
    if path.suffix.lower() != ".json":
        return read_truth(path, variables)[0]
    place = {name: number for number, name in enumerate(variables)}
    weights = np.zeros((len(variables), len(variables)))
    for number, edge in enumerate(_edges(path), start=1):
        if not isinstance(edge, list) or len(edge) != 2 or not all(isinstance(name, str) for name in edge):
            raise BadInput(f"{path}: edge {number}: {shown(str(edge))} is not a pair of names")
        for name in edge:
            if name not in place:
                raise BadInput(f"{path}: edge {number}: {shown(name)} is not a column of the data")
        source, target = edge
        if source == target:
            raise BadInput(f"{path}: edge {number}: an edge from {shown(source)} to itself")
        weights[place[source], place[target]] = 1.0
    return Structure(variables, weights)


def _edges(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    edges = content.get("edges") if isinstance(content, dict) else None
    if not isinstance(edges, list):
        raise BadInput(f"{path}: not a JSON object with a list of 'edges'")
    return edges
