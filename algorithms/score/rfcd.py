"""RFCD: the graph with the least worst-case regret over the silos.

Source: Mian, Kaltenpoth, Kamp 2022; Wang, Ma & Wang 2023, §5.

A silo scores graphs on its own rows. Its regret of a graph is the score of the graph that GES finds in these rows,
minus the score of the given graph. The server starts from the graph of the required edges, which is empty without
background knowledge. In each round it sends the current graph, and each silo replies with its regret and the gain of
each change of one edge on its rows. The server makes the insertion, deletion or reversal that gives the smallest
maximal regret over the silos. It stops when no change reduces this maximum.

What leaves a silo: its regret of the current graph and the gain of each change, once for each change of the graph. What
the server needs: the reply of each silo, because it computes a maximum, for which a sum is not enough.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import NO_KNOWLEDGE, Knowledge, Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..core.settings import Count
from ..errors import BadInput
from ..graphs.cpdag import cpdag, member_of
from ..graphs.dag import is_acyclic, transitive_closure
from ..graphs.structure import Structure
from ..statistics.rows import Rows, cardinalities_of, open_rows
from .families import Batch
from .procedures import ges_of, scores_of, search
from .settings import SearchSettings

MIN_REDUCTION = 1e-9
"""reductions of the regret up to this value are rounding errors"""


@dataclass(frozen=True)
class Rfcd(SearchSettings):
    """Settings of `rfcd`."""

    rounds: Count = 1000
    """largest number of exchanges"""


@dataclass(frozen=True)
class Silo:
    """A silo's rows, and the score of its own GES graph on them."""

    rows: Rows
    best: float


@dataclass(frozen=True)
class Proposal:
    """The current graph, a DAG `[d, d]`; the silos evaluate its neighbours."""

    dag: NDArray[np.bool_]


@dataclass(frozen=True)
class Judgement:
    """A silo's reply."""

    regret: float
    """regret of the current graph"""
    gains: FloatArray
    """`[d, d]`: the gain of inserting i → j, or, if the graph has this edge, of deleting it"""


@dataclass(frozen=True)
class Server:
    """The server's state."""

    variables: tuple[str, ...]
    dag: NDArray[np.bool_]
    worst: float
    """the greatest regret of the graph that the silos evaluated last; ∞ before the first reply"""
    done: bool = False
    knowledge: Knowledge = NO_KNOWLEDGE
    """background knowledge of the graph"""


def build(settings: Rfcd) -> FederatedAlgorithm[Server, Silo, Proposal, Judgement]:
    """RFCD."""

    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        rows, d = open_rows(table, schema, silo, rng), len(schema.variables)
        prior = schema.knowledge.prior(schema.variables)
        own = member_of(search(ges_of(settings), d, settings, scores_of(rows, settings, settings.most_cells), prior))
        return Silo(rows, float(_toggle_scores(rows, own, settings)[1].sum()))

    def open_server(schema: Schema) -> Server:
        cardinalities_of(schema)  # raises BadInput for time series
        knowledge = schema.knowledge
        return Server(schema.variables, knowledge.required_matrix(schema.variables), np.inf, knowledge=knowledge)

    def local_solve(silo: Silo, proposal: Proposal) -> tuple[Silo, Judgement]:
        d = len(silo.rows.cardinalities)
        if proposal.dag.shape != (d, d) or not is_acyclic(proposal.dag):
            raise BadInput(f"the current graph must be a DAG of {d} variables")
        scores, now = _toggle_scores(silo.rows, proposal.dag, settings)
        return silo, Judgement(silo.best - float(now.sum()), scores - now)

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Proposal(server.dag),
        local_solve=local_solve,
        aggregate=aggregate,
        converged=lambda server: server.done,
        structure=lambda server: Structure(server.variables, cpdag(server.dag).astype(np.float64), "cpdag"),
        server_type=Server,
        broadcast_type=Proposal,
        reply_type=Judgement,
        max_rounds=settings.rounds,
        tolerates_dropout=True,
        measures=lambda server: {"edges": float(server.dag.sum()), "worst_regret": server.worst},
    )


def aggregate(server: Server, replies: Replies[Judgement]) -> Server:
    """The state after the change with the smallest maximal regret, or done if no change reduces the regret."""
    changes, graphs = consistent_changes(server.knowledge.prior(server.variables), *neighbours(server.dag))
    regrets = np.array([one.regret for one in replies.each])
    server = replace(server, worst=float(regrets.max()))
    if not len(changes):
        return replace(server, done=True)
    gains = np.array([changes @ one.gains.ravel() for one in replies.each])
    worst = (regrets[:, None] - gains).max(axis=0)
    chosen = int(np.argmin(worst))
    if worst[chosen] >= server.worst - MIN_REDUCTION:
        return replace(server, done=True)
    return replace(server, dag=graphs[chosen])


def neighbours(dag: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """All DAGs that differ from `dag` by one edge: their changed entries `[n, d * d]`, and the graphs `[n, d, d]`.

    An insertion or a deletion changes one entry, a reversal two.
    """
    d = len(dag)
    reaches = transitive_closure(dag)
    changes = []
    for i, j in np.argwhere(~np.eye(d, dtype=np.bool_)).tolist():
        one = np.zeros((d, d), np.bool_)
        one[i, j] = True
        if dag[i, j] or not reaches[j, i]:
            changes.append(one.copy())
        onward = dag[i] & reaches[:, j]
        onward[j] = False
        if dag[i, j] and not onward.any():
            one[j, i] = True
            changes.append(one)
    stacked = np.array(changes, np.bool_).reshape(-1, d, d)
    return stacked.reshape(-1, d * d), stacked ^ dag


def consistent_changes(
    prior: Prior, changes: NDArray[np.bool_], graphs: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of `changes` `[n, d * d]` and `graphs` `[n, d, d]`, those of the graphs that agree with `prior`."""
    agree = ~((graphs & ~prior.possible) | (prior.required & ~graphs)).any(axis=(1, 2))
    return changes[agree], graphs[agree]


def _toggle_scores(rows: Rows, dag: NDArray[np.bool_], settings: Rfcd) -> tuple[FloatArray, FloatArray]:
    """The scores of each variable j if i is added to or removed from its parents, `[d, d]`, and its scores now, `[d]`.

    The diagonal of the first array has the scores now, too.
    """
    d = len(dag)
    toggled = np.repeat(dag[:, :, None], d, axis=2)  # [parent, child, which parent is toggled]
    v = np.arange(d)
    toggled[v, :, v] ^= True
    families = [(j, np.flatnonzero(dag[:, j])) for j in range(d)]
    families += [(j, np.flatnonzero(toggled[:, j, i])) for i in range(d) for j in range(d) if i != j]
    sizes = np.array([1 + len(parents) for _, parents in families])
    members = np.concatenate([np.r_[child, parents] for child, parents in families]).astype(np.uint16)
    scores = scores_of(rows, settings, settings.most_cells)(Batch(np.r_[0, np.cumsum(sizes)], members))
    scores_by_edge = np.zeros((d, d))
    scores_by_edge[~np.eye(d, dtype=np.bool_)] = scores[d:]
    now = scores[:d]
    np.fill_diagonal(scores_by_edge, now)
    return scores_by_edge, now
