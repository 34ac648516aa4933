"""The output files of a run: structure, scores, rounds, settings, picture and report."""

import csv
import json
import math
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.knowledge import NO_KNOWLEDGE, Knowledge
from fedbnsl.algorithms.core.release import STATISTICS
from fedbnsl.algorithms.core.schema import Schema, escape_formula
from fedbnsl.algorithms.events.hawkes import Intensities
from fedbnsl.algorithms.graphs.edge_figures import NO_FIGURES, EdgeFigures, EdgeKey, key_of, known_figures
from fedbnsl.algorithms.graphs.edges import PAG_TYPES, classify, classify_lagged, edge_count, typed_edges
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure

from .comparison import Comparison
from .model import model_file
from .pictures.delays import draw_delays
from .pictures.picture import MAX_UNROLLED_VARIABLES, as_png, draw_matrices
from .report.drawings import draw_result
from .report.report import report_html
from .result import NOT_COVERED, FoundTargets, Metric, RunResult, silo_edges, strengths_in
from .staging import write_files

MODELS = ("model.bif", "model.json")
"""the files of the model: a run with parameters has `model.bif` if its network is discrete, otherwise `model.json`"""
OUTPUTS = ("structure.csv", "metrics.json", "rounds.csv", "config.json", "structure.png", "report.html")
DISCLOSURE = "disclosure.json"
"""the disclosure statement: what each silo has sent, by the record of its own gate"""
OPTIONAL_OUTPUTS = (
    DISCLOSURE,
    "matrices.png",
    "silo_structures.csv",
    "silo_edges.csv",
    "targets.csv",
    "silos.csv",
    "intensities.csv",
    "delays.png",
)
"""the files that only some runs have, such as time series, event sequences, or runs with a structure for each silo"""
AVERAGED = "averaged.csv"
"""the averaged network of a run with resamples"""
CHANGES = "changes.csv"
"""the changes since the previous run, if the run is repeated"""
METRICS = (
    *("shd", "tpr", "fdr", "edges", "rounds", "converged", "acyclic", "seconds"),
    *("bytes_up", "bytes_down", "formula_megabytes", "epsilon", "delta"),
)
"""the metrics that `metrics.json` always has; their value is null if it is unknown"""


def write_outputs(result: RunResult, folder: Path) -> dict[str, Path]:
    """Write the files of `result` into `folder` and return their paths by name; other files in `folder` stay.

    The files appear when all of them are complete (`staging.py`).
    """
    contents = _contents(result)
    encoded = {name: content.encode() if isinstance(content, str) else content for name, content in contents.items()}
    return write_files(folder, encoded)


def _contents(result: RunResult) -> dict[str, str | bytes]:
    title = f"{result.algorithm} on {result.dataset}, seed {result.seed}"
    contents = (
        _csv(*edge_table_of(result)),
        json_text(flat_metrics(result)),
        rounds_csv(result.rounds),
        json_text(config(result)),
        as_png(draw_result(result, title)),
        report_html(result),
    )
    return {**dict(zip(OUTPUTS, contents, strict=True)), **_optional_contents(result, title), **model_file(result)}


def _optional_contents(result: RunResult, title: str) -> dict[str, str | bytes]:
    """The files that only some runs have: `OPTIONAL_OUTPUTS`, `AVERAGED` and `CHANGES`."""
    found: dict[str, str | bytes] = {}
    if result.disclosed:
        found[DISCLOSURE] = json_text(disclosure(result))
    if result.structure.lags and len(result.structure.variables) <= MAX_UNROLLED_VARIABLES:
        found["matrices.png"] = as_png(draw_matrices(result.structure, result.truth, title))
    if result.confidence:
        found[AVERAGED] = structure_csv(result.confidence.averaged, result.confidence.strengths)
    if result.local_structures:
        found["silo_structures.csv"] = silo_structures_csv(result.local_structures)
        found["silo_edges.csv"] = silo_edges_csv(result.local_structures)
    if result.parameters.intensities:
        found["intensities.csv"] = intensities_csv(result.parameters.intensities)
        if result.parameters.intensities.delay:
            found["delays.png"] = as_png(draw_delays(result.parameters.intensities, result.structure, title))
    if result.silo_scores:
        found["silos.csv"] = silos_csv(result.silo_scores)
    if result.found_targets:
        found["targets.csv"] = targets_csv(result.found_targets)
    if result.changes:
        found[CHANGES] = changes_csv(result.changes)
    return found


