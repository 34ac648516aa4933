"""The report of a run: one self-contained HTML file, readable without the internet.

`contents` gathers the content of the report as plain values, and `tables.py` makes its tables. The sentences and the
HTML are in `templates/`, with one file for each part of the page. A Content-Security-Policy forbids the browser to load
other files, and to run scripts other than those of `explore.py`, which it identifies by their hashes.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.core.protocol import ENDED_EARLY
from fedbnsl.algorithms.core.schema import Schema, pluralize
from fedbnsl.algorithms.graphs.edges import classify, classify_lagged
from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT

from ..comparison import COUNTED
from ..model import model_file
from ..pictures.delays import share_times
from ..result import (
    CANDIDATE_COLUMNS,
    NOT_COVERED,
    SUPPRESSED_CELLS,
    PrivacySpent,
    RunResult,
    series_warnings,
)
from .data_tables import data_header, data_rows, excluded_by_reason, has_findings, rows_line
from .drawings import pictures
from .explore import explore_scripts
from .rendering import report_template
from .statements import statements
from .tables import (
    SCROLLING_ROWS,
    ReportTable,
    changes_table,
    confidence_table,
    drift_table,
    edge_sections,
    evidence_table,
    figure_table,
    forecast_table,
    shared_edges,
    silo_scores,
    silo_table,
)

SCORES = {
    "shd": "SHD: pairs of variables whose edge differs",
    "shd_cpdag": "SHD between the equivalence classes (CPDAGs)",
    "shd_skeleton": "SHD of the skeletons, ignoring directions",
    "shd_lenient": "Lenient SHD: directed and undirected edges match",
    "mse_consensus": "Normalised error of the consensus weights, median over silos",
    "mse_personal": "Normalised error of weights refitted by each silo, median over silos",
    "smhd": "SMHD: SHD of the moral graphs",
    "tpr": "TPR: share of the true edges that were found",
    "fdr": "FDR: share of the learned edges that are extra or reversed",
    "precision": "Precision: share of the learned edges that are correct",
    "f1": "F1 of precision and TPR",
    "auroc": "AUROC of the edge strengths",
    "aupr": "AUPR of the edge strengths",
    "lagged_shd": "SHD: lagged edges in only one of the two graphs",
    "lagged_tpr": "TPR: share of the true lagged edges that were found",
    "lagged_fdr": "FDR: share of the learned lagged edges that are extra",
    "lagged_precision": "Precision: share of the learned lagged edges that are correct",
    "lagged_f1": "F1 of precision and TPR, lagged edges",
    "lagged_auroc": "AUROC of the edge strengths, excluding each variable's own past",
    "lagged_aupr": "AUPR of the edge strengths, excluding each variable's own past",
}
COUNTS = {
    "edges": "Edges learned",
    "true_edges": "Edges in the true graph",
    "correct": "Correct edges",
    "reversed": "Reversed edges",
    "extra": "Extra edges",
    "missing": "Missing edges",
    "half_directed": "Half-directed edges: undirected in one of the two graphs only, or with different marks",
    "correct_skeleton": "Correct edges, ignoring directions",
    "v_structures": "V-structures learned",
    "v_structures_true": "V-structures in the true graph",
    "v_structures_correct": "Correct v-structures",
    "lagged_edges": "Lagged edges learned",
    "lagged_true_edges": "Lagged edges in the true graph",
    "lagged_correct": "Correct lagged edges",
    "lagged_extra": "Extra lagged edges",
    "lagged_missing": "Missing lagged edges",
}
FIT = {
    "fit_implied": "Missing edges: independences that the graph implies",
    "fit_tested": "Independences tested",
    "fit_failing": "Independences that fail, at a false discovery rate of 5 %",
    "fit_failing_share": "Share of the tested independences that fail",
    "fit_fisher_c": "Fisher's C",
    "fit_fisher_degrees": "Degrees of freedom of Fisher's C",
    "fit_fisher_p": "p-value of Fisher's C, allowing for correlated tests of a variable",
    "fit_bic_over_empty": "BIC gain over the empty graph",
    "fit_bic_over_saturated": "BIC gain over the saturated graph",
    "fit_bic_one_more_parent": "Largest BIC gain by one more parent for each variable",
}
ELSEWHERE = {"rounds", "converged", "outcome", "acyclic", "seconds", "bytes_up", "bytes_down", "formula_megabytes"}
ELSEWHERE |= {"tests", "tests_left_out", "families", "parameter_bytes", "not_compared", "findings"}
ELSEWHERE |= {"diagnoses", "diagnosis_bytes", "filling_exchanges", "filling_bytes"}
ELSEWHERE |= {"changed_mechanisms", "target_exchanges", "target_bytes"}
ELSEWHERE |= {"bootstrap", "threshold", "averaged_edges", "averaged_shd", "bootstrap_rounds", "bootstrap_bytes"}
ELSEWHERE |= {"lags", "spectral_radius", "forecast_mse", "persistence_mse", "forecast_wrong", "persistence_wrong"}
ELSEWHERE |= {"epsilon", "epsilon_tight", "delta", "adjacency", "privacy", "epsilon_all_runs"}
ELSEWHERE |= {"compared_with", "edges_changed", "parameter_drift", *COUNTED}
ELSEWHERE |= {"fit", "fit_bytes", "fit_worst", *FIT, "held_out_log_likelihood", "held_out_bytes"}
ELSEWHERE |= {"tuning_exchanges", "tuning_bytes"}
"""metrics that other sections show, or that are not shown"""
MAX_LISTED_ARCS = 20
RARE_EVENT = f"fewer than {MIN_COUNT}"
UNDECLARED_LEVELS = (
    "taken from the data, unless about.json declares them; the name of a level taken from the data discloses that "
    "some row has the level"
)


DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""characters that change the direction of the text that follows (Unicode's embeddings, overrides and isolates)"""


