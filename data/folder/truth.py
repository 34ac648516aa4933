"""Graphs and background knowledge as CSV files.

A graph has the header `source,target[,weight][,type][,lag]`, one line per edge, and columns `weight:<silo>` for silos'
own weights. Without a column `type` the graph is a DAG. With the types `directed` and `undirected` the graph is a
CPDAG. The types of a PAG are the marks at source and target: `-->`, `<->`, `o->`, `o-o`, `o--`, `---` and their mirror
images (`fedbnsl.algorithms.graphs.edges`).

In a dynamic DAG or CPDAG, an edge of lag k starts at the source k steps earlier; its type is `directed`. Without a
column `lag`, or with only lags of 0, the graph does not specify lags. For time series, such a graph is a summary of
effects at any lag, and may have cycles.

Background knowledge has the header `rule,source,target`, one line per rule:

- `required,A,B`: the graph has the edge A → B.
- `forbidden,A,B`: the graph does not have the edge A → B.
- `no-parents,A`: A has no causes.
- `tier,A,2`: A is in tier 2, and variables in later tiers do not cause A.
"""

import csv
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.knowledge import Arc, Knowledge, no_parent_arcs, tier_arcs
from fedbnsl.algorithms.core.schema import check_names, escape_formula, unescape_formula
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.graphs.edges import CPDAG_TYPES, FIGURES, PAG_TYPES, ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import GraphKind, Structure

from .cells import cell_fault


def kind_of_types(types: Sequence[tuple[str, str]]) -> GraphKind:
    """The kind of the graph whose edges have these types, each with its place; it is a CPDAG if there are no edges.

    Raises `BadInput` for an unknown type, and for types of a CPDAG and of a PAG in one graph.
    """
    kind: GraphKind | None = None
    for place, type_ in types:
        if type_ not in CPDAG_TYPES and type_ not in PAG_TYPES:
            choices = ", ".join((*CPDAG_TYPES, *PAG_TYPES))
            raise BadInput(f"{place}, column 'type': {quoted(type_)} is not one of {choices}")
        found: GraphKind = "cpdag" if type_ in CPDAG_TYPES else "pag"
        if kind not in (None, found):
            raise BadInput(
                f"{place}, column 'type': {quoted(type_)}, but the edges above have types of a {kind.upper()}"
            )
        kind = found
    return kind or "cpdag"


COLUMNS = ("source", "target", "weight", "type", "lag")
IGNORED_COLUMNS = ("strength", "direction", "imposed", "experiment", "basis", *FIGURES)
"""columns on resamples, knowledge, experiments, directions and fit, which are not part of the graph"""
SILO_WEIGHT = "weight:"
MAX_LAG = 1000
"""maximum lag of an edge, in steps"""


_Row = tuple[str, list[str]]
"""the place of a line, for messages, and its cells"""


@dataclass(frozen=True)
class _Edge:
    source: str
    target: str
    weight: float
    type: str
    lag: int
    own: tuple[float, ...]
    place: str


def read_truth(
    path: Path, variables: Sequence[str], excluded: Collection[str] = ()
) -> tuple[Structure, dict[str, NDArray[np.float64]]]:
    """Read the true graph over `variables`, and each silo's own weights if the file has columns `weight:<silo>`.

    Edges of `excluded` columns are left out. The default weight is 1; edges of a PAG have no weights. A silo's own
    weights are [n_variables, n_variables], or [lags + 1, n_variables, n_variables] with lagged edges, and 0 for a
    missing edge. The graph may have cycles, which only a later comparison may refuse.

    Raises `BadInput` naming file, line, column and value for a file that does not exist, a missing or unknown column,
    an unknown variable, an edge from a variable to itself within one time step, a duplicate edge, an invalid or zero
    weight, an unknown type, types of different kinds of graphs, and an invalid lag.
    """
    return _graph(_rows(path), variables, excluded)


def _graph(
    rows: Sequence[_Row], variables: Sequence[str], excluded: Collection[str] = ()
) -> tuple[Structure, dict[str, NDArray[np.float64]]]:
    """The graph in the `rows` of a file, and each silo's own weights; returns and raises as `read_truth` does."""
    silos, kind, edges = _edges_in(rows)
    edges = [edge for edge in edges if edge.source not in excluded and edge.target not in excluded]
    place = {name: number for number, name in enumerate(variables)}
    lags, d = max((edge.lag for edge in edges), default=0), len(variables)
    slices = np.zeros((lags + 1, d, d))
    weights = slices[0]
    own = {silo: np.zeros_like(slices) for silo in silos}
    for edge in edges:
        for column, name in (("source", edge.source), ("target", edge.target)):
            if name not in place:
                raise BadInput(f"{edge.place}, column {column!r}: {quoted(name)} is not a column of the data")
        i, j = place[edge.source], place[edge.target]
        if kind == "pag":
            weights[j, i], weights[i, j] = PAG_TYPES[edge.type]
            continue
        slices[edge.lag, i, j] = edge.weight
        if edge.type == "undirected":
            weights[j, i] = edge.weight
        for silo, weight in zip(silos, edge.own, strict=True):
            own[silo][edge.lag, i, j] = weight
    if not lags:
        return Structure(tuple(variables), weights, kind), {silo: matrix[0] for silo, matrix in own.items()}
    return Structure(tuple(variables), weights, kind, lagged=slices[1:]), own


