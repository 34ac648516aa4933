"""Linear Gaussian parameters from summed moments: one exchange after a run on continuous data.

The broadcast has the pairs of variables that share a family of the learned DAG (a variable and its parents). The reply
has the means of all columns and of the products of these pairs, which suffice for the regressions. Every variable is
regressed on its parents over all rows: x_j = intercept_j + Σ_i W_ij x_i + N(0, σ_j²), where σ_j² is its mean squared
residual.

With experiments, the regression of a variable uses only the rows in which the variable was not set: the reply has the
same numbers for each sum of `core/experiments.py`, one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, only_field
from ..core.schema import FloatArray, Schema
from ..graphs.dag import moral_graph
from ..graphs.structure import Structure
from ..statistics.em import about_own_means
from ..statistics.moments import Table, column_units, conditions_of, regression_weights, residual_variances
from ..statistics.packing import Packing, packing
from .networks import Network, linear_network


@dataclass(frozen=True)
class Regressions:
    """Settings of the exchange."""

    center: bool = False
    """subtract each silo's own means from products, as in the run; intercepts use the means of all rows"""
    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Silo:
    """A silo's share of all rows (0 to 1), its sums `[d]` and its sums of products `[d, d]`.

    The sums are divided by the number of all rows.
    """

    part: float
    means: FloatArray
    products: FloatArray
    further: tuple["Silo", ...] = ()
    """with experiments: the same numbers for the silo's part of each further sum"""


@dataclass(frozen=True)
class Broadcast:
    """The pairs (i, j), i ≤ j, whose products are requested, `[n_pairs, 2]`."""

    pairs: NDArray[np.int32]


@dataclass(frozen=True)
class Reply:
    """A silo's share of the rows, means and products, concatenated, `[1 + d + n_pairs]`."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The DAG and, after the exchange, the moments of all silos that answered."""

    variables: tuple[str, ...]
    rows: int
    dag: NDArray[np.bool_]
    moments: FloatArray
    group: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """with experiments: the number of the sum in which each variable is regressed, `[d]`; otherwise empty"""


def start(schema: Schema, dag: NDArray[np.bool_]) -> Server:
    """The server's state before the exchange, for the learned `dag` `[d, d]`."""
    group = schema.experiments.group if schema.has_targets else np.empty(0, np.int64)
    return Server(schema.variables, sum(schema.rows.values()), dag, np.empty(0), group)


def build(settings: Regressions) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The one exchange, which begins in the state `start(...)`."""

    def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        if schema.has_targets:
            parts = conditions_of(table, schema.conditions(silo), silo)
            each = [open_rows(part, replace(schema, stretches={})) for part in parts]
            first, *further = (_joined(each, used) for used in schema.experiments.used[silo])
            return replace(first, further=tuple(further))
        return open_rows(table, schema)

    def open_rows(table: Table, schema: Schema) -> Silo:
        rows, (n, _), own = sum(schema.rows.values()), table.shape, about_own_means(table, schema)
        between = 0.0 if settings.center else n * np.outer(own.mean, own.mean)
        return Silo(n / rows, own.mean * (n / rows), (own.products + between) / rows)

    def open_server(schema: Schema) -> Server:
        return start(schema, np.zeros((len(schema.variables),) * 2, np.bool_))

    def local_solve(silo: Silo, request: Broadcast) -> tuple[Silo, Reply]:
        packed, (i, j) = reply_packing(len(silo.means), len(request.pairs)), request.pairs.T
        sums = [packed.pack(part=s.part, means=s.means, products=s.products[i, j]) for s in (silo, *silo.further)]
        return silo, Reply(np.concatenate(sums))

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
        entry_units=lambda schema, request: np.tile(
            units_of_pairs(column_units(schema), request.pairs), schema.experiments.n_sums if schema.has_targets else 1
        ),
        needs_secure_sum=settings.masked,
        tolerates_dropout=True,
    )


def units_of_pairs(units: FloatArray, pairs: NDArray[np.int32]) -> FloatArray:
    """The units of a reply for columns in `units` `[d]`: the share of rows, the means, the requested products."""
    return np.concatenate([np.ones(1), units, units[pairs[:, 0]] * units[pairs[:, 1]]])


def reply_packing(d: int, n_pairs: int) -> Packing:
    """The packing of a silo's moments: its share of the rows, its means, the products of the requested pairs."""
    return packing(part=(), means=d, products=n_pairs)


def pairs(dag: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The pairs that share a family: pairs that are adjacent in the moral graph, and every variable with itself."""
    same_family = moral_graph(dag) | np.eye(len(dag), dtype=np.bool_)
    return np.argwhere(np.triu(same_family)).astype(np.int32)


def pooled_moments(
    moments: FloatArray, pairs: NDArray[np.int32], d: int, *, center: bool
) -> tuple[FloatArray, FloatArray]:
    """The means `[d]` over all rows, and the covariance `[d, d]` of the requested `pairs`, zero elsewhere."""
    sums = reply_packing(d, len(pairs)).unpack(moments / moments[0])
    means, covariance = sums["means"], np.zeros((d, d))
    covariance[pairs[:, 0], pairs[:, 1]] = sums["products"]
    if not center:
        covariance[pairs[:, 0], pairs[:, 1]] -= means[pairs[:, 0]] * means[pairs[:, 1]]
    return means, covariance + np.triu(covariance, 1).T


def network(server: Server, settings: Regressions) -> Network:
    """The network of the server's final state, by least squares; intercepts are computed from the means of all rows."""
    d, group = len(server.variables), server.group if len(server.group) else np.zeros(len(server.variables), np.int64)
    weights, intercepts, variances = np.zeros((d, d)), np.zeros(d), np.zeros(d)
    for k, moments in enumerate(np.split(server.moments, int(group.max()) + 1)):
        own = group == k
        means, covariance = pooled_moments(moments, pairs(server.dag), d, center=settings.center)
        found = regression_weights(covariance, server.dag)
        weights[:, own], intercepts[own] = found[:, own], (means - means @ found)[own]
        variances[own] = residual_variances(covariance, found)[own]
    return linear_network(Structure(server.variables, weights), intercepts, variances)


def _joined(each: Sequence[Silo], used: NDArray[np.bool_]) -> Silo:
    """The sum of the conditions in `each` that are `used`."""
    d = len(each[0].means)
    chosen = [one for one, is_used in zip(each, used, strict=True) if is_used]
    means, products = sum((one.means for one in chosen), np.zeros(d)), np.zeros((d, d))
    return Silo(sum(one.part for one in chosen), means, sum((one.products for one in chosen), products))


def contributing_rows(server: Server) -> int:
    """The number of rows of the silos that answered."""
    return round(float(server.moments[0]) * server.rows)