def report_html(result: RunResult) -> str:
    """The report of `result` as one HTML document that loads nothing from other files or sites.

    No name of a column, label or silo changes the direction of the text around it: it is shown with code points in
    place of the marks that would.
    """
    page = report_template().render(contents(result))
    return DIRECTION_MARKS.sub(lambda mark: f"[U+{ord(mark[0]):04X}]", page)


def contents(result: RunResult) -> dict[str, Any]:
    """The values for the templates, by name; None for a section without content."""
    return {
        "result": result,
        "title": _title(result),
        "warnings": warnings(result),
        "summary": _summary(result),
        "statements": statements(result),
        "findings": _findings(result),
        "fit": _fit(result),
        "changes": _changes(result),
        "data": _data(result),
        "knowledge": _knowledge(result),
        "experiments": _experiments(result),
        "pictures": pictures(result),
        "scores": _scores(result),
        "edges": edge_sections(result),
        "not_identified": _not_identified(result),
        "confidence": _confidence(result),
        "silo_edges": shared_edges(result),
        "model": _model(result),
        "intensities": _intensities(result),
        "forecasts": _forecasts(result),
        "communication": _communication(result),
        "silos": {"rows": silo_table(result), "scores": silo_scores(result)},
        "privacy": _privacy(result),
        "disclosed": _disclosed(result),
        "not_covered": NOT_COVERED,
        "tuning": ReportTable(CANDIDATE_COLUMNS, result.tuning.rows) if result.tuning else None,
        "settings": _settings(result),
        "scripts": explore_scripts(result),
    }


def _title(result: RunResult) -> str:
    """The name of the data set and the day on which the run ended, if it is known."""
    return f"{result.dataset}, {date.fromisoformat(result.ended):%-d %B %Y}" if result.ended else result.dataset


