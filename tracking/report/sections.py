"""The result of a run as sections: what the page, the terminal, the files and Prefect show of each part of it.

`SECTIONS` has one entry for each part of a result, in the order of the page. An entry states the blocks of the page
(sentences, tables, pictures), the lines and details of the terminal, the files, and the tables of Prefect, each as a
function of the result. The writers know these forms and no field of a result: `report.py` renders blocks as HTML,
`outputs.py` writes the files, `flows/terminal/summary.py` prints the lines, and `flows/engines/artifacts.py` publishes
the tables. A further part of a result is a further entry.

What is written has passed the publication gate (`publication.py`) before there is a `RunResult`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from fedbnsl.algorithms.core.knowledge import Arc
from fedbnsl.algorithms.core.protocol import ENDED_EARLY, Outcome
from fedbnsl.algorithms.core.schema import Transform
from fedbnsl.algorithms.errors import listed, pluralize
from fedbnsl.algorithms.graphs.compare import summary_graph
from fedbnsl.algorithms.graphs.edges import SYMBOLS, ClassifiedEdges, weighted
from fedbnsl.algorithms.graphs.strengths import SURE
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode
from fedbnsl.algorithms.posterior.sampling import AGREEING, CHAINS, Posterior
from fedbnsl.algorithms.privacy.disclosure_control import MIN_COUNT
from fedbnsl.algorithms.statistics.transforms import FORMULAS, SCORES

from ..comparison import COUNTED
from ..kept_files import with_format
from ..metrics import MetricValue, shown_in, table_rows
from ..model import MODELS, model_file
from ..pictures.delays import share_times
from ..pictures.picture import MAX_DRAWN_VARIABLES
from ..result import CANDIDATE_COLUMNS, NOT_COVERED, SUPPRESSED_CELLS, RunResult, series_warnings, strengths_in
from . import files
from .blocks import (
    Block,
    Explorer,
    FileContent,
    Fold,
    Heading,
    NamedTable,
    Paragraph,
    Pictures,
    Section,
    StatementList,
    TablesBeside,
    Tiles,
    note,
)
from .drawings import (
    delays_png,
    delays_svg,
    graph_svg,
    marks_of,
    matrices_png,
    matrices_svg,
    rounds_svg,
    silo_svgs,
    structure_png,
    survival_png,
    survival_svg,
)
from .statements import MAX_STATEMENTS, statements
from .tables import (
    ReportTable,
    changes_table,
    confidence_table,
    data_header,
    data_rows,
    display,
    drift_table,
    edges_table,
    evidence_table,
    excluded_by_reason,
    figure_table,
    forecast_table,
    format_bytes,
    has_findings,
    own_past_table,
    posterior_table,
    rows_line,
    shared_edges,
    silo_scores,
    silo_table,
)

# The head of the page.

ENDINGS: dict[Outcome, str] = {
    "converged": "converged",
    "out of rounds": "did not converge",
    "out of time": "reached its time limit",
    "out of bytes": "reached its limit of megabytes",
    "silo lost": "lost a silo",
    "cancelled": "was cancelled",
}


def title_of(result: RunResult) -> str:
    """The name of the data set and the day on which the run ended, if it is known."""
    return f"{result.dataset}, {date.fromisoformat(result.ended):%-d %B %Y}" if result.ended else result.dataset


def _head(result: RunResult) -> Iterator[Block]:
    events, schema = result.schema.kind == "events", result.schema
    edges = pluralize(len(result.edges.within), "edge")
    if result.structure.lags:
        edges += f" within one time step and {pluralize(len(result.edges.lagged), 'edge')} across time"
    if result.averaged and result.local_structures:
        edges += " in the structure common to all silos"
    rows, variable = ("event", "event type") if events else ("row", "variable")
    text = (
        f"{edges} among {pluralize(len(result.structure.variables), variable)}, learned from "
        f"{pluralize(sum(schema.rows.values()), rows)} in {pluralize(len(schema.rows), 'silo')}."
    )
    if result.outcome != "converged" or len(result.rounds) > 1:
        text += f" The run {ENDINGS[result.outcome]} after {pluralize(len(result.rounds), 'round')}."
    yield Heading(title_of(result), 1)
    yield Paragraph(text)
    for warning in (*warnings(result), *_not_compared(result)):
        yield Paragraph(warning, "warning")
    if result.truth:
        places = ("tile",) if result.structure.kind == "dag" else ("tile", "lenient")
        names = [one for one in shown_in(*places) if one.name in result.metrics or not one.name.startswith("lagged_")]
        yield Tiles([(one.heading, result.metrics.get(one.name)) for one in names])


def _head_lines(result: RunResult) -> Iterator[str]:
    yield from _not_compared(result)
    yield from small_cell_warnings(result)


def _not_compared(result: RunResult) -> list[str]:
    reason = result.metrics.get("not_compared")
    return [f"No scores are available: {reason}."] if reason else []


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
    if result.outcome == "cancelled":
        messages.append("Cancelled: the graph is the best that the run had found by then.")
    messages += _broken_promise(result)
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
    messages = []
    if SUPPRESSED_CELLS in result.notes:
        messages.append(f"Small cells were suppressed: {SUPPRESSED_CELLS}.")
    counts = result.parameters.intensities or (result.parameters.network and result.schema.levels)
    if result.small_cells == "keep" and counts:
        messages.append("Small cells were kept: the model discloses cells of 1 and 2 rows. It is not for publication.")
    return messages


# The graph.

KIND_NOTES = {
    "cpdag": "An arrow points from cause to effect. A line without an arrowhead has a direction that the data cannot "
    "determine: graphs that fit equally well differ in it (the graph is a CPDAG).",
    "pag": "This graph is a PAG, which allows for hidden variables. An arrowhead at X means that X does not cause the "
    "other variable, a plain end at X that it does, and a circle that the data do not decide. Arrowheads at both ends "
    "indicate a hidden common cause.",
}


def _lines_of_graph(result: RunResult, without_resamples: str) -> str:
    """What the width, the paleness and the heads of lines mean; `without_resamples` says it without resamples."""
    found, doubts = result.confidence, dict.fromkeys(result.doubted.values())
    text = without_resamples
    if found:
        text = (
            f"The graph was learned again from {found.strengths.structures} resamples (random halves of the rows). "
            "Thicker lines are edges found in more of them. Pale lines are unstable edges: at most half of the "
            f"resamples have them. An arrowhead is hollow if fewer than {100 * SURE:.0f} % of the resamples with the "
            "edge agree with its direction. A line without arrowheads has no direction, because the data do not "
            "determine it."
        )
    if doubts:
        text += f" Some arrowheads are hollow because {listed(list(doubts))}."
    return text.strip()


def _graph_lines(result: RunResult) -> Iterator[str]:
    """How many edges were found, how many have a direction, and how many of them are doubtful or unstable."""
    edges, marks, strengths = result.edges, marks_of(result), strengths_in(result)
    directed = [edge for edge in edges if edge.directed]
    doubtful, unstable = sum(map(marks.doubtful, directed)), sum(map(marks.unstable, edges))
    text = f"{pluralize(len(edges), 'edge')}, {len(directed)} with a direction"
    if doubtful:
        text += f" ({doubtful} doubtful)"
    if strengths is not None and unstable:
        text += f"; {pluralize(unstable, 'edge')} in at most half of the {strengths.structures} resamples"
    yield f"{text}."


def _graph(result: RunResult) -> Iterator[Block]:
    structure, over_time = result.structure, result.structure.lags > 0
    yield Heading("The graph over time" if over_time else "The graph")
    if result.truth:
        source = result.about.get("truth")
        yield note(f"Compared with the true graph{f' ({source})' if source else ''}.")
    if structure.kind in KIND_NOTES:
        yield note(KIND_NOTES[structure.kind])
    yield from _graph_over_time(result) if over_time else _graph_of_rows(result)
    silos, own = silo_svgs(result), len(result.local_structures)
    if silos:
        first = f", the first {len(silos)} of {own}" if len(silos) < own else ""
        yield Fold(f"The silos' own graphs{first}", Pictures(silos))


def _graph_over_time(result: RunResult) -> Iterator[Block]:
    if result.local_structures:
        yield note(
            "This is the common graph of all silos. Each silo also has a graph of its own, in silo_structures.csv; "
            "“Edges by silo” below counts the silos that have each edge."
        )
    drawing = graph_svg(result)
    if drawing:
        widths = _lines_of_graph(result, "Thicker lines are stronger edges of the same kind.")
        yield note(
            "Each column is one time step. An arrow from an earlier column means that the past of a variable affects "
            "another variable or itself. An arrow to the right of the last column is an effect within one step; it "
            f"applies at every step but is drawn only once. {widths}"
        )
        yield Pictures([("", drawing)])
    yield Explorer(opened=not drawing)
    yield note(
        "A coloured cell in row X and column Y is the edge from X to Y: blue if Y increases with X, red if Y "
        "decreases. The diagonal of A shows the effect of each variable's own past."
    )
    yield Pictures([("", matrices_svg(result))])


def _graph_of_rows(result: RunResult) -> Iterator[Block]:
    structure, drawing = result.structure, graph_svg(result)
    large = len(structure.variables) > MAX_DRAWN_VARIABLES
    if large:
        yield Explorer(opened=True)
        yield note(
            "A mark in row X and column Y is the edge X → Y; a white dot is a circle at Y. Causes come before their "
            "effects."
        )
    else:
        widths = "Thicker lines are stronger edges." if weighted(structure) else ""
        causes = "Causes are above their effects." if structure.kind == "dag" else ""
        yield note(f"{causes} {_lines_of_graph(result, widths)}".strip())
    if drawing:
        yield Pictures([("", drawing)])
    if not large:
        yield Explorer(opened=False)


def _scales_of_effects(transforms: Mapping[str, Transform]) -> str:
    """Sentences on the scales of effects on or of transformed variables."""
    back = [name for name, one in transforms.items() if one not in SCORES]
    text = f" Effects on or of {', '.join(back)} are computed back to the units of the data." * bool(back)
    for transform in SCORES:
        names = [name for name, one in transforms.items() if one == transform]
        text += f" {', '.join(names)}: effects are in {FORMULAS[transform]}." * bool(names)
    return text


def _statements(result: RunResult) -> Iterator[Block]:
    found = statements(result)
    if not found.sentences:
        return
    yield Heading("What the graph says")
    if result.structure.kind == "pag":
        text = "Each sentence describes one edge by its marks."
    else:
        which = f"The {len(found.sentences)} edges with the largest effects" if found.weaker else "The edges"
        text = (
            f"{which}, each with the direct effect of one "
            f"{'event type' if result.schema.kind == 'events' else 'variable'} on another in the fitted model. The "
            "effects are causal only if the assumptions below hold."
        )
        if found.intervals:
            text += " Intervals assume that the graph is correct."
        text += _scales_of_effects(result.schema.transforms)
    yield note(text)
    yield StatementList(found.sentences)
    if found.weaker:
        yield note(f"{pluralize(found.weaker, 'edge')} with smaller effects: see the table of edges.")
    if found.unstable:
        unstable = pluralize(found.unstable, "edge")
        yield note(f"Not described: {unstable} that at most half of the resamples have.")


# What the answer rests on.


def _trust(result: RunResult) -> Iterator[Block]:
    yield Heading("Before you trust this graph")
    findings = [(one.name, one.message, one.advice) for one in result.diagnosed.findings]
    if findings:
        yield ReportTable(("finding", "observation", "what to do"), findings)
    elif result.diagnosed.bytes_sent:
        yield Paragraph("The diagnoses of the data have no findings.")
    for line in result.fit.lines:
        yield Paragraph(line)
    marks = marks_of(result)
    doubtful = sum(map(marks.doubtful, result.edges))
    if doubtful:
        yield Paragraph(
            f"{pluralize(doubtful, 'direction')} {'are' if doubtful > 1 else 'is'} doubtful. What decides directions: "
            "knowledge of their order (--tiers, --no-parents, --required), an experiment, or more rows."
        )
    if result.confidence:
        yield Paragraph(
            "The share of resamples with an edge measures how much the graph would change with other rows. It does not "
            "measure whether the assumptions hold: with an unmeasured cause, a wrong edge can be in every resample."
        )
    yield Heading("Assumptions and choices", 3)
    for line in (*_choice(result), *result.basis):
        yield Paragraph(line)


def _trust_lines(result: RunResult) -> Iterator[str]:
    yield from _directions(result)
    yield from result.fit.missing


def _trust_details(result: RunResult) -> Iterator[str]:
    yield from _choice(result)
    yield from (line for line in result.basis if line not in _directions(result))
    yield from (line for line in result.fit.lines if line not in result.fit.missing)


DIRECTIONS = re.compile(r"(All d|D)irections\b.*\brest on\b")
"""pattern of the beginning of a sentence on what directions rest on, such as "All directions rest on" or "Directions
within a time step rest on"; a sentence on only some of the directions also counts"""


