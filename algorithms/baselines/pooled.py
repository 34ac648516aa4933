"""Pooled baselines, on one silo with all rows, and GES-Union.

`pc` and `fci` are the searches of FedPC and FedFCI on one silo with all rows. `ges` and `boss` also run on one silo
with all rows. `ges-union` is the one-shot baseline of Torrijos et al. 2024 §4.1: GES until convergence in each silo,
and one fusion of the silos' graphs. There, the arcs of a silo's graph leave the silo, once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraint.evidence import exact_evidence
from ..constraint.federated import Server as ConstraintServer
from ..constraint.federated import federated_search
from ..constraint.orientation import FCI, PC
from ..constraint.settings import ConstraintSettings
from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Replies, Summand, single_reply
from ..core.schema import Schema
from ..core.settings import Quota
from ..graphs.cpdag import cpdag, member_of
from ..graphs.structure import Structure
from ..score.arcs import Arcs, arcs_of, dags_of
from ..score.families import no_families
from ..score.fusion import fuse
from ..score.ges import CHICKERING, WARY, finish, search_from
from ..score.knowledge_constraints import consistent_member
from ..score.procedures import (
    BOSS,
    ScoreSearch,
    configuration_scores,
    ges_of,
    open_search_rows,
    refuse_wide,
    scores_of,
    search,
    search_blocks,
    search_moments,
)
from ..score.settings import FusionSettings, SearchSettings
from ..statistics.coding import blocks_of, coding_of
from ..statistics.rows import MixedRows, Query, Rows, cardinalities_of, open_rows


@dataclass(frozen=True)
class GesUnion(FusionSettings):
    """Settings of `ges-union`."""

    quota: Quota = 0.0


@dataclass(frozen=True)
class Server:
    """The graphs that the silos sent."""

    variables: tuple[str, ...]
    graphs: NDArray[np.bool_]


def pooled_ges(settings: SearchSettings) -> FederatedAlgorithm[Server, Arcs, OnceBroadcast, Arcs]:
    """GES on all rows in one place."""
    return _pooled(settings, ges_of(settings))


def pooled_boss(settings: SearchSettings) -> FederatedAlgorithm[Server, Arcs, OnceBroadcast, Arcs]:
    """BOSS on all rows in one place."""
    return _pooled(settings, BOSS)


def _pooled(
    settings: SearchSettings, procedure: ScoreSearch[Any]
) -> FederatedAlgorithm[Server, Arcs, OnceBroadcast, Arcs]:
    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Arcs:
        rows, d = open_search_rows(table, schema, silo, settings, rng), len(schema.variables)
        prior = schema.knowledge.prior(schema.variables)
        if isinstance(rows, MixedRows):
            scores = configuration_scores(rows, settings.most_cells)
            return arcs_of(member_of(search(procedure, d, settings, scores, prior)))
        if rows.kind == "continuous":
            return arcs_of(member_of(search_moments(procedure, rows.moments, d, settings, prior)[0]))
        if rows.kind == "mixed":
            found, _ = search_blocks(procedure, blocks_of(rows.moments, coding_of(schema)), settings, prior)
            return arcs_of(member_of(found))
        scores = scores_of(rows, settings, settings.most_cells)
        return arcs_of(member_of(search(procedure, d, settings, scores, prior)))

    def open_server(schema: Schema) -> Server:
        refuse_wide(schema, settings.most_cells)
        return empty_server(schema)

    def structure(server: Server) -> Structure:
        return Structure(server.variables, cpdag(server.graphs[0]).astype(np.float64), "cpdag")

    return _one_exchange(open_silo, open_server, structure)


def ges_union(settings: GesUnion) -> FederatedAlgorithm[Server, Arcs, OnceBroadcast, Arcs]:
    """The fusion of the graphs that GES finds in each silo."""

    def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Arcs:
        scores = scores_of(open_rows(table, schema, silo, rng), settings)
        prior = schema.knowledge.prior(schema.variables)
        begin = search_from(prior.required, WARY if settings.insertion == "wary" else CHICKERING, prior=prior)
        dag = consistent_member(finish(begin, no_families(), scores)[0], prior)
        assert dag is not None
        return arcs_of(dag)

    def structure(server: Server) -> Structure:
        return Structure(server.variables, fuse(server.graphs, settings.quota, server.variables).astype(np.float64))

    return _one_exchange(open_silo, empty_server, structure)


def empty_server(schema: Schema) -> Server:
    """The state before any reply. Raises `BadInput` for time series."""
    cardinalities_of(schema)  # raises the error
    return Server(schema.variables, np.empty((0, len(schema.variables), len(schema.variables)), np.bool_))


def _one_exchange(
    open_silo: Callable[[NDArray[Any], Schema, str, np.random.Generator], Arcs],
    open_server: Callable[[Schema], Server],
    structure: Callable[[Server], Structure],
) -> FederatedAlgorithm[Server, Arcs, OnceBroadcast, Arcs]:
    def aggregate(server: Server, replies: Replies[Arcs]) -> Server:
        return Server(server.variables, dags_of(replies.each, len(server.variables)))

    return replace(
        single_reply(open_silo, open_server, aggregate, structure, Server, Arcs),
        cost=lambda message: message.arcs.nbytes if isinstance(message, Arcs) else 0,
    )


def pc(settings: ConstraintSettings) -> FederatedAlgorithm[ConstraintServer, Rows, Query, Summand]:
    """PC on all rows in one place."""
    return federated_search(settings, PC, lambda kind: exact_evidence(settings, kind))


def fci(settings: ConstraintSettings) -> FederatedAlgorithm[ConstraintServer, Rows, Query, Summand]:
    """FCI on all rows in one place."""
    return federated_search(settings, FCI, lambda kind: exact_evidence(settings, kind))
