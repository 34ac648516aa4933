"""FedGES: silos continue their search from the fused graph, and the server fuses their graphs.

Source: Torrijos et al. 2024, Algorithm 1.

What leaves a silo: the arcs of its DAG, each round. What the server needs: the graph of each silo, for the fusion. A
round costs a silo one GES with at most `limit` insertions, and the server one fusion.

The union of many noisy graphs is unstable: it oscillates, or grows far beyond any silo's graph, and silos that start
from it cannot remove the surplus edges. Therefore a fusion that is too far from the silos' graphs is replaced by the
most central of these graphs. A fusion is too far if the mean distance of its moral graph from the silos' moral graphs
exceeds a share of the mean number of arcs of the silos' graphs. The limit for the result is stricter than the limit in
the rounds, where silos may have found different edges first. This rule is ours.

By default, a silo starts its search from the fusion of the global graph with its own last graph. With `client =
"replace"`, which the paper also permits, a silo starts from the global graph. Then the silos may insert different edges
in a round, so that no edge is in enough graphs, the global graph does not change, and the run ends too early. For
example, with the network PIGS, 5 silos and a quota of one half, the result has 5 % of the true edges.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import Schema
from ..core.settings import Count, NonNegative, Quota
from ..graphs.dag import moral_graph
from ..graphs.imposed_knowledge import impose_knowledge
from ..graphs.structure import Structure
from ..published import presets_of
from ..statistics.rows import Rows, cardinalities_of, open_rows
from .arcs import Arcs, arcs_of, dag_of, dags_of
from .families import Families, no_families
from .fusion import fuse
from .ges import CHICKERING, WARY, finish, search_from
from .knowledge_constraints import consistent_member
from .procedures import scores_of
from .settings import FusionSettings


@dataclass(frozen=True)
class FedGes(FusionSettings):
    """Settings of `fed-ges`; the defaults are the paper's where it states them."""

    rounds: Count = 100
    """maxIt: largest number of rounds"""
    limit: Count = 10
    """l: most insertions of a silo in a round; deletions are not limited"""
    client: Literal["replace", "fuse"] = "fuse"
    """start of a silo's search; replace: the global graph; fuse: its fusion with the silo's own graph (Algorithm 1)"""
    client_quota: Quota = 0.5
    """quota of that fusion of two graphs: any quota below 1 makes it their union"""
    convergence: Literal["repeated", "unchanged"] = "repeated"
    """stop when every silo's graph equals its last one (unchanged), or any earlier one (repeated)"""
    drift: NonNegative = 1.0
    """maximum distance of a fusion from the silos' graphs, as a share of their edges; a fusion beyond it is replaced"""
    last_drift: NonNegative = 0.4
    """the same for the last fusion; 1000 for both accepts any fusion, as in Torrijos et al. 2024"""


PRESETS = presets_of("fed-ges", FedGes)
"""UNION; with quota = .25 and .5 it is C25 and C50"""


@dataclass(frozen=True)
class Silo:
    """A silo's rows, its own DAG, and its computed scores, which depend only on its rows."""

    variables: tuple[str, ...]
    rows: Rows
    dag: NDArray[np.bool_]
    families: Families
    prior: Prior
    """background knowledge of the graph"""


@dataclass(frozen=True)
class Server:
    """The server's state: the last graphs of the silos, their fusion, and digests of all earlier graphs."""

    variables: tuple[str, ...]
    own: NDArray[np.bool_]
    """the silos' DAGs, `[k, d, d]`"""
    fused: NDArray[np.bool_]
    """the global DAG, `[d, d]`"""
    seen: tuple[tuple[str, ...], ...]
    """digests of each silo's graphs, in the order of the rounds"""
    news: bool
    """whether any silo sent a new graph in the last round"""


