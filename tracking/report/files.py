"""The content of the files of a run, as text: tables as CSV, metrics, settings and disclosures as JSON."""

import csv
import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from importlib.metadata import version
from io import StringIO
from itertools import chain
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.knowledge import NO_KNOWLEDGE, Knowledge
from fedbnsl.algorithms.core.release import STATISTICS
from fedbnsl.algorithms.core.schema import Schema, escape_formula
from fedbnsl.algorithms.events.hawkes import Intensities
from fedbnsl.algorithms.graphs.edges import (
    NO_FIGURES,
    PAG_TYPES,
    ClassifiedEdges,
    EdgeFigures,
    EdgeKey,
    key_of,
    known_figures,
)
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode
from fedbnsl.algorithms.posterior.sampling import Posterior

from ..comparison import Comparison
from ..metrics import METRICS, MetricValue, shown_in
from ..result import (
    NO_POSTERIOR,
    NOT_COVERED,
    FoundTargets,
    GraphPosterior,
    RunDescription,
    RunResult,
    SiloEdge,
    strengths_in,
)


def structure_csv(
    edges: ClassifiedEdges,
    strengths: Strengths | None = None,
    knowledge: Knowledge = NO_KNOWLEDGE,
    experimental: Mapping[tuple[str, str], str] | None = None,
) -> str:
    """One line per edge: source, target, weight (except in a PAG), and the type of the edge except in a DAG.

    A dynamic structure has a further column `lag`, which is 0 within one time step. With `strengths` there are columns
    `strength` and `direction`; `direction` is empty if no resample has the edge. With background `knowledge` there is a
    column `imposed`, which is 1 for a required edge and otherwise 0. With `experimental` arcs there is a column
    `experiment`: "target" for a direction that rests on experiments, "follows" for a direction that follows from such
    directions, otherwise empty.
    """
    return csv_text(*edge_table(edges, strengths, knowledge, experimental))


