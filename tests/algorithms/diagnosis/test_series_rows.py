"""The windows of a silo used for comparison: all of a series in memory, evenly spaced ones of a large series."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis import series_rows
from fedbnsl.algorithms.diagnosis.exchange import open_windows
from fedbnsl.algorithms.diagnosis.series_rows import SEASONAL_FACTORS, spacing


class Cut:
    """A table in memory that is handed out in chunks of 97 rows."""

    def __init__(self, table):
        self.table, self.shape = table, table.shape

    def __iter__(self):
        return (self.table[begin : begin + 97] for begin in range(0, len(self.table), 97))


@pytest.fixture
def drawn():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(3000, 3)).cumsum(axis=0) * 0.01 + rng.normal(size=(3000, 3)) + 50
    stretches = {"one": (900, 1, 1500, 10, 589)}
    return table, Schema(("a", "b", "c"), {"one": 3000}, "time-series", stretches=stretches)


def test_few_windows_are_all_compared(drawn):
    table, schema = drawn
    whole, read = (series_rows.series_rows(one, schema, "one", 2) for one in (table, Cut(table)))
    assert np.allclose(read.windows, whole.windows, atol=1e-9)
    assert np.allclose(read.products, whole.products, rtol=1e-9, atol=1e-6)
    for name in ("times", "count", "means"):
        assert np.allclose(getattr(read, name), getattr(whole, name))
    # The longest series in its windows: without its first rows, and centred at other means.
    for name in ("beginning", "spaced"):
        found, expected = getattr(read, name), getattr(whole, name)[2:]
        assert np.allclose(found - found.mean(axis=0), expected - expected.mean(axis=0), atol=1e-9)


def test_of_many_windows_a_sample_is_compared_with_the_moments_of_all(drawn, monkeypatch):
    table, schema = drawn
    whole = series_rows.series_rows(table, schema, "one", 1)
    monkeypatch.setattr(series_rows, "SAMPLE_CELLS", 0)
    monkeypatch.setattr(series_rows, "MIN_SAMPLE_ROWS", 300)
    monkeypatch.setattr(series_rows, "SEASON_ROWS", 200)
    read = series_rows.series_rows(Cut(table), schema, "one", 1)
    step = spacing(len(whole.windows), 300)
    assert step == 11
    assert np.allclose(read.windows, whole.windows[::step], atol=1e-9)
    assert np.allclose(read.times, whole.times[::step])
    assert np.allclose(read.products, whole.products, rtol=1e-9, atol=1e-6)
    assert (read.count, len(read.beginning)) == (len(whole.windows), 200)
    assert np.allclose(np.diff(read.spaced, axis=0), np.diff(whole.spaced[1 :: spacing(1499, 200)], axis=0), atol=1e-9)
    silo = open_windows(Cut(table), replace(schema, rows={"one": 3000}), "one", 1)
    assert silo.rows == len(whole.windows)
    own = read.windows - read.windows.mean(axis=0)
    assert np.allclose(silo.own, own.T @ own / len(own))
    assert np.allclose(silo.products, whole.products, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize(("rows", "most"), [(10, 10), (11, 10), (1000, 10), (24_000, 1000), (0, 5)])
def test_windows_are_apart_by_no_part_of_a_season(rows, most):
    step = spacing(rows, most)
    assert math.gcd(step, SEASONAL_FACTORS) == 1
    assert rows / step <= most or step == 1