def build(settings: FedGes) -> FederatedAlgorithm[Server, Silo, Arcs, Arcs]:
    """FedGES."""
    plan = WARY if settings.insertion == "wary" else CHICKERING

    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        rows, prior = open_rows(table, schema, silo, rng), schema.knowledge.prior(schema.variables)
        return Silo(schema.variables, rows, np.zeros((len(table.T),) * 2, np.bool_), no_families(), prior)

    def open_server(schema: Schema) -> Server:
        cardinalities_of(schema)  # raises BadInput for time series
        d = len(schema.variables)
        empty = np.zeros((d, d), np.bool_)
        return Server(schema.variables, np.empty((0, d, d), np.bool_), empty, ((),) * len(schema.rows), True)

    def local_solve(silo: Silo, message: Arcs) -> tuple[Silo, Arcs]:
        start = dag_of(message, len(silo.variables))
        if settings.client == "fuse":
            start = fuse(np.stack([silo.dag, start]), settings.client_quota, silo.variables)
        constrained = impose_knowledge(
            Structure(silo.variables, start.astype(np.float64)), silo.prior.required, silo.prior.possible
        )
        begin = search_from(constrained.adjacency, plan, settings.limit, silo.prior)
        graph, families = finish(begin, silo.families, scores_of(silo.rows, settings))
        dag = consistent_member(graph, silo.prior)
        assert dag is not None
        return replace(silo, dag=dag, families=families), arcs_of(dag)

    def structure(server: Server) -> Structure:
        dag = consensus_dag(server.own, server.fused, settings.last_drift) if len(server.own) else server.fused
        return Structure(server.variables, dag.astype(np.float64))

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: arcs_of(server.fused),
        local_solve=local_solve,
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        converged=lambda server: not server.news,
        structure=structure,
        server_type=Server,
        broadcast_type=Arcs,
        reply_type=Arcs,
        max_rounds=settings.rounds,
        measures=measures,
        cost=lambda message: message.arcs.nbytes,
        persisted_state=("dag",),
    )


def aggregate(server: Server, replies: Replies[Arcs], settings: FedGes) -> Server:
    """The server's state with the fusion of the silos' graphs; `news` is whether any of these graphs is new."""
    own = dags_of(replies.each, len(server.variables))
    digests = [blake2b(np.packbits(dag).tobytes(), digest_size=16).hexdigest() for dag in own]
    lookback = 1 if settings.convergence == "unchanged" else max(map(len, server.seen))
    news = any(digest not in seen[len(seen) - lookback :] for digest, seen in zip(digests, server.seen, strict=True))
    return Server(
        variables=server.variables,
        own=own,
        fused=consensus_dag(own, fuse(own, settings.quota, server.variables), settings.drift),
        seen=tuple((*seen, digest) for digest, seen in zip(digests, server.seen, strict=True)),
        news=news,
    )


def consensus_dag(own: NDArray[np.bool_], fused: NDArray[np.bool_], drift: float) -> NDArray[np.bool_]:
    """The DAG `fused`, or the most central of the silos' DAGs `own` `[k, d, d]` if `fused` is too far from them.

    `drift` is the maximum mean distance, as a share of the mean number of arcs in `own`.
    """
    morals = [moral_graph(dag) for dag in own]
    if mean_distance(fused, morals) <= drift * own.sum() / len(own):
        return fused
    best: NDArray[np.bool_] = own[np.argmin([mean_distance(dag, morals) for dag in own])]
    return best


def measures(server: Server) -> dict[str, float]:
    """The number of arcs of the fusion, and the mean distance of its moral graph from those of the silos (SMHD)."""
    distance = mean_distance(server.fused, [moral_graph(dag) for dag in server.own])
    return {"edges": float(server.fused.sum()), "distance_to_silos": distance}


def mean_distance(dag: NDArray[np.bool_], morals: list[NDArray[np.bool_]]) -> float:
    """The mean Hamming distance between the moral graph of `dag` and `morals`."""
    own = moral_graph(dag)
    return float(np.mean([(own ^ moral).sum() / 2 for moral in morals]))
