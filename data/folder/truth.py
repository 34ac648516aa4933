"""Graphs as CSV files: `source,target[,weight][,type][,lag]`, one edge a line; `weight:<silo>` for a silo's own.

Without a `type` the graph is a DAG. The types `directed` and `undirected` make it a CPDAG; in a PAG they are the marks
at source and target: `-->`, `<->`, `o->`, `o-o`, `o--`, `---` and the same the other way round.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.names import check_names
from fedbnsl.algorithms.errors import BadInput, shown
from fedbnsl.algorithms.graphs.edge_text import PAG_TYPES, typed_edges
from fedbnsl.algorithms.graphs.structure import GraphKind, Structure

from .check import cell_fault
from .edge_kinds import kind_of_types

PLAIN = ("source", "target", "weight", "type", "lag")
OWN = "weight:"


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    weight: float
    type: str
    own: tuple[float, ...]
    place: str


def read_truth(path: Path, variables: Sequence[str]) -> tuple[Structure, dict[str, NDArray[np.float64]]]:
    """Read the true graph over `variables`, and each silo's own weights where the file has columns `weight:<silo>`.

    Edges without a weight weigh 1; those of a PAG have none. A cycle is read as it stands: comparing with it is refused
    elsewhere. Raises `BadInput` naming file, line, column and value: no such file, a missing or unknown column, an
    unknown variable, an edge from a variable to itself, an edge given twice, a weight that is no number or zero, a type
    that is none or of another kind of graph, a lag other than 0.
    """
    silos, kind, edges = _read_edges(path)
    place = {name: number for number, name in enumerate(variables)}
    weights = np.zeros((len(variables), len(variables)))
    own = {silo: np.zeros_like(weights) for silo in silos}
    for edge in edges:
        for column, name in (("source", edge.source), ("target", edge.target)):
            if name not in place:
                raise BadInput(f"{edge.place}, column {column!r}: {shown(name)} is not a column of the data")
        i, j = place[edge.source], place[edge.target]
        if kind == "pag":
            weights[j, i], weights[i, j] = PAG_TYPES[edge.type]
            continue
        weights[i, j] = edge.weight
        if edge.type == "undirected":
            weights[j, i] = edge.weight
        for silo, weight in zip(silos, edge.own, strict=True):
            own[silo][i, j] = weight
    return Structure(tuple(variables), weights, kind), own


def read_structure(path: Path, variables: Sequence[str] | None = None) -> Structure:
    """Read a graph over `variables`; by default over those its edges name, in order of appearance.

    Raises `BadInput` as `read_truth` does.
    """
    if variables is None:
        _, _, edges = _read_edges(path)
        variables = list(dict.fromkeys(name for edge in edges for name in (edge.source, edge.target)))
    return read_truth(path, variables)[0]


def write_structure(
    path: Path, structure: Structure, silo_weights: Mapping[str, NDArray[np.float64]] | None = None
) -> None:
    """Write `structure`, its edges in the order of its variables: a DAG as `source,target,weight`, weights exactly.

    A CPDAG has a column `type` besides, and an undirected edge stands there once; a PAG is `source,target,type`.
    `silo_weights[silo]`, [n_variables, n_variables], add a column `weight:<silo>` each to a DAG.
    """
    own = {silo: (silo_weights or {})[silo] for silo in sorted(silo_weights or {})}
    names = structure.variables
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if structure.kind != "dag":
            weight = ["weight"] if structure.kind == "cpdag" else []
            writer.writerow(["source", "target", *weight, "type"])
            for i, j, type_ in typed_edges(structure):
                writer.writerow([names[i], names[j], *(repr(float(structure.weights[i, j])) for _ in weight), type_])
            return
        writer.writerow(["source", "target", "weight", *(OWN + silo for silo in own)])
        for i, j in np.argwhere(structure.adjacency):
            weights = [float(matrix[i, j]) for matrix in (structure.weights, *own.values())]
            writer.writerow([names[i], names[j], *map(repr, weights)])


def _read_edges(path: Path) -> tuple[list[str], GraphKind, list[_Edge]]:
    """Return the silos that have weights of their own, the kind of graph, the edges with the line each stands on."""
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    try:
        reader = csv.reader(StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
        rows = [(f"{path}: line {reader.line_num}", [cell.strip() for cell in row]) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8: {error}") from None
    if not rows:
        raise BadInput(f"{path}: the file is empty")
    header = rows[0][1]
    _check_header(*rows[0])
    edges = []
    for place, row in rows[1:]:
        if len(row) != len(header):
            raise BadInput(f"{place}: {len(row)} cells, but the header names {len(header)} columns")
        edges.append(_edge(place, dict(zip(header, row, strict=True))))
    kind = kind_of_types([(edge.place, edge.type) for edge in edges]) if "type" in header else "dag"
    _check_once(edges, kind)
    return [name.removeprefix(OWN) for name in header if name.startswith(OWN)], kind, edges


def _check_once(edges: Sequence[_Edge], kind: GraphKind) -> None:
    """Raise `BadInput` for an edge that stands twice; but in a DAG's file two variables may be joined both ways."""
    seen: dict[tuple[str, ...], str] = {}
    for edge in edges:
        ends = (edge.source, edge.target)
        first = seen.setdefault(ends if kind == "dag" else tuple(sorted(ends)), edge.place)
        if first != edge.place:
            line = first.rpartition("line ")[2]
            raise BadInput(
                f"{edge.place}: the edge {shown(edge.source)} → {shown(edge.target)} stands on line {line} already"
            )


def _check_header(place: str, header: list[str]) -> None:
    check_names(place, header)
    for name in ("source", "target"):
        if name not in header:
            raise BadInput(f"{place}: column {name!r} is missing; a graph needs source,target[,weight][,type][,lag]")
    for name in header:
        if name not in PLAIN and not (name.startswith(OWN) and name != OWN):
            raise BadInput(
                f"{place}: column {shown(name)} is not one of source, target, weight, type, lag, weight:<silo>"
            )


def _edge(place: str, cells: dict[str, str]) -> _Edge:
    source, target = cells["source"], cells["target"]
    for column in ("source", "target"):
        if not cells[column]:
            raise BadInput(f"{place}, column {column!r}: the cell is empty")
    if source == target:
        raise BadInput(f"{place}: an edge from {shown(source)} to itself")
    numbers = {}
    for column in (name for name in cells if name == "weight" or name.startswith(OWN)):
        fault = cell_fault(cells[column])
        if fault:
            raise BadInput(f"{place}, column {shown(column)}: {fault}")
        numbers[column] = float(cells[column])
    weight = numbers.pop("weight", 1.0)
    if weight == 0:
        raise BadInput(f"{place}, column 'weight': {shown(cells['weight'])} would be no edge")
    lag = cells.get("lag", "0")
    if cell_fault(lag) or float(lag) != 0:
        raise BadInput(f"{place}, column 'lag': {shown(lag)}, but only edges within a time step (0) can be read")
    return _Edge(source, target, weight, cells.get("type", ""), tuple(numbers.values()), place)
