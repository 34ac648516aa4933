"""Adjusted series: a silo subtracts exactly a trend and a season, and a forecast adds them again."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.network_json import network_as_json, network_from_json
from fedbnsl.algorithms.parameters.networks import linear_network

LENGTHS = (40, 23)
TIMES = np.concatenate([np.arange(n) for n in LENGTHS])[:, None]


def season(times):
    return np.array([0.0, 3.0, -1.0, 2.0])[times % 4] * [1.0, -2.0]


@pytest.mark.parametrize(
    ("adjustment", "added"),
    [
        (Adjustment(detrend=True), 0.3 * TIMES * [1.0, -4.0]),
        (Adjustment(period=4), season(TIMES)),
        (Adjustment(detrend=True, period=4), season(TIMES) + 0.3 * TIMES),
    ],
)
def test_an_adjusted_series_does_not_depend_on_what_is_subtracted(adjustment, added):
    noise = np.random.default_rng(1).normal(size=(63, 2))
    plain, other = (adjustment.adjusted(table, LENGTHS) for table in (noise, noise + added))
    plain, other = ([part - part.mean(axis=0) for part in np.split(table, [LENGTHS[0]])] for table in (plain, other))
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-10)
    means = [part.mean(axis=0) for part in np.split(noise, [LENGTHS[0]])]
    kept = [part.mean(axis=0) for part in np.split(adjustment.adjusted(noise, LENGTHS), [LENGTHS[0]])]
    np.testing.assert_allclose(means, kept)


@pytest.mark.parametrize("adjustment", [Adjustment(True, 4), Adjustment(difference=True)])
def test_labels_beside_adjusted_numbers_stay_in_their_rows(adjustment):
    rng = np.random.default_rng(2)
    numbers, states = rng.normal(size=(63, 2)) + TIMES, rng.integers(0, 3, 63).astype(float)
    found = adjustment.adjusted(np.column_stack([numbers[:, 0], states, numbers[:, 1]]), LENGTHS, [1])
    first = [0, LENGTHS[0]] if adjustment.difference else []
    np.testing.assert_array_equal(found[:, 1], np.delete(states, first))
    np.testing.assert_array_equal(found[:, [0, 2]], adjustment.adjusted(numbers, LENGTHS))


def test_differences_cross_no_gap_and_shorten_every_stretch():
    table = np.arange(63.0)[:, None] ** 2
    found = Adjustment(difference=True).adjusted(table, LENGTHS)
    np.testing.assert_allclose(found[:, 0], np.delete(np.diff(table[:, 0]), 39))
    schema = Schema(("x",), {"s": 63}, "time-series", stretches={"s": LENGTHS})
    adjusted = schema.adjusted(Adjustment(difference=True))
    assert (adjusted.rows, adjusted.stretches) == ({"s": 61}, {"s": (39, 22)})
    assert adjusted.recorded_stretches("s") == LENGTHS
    assert adjusted.adjusted(Adjustment(difference=True)) == adjusted


@pytest.mark.parametrize("adjustment", [Adjustment(True, 4), Adjustment(difference=True), Adjustment(True, 0, True)])
def test_a_forecast_continues_trend_and_season(adjustment):
    """Without errors the next row is known: a model without effects adds only the trend and season."""
    times = np.arange(41)[:, None]
    rows = 5.0 + 0.3 * times * [1.0, -4.0] + (season(times) if adjustment.period else 0.0)
    means = np.diff(rows, axis=0).mean(axis=0) if adjustment.difference else rows[:40].mean(axis=0)
    if adjustment.detrend and adjustment.difference:
        means = np.zeros(2)
    structure = Structure(("a", "b"), np.zeros((2, 2)), lagged=np.zeros((1, 2, 2)))
    network = linear_network(structure, means, np.ones(2), means, np.ones(2), adjustment)
    np.testing.assert_allclose(network.forecast(rows[:40]), rows[40])
    again = network_from_json(network_as_json(network), "model.json")
    assert again.adjustment == adjustment
    np.testing.assert_allclose(again.forecast(rows[:40]), rows[40])
    with pytest.raises(ValueError, match="needs a past"):
        network.forecast(rows[:1])


def test_empty_cells_leave_the_fit_to_the_others():
    """That of a regression on the rows of each column that have a cell."""
    rng, adjustment = np.random.default_rng(3), Adjustment(True, 4)
    table = rng.normal(size=(40, 2)) + 0.3 * np.arange(40)[:, None] + 1e6
    table[rng.random(table.shape) < 0.2] = np.nan
    found, times = adjustment.adjusted(table, (40,)), np.arange(40)
    design = np.column_stack([times, *(times % 4 == phase for phase in range(4))]).astype(float)
    for column, own in zip(table.T, found.T, strict=True):
        known = ~np.isnan(column)
        X, y = design[known], column[known]
        np.testing.assert_allclose(own[known], y - X @ np.linalg.lstsq(X, y)[0] + y.mean(), atol=1e-7)
        assert np.isnan(own[~known]).all()


def test_a_period_of_one_row_is_refused():
    with pytest.raises(BadInput, match="--deseasonalise 1: a period has 2 rows or more"):
        Adjustment(period=1)


def test_two_seasons_become_one_that_has_both():
    assert (Adjustment(period=7) | Adjustment(period=12)).options == "--deseasonalise 84"
    assert (Adjustment(period=4) | Adjustment(detrend=True)).options == "--detrend --deseasonalise 4"