def _directions(result: RunResult) -> Sequence[str]:
    """The sentence on what the directions rest on; if the learner states none, its first sentence."""
    return [line for line in result.basis if DIRECTIONS.match(line)][:1] or result.basis[:1]


def finding_lines(result: RunResult) -> list[str]:
    """A line for each finding on the data, with advice."""
    return [f"! {one.message} {one.advice}" for one in result.diagnosed.findings]


def _choice(result: RunResult) -> list[str]:
    if result.asked in ("", result.algorithm):
        return []
    return [f"The requested algorithm {result.asked} chose {result.algorithm} for {result.schema.kind} data."]


def _changes(result: RunResult) -> Iterator[Block]:
    found = result.changes
    if found is None:
        return
    yield Heading("Changes since the previous run")
    yield Paragraph(f"Compared with run {found.earlier}.")
    counts: list[tuple[str, object]] = [(f"edges {fate}", found.structure.count(fate)) for fate in COUNTED.values()]
    yield Tiles([*counts, *([("parameter drift, nats per row", found.drift.total)] if found.drift else [])])
    if found.structure.added_variables:
        yield Paragraph(f"New variables: {', '.join(found.structure.added_variables)}.")
    if found.structure.removed_variables:
        yield Paragraph(f"Removed variables: {', '.join(found.structure.removed_variables)}.")
    edges, drift = changes_table(found), drift_table(found)
    if edges:
        yield edges
    if drift:
        yield note(
            "Parameter drift measures how far the previous run's model is from this run's model: the Kullback-Leibler "
            "divergence in nats per row, for all variables together and for each variable. 0 means that the two models "
            "agree. Drift includes changes in weights, means and spreads as well as in edges. An edge whose direction "
            "the data cannot determine adds nothing to the total when it turns."
        )
        yield drift
    else:
        yield note(f"Parameter drift is not available: {found.no_drift}.")


