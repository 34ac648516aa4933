"""Families of series with labels: fits and forecast errors against their definitions, and their use in a run."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import forecast_errors, mixed_families
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.forecast_errors import ForecastErrors
from fedbnsl.algorithms.parameters.mixed_families import MixedFamilies
from fedbnsl.algorithms.parameters.network_json import network_as_json, network_from_json
from fedbnsl.algorithms.statistics.lagged import windows
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.losing import Losing, last_of
from tests.algorithms.parameters.networks import numbered

WITHIN = np.zeros((4, 4))
LAGGED = np.zeros((1, 4, 4))


@pytest.fixture(scope="module")
def data():
    return dynamic(4, 3, 200, 3, labels=2, series=2)


def graph(data):
    """A graph of the first number u, the second one v, and the states s and t: u → v, s → t, v[t-1] → u, s[t-1] → s."""
    names = data.schema.variables
    u, v = (names.index(name) for name in names if name not in data.schema.levels)
    s, t = (names.index(name) for name in data.schema.levels)
    within, lagged = WITHIN.copy(), LAGGED.copy()
    within[u, v] = within[s, t] = lagged[0, v, u] = lagged[0, s, s] = 1.0
    return (u, v, s, t), Structure(names, within, lagged=lagged)


def fitted(data, structure, lost=()):
    algorithm = registry.build(AlgorithmSpec("lagged-families", MixedFamilies(lags=1)))
    federation = Losing(data.schema, data.tables, dict.fromkeys(lost, 1))
    start = mixed_families.start(data.schema, structure.adjacency, structure.lagged)
    return mixed_families.network(last_of(algorithm, federation, start).server, 1.0, lags=1)


def forecast(data, network, lost=(), *, center=True):
    algorithm = registry.build(AlgorithmSpec("forecast-errors", ForecastErrors(center=center)))
    federation = Losing(data.schema, data.tables, dict.fromkeys(lost, 1))
    return last_of(algorithm, federation, forecast_errors.start_forecasts(data.schema, network)).server


@pytest.mark.parametrize("lost", [(), ("silo-2",)])
def test_families_and_errors_are_those_of_pooled_windows(data, lost):
    (u, v, s, t), structure = graph(data)
    network = fitted(data, structure, lost)
    silos = [silo for silo in data.tables if silo not in lost]
    parts = [windows(data.tables[silo], data.schema.stretches[silo], 1) for silo in silos]
    rows, about = np.concatenate(parts), np.concatenate([part - part.mean(axis=0) for part in parts])
    for child, parent in ((v, u), (u, 4 + v)):
        slope = about[:, parent] @ about[:, child] / (about[:, parent] @ about[:, parent])
        local = network.local[child]
        assert local.weights == pytest.approx([slope], rel=1e-6)
        assert local.variance == pytest.approx(np.mean((about[:, child] - slope * about[:, parent]) ** 2), rel=1e-6)
    counts = pd.crosstab(rows[:, s], rows[:, t]).to_numpy() + 1 / 6
    np.testing.assert_allclose(network.local[t].table, counts / counts.sum(axis=1, keepdims=True), rtol=1e-6)
    assert (network.structure.weights == structure.weights).all()
    assert (network.structure.lagged == structure.lagged).all()
    server = forecast(data, network, lost)
    errors = forecast_errors.forecasts(server, network)
    assert server.rows == len(rows)
    left = about[:, u] - network.local[u].weights[0] * about[:, 4 + v]
    # The means of the rows and of the rows before differ by the ends of the series.
    assert errors.model[u] == pytest.approx(np.mean(left**2), rel=1e-3)
    assert errors.persistence[u] == pytest.approx(np.mean((about[:, u] - about[:, 4 + u]) ** 2), rel=1e-3)
    likeliest = network.local[s].table.argmax(axis=1)[rows[:, 4 + s].astype(int)]
    assert errors.model[s] == pytest.approx(np.mean(rows[:, s] != likeliest))
    assert errors.persistence[t] == pytest.approx(np.mean(rows[:, t] != rows[:, 4 + t]))


@pytest.fixture(scope="module")
def by_hand():
    """a = .8 a[t-1] + N(0, 1); s = on with the log odds 3 a; b = 2 [s = on] + N(0, .04)."""
    names, levels = ("a", "s", "b"), {"s": ("off", "on"), "s[t-1]": ("off", "on")}
    local = (
        Linear(0.0, np.array([0.8]), 1.0),
        Logistic(np.zeros(2), np.array([[0.0], [3.0]])),
        Linear(0.0, np.array([2.0]), 0.04),
        *(Linear(0.0, np.empty(0), 1.0), Tabular(np.array([0.5, 0.5])), Linear(0.0, np.empty(0), 1.0)),
    )
    return numbered(names, levels, ((3,), (0,), (1,), (), (), ()), local, lags=1)


def test_a_forecast_averages_over_what_happens_in_the_same_row(by_hand):
    """E[1 / (1 + exp(−3a))] with a ~ N(.8, 1), by quadrature; the value at the mean of a would be .917."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    on = float(weights @ (1 / (1 + np.exp(-3 * (0.8 + nodes)))) / weights.sum())
    found = by_hand.forecast(np.array([[9.0, 0.0, 9.0], [1.0, 0.0, 0.0]]), draws=200_000)
    assert found["a"] == pytest.approx(0.8)
    assert found["s"]["on"] == pytest.approx(on, abs=0.004)
    assert found["b"] == pytest.approx(2 * on, abs=0.008)
    with pytest.raises(ValueError, match="a past of 1 rows or more, not 0"):
        by_hand.forecast(np.empty((0, 3)))