def structure_csv(
    structure: Structure,
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
    return _csv(*edge_table(structure, strengths, knowledge, experimental))


def edge_table(
    structure: Structure,
    strengths: Strengths | None = None,
    knowledge: Knowledge = NO_KNOWLEDGE,
    experimental: Mapping[tuple[str, str], str] | None = None,
    figures: Mapping[EdgeKey, EdgeFigures] = NO_FIGURES,
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The header and the rows of `structure_csv`, with a column for each of the `figures` that is known."""
    header, rows = _structure_rows(structure)
    if experimental is not None:
        header, rows = (*header, "experiment"), [(*row, experimental.get((row[0], row[1]), "")) for row in rows]
    if knowledge:
        lag = header.index("lag") if "lag" in header else None
        imposed = (int(row[:2] in knowledge.required and not (lag and row[lag])) for row in rows)
        header, rows = (*header, "imposed"), [(*row, mark) for row, mark in zip(rows, imposed, strict=True)]
    edges = (*classify(structure, None), *classify_lagged(structure, None))
    if figures:
        names, none = known_figures(figures), EdgeFigures()
        found = [figures.get(key_of(edge), none) for edge in edges]
        more = ([getattr(one, name) for name in names] for one in found)
        header, rows = (*header, *names), [(*row, *cells) for row, cells in zip(rows, more, strict=True)]
    if strengths is None:
        return header, rows
    with_strengths = [(*row, *strengths.strength_and_direction(edge)) for row, edge in zip(rows, edges, strict=True)]
    return (*header, "strength", "direction"), with_strengths


def edge_table_of(result: RunResult) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The header and the rows of the edges of a run: graph, figures of the fit, resamples, knowledge, experiments."""
    experimental = result.experimental if result.targets else None
    return edge_table(result.structure, strengths_in(result), result.knowledge, experimental, result.edge_figures)


def silo_structures_csv(structures: Mapping[str, Structure]) -> str:
    """One line per edge of every silo's own structure: the silo, then the columns of `structure_csv`."""
    tables = {silo: _structure_rows(structures[silo]) for silo in sorted(structures)}
    columns = max((header for header, _ in tables.values()), key=len)
    named = [(silo, dict(zip(header, row, strict=True))) for silo, (header, rows) in tables.items() for row in rows]
    return _csv(("silo", *columns), ([silo, *(row.get(name, "") for name in columns)] for silo, row in named))


def silo_edges_csv(structures: Mapping[str, Structure]) -> str:
    """One line per edge of any silo: the number of silos with it, its mean weight, and its weight at each silo."""
    silos = sorted(structures)
    rows = []
    for one in silo_edges(structures):
        weights = (one.weights.get(silo) for silo in silos)
        rows.append((one.edge.text, one.edge.source, one.edge.target, one.lag, len(one.weights), one.mean, *weights))
    header = ("edge", "source", "target", "lag", "silos", "mean_weight", *(f"weight:{silo}" for silo in silos))
    return _csv(header, rows)


def intensities_csv(found: Intensities) -> str:
    """One line per type of events: number, base rate, self-excitation, background share, and the common mean delay.

    The figures of a type of fewer than three events are empty.
    """
    columns = (found.events, found.base, found.excitation.diagonal(), found.background)
    each = ([None if np.isnan(one) else float(one) for one in row] for row in zip(*columns, strict=True))
    rows = ((name, n if n is None else int(n), *rates) for name, (n, *rates) in zip(found.variables, each, strict=True))
    header = ("event", "events", "base_rate", "self_excitation", "background_share", "mean_delay")
    return _csv(header, ((*row, found.delay) for row in rows))


def targets_csv(found: FoundTargets) -> str:
    """One line per changed mechanism: silo or condition, variable, parents, and the test."""
    rows = (
        (one.condition, one.variable, " ".join(one.parents), one.statistic, one.parameters, one.p_value, int(one.tied))
        for one in found.changes
    )
    return _csv((found.by, "variable", "parents", "statistic", "parameters", "p_value", "tied"), rows)


def silos_csv(scores: Mapping[str, Mapping[str, Metric]]) -> str:
    """One line per silo with the scores of its own structure; unknown scores are empty."""
    columns = list(dict.fromkeys(name for silo in scores for name in scores[silo]))
    rows = ([silo, *(scores[silo].get(name) for name in columns)] for silo in sorted(scores))
    return _csv(("silo", *columns), rows)


def changes_csv(comparison: Comparison) -> str:
    """One line per edge of either run and one line per variable, with the kind and size of the change.

    For an edge, `moved` is the difference of its weights. For a variable, `drift` is its term in the divergence of the
    model from the previous model, in nats per row.
    """
    rows: list[tuple[Any, ...]] = []
    for one in comparison.structure.edges:
        numbers = (one.before, one.after, one.weight_change) if comparison.weighted else ("", "", "")
        rows.append(("edge", one.fate, one.edge.source, one.edge.target, one.lag, *numbers, ""))
    both = [("joined", comparison.structure.added_variables), ("left", comparison.structure.removed_variables)]
    rows += [("variable", fate, name, "", "", "", "", "", "") for fate, names in both for name in names]
    drift = comparison.drift.by_variable if comparison.drift else {}
    rows += [("variable", "kept", name, "", "", "", "", "", term) for name, term in drift.items()]
    return _csv(("what", "change", "source", "target", "lag", "before", "after", "moved", "drift"), rows)


def _structure_rows(structure: Structure) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    names, weight, mixed = structure.variables, structure.kind != "pag", structure.kind != "dag"
    dynamic = structure.lagged is not None
    rows: list[tuple[Any, ...]] = [
        (names[i], names[j], *[float(structure.weights[i, j])] * weight, *[type_] * mixed, *[0] * dynamic)
        for i, j, type_ in typed_edges(structure)
    ]
    rows += [
        (edge.source, edge.target, edge.weight, *["directed"] * mixed, edge.lag)
        for edge in classify_lagged(structure, None)
    ]
    return ("source", "target", *["weight"] * weight, *["type"] * mixed, *["lag"] * dynamic), rows


def rounds_csv(rounds: Iterable[Mapping[str, float]]) -> str:
    """One line per round; the columns are all measures that occur in any round, after `round`."""
    rows = list(rounds)
    columns = list(dict.fromkeys(("round", *(name for row in rows for name in row))))
    return _csv(columns, ([row.get(name, "") for name in columns] for row in rows))


def flat_metrics(result: RunResult) -> dict[str, Metric]:
    """The metrics of a run, the `METRICS` first; metrics that the result does not have are derived, or None."""
    total = {name: sum(row.get(name, 0.0) for row in result.rounds) for name in ("bytes_up", "bytes_down")}
    derived: dict[str, Metric] = {
        "edges": edge_count(result.structure),
        "rounds": len(result.rounds),
        "converged": result.outcome == "converged",
        "acyclic": result.structure.acyclic,
        "formula_megabytes": sum(row.get("formula_bytes", 0.0) for row in result.rounds) / 1e6,
        **total,
    }
    return {**dict.fromkeys(METRICS), **derived, **result.metrics}


def config(result: RunResult) -> dict[str, Any]:
    """The content of `config.json`: what is needed to repeat the run on the same data, findings, and versions."""
    return {
        "name": result.name,
        "ended": result.ended,
        "algorithm": result.algorithm,
        "asked": result.asked,
        "params": result.params,
        "seed": result.seed,
        "engine": result.engine,
        "dataset": result.dataset,
        "kind": result.schema.kind,
        "variables": result.schema.variables,
        "levels": result.schema.levels,
        "rows": {silo: result.schema.rows[silo] for silo in result.schema.silos},
        "about": result.about,
        "aside": result.schema.aside,
        "complete_rows": result.schema.complete_rows,
        "transforms": result.schema.transforms,
        "counts": result.schema.counts,
        "notes": result.notes,
        "not_identified": result.not_identified,
        "graph": result.structure.kind,
        "lost": result.lost,
        "basis": result.basis,
        "findings": [asdict(one) for one in result.diagnosed.findings],
        "fit": asdict(result.fit),
        "held_out": asdict(result.held_out),
        "tuning": asdict(result.tuning) if result.tuning else None,
        "secure": result.secure,
        "knowledge": asdict(result.knowledge) if result.knowledge else None,
        **({"targets": result.schema.targets} if result.targets else {}),
        **({"found_targets": asdict(result.found_targets)} if result.found_targets else {}),
        **({"conditions": _conditions(result.schema)} if result.schema.condition_names else {}),
        "bootstrap": result.bootstrap,
        "register": result.register,
        "small_cells": result.small_cells,
        "parameters": {"learned": result.parameters.network is not None, "how": result.parameters.how},
        "privacy": asdict(result.privacy) | {"not_covered": NOT_COVERED} if result.privacy else None,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("fedbnsl", "numpy")}},
    }


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


def _csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([_escaped(cell) for cell in row] for row in (header, *rows))
    return buffer.getvalue()


def _escaped(cell: Any) -> Any:
    """A cell that spreadsheets do not evaluate as a formula; types of edges are part of the format and stay."""
    return escape_formula(cell) if isinstance(cell, str) and cell not in PAG_TYPES else cell