# Survival outcomes.

HAZARD_COLUMNS = ("term", "hazard ratio", "from", "to", "p of the variable")


def _survival(result: RunResult) -> Iterator[Block]:
    for one in result.survival:
        yield Heading(f"Survival: {one.name}")
        if one.node is None:
            yield Paragraph(one.reason, "warning")
            continue
        node = one.node
        yield Paragraph(_survival_summary(node))
        if node.terms:
            yield ReportTable(HAZARD_COLUMNS, [row[1:] for row in files.hazard_rows(node)])
            yield note(
                "A hazard ratio compares a level with the first level, or a number with one that is lower by 1 (of a "
                "transformed number, on the transformed scale), with the other parents held fixed."
            )
        parent, _ = node.curves()
        by = f", by {parent}, with the other parents at their means" if parent else ""
        yield note(
            f"The probability of no {one.name} until a time{by}. There is a point at the end of each of the "
            f"{len(node.limits)} intervals of all silos together, each of which has at least {MIN_COUNT} events; pale "
            "bands are pointwise 95 % intervals."
        )
        yield Pictures([("", survival_svg(node))])


def _survival_summary(node: SurvivalNode) -> str:
    return (
        f"{node.events:,} events in {node.rows:,} rows of {pluralize(node.silos, 'silo')}, without rows that have an "
        f"empty cell in {node.time}, {node.event} or the parents' candidates; the hazard is constant in each of "
        f"{pluralize(len(node.limits), 'interval')}, and differs between silos."
    )


def survival_lines(result: RunResult) -> Iterator[str]:
    """The hazard ratios of each survival outcome in a line, or the reason why it has no model."""
    for one in result.survival:
        if one.node is None:
            yield one.reason
            continue
        ratios = (
            f"{name} {value:.3g} ({low:.3g} to {high:.3g})"
            for _, name, value, low, high, _ in files.hazard_rows(one.node)
        )
        yield f"hazard ratios of {one.name}: {', '.join(ratios) or 'no parent'}"


def _survival_csv(result: RunResult) -> FileContent:
    nodes = [one.node for one in result.survival if one.node]
    rows = [row for node in nodes for row in files.hazard_rows(node)]
    header = ("outcome", "term", "hazard_ratio", "low", "high", "p_value")
    return files.csv_text(header, rows) if nodes else None


# Data, experiments and knowledge.


def _data(result: RunResult) -> Iterator[Block]:
    """The columns of the silos' tables, and the excluded columns; nothing for plain tables of one kind."""
    schema = result.schema
    if not has_findings(schema, result.notes):
        return
    text = f"{rows_line(schema)}."
    if schema.complete_rows:
        text += " Each silo excluded its rows with missing values; these are the numbers of the remaining rows."
    elif schema.gaps:
        text += (
            " Rows with missing values are included. The learner's model accounts for the missing values, which is "
            "valid if they are missing at random (MAR)."
        )
    header, rows = data_header(schema), data_rows(schema)
    filled = [any(row[k] for row in rows) for k in range(len(header))]
    header, *rows = [tuple(cell for cell, kept in zip(row, filled, strict=True) if kept) for row in (header, *rows)]
    excluded = [(", ".join(names), reason) for reason, names in excluded_by_reason(schema).items()]
    yield Heading("Data")
    yield Paragraph(text)
    yield ReportTable(header, rows)
    if excluded:
        yield ReportTable(("excluded columns", "reason"), excluded)
    for line in result.notes:
        yield Paragraph(f"{line}.")


