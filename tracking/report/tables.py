"""The tables of the report as plain values: edges, their changes and confidence, silos, forecasts.

Cells are numbers, text, None (shown as a dash) or a `Mark`; `templates/macros.html.j2` renders them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedbnsl.algorithms.graphs.compare import summary_graph
from fedbnsl.algorithms.graphs.edge_figures import key_of, known_figures
from fedbnsl.algorithms.graphs.edges import (
    Category,
    Edge,
    LaggedEdge,
    classify,
    classify_lagged,
    padded_lagged_weights,
    weighted,
)
from fedbnsl.algorithms.graphs.pag import ARROW, TAIL
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import Network

from ..comparison import Comparison
from ..result import FoundTargets, RunResult, SiloEdge, radius_of, silo_edges

SCROLLING_ROWS = 24
"""number of rows above which a table scrolls; shorter tables are shown whole, because a reader may not notice the
scroll bar"""
MIN_STRENGTH = 0.1
"""minimum strength of a listed edge that is in neither structure"""


@dataclass(frozen=True)
class Mark:
    """A word in a table, in the style of its `kind`."""

    kind: str
    text: str


@dataclass(frozen=True)
class ReportTable:
    """A header, and rows with the same number of cells; columns of numbers are aligned to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    scrolling: bool = False

    @property
    def numeric(self) -> list[bool]:
        """For each column, whether it has cells that are not None, and all of them are numbers."""
        columns = ([row[k] for row in self.rows if row[k] is not None] for k in range(len(self.header)))
        return [bool(cells) and all(map(_is_number, cells)) for cells in columns]

    @property
    def head(self) -> list[tuple[bool, str]]:
        """The names in the header, each after whether its column is numeric."""
        return list(zip(self.numeric, self.header, strict=True))

    @property
    def body(self) -> list[list[tuple[bool, object]]]:
        """The rows, with each cell after whether its column is numeric."""
        numeric = self.numeric
        return [list(zip(numeric, row, strict=True)) for row in self.rows]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _long(header: Sequence[str], rows: Iterable[Sequence[object]]) -> ReportTable:
    """A table that scrolls if it has many rows."""
    rows = list(rows)
    return ReportTable(header, rows, scrolling=len(rows) > SCROLLING_ROWS)


# The edges of the structure, and their changes.

MARKS: dict[Category, str] = {
    "right": "✓ correct",
    "extra": "✗ extra",
    "missing": "✗ missing",
    "reversed": "↺ reversed",
    "half-directed": "◐ half-directed",
}
EdgeKind = Literal["all", "any lag", "within", "across", "own past"]


@dataclass(frozen=True)
class EdgeSection:
    """The edges of one kind, the strongest first; the table is None if there are no such edges."""

    kind: EdgeKind
    table: ReportTable | None
    directed_by_variances: bool = False
    """whether their directions rest on equal error variances"""


def edge_sections(result: RunResult) -> list[EdgeSection]:
    """The tables of edges: one table for most structures; for dynamic structures, a table for each kind of edge."""
    structure, truth = result.structure, result.truth
    if not structure.lags:
        strengths = result.confidence.strengths if result.confidence else None
        return [EdgeSection("all", _edge_table(classify(structure, truth), structure, truth, strengths))]
    sections = []
    if truth is not None and not truth.lags:
        at_any_lag = summary_graph(structure)
        sections.append(EdgeSection("any lag", _edge_table(classify(at_any_lag, truth), at_any_lag, truth)))
        truth = None
    directed = structure.kind == "dag" and bool(structure.adjacency.any())
    within = _edge_table(classify(structure, truth), structure, truth)
    lagged = classify_lagged(structure, truth)
    across = _edge_table([edge for edge in lagged if not edge.own], structure, truth)
    sections += [EdgeSection("within", within, directed), EdgeSection("across", across)]
    if any(edge.own for edge in lagged):
        sections.append(EdgeSection("own past", _own_past(structure, truth)))
    return sections


def _edge_table(
    edges: Sequence[Edge], structure: Structure, truth: Structure | None, strengths: Strengths | None = None
) -> ReportTable | None:
    """A row for each edge, sorted by weight or, without weights, by strength; None without edges."""
    if not edges:
        return None
    has_weights = weighted(structure) or (truth is not None and weighted(truth))
    true = any(edge.true_weight not in (None, 1.0) for edge in edges)
    names = ["edge", *["weight"] * has_weights, *["strength", "direction"] * (strengths is not None)]
    names += [*["true weight"] * true, *[""] * (truth is not None)]
    ranked = []
    for edge in edges:
        mark = Mark(edge.category, MARKS.get(edge.category, ""))
        strength, direction = strengths.strength_and_direction(edge) if strengths else (0.0, None)
        cells = {"edge": edge.text, "weight": edge.weight, "true weight": edge.true_weight, "": mark}
        cells |= {"strength": strength, "direction": direction}
        ranked.append((-abs(edge.weight or 0.0), -strength, [cells[name] for name in names]))
    return _long(names, [row for *_, row in sorted(ranked, key=lambda one: one[:2])])


