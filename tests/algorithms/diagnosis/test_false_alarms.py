"""False alarms of the silo diagnoses on clean data, for all error distributions and silo sizes."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis.change import long_run_ratio
from fedbnsl.algorithms.diagnosis.exchange import _better_by_own, _outlying

ERRORS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "laplace": lambda rng, size: rng.laplace(size=size),
    "uniform": lambda rng, size: rng.uniform(size=size),
    "gumbel": lambda rng, size: rng.gumbel(size=size),
}


def gains(rng, rows, others, parents, slope=0.0, errors="normal"):
    """The figures of one silo whose last variable depends on `parents` others, by weights that differ by `slope`."""
    d = parents + 1
    weights, moments = rng.normal(size=parents), []
    for n, own in ((rows, slope), (others, 0.0)):
        X = rng.normal(size=(n, d))
        X[:, -1] = X[:, :-1] @ (weights + own) + ERRORS[errors](rng, n)
        X -= X.mean(axis=0)
        moments.append(X.T @ X / n)
    graph = np.zeros((d, d), bool)
    graph[:-1, -1] = True
    return _better_by_own(*moments, graph, (rows, others), 4)


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize(("rows", "others"), [(60, 1000), (1000, 60), (400, 400), (30, 40)])
def test_equal_weights_are_said_to_differ_in_at_most_one_of_a_hundred(errors, rows, others):
    """There are 4 silos and 5 variables: each of 20 comparisons may be wrong in .5 % / 20 of the runs."""
    rng = np.random.default_rng(7)
    wrong = sum(gains(rng, rows, others, parents=4, errors=errors).any() for _ in range(400))
    assert wrong <= 1


def diagnosed(make, graph, silos=6, transform="none"):
    """The findings on `silos` tables of `make(rng, silo)` from a run with this required graph."""
    rng, names = np.random.default_rng(11), [f"x{v}" for v in range(len(graph))]
    tables = {f"s{k}": pd.DataFrame(make(rng, k), columns=names) for k in range(silos)}
    arcs = [f"{names[i]}->{names[j]}" for i, j in np.argwhere(graph)]
    found = learn(
        tables, "secure-linear", required_arcs=",".join(arcs), transform=transform, parameters=False, bootstrap=0
    )
    return {one.name for one in found.result.diagnosed.findings}


def test_a_row_with_far_parents_does_not_give_a_silo_other_weights():
    """One wrong row can change a silo's own regression; only a difference in all its rows means different weights."""

    def far(rng, k):
        x = rng.normal(size=300)
        y = x + rng.normal(size=300)
        x[0], y[0] = (40.0, -40.0) if k == 0 else (x[0], y[0])
        return np.column_stack([x, y])

    def other(rng, k):
        x = rng.normal(size=300)
        return np.column_stack([x, (1.0 - 0.7 * (k == 0)) * x + rng.normal(size=300)])

    graph = np.array([[0, 1], [0, 0]])
    assert "silo with different weights" not in diagnosed(far, graph)
    assert "silo with different weights" in diagnosed(other, graph)


def test_ranks_of_each_silo_are_neither_other_weights_nor_curves():
    """Normal scores differ between silos by about 1/√n, which is large against the residual of a strong effect."""

    def strong(rng, k):
        x = rng.normal(size=(200, 3))
        x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
        return np.column_stack([x, x.sum(axis=1) + 0.1 * rng.normal(size=200)])

    graph = np.zeros((4, 4))
    graph[:3, 3] = 1
    assert not diagnosed(strong, graph, silos=8, transform="normal-scores") & {
        "silo with different weights",
        "weights differ",
        "not linear",
    }


def test_weights_that_differ_are_noticed():
    rng = np.random.default_rng(8)
    noticed = sum(gains(rng, 200, 800, parents=3, slope=0.5)[-1] > 0 for _ in range(50))
    assert noticed >= 49


@pytest.mark.parametrize("errors", ERRORS)
def test_the_tail_of_a_column_is_no_outlier(errors):
    X = ERRORS[errors](np.random.default_rng(9), (20_000, 5))
    assert _outlying(X)[0] < 3e-4
    X[:200] += 15 * X.std(axis=0)
    share, _ = _outlying(X)
    assert 0.006 < share < 0.011


def test_autocorrelated_series_that_are_related_by_chance_have_no_weights_of_their_own():
    rng = np.random.default_rng(9)
    wrong, naive = 0, 0
    for _ in range(100):
        series = [rng.normal(size=(n, 2)) for n in (300, 900)]
        for X in series:
            for t in range(1, len(X)):
                X[t] += 0.95 * X[t - 1]
            X -= X.mean(axis=0)
        own, rest = (X.T @ X / len(X) for X in series)
        graph = np.array([[False, True], [False, False]])
        wrong += _better_by_own(own, rest, graph, (300, 900), 4, in_order=series[0]).any()
        naive += _better_by_own(own, rest, graph, (300, 900), 4).any()
    assert wrong <= 5
    assert naive >= 15
    assert long_run_ratio(rng.normal(size=(500, 3))) < 2


def test_the_far_cells_of_a_heavy_tail_are_no_outliers():
    """With t-distributed errors of 3 degrees of freedom, .23 % of the cells are as extreme as wrong ones."""
    for seed in range(20):
        X = np.random.default_rng(seed).standard_t(3, size=(600, 5))
        assert _outlying(X)[0] < 3e-3
    X = np.random.default_rng(1).standard_t(3, size=(20_000, 5))
    assert _outlying(X)[0] == 0
    X[:200] += 15 * X.std(axis=0)
    assert _outlying(X)[0] > 4e-3
