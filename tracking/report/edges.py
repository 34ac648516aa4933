"""The edges of a structure as tables, each compared with the truth: the strongest first."""

from collections.abc import Sequence

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.graphs.edge_classes import Edge, classify
from fedbnsl.algorithms.graphs.edges import weighted
from fedbnsl.algorithms.graphs.lagged_edges import classify_lagged, lagged_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.graphs.summary import summary

from ..result import RunResult
from .page import Markup, paragraph, section, table
from .words import MARKS

WITHIN = (
    "Effects that show before the next measurement: what happens in one step of the data. X → Y says that Y at a time "
    "depends on X at the same time."
)
DIRECTIONS = (
    "Which way they point rests on an assumption: that the errors are about equally large in the units of the data. "
    "Measured in other units some may turn. That two variables are joined at all is the surer finding."
)
ACROSS = (
    "Effects that take time. X[t-1] → Y says that Y depends on what X was one step before, whatever else is known: "
    "the past of X helps to tell the future of Y. Time gives these edges their directions; a common cause that was not "
    "measured, or measurements further apart than the effects, may still stand behind one."
)
OWN_PAST = (
    "How much of what a variable was stays in it, by how many steps lie between: near 1 it changes slowly, near 0 it "
    "forgets at once, below 0 it swings back."
)


def edge_sections(result: RunResult) -> list[str]:
    """Return the tables of edges: one of most structures, of dynamic ones by whether they take time."""
    structure, truth = result.structure, result.truth
    if not structure.lags:
        return [_section("Edges", structure, truth)]
    if truth is not None and not truth.lags:
        said = "The truth does not say when. So an edge stands here for its strongest effect, whatever its lag."
        among = [_section("Edges at any lag", summary(structure), truth, said)]
        truth = None
    else:
        among = []
    within = (WITHIN, DIRECTIONS) if structure.kind == "dag" and structure.adjacency.any() else (WITHIN,)
    return [*among, _section("Edges within one time step (W)", structure, truth, *within), *_lagged(structure, truth)]


def _section(title: str, structure: Structure, truth: Structure | None, *said: str) -> str:
    has_weights = _weighted(structure, truth)
    explained = [paragraph(one, "soft") for one in said]
    edges = classify(structure, truth)
    return section(title, *explained, _table(edges, has_weights, compared=truth is not None))


def _weighted(structure: Structure, truth: Structure | None) -> bool:
    return weighted(structure) or (truth is not None and weighted(truth))


def _lagged(structure: Structure, truth: Structure | None) -> list[str]:
    """Return the sections of the edges across time: between variables, and from each to itself."""
    edges = classify_lagged(structure, truth)
    has_weights = _weighted(structure, truth)
    others, compared = [edge for edge in edges if not edge.own], truth is not None
    title = "Edges across time (A)"
    found = [section(title, paragraph(ACROSS, "soft"), _table(others, has_weights, compared=compared))]
    if any(edge.own for edge in edges):
        found.append(section("Own past", paragraph(OWN_PAST, "soft"), _own_past(structure, truth)))
    return found


def _own_past(structure: Structure, truth: Structure | None) -> str:
    """Return a table of what each variable's own past weighs, a column a lag, and what it truly weighs."""
    lags = max(structure.lags, truth.lags if truth else 0)
    shown = {"": structure} | ({"true, ": truth.reordered(structure.variables)} if truth else {})
    weights = {
        f"{whose}{counted(lag, 'step')} before": lagged_of(one, lags)[lag - 1].diagonal()
        for whose, one in shown.items()
        for lag in range(1, lags + 1)
    }
    rows = [(name, *(float(own[v]) or None for own in weights.values())) for v, name in enumerate(structure.variables)]
    return table(("variable", *weights), rows, scrolling=True)


def _table(edges: Sequence[Edge], has_weights: bool, *, compared: bool) -> str:
    if not edges:
        return paragraph("There is no edge.")
    true = any(edge.true_weight not in (None, 1.0) for edge in edges)
    names = ["edge", *["weight"] * has_weights, *["true weight"] * true, *[""] * compared]
    rows = []
    for edge in sorted(edges, key=lambda edge: -abs(edge.weight or 0.0)):
        cells = {"edge": edge.text, "weight": edge.weight, "true weight": edge.true_weight}
        rows.append([cells[name] if name else _mark(edge) for name in names])
    return table(names, rows, scrolling=True)


def _mark(edge: Edge) -> Markup:
    return Markup(f'<span class="{edge.category}">{MARKS[edge.category]}</span>')