def warnings(result: RunResult) -> list[str]:
    """Warnings for the top of the page: lost silos, broken privacy, no convergence, limits, small cells, cycles."""
    messages = []
    if result.outcome == "silo lost":
        who = ", ".join(result.lost) or "a silo"
        messages.append(f"Silo lost: {who} stopped responding. The graph is that of the last round of all silos.")
    elif result.lost:
        messages.append(
            f"Dropped out during the run: {', '.join(result.lost)}. The result is based on the remaining silos."
        )
    if result.privacy is not None and result.privacy.broken:
        messages.append(f"NOT PRIVATE: {result.privacy.broken}.")
    if result.outcome == "out of rounds":
        messages.append(
            f"Not converged: the run ended after {pluralize(len(result.rounds), 'round')}; more rounds may change "
            "the graph."
        )
    if result.outcome in ENDED_EARLY:
        what = "time" if result.outcome == "out of time" else "megabytes"
        messages.append(f"Ended early: the {what} given to the run did not suffice. It is the best graph until then.")
    messages += small_cell_warnings(result)
    messages += series_warnings(result)
    cycle = result.structure.cycle
    if cycle:
        messages.append(f"The graph contains a cycle: {' → '.join([*cycle, cycle[0]])}. It is not a Bayesian network.")
    return messages


def small_cell_warnings(result: RunResult) -> list[str]:
    """Warnings that owners suppress small counts, and that the model discloses exact counts as requested."""
    suppressed = [f"Small cells were suppressed: {SUPPRESSED_CELLS}."] * (SUPPRESSED_CELLS in result.notes)
    counts = result.parameters.intensities or (result.parameters.network and result.schema.levels)
    if result.small_cells != "keep" or not counts:
        return suppressed
    kept = "Small cells were kept: the model discloses cells of 1 and 2 rows. It is not for publication."
    return [*suppressed, kept]


def _summary(result: RunResult) -> dict[str, Any]:
    """The numbers of edges, and the tiles of scores and costs."""
    metrics = result.metrics
    edges, lagged = len(classify(result.structure, None)), len(classify_lagged(result.structure, None))
    named = {"shd": "SHD", "tpr": "TPR", "fdr": "FDR"}
    if result.structure.kind != "dag":
        named = {"shd": "SHD, strict", "shd_lenient": "SHD, lenient", "tpr": "TPR", "fdr": "FDR"}
    named |= {f"lagged_{name}": f"{label}, lagged" for name, label in named.items() if f"lagged_{name}" in metrics}
    scores = [(label, metrics.get(name)) for name, label in named.items()] if result.truth else []
    figures: list[tuple[str, object]] = [
        ("edges", edges),
        *([("lagged edges", lagged)] if result.structure.lags else []),
        ("round" if len(result.rounds) == 1 else "rounds", len(result.rounds)),
        ("seconds", metrics.get("seconds")),
        ("MB sent in the rounds, by the formula of Fassy El Fehri et al.", metrics.get("formula_megabytes")),
    ]
    return {"edges": edges, "lagged": lagged, "scores": scores, "cost": figures}


def _findings(result: RunResult) -> ReportTable | None:
    """The findings of the diagnoses, each with its advice; None without findings."""
    rows = [(one.name, one.message, one.advice) for one in result.diagnosed.findings]
    return ReportTable(("finding", "observation", "what to do"), rows) if rows else None


def _fit(result: RunResult) -> dict[str, Any]:
    """The figures of the fit without a true graph, and the independences that fail, the least likely first."""
    found = result.fit
    figures = [(label, found.metrics[name]) for name, label in FIT.items() if name in found.metrics]
    own = result.held_out.by_silo.items()
    worst = [(one.text, one.strength, one.p, one.adjusted) for one in found.worst]
    return {
        "lines": found.lines,
        "figures": ReportTable(("fit", "value"), figures) if figures else None,
        "held_out": result.held_out.lines(result.schema.rows),
        "silos": ReportTable(("silo", "log-likelihood of a row by the others' model"), list(own)) if own else None,
        "edges": figure_table(result),
        "worst": ReportTable(("independence that fails", "strength", "p", "p, adjusted"), worst) if worst else None,
    }


def _changes(result: RunResult) -> dict[str, Any] | None:
    """Differences from the previous run; None if the run is not compared with a previous run."""
    found = result.changes
    if found is None:
        return None
    counts: list[tuple[str, object]] = [(f"edges {fate}", found.structure.count(fate)) for fate in COUNTED.values()]
    counts += [("parameter drift, nats per row", found.drift.total)] if found.drift else []
    return {"tiles": counts, "edges": changes_table(found), "drift": drift_table(found)}


