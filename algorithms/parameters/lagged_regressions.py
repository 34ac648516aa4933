"""Parameters and forecast errors of a dynamic structure from summed lagged moments: one exchange after a run on series.

The exchange is the same as in `regressions.py`, where the rows of a silo are windows: x_t and the rows before it side
by side, `[n_windows, (lags + 1)·d]`. Every variable is regressed on its parents at the same time and at earlier times,
over all windows. The silo sends the products of the pairs that share a family (a variable and its parents), and of the
pairs that are needed for forecast errors. The mean squared error of a forecast x̂_t is a sum of products of x_t and the
lagged variables in x̂_t. So the server computes the errors of the model's forecast and of a persistence forecast
without another exchange.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.dag import reachable
from ..graphs.edges import padded_lagged_weights
from ..graphs.structure import Structure, unrolled_names
from ..statistics.lagged import window_schema, windows_of
from ..statistics.moments import Table, column_units, regression_weights, residual_variances
from . import regressions
from .networks import Network, linear_network, unrolled_weights
from .regressions import Broadcast, Regressions, Reply, Server, Silo


@dataclass(frozen=True)
class LaggedRegressions(Regressions):
    """Settings of the exchange."""

    lags: int = 1
    """number of earlier rows in a window"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.lags >= 1, "lags", self.lags, "at least 1")


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Mean squared errors of forecasts of the next row, `[d]` each, over the windows that the network was fitted to.

    `model` has the errors of the network's forecast from the past; `persistence` has the errors of x̂_t = x_{t−1}.
    """

    model: FloatArray
    persistence: FloatArray


def start(schema: Schema, dag: NDArray[np.bool_], structure: Structure) -> Server:
    """The server's state before the exchange, for `dag` `[d, d]` and the lagged edges of `structure`."""
    lagged = padded_lagged_weights(structure, structure.lags)
    names = unrolled_names(schema.variables, structure.lags)
    rows = sum(schema.windows(structure.lags).values())
    return Server(names, rows, unrolled_weights(dag.astype(np.float64), lagged) != 0, np.empty(0))


def build(settings: LaggedRegressions) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The one exchange, which begins in the state `start(...)`."""
    plain = regressions.build(Regressions(settings.center, settings.masked))

    def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
        rows = windows_of(table, schema.stretches[silo], settings.lags)
        return plain.open_silo(rows, window_schema(schema, settings.lags), silo, rng)

    def open_server(schema: Schema) -> Server:
        d = len(schema.variables)
        nothing = Structure(schema.variables, np.zeros((d, d)), lagged=np.zeros((settings.lags, d, d)))
        return start(schema, nothing.adjacency, nothing)

    return replace(
        plain,
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Broadcast(pairs(server.dag, settings.lags)),
        entry_units=lambda schema, request: regressions.units_of_pairs(
            column_units(schema, settings.lags), request.pairs
        ),
    )


def pairs(dag: NDArray[np.bool_], lags: int) -> NDArray[np.int32]:
    """The pairs of the unrolled `dag` whose products are requested, `[n_pairs, 2]`.

    They are the pairs that share a family, and the pairs in the forecast of one variable: the variable itself, and the
    lagged parents of its ancestors within the time step. For the persistence forecast, each variable is also paired
    with itself one step before.
    """
    d = len(dag) // (lags + 1)
    sources = dag.copy()
    for j in range(d):
        ancestors = reachable(dag[:d, :d].T, (j,))
        sources[d:, j] = dag[d:, :d][:, ancestors].any(axis=1)
        sources[d + j, j] = True
    sources[:d] = False
    return np.unique(np.concatenate([regressions.pairs(dag), regressions.pairs(sources)]), axis=0)


def network(server: Server, settings: LaggedRegressions) -> tuple[Network, Forecasts]:
    """The network of the server's final state, by least squares about the means of all windows, and its errors.

    With `center`, moments and errors are about each silo's own means, so each silo forecasts from its own level.
    """
    lags, requested = settings.lags, pairs(server.dag, settings.lags)
    d = len(server.variables) // (lags + 1)
    means, covariance = regressions.pooled_moments(
        server.moments, requested, len(server.variables), center=settings.center
    )
    weights = regression_weights(covariance, server.dag)
    within, lagged = weights[:d, :d], weights[d:, :d].reshape(lags, d, d)
    fitted = linear_network(
        structure=Structure(server.variables[:d], within, lagged=lagged),
        intercepts=(means - means @ weights)[:d],
        variances=residual_variances(covariance, weights)[:d],
        means=means[:d],
        spreads=np.diag(covariance)[:d].copy(),
    )
    _, reduced = fitted.reduced_form()
    return fitted, Forecasts(
        model=_mean_squares(covariance, reduced.reshape(lags * d, d)),
        persistence=_mean_squares(covariance, np.eye(lags * d, d)) + (means[:d] - means[d : 2 * d]) ** 2,
    )


def _mean_squares(covariance: FloatArray, lagged: FloatArray) -> FloatArray:
    """The variances `[d]` of x_t − y_t `lagged` from the moments of (x_t, y_t); y_t `[lags·d]` are the rows before."""
    d = lagged.shape[1]
    residual_map = np.concatenate([np.eye(d), -lagged])
    return np.asarray(np.maximum(np.einsum("ij,ik,kj->j", residual_map, covariance, residual_map, optimize=True), 0.0))
