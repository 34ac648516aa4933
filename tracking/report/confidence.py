"""What the report says of how sure the edges are, by resamples of the silos' rows."""

from collections.abc import Iterator

import numpy as np

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.graphs.edge_classes import Edge, classify
from fedbnsl.algorithms.graphs.lagged_edges import LaggedEdge, classify_lagged
from fedbnsl.algorithms.graphs.marks import ARROW, TAIL
from fedbnsl.algorithms.graphs.strengths import Strengths
from fedbnsl.algorithms.graphs.structure import Structure

from ..result import RunResult
from .page import paragraph, section, table

LEAST = 0.1
"""strength from which on an edge is listed that the structure does not have"""
SAID = (
    "The strength of an edge is the share of the resamples in which the two variables are joined, its direction the "
    "share of these in which the edge points the way it is written; one that is not directed counts as half each way. "
    "The averaged network, in averaged.csv, has the edges whose strength exceeds the threshold, the strongest first, "
    "and none that would close a cycle. They point the way that more than half of the resamples with the edge have it; "
    "where no way has so many, they are not directed."
)
NOT_SAID = (
    "It tells how much of the structure may be chance, because these rows were drawn and not others. It does not tell "
    "whether the learner's assumptions hold: where they do not, for want of a variable or because the errors are "
    "not as the learner takes them to be, a wrong edge or direction comes out of every resample alike, with a strength "
    "of 1."
)


def confidence_section(result: RunResult) -> list[str]:
    """Return the section on how sure the edges are: none where that was not asked for."""
    found = result.confidence
    if not result.bootstrap:
        return []
    if found is None:
        return [section("Confidence", paragraph("Not known: a silo was lost before the resamples had ended."))]
    strengths = found.strengths
    more = counted(found.exchanges, "more exchange")
    how = (
        f"The run was repeated on {strengths.structures} resamples. For each, every silo drew half of its own rows at "
        "random; what is learned from such halves scatters about as much as what is learned from new rows would. "
        f"{more} took {found.bytes_sent:,} bytes in both directions. The threshold is {found.threshold:.4g}."
    )
    header = ("edge", "strength", "direction", "learned", "in the averaged network", *["true"] * bool(result.truth))
    rows = list(_rows(result, found.averaged, strengths))
    listed = table(header, rows, scrolling=len(rows) > 12) if rows else paragraph("No resample has an edge.")
    return [section("Confidence", paragraph(how), paragraph(SAID, "soft"), listed, paragraph(NOT_SAID, "soft"))]


def _rows(result: RunResult, averaged: Structure, strengths: Strengths) -> Iterator[tuple[object, ...]]:
    """Yield a row for each edge that was learned, is in the averaged network or is often in resamples, by strength."""
    learned = {_place(edge): edge for edge in _edges(result.structure)}
    average = {_place(edge): edge for edge in _edges(averaged)}
    truth = {_place(edge) for edge in _edges(result.truth)} if result.truth else set()
    every = {_place(edge): edge for edge in often(strengths, LEAST)} | average | learned
    for place, edge in sorted(every.items(), key=lambda one: -strengths.of(one[1])[0]):
        other = average[place].text if place in average else None
        true = ["yes" if place in truth else "no"] * bool(result.truth)
        yield (edge.text, *strengths.of(edge), "yes" if place in learned else None, other, *true)


def _edges(structure: Structure) -> tuple[Edge, ...]:
    return (*classify(structure, None), *classify_lagged(structure, None))


def _place(edge: Edge) -> tuple[object, ...]:
    """Return which two variables an edge joins, of a lagged one the way it goes and at which lag."""
    if isinstance(edge, LaggedEdge):
        return edge.source, edge.target, edge.lag
    return (*sorted((edge.source, edge.target)), 0)


def often(strengths: Strengths, least: float) -> Iterator[Edge]:
    """Yield the edges of this strength, at `least`, each the way most resamples have it."""
    names = strengths.variables
    for i, j in np.argwhere(np.triu(strengths.strength, 1) >= least).tolist():
        there, back = strengths.arrows[i, j], strengths.arrows[j, i]
        source, target = (i, j) if there >= back else (j, i)
        yield Edge(names[source], names[target], None, None, TAIL, TAIL if there == back else ARROW, "learned")
    for k, i, j in np.argwhere(strengths.lagged >= least).tolist():
        yield LaggedEdge(names[i], names[j], None, None, TAIL, ARROW, "learned", k + 1)
