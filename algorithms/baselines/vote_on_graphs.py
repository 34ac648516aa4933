"""PC-Voting and FCI-Voting: each silo learns a graph from its own rows, and the majority decides edge by edge.

Source: Wang, Ma & Wang 2023, §5.

What leaves a silo: the end marks of its own graph, once. The server needs only sums: for each end of each pair, the
numbers of silos with a tail, an arrow or a circle there.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..constraint.evidence import exact_evidence
from ..constraint.federated import federated_search
from ..constraint.orientation import FCI, PC, ConstraintMethod
from ..constraint.settings import ConstraintSettings
from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Replies, Summand, learn_alone, sum_each_round
from ..core.schema import Schema
from ..graphs.pag import ARROW, CIRCLE, NO_EDGE, TAIL, Marks
from ..graphs.structure import Structure
from ..statistics.packing import Packing, packing


@dataclass(frozen=True)
class Poll:
    """The server's state: how many of `n_silos` silos have a tail, an arrow, a circle at j, `[3, d, d]`."""

    variables: tuple[str, ...]
    votes: NDArray[Any]
    n_silos: int


def pc_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Poll, NDArray[Any], OnceBroadcast, Summand]:
    """The vote on the silos' CPDAGs."""
    return _voting(settings, PC)


def fci_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Poll, NDArray[Any], OnceBroadcast, Summand]:
    """The vote on the silos' PAGs."""
    return _voting(settings, FCI)


def _voting(
    settings: ConstraintSettings, method: ConstraintMethod
) -> FederatedAlgorithm[Poll, NDArray[Any], OnceBroadcast, Summand]:
    local_search = federated_search(settings, method, lambda kind: exact_evidence(settings, kind))

    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> NDArray[Any]:
        own = Schema(schema.variables, {silo: len(table)}, schema.kind, schema.levels, knowledge=schema.knowledge)
        marks = as_marks(learn_alone(local_search, own, table))
        tails, arrows, circles = (np.asarray(marks == mark, np.int8) for mark in (TAIL, ARROW, CIRCLE))
        return ballot(len(marks)).pack(tails=tails, arrows=arrows, circles=circles)

    def aggregate(server: Poll, replies: Replies[Summand]) -> Poll:
        votes = ballot(len(server.variables)).unpack(replies.total)
        return Poll(server.variables, np.stack([votes["tails"], votes["arrows"], votes["circles"]]), len(replies.silos))

    def open_server(schema: Schema) -> Poll:
        return Poll(schema.variables, np.zeros((3, *(len(schema.variables),) * 2)), 0)

    return sum_each_round(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: OnceBroadcast(),
        part=lambda own, request: own,
        aggregate=aggregate,
        structure=lambda server: elect(server, method.kind),
        server_type=Poll,
        broadcast_type=OnceBroadcast,
        whole_numbers=True,
        greatest_total=lambda schema, request: len(schema.rows),
    )


def ballot(d: int) -> Packing:
    """The packing of a silo's end marks: 1 where an edge i, j has the mark at j, `[d, d]` each."""
    return packing(tails=(d, d), arrows=(d, d), circles=(d, d))


def as_marks(structure: Structure) -> Marks:
    """The end marks of a CPDAG or a PAG, `[d, d]`; an undirected edge has two tails."""
    if structure.kind == "pag":
        return structure.marks
    edges = structure.adjacency
    return np.where(edges & ~edges.T, ARROW, np.where(edges | edges.T, TAIL, NO_EDGE)).astype(np.int8)


def elect(poll: Poll, kind: Literal["cpdag", "pag"]) -> Structure:
    """The pairs that more than half of the silos join, with the marks on which most of these silos agree.

    If no mark has a majority among the silos that join the pair, the mark is a circle, or a tail in a CPDAG. The result
    need not be the graph of any class. Scores are the shares of silos that join a pair.
    """
    # A silo with an edge i, j has exactly one mark at j, so the sum of the votes is the number of silos with the edge.
    adjacent = poll.votes.sum(axis=0)
    majority = 2 * poll.votes > adjacent
    marks = np.where(majority[1], ARROW, np.where(majority[0] | (kind == "cpdag"), TAIL, CIRCLE))
    marks = np.where(2 * adjacent > poll.n_silos, marks, NO_EDGE)
    if kind == "cpdag":
        # In the adjacency of a CPDAG, i → j has no entry [j, i]: the tail at i is dropped.
        marks = np.where((marks.T == ARROW) & (marks != ARROW), NO_EDGE, marks)
    return Structure(
        poll.variables, (marks if kind == "pag" else marks != NO_EDGE) * 1.0, kind, adjacent / max(poll.n_silos, 1)
    )
