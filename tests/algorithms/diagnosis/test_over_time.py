"""Trends, seasons and random walks are found only in series that have them, with a command that removes them."""

import re

import numpy as np
import pytest
from scipy.signal import lfilter

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis.over_time import LINE, MAX_T, _period, interpolated, seasons, trend_t_values
from fedbnsl.data.federated import FederatedData, time_series
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.dynamic import dynamic, svar
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import learn_inline, precheck


def drawn(what: str, seed: int) -> FederatedData:
    data = dynamic(5, 3, 220, seed, degree=1.6, lagged_degree=1.6)
    tables = {}
    for k, (silo, table) in enumerate(data.tables.items()):
        t = np.arange(len(table))[: 220 - 30 * k, None]
        added = {"trend": 0.04 * t, "season": 2 * np.sin(2 * np.pi * t / 12 + np.arange(5))}.get(what, 0.0)
        rows = table[: len(t)]
        tables[silo] = np.cumsum(rows, axis=0) if what == "unit root" else rows + added
    stretches = {silo: (len(table),) for silo, table in tables.items()}
    return FederatedData(time_series(tables, stretches, data.schema.variables), tables, data.truth, {}, {})


def found(folder, out, **options):
    settings = LearnSettings(data=str(folder), out=str(out), parameters=False, **options).named()
    result = learn_inline(settings, precheck(settings)).result
    return {one.name: one for one in result.diagnosed.findings}, result


@pytest.mark.parametrize(
    ("what", "advised"),
    [
        pytest.param("trend", {"detrend": True}, marks=pytest.mark.slow(60)),
        pytest.param("season", {"deseasonalise": 12}, marks=pytest.mark.slow(60)),
        ("unit root", {"difference": True}),
    ],
)
def test_what_is_advised_removes_what_was_found(tmp_path, what, advised):
    write_folder(tmp_path / "study", drawn(what, 1003))
    before, with_it = found(tmp_path / "study", tmp_path / "one", deseasonalise=0)
    ((option, value),) = advised.items()
    command = f"--{option}" if value is True else f"--{option} {value}"
    assert re.search(rf"Learn again with {command}\b", before[what].advice)
    after, without = found(tmp_path / "study", tmp_path / "other", **advised)
    assert what not in after
    assert with_it.metrics["lagged_shd"] > without.metrics["lagged_shd"]


def test_slow_series_are_compared_with_a_run_of_their_differences(tmp_path):
    tables = {
        f"s{k}": svar(0.97 * np.array([np.zeros((2, 2)), np.eye(2)]), 60, np.random.default_rng(k)) for k in (1, 2, 3)
    }
    stretches = {silo: (len(table),) for silo, table in tables.items()}
    data = FederatedData(time_series(tables, stretches, ("a", "b")), tables, None, {}, {"kind": "time-series"})
    write_folder(tmp_path / "study", data)
    before, _ = found(tmp_path / "study", tmp_path / "one", bootstrap=0)
    assert before["slow series"].advice.startswith("Compare with a run with --difference:")
    after, run = found(tmp_path / "study", tmp_path / "other", bootstrap=0, difference=True)
    assert not {"slow series", "unit root"} & set(after)
    assert run.schema.adjustment.difference


@pytest.mark.slow
def test_a_trend_that_was_removed_on_both_sides_of_a_gap_leaves_no_finding(tmp_path):
    """The two parts have different levels, which formerly looked like a random walk and like curvature."""
    data = drawn("trend", 1003)
    stretches = {silo: (100, len(table) - 110) for silo, table in data.tables.items()}
    tables = {silo: np.delete(table, range(100, 110), axis=0) for silo, table in data.tables.items()}
    gaps = FederatedData(time_series(tables, stretches, data.schema.variables), tables, data.truth, {}, {})
    write_folder(tmp_path / "study", gaps)
    before, _ = found(tmp_path / "study", tmp_path / "one")
    assert "trend" in before
    assert "unit root" not in before
    after, _ = found(tmp_path / "study", tmp_path / "other", detrend=True)
    assert set(after) <= {"site means"}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "advised"), [("trend", {"detrend": True}), ("season", {"deseasonalise": 12})])