def _experiments(result: RunResult) -> Iterator[Block]:
    """The variables set in each silo or condition, and the arcs whose direction rests on this."""
    if not result.targets:
        return
    yield Heading("Experiments")
    if result.found_targets:
        yield Paragraph(
            "The run found these targets: it compared the distribution of each variable given its causes between the "
            "silos or conditions. A different mechanism need not be due to an experiment. Another laboratory, "
            "instrument or population can also cause it."
        )
        yield evidence_table(result.found_targets)
    else:
        schema, named = result.schema, dict[str, dict[str, None]]()
        for silo, each in sorted(schema.targets.items()):
            for name, own in zip(schema.condition_names.get(silo, (silo,)), each, strict=True):
                named.setdefault(name, {}).update(dict.fromkeys(own))
        by = "condition" if schema.condition_names else "silo"
        yield Paragraph("Each variable is scored on the rows in which no experiment set it.")
        yield ReportTable(
            (by, "variables set by an experiment"),
            [(name, ", ".join(own)) for name, own in sorted(named.items()) if own],
        )
    arcs = {
        kind: _counted_arcs([arc for arc, mark in result.experimental.items() if mark == kind])
        for kind in ("target", "follows")
    }
    yield Paragraph(f"Directions that rest on experiments: {arcs['target']}.")
    yield Paragraph(f"Directions that follow from these: {arcs['follows']}.")


MAX_LISTED_ARCS = 20


def _counted_arcs(arcs: Sequence[Arc]) -> str:
    return f"{_listed_arcs(arcs)} ({len(arcs)})" if arcs else "none"


def _listed_arcs(arcs: Sequence[Arc]) -> str:
    """The first arcs, and the number of further arcs."""
    more = f" and {len(arcs) - MAX_LISTED_ARCS} more" if len(arcs) > MAX_LISTED_ARCS else ""
    return ", ".join(" → ".join(arc) for arc in arcs[:MAX_LISTED_ARCS]) + more


def _knowledge(result: RunResult) -> Iterator[Block]:
    known, structure = result.knowledge, result.structure
    if not known:
        return
    place = {name: number for number, name in enumerate(structure.variables)}
    imposed = [arc for arc in known.required if structure.weights[place[arc[0]], place[arc[1]]]]
    yield Heading("Background knowledge")
    yield Paragraph(
        "These constraints were given, not learned: this run does not confirm them. The graph contains every required "
        "arc and no forbidden arc; the learner determined the other edges from the data."
    )
    yield Paragraph(f"Required arcs: {_counted_arcs(known.required)}.")
    yield Paragraph(f"Forbidden arcs: {_counted_arcs(known.forbidden)}.")
    if imposed:
        yield Paragraph(f"Arcs in the graph because they were required: {_listed_arcs(imposed)}.")


def _knowledge_details(result: RunResult) -> Iterator[str]:
    known = result.knowledge
    if known:
        yield f"background knowledge: required arcs {len(known.required)}, forbidden arcs {len(known.forbidden)}"


# The edges.


def _edges(result: RunResult) -> Iterator[Block]:
    if result.not_identified:
        yield note(
            "No row has both variables of these pairs, so the data cannot tell whether they are connected. The picture "
            "has a dotted line between them, which is not an edge."
        )
        yield ReportTable(("not identified:", "no row has both"), list(result.not_identified))
    edges = result.compared_edges
    structure, truth = edges.structure, edges.reference
    if structure.lags:
        yield from _edges_over_time(result)
        return
    strengths = result.confidence.strengths if result.confidence else None
    table = edges_table(edges.within, structure, truth, strengths)
    # A few edges without weights, strengths and truth are all in the section "What the graph says". A table would only
    # repeat them.
    if table is None or len(table.header) > 1 or len(edges.within) > MAX_STATEMENTS:
        yield Heading("Edges")
        yield table or NO_EDGES


NO_EDGES = Paragraph("No edges.")


def _edges_over_time(result: RunResult) -> Iterator[Block]:
    edges = result.compared_edges
    structure, truth = edges.structure, edges.reference
    if result.truth is not None and truth is None:
        at_any_lag = ClassifiedEdges(summary_graph(structure), result.truth)
        yield Heading("Edges at any lag")
        yield note(
            "The true graph does not specify lags. Each edge is therefore shown with its strongest effect at any lag."
        )
        yield edges_table(at_any_lag.within, at_any_lag.structure, result.truth) or NO_EDGES
    yield Heading("Edges within one time step (W)")
    yield note("Effects that occur before the next measurement. X → Y means that Y depends on X at the same time step.")
    if structure.kind == "dag" and structure.adjacency.any():
        yield note(
            "The directions assume that the errors have about equal variance in the units of the data; in other units "
            "some edges may have the opposite direction. The presence of an edge is more certain than its direction."
        )
    yield edges_table(edges.within, structure, truth) or NO_EDGES
    yield Heading("Edges across time (A)")
    yield note(
        "Delayed effects. X[t-1] → Y means that the value of X one step earlier helps to predict Y, given all other "
        "variables. Time determines the direction of these edges. An unmeasured common cause, or measurements that are "
        "further apart than the effects, can still produce such an edge."
    )
    yield edges_table([edge for edge in edges.lagged if not edge.own], structure, truth) or NO_EDGES
    if any(edge.own for edge in edges.lagged):
        yield Heading("Effects of a variable's own past")
        yield note(
            "How strongly each variable depends on its own past values. With a weight near 1 the variable changes "
            "slowly. With a weight near 0 it does not depend on its past. With a weight below 0 it oscillates."
        )
        yield own_past_table(structure, truth)


def _structure_tables(result: RunResult) -> Iterator[NamedTable]:
    header, has_weights = ["source", "edge", "target"], weighted(result.structure)
    if has_weights:
        header.append("weight")
    rows = [
        (
            edge.cause,
            SYMBOLS[edge.at_source, edge.at_target],
            edge.target,
            *([round(edge.weight or 0.0, 4)] if has_weights else []),
        )
        for edge in result.edges
    ]
    yield NamedTable("structure", pluralize(len(rows), "edge"), ReportTable(header, rows))