def edge_table(
    edges: ClassifiedEdges,
    strengths: Strengths | None = None,
    knowledge: Knowledge = NO_KNOWLEDGE,
    experimental: Mapping[tuple[str, str], str] | None = None,
    figures: Mapping[EdgeKey, EdgeFigures] = NO_FIGURES,
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The header and the rows of `structure_csv`, with a column for each of the `figures` that is known."""
    header, rows = edges.rows()
    columns: list[tuple[tuple[str, ...], list[tuple[Any, ...]]]] = [(header, rows)]
    if experimental is not None:
        columns.append((("experiment",), [(experimental.get((one.source, one.target), ""),) for one in edges]))
    if knowledge:
        required = [(one.source, one.target) in knowledge.required and not one.lag for one in edges]
        columns.append((("imposed",), [(int(one),) for one in required]))
    if figures:
        names, none = known_figures(figures), EdgeFigures()
        found = [figures.get(key_of(one), none) for one in edges]
        columns.append((names, [tuple(getattr(one, name) for name in names) for one in found]))
    if strengths is not None:
        columns.append((("strength", "direction"), [strengths.strength_and_direction(one) for one in edges]))
    headers, cells = zip(*columns, strict=True)
    return tuple(chain(*headers)), [tuple(chain(*row)) for row in zip(*cells, strict=True)]


def edge_table_of(result: RunResult) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The header and the rows of the edges of a run: graph, figures, resamples, knowledge, experiments, and `basis`.

    `basis` is what the direction of each edge rests on.
    """
    experimental = result.experimental if result.targets else None
    header, rows = edge_table(result.edges, strengths_in(result), result.knowledge, experimental, result.edge_figures)
    bases = [result.basis_of(edge) for edge in result.edges]
    if not any(bases):
        return header, rows
    return (*header, "basis"), [(*row, basis) for row, basis in zip(rows, bases, strict=True)]


def silo_structures_csv(local: Mapping[str, ClassifiedEdges]) -> str:
    """One line per edge of every silo's own structure: the silo, then the columns of `structure_csv`."""
    tables = {silo: local[silo].rows() for silo in sorted(local)}
    columns = max((header for header, _ in tables.values()), key=len)
    named = [(silo, dict(zip(header, row, strict=True))) for silo, (header, rows) in tables.items() for row in rows]
    return csv_text(("silo", *columns), ([silo, *(row.get(name, "") for name in columns)] for silo, row in named))


def silo_edges_csv(edges: Iterable[SiloEdge], silos: Iterable[str]) -> str:
    """One line per edge of any silo: the number of silos with it, its mean weight, and its weight at each silo."""
    silos = sorted(silos)
    rows = []
    for one in edges:
        weights = (one.weights.get(silo) for silo in silos)
        rows.append(
            (one.edge.text, one.edge.source, one.edge.target, one.edge.lag, len(one.weights), one.mean, *weights)
        )
    header = ("edge", "source", "target", "lag", "silos", "mean_weight", *(f"weight:{silo}" for silo in silos))
    return csv_text(header, rows)


def intensities_csv(found: Intensities) -> str:
    """One line per type of events: number, base rate, self-excitation, background share, and the common mean delay.

    The figures of a type of fewer than three events are empty.
    """
    columns = (found.events, found.base, found.excitation.diagonal(), found.background)
    each = ([None if np.isnan(one) else float(one) for one in row] for row in zip(*columns, strict=True))
    rows = ((name, n if n is None else int(n), *rates) for name, (n, *rates) in zip(found.variables, each, strict=True))
    header = ("event", "events", "base_rate", "self_excitation", "background_share", "mean_delay")
    return csv_text(header, ((*row, found.delay) for row in rows))


def targets_csv(found: FoundTargets) -> str:
    """One line per changed mechanism: silo or condition, variable, parents, and the test."""
    rows = (
        (one.condition, one.variable, " ".join(one.parents), one.statistic, one.parameters, one.p_value, int(one.tied))
        for one in found.changes
    )
    return csv_text((found.by, "variable", "parents", "statistic", "parameters", "p_value", "tied"), rows)


def posterior_csv(found: Posterior) -> str:
    """The pairs of `posterior_pairs`, one a line."""
    return csv_text(*posterior_pairs(found))


def posterior_pairs(found: Posterior) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Header and rows of all ordered pairs that some graph connects: the probabilities of edge, adjacency and path.

    For numbers there is also the effect of one unit of the source on the target, with its median and its 95 % interval
    over all graphs, zero where there is no path.
    """
    header = ("source", "target", "edge", "joined", "path", *(EFFECT_COLUMNS if found.weighted else ()))
    rows = []
    for i, j in np.argwhere((found.joined > 0) | (found.paths > 0)):
        numbers = (found.edges[i, j], found.joined[i, j], found.paths[i, j], *(found.effect_quantiles(i, j) or ()))
        rows.append((found.variables[i], found.variables[j], *(float(f"{one:.4g}") for one in numbers)))
    return header, rows


EFFECT_COLUMNS = ("effect", "effect_low", "effect_high")


def posterior_graphs_csv(found: Posterior) -> str:
    """One line per edge of each sampled graph: the number of the graph, source, target and, of numbers, weight."""
    header = ("graph", "source", "target", *(("weight",) if found.weighted else ()))
    rows = []
    for graph, i, j in np.argwhere(found.weights):
        weight = (float(found.weights[graph, i, j]),) if found.weighted else ()
        rows.append((int(graph) + 1, found.variables[i], found.variables[j], *weight))
    return csv_text(header, rows)


def hazard_rows(node: SurvivalNode) -> list[tuple[str, str, float, float, float, float]]:
    """For each term of a survival outcome: outcome, term, hazard ratio, its 95 % interval, p-value of its variable."""
    found = []
    for k, term in enumerate(node.terms):
        one = node.hazard_ratio(k)
        numbers = (one.value, *one.interval, node.p_value(term.variable))
        value, low, high, p = (float(f"{number:.4g}") for number in numbers)
        found.append((node.outcome, term.name, value, low, high, p))
    return found


def silos_csv(scores: Mapping[str, Mapping[str, MetricValue]]) -> str:
    """One line per silo with the scores of its own structure; unknown scores are empty."""
    columns = list(dict.fromkeys(name for silo in scores for name in scores[silo]))
    rows = ([silo, *(scores[silo].get(name) for name in columns)] for silo in sorted(scores))
    return csv_text(("silo", *columns), rows)


def changes_csv(comparison: Comparison) -> str:
    """One line per edge of either run and one line per variable, with the kind and size of the change.

    For an edge, `moved` is the difference of its weights. For a variable, `drift` is its term in the divergence of the
    model from the previous model, in nats per row.
    """
    rows: list[tuple[Any, ...]] = []
    for one in comparison.structure.edges:
        numbers = (one.before, one.after, one.weight_change) if comparison.weighted else ("", "", "")
        rows.append(("edge", one.fate, one.edge.source, one.edge.target, one.edge.lag, *numbers, ""))
    both = [("joined", comparison.structure.added_variables), ("left", comparison.structure.removed_variables)]
    rows += [("variable", fate, name, "", "", "", "", "", "") for fate, names in both for name in names]
    drift = comparison.drift.by_variable if comparison.drift else {}
    rows += [("variable", "kept", name, "", "", "", "", "", term) for name, term in drift.items()]
    return csv_text(("what", "change", "source", "target", "lag", "before", "after", "moved", "drift"), rows)


def rounds_csv(rounds: Iterable[Mapping[str, float]]) -> str:
    """One line per round; the columns are all measures that occur in any round, after `round`."""
    rows = list(rounds)
    columns = list(dict.fromkeys(("round", *(name for row in rows for name in row))))
    return csv_text(columns, ([row.get(name, "") for name in columns] for row in rows))


def flat_metrics(result: RunResult) -> dict[str, MetricValue]:
    """The metrics of a run in the order of the registry; a figure that the result does not have is derived, or None.

    None is the value only of the metrics that every run has.
    """
    total = {name: sum(row.get(name, 0.0) for row in result.rounds) for name in ("bytes_up", "bytes_down")}
    derived: dict[str, MetricValue] = {
        "edges": len(result.edges.within),
        "rounds": len(result.rounds),
        "converged": result.outcome == "converged",
        "acyclic": result.structure.acyclic,
        "formula_megabytes": sum(row.get("formula_bytes", 0.0) for row in result.rounds) / 1e6,
        **total,
    }
    found = dict.fromkeys(one.name for one in shown_in("always")) | derived | result.metrics
    order = {name: number for number, name in enumerate(METRICS)}
    return dict(sorted(found.items(), key=lambda one: order.get(one[0], len(order))))


def config(result: RunResult) -> dict[str, Any]:
    """The content of `config.json`: what is needed to repeat the run on the same data, findings, and versions."""
    schema = result.schema
    of_run = (
        *(one.name for one in fields(RunDescription)),
        "ended",
        "lost",
        "notes",
        "not_identified",
        "basis",
        "secure",
    )
    of_data = ("kind", "variables", "levels", "aside", "complete_rows", "transforms", "counts")
    posterior = result.graph_posterior
    content = {
        **{name: getattr(result, name) for name in of_run},
        **{name: getattr(schema, name) for name in of_data},
        "rows": {silo: schema.rows[silo] for silo in schema.silos},
        "graph": result.structure.kind,
        "findings": [asdict(one) for one in result.diagnosed.findings],
        "fit": asdict(result.fit),
        "held_out": asdict(result.held_out),
        "posterior": None if posterior == NO_POSTERIOR else posterior_config(posterior),
        "tuning": _fields_of(result.tuning),
        "knowledge": _fields_of(result.knowledge),
        "survival": [asdict(one) for one in result.survival],
        "targets": schema.targets if result.targets else None,
        "found_targets": _fields_of(result.found_targets),
        "conditions": _conditions(schema) if schema.condition_names else None,
        "independent_share": schema.independent_share if schema.independent_share < 1 else None,
        "parameters": {"learned": result.parameters.network is not None, "how": result.parameters.how},
        "privacy": asdict(result.privacy) | {"not_covered": NOT_COVERED} if result.privacy else None,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("fedbnsl", "numpy")}},
    }
    return {name: value for name, value in content.items() if value or name not in OF_SOME_RUNS}


def _fields_of(found: Any) -> dict[str, Any] | None:
    return asdict(found) if found else None


OF_SOME_RUNS = ("posterior", "survival", "targets", "found_targets", "conditions", "independent_share")
"""the keys of `config.json` that are there only if the run has such a result"""


def posterior_config(found: GraphPosterior) -> dict[str, Any]:
    """What `config.json` has of a posterior, whose graphs are in a file of their own."""
    own = {name: getattr(found, name) for name in ("why", "how", "bytes_sent")}
    sampled = found.posterior
    return own if sampled is None else own | {name: getattr(sampled, name) for name in SAMPLED}


SAMPLED = ("graphs", "weighted", "r_hat", "sweeps")
"""the properties of sampled graphs in `config.json`"""


def disclosure(result: RunResult) -> dict[str, Any]:
    """The content of `disclosure.json`: the run, the kinds of statistics, and the lines of each silo's gate.

    The smallest count that the coordinator has seen is a cell, so it is published only if small cells are.
    """
    hidden = () if result.small_cells == "keep" else ("smallest",)
    lines = {
        silo: [{name: value for name, value in asdict(one).items() if name not in hidden} for one in own]
        for silo, own in sorted(result.disclosed.items())
    }
    kinds = dict.fromkeys(one.statistic for own in result.disclosed.values() for one in own)
    return {
        "run": result.name,
        "ended": result.ended,
        "algorithm": result.algorithm,
        "statistics": {kind: STATISTICS[kind] for kind in kinds},
        "silos": lines,
    }


def _conditions(schema: Schema) -> dict[str, dict[str, int]]:
    """By silo, the numbers of rows of its conditions."""
    return {
        silo: dict(zip(names, schema.stretches[silo], strict=True)) for silo, names in schema.condition_names.items()
    }


def json_text(value: Any) -> str:
    """`value` as indented JSON, with null for infinity and NaN, because JSON has no such numbers."""
    return json.dumps(_plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A CSV file, in which no cell is a formula for a spreadsheet."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([_escaped(cell) for cell in row] for row in (header, *rows))
    return buffer.getvalue()


def _escaped(cell: Any) -> Any:
    """A cell that spreadsheets do not evaluate as a formula; types of edges are part of the format and stay."""
    return escape_formula(cell) if isinstance(cell, str) and cell not in PAG_TYPES else cell