FIGURE_LABELS = {
    "log_likelihood": "log-likelihood gained",
    "bic": "BIC gained",
    "p_value": "p",
    "score": "BDeu gained",
    "largest_p_value": "largest p of the search",
}
"""the labels of the figures of edges"""


def figure_table(result: RunResult) -> ReportTable | None:
    """The gains in fit and the p-values of each edge, the greatest gain first; None if nothing is known."""
    found, names = result.edge_figures, known_figures(result.edge_figures)
    edges = [edge for edge in _all_edges(result.structure) if key_of(edge) in found]
    if not edges:
        return None
    by_gain = sorted(edges, key=lambda edge: -(found[key_of(edge)].log_likelihood or 0.0))
    rows = [(edge.text, *(getattr(found[key_of(edge)], name) for name in names)) for edge in by_gain]
    return _long(("edge", *(FIGURE_LABELS[name] for name in names)), rows)


def _own_past(structure: Structure, truth: Structure | None) -> ReportTable:
    """The weights of each variable's own past, with a column per lag, and their true values."""
    lags = max(structure.lags, truth.lags if truth else 0)
    shown = {"": structure} | ({"true, ": truth.reordered(structure.variables)} if truth else {})
    weights = {
        f"{whose}lag {lag}": padded_lagged_weights(one, lags)[lag - 1].diagonal()
        for whose, one in shown.items()
        for lag in range(1, lags + 1)
    }
    rows = [(name, *(float(own[v]) or None for own in weights.values())) for v, name in enumerate(structure.variables)]
    return _long(("variable", *weights), rows)


def changes_table(changes: Comparison) -> ReportTable | None:
    """A row for each changed edge and, with weights, for each other edge by the change of weight; None without rows."""
    edges = [one for one in changes.structure.edges if one.fate != "kept" or changes.weighted]
    rows = [
        (
            one.edge.text,
            Mark(one.fate.split()[0], one.fate),
            *((one.before, one.after, one.weight_change) if changes.weighted else ()),
        )
        for one in sorted(edges, key=lambda one: (one.fate == "kept", -(one.weight_change or 0.0)))
    ]
    return (
        _long(("edge", "change", *["weight before", "weight now", "difference"] * changes.weighted), rows)
        if rows
        else None
    )


def drift_table(changes: Comparison) -> ReportTable | None:
    """The parameter drift of each variable, the largest first; None if the drift is unknown."""
    if changes.drift is None:
        return None
    terms = sorted(changes.drift.by_variable.items(), key=lambda one: -one[1])
    return _long(("variable", "drift, nats per row"), terms)


# The confidence of the edges, by resamples.


def confidence_table(result: RunResult, averaged: Structure, strengths: Strengths) -> ReportTable | None:
    """A row for each edge that is learned, averaged or frequent in resamples, by strength; None without edges."""
    learned = {_pair(edge): edge for edge in _all_edges(result.structure)}
    average = {_pair(edge): edge for edge in _all_edges(averaged)}
    truth = {_pair(edge) for edge in _all_edges(result.truth)} if result.truth else set()
    edges = {_pair(edge): edge for edge in frequent_edges(strengths, MIN_STRENGTH)} | average | learned
    rows = []
    for pair, edge in sorted(edges.items(), key=lambda one: -strengths.strength_and_direction(one[1])[0]):
        other = average[pair].text if pair in average else None
        true = ["yes" if pair in truth else "no"] * bool(result.truth)
        rows.append(
            (edge.text, *strengths.strength_and_direction(edge), "yes" if pair in learned else None, other, *true)
        )
    header = (
        "edge",
        "strength",
        "direction",
        "learned",
        "in the averaged network",
        *["in the true graph"] * bool(result.truth),
    )
    return _long(header, rows) if rows else None


def _all_edges(structure: Structure) -> tuple[Edge, ...]:
    return (*classify(structure, None), *classify_lagged(structure, None))


def _pair(edge: Edge) -> tuple[object, ...]:
    """The two variables that an edge joins: in the order of time and with the lag for a lagged edge, else sorted."""
    if isinstance(edge, LaggedEdge):
        return edge.source, edge.target, edge.lag
    return (*sorted((edge.source, edge.target)), 0)


def frequent_edges(strengths: Strengths, least: float) -> Iterator[Edge]:
    """Yield the edges whose strength is at least `least`, each in the direction that most resamples have."""
    names = strengths.variables
    for i, j in np.argwhere(np.triu(strengths.strength, 1) >= least).tolist():
        there, back = strengths.arrows[i, j], strengths.arrows[j, i]
        source, target = (i, j) if there >= back else (j, i)
        yield Edge(names[source], names[target], None, None, TAIL, TAIL if there == back else ARROW, "learned")
    for k, i, j in np.argwhere(strengths.lagged >= least).tolist():
        yield LaggedEdge(names[i], names[j], None, None, TAIL, ARROW, "learned", k + 1)


