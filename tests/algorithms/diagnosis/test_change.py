"""Weights that change over time: the sums against ordinary regressions, false alarms, and power."""

import numpy as np
import pytest
from scipy import stats

from fedbnsl.algorithms.diagnosis.change import (
    CHANGE_FALSE_ALARMS,
    TIMES,
    change_tests,
    children_of,
    effective_windows,
    fluctuations,
    long_run_ratio,
    relative_times,
)
from fedbnsl.algorithms.statistics.packing import from_triangle

PARENTS = np.zeros((6, 6), bool)
PARENTS[[0, 3], 1], PARENTS[[1, 4, 5], 2], PARENTS[3, 0] = True, True, True
"""the true edges in windows of three variables and one lag"""


def drawn(seed, n, change=0.0):
    """Windows `[n, 6]` of x0 → x1 → x2 with lagged effects; the effect of x0 on x1 changes half-way."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n + 1, 3))
    for t in range(1, n + 1):
        e = rng.normal(size=3)
        x[t, 0] = 0.5 * x[t - 1, 0] + e[0]
        x[t, 1] = (0.5 + change * (t > n / 2)) * x[t, 0] + 0.3 * x[t - 1, 0] + e[1]
        x[t, 2] = 0.5 * x[t, 1] + 0.3 * x[t - 1, 1] + 0.3 * x[t - 1, 2] + e[2]
    return np.hstack([x[1:], x[:-1]])


def sums_of(rows, all_windows, lengths=None):
    return fluctuations(rows, relative_times(lengths or [len(rows)]), PARENTS, 3, np.ones(6), all_windows)


def by_regressions(rows, j, time):
    """The statistic at `time`: products of residuals with earlier regressors that are adjusted for all others."""
    pa, n, rows = np.flatnonzero(PARENTS[:, j]), len(rows), rows - rows.mean(axis=0)
    X = np.column_stack([np.ones(n), rows[:, pa]])
    before = ((np.arange(n) + 0.5) / n < time)[:, None]
    first = X * before
    errors = rows[:, j] - X @ np.linalg.lstsq(X, rows[:, j])[0]
    products, weights = X * errors[:, None], np.linalg.lstsq(X, first)[0]
    total = (before * products - products @ weights).sum(axis=0)[1:]
    for part in np.array_split(np.arange(n), 4):
        products[part] -= products[part].mean(axis=0)
    net = (before * products - products @ weights)[:, 1:]
    return total @ np.linalg.inv(net.T @ net * n / (n - len(pa) - 4)) @ total


def test_the_sums_are_those_of_added_regressors():
    """By Frisch & Waugh, these are the products of the earlier regressors after regression on all regressors."""
    rows = drawn(0, 200)
    sums, begin = sums_of(rows, 200.0), 0
    for j in children_of(PARENTS, 3):
        k = PARENTS[:, j].sum()
        begin += 2 * k
        for time in TIMES:
            S, V = sums[begin : begin + k], from_triangle(sums[begin + k : begin + k + k * (k + 1) // 2])
            assert S @ np.linalg.inv(V) @ S == pytest.approx(by_regressions(rows, j, time), rel=1e-8)
            begin += k + k * (k + 1) // 2
    assert begin == len(sums)


def test_the_bound_is_that_of_hotelling_for_all_tests_together():
    rows = drawn(0, 200)
    found = change_tests(sums_of(rows, 200.0), 200.0, PARENTS, 3, 0.01)
    for at, j in enumerate(children_of(PARENTS, 3)):
        k = PARENTS[:, j].sum()
        bound = k * 199 / (200 - k) * stats.f(k, 200 - k).isf(0.01 / 9)
        largest = max(by_regressions(rows, j, time) for time in TIMES)
        assert 0.5 < found.ratios[at] / (largest / bound) <= 1 + 1e-9


def test_sums_of_silos_find_what_none_of_them_can():
    tables = [drawn(seed, 120, 0.4) for seed in range(6)]
    each = [sums_of(rows, 720.0) for rows in tables]
    assert all(change_tests(own, 120.0, PARENTS, 3, CHANGE_FALSE_ALARMS / 6).ratios.max() < 1 for own in each)
    found = change_tests(np.sum(each, axis=0), 720.0, PARENTS, 3, CHANGE_FALSE_ALARMS)
    assert (found.ratios > 1).tolist() == [False, True, False]
    assert found.when[1] == 0.5


def test_units_and_offsets_do_not_matter():
    rows, units = drawn(1, 150, 0.5), np.array([1e-3, 1e4, 1.0, 7.0, 1.0, 0.1])
    one = change_tests(sums_of(rows, 150.0), 150.0, PARENTS, 3, 0.01)
    scaled = fluctuations(rows * units + 30 * units, relative_times([150]), PARENTS, 3, units, 150.0)
    np.testing.assert_allclose(change_tests(scaled, 150.0, PARENTS, 3, 0.01).ratios, one.ratios, rtol=1e-6)


@pytest.mark.parametrize("growing", [False, True])
def test_constant_weights_are_not_said_to_change(growing):
    """This also holds if all standard deviations triple over time."""
    wrong = 0
    for seed in range(200):
        rows = drawn(seed, 150) * (np.linspace(1, 3, 150)[:, None] if growing else 1.0)
        wrong += change_tests(sums_of(rows, 150.0), 150.0, PARENTS, 3, 0.02).ratios.max() > 1
    assert wrong <= 8


def test_autocorrelated_errors_are_no_change():
    """Two unrelated slow series are joined by an edge without lags.

    Without long-run variances, 13 would be reported.
    """
    parents = np.zeros((2, 2), bool)
    parents[0, 1] = True
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = np.zeros((300, 2))
        for t in range(1, 300):
            x[t] = 0.6 * x[t - 1] + rng.normal(size=2)
        sums = fluctuations(x, relative_times([300]), parents, 2, np.ones(2), 300.0)
        wrong += change_tests(sums, 300.0, parents, 2, 0.02).ratios.max() > 1
    assert wrong <= 9


@pytest.mark.slow
def test_slow_series_have_few_independent_windows():
    """Their squares stay large for long, so variances of products rest on few independent numbers."""
    rng, parents, ratios = np.random.default_rng(0), np.zeros((6, 6), bool), []
    parents[3:, :3] = True
    for _ in range(150):
        series = rng.normal(size=(201, 3, 5))
        series[0] /= np.sqrt(1 - 0.97**2)
        for t in range(1, 201):
            series[t] += 0.97 * series[t - 1]
        tables = [np.hstack([x[1:], x[:-1]]) for x in np.moveaxis(series, 2, 0)]
        sums = sum(fluctuations(rows, relative_times([200]), parents, 3, np.ones(6), 1000.0) for rows in tables)
        S = sum(np.cov(rows.T) for rows in tables)
        ratios.append([change_tests(sums, 1000.0, parents, 3, 0.02, moments).ratios.max() for moments in (S, None)])
    wrong, naive = (np.array(ratios) > 1).sum(axis=0)
    assert wrong <= 5
    assert naive >= 7
    S = np.eye(4) + np.diag([0.6, 0.6], 2) + np.diag([0.6, 0.6], -2)
    assert effective_windows(100.0, S, np.array([3]), 2) == pytest.approx(100 * 0.64 / 1.36)
    assert effective_windows(100.0, S, np.array([0]), 4) == 100


def test_the_long_run_variance_of_a_slow_column_reaches_beyond_the_bandwidth():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 1))
    for t in range(1, 4000):
        x[t] += 0.9 * x[t - 1]
    assert long_run_ratio(x) == pytest.approx(19, rel=0.25)


def test_every_series_has_its_own_times_and_few_windows_send_zeros():
    np.testing.assert_allclose(relative_times([2, 0, 4]), [0.25, 0.75, 0.125, 0.375, 0.625, 0.875])
    short = drawn(0, 39)
    assert not sums_of(short, 39.0).any()
    assert len(sums_of(short, 39.0)) == len(sums_of(drawn(0, 200), 200.0))


def test_windows_with_an_empty_cell_are_left_out_of_the_regressions_that_need_it():
    rng = np.random.default_rng(0)
    rows, times = rng.standard_normal((200, 4)), relative_times([200])
    parents = np.zeros((4, 4), np.bool_)
    parents[2, 0] = parents[3, 1] = True
    holed = rows.copy()
    holed[rng.choice(200, 30, replace=False), 2] = np.nan
    known = ~np.isnan(holed[:, 2])
    found, expected, other = (
        fluctuations(*given, parents, 2, np.ones(4), 200.0)
        for given in ((holed, times), (rows[known], times[known]), (rows, times))
    )
    half = len(found) // 2
    np.testing.assert_allclose(found[:half], expected[:half])
    np.testing.assert_allclose(found[half:], other[half:])
