"""Random walks are distinguished from series that return slowly to a level, if the series are long enough."""

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis.unit_root import SLOW_RETURN, drawn_t_values, own_t_values, unit_roots
from fedbnsl.algorithms.statistics.lagged import centred_windows
from fedbnsl.data.federated import FederatedData, time_series


def series(rng, n, own, d=4):
    """A chain x0 → x1 → ... within a step, whose variables have the effect `own` on themselves."""
    x, total = np.zeros((n + 200, d)), np.linalg.inv(np.eye(d) - np.diag([0.4] * (d - 1), 1))
    for t in range(1, len(x)):
        x[t] = (own * x[t - 1] + rng.normal(size=d)) @ total
    return x[200:]


def findings(own, lengths, seed=0, secure=False):
    rng = np.random.default_rng(seed)
    tables = {f"s{k}": series(rng, n, own) * [1, 100, 1, 1] + rng.normal(0, 5, 4) for k, n in enumerate(lengths)}
    schema = time_series(tables, {silo: (len(X),) for silo, X in tables.items()}, ("a", "b", "c", "e"))
    result = learn(FederatedData(schema, tables), "secure-linear", parameters=False, bootstrap=0, secure=secure).result
    return {one.name: one for one in result.diagnosed.findings if one.name in ("unit root", "slow series")}


@pytest.mark.compiles
@pytest.mark.parametrize("secure", [False, True])
def test_a_slow_return_in_many_series_is_no_random_walk(secure):
    """Effects of slow causes are even slower: alone, the last variable of the chain looks like a random walk."""
    for seed in range(3):
        assert findings(0.93, (150, 200, 250, 200, 200), seed, secure) == {}


def test_random_walks_in_one_long_series_and_in_many_are_found():
    for lengths in ((1500,), (400, 500, 600, 500)):
        found = findings(np.array([0.3, 0.3, 0.3, 1.0]), lengths)
        assert list(found) == ["unit root"]
        assert found["unit root"].message.startswith("e: without a level")
        assert "--difference" in found["unit root"].advice


def test_short_series_are_said_to_be_undecided():
    assert list(findings(0.96, (80,))) == ["slow series"]


def test_the_statistic_is_that_of_dickey_fuller():
    """The t-value of a regression with an own mean by silo, from the moments or from the rows."""
    rng = np.random.default_rng(1)
    tables = [np.cumsum(rng.normal(size=(n, 1)), axis=0) for n in (60, 90)]
    rows = np.concatenate([centred_windows(X, (len(X),), 1) for X in tables])
    found = own_t_values(rows.T @ rows / len(rows), np.zeros((2, 2), np.bool_), 1, len(rows))
    slope = rows[:, 1] @ rows[:, 0] / (rows[:, 1] @ rows[:, 1])
    error = np.sqrt(((rows[:, 0] - slope * rows[:, 1]) ** 2).sum() / (len(rows) - 1) / (rows[:, 1] @ rows[:, 1]))
    assert found[:, 0] == pytest.approx([(slope - 1) / error, (slope - SLOW_RETURN) / error])


@pytest.mark.parametrize("learned", [False, True])
def test_what_shadows_the_own_past_does_not_make_a_walk_of_a_slow_return(learned):
    """Beside a noisy copy of the past, the own coefficient is uncertain: 1 and the true .97 are both possible."""
    rng, lengths = np.random.default_rng(4), [(200,)] * 5
    for _ in range(10):
        rows = []
        for (n,) in lengths:
            y = rng.normal(size=n + 100)
            for t in range(1, len(y)):
                y[t] += 0.97 * y[t - 1]
            X = np.column_stack([y, y + 0.8 * rng.normal(size=len(y))])[100:]
            rows.append(centred_windows(X, (n,), 1))
        windows, parents = np.concatenate(rows), np.zeros((4, 4), np.bool_)
        parents[3, 0] = learned
        t = own_t_values(windows.T @ windows / len(windows), parents, 2, len(windows))
        assert not len(unit_roots(t, lengths, np.array([True, False])).walks)


def test_a_slow_cause_that_the_graph_lacks_does_not_make_a_walk_of_its_effect():
    """A slow cause makes its effect slower, so the effect alone looks like a random walk."""
    rng, lengths, parents = np.random.default_rng(5), [(300,)] * 5, np.zeros((4, 4), np.bool_)
    parents[[2, 3], [0, 1]] = True
    for _ in range(10):
        rows = []
        for (n,) in lengths:
            x = rng.normal(size=(n + 200, 2))
            for t in range(1, len(x)):
                x[t] += 0.95 * x[t - 1] + [0.0, 0.4 * x[t - 1, 0]]
            rows.append(centred_windows(x[200:], (n,), 1))
        windows = np.concatenate(rows)
        t = own_t_values(windows.T @ windows / len(windows), parents, 2, len(windows))
        assert not len(unit_roots(t, lengths, np.array([False, True])).walks)


def test_with_too_few_windows_for_all_lagged_variables_nothing_is_a_walk():
    """With few rows, the graph lacks causes. A series that drifts from its mean may return to it given these causes."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 31))
    for t in range(1, len(x)):
        x[t] += 1.1 * x[t - 1]
    rows = centred_windows(x, (60,), 1)
    t = own_t_values(rows.T @ rows / len(rows), np.eye(62, k=-31, dtype=np.bool_), 31, len(rows))
    assert np.isfinite(t[0]).all()
    found = unit_roots(t, [(60,)], np.ones(31, np.bool_))
    assert not len(found.walks)
    assert len(found.undecided) == 31


def test_the_drawn_distribution_is_that_of_the_published_table():
    """Fuller 1976, one long series with a mean: mean −1.53, 5 % quantile −2.86; a mean per series shifts both."""
    drawn = drawn_t_values([(1000,)], 1.0, np.random.default_rng(2))
    assert drawn.mean() == pytest.approx(-1.53, abs=0.12)
    assert np.quantile(drawn, 0.05) == pytest.approx(-2.86, abs=0.25)
    shifted = drawn_t_values([(100,)] * 5, 1.0, np.random.default_rng(2))
    assert shifted.mean() < -2.3
    cut = drawn_t_values([(100,) * 5], 1.0, np.random.default_rng(2))
    assert cut.mean() == pytest.approx(shifted.mean(), abs=0.2)


def test_states_are_not_tested():
    found = unit_roots(np.array([[0.0, 0.0], [9.0, 9.0]]), [(2000,)], np.array([False, True]))
    assert list(found.walks) == [1]