# The silos.


@dataclass(frozen=True)
class SharedEdges:
    """The number of silos that have each edge, in a table for each kind of edge."""

    tables: list[ReportTable] = field(default_factory=list)
    turned: bool = False
    """whether silos disagree on the direction of an edge"""


def shared_edges(result: RunResult) -> SharedEdges | None:
    """The number of silos that have each edge in their own structure; None if silos have no structures of their own."""
    if not result.local_structures:
        return None
    edges, silos = silo_edges(result.local_structures), len(result.local_structures)
    lagged = [one for one in edges if isinstance(one.edge, LaggedEdge)]
    kinds = {
        "edge within one time step": [one for one in edges if not one.lag],
        "edge across time": [one for one in lagged if one.edge.source != one.edge.target],
        "effect of own past": [one for one in lagged if one.edge.source == one.edge.target],
    }
    if not result.structure.lags:
        kinds = {"edge": list(edges)}
    tables = [_shared(kind, silos, of_kind) for kind, of_kind in kinds.items() if of_kind]
    return SharedEdges(tables, any(one.turned for one in edges))


def _shared(kind: str, silos: int, edges: Sequence[SiloEdge]) -> ReportTable:
    """A table of these edges, with a column for the opposite direction if a silo has it."""
    turned = any(one.turned for one in edges)
    rows = [
        (
            one.edge.text,
            len(one.weights),
            *([one.turned] if turned else []),
            one.mean,
            min(one.known, default=None),
            max(one.known, default=None),
        )
        for one in edges
    ]
    return _long(
        (kind, f"silos of {silos}", *["opposite direction"] * turned, "mean weight", "minimum", "maximum"), rows
    )


def silo_table(result: RunResult) -> ReportTable:
    """A row for each silo: its rows and, if they are known, the edges of its own structure and its errors."""
    errors = list(dict.fromkeys(name for silo in result.refit.values() for name in silo))
    local, over_time = bool(result.local_structures), bool(result.structure.lags)
    names = ["silo", "rows", *["edges of its own graph"] * local]
    names += ["lagged edges", "spectral radius"] * (local and over_time)
    names += [name.replace("_", " ") for name in errors]
    rows = []
    for silo in result.schema.silos:
        own = result.local_structures.get(silo)
        edges: list[object] = [len(classify(own, None)) if own else None] * local
        if local and over_time:
            edges += [len(classify_lagged(own, None)) if own else None, radius_of(own) if own else None]
        refit = [result.refit.get(silo, {}).get(name) for name in errors]
        rows.append((silo, result.schema.rows[silo], *edges, *refit))
    return _long(names, rows)


def silo_scores(result: RunResult) -> ReportTable | None:
    """The scores of each silo's own structure; None if there are no such scores."""
    if not result.silo_scores:
        return None
    labels = {"shd": "SHD", "tpr": "TPR", "fdr": "FDR", "auroc": "AUROC"}
    labels |= {f"lagged_{name}": f"{label}, lagged" for name, label in labels.items()}
    known = [name for name in labels if any(name in one for one in result.silo_scores.values())]
    rows = [(silo, *(one.get(name) for name in known)) for silo, one in sorted(result.silo_scores.items())]
    return _long(("silo", *(labels[name] for name in known)), rows)


# Forecasts.


def forecast_table(result: RunResult, network: Network) -> ReportTable | None:
    """The errors of the model's forecasts and of persistence forecasts, side by side; None if they are unknown."""
    forecasts, metrics = result.parameters.forecasts, result.metrics
    if forecasts is None:
        return None
    errors = zip(network.variables, forecasts.model, forecasts.persistence, strict=True)
    means = {"mse": "mean over variables", "wrong": "mean share of wrong labels"}
    rows = [
        *(
            (text, *_beside(metrics.get(f"forecast_{name}"), metrics.get(f"persistence_{name}")))
            for name, text in means.items()
            if metrics.get(f"forecast_{name}") is not None
        ),
        *((name, *_beside(float(model), float(same))) for name, model, same in errors),
    ]
    return _long(("variable", "model forecast", "persistence forecast", "ratio"), rows)


def _beside(model: object, same: object) -> tuple[object, object, object]:
    """Both errors and their ratio; the ratio is None if it is not defined."""
    if isinstance(model, float) and isinstance(same, float) and same > 0:
        return model, same, model / same
    return model, same, None


def evidence_table(found: FoundTargets) -> ReportTable:
    """The mechanisms that were found to differ, with the evidence."""
    rows = [
        (one.condition, one.variable, ", ".join(one.parents) or "none", one.statistic, one.parameters, one.p_value)
        for one in found.changes
    ]
    header = (found.by, "variable", "its causes", "likelihood ratio", "degrees of freedom", "p, corrected")
    return ReportTable(header, rows, scrolling=len(rows) > SCROLLING_ROWS)