def test_a_past_with_an_empty_cell_is_refused(by_hand):
    past = np.array([[9.0, np.nan, 9.0], [1.0, 0.0, 0.0]])
    assert by_hand.forecast(past)["a"] == pytest.approx(0.8)
    with pytest.raises(ValueError, match="needs a past without empty cells"):
        by_hand.forecast(past[::-1])


def test_the_past_of_labels_may_be_a_table_of_words(by_hand):
    past = pd.DataFrame({"b": [1.0], "s": ["on"], "a": [2.0]})
    assert by_hand.forecast(past) == by_hand.forecast(np.array([[2.0, 1.0, 1.0]]))
    with pytest.raises(ValueError, match="column 's' of the past of a forecast: 'up' is not a number or a level"):
        by_hand.forecast(past.assign(s="up"))


@pytest.mark.slow
def test_a_drawn_series_follows_the_network_and_what_is_fixed(by_hand):
    table = by_hand.series(20_000, np.random.default_rng(1), {})
    assert table[1:, 0] @ table[:-1, 0] / (table[:-1, 0] @ table[:-1, 0]) == pytest.approx(0.8, abs=0.02)
    assert table[:, 1].mean() == pytest.approx(0.5, abs=0.05)
    fixed = by_hand.series(500, np.random.default_rng(1), {"s": "on"})
    assert (fixed[:, 1] == 1).all()
    assert fixed[:, 2].mean() == pytest.approx(2.0, abs=0.05)


def test_a_network_over_time_reads_back(by_hand):
    adjusted = replace(by_hand, adjustment=Adjustment(detrend=True))
    again = network_from_json(json.loads(json.dumps(network_as_json(adjusted))), "model.json")
    assert again.lags == 1
    assert network_as_json(again) == network_as_json(adjusted)
    assert again.adjustment == adjusted.adjustment
    assert again.levels == {"s": ("off", "on"), "s[t-1]": ("off", "on")}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"nodes": []}'])
def test_a_request_without_a_network_is_refused(data, content):
    algorithm = registry.build(AlgorithmSpec("forecast-errors", ForecastErrors()))
    federation = InProcessFederation(data.schema, data.tables)
    with pytest.raises(BadInput, match="a request for forecasts"):
        federation.exchange(algorithm, 1, forecast_errors.ForecastRequest(content))


def test_numbers_are_forecast_about_the_means_of_their_silo(data):
    (u, *_), structure = graph(data)
    network = fitted(data, structure)
    apart = {silo: table.copy() for silo, table in data.tables.items()}
    for k, table in enumerate(apart.values()):
        table[:, u] += 50.0 * k
    other = replace(data, tables=apart)
    plain, centred = (forecast_errors.forecasts(forecast(one, network), network) for one in (data, other))
    np.testing.assert_allclose(plain.model, centred.model, atol=1e-9)
    free = forecast_errors.forecasts(forecast(other, network, center=False), network)
    assert free.model[u] > 100 * plain.model[u]
