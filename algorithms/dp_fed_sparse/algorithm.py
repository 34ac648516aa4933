"""DP-Fed-Sparse-BNSL: federated structure learning in which every silo's replies are private by themselves (000 §5).

What leaves a silo: noisy counts of its variables' sizes, once; then a round: the weights that K private steps
(`dp_pgcd.py`) have changed and, where an order keeps cycles out, d noisy numbers on how far residuals spread. Nobody
needs to be trusted. What the server needs: their sum. Replace-one, for each record of each silo; n_p is public.

With `acyclicity` "order" (ours, the default) the server reads the variables' order from the model released so far
(`dp_order.py`); with "notears" it is the paper's consensus ADMM (`dp_notears.py`). A round costs a silo one pass over
its rows and O(n·d) a step. The number of rounds and steps is fixed beforehand, so that the budget is used up.
"""

from dataclasses import replace
from typing import Any

from ..core.promise import Private
from ..core.protocol import FederatedAlgorithm
from . import notears_server as dp_notears
from . import order_server as dp_order
from . import silo as dp_silo
from .settings import PRESETS, DpFedSparse, plan, tight
from .silo import Ask, Part, Silo

__all__ = ["PRESETS", "DpFedSparse", "build"]


def build(settings: DpFedSparse) -> FederatedAlgorithm[Any, Silo, Ask, Part]:
    """Return the algorithm."""
    return _with_order(settings) if settings.settles_order else _with_notears(settings)


def _with_order(settings: DpFedSparse) -> FederatedAlgorithm[dp_order.Server, Silo, Ask, Part]:
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: dp_silo.open_silo(table, schema, settings),
        open_server=lambda schema: dp_order.open_server(schema, settings),
        broadcast=dp_order.broadcast,
        local_solve=lambda silo, ask: dp_silo.local_solve(silo, ask, settings),
        aggregate=lambda server, replies: dp_order.aggregate(server, replies, settings),
        dual_update=lambda server: server,
        converged=lambda server: server.number >= settings.exchanges,
        structure=lambda server: dp_order.structure(server, settings),
        server_type=dp_order.Server,
        silo_type=Silo,
        broadcast_type=Ask,
        reply_type=Part,
        max_rounds=settings.exchanges,
        summand=lambda part: dp_silo.summand(part, settings),
        sparse=dp_order.sparse,
        bears_loss=True,
        private=private(settings),
        measures=lambda server: dp_order.measures(server, settings),
        cost=lambda message: int(message.cost),
    )


def _with_notears(settings: DpFedSparse) -> FederatedAlgorithm[dp_notears.Server, Silo, Ask, Part]:
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: dp_silo.open_silo(table, schema, settings),
        open_server=lambda schema: dp_notears.open_server(schema, settings),
        broadcast=dp_notears.broadcast,
        local_solve=lambda silo, ask: dp_silo.local_solve(silo, ask, settings),
        aggregate=lambda server, replies: dp_notears.aggregate(server, replies, settings),
        dual_update=lambda server: dp_notears.dual_update(server, settings),
        converged=lambda server: False,
        structure=lambda server: dp_notears.structure(server, settings),
        server_type=dp_notears.Server,
        silo_type=Silo,
        broadcast_type=Ask,
        reply_type=Part,
        max_rounds=settings.exchanges,
        summand=lambda part: dp_silo.summand(part, settings),
        private=private(settings),
        measures=lambda server: dp_notears.measures(server, settings),
        cost=lambda message: int(message.cost),
        kept=dp_silo.KEPT,
    )


def private(settings: DpFedSparse) -> Private[Silo, Ask]:
    """Return the promise, and what each reply costs."""
    return Private(
        promise=lambda schema: plan(settings, schema).promise,
        releases=dp_silo.releases,
        keyed=lambda silo, key: replace(silo, key=key),
        insecure_seed=settings.insecure_seed,
        tight=lambda schema: tight(settings, schema),
    )
