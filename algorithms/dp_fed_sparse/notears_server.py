"""The published server of DP-Fed-Sparse-BNSL: consensus ADMM, with NOTEARS' h to exclude cycles.

Source: Fassy El Fehri et al., Algorithm 1. It is the papers' loop (`admm/consensus.py`), but the silos' replies are
private. The mean squares of the variables, which are the units of the penalties, are computed from the private sizes.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..admm import consensus
from ..admm.consensus import Terms, change_between
from ..admm.settings import ConsensusSettings
from ..core.protocol import Replies
from ..core.schema import FloatArray, Schema
from ..graphs.structure import Structure
from .plan import plan
from .settings import DpFedSparse
from .silo import Broadcast, Reply, estimate_scales, penalty_scale, public_scales, steps_packing


@dataclass(frozen=True)
class Server:
    """The server's state: the variables' scales, empty before their release, and the state of consensus ADMM."""

    rows: dict[str, int]
    number: int
    scales: FloatArray
    admm: consensus.Server


W_STEPS = 100
"""maximum number of steps of descent of the server in a round"""


def consensus_settings(settings: DpFedSparse) -> ConsensusSettings:
    """The settings of the consensus."""
    return ConsensusSettings(
        rho1=settings.rho1,
        rho1_growth=settings.rho1_growth,
        rho2=settings.rho2,
        l1=settings.l1,
        rounds=settings.rounds,
        threshold=settings.threshold,
    )


def server_terms(server: Server, settings: DpFedSparse) -> Terms:
    """The terms of the server's step; λ acts at the silos."""
    scale = penalty_scale(server.scales, settings)
    return Terms(server.admm.rho2, 0.0, scale, ~np.eye(len(scale), dtype=bool), np.ones(len(scale)))


def open_server(schema: Schema, settings: DpFedSparse) -> Server:
    """The state before round 1. Raises `BadInput` for a budget or a silo that allows no plan."""
    plan(settings, schema)
    rows = dict(sorted(schema.rows.items()))
    admm = consensus.open_server(schema, len(schema.variables), consensus_settings(settings))
    return Server(rows, 0, public_scales(settings, schema), admm)


def broadcast(server: Server) -> Broadcast:
    """The next broadcast.

    The assumed spread of a variable's residuals is the geometric mean of its scale and the smallest scale.
    """
    W = server.admm.W
    spread = np.sqrt(server.scales * server.scales.min()) if len(server.scales) else server.scales
    return Broadcast(server.scales, spread, change_between(np.zeros_like(W), W), np.empty(0, dtype=np.int64))


def aggregate(server: Server, replies: Replies[Reply], settings: DpFedSparse) -> Server:
    """The state with the new W (Fassy El Fehri et al., Eq. 5); in the first exchange, with the variables' scales."""
    variables, number = server.admm.variables, server.number + 1
    if not len(server.scales):
        weight = float(sum(server.rows[silo] for silo in replies.silos)) * len(server.rows) / sum(server.rows.values())
        return replace(server, number=number, scales=estimate_scales(replies.total, weight, variables, settings))
    sent = steps_packing(len(variables), settings).unpack(replies.total)
    admm = consensus.step(server.admm, sent["change"], float(sent["gap"]), server_terms(server, settings), W_STEPS)
    return replace(server, number=number, admm=admm)


def dual_update(server: Server, settings: DpFedSparse) -> Server:
    """The state with the duals and ρ₁ updated (Ng & Zhang 2022, Eq. 4-6), once there has been a step."""
    if server.admm.number == 0:
        return server
    updated = consensus.duals(server.admm, server_terms(server, settings))
    return replace(server, admm=replace(updated, rho1=updated.rho1 * settings.rho1_growth))


def structure(server: Server, settings: DpFedSparse) -> Structure:
    """W without entries of absolute value at most `threshold`; it may have cycles."""
    return consensus.structure(server.admm, server.admm.W, consensus_settings(settings))


def measures(server: Server, settings: DpFedSparse) -> dict[str, float]:
    """The measures of a round (see `admm/consensus.py`)."""
    return consensus.measures(server.admm, server.admm.W, consensus_settings(settings))
