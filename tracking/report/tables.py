"""The tables of the report as plain values: edges, their changes and confidence, silos, forecasts, columns of data.

Cells are numbers, text, None (shown as a dash) or a `Mark`; `templates/macros.html.j2` renders them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import pluralize
from fedbnsl.algorithms.graphs.edges import (
    Category,
    ClassifiedEdges,
    Edge,
    key_of,
    known_figures,
    padded_lagged_weights,
    weighted,
)
from fedbnsl.algorithms.graphs.pag import ARROW, TAIL
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.statistics.transforms import FORMULAS

from ..comparison import Comparison
from ..metrics import shown_in
from ..result import FoundTargets, RunResult, SiloEdge, radius_of

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

    @property
    def scrolling(self) -> bool:
        """Whether a page shows the table in a box that scrolls."""
        return len(self.rows) > SCROLLING_ROWS

    @property
    def numeric(self) -> list[bool]:
        """For each column, whether it has cells that are not None, and all of them are numbers."""
        columns = ([row[k] for row in self.rows if row[k] is not None] for k in range(len(self.header)))
        return [
            bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
            for cells in columns
        ]

    @property
    def records(self) -> list[dict[str, object]]:
        """The rows as dictionaries, by the names of the columns."""
        return [dict(zip(self.header, row, strict=True)) for row in self.rows]


def display(value: object) -> str:
    """`value` as text: four significant digits for floats, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e9 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def format_bytes(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


# The edges of the structure, and their changes.

MARKS: dict[Category, str] = {
    "right": "✓ correct",
    "extra": "✗ extra",
    "missing": "✗ missing",
    "reversed": "↺ reversed",
    "half-directed": "◐ half-directed",
}


def edges_table(
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
        ranked.append((-abs(edge.weight or 0.0), -(strength or 0.0), [cells[name] for name in names]))
    return ReportTable(names, [row for *_, row in sorted(ranked, key=lambda one: one[:2])])


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
    edges = [edge for edge in result.edges if key_of(edge) in found]
    if not edges:
        return None
    by_gain = sorted(edges, key=lambda edge: -(found[key_of(edge)].log_likelihood or 0.0))
    rows = [(edge.text, *(getattr(found[key_of(edge)], name) for name in names)) for edge in by_gain]
    return ReportTable(("edge", *(FIGURE_LABELS[name] for name in names)), rows)


def own_past_table(structure: Structure, truth: Structure | None) -> ReportTable:
    """The weights of each variable's own past, with a column per lag, and their true values."""
    lags = max(structure.lags, truth.lags if truth else 0)
    shown = {"": structure} | ({"true, ": truth.reordered(structure.variables)} if truth else {})
    weights = {
        f"{whose}lag {lag}": padded_lagged_weights(one, lags)[lag - 1].diagonal()
        for whose, one in shown.items()
        for lag in range(1, lags + 1)
    }
    rows = [(name, *(float(own[v]) or None for own in weights.values())) for v, name in enumerate(structure.variables)]
    return ReportTable(("variable", *weights), rows)


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
        ReportTable(("edge", "change", *["weight before", "weight now", "difference"] * changes.weighted), rows)
        if rows
        else None
    )


def drift_table(changes: Comparison) -> ReportTable | None:
    """The parameter drift of each variable, the largest first; None if the drift is unknown."""
    if changes.drift is None:
        return None
    terms = sorted(changes.drift.by_variable.items(), key=lambda one: -one[1])
    return ReportTable(("variable", "drift, nats per row"), terms)


# The confidence of the edges, by resamples.


def confidence_table(result: RunResult) -> ReportTable | None:
    """A row for each edge that is learned, averaged or frequent in resamples, by strength; None without edges."""
    if result.confidence is None or result.averaged_edges is None:
        return None
    strengths = result.confidence.strengths
    learned, average = ({key_of(edge): edge for edge in edges} for edges in (result.edges, result.averaged_edges))
    truth = {key_of(edge) for edge in ClassifiedEdges(result.truth)} if result.truth else set()
    edges = {key_of(edge): edge for edge in frequent_edges(strengths, MIN_STRENGTH)} | average | learned
    rows = []
    for key, edge in sorted(edges.items(), key=lambda one: -(strengths.strength_and_direction(one[1])[0] or 0.0)):
        other = average[key].text if key in average else None
        true = ["yes" if key in truth else "no"] * bool(result.truth)
        rows.append(
            (edge.text, *strengths.strength_and_direction(edge), "yes" if key in learned else None, other, *true)
        )
    columns = ("edge", "strength", "direction", "learned", "in the averaged network")
    return ReportTable((*columns, *["in the true graph"] * bool(result.truth)), rows) if rows else None


def frequent_edges(strengths: Strengths, least: float) -> Iterator[Edge]:
    """Yield the edges whose strength is at least `least`, each in the direction that most resamples have."""
    names = strengths.variables
    for i, j in np.argwhere(np.triu(strengths.strength, 1) >= least).tolist():
        there, back = strengths.arrows[i, j], strengths.arrows[j, i]
        source, target = (i, j) if there >= back else (j, i)
        yield Edge(names[source], names[target], None, None, TAIL, TAIL if there == back else ARROW, "learned")
    for k, i, j in np.argwhere(strengths.lagged >= least).tolist():
        yield Edge(names[i], names[j], None, None, TAIL, ARROW, "learned", k + 1)


# The posterior over graphs.


def posterior_table(result: RunResult) -> ReportTable | None:
    """A row for each pair that the graph or enough of the sampled graphs join, the most probable first; None if empty.

    The direction is the more probable one.
    """
    found = result.graph_posterior.posterior
    if found is None:
        return None
    names, learned = found.variables, result.structure.among(found.variables).adjacency
    shown = np.triu((found.joined >= MIN_STRENGTH) | learned | learned.T, 1)
    ordered = sorted(np.argwhere(shown).tolist(), key=lambda pair: -found.joined[*pair])
    rows = []
    for one, other in ordered:
        i, j = (one, other) if found.edges[one, other] >= found.edges[other, one] else (other, one)
        shares = (float(share[i, j]) for share in (found.edges, found.joined, found.paths))
        joined = "yes" if learned[i, j] or learned[j, i] else None
        rows.append((f"{names[i]} → {names[j]}", *shares, *(found.effect_quantiles(i, j) or ()), joined))
    effects = ("effect", "from", "to") if found.weighted else ()
    return ReportTable(("pair", "edge", "joined", "path", *effects, "joined in the graph"), rows) if rows else None


# The silos.


def shared_edges(result: RunResult) -> list[ReportTable]:
    """The number of silos that have each edge in their own structure, in a table for each kind of edge."""
    edges, silos = result.silo_edges, len(result.local_structures)
    kinds = {"edge": edges}
    if result.structure.lags:
        kinds = {
            "edge within one time step": [one for one in edges if not one.edge.lag],
            "edge across time": [one for one in edges if one.edge.lag and not one.edge.own],
            "effect of own past": [one for one in edges if one.edge.lag and one.edge.own],
        }
    return [_shared(kind, silos, of_kind) for kind, of_kind in kinds.items() if of_kind]


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
    return ReportTable(
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
        own = result.local_edges.get(silo)
        edges: list[object] = [len(own.within) if own else None] * local
        if local and over_time:
            edges += [len(own.lagged) if own else None, radius_of(own.structure) if own else None]
        refit = [result.refit.get(silo, {}).get(name) for name in errors]
        rows.append((silo, result.schema.rows[silo], *edges, *refit))
    return ReportTable(names, rows)


def silo_scores(result: RunResult) -> ReportTable | None:
    """The scores of each silo's own structure; None if there are no such scores."""
    if not result.silo_scores:
        return None
    known = [one for one in shown_in("silos") if any(one.name in scores for scores in result.silo_scores.values())]
    rows = [(silo, *(scores.get(one.name) for one in known)) for silo, scores in sorted(result.silo_scores.items())]
    return ReportTable(("silo", *(one.heading for one in known)), rows)


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
    return ReportTable(("variable", "model forecast", "persistence forecast", "ratio"), rows)


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
    return ReportTable(header, rows)


MAX_SILO_COLUMNS = 8
"""number of silos up to which each silo has a column"""
MAX_FEW_CELLS = 5
"""number of empty cells up to which "few" is shown instead of their share"""
MAX_LEVELS = 8
"""maximum number of levels of a variable that are named"""
MAX_LEVEL_LETTERS = 40
"""maximum number of letters of the names of these levels"""


def has_findings(schema: Schema, notes: tuple[str, ...]) -> bool:
    """Whether the data have notes, empty cells, left-out rows or columns, transforms, or columns of both kinds."""
    found = notes or schema.gaps or schema.aside or schema.complete_rows or schema.transforms
    return bool(found) or schema.kind == "mixed"


def data_header(schema: Schema) -> tuple[str, ...]:
    """The header of the table of a federation's columns."""
    silos = schema.silos if len(schema.silos) <= MAX_SILO_COLUMNS else ("maximum over silos",)
    return ("column", "kind", "content", *(("missing", *silos) if schema.gaps else ()))


def data_rows(schema: Schema, holds: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """A row for each variable: its kind, its levels or its content (`holds`), and its shares of empty cells by silo."""
    rows = []
    for v, name in enumerate(schema.variables):
        levels = schema.levels.get(name)
        content = _levels(levels) if levels is not None else (holds or {}).get(name, "")
        if name in schema.transforms:
            content = "; ".join(part for part in (content, FORMULAS[schema.transforms[name]]) if part)
        number = "events" if schema.kind == "events" else "counts" if name in schema.counts else "numbers"
        kind = number if levels is None else "labels"
        rows.append((name, kind, content, *_empty(schema, v)))
    return rows


def rows_line(schema: Schema) -> str:
    """The number of rows, in all and at each silo, in words."""
    rows = schema.rows
    each = ", ".join(f"{silo} {rows[silo]:,}" for silo in schema.silos[:MAX_SILO_COLUMNS])
    silos_left = len(rows) - MAX_SILO_COLUMNS
    more = f" and {pluralize(silos_left, 'more silo')}" if silos_left > 0 else ""
    return f"{pluralize(sum(rows.values()), 'row')} in {pluralize(len(rows), 'silo')}: {each}{more}"


def survival_line(schema: Schema) -> str:
    """The survival outcomes with their columns, in words; empty without such outcomes."""
    each = [f"{name} ({time} until {event} = 1, or censored)" for name, (time, event) in schema.survival.items()]
    return f"{pluralize(len(each), 'survival outcome')}: {', '.join(each)}" if each else ""


def stretches_line(schema: Schema) -> str:
    """The number of unbroken stretches of time series and the reasons why a stretch ends, in words."""
    number = sum(map(len, schema.stretches.values()))
    ends = (
        "its series ends or a time is missing"
        if schema.gaps
        else "its series ends, a time is missing or a cell is empty"
    )
    return f"{pluralize(number, 'unbroken stretch', 'unbroken stretches')}: each ends where {ends}"


def excluded_by_reason(schema: Schema) -> dict[str, list[str]]:
    """The excluded columns, by the reason."""
    columns: dict[str, list[str]] = {}
    for name, reason in schema.aside.items():
        columns.setdefault(reason, []).append(name)
    return columns


def _levels(levels: tuple[str, ...]) -> str:
    shown: list[str] = []
    for level in levels[:MAX_LEVELS]:
        if shown and sum(map(len, shown)) + len(level) > MAX_LEVEL_LETTERS:
            break
        shown.append(level)
    more = f", … ({len(levels)})" if len(levels) > len(shown) else ""
    return ", ".join(shown) + more


def _empty(schema: Schema, v: int) -> tuple[str, ...]:
    """The share of empty cells of variable `v`, in all rows and by silo; nothing if no cell is empty."""
    if not schema.gaps:
        return ()
    counts = [(schema.empty[silo][v] if silo in schema.empty else 0, schema.rows[silo]) for silo in schema.silos]
    shown = counts if len(counts) <= MAX_SILO_COLUMNS else [max(counts, key=lambda one: one[0] / max(one[1], 1))]
    return tuple(_share(*one) for one in (np.sum(counts, axis=0).tolist(), *shown))


def _share(empty: int, rows: int) -> str:
    """The share of empty cells in per cent, in words if an exact share would reveal a small number of cells."""
    if not empty:
        return ""
    if empty == rows:
        return "all"
    if empty <= MAX_FEW_CELLS or empty < 0.01 * rows:
        return "few"
    return "nearly all" if rows - empty <= MAX_FEW_CELLS else f"{empty / rows:.0%}".replace("%", " %")
