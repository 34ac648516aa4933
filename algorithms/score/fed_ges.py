"""FedGES: silos search on from the fused graph, the server fuses what they find (004 Algorithm 1).

What leaves a silo: the arcs of its DAG, each round. What the server needs: every one of them, for the fusion. A round
costs a silo one GES with at most `limit` insertions, and the server one fusion.

A union of many noisy graphs can drift: it swings between graphs, or settles on one that is far from what every silo
holds. So the server remembers what it fused, and its structure is the last fusion, unless an earlier one is much nearer
to what the silos hold at the end: then that one, the best agreed.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..admm.settings import require
from ..constraint.federated import Silo as Rows
from ..graphs.skeleton import moral_graph
from ..graphs.structure import Structure
from ..protocol import FederatedAlgorithm, Replies, Schema
from .arcs import Arcs, arcs_of, dag_of, members
from .equivalence import member_of
from .families import Families, no_families
from .fusion import fuse
from .ges import CHICKERING, WARY, finish, search_from
from .rows import open_rows, refuse_time_series, scores_of
from .settings import FusionSettings

MUCH_NEARER = 0.6
"""an earlier fusion is kept if its distance to the silos' graphs is below this share of the last one's"""


@dataclass(frozen=True)
class FedGes(FusionSettings):
    """Settings of `fed-ges`; the defaults are the paper's where it names one."""

    limit: int = 10
    """l: insertions a silo makes in a round, at most; deletions are free"""
    client: Literal["replace", "union", "intersection"] = "replace"
    """what a silo starts from: the global graph, or its fusion with the silo's own"""
    convergence: Literal["repeated", "unchanged"] = "repeated"
    """stop when no silo's graph differs from its last one (unchanged), or from all that it had before (repeated)"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.limit >= 1, "limit", self.limit, "1 or more")


@dataclass(frozen=True)
class Silo:
    """A silo's rows, its own DAG, and the scores it has computed: a memory of its rows, in any round the same."""

    variables: tuple[str, ...]
    rows: Rows
    dag: NDArray[np.bool_]
    families: Families


@dataclass(frozen=True)
class Server:
    """The server's state: what the silos sent last, every fusion so far, and digests of all they ever sent."""

    variables: tuple[str, ...]
    own: NDArray[np.bool_]
    """the silos' DAGs, `[k, d, d]`"""
    fused: NDArray[np.uint8]
    """the bits of every fusion, `[rounds, ⌈d²/8⌉]`"""
    seen: tuple[tuple[str, ...], ...]
    """of each silo, digests of its graphs, the last one last"""
    news: bool
    """whether the last round went on, by the convergence check"""


def build(settings: FedGes) -> FederatedAlgorithm[Server, Silo, Arcs, Arcs]:
    """Return FedGES."""
    plan = WARY if settings.insertion == "wary" else CHICKERING

    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        d = len(schema.variables)
        return Silo(schema.variables, open_rows(table, schema, silo), np.zeros((d, d), np.bool_), no_families())

    def open_server(schema: Schema) -> Server:
        refuse_time_series(schema)
        d = len(schema.variables)
        nothing = np.empty((0, -(-d * d // 8)), np.uint8)
        return Server(schema.variables, np.empty((0, d, d), np.bool_), nothing, ((),) * len(schema.rows), True)

    def local_solve(silo: Silo, message: Arcs) -> tuple[Silo, Arcs]:
        start = dag_of(message, len(silo.variables))
        if settings.client != "replace":
            quota = 0.0 if settings.client == "union" else 1.0
            start = fuse(np.stack([silo.dag, start]), quota, silo.variables)
        begin = search_from(start, plan, settings.limit)
        graph, families = finish(begin, silo.families, scores_of(silo.rows, settings))
        dag = member_of(graph)
        return replace(silo, dag=dag, families=families), arcs_of(dag)

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: arcs_of(last_fused(server)),
        local_solve=local_solve,
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        dual_update=lambda server: server,
        converged=lambda server: not server.news,
        structure=structure,
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Arcs,
        reply_type=Arcs,
        max_rounds=settings.rounds,
        measures=measures,
        cost=lambda message: message.arcs.nbytes,
        kept=("dag",),
    )


def aggregate(server: Server, replies: Replies[Arcs], settings: FedGes) -> Server:
    """Return the state with the silos' graphs fused, and whether any of them is news."""
    d = len(server.variables)
    own = members(replies.each, d)
    digests = [blake2b(np.packbits(dag).tobytes(), digest_size=16).hexdigest() for dag in own]
    back = 1 if settings.convergence == "unchanged" else len(server.fused)
    news = any(digest not in seen[len(seen) - back :] for digest, seen in zip(digests, server.seen, strict=True))
    fused = np.packbits(fuse(own, settings.quota, server.variables))
    return replace(
        server,
        own=own,
        fused=np.concatenate([server.fused, fused[None]]),
        seen=tuple((*seen, digest) for digest, seen in zip(digests, server.seen, strict=True)),
        news=news,
    )


def last_fused(server: Server) -> NDArray[np.bool_]:
    """Return the fusion of the last round; the empty graph before the first."""
    d = len(server.variables)
    return _unpacked(server.fused[-1], d) if len(server.fused) else np.zeros((d, d), np.bool_)


def structure(server: Server) -> Structure:
    """Return the last fusion, or the one best agreed with what the silos hold if that is much nearer to them."""
    d = len(server.variables)
    graphs = [_unpacked(bits, d) for bits in server.fused]
    morals = [moral_graph(dag) for dag in server.own]
    apart = np.array([_distance(graph, morals) for graph in graphs])
    best = int(len(apart) - 1 - np.argmin(apart[::-1]))
    chosen = best if apart[best] < MUCH_NEARER * apart[-1] else -1
    return Structure(server.variables, graphs[chosen].astype(np.float64))


def measures(server: Server) -> dict[str, float]:
    """Return how many arcs the fusion has, and how far it is from the silos' graphs (mean SMHD)."""
    last = last_fused(server)
    apart = _distance(last, [moral_graph(dag) for dag in server.own])
    return {"edges": float(last.sum()), "distance_to_silos": apart}


def _distance(dag: NDArray[np.bool_], morals: list[NDArray[np.bool_]]) -> float:
    """Return the mean Hamming distance between the moral graph of `dag` and `morals`."""
    own = moral_graph(dag)
    return float(np.mean([(own ^ moral).sum() / 2 for moral in morals]))


def _unpacked(bits: NDArray[np.uint8], d: int) -> NDArray[np.bool_]:
    return np.unpackbits(bits, count=d * d).reshape(d, d).astype(np.bool_)
