"""Linear Gaussian parameters from summed moments: one exchange after a run on continuous data or on series.

If products are about the silos' own means and the diagnosis has already summed them, there is no further exchange
(`state_from`).

The broadcast has the pairs of variables that share a family of the learned DAG (a variable and its parents). The reply
has the means of all columns and of the products of these pairs, which suffice for the regressions. Every variable is
regressed on its parents over all rows: x_j = intercept_j + Σ_i W_ij x_i + N(0, σ_j²), where σ_j² is its mean squared
residual.

Of time series, the rows of a silo are windows: x_t and the `lags` rows before it side by side, `[n_windows,
(lags + 1)·d]`. Every variable is regressed on its parents at the same time and at earlier times, over all windows. The
broadcast also has the pairs that are needed for forecast errors. The mean squared error of a forecast x̂_t is a sum of
products of x_t and the lagged variables in x̂_t. So the server computes the errors of the model's forecast and of a
persistence forecast without another exchange.

With experiments, the regression of a variable uses only the rows in which the variable was not set: the reply has the
same numbers for each sum of `core/experiments.py`, one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import CountOrNone, Settings
from ..graphs.dag import moral_graph, reachable
from ..graphs.structure import Structure
from ..statistics.expected_moments import about_own_means
from ..statistics.lagged import over_windows, window_schema
from ..statistics.moments import (
    SummedMomentsWithin,
    Table,
    column_units,
    conditions_of,
    regression_weights,
    residual_variances,
)
from ..statistics.packing import Packing, packing
from .forecast_errors import Forecasts
from .networks import Network, linear_network, unrolled_weights


@dataclass(frozen=True)
class Regressions(Settings):
    """Settings of the exchange."""

    center: bool = False
    """subtract each silo's own means from products, as in the run; intercepts use the means of all rows"""
    masked: bool = False
    """always mask the replies, even if the run does not"""
    lags: CountOrNone = 0
    """number of earlier rows in a window; 0 for independent rows"""


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
class Server:
    """The DAG and, after the exchange, the moments of all silos that answered."""

    variables: tuple[str, ...]
    rows: int
    dag: NDArray[np.bool_]
    moments: FloatArray
    group: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """with experiments: the number of the sum in which each variable is regressed, `[d]`; otherwise empty"""


def start(schema: Schema, dag: NDArray[np.bool_], lagged: FloatArray | None = None) -> Server:
    """The server's state before the exchange, for the learned `dag` `[d, d]`; of series, also for its `lagged` edges.

    `lagged` is `[lags, d, d]`.
    """
    if lagged is not None:
        schema, dag = window_schema(schema, len(lagged)), unrolled_weights(dag.astype(np.float64), lagged) != 0
    group = schema.experiments.group if schema.has_targets else np.empty(0, np.int64)
    return Server(schema.variables, sum(schema.rows.values()), dag, np.empty(0), group)


def state_from(schema: Schema, dag: NDArray[np.bool_], known: SummedMomentsWithin) -> Server:
    """The server's state after the exchange with `center`, from moments that are `known`, without the exchange."""
    i, j = pairs(dag).T
    moments = reply_packing(len(dag), len(i)).pack(part=1.0, means=known.means, products=known.within[i, j])
    return Server(schema.variables, known.rows, dag, moments)


def build(settings: Regressions) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
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

    def part(silo: Silo, request: Broadcast) -> FloatArray:
        packed, (i, j) = reply_packing(len(silo.means), len(request.pairs)), request.pairs.T
        each = [packed.pack(part=s.part, means=s.means, products=s.products[i, j]) for s in (silo, *silo.further)]
        return np.concatenate(each)

    def aggregate(server: Server, replies: Replies[Summand]) -> Server:
        return replace(server, moments=np.asarray(replies.total, np.float64))

    rowwise = sum_each_round(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Broadcast(pairs(server.dag, settings.lags)),
        part=part,
        aggregate=aggregate,
        structure=lambda server: Structure(server.variables, server.dag.astype(np.float64)),
        server_type=Server,
        broadcast_type=Broadcast,
        entry_units=lambda schema, request: np.tile(
            units_of_pairs(column_units(schema), request.pairs), schema.experiments.n_sums if schema.has_targets else 1
        ),
        needs_secure_sum=settings.masked,
    )
    return over_windows(rowwise, settings.lags) if settings.lags else rowwise