def test_series_with_states_are_diagnosed(tmp_path, what, advised):
    """The states come first, so the index of the reported number differs from its column."""
    data = dynamic(5, 3, 220, 1, degree=1.6, lagged_degree=1.6, labels=2)
    numbers = [v for v, name in enumerate(data.schema.variables) if name not in data.schema.levels]
    at, name = numbers[-1], data.schema.variables[numbers[-1]]
    assert at > numbers.index(at)
    t = np.arange(221)
    added = {"trend": 0.04 * t, "season": 3 * np.sin(2 * np.pi * t / 12)}[what]
    for table in data.tables.values():
        table[:, at] += added
    write_folder(tmp_path / "study", data)
    before, _ = found(tmp_path / "study", tmp_path / "one", bootstrap=0)
    assert name in before[what].message
    after, _ = found(tmp_path / "study", tmp_path / "other", bootstrap=0, **advised)
    assert not after


def test_a_silo_whose_states_differ_is_named(tmp_path):
    data = dynamic(5, 4, 220, 1, degree=1.6, lagged_degree=1.6, labels=2)
    state = next(iter(data.schema.levels))
    at = data.schema.variables.index(state)
    table, last = data.tables["silo-4"], len(data.schema.levels[state]) - 1
    table[np.random.default_rng(1).random(len(table)) < 0.8, at] = last
    write_folder(tmp_path / "study", data)
    named, _ = found(tmp_path / "study", tmp_path / "one", bootstrap=0)
    assert any("silo-4" in one.silos and f"{state}=" in one.message for one in named.values())


def test_clean_series_have_neither_trend_nor_season():
    wrong = 0
    for seed in range(1000, 1060):
        tables = drawn("nothing", seed).tables.values()
        wrong += any(trend_t_values(X).max() > 6 or seasons(X)[1].any() for X in tables)
    assert wrong <= 1


def test_trends_are_those_of_any_unit_and_of_lines():
    """In large units the time was formerly left out of the regression, and a straight line had no trend."""
    rng, t = np.random.default_rng(0), np.arange(200.0)
    X = rng.normal(size=(200, 4)) + np.outer(t, [0.0, 0.0, 0.02, 0.1])
    X = np.column_stack([X, t, t + 1e-6 * X[:, 0], np.full(200, 3.0)])
    expected = trend_t_values(X)
    assert (expected[:2] < 6).all()
    assert (expected[2:4] > 6).all()
    assert list(expected[4:]) == [LINE, pytest.approx(expected[5]), 0.0]
    assert 6 < expected[5] <= MAX_T
    for unit in (1e12, 1e-12):
        np.testing.assert_allclose(trend_t_values(unit * X), expected, rtol=1e-3)
    assert not seasons(X)[1].any()


def test_the_period_of_a_season_is_not_that_of_its_trend():
    """A steep trend is explained best by other periods: formerly 23 to 28 rows were advised for 24."""
    for seed in range(10):
        rng, t = np.random.default_rng(seed), np.arange(300 + 20 * seed)
        series = rng.normal(size=len(t)) + 2 * np.sin(2 * np.pi * t / 24 + seed) + 0.2 * t
        assert list(seasons(series[:, None])[1]) == [24]


def test_a_column_that_counts_the_rows_is_to_be_ignored(tmp_path):
    data = drawn("nothing", 1003)
    for table in data.tables.values():
        table[:, 2] = np.arange(len(table))
    write_folder(tmp_path / "study", data)
    before, _ = found(tmp_path / "study", tmp_path / "one", bootstrap=0)
    name = data.schema.variables[2]
    assert before["trend"].advice == f"Learn again with --ignore {name}."
    after, _ = found(tmp_path / "study", tmp_path / "other", bootstrap=0, ignore=(name,))
    assert "trend" not in after


def test_a_period_is_not_chosen_for_its_number_of_phases():
    """With more phases, their means explain more of any noise."""
    chosen = [_period(np.random.default_rng(seed).normal(size=240), 30.0) for seed in range(200)]
    assert 29 < np.mean(chosen) < 31