def _data(result: RunResult) -> dict[str, Any] | None:
    """The columns of the silos' tables, and the excluded columns; None for plain tables of one kind."""
    schema = result.schema
    if not has_findings(schema, result.notes):
        return None
    header, rows = data_header(schema), data_rows(schema)
    filled = [any(row[k] for row in rows) for k in range(len(header))]
    header, *rows = [tuple(cell for cell, kept in zip(row, filled, strict=True) if kept) for row in (header, *rows)]
    excluded = [(", ".join(names), reason) for reason, names in excluded_by_reason(schema).items()]
    return {
        "rows": rows_line(schema),
        "columns": ReportTable(header, rows, scrolling=len(rows) > SCROLLING_ROWS),
        "excluded": ReportTable(("excluded columns", "reason"), excluded) if excluded else None,
    }


def _knowledge(result: RunResult) -> dict[str, str] | None:
    """The required and forbidden arcs, and the required arcs that the graph contains; None without knowledge."""
    known, structure = result.knowledge, result.structure
    if not known:
        return None
    place = {name: number for number, name in enumerate(structure.variables)}
    imposed = [arc for arc in known.required if structure.weights[place[arc[0]], place[arc[1]]]]
    return {
        "required": _counted_arcs(known.required),
        "forbidden": _counted_arcs(known.forbidden),
        "imposed": _listed_arcs(imposed),
    }


def _counted_arcs(arcs: Sequence[Arc]) -> str:
    return f"{_listed_arcs(arcs)} ({len(arcs)})" if arcs else "none"


def _listed_arcs(arcs: Sequence[Arc]) -> str:
    """The first arcs, and the number of further arcs."""
    more = f" and {len(arcs) - MAX_LISTED_ARCS} more" if len(arcs) > MAX_LISTED_ARCS else ""
    return ", ".join(" → ".join(arc) for arc in arcs[:MAX_LISTED_ARCS]) + more


def _set_variables(schema: Schema) -> list[tuple[str, str]]:
    """The variables that were set in each silo or, with conditions, in each condition of any silo."""
    named: dict[str, dict[str, None]] = {}
    for silo, each in sorted(schema.targets.items()):
        for name, own in zip(schema.condition_names.get(silo, (silo,)), each, strict=True):
            named.setdefault(name, {}).update(dict.fromkeys(own))
    return [(name, ", ".join(own)) for name, own in sorted(named.items()) if own]


def _experiments(result: RunResult) -> dict[str, Any] | None:
    """The variables set in each silo, and the arcs whose direction rests on this; None without experiments."""
    if not result.targets:
        return None
    arcs = result.experimental
    rows, by = _set_variables(result.schema), "condition" if result.schema.condition_names else "silo"
    given = ReportTable((by, "variables set by an experiment"), rows, scrolling=len(rows) > SCROLLING_ROWS)
    found = result.found_targets
    return {
        "found": found is not None,
        "targets": evidence_table(found) if found else given,
        "target": _counted_arcs([arc for arc, mark in arcs.items() if mark == "target"]),
        "follows": _counted_arcs([arc for arc, mark in arcs.items() if mark == "follows"]),
    }


def knowledge_line(result: RunResult) -> list[str]:
    """The size of the background knowledge as a line for the terminal; empty without knowledge."""
    known = result.knowledge
    if not known:
        return []
    return [f"background knowledge: required arcs {len(known.required)}, forbidden arcs {len(known.forbidden)}"]


def _not_identified(result: RunResult) -> ReportTable | None:
    """The pairs of variables that no row observes together; None if there are no such pairs."""
    if not result.not_identified:
        return None
    rows = list(result.not_identified)
    return ReportTable(("not identified:", "no row has both"), rows, scrolling=len(rows) > SCROLLING_ROWS)


