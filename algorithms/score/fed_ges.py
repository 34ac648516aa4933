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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import Schema
from ..core.settings import Count, NonNegative, Quota
from ..errors import BadInput
from ..graphs.cpdag import impose_knowledge
from ..graphs.dag import is_acyclic, moral_graph
from ..graphs.kernels import add_descendants
from ..graphs.structure import Structure
from ..statistics.rows import Rows, cardinalities_of, open_rows
from .cliques import NO_VARIABLE
from .discrete import consistent_member
from .families import Families, FusionSettings, no_families
from .ges import CHICKERING, WARY, finish, search_from
from .procedures import scores_of

# Structural fusion of DAGs over the same variables (Puerta, Aledo, Gámez & Laborda 2021; Torrijos et al. 2024, §2.3).
#
# First, the greedy heuristic order (GHO) finds a common order σ of the variables, from the last one to the first. Then
# each DAG is replaced by its minimal directed independence map for σ. The consensus has the arcs that enough of these
# maps share. All maps agree with σ, so the consensus is acyclic. The independences of the union of all maps hold in
# every one of the DAGs.


def fuse(dags: NDArray[np.bool_], quota: float, variables: Sequence[str]) -> NDArray[np.bool_]:
    """The consensus of `dags` `[k, d, d]`: the arcs in at least max(1, ⌊quota·k⌋) of their independence maps.

    A quota of 0 is the UNION of Torrijos et al. 2024, §4.1; .25 and .5 are their C25 and C50. The names in `variables`
    break ties in the common order.
    """
    names = np.argsort(np.argsort(np.array(variables)))
    order = greedy_order(dags, names)
    votes = np.sum([independence_map(dag, order) for dag in dags], axis=0)
    return np.asarray(votes >= max(1, int(quota * len(dags))))


@njit(cache=True)
def greedy_order(dags, names):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The order σ of `dags` `[k, d, d]` found by the greedy heuristic GHO, ancestors first.

    Each step makes the variable with the least cost a sink in every DAG, and removes it. Its cost in a DAG is its
    number of children minus one, plus the number of arcs that must be added to reverse the arcs to the children. Costs
    are summed over the DAGs. `names` `[d]` are the ranks of the variables' names; of equal costs, the lower rank is
    taken. Only costs near a removed sink are computed again.
    """
    rest = dags.copy()
    k, d, _ = rest.shape
    cost = np.zeros((k, d), np.int64)
    stale = np.ones((k, d), np.bool_)
    remaining = np.ones(d, np.bool_)
    order, by_name = np.empty(d, np.int64), np.empty(d, np.int64)
    for v in range(d):
        by_name[names[v]] = v
    for place in range(d - 1, -1, -1):
        best, least = int(NO_VARIABLE), 0
        for v in range(d):
            if not remaining[v]:
                continue
            total = 0
            for g in range(k):
                if stale[g, v]:
                    cost[g, v] = _sink_cost(rest[g], v)
                    stale[g, v] = False
                total += cost[g, v]
            if best < 0 or total < least or (total == least and names[v] < names[best]):
                best, least = v, total
        order[place] = best
        remaining[best] = False
        for g in range(k):
            _remove_sink(rest[g], best, by_name, stale[g])
    return order


@njit(cache=True)
def _sink_cost(dag, v):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The number of children of v minus one, plus the number of arcs to add until the arcs to its children are covered.

    An arc v → c is covered if c has the same parents as v, and v itself.
    """
    d = len(dag)
    cost = -1
    married = np.zeros(d, np.bool_)
    for child in range(d):
        if not dag[v, child]:
            continue
        cost += 1
        for u in range(d):
            if dag[u, v] and not dag[u, child]:
                cost += 1
            elif u != v and dag[u, child] and not dag[u, v] and not dag[v, u] and not married[u]:
                married[u] = True
                cost += 1
    return cost