def _silo_edges(result: RunResult) -> Iterator[Block]:
    if not result.local_structures:
        return
    yield Heading("Edges by silo")
    yield note(
        "The number of silos whose own graph has each edge, with the mean and range of its weight in those silos. An "
        "edge in most silos is shared; an edge in only a few is specific to them. silo_edges.csv lists the weight in "
        "every silo."
    )
    if any(one.turned for one in result.silo_edges):
        yield note("If silos disagree on the direction of an edge, its direction is uncertain.")
    tables: Sequence[Block] = shared_edges(result)
    yield from tables or [Paragraph("No silo's graph has an edge.")]


def agreement_lines(result: RunResult) -> list[str]:
    """A line on the agreement of the silos' own structures, if the algorithm learns such structures."""
    silos, edges = len(result.local_structures), result.silo_edges
    most = sum(2 * len(one.weights) > silos for one in edges)
    if not silos:
        return []
    others = pluralize(len(edges) - most, "other")
    return [f"the silos' own structures: {pluralize(most, 'edge')} shared by most silos, {others}"]


# Intensities, forecasts, privacy and disclosure.


def _intensities(result: RunResult) -> Iterator[Block]:
    """The intensities of a Hawkes process, the most frequent types first, and its delays."""
    found = result.parameters.intensities
    if found is None or not found.delay:
        return
    half, nearly_all = map(display, share_times(found))
    text = (
        "The model is a Hawkes process: events of each type occur at a base rate, and every event temporarily raises "
        "the rates of events of its own type and of the types that it affects, on the same device. The mean delay is "
        f"{display(found.delay)} in the unit of the times: half of the triggered events occur within {half}, nearly "
        f"all within {nearly_all}. The model has one delay for all edges, so it cannot show that some effects are "
        "faster than others."
    )
    if result.small_cells == "blank":
        text += (
            " Numbers of events are rounded, rates are those of rounded numbers, and there are none for types of fewer "
            f"than {MIN_COUNT} events."
        )
    yield Heading("Intensities and delays")
    yield note(text)
    picture = delays_svg(result)
    if picture:
        yield Pictures([("", picture)])
    many = np.nan_to_num(found.events)
    columns = (found.events, found.base, found.background, found.excitation.diagonal())
    rows = []
    for v in sorted(range(len(many)), key=lambda v: (-many[v], found.variables[v])):
        number, *rates = (None if np.isnan(one[v]) else float(one[v]) for one in columns)
        rows.append((found.variables[v], f"fewer than {MIN_COUNT}" if number is None else int(number), *rates))
    yield ReportTable(
        ("type", "events", "base rate", "share not triggered by events", "further events of the same type"), rows
    )


def _forecasts(result: RunResult) -> Iterator[Block]:
    """The dynamics and the forecast errors of a model of time series."""
    network = result.parameters.network
    if network is None or not network.lags:
        return
    dynamics: list[tuple[str, object]] = [("Lags: maximum number of steps back", network.lags)]
    if network.linear:
        radius = result.metrics.get("spectral_radius")
        dynamics.append(("Spectral radius: shocks fade out if it is below 1", radius))
    yield Heading("Forecasts one step ahead")
    yield ReportTable(("dynamics", ""), dynamics)
    errors = forecast_table(result, network)
    if errors:
        labels = " of numbers, and share of labels that are not forecast correctly" if result.schema.levels else ""
        yield note(
            f"Mean squared error of one-step forecasts{labels}: of the model, from past values only, and of the "
            "persistence forecast, which predicts no change. Both are computed on the data to which the model was "
            "fitted, so errors on new data will be somewhat larger."
        )
        yield errors


def _forecast_details(result: RunResult) -> Iterator[str]:
    metrics = result.metrics
    model, persistence = metrics.get("forecast_mse"), metrics.get("persistence_mse")
    if model is not None and persistence is not None:
        yield (
            f"forecast of the next row: mean squared error {model:.4g}, {persistence:.4g} for a persistence forecast, "
            "on the training data"
        )
    model, persistence = metrics.get("forecast_wrong"), metrics.get("persistence_wrong")
    if model is not None and persistence is not None:
        yield (
            f"forecast of the next row: {model:.1%} of the labels wrong, {persistence:.1%} by a persistence forecast, "
            "on the training data"
        )


def _privacy(result: RunResult) -> Iterator[Block]:
    """The privacy loss of a run with an ε: total, by release and by ledger."""
    privacy = result.privacy
    yield Heading("Privacy")
    if privacy is None:
        yield Paragraph("This run had no privacy budget: no noise was added.")
    for line in _broken_promise(result):
        yield Paragraph(line, "warning")
    for line in _masked(result):
        yield Paragraph(line)
    if privacy is None:
        return
    unit = "unit" if result.schema.kind == "time-series" else "record"
    yield ReportTable(
        ("privacy loss", ""),
        [
            ("ε spent, maximum over silos", "∞" if privacy.broken else privacy.spent),
            ("upper bound on ε by tight accounting", "not available" if privacy.tight is None else privacy.tight),
            ("ε requested", privacy.epsilon),
            ("δ", privacy.delta),
            ("Neighbouring tables: how they differ in one record", privacy.adjacency),
            (f"Protected {unit}, and from whom", privacy.protects),
            ("ε of all runs on these rows, including this one", privacy.spent_ever),
        ],
    )
    yield ReportTable(("released", "times", "ρ (zCDP)"), privacy.releases)
    ledgers = [(silo, privacy.run[silo], privacy.ever[silo]) for silo in sorted(privacy.run)]
    yield ReportTable(("ledger of silo", "ε of this run", "ε of all runs"), ledgers)
    yield note(f"Not protected by ε: {'; '.join(NOT_COVERED)}.")


def privacy_lines(result: RunResult) -> Iterator[str]:
    """The spent privacy budget in one line, and whether replies were masked; NOT PRIVATE if the guarantee is broken."""
    privacy = result.privacy
    yield from _broken_promise(result)
    if privacy is not None and not privacy.broken:
        tight = "" if privacy.tight is None else f", at most {privacy.tight:.4g} by tight accounting,"
        yield (
            f"privacy: ε = {privacy.spent:.4g}{tight} of {privacy.epsilon:g} spent at δ = {privacy.delta:.3g} "
            f"({privacy.adjacency}, per record; {privacy.protects}); all runs on these rows: "
            f"ε = {privacy.spent_ever:.4g}"
        )
    yield from _masked(result)


