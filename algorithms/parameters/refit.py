"""Personalisation: each silo refits the weights of the learned structure on its own rows.

Source: Fassy El Fehri et al., B.2.2.

One exchange. The broadcast is the learned structure with its weights, and the true weights if they are known (synthetic
data). A silo does not send its refitted weights, only two errors: ‖B̂ − B_true‖²_F/‖B_true‖²_F for the refitted and for
the consensus weights.
"""

from dataclasses import dataclass

import numpy as np

from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..graphs.structure import Structure
from ..statistics.moments import Table, products, regression_weights

ALL_SILOS = ""


@dataclass(frozen=True)
class Refit(Settings):
    """Settings of the refit."""

    center: bool = False
    """subtract each silo's own column means, as in the run that learned the structure"""


@dataclass(frozen=True)
class Silo:
    """A silo's second moments S_p = X_pᵀX_p/n_p, `[d, d]`, and its own refitted weights."""

    name: str
    S: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class Broadcast:
    """The structure with its consensus weights, `[d, d]`, and the true weights by silo if they are known.

    True weights that all silos share have the key `ALL_SILOS`.
    """

    weights: FloatArray
    true_weights: dict[str, FloatArray]


@dataclass(frozen=True)
class Reply:
    """The errors of a silo's refitted weights and of the consensus weights; -1 if the true weights are unknown."""

    personal: float
    consensus: float


@dataclass(frozen=True)
class Server:
    """The errors in the order of `silos`."""

    learned: Broadcast
    variables: tuple[str, ...]
    silos: tuple[str, ...]
    personal: tuple[float, ...]
    consensus: tuple[float, ...]

    @property
    def refit(self) -> dict[str, dict[str, float]]:
        """The normalised MSE of the refitted and of the consensus weights by silo; empty without true weights."""
        return {
            silo: {"personal": self.personal[k], "consensus": self.consensus[k]}
            for k, silo in enumerate(self.silos)
            if self.personal[k] >= 0
        }


def normalised_mse(weights: FloatArray, true: FloatArray) -> float:
    """‖B̂ − B_true‖²_F / ‖B_true‖²_F (Fassy El Fehri et al., B.2.2)."""
    return float(((weights - true) ** 2).sum() / (true**2).sum())


def refit_start(structure: Structure, true_weights: dict[str, FloatArray]) -> Server:
    """The server's state before the exchange: the structure to refit, and the true weights if they are known."""
    return Server(Broadcast(structure.weights, true_weights), structure.variables, (), (), ())


def build(settings: Refit) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The one exchange, which begins in the state `refit_start(...)`."""

    def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        S = products(table, center=settings.center) / table.shape[0]
        return Silo(silo, S, np.zeros_like(S))

    def open_server(schema: Schema) -> Server:
        d = len(schema.variables)
        return refit_start(Structure(schema.variables, np.zeros((d, d))), {})

    def local_solve(silo: Silo, message: Broadcast) -> tuple[Silo, Reply]:
        weights = regression_weights(silo.S, message.weights != 0)
        true = message.true_weights.get(silo.name, message.true_weights.get(ALL_SILOS))
        known = true is not None and bool(true.any())
        fit = Reply(
            personal=normalised_mse(weights, true) if known and true is not None else -1.0,
            consensus=normalised_mse(message.weights, true) if known and true is not None else -1.0,
        )
        return Silo(silo.name, silo.S, weights), fit

    def aggregate(server: Server, replies: Replies[Reply]) -> Server:
        return Server(
            learned=server.learned,
            variables=server.variables,
            silos=replies.silos,
            personal=tuple(reply.personal for reply in replies.each),
            consensus=tuple(reply.consensus for reply in replies.each),
        )

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: server.learned,
        local_solve=local_solve,
        aggregate=aggregate,
        structure=lambda server: Structure(server.variables, server.learned.weights),
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        persisted_state=("weights",),
    )
