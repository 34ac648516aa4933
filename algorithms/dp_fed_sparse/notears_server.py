"""The server of DP-Fed-Sparse-BNSL as 000 Algorithm 1 has it: consensus ADMM, and NOTEARS' h keeps cycles out.

It is the server of `fed-sparse` (`admm/server_side.py`); only the silos' side is private. Their mean squares, which
penalties may be measured in, come from the private sizes.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..admm import server_side
from ..admm.messages import change_between
from ..admm.settings import ConsensusSettings
from ..core.protocol import Replies
from ..core.schema import FloatArray, Schema
from ..graphs.structure import Structure
from .settings import DpFedSparse, plan
from .silo import Ask, Part, first_scales, found_scales


@dataclass(frozen=True)
class Server:
    """The server's state: the variables' scales, empty until known, and what consensus ADMM keeps."""

    rows: dict[str, int]
    number: int
    scales: FloatArray
    admm: server_side.Server


def consensus_settings(settings: DpFedSparse) -> ConsensusSettings:
    """Return the settings of the consensus: no order settles, and no step asks the silos for more than B_p."""
    return ConsensusSettings(
        rho1=settings.rho1,
        rho1_growth=settings.rho1_growth,
        rho2=settings.rho2,
        l1=settings.l1,
        scaled=settings.scaled,
        settle=False,
        turns=0,
        relax=False,
        hold=0.0,
        w_steps=100,
        rounds=settings.rounds,
        threshold=settings.threshold,
    )


def open_server(schema: Schema, settings: DpFedSparse) -> Server:
    """Return the state before round 1. Raises `BadInput` for a budget or a silo that allows no plan."""
    plan(settings, schema)
    rows = dict(sorted(schema.rows.items()))
    admm = server_side.open_server(schema, consensus_settings(settings))
    return Server(rows, 0, first_scales(settings, schema), admm)


def broadcast(server: Server) -> Ask:
    """Return the next question. What residuals spread like lies between the smallest variable and their own."""
    W = server.admm.W
    spread = np.sqrt(server.scales * server.scales.min()) if len(server.scales) else server.scales
    return Ask(server.scales, spread, change_between(np.zeros_like(W), W), np.empty(0, dtype=np.int64))


def aggregate(server: Server, replies: Replies[Part], settings: DpFedSparse) -> Server:
    """Return the state with the new W (000 Eq. 5), or first with the variables' scales."""
    assert replies.total is not None
    variables, number = server.admm.variables, server.number + 1
    if not len(server.scales):
        weight = float(sum(server.rows[silo] for silo in replies.silos)) * len(server.rows) / sum(server.rows.values())
        return replace(server, number=number, scales=found_scales(replies.total, weight, variables, settings))
    change, gap = replies.total[:-1], replies.total[-1:]
    total = np.concatenate([change, len(server.rows) * server.scales**2, gap])
    admm = server_side.aggregate(server.admm, Replies(replies.silos, total=total), consensus_settings(settings), 0.0)
    return replace(server, number=number, admm=admm)


def dual_update(server: Server, settings: DpFedSparse) -> Server:
    """Return the state with the duals and ρ₁ updated (001 Eq. 4-7), once there has been a step."""
    if server.admm.number == 0:
        return server
    return replace(server, admm=server_side.dual_update(server.admm, consensus_settings(settings)))


def structure(server: Server, settings: DpFedSparse) -> Structure:
    """Return W without the entries of at most `threshold`; it may have cycles."""
    return server_side.structure(server.admm, consensus_settings(settings))


def measures(server: Server, settings: DpFedSparse) -> dict[str, float]:
    """Return what to follow: see `admm/server_side.py`."""
    return server_side.measures(server.admm, consensus_settings(settings))