def _broken_promise(result: RunResult) -> list[str]:
    return [f"NOT PRIVATE: {result.privacy.broken}."] if result.privacy and result.privacy.broken else []


def _masked(result: RunResult) -> list[str]:
    no_epsilon = "" if result.privacy else "; no ε is guaranteed for these sums"
    return [f"Replies were masked: the coordinator saw only their sums{no_epsilon}."] if result.secure else []


def _disclosed(result: RunResult) -> Iterator[Block]:
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
    if not tables:
        return
    yield Heading("What left the silos")
    yield Paragraph("Recorded by the gate of each silo, not by the coordinator; disclosure.json has all columns.")
    columns = ("part of the run", "algorithm", "statistic", "silos mixed in it", "its rows", "numbers", "replies")
    for rows, silos in tables.items():
        yield Heading(", ".join(silos), 3)
        yield ReportTable(columns, rows)


# For specialists.


def _scores(result: RunResult) -> Iterator[Block]:
    """The scores and counts; for dynamic structures, separately for edges within one time step and across time."""
    edges, lagged = len(result.edges.within), len(result.edges.lagged)
    yield Tiles(
        [
            ("edges", edges),
            *([("lagged edges", lagged)] if result.structure.lags else []),
            ("round" if len(result.rounds) == 1 else "rounds", len(result.rounds)),
            ("seconds", result.metrics.get("seconds")),
            ("MB sent in the rounds, by the formula of Fassy El Fehri et al.", result.metrics.get("formula_megabytes")),
        ]
    )
    compared = result.truth and not result.metrics.get("not_compared")
    if compared:
        yield Heading("Scores")
        means = " These values are means over the silos." if result.averaged else ""
        source = result.about.get("truth", "the truth.csv of the data set")
        yield note(f"True graph: {source}.{means}")
    for line in _no_truth(result):
        yield note(line)
    undefined = result.truth is None or "pag" in (result.structure.kind, result.truth.kind)
    known = {name: value for name, value in result.metrics.items() if not (undefined and value is None)}
    within = {name: value for name, value in known.items() if not name.startswith("lagged_")}
    across = {name: value for name, value in known.items() if name.startswith("lagged_")}
    yield TablesBeside(
        [
            *_score_tables(within, " within one time step (W)" * bool(across)),
            *_score_tables(across, " across time (A)"),
        ]
    )


def _score_tables(metrics: Mapping[str, MetricValue], where: str) -> Iterator[ReportTable]:
    """A table of scores and a table of counts; `where` names the edges."""
    for kind in ("score", "count"):
        rows = [(one.label, value) for one, value in table_rows(kind, metrics)]
        if rows:
            yield ReportTable((kind + where, ""), rows)


def _no_truth(result: RunResult) -> list[str]:
    return [] if result.truth else ["The true graph is not known, so there is no comparison."]


def _score_table(result: RunResult) -> Iterator[NamedTable]:
    known = [(name, value) for name, value in result.metrics.items() if value is not None]
    yield NamedTable("scores", f"{result.algorithm} on {result.dataset}", ReportTable(("score", "value"), known))


def _edge_figures(result: RunResult) -> Iterator[Block]:
    table = figure_table(result)
    if table is None:
        return
    undirected = " An undirected edge has the figures of one of its directions." * (result.structure.kind == "cpdag")
    yield Heading("What each edge adds")
    yield note(
        "For each edge, the graph is compared with the graph without this edge. The search selected the edges by such "
        "figures on the same rows, so the p-values are too small, except for an edge that you had chosen to test "
        f"before the run.{undirected}"
    )
    yield table


def _fit_table(result: RunResult) -> ReportTable | None:
    rows = [(one.label, value) for one, value in table_rows("fit", result.metrics)]
    return ReportTable(("fit", "value"), rows) if rows else None


def _fit(result: RunResult) -> Iterator[Block]:
    """The figures of the fit without a true graph, and the independences that fail, the least likely first."""
    table, held_out = _fit_table(result), result.held_out.lines(result.schema.rows)
    if not table and not held_out:
        return
    yield Heading("Fit without a true graph")
    if table:
        yield note(
            "Two variables without an edge should be independent given the parents of the later one in the causal "
            "order. Each such independence is tested. Failed tests indicate edges that the graph should have, "
            "unmeasured common causes, or effects that the test does not cover. Fisher's C combines all tests; a small "
            "p-value means that the graph as a whole does not explain the data. A good fit does not confirm the graph: "
            "other graphs of its class fit equally well. A test on the rows from which the graph was learned is "
            "lenient: the search removed an edge because these same rows did not support it. With many rows, the tests "
            "also fail because of small deviations from linearity."
        )
        yield table
    worst = [(one.text, one.strength, one.p, one.adjusted) for one in result.fit.worst]
    if worst:
        yield ReportTable(("independence that fails", "strength", "p", "p, adjusted"), worst)
    for line in held_out:
        yield Paragraph(line)
    if result.held_out.by_silo:
        yield ReportTable(
            ("silo", "log-likelihood of a row by the others' model"), list(result.held_out.by_silo.items())
        )


def _fit_tables(result: RunResult) -> Iterator[NamedTable]:
    table = _fit_table(result)
    if table:
        yield NamedTable("fit", "Fit of the graph, without a truth", table)


def _confidence(result: RunResult) -> Iterator[Block]:
    found = result.confidence
    if not result.bootstrap and not result.unresampled:
        return
    yield Heading("Confidence")
    if found is None:
        yield Paragraph(_unknown_confidence(result))
        return
    yield Paragraph(
        f"The learner was repeated on {pluralize(found.strengths.structures, 'resample')}. For each, every silo drew a "
        "random half of its own rows; graphs learned from such halves vary about as much as graphs learned from new "
        f"data. This took {pluralize(found.exchanges, 'additional exchange')} and {display(found.bytes_sent)} bytes in "
        f"both directions. The strength threshold is {display(found.threshold)}."
    )
    yield note(
        "The strength of an edge is the share of resamples that connect the two variables. Its direction is the share "
        "of those resamples in which the edge has the direction shown; an undirected edge counts half for each "
        "direction. The averaged network, in averaged.csv, is built from the edges whose strength exceeds the "
        "threshold: they are added in order of decreasing strength, except those that would close a cycle. An edge "
        "gets a direction if more than half of the resamples with this edge have that direction; otherwise it is "
        "undirected."
    )
    yield confidence_table(result) or Paragraph("No resample contains an edge.")
    yield note(
        "Strength measures uncertainty due to sampling: how much the graph would change with other rows. It does not "
        "measure whether the learner's assumptions hold. If a variable is missing or the errors are not distributed as "
        "assumed, a wrong edge or direction can appear in every resample, with a strength of 1."
    )