@njit(cache=True)
def _remove_sink(dag, v, by_name, stale):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Make v a sink of `dag` and remove it: the arcs to its children are covered and reversed, the nearest child first.

    Before an arc v → c is reversed, c gets the parents of v, and v those of c. Children whose arcs were reversed before
    are now parents of v.
    """
    d = len(dag)
    near = np.zeros(d, np.bool_)
    for child in _nearest_first(dag, v, by_name):
        for u in range(d):
            if u != v and u != child and (dag[u, v] or dag[u, child]):
                dag[u, v] = dag[u, child] = near[u] = True
        dag[v, child], dag[child, v], near[child] = False, True, True
    for u in range(d):
        near[u] = near[u] or dag[u, v]
        dag[u, v] = False
    for u in range(d):
        if near[u]:
            stale[u] = True
            for parent in range(d):
                if dag[parent, u]:
                    stale[parent] = True


@njit(cache=True)
def _nearest_first(dag, v, by_name):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The children of v in topological order; where it leaves a choice, in the order of the names."""
    d = len(dag)
    children, n = np.empty(d, np.int64), 0
    for u in by_name:
        if dag[v, u]:
            children[n] = u
            n += 1
    below = np.zeros((n, d), np.bool_)
    for i in range(n):
        add_descendants(dag, children[i], below[i])
    ordered, placed = np.empty(n, np.int64), np.zeros(n, np.bool_)
    for place in range(n):
        for i in range(n):
            free = not placed[i]
            for j in range(n):
                if j != i and not placed[j] and below[j, children[i]]:
                    free = False
            if free:
                ordered[place], placed[i] = children[i], True
                break
    return ordered


@njit(cache=True)
def independence_map(dag, order):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The minimal directed independence map of `dag` for `order`.

    It is unique. (Reversing covered arcs one by one would give a DAG with all arcs of this map, but sometimes more.)
    The parents of v are the variables w before v that the other variables before v do not d-separate from v (Peña
    2011). To find them, take the moral graph of v, all variables before v, and their ancestors. The parents are the
    variables before v that a path from v reaches through no other variable before v (Lauritzen et al. 1990).
    """
    d = len(dag)
    result = np.zeros((d, d), np.bool_)
    before = np.zeros(d, np.bool_)
    ancestor = np.zeros(d, np.bool_)
    stack = np.empty(d, np.int64)
    for v in order:
        add_descendants(dag.T, v, ancestor)
        visited = np.zeros(d, np.bool_)
        visited[v], stack[0], n = True, v, 1
        while n > 0:
            n -= 1
            u = stack[n]
            for w in range(d):
                if ancestor[w] and not visited[w] and _married(dag, ancestor, u, w):
                    visited[w] = True
                    if before[w]:
                        result[w, v] = True
                    else:
                        stack[n] = w
                        n += 1
        before[v] = True
    return result


@njit(cache=True)
def _married(dag, ancestor, u, w):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether u and w are joined in the moral graph of the `ancestor`s."""
    if dag[u, w] or dag[w, u]:
        return True
    for child in range(len(dag)):  # noqa: SIM110 (compiled)
        if ancestor[child] and dag[u, child] and dag[w, child]:
            return True
    return False


# Messages of DAGs: the list of a DAG's arcs.


@dataclass(frozen=True)
class Arcs:
    """The arcs of a DAG, `[n_arcs, 2]`, each from the first to the second variable of its pair."""

    arcs: NDArray[np.uint16]


def arcs_of(dag: NDArray[np.bool_]) -> Arcs:
    """The arcs of `dag` `[n_variables, n_variables]` in ascending order."""
    return Arcs(np.argwhere(dag).astype(np.uint16))


def dag_of(message: Arcs, d: int) -> NDArray[np.bool_]:
    """The adjacency `[d, d]` of the arcs in `message`.

    Raises `BadInput` unless they are the arcs of a DAG, because compiled code relies on it, and another party sends
    them.
    """
    dag = np.zeros((d, d), np.bool_)
    if message.arcs.ndim != 2 or message.arcs.shape[1] != 2 or (message.arcs >= d).any():
        raise BadInput(f"a message has arcs that are not pairs of {d} variables")
    dag[message.arcs[:, 0], message.arcs[:, 1]] = True
    if not is_acyclic(dag):
        raise BadInput("a message has arcs that form a cycle")
    return dag


def dags_of(messages: Sequence[Arcs], d: int) -> NDArray[np.bool_]:
    """The adjacencies of several messages, `[k, d, d]`."""
    return np.stack([dag_of(message, d) for message in messages])


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


PRESETS = {"paper": FedGes(quota=0.0, drift=1000.0, last_drift=1000.0)}
"""UNION of Torrijos et al. 2024, §4.1; quota = .25 and .5 are C25 and C50"""


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