def read_structure(path: Path, variables: Sequence[str] | None = None) -> Structure:
    """Read a graph over `variables`; by default they are the variables of its edges, in order of appearance.

    Raises `BadInput` as `read_truth` does.
    """
    if variables is None:
        _, _, edges = _edges_in(_rows(path))
        variables = list(dict.fromkeys(name for edge in edges for name in (edge.source, edge.target)))
    return read_truth(path, variables)[0]


def read_structures(path: Path, variables: Sequence[str], by: str = "silo") -> dict[str, Structure]:
    """Read several graphs over `variables` from one file, whose first column, `by`, has the graph of each edge.

    Raises `BadInput` as `read_truth` does.
    """
    (place, header), *rows = _rows(path)
    if header[0] != by:
        raise BadInput(f"{place}: the first column is {quoted(header[0])}, not {by!r}")
    names = dict.fromkeys(unescape_formula(cells[0]) for _, cells in rows)
    parts = {
        name: [(place, cells[1:]) for place, cells in rows if unescape_formula(cells[0]) == name] for name in names
    }
    return {name: _graph([(place, header[1:]), *part], variables)[0] for name, part in parts.items()}


def write_structure(
    path: Path, structure: Structure, silo_weights: Mapping[str, NDArray[np.float64]] | None = None
) -> None:
    """Write `structure`, with edges in the order of its variables: a DAG as `source,target,weight`, with exact weights.

    A CPDAG has an additional column `type`, and one line for an undirected edge; a PAG is `source,target,type`. A
    dynamic graph has a column `lag`. For a DAG, `silo_weights[silo]`, of the shape in which `read_truth` returns them,
    become columns `weight:<silo>`.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        rows = _typed_rows(structure) if structure.kind != "dag" else _dag_rows(structure, silo_weights or {})
        writer.writerows([escape_formula(source), escape_formula(target), *others] for source, target, *others in rows)


def _typed_rows(structure: Structure) -> Iterator[Sequence[Any]]:
    if structure.lagged is not None and structure.kind != "cpdag":
        raise ValueError(f"a {structure.kind} with lagged edges cannot be written")
    header, rows = ClassifiedEdges(structure).rows()
    yield header
    yield from rows


def _dag_rows(structure: Structure, silo_weights: Mapping[str, NDArray[np.float64]]) -> Iterator[Sequence[Any]]:
    silos, names = sorted(silo_weights), structure.variables
    dynamic = structure.lagged is not None
    yield ["source", "target", "weight", *(["lag"] if dynamic else []), *(SILO_WEIGHT + silo for silo in silos)]
    shared = structure.weights[None] if structure.lagged is None else np.stack([structure.weights, *structure.lagged])
    own = [silo_weights[silo].reshape(shared.shape) for silo in silos]
    for lag, i, j in np.argwhere(shared):
        weight, *others = (repr(float(slices[lag, i, j])) for slices in (shared, *own))
        yield [names[i], names[j], weight, *([str(lag)] if dynamic else []), *others]


def _rows(path: Path) -> list[_Row]:
    """The cells of each line that is not empty, with its place for messages; the header is first.

    Raises `BadInput` if the file does not exist, is empty, or is not CSV in UTF-8.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    try:
        reader = csv.reader(StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
        rows = [(f"{path}: line {reader.line_num}", [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8: {error}") from None
    if not rows:
        raise BadInput(f"{path}: the file is empty")
    return rows


def _edges_in(rows: Sequence[_Row]) -> tuple[list[str], GraphKind, list[_Edge]]:
    """The silos with weights of their own, the kind of graph, and the edges; raises `BadInput` as `read_truth` does."""
    header = rows[0][1]
    _check_header(*rows[0])
    edges = []
    for place, row in rows[1:]:
        if len(row) != len(header):
            raise BadInput(f"{place}: {len(row)} cells, but the header names {len(header)} columns")
        edges.append(_edge(place, dict(zip(header, row, strict=True))))
    kind = kind_of_types([(edge.place, edge.type) for edge in edges]) if "type" in header else "dag"
    _check_once(edges, kind)
    return [name.removeprefix(SILO_WEIGHT) for name in header if name.startswith(SILO_WEIGHT)], kind, edges


def _check_once(edges: Sequence[_Edge], kind: GraphKind) -> None:
    """Raise `BadInput` for a duplicate edge; a file of a DAG may have edges in both directions."""
    seen: dict[tuple[str, ...], str] = {}
    for edge in edges:
        ends = (edge.source, edge.target, *([f"lag {edge.lag}"] if edge.lag else []))
        first = seen.setdefault(ends if kind == "dag" or edge.lag else tuple(sorted(ends)), edge.place)
        if first != edge.place:
            line = first.rpartition("line ")[2]
            raise BadInput(
                f"{edge.place}: the edge {quoted(edge.source)} → {quoted(edge.target)} is already on line {line}"
            )


def _check_header(place: str, header: list[str]) -> None:
    check_names(place, header)
    for name in ("source", "target"):
        if name not in header:
            raise BadInput(f"{place}: column {name!r} is missing; a graph has source,target[,weight][,type][,lag]")
    for name in header:
        if name not in (*COLUMNS, *IGNORED_COLUMNS) and not (name.startswith(SILO_WEIGHT) and name != SILO_WEIGHT):
            raise BadInput(
                f"{place}: column {quoted(name)} is not one of source, target, weight, type, lag, weight:<silo>"
            )


def _edge(place: str, cells: dict[str, str]) -> _Edge:
    source, target = unescape_formula(cells["source"]), unescape_formula(cells["target"])
    for column in ("source", "target"):
        if not cells[column]:
            raise BadInput(f"{place}, column {column!r}: the cell is empty")
    lag = _lag(place, cells.get("lag", "0"), cells.get("type", "directed"))
    if source == target and not lag:
        raise BadInput(f"{place}: an edge from {quoted(source)} to itself")
    numbers = {}
    for column in (name for name in cells if name == "weight" or name.startswith(SILO_WEIGHT)):
        fault = cell_fault(cells[column])
        if fault:
            raise BadInput(f"{place}, column {quoted(column)}: {fault}")
        numbers[column] = float(cells[column])
    weight = numbers.pop("weight", 1.0)
    if weight == 0:
        raise BadInput(f"{place}, column 'weight': {quoted(cells['weight'])} is not a weight: omit an edge of weight 0")
    return _Edge(source, target, weight, cells.get("type", ""), lag, tuple(numbers.values()), place)


def _lag(place: str, cell: str, type_: str) -> int:
    """The lag in a cell of an edge of this type; an empty cell means 0. Raises `BadInput` for an invalid lag."""
    if not cell:
        return 0
    lag = -1.0 if cell_fault(cell) else float(cell)
    if not lag.is_integer() or not 0 <= lag <= MAX_LAG:
        raise BadInput(f"{place}, column 'lag': {quoted(cell)} is not a whole number of steps from 0 to {MAX_LAG}")
    if lag and type_ != "directed":
        raise BadInput(
            f"{place}, column 'lag': {quoted(cell)}, but its type is {quoted(type_)}: the past directs edges"
        )
    return int(lag)


HEADER = ("rule", "source", "target")
RULES = ("required", "forbidden", "no-parents", "tier")


def read_knowledge(path: Path, variables: Sequence[str]) -> Knowledge:
    """The background knowledge in `path` on graphs over `variables`.

    Raises `BadInput` naming file, line, column and value for a file that does not exist, another header, an unknown
    rule or variable, a tier that is not an integer, and contradictory rules.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    arcs: dict[str, list[Arc]] = {"required": [], "forbidden": []}
    tiers: dict[int, list[str]] = defaultdict(list)
    roots: list[str] = []
    for place, (rule, source, target) in _rules(path):
        if rule not in RULES:
            raise BadInput(f"{place}, column 'rule': {quoted(rule)} is not one of {', '.join(RULES)}")
        source = _variable(place, "source", source, variables)
        if rule in arcs:
            arcs[rule].append((source, _variable(place, "target", target, variables)))
        elif rule == "tier":
            tiers[_tier_number(place, target)].append(source)
        else:
            roots.append(source)
    ordered_tiers = [tiers[number] for number in sorted(tiers)]
    forbidden = (*arcs["forbidden"], *tier_arcs(ordered_tiers), *no_parent_arcs(roots, variables))
    return Knowledge(tuple(arcs["required"]), tuple(dict.fromkeys(forbidden)))


def _rules(path: Path) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the place and the three cells of each line below the header that is not empty.

    Raises `BadInput` for another header, and for a file that is not CSV in UTF-8.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            if tuple(next(lines, ())) != HEADER:
                raise BadInput(f"{path}, line 1: the header must be {','.join(HEADER)}")
            number = 2
            for cells in lines:
                if any(cells):
                    rule, source, target = (*(cell.strip() for cell in cells), "", "", "")[:3]
                    yield f"{path}, line {number}", (rule, source, target)
                number = lines.line_num + 1  # a quoted cell may have several lines
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8: {error}") from None


def _variable(place: str, column: str, cell: str, variables: Sequence[str]) -> str:
    """The variable in a cell with its plain name, or its escaped name as in the files of a run.

    Raises `BadInput` if there is no such variable.
    """
    name = cell if cell in variables else unescape_formula(cell)
    if name not in variables:
        raise BadInput(f"{place}, column {column!r}: {quoted(cell)} is not a column of the data")
    return name


def _tier_number(place: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise BadInput(f"{place}, column 'target': {quoted(word)} is not the number of a tier, an integer") from None
