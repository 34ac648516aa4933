"""Linear Gaussian parameters from summed moments: one exchange after a run on continuous data.

The broadcast names the pairs of variables that share a family of the learned DAG (a variable and its parents); the
reply holds the means of all columns and of the products of those pairs: what the regressions need, and no other moment.
Every variable is regressed on its parents over all rows: x_j = intercept_j + Σ_i W_ij x_i + N(0, σ_j²), σ_j² its mean
squared residual.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, only_field
from ..core.schema import FloatArray, Schema
from ..graphs.dag import moral_graph
from ..graphs.structure import Structure
from ..statistics.em import about_own_means
from ..statistics.moments import Table, column_units, residual_variances
from ..statistics.packing import Packing, packing
from .networks import GaussianNetwork
from .refit import refit


@dataclass(frozen=True)
class Regressions:
    """Settings of the exchange."""

    center: bool = False
    """products are about each silo's own means, as in a run that subtracted them; the intercepts are about all rows"""
    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Silo:
    """A silo's part of all rows (0 to 1), its sums `[d]` and sums of products `[d, d]`, over the number of all rows."""

    part: float
    means: FloatArray
    products: FloatArray


@dataclass(frozen=True)
class Broadcast:
    """The pairs (i, j), i ≤ j, whose products are asked for, `[n_pairs, 2]`."""

    pairs: NDArray[np.int32]


@dataclass(frozen=True)
class Reply:
    """A silo's part of the rows, means and products, one after another, `[1 + d + n_pairs]`."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The DAG and, once they have come, the moments of all silos that answered."""

    variables: tuple[str, ...]
    rows: int
    dag: NDArray[np.bool_]
    moments: FloatArray


def start(schema: Schema, dag: NDArray[np.bool_]) -> Server:
    """The server's state before the exchange, for the learned `dag` `[d, d]`."""
    return Server(schema.variables, sum(schema.rows.values()), dag, np.empty(0))


def build(settings: Regressions) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The one exchange; it starts from the state that `start` gives."""

    def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        rows, (n, _), own = sum(schema.rows.values()), table.shape, about_own_means(table, schema)
        between = 0.0 if settings.center else n * np.outer(own.mean, own.mean)
        return Silo(n / rows, own.mean * (n / rows), (own.products + between) / rows)

    def open_server(schema: Schema) -> Server:
        return start(schema, np.zeros((len(schema.variables),) * 2, np.bool_))

    def local_solve(silo: Silo, asked: Broadcast) -> tuple[Silo, Reply]:
        asked_for = silo.products[asked.pairs[:, 0], asked.pairs[:, 1]]
        packed = reply_packing(len(silo.means), len(asked.pairs))
        return silo, Reply(packed.pack(part=silo.part, means=silo.means, products=asked_for))

    def aggregate(server: Server, replies: Replies[Reply]) -> Server:
        assert replies.total is not None
        return replace(server, moments=np.asarray(replies.total, np.float64))

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Broadcast(pairs(server.dag)),
        local_solve=local_solve,
        aggregate=aggregate,
        structure=lambda server: Structure(server.variables, server.dag.astype(np.float64)),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        summand=only_field,
        entry_units=lambda schema, asked: units_of_pairs(column_units(schema), asked.pairs),
        needs_secure_sum=settings.masked,
        tolerates_dropout=True,
    )


def units_of_pairs(units: FloatArray, which: NDArray[np.int32]) -> FloatArray:
    """The units of what a silo sends of columns in `units` `[d]`: its part, means, the products asked for."""
    return np.concatenate([np.ones(1), units, units[which[:, 0]] * units[which[:, 1]]])


def reply_packing(d: int, n_pairs: int) -> Packing:
    """How a silo's moments are packed: its part of the rows, its means, the products of the pairs asked for."""
    return packing(part=(), means=d, products=n_pairs)


def pairs(dag: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The pairs that share a family: those joined in the moral graph, and every variable with itself."""
    together = moral_graph(dag) | np.eye(len(dag), dtype=np.bool_)
    return np.argwhere(np.triu(together)).astype(np.int32)


def pooled(moments: FloatArray, which: NDArray[np.int32], d: int, *, center: bool) -> tuple[FloatArray, FloatArray]:
    """The means `[d]` over all rows, and the covariance `[d, d]` where `which` asked for it, zero elsewhere."""
    sums = reply_packing(d, len(which)).unpack(moments / moments[0])
    means, covariance = sums["means"], np.zeros((d, d))
    covariance[which[:, 0], which[:, 1]] = sums["products"]
    if not center:
        covariance[which[:, 0], which[:, 1]] -= means[which[:, 0]] * means[which[:, 1]]
    return means, covariance + np.triu(covariance, 1).T


def network(server: Server, settings: Regressions) -> GaussianNetwork:
    """The network of the server's final state: least squares about the means of all rows."""
    means, covariance = pooled(server.moments, pairs(server.dag), len(server.variables), center=settings.center)
    weights = refit(covariance, server.dag)
    variances = residual_variances(covariance, weights)
    return GaussianNetwork(Structure(server.variables, weights), means - means @ weights, variances)


def rows_behind(server: Server) -> int:
    """How many rows the silos that answered have."""
    return round(float(server.moments[0]) * server.rows)