def _scores(result: RunResult) -> list[ReportTable]:
    """The scores and counts; for dynamic structures, separately for edges within one time step and across time."""
    metrics = result.metrics
    names = [*SCORES, *COUNTS, *(name for name in metrics if name not in ELSEWHERE | set(SCORES) | set(COUNTS))]
    undefined = result.truth is None or "pag" in (result.structure.kind, result.truth.kind)
    known = [name for name in names if name in metrics and not (undefined and metrics[name] is None)]
    within = [name for name in known if not name.startswith("lagged_")]
    lagged = [name for name in known if name.startswith("lagged_")]
    tables = _score_tables(result, within, " within one time step (W)" * bool(lagged))
    return [*tables, *_score_tables(result, lagged, " across time (A)")]


def _score_tables(result: RunResult, names: Iterable[str], where: str) -> list[ReportTable]:
    """A table of the scores and a table of the counts among the metrics `names`; `where` names the kind of edges."""
    figures = [(name, result.metrics[name]) for name in names]
    scores = [(SCORES[name], value) for name, value in figures if name in SCORES]
    counts = [(COUNTS.get(name, name), value) for name, value in figures if name not in SCORES]
    return [ReportTable((kind + where, ""), rows) for kind, rows in (("score", scores), ("count", counts)) if rows]


def _confidence(result: RunResult) -> ReportTable | None:
    found = result.confidence
    return confidence_table(result, found.averaged, found.strengths) if found else None


def _model(result: RunResult) -> ReportTable | None:
    """The kind of model, the source of its parameters, and its file; None without a model."""
    network = result.parameters.network
    if network is None:
        return None
    rows: list[tuple[str, object]] = [("kind", network.kind), ("parameters", result.parameters.how)]
    rows += [("free parameters", network.free_parameters)] if network.discrete else []
    rows += [("file", ", ".join(model_file(result)) or "none: BIF cannot represent its labels")]
    undeclared = [name for name in result.schema.levels if name not in result.about.get("levels", {})]
    rows += [("levels", UNDECLARED_LEVELS)] * (bool(undeclared) and result.small_cells is not None)
    return ReportTable(("model", ""), rows)


def _intensities(result: RunResult) -> dict[str, Any] | None:
    """The intensities of a Hawkes process, the most frequent types first, and its delays; None without a delay."""
    found = result.parameters.intensities
    if found is None or not found.delay:
        return None
    many = np.nan_to_num(found.events)
    order = sorted(range(len(many)), key=lambda v: (-many[v], found.variables[v]))
    columns = (found.events, found.base, found.background, found.excitation.diagonal())
    each = [[None if np.isnan(one[v]) else float(one[v]) for one in columns] for v in order]
    listed = [
        (found.variables[v], RARE_EVENT if n is None else int(n), *rates)
        for v, (n, *rates) in zip(order, each, strict=True)
    ]
    header = ("type", "events", "base rate", "share not triggered by events", "further events of the same type")
    return {
        "table": ReportTable(header, listed, scrolling=len(listed) > SCROLLING_ROWS),
        "delay": found.delay,
        "times": share_times(found),
        "rounded": result.small_cells == "blank",
    }


def _forecasts(result: RunResult) -> dict[str, ReportTable | None] | None:
    """The dynamics and the forecast errors of a model of time series; None for other models."""
    network = result.parameters.network
    if network is None or not network.lags:
        return None
    dynamics: list[tuple[str, object]] = [("Lags: maximum number of steps back", network.lags)]
    if network.linear:
        radius = result.metrics.get("spectral_radius")
        dynamics.append(("Spectral radius: shocks fade out if it is below 1", radius))
    return {"dynamics": ReportTable(("dynamics", ""), dynamics), "errors": forecast_table(result, network)}


