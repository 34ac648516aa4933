"""Consensus ADMM put together: the same server and silo for every local solver (000 Algorithm 1, 001 Algorithm 1)."""

from ..core.protocol import FederatedAlgorithm
from . import server_side, silo_side
from .server_side import Server
from .settings import ConsensusSettings
from .silo_side import KEPT, Broadcast, LocalSolver, Reply, Silo


def consensus_admm(
    settings: ConsensusSettings, solve: LocalSolver, l1_at_server: bool, loops: bool = False
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the algorithm whose silos run `solve`; the ℓ₁ term is on W (001) if `l1_at_server`, else on B_p (000).

    `loops` leaves the diagonal of B_p free.
    """
    server_l1, silo_l1 = (settings.l1, 0.0) if l1_at_server else (0.0, settings.l1)

    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: silo_side.open_silo(table, schema, silo, settings),
        open_server=lambda schema: server_side.open_server(schema, settings),
        broadcast=lambda server: server_side.broadcast(server, settings),
        local_solve=lambda silo, message: silo_side.local_solve(silo, message, solve, silo_l1, loops, settings),
        aggregate=lambda server, replies: server_side.aggregate(server, replies, settings, server_l1),
        dual_update=lambda server: server_side.dual_update(server, settings),
        converged=lambda server: server_side.converged(server, settings),
        structure=lambda server: server_side.structure(server, settings),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=silo_side.summand,
        sparse=server_side.sparse,
        measures=lambda server: server_side.measures(server, settings),
        cost=lambda message: message.cost,
        kept=KEPT,
    )