def units_of_pairs(units: FloatArray, pairs: NDArray[np.int32]) -> FloatArray:
    """The units of a reply for columns in `units` `[d]`: the share of rows, the means, the requested products."""
    return np.concatenate([np.ones(1), units, units[pairs[:, 0]] * units[pairs[:, 1]]])


def reply_packing(d: int, n_pairs: int) -> Packing:
    """The packing of a silo's moments: its share of the rows, its means, the products of the requested pairs."""
    return packing(part=(), means=d, products=n_pairs)


def pairs(dag: NDArray[np.bool_], lags: int = 0) -> NDArray[np.int32]:
    """The pairs of variables, or of nodes of an unrolled `dag`, whose products are requested, `[n_pairs, 2]`.

    They share a family: they are adjacent in the moral graph, or every variable with itself. Of series, they are also
    the pairs in the forecast of one variable: the variable itself, and the lagged parents of its ancestors within the
    time step. For the persistence forecast, each variable is also paired with itself one step before.
    """
    requested = moral_graph(dag)
    if lags:
        d = len(dag) // (lags + 1)
        sources = dag.copy()
        for j in range(d):
            ancestors = reachable(dag[:d, :d].T, (j,))
            sources[d:, j] = dag[d:, :d][:, ancestors].any(axis=1)
            sources[d + j, j] = True
        sources[:d] = False
        requested |= moral_graph(sources)
    return np.argwhere(np.triu(requested | np.eye(len(dag), dtype=np.bool_))).astype(np.int32)


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
    n, lags = len(server.variables), settings.lags
    group, requested = server.group if len(server.group) else np.zeros(n, np.int64), pairs(server.dag, lags)
    weights, intercepts, variances = np.zeros((n, n)), np.zeros(n), np.zeros(n)
    for k, sums in enumerate(np.split(server.moments, int(group.max()) + 1)):
        own = group == k
        means, covariance = pooled_moments(sums, requested, n, center=settings.center)
        found = regression_weights(covariance, server.dag)
        weights[:, own], intercepts[own] = found[:, own], (means - means @ found)[own]
        variances[own] = residual_variances(covariance, found)[own]
    if not lags:
        return linear_network(Structure(server.variables, weights), intercepts, variances)
    d = n // (lags + 1)
    structure = Structure(server.variables[:d], weights[:d, :d], lagged=weights[d:, :d].reshape(lags, d, d))
    return linear_network(structure, intercepts[:d], variances[:d], means[:d], np.diag(covariance)[:d].copy())


def forecasts(server: Server, settings: Regressions, fitted: Network) -> Forecasts:
    """The errors of forecasts by the network `fitted` to series, and of persistence forecasts.

    With `center`, moments and errors are about each silo's own means, so each silo forecasts from its own level.
    """
    n, lags = len(server.variables), settings.lags
    d = n // (lags + 1)
    means, covariance = pooled_moments(server.moments, pairs(server.dag, lags), n, center=settings.center)

    def mean_squares(lagged: FloatArray) -> FloatArray:
        """The variances `[d]` of x_t − y_t `lagged`, where y_t `[lags·d]` are the rows before."""
        residual_map = np.concatenate([np.eye(d), -lagged])
        products = np.einsum("ij,ik,kj->j", residual_map, covariance, residual_map, optimize=True)
        return np.asarray(np.maximum(products, 0.0))

    _, reduced = fitted.reduced_form()
    return Forecasts(
        model=mean_squares(reduced.reshape(lags * d, d)),
        persistence=mean_squares(np.eye(lags * d, d)) + (means[:d] - means[d : 2 * d]) ** 2,
    )


def _joined(each: Sequence[Silo], used: NDArray[np.bool_]) -> Silo:
    """The sum of the conditions in `each` that are `used`."""
    d = len(each[0].means)
    chosen = [one for one, is_used in zip(each, used, strict=True) if is_used]
    means, products = sum((one.means for one in chosen), np.zeros(d)), np.zeros((d, d))
    return Silo(sum(one.part for one in chosen), means, sum((one.products for one in chosen), products))


def contributing_rows(server: Server) -> int:
    """The number of rows of the silos that answered."""
    return round(float(server.moments[0]) * server.rows)