def _communication(result: RunResult) -> ReportTable:
    """The exchanges and bytes of rounds, targets and imputation model; the bytes of parameters and diagnoses."""
    metrics = result.metrics
    rows: list[tuple[str, object]] = [("Exchanges in the rounds", metrics.get("rounds", len(result.rounds)))]
    tested = [("Independence tests", "tests"), ("Tests skipped for lack of rows or memory", "tests_left_out")]
    tested += [("Families scored", "families")]
    rows += [(label, metrics[name]) for label, name in tested if metrics.get(name) is not None]
    rows += [
        ("Rounds, silos to coordinator: serialised bytes", metrics.get("bytes_up")),
        ("Rounds, coordinator to silos: serialised bytes", metrics.get("bytes_down")),
        (
            "Rounds, both directions: megabytes by the papers' formula (Fassy El Fehri et al., B.2.1)",
            metrics.get("formula_megabytes"),
        ),
    ]
    if "target_exchanges" in metrics:
        rows.append(("Targets, before the rounds: exchanges", metrics["target_exchanges"]))
        rows.append(("Targets, before the rounds: bytes in both directions", metrics["target_bytes"]))
    if metrics.get("filling_exchanges"):
        rows.append(("Imputation model, before the rounds: exchanges", metrics["filling_exchanges"]))
        rows.append(("Imputation model, before the rounds: bytes in both directions", metrics["filling_bytes"]))
    if result.parameters.bytes_sent:
        rows.append(("Parameters, after the rounds: bytes in both directions", result.parameters.bytes_sent))
    if result.diagnosed.bytes_sent:
        rows.append(("Diagnoses: bytes in both directions", result.diagnosed.bytes_sent))
    return ReportTable(("total over silos", ""), rows)


def _privacy(result: RunResult) -> dict[str, ReportTable] | None:
    """The privacy loss of a run with an ε: total, by release and by ledger; None for other runs."""
    privacy = result.privacy
    if privacy is None:
        return None
    silos = [(silo, privacy.run[silo], privacy.ever[silo]) for silo in sorted(privacy.run)]
    return {
        "spent": ReportTable(("privacy loss", ""), _spent(privacy, over_time=result.schema.kind == "time-series")),
        "released": ReportTable(("released", "times", "ρ (zCDP)"), privacy.releases),
        "ledgers": ReportTable(
            ("ledger of silo", "ε of this run", "ε of all runs"), silos, len(silos) > SCROLLING_ROWS
        ),
    }


DISCLOSED_COLUMNS = ("part of the run", "algorithm", "statistic", "silos mixed in it", "its rows", "numbers", "replies")


def _disclosed(result: RunResult) -> dict[str, ReportTable]:
    """What each silo has sent, by the record of its own gate; silos with the same lines share a table."""
    tables: dict[tuple[tuple[object, ...], ...], list[str]] = {}
    for silo in sorted(result.disclosed):
        lines = tuple(
            (
                one.part,
                one.algorithm,
                one.statistic + ", masked" * one.masked + ", with noise" * one.private,
                "itself alone" if one.silos == (silo,) else pluralize(len(one.silos), "silo"),
                one.rows or None,
                one.numbers or None,
                one.times,
            )
            for one in result.disclosed[silo]
        )
        tables.setdefault(lines, []).append(silo)
    return {
        ", ".join(silos): ReportTable(DISCLOSED_COLUMNS, lines, len(lines) > SCROLLING_ROWS)
        for lines, silos in tables.items()
    }


def _spent(privacy: PrivacySpent, *, over_time: bool) -> list[tuple[str, object]]:
    return [
        ("ε spent, maximum over silos", "∞" if privacy.broken else privacy.spent),
        ("upper bound on ε by tight accounting", "not available" if privacy.tight is None else privacy.tight),
        ("ε requested", privacy.epsilon),
        ("δ", privacy.delta),
        ("Neighbouring tables: how they differ in one record", privacy.adjacency),
        ("Protected unit, and from whom" if over_time else "Protected record, and from whom", privacy.protects),
        ("ε of all runs on these rows, including this one", privacy.spent_ever),
    ]


def _settings(result: RunResult) -> ReportTable:
    rows: list[tuple[str, object]] = [("algorithm", result.algorithm), ("seed", str(result.seed))]
    rows += [("engine", result.engine), ("run", result.name), *result.params.items()]
    return ReportTable(("setting", "value"), rows)
