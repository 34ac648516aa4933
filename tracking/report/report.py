"""The report of a run: one self-contained HTML file, readable without the internet."""

from collections.abc import Iterable

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.graphs.edge_classes import classify
from fedbnsl.algorithms.graphs.edges import weighted
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged
from fedbnsl.algorithms.parameters.mixed_network import MixedNetwork
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork, DynamicGaussianNetwork

from ..model import model_file
from ..pictures.picture import DRAWN_UP_TO, as_svg, draw_rounds, draw_structure
from ..result import NOT_COVERED, RunResult, series_warnings, strengths_in
from .changes import changes_section
from .confidence import confidence_section
from .data import data_section
from .edges import edge_sections
from .explore import explore_scripts, explore_section
from .knowledge import knowledge_section
from .over_time import dynamic_structure, forecast_sections
from .page import Markup, columns, figure, header, page, paragraph, section, table, tiles
from .silos import shared_edges, silo_section
from .trust import trust_sections
from .words import BY_STRENGTH, COUNTS, ELSEWHERE, NO_TRUTH, READING, SCORES


def report_html(result: RunResult) -> str:
    """Return the report of `result` as one HTML document that loads nothing from other files or sites."""
    body = [
        _headline(result),
        *trust_sections(result),
        *changes_section(result),
        *data_section(result),
        *knowledge_section(result),
        _structure(result),
        _scores(result),
        *edge_sections(result),
        *confidence_section(result),
        *shared_edges(result),
        _convergence(result),
        _model(result),
        *forecast_sections(result),
        _communication(result),
        silo_section(result),
        _privacy(result),
        _settings(result),
    ]
    return page(_title(result), body, explore_scripts(result))


def warnings(result: RunResult) -> list[str]:
    """Return what a reader must know before trusting the structure, in plain words."""
    said = []
    if result.outcome == "silo lost":
        who = ", ".join(result.lost) or "a silo"
        said.append(f"Silo lost: {who} stopped answering. This is the state of the last round that all silos finished.")
    elif result.lost:
        said.append(f"Lost on the way: {', '.join(result.lost)}. What was learned comes from the silos that stayed.")
    if result.privacy is not None and result.privacy.broken:
        said.append(f"NOT PRIVATE: {result.privacy.broken}.")
    if result.outcome == "out of rounds":
        said.append(
            f"It did not converge: the run ended after {counted(len(result.rounds), 'round')}, and more may change "
            "the structure."
        )
    said += series_warnings(result)
    cycle = result.structure.cycle
    if cycle:
        said.append(f"A cycle is left: {' → '.join([*cycle, cycle[0]])}. This is not a Bayesian network.")
    return said


def _headline(result: RunResult) -> str:
    metrics, silos = result.metrics, len(result.schema.rows)
    ended = {"converged": "converged", "out of rounds": "did not converge", "silo lost": "lost a silo"}[result.outcome]
    edges, lagged = len(classify(result.structure, None)), len(classify_lagged(result.structure, None))
    over_time = f" within one time step and {counted(lagged, 'edge')} across time" * bool(result.structure.lags)
    common = " in the structure common to all silos" * bool(result.averaged and result.local_structures)
    variables = counted(len(result.structure.variables), "variable")
    found = (
        f"{counted(edges, 'edge')}{over_time}{common} among {variables}, learned "
        f"from {counted(sum(result.schema.rows.values()), 'row')} in {counted(silos, 'silo')}. "
        f"The run {ended} after {counted(len(result.rounds), 'round')}."
    )
    named = {"shd": "SHD", "tpr": "TPR", "fdr": "FDR"}
    if result.structure.kind != "dag":
        named = {"shd": "SHD, strict", "shd_lenient": "SHD, lenient", "tpr": "TPR", "fdr": "FDR"}
    named |= {f"lagged_{name}": f"{label}, lagged" for name, label in named.items() if f"lagged_{name}" in metrics}
    scores = [(label, metrics.get(name)) for name, label in named.items()] if result.truth else []
    figures: list[tuple[str, object]] = [
        *scores,
        ("edges", edges),
        *([("lagged edges", lagged)] if result.structure.lags else []),
        ("rounds", len(result.rounds)),
        ("seconds", metrics.get("seconds")),
        ("MB, papers' formula", metrics.get("formula_megabytes")),
    ]
    return "\n".join(
        [
            header(_title(result), paragraph(found)),
            *(paragraph(warning, "warning") for warning in warnings(result)),
            tiles(figures),
        ]
    )


