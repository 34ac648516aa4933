"""DP-Fed-Sparse-BNSL: federated structure learning in which each silo's replies are private by themselves.

Source: Fassy El Fehri et al., §5.

What leaves a silo: once, noisy counts of the sizes of its variables' values; in every round, the weights changed by K
private steps (`silo.py`) and, if an order excludes cycles, d noisy numbers for the spread of the residuals. The silo
need not trust any other party. The server needs only the sum of the replies. The guarantee is for the replacement of
one record of one silo; the number of rows n_p is public.

With `acyclicity` "order" (our own method, the default), the server derives an order of the variables from the weights
and spreads released so far (`order_server.py`). With "notears", the algorithm is the paper's consensus ADMM
(`notears_server.py`). A round costs a silo one pass over its rows, and O(n·d) for each step. The numbers of rounds and
steps are fixed in advance and use the whole budget.
"""

from dataclasses import replace
from typing import Any

from ..core.promise import Private
from ..core.protocol import FederatedAlgorithm
from . import notears_server, order_server
from . import silo as silo_side
from .plan import plan, tight
from .settings import PRESETS, DpFedSparse
from .silo import Broadcast, Reply, Silo

__all__ = ["PRESETS", "DpFedSparse", "build"]


def build(settings: DpFedSparse) -> FederatedAlgorithm[Any, Silo, Broadcast, Reply]:
    """The algorithm."""
    return _with_order(settings) if settings.settles_order else _with_notears(settings)


def _with_order(settings: DpFedSparse) -> FederatedAlgorithm[order_server.Server, Silo, Broadcast, Reply]:
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: silo_side.open_silo(table, schema, settings),
        open_server=lambda schema: order_server.open_server(schema, settings),
        broadcast=order_server.broadcast,
        local_solve=lambda silo, message: silo_side.local_solve(silo, message, settings),
        aggregate=lambda server, replies: order_server.aggregate(server, replies, settings),
        converged=lambda server: server.number >= settings.exchanges,
        structure=lambda server: order_server.structure(server, settings),
        server_type=order_server.Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.exchanges,
        summand=lambda reply: silo_side.summand(reply, settings),
        sparse=lambda server: order_server.sparse(server, settings),
        tolerates_dropout=True,
        private=private(settings),
        measures=lambda server: order_server.measures(server, settings),
        cost=lambda message: int(message.cost),
    )


def _with_notears(settings: DpFedSparse) -> FederatedAlgorithm[notears_server.Server, Silo, Broadcast, Reply]:
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: silo_side.open_silo(table, schema, settings),
        open_server=lambda schema: notears_server.open_server(schema, settings),
        broadcast=notears_server.broadcast,
        local_solve=lambda silo, message: silo_side.local_solve(silo, message, settings),
        aggregate=lambda server, replies: notears_server.aggregate(server, replies, settings),
        dual_update=lambda server: notears_server.dual_update(server, settings),
        converged=lambda server: False,
        structure=lambda server: notears_server.structure(server, settings),
        server_type=notears_server.Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.exchanges,
        summand=lambda reply: silo_side.summand(reply, settings),
        private=private(settings),
        measures=lambda server: notears_server.measures(server, settings),
        cost=lambda message: int(message.cost),
        persisted_state=silo_side.PERSISTED_STATE,
    )


def private(settings: DpFedSparse) -> Private[Silo, Broadcast]:
    """The promise, and the cost of each reply."""
    return Private(
        promise=lambda schema: plan(settings, schema).promise,
        releases=silo_side.releases,
        with_key=lambda silo, key: replace(silo, key=key),
        insecure_seed=settings.insecure_seed,
        tight=lambda schema: tight(settings, schema),
    )
