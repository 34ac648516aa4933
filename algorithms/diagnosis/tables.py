"""Diagnosis of a run on discrete data: pairs of equivalent columns, and silos that disagree with the others.

Exchange 1 is a sum: counts of each variable, and of each pair that is adjacent in the learned structure. It is left
out if these counts are known from the fit of the graph (`implied_tables.py`).

Exchange 2 sends the sums to the silos. Each silo subtracts its own counts and compares itself with the other silos. It
answers with two figures: the distance of its margins, and the distance of its dependence in each pair. Each figure has
the column of its maximum. The figures are sent in the silo's own slot of the sum, as in `exchange.py`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..graphs.structure import Structure, empty_structure
from ..statistics.count_tables import PAD, count, offsets
from ..statistics.declared_sums import require_counts
from ..statistics.moments import Table
from ..statistics.rows import Rows, cardinalities_of, open_rows
from .exchange import by_silo, no_figures, silo_slots

FIGURES = ("shift", "weights")
"""the figures of a silo, each sent with the index of its column"""
MAX_CELLS = 1 << 12
"""maximum number of cells of the table of a pair; pairs with larger tables are skipped"""


@dataclass(frozen=True)
class TableDiagnosis(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    own_figures: bool = True
    """whether silos compare themselves with the others in a second exchange, and send the figures of the comparison"""


@dataclass(frozen=True)
class Silo:
    """A silo's level codes, its index among the sorted silos, and the number of silos."""

    rows: Rows
    place: int
    silos: int


@dataclass(frozen=True)
class Broadcast:
    """The sets to count `[n_sets, 2]`: variables, then pairs; after the first exchange also their summed counts."""

    sets: NDArray[np.int16]
    counts: FloatArray


@dataclass(frozen=True)
class Server:
    """The server's state."""

    schema: Schema
    sets: NDArray[np.int16]
    counts: FloatArray
    """summed counts, the tables of the sets concatenated"""
    figures: FloatArray
    """the value and the column of each figure of each silo, in sorted order, `[silos, 2, 2]`; NaN for a lost silo"""


def start(schema: Schema, structure: Structure) -> Server:
    """The server's state before the exchange, for a learned `structure`."""
    levels = cardinalities_of(schema)
    joined = np.triu(structure.adjacency | structure.adjacency.T)
    pairs = [(i, j) for i, j in np.argwhere(joined) if levels[i] * levels[j] <= MAX_CELLS]
    singles = [(v, PAD) for v in range(len(levels))]
    sets = np.array([*singles, *pairs], np.int16)
    return Server(schema.in_order(), sets, np.empty(0), np.empty((0, len(FIGURES), 2)))


def build(settings: TableDiagnosis) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The two exchanges, which start from the state `start(...)`."""
    return sum_each_round(
        open_silo=open_silo,
        open_server=lambda schema: start(schema, empty_structure(schema.variables)),
        broadcast=lambda server: Broadcast(server.sets, server.counts),
        part=answer,
        aggregate=(
            aggregate if settings.own_figures else lambda server, replies: without_figures(aggregate(server, replies))
        ),
        converged=lambda server: len(server.figures) > 0,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=1 + settings.own_figures,
        needs_secure_sum=settings.masked,
    )


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with its rows."""
    return Silo(open_rows(table, schema, silo, rng), schema.silos.index(silo), len(schema.silos))


def answer(silo: Silo, request: Broadcast) -> NDArray[Any]:
    """The silo's counts, or its figures from the comparison with the other silos."""
    counts = count(silo.rows.columns, silo.rows.cardinalities, request.sets)
    if not len(request.counts):
        return counts
    figures = silo_slots(silo.silos, len(FIGURES))
    own = tables_of(counts.astype(np.float64), request.sets, silo.rows.cardinalities)
    rest = tables_of(request.counts - counts, request.sets, silo.rows.cardinalities)
    if rest[0].sum() > 0 and own[0].sum() > 0:
        d = len(silo.rows.cardinalities)
        shifts = [distance(one, other) for one, other in zip(own[:d], rest[:d], strict=True)]
        figures[silo.place, 0] = max(shifts), int(np.argmax(shifts))
        strays = [dependence(one, other) for one, other in zip(own[d:], rest[d:], strict=True)]
        if strays:
            figures[silo.place, 1] = max(strays), int(request.sets[d + int(np.argmax(strays)), 1])
    return figures.ravel()


def tables_of(counts: FloatArray, sets: NDArray[np.int16], levels: NDArray[np.int64]) -> list[FloatArray]:
    """The table of each set, `[levels of its variables]`."""
    shapes = [[int(levels[v]) for v in chosen if v != PAD] for chosen in sets]
    parts = np.split(counts, offsets(sets, levels)[1:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def distance(own: FloatArray, rest: FloatArray) -> float:
    """The total variation distance between two margins, minus its approximate expectation for equal margins."""
    n, m = own.sum(), rest.sum()
    if not (n and m):
        return 0.0
    p, q, both = own / n, rest / m, (own + rest) / (n + m)
    chance = np.sqrt(2 / np.pi * both * (1 - both) * (1 / n + 1 / m))
    return float(0.5 * (np.abs(p - q).sum() - chance.sum()))


def dependence(own: FloatArray, rest: FloatArray) -> float:
    """The Kullback-Leibler divergence per row of a pair's dependence.

    It is the divergence of the pair's table, minus the divergences of its margins and the value expected by chance. So
    it is about zero or less if only the margins differ. The counts of the other silos are smoothed by one row that is
    spread over all cells.
    """
    n, m = own.sum(), rest.sum()
    if not (n and m):
        return 0.0
    p, q = own / n, (rest + 1 / rest.size) / (m + 1)
    margins = _divergence(p.sum(axis=0), q.sum(axis=0)) + _divergence(p.sum(axis=1), q.sum(axis=1))
    both = own + rest
    freedom = ((both.sum(axis=0) > 0).sum() - 1) * ((both.sum(axis=1) > 0).sum() - 1)
    return float(_divergence(p, q) - margins - 0.5 * freedom * (1 / n + 1 / m))


def _divergence(p: FloatArray, q: FloatArray) -> float:
    occurs = p > 0
    return float((p[occurs] * np.log(p[occurs] / q[occurs])).sum())


def without_figures(server: Server) -> Server:
    """The final state if no silo compares itself with the others."""
    return replace(server, figures=no_figures(len(server.schema.silos), len(FIGURES)))


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the counts, or with the silos' figures; raises `BadInput` for impossible counts."""
    schema = server.schema
    if not len(server.counts):
        counts = np.rint(replies.total).astype(np.float64)
        begins = offsets(server.sets, cardinalities_of(schema))
        require_counts(counts, begins, sum(schema.rows[silo] for silo in replies.silos))
        return replace(server, counts=counts)
    return replace(server, figures=by_silo(replies.total, replies, schema))