def _unknown_confidence(result: RunResult) -> str:
    return f"The confidence in the edges is unknown: {result.unresampled}."


def _confidence_lines(result: RunResult) -> Iterator[str]:
    if result.confidence is None and result.unresampled:
        yield _unknown_confidence(result)


def _confidence_details(result: RunResult) -> Iterator[str]:
    found = result.confidence
    if found is None:
        return
    yield (
        f"bootstrap: {pluralize(found.strengths.structures, 'resample')} in "
        f"{pluralize(found.exchanges, 'more exchange')}, {format_bytes(found.bytes_sent)}; "
        f"averaged network of strengths above {found.threshold:.2f}: "
        f"{pluralize(int(result.metrics['averaged_edges'] or 0), 'edge')}"
    )


POSTERIOR_BESIDE_RESAMPLES = (
    "The probability of an edge is not its strength over resamples: a probability says how much the data support the "
    "edge, under the assumptions of the score; a strength says in how many graphs learned from other rows this learner "
    "would find it."
)


def _posterior(result: RunResult) -> Iterator[Block]:
    found = result.graph_posterior
    if not found.how and not found.why:
        return
    yield Heading("How sure: the posterior over graphs")
    if found.posterior is None:
        yield Paragraph(_no_posterior(result))
        return
    yield Paragraph(
        f"{pluralize(found.posterior.graphs, 'DAG')} were sampled in proportion to how well they explain the data "
        f"({found.how}), by partitions of the variables in {CHAINS} chains (Kuipers & Moffa 2017). "
        f"{_chains(found.posterior)} Before the data, all numbers of parents of a variable were equally probable. "
        "Directions rest on conditional independences and background knowledge alone, also if the learner used more. "
        "The probabilities hold if relations are of the kind that the score assumes, and no common cause is unmeasured."
    )
    yield note(POSTERIOR_BESIDE_RESAMPLES)
    yield posterior_table(result) or Paragraph("No sampled graph has an edge.")
    effects = (
        " The effect is the change of the second variable by one unit of the first, over all graphs: zero in graphs "
        "without a path, and in the others drawn from its posterior given the graph."
    )
    yield note(
        "“Edge” is the probability of the edge in the direction shown, “joined” that of an edge in either direction, "
        "and “path” that the first variable is a cause of the second, directly or through others."
        f"{effects * found.posterior.weighted} posterior.csv has all pairs, and posterior_graphs.csv the graphs."
    )


def _chains(found: Posterior) -> str:
    if found.agree:
        return f"The chains agree (R̂ = {found.r_hat:.3f})."
    return (
        f"The chains do not agree (R̂ = {found.r_hat:.3g}, more than {AGREEING}): the probabilities are rough, as the "
        "graphs of different chains differ."
    )


def _no_posterior(result: RunResult) -> str:
    return f"There is no posterior over graphs: {result.graph_posterior.why}."


def _posterior_lines(result: RunResult) -> Iterator[str]:
    found = result.graph_posterior
    if found.why:
        yield _no_posterior(result)
    if found.posterior is None:
        return
    pairs = found.posterior.joined[np.triu_indices(len(found.posterior.variables), 1)]
    yield (
        f"posterior over graphs: {found.posterior.graphs} DAGs, on average {found.posterior.edges.sum():.3g} edges; "
        f"{pluralize(int((pairs >= 0.9).sum()), 'pair')} joined with probability .9 or more, "
        f"{int((pairs >= 0.5).sum())} with .5 or more"
    )
    if not found.posterior.agree:
        yield _chains(found.posterior)


def _posterior_file(write: Callable[[Posterior], str]) -> Callable[[RunResult], FileContent]:
    return lambda result: write(result.graph_posterior.posterior) if result.graph_posterior.posterior else None


def _convergence(result: RunResult) -> Iterator[Block]:
    if len(result.rounds) > 1:
        yield Heading("Convergence")
        yield Pictures([("", rounds_svg(result))])
    elif not result.rounds:
        yield Paragraph("No round was completed.")


UNDECLARED_LEVELS = (
    "taken from the data, unless about.json declares them; the name of a level taken from the data discloses that "
    "some row has the level"
)


def _model(result: RunResult) -> Iterator[Block]:
    """The kind of model, the source of its parameters, and its file."""
    network = result.parameters.network
    yield Heading("Model")
    if network is None:
        yield from map(Paragraph, _model_lines(result))
        return
    rows: list[tuple[str, object]] = [("kind", network.kind), ("parameters", result.parameters.how)]
    if network.discrete:
        rows += [("free parameters", network.free_parameters)]
    rows += [("file", ", ".join(model_file(result)) or "none: BIF cannot represent its labels")]
    undeclared = [name for name in result.schema.levels if name not in result.about.get("levels", {})]
    if undeclared and result.small_cells is not None:
        rows += [("levels", UNDECLARED_LEVELS)]
    yield ReportTable(("model", ""), rows)


def _model_lines(result: RunResult) -> Iterator[str]:
    if result.parameters.network is None:
        yield f"No parameters: {result.parameters.how}."


def _model_details(result: RunResult) -> Iterator[str]:
    if result.parameters.network is not None:
        yield f"Parameters: {result.parameters.how}."


def _communication(result: RunResult) -> Iterator[Block]:
    """The exchanges and bytes of rounds, targets and imputation model; the bytes of parameters and diagnoses."""
    rows = [
        (one.label, value)
        for one, value in table_rows("exchanges", files.flat_metrics(result))
        if value or (value is not None and not one.name.endswith(("_bytes", "_exchanges")))
    ]
    yield Heading("Communication")
    yield ReportTable(("total over silos", ""), rows)