def _structure(result: RunResult) -> str:
    if result.structure.lags:
        return dynamic_structure(result)
    strengths = strengths_in(result)
    svg = as_svg(
        draw_structure(result.structure, result.truth, "", strengths, result.knowledge.required, result.labelled),
        "structure",
    )
    truth = result.about.get("truth")
    against = f"Held against the truth{f' ({truth})' if truth else ''}." if result.truth else NO_TRUTH
    thick = "; the stronger an edge, the thicker its line" * (weighted(result.structure) and not strengths)
    how = (
        f"Causes stand above their effects{thick}.{f' {BY_STRENGTH}' if strengths else ''}"
        if len(result.structure.variables) <= DRAWN_UP_TO
        else "A mark in row X and column Y is the edge X → Y, a white dot a circle at Y; causes come before effects."
    )
    marks = [paragraph(READING[result.structure.kind], "soft")] if result.structure.kind in READING else []
    large = len(result.structure.variables) > DRAWN_UP_TO
    explored = explore_section(result, opened=large)
    seen = [paragraph(how, "soft"), figure(svg)]
    return section("Structure", paragraph(against, "soft"), *marks, *(explored + seen if large else seen + explored))


def _scores(result: RunResult) -> str:
    truth, metrics = result.about.get("truth", "the truth.csv of the data set"), result.metrics
    compared = result.truth is not None
    names = [*SCORES, *COUNTS, *(name for name in metrics if name not in ELSEWHERE | set(SCORES) | set(COUNTS))]
    undefined = result.truth is None or "pag" in (result.structure.kind, result.truth.kind)
    known = [name for name in names if name in metrics and not (undefined and metrics[name] is None)]
    within = [name for name in known if not name.startswith("lagged_")]
    lagged = [name for name in known if name.startswith("lagged_")]
    tables = _score_tables(result, within, " within one time step (W)" * bool(lagged))
    tables += _score_tables(result, lagged, " across time (A)")
    averaged = " The figures are means over the silos." * result.averaged
    said = paragraph(f"Truth: {truth}.{averaged}", "soft") if compared else paragraph(NO_TRUTH + averaged)
    if metrics.get("not_compared"):
        said = paragraph(f"There are no scores: {metrics['not_compared']}.", "warning")
    return section("Scores", said, columns(*tables))


def _score_tables(result: RunResult, names: Iterable[str], where: str) -> list[str]:
    """Return a table of the scores among the metrics `names`, and one of the counts; `where` says of which edges."""
    figures = [(name, result.metrics[name]) for name in names]
    scores = [(SCORES[name], value) for name, value in figures if name in SCORES]
    counts = [(COUNTS.get(name, name), value) for name, value in figures if name not in SCORES]
    return [table((kind + where, ""), rows) for kind, rows in (("score", scores), ("number", counts)) if rows]


def _convergence(result: RunResult) -> str:
    if not result.rounds:
        return section("Convergence", paragraph("No round was finished."))
    return section("Convergence", figure(as_svg(draw_rounds(result.rounds), "rounds")))