def test_equal_errors_are_equal_given_the_past(tmp_path):
    """Without the lagged parents, the residual variances are unequal; the errors have variance 1."""
    model = np.zeros((2, 3, 3))
    model[1, 0, 0], model[0, 1, 2] = 0.9, 0.4
    tables = {f"s{k}": svar(model, 300 + k, np.random.default_rng(k)) for k in range(3)}
    stretches = {silo: (len(table),) for silo, table in tables.items()}
    data = FederatedData(time_series(tables, stretches, ("a", "b", "c")), tables, None, {}, {"kind": "time-series"})
    write_folder(tmp_path / "study", data)
    named, _ = found(tmp_path / "study", tmp_path / "run", algorithm="secure-sum")
    assert "unequal errors" not in named


def test_lines_join_the_cells_beside_empty_ones():
    rows = np.array([[np.nan, 1.0, np.nan], [2.0, np.nan, np.nan], [np.nan, np.nan, np.nan], [6.0, 4.0, np.nan]])
    expected = [[2.0, 1.0, 0.0], [2.0, 2.0, 0.0], [4.0, 3.0, 0.0], [6.0, 4.0, 0.0]]
    np.testing.assert_allclose(interpolated(rows), expected)


@pytest.mark.parametrize(
    ("periods", "expected"), [((24,), 24), ((7,), 7), ((24, 7), 168), ((24, 168), 168), ((12,), 12), ((), 0)]
)
def test_a_season_has_its_fundamental_period_and_two_have_that_of_both(periods, expected):
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        times, errors = np.arange(4000), rng.normal(size=4000)
        series = lfilter([1.0], [1.0, -0.7], errors)
        series = series + sum(1.5 * rng.normal(size=period)[times % period] for period in periods)
        found.append(int(seasons(series[:, None])[1][0]))
    assert found.count(expected) >= 5


def test_the_hours_of_the_day_have_a_period_of_a_day():
    assert seasons(np.arange(3000.0)[:, None] % 24)[1][0] == 24


def test_two_seasons_of_few_cycles_are_subtracted_together():
    """The advice has the period of both, and with it no lagged edge is false; by default, they are subtracted."""
    d, names = 4, tuple("abcd")
    rng, tables = np.random.default_rng(0), {}
    model = np.zeros((1, d, d))
    model[0, 0, 0], model[0, 0, 1], model[0, 1, 2], model[0, 3, 3] = 0.5, 0.5, -0.5, 0.4
    for silo in ("s0", "s1", "s2"):
        times = np.arange(600)
        waves = [2.5 * np.sin(2 * np.pi * times / period + rng.uniform(0, 6, (d, 1))).T for period in (7, 24)]
        tables[silo] = svar(model, 600, rng) + sum(waves)
    data = FederatedData(time_series(tables, dict.fromkeys(tables, (600,)), names), tables)
    before = learn(data, bootstrap=0, parameters=False, deseasonalise=0).result
    (found,) = (one for one in before.diagnosed.findings if one.name == "season")
    assert found.advice == "Learn again with --deseasonalise 168."
    assert not {"weights differ", "silo with different weights"} & {one.name for one in before.diagnosed.findings}
    after = learn(data, bootstrap=0, parameters=False, deseasonalise=168).result
    assert not ((after.structure.lagged != 0).any(axis=0) & (model[0] == 0)).any()
    assert ((before.structure.lagged != 0).any(axis=0) & (model[0] == 0)).sum() > 2
    alone = learn(data, bootstrap=0).result
    assert np.array_equal(alone.structure.lagged, after.structure.lagged)
    assert np.array_equal(alone.structure.weights, after.structure.weights)
    assert {one.name for one in alone.diagnosed.findings} == {one.name for one in after.diagnosed.findings}
    assert "Seasons of 168 rows subtracted in each series; --deseasonalise 0 keeps them." in alone.basis[0]
    assert alone.schema.adjustment.period == alone.parameters.network.adjustment.period == 168
