"""Errors of the forecasts of a network of series with labels: one exchange after its parameters were fitted.

The coordinator sends the network, which is the result of the run. Each silo forecasts its rows from the rows before
them. For a number, it sends the sum of squared errors in units of the number's variance. For a label, it sends the
number of rows whose label is not the likeliest. It sends the same sums for a persistence forecast, which repeats the
row before. With `center`, forecasts of numbers are relative to each silo's own means. Cost at a silo: `DRAWS` samples
for each window. (Of numbers alone, summed moments determine the errors, as in `regressions.py`.)
"""

import json
from dataclasses import dataclass, replace

import numpy as np

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..errors import BadInput
from ..statistics.lagged import windows
from .network_json import network_as_json, network_from_json
from .networks import Network

DRAWS = 50
"""number of samples for the forecast of a window"""
CHUNK = 400
"""number of windows that are forecast at a time"""


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Errors of forecasts of the next row, `[d]` each, over the windows that a network was fitted to.

    `model` has the errors of the network's forecast from the past; `persistence` has the errors of x̂_t = x_{t−1}. The
    error of a number is the mean squared error, and the error of a label is the share of wrong labels.
    """

    model: FloatArray
    persistence: FloatArray


@dataclass(frozen=True)
class ForecastErrors(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    center: bool = True
    """whether each silo forecasts numbers about its own means"""


@dataclass(frozen=True)
class ForecastServer:
    """The network as JSON and, after the exchange, the errors by variable: first of the model, then of persistence."""

    schema: Schema
    network: str
    rows: int = 0
    """number of windows of the silos that answered"""
    errors: tuple[float, ...] = ()


@dataclass(frozen=True)
class ForecastRequest:
    """The network whose forecasts are wanted, as JSON."""

    network: str


@dataclass(frozen=True, eq=False)
class ForecastSilo:
    """A silo's rows `[n_rows, d]`, the lengths of its unbroken series, and of the series of all silos."""

    table: FloatArray
    stretches: tuple[int, ...]
    all_stretches: tuple[int, ...]


def start_forecasts(schema: Schema, fitted: Network) -> ForecastServer:
    """The server's state before the exchange."""
    return ForecastServer(schema, json.dumps(network_as_json(fitted)))


def build_forecasts(
    settings: ForecastErrors,
) -> FederatedAlgorithm[ForecastServer, ForecastSilo, ForecastRequest, Summand]:
    """The one exchange, which begins in the state `start_forecasts(...)`."""

    def open_silo(table: FloatArray, schema: Schema, silo: str, rng: np.random.Generator) -> ForecastSilo:
        every = tuple(length for lengths in schema.stretches.values() for length in lengths)
        return ForecastSilo(np.asarray(table), schema.stretches[silo], every)

    def part(silo: ForecastSilo, request: ForecastRequest) -> FloatArray:
        fitted = requested_network(request.network, silo.table.shape[1])
        rows = windows(silo.table, silo.stretches, fitted.lags)
        total = sum(max(length - fitted.lags, 0) for length in silo.all_stretches)
        errors = (
            forecast_errors(fitted, rows, center=settings.center) if len(rows) else np.zeros(2 * silo.table.shape[1])
        )
        return np.append(errors, len(rows)) / total

    def aggregate(server: ForecastServer, replies: Replies[Summand]) -> ForecastServer:
        share = float(replies.total[-1])
        lags = requested_network(server.network, len(server.schema.variables)).lags
        rows = round(share * sum(server.schema.windows(lags).values()))
        return replace(server, rows=rows, errors=tuple(map(float, replies.total[:-1] / share)))

    return sum_each_round(
        open_silo=open_silo,
        open_server=lambda schema: ForecastServer(schema, ""),
        broadcast=lambda server: ForecastRequest(server.network),
        part=part,
        aggregate=aggregate,
        server_type=ForecastServer,
        broadcast_type=ForecastRequest,
        needs_secure_sum=settings.masked,
    )


def requested_network(content: str, d: int) -> Network:
    """The network over time in the `content` of a request; raises `BadInput` unless it is one of d variables."""
    try:
        found = network_from_json(json.loads(content), "a request for forecasts")
    except json.JSONDecodeError:
        raise BadInput("a request for forecasts has no network") from None
    if not found.lags or len(found.variables) != d:
        raise BadInput(f"a request for forecasts has no network over time of {d} variables")
    return found


def forecast_errors(fitted: Network, rows: FloatArray, *, center: bool) -> FloatArray:
    """The summed errors of the network's forecasts of the windows `rows` and of persistence, `[2·d]`.

    For a number, these are squared errors in units of its variance. For a label, this is the number of forecasts whose
    likeliest label is wrong.
    """
    d = len(fitted.variables)
    found, numbers = np.zeros(2 * d), fitted.numbers
    if center:
        columns, means = np.tile(numbers, fitted.lags + 1), np.tile(fitted.means, fitted.lags + 1)
        rows = rows + np.where(columns, means - rows.mean(axis=0), 0.0)
    rng, spreads = np.random.default_rng(0), _positive_spreads(fitted)
    for part in np.split(rows, range(CHUNK, len(rows), CHUNK)):
        expected = fitted.expected(part[:, d:], DRAWS, rng)
        for v, forecast in enumerate(expected):
            if numbers[v]:
                errors = (part[:, [v]] - np.column_stack([forecast, part[:, d + v]])) ** 2 / spreads[v]
            else:
                errors = part[:, [v]] != np.column_stack([forecast.argmax(axis=1), part[:, d + v]])
            found[[v, d + v]] += errors.sum(axis=0)
    return found


def forecasts(server: ForecastServer, fitted: Network) -> Forecasts:
    """The errors of both forecasts by variable; errors of numbers are in the squares of their units."""
    model, persistence = np.array(server.errors).reshape(2, -1) * _positive_spreads(fitted)
    return Forecasts(model, persistence)


def _positive_spreads(fitted: Network) -> FloatArray:
    """The units of squared errors, `[d]`; a constant number has a tiny unit."""
    return np.maximum(fitted.spreads, 1e-300)