def _model(result: RunResult) -> str:
    network = result.parameters.network
    if network is None:
        return section("Model", paragraph(f"No parameters: {result.parameters.how}."))
    files = ", ".join(model_file(result)) or "no file, as BIF cannot say its labels"
    kind, count = "linear Gaussian network", 0
    if isinstance(network, DynamicGaussianNetwork):
        kind = f"dynamic linear Gaussian network that looks back over {counted(network.structure.lags, 'step')}"
    if isinstance(network, MixedNetwork):
        kind = "network of mixed variables: linear and logistic regressions, and tables"
    if isinstance(network, DiscreteNetwork):
        kind, count = (
            "discrete network",
            sum(table.size - table.size // table.shape[-1] for table in network.tables.values()),
        )
    rows: list[tuple[str, object]] = [("kind", kind), ("parameters learned from", result.parameters.how)]
    rows += [("free parameters", count)] if count else []
    return section("Model", table(("the structure with parameters", ""), [*rows, ("file", files)]))


def _communication(result: RunResult) -> str:
    metrics = result.metrics
    rows: list[tuple[str, object]] = [("Exchanges with all silos", metrics.get("rounds", len(result.rounds)))]
    tested = [("Independence tests", "tests"), ("Tests left out for want of rows or room", "tests_left_out")]
    tested += [("Families scored", "families")]
    rows += [(label, metrics[name]) for label, name in tested if metrics.get(name) is not None]
    rows += [
        ("Silos to coordinator, bytes really serialised", metrics.get("bytes_up")),
        ("Coordinator to silos, bytes really serialised", metrics.get("bytes_down")),
        ("Both together by the papers' formula, megabytes", metrics.get("formula_megabytes")),
    ]
    if metrics.get("filling_exchanges"):
        rows.append(("Before, for the empty cells: exchanges", metrics["filling_exchanges"]))
        rows.append(("Before, for the empty cells: bytes in both directions", metrics["filling_bytes"]))
    if result.parameters.bytes_sent:
        rows.append(("Besides, for the parameters: bytes in both directions", result.parameters.bytes_sent))
    if result.diagnosed.bytes_sent:
        rows.append(("Besides, for the diagnoses: bytes in both directions", result.diagnosed.bytes_sent))
    return section("Communication", table(("over all silos and rounds", ""), rows))


def _privacy(result: RunResult) -> str:
    privacy = result.privacy
    masked = "Replies were masked: the coordinator saw only their sums."
    if privacy is None:
        said = "No privacy budget was asked for: replies are exact."
        return section("Privacy", paragraph(said), *([paragraph(masked)] if result.secure else []))
    over_time = result.schema.kind == "time-series"
    notes = [paragraph(f"NOT PRIVATE: {privacy.broken}.", "warning")] if privacy.broken else []
    notes += [paragraph(masked)] if result.secure else []
    rows: list[tuple[str, object]] = [
        ("ε spent, by the silo that spent most", "∞" if privacy.broken else privacy.spent),
        ("the same by tight accounting, at most", "not known" if privacy.tight is None else privacy.tight),
        ("ε asked for", privacy.epsilon),
        ("δ", privacy.delta),
        ("Neighbours: two tables that differ in one record", privacy.adjacency),
        ("What one record is, and whom it is protected from" if over_time else "Protects one record", privacy.protects),
        ("ε of all runs on these rows, this one among them", privacy.spent_ever),
    ]
    released = table(("released", "times", "ρ (zCDP)"), [(what, times, rho) for what, times, rho in privacy.releases])
    not_covered = paragraph("Not covered: " + "; ".join(NOT_COVERED) + ".", "soft")
    silos = [(silo, privacy.run[silo], privacy.ever[silo]) for silo in sorted(privacy.run)]
    ledger = table(("ledger of", "ε of this run", "ε of all runs"), silos, scrolling=len(silos) > 12)
    return section("Privacy", *notes, table(("spent", ""), rows), released, ledger, not_covered)


def _settings(result: RunResult) -> str:
    rows: list[tuple[str, object]] = [("algorithm", result.algorithm), ("seed", Markup(str(result.seed)))]
    rows += [("engine", result.engine), ("run", result.name), *result.params.items()]
    return section("Settings", table(("setting", "value"), rows))


def _title(result: RunResult) -> str:
    return f"{result.algorithm} on {result.dataset}, seed {result.seed}"