def _communication_details(result: RunResult) -> Iterator[str]:
    tests, left_out = result.metrics.get("tests"), result.metrics.get("tests_left_out")
    if tests is not None:
        yield f"{tests:,} independence tests, {left_out:,} left out"


def _silos(result: RunResult) -> Iterator[Block]:
    yield Heading("Silos")
    if result.refit:
        yield note(
            "Normalised mean squared errors of the consensus weights and of weights refitted on the silo's own rows."
        )
    yield silo_table(result)
    scores = silo_scores(result)
    if scores:
        yield note(
            "Each silo's own graph, compared with the silo's own true graph if there is one, otherwise with the common "
            "true graph."
        )
        yield scores


def _silos_tables(result: RunResult) -> Iterator[NamedTable]:
    rows = [(silo, rows, "yes" if silo in result.lost else "no") for silo, rows in result.schema.rows.items()]
    yield NamedTable("silos", pluralize(len(rows), "silo"), ReportTable(("silo", "rows", "lost"), rows))


def _settings(result: RunResult) -> Iterator[Block]:
    yield Heading("Settings")
    if result.tuning:
        yield Paragraph(
            f"The settings were chosen from candidates by {result.tuning.by}, without the truth, on random halves of "
            f"each silo's rows, in {pluralize(result.tuning.exchanges, 'exchange')}."
        )
        yield ReportTable(CANDIDATE_COLUMNS, result.tuning.rows)
    rows: list[tuple[str, object]] = [("algorithm", result.algorithm), ("seed", str(result.seed))]
    rows += [("engine", result.engine), ("run", result.name), *result.params.items()]
    yield ReportTable(("setting", "value"), rows)


def _settings_lines(result: RunResult) -> Iterator[str | ReportTable]:
    if result.tuning:
        yield f"candidates, by {result.tuning.by} in {pluralize(result.tuning.exchanges, 'exchange')}:"
        yield ReportTable(CANDIDATE_COLUMNS, result.tuning.rows)


def _candidates(result: RunResult) -> Iterator[NamedTable]:
    if result.tuning:
        table = ReportTable((*CANDIDATE_COLUMNS[:-1], "chosen"), result.tuning.rows)
        yield NamedTable("candidates", f"Candidates, by {result.tuning.by}", table)


def _averaged_csv(result: RunResult) -> FileContent:
    if result.confidence is None or result.averaged_edges is None:
        return None
    return files.structure_csv(result.averaged_edges, result.confidence.strengths)


def _model_file(name: str) -> Callable[[RunResult], FileContent]:
    return lambda result: model_file(result).get(name)


def _silo_files(write: Callable[[RunResult], str]) -> Callable[[RunResult], FileContent]:
    return lambda result: write(result) if result.local_structures else None


SECTIONS = (
    Section("head", _head, _head_lines),
    Section("graph", _graph, _graph_lines, files={"structure.png": structure_png, "matrices.png": matrices_png}),
    Section("statements", _statements),
    Section("trust", _trust, _trust_lines, _trust_details),
    Section(
        "changes",
        _changes,
        files={"changes.csv": lambda result: files.changes_csv(result.changes) if result.changes else None},
    ),
    Section(
        "intensities",
        _intensities,
        files={
            "intensities.csv": lambda result: (
                files.intensities_csv(result.parameters.intensities) if result.parameters.intensities else None
            ),
            "delays.png": delays_png,
        },
    ),
    Section(
        "survival",
        _survival,
        survival_lines,
        files={"survival.csv": _survival_csv, "survival.png": survival_png},
    ),
    Section("data", _data),
    Section(
        "experiments",
        _experiments,
        files={"targets.csv": lambda result: files.targets_csv(result.found_targets) if result.found_targets else None},
    ),
    Section("knowledge", _knowledge, details=_knowledge_details),
    Section(
        "edges",
        _edges,
        files={"structure.csv": lambda result: files.csv_text(*files.edge_table_of(result))},
        tables=_structure_tables,
    ),
    Section(
        "silo edges",
        _silo_edges,
        details=agreement_lines,
        files={
            "silo_structures.csv": _silo_files(lambda result: files.silo_structures_csv(result.local_edges)),
            "silo_edges.csv": _silo_files(
                lambda result: files.silo_edges_csv(result.silo_edges, result.local_structures)
            ),
        },
    ),
    Section("forecasts", _forecasts, series_warnings, _forecast_details),
    Section("privacy", _privacy, privacy_lines),
    Section(
        "disclosed",
        _disclosed,
        files={
            "disclosure.json": lambda result: files.json_text(files.disclosure(result)) if result.disclosed else None
        },
    ),
    Section(
        "scores",
        _scores,
        details=_no_truth,
        files={"metrics.json": lambda result: files.json_text(files.flat_metrics(result))},
        tables=_score_table,
        specialist=True,
    ),
    Section("edge figures", _edge_figures, specialist=True),
    Section("fit", _fit, lambda result: result.held_out.lines(result.schema.rows), tables=_fit_tables, specialist=True),
    Section(
        "confidence",
        _confidence,
        _confidence_lines,
        _confidence_details,
        files={"averaged.csv": _averaged_csv},
        specialist=True,
    ),
    Section(
        "posterior",
        _posterior,
        _posterior_lines,
        files={
            "posterior.csv": _posterior_file(files.posterior_csv),
            "posterior_graphs.csv": _posterior_file(files.posterior_graphs_csv),
        },
        specialist=True,
    ),
    Section(
        "convergence",
        _convergence,
        files={"rounds.csv": lambda result: files.rounds_csv(result.rounds)},
        specialist=True,
    ),
    Section(
        "model",
        _model,
        _model_lines,
        _model_details,
        files={name: _model_file(name) for name in MODELS},
        specialist=True,
    ),
    Section("communication", _communication, details=_communication_details, specialist=True),
    Section(
        "silos",
        _silos,
        files={"silos.csv": lambda result: files.silos_csv(result.silo_scores) if result.silo_scores else None},
        tables=_silos_tables,
        specialist=True,
    ),
    Section(
        "settings",
        _settings,
        _settings_lines,
        files={"config.json": lambda result: files.json_text(with_format(Path("config.json"), files.config(result)))},
        tables=_candidates,
        specialist=True,
    ),
)
