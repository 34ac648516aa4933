"""Curved effects are detected in the rows of each silo, and linear effects are not reported as curved."""

import math

import numpy as np
import pytest

from fedbnsl.algorithms.diagnosis.change import hotelling_bound
from fedbnsl.algorithms.diagnosis.curvature import MAX_ENLARGEMENT, _bound, chi_square_bound, curvature

ALL = np.ones(3, np.bool_)


def rows_of(effect, n=2000, seed=1, errors="normal"):
    """Rows of x → y with this `effect`, and of a third variable; y is the second column."""
    rng = np.random.default_rng(seed)
    draw = {"normal": rng.normal, "t3": lambda size: rng.standard_t(3, size=size)}[errors]
    X = draw(size=(n, 3))
    X[:, 1] += effect(X[:, 0])
    return X


def shares(X, joined, means=None, S=None, numbers=ALL):
    parents = np.zeros((3, 3), np.bool_)
    for i, j in joined:
        parents[i, j] = True
    S = np.cov(X[~np.isnan(X).any(axis=1)].T) if S is None else S
    return curvature(X, np.nanmean(X, axis=0) if means is None else means, S, parents, numbers, 0.01)


@pytest.mark.parametrize("effect", [lambda x: 2 * np.tanh(2 * x), lambda x: x + x**2, lambda x: np.sin(2 * x)])
def test_a_curved_effect_of_a_parent(effect):
    found = shares(rows_of(effect), [(0, 1)])
    assert found[1] > 0.05
    assert (found[[0, 2]] < 0.01).all()


def test_the_square_of_a_variable_that_is_not_joined():
    X = rows_of(np.square)
    assert shares(X, [])[1] > 0.3
    assert shares(X, [(2, 1)])[1] > 0.3
    assert shares(X, [], numbers=np.array([False, True, True]))[1] < 0.01
    shifted = rows_of(lambda x: 2 * x + x**2)
    assert shares(shifted, [])[1] < 0.01  # correlated by chance: an edge would be learned, and reported as curved


@pytest.mark.parametrize("errors", ["normal", "t3"])
def test_linear_effects_have_no_share(errors):
    for seed in range(5):
        X = rows_of(lambda x: 1.5 * x, seed=seed, errors=errors)
        assert (shares(X, [(0, 1)]) == 0).all()


def test_curves_of_few_rows_are_no_evidence():
    """In 300 silos of 60 rows with exponential errors, shares are large by chance, and few are significant."""
    rng, large, found = np.random.default_rng(0), 0, 0
    graph = np.zeros((9, 9), np.bool_)
    graph[:8, 8] = True
    for _ in range(300):
        X = rng.exponential(size=(60, 9))
        X[:, 8] += X[:, :8].sum(axis=1)
        args = (X, X.mean(axis=0), np.cov(X.T), graph, np.ones(9, np.bool_))
        large += curvature(*args, 18.0).max() > 0.06  # every family counts
        found += curvature(*args, 0.01).max() > 0.06
    assert large > 50
    assert found <= 5


def test_weights_of_the_silos_own_are_not_curvature():
    """Predictions use the weights of all silos, but the regression on the parents is the silo's own."""
    X = rows_of(lambda x: 0.2 * x)
    elsewhere = np.cov(rows_of(lambda x: 1.2 * x, seed=2).T)
    assert shares(X, [(0, 1)], S=elsewhere)[1] < 0.02


def test_rows_without_a_cell_are_left_out():
    X = rows_of(lambda x: np.tanh(2 * x))
    whole = shares(X, [(0, 1)])
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.1] = np.nan
    np.testing.assert_allclose(shares(X, [(0, 1)])[1], whole[1], atol=0.05)
    X[:1980, 0] = np.nan
    assert shares(X, [(0, 1)])[1] == 0


def slow(seed, n=300, joined=True):
    """Two unrelated slow series with a curved relation by chance; the rows are `in_order` or not."""
    rng, parents = np.random.default_rng(seed), np.zeros((2, 2), np.bool_)
    X = rng.normal(size=(n, 2))
    for t in range(1, n):
        X[t] += 0.95 * X[t - 1]
    parents[0, 1] = joined
    args = (X, X.mean(axis=0), np.cov(X.T), parents, np.ones(2, np.bool_), 0.01)
    return curvature(*args, variables=len(args[1])), curvature(*args)


@pytest.mark.parametrize("joined", [True, False])
def test_slow_series_are_not_curved_by_chance(joined):
    """If the graph lacks the slow cause of a variable, the residual is slow.

    Products of two variables are slow, too.
    """
    found = np.array([[(one > 0).any() for one in slow(seed, joined=joined)] for seed in range(60)])
    in_order, naive = found.sum(axis=0)
    assert in_order <= 3
    assert naive >= (15 if joined else 3)


@pytest.mark.parametrize("joined", [[(0, 1)], []])
def test_curves_in_series_are_found(joined):
    X = rows_of(lambda x: 2 * np.tanh(2 * x) if joined else x**2)
    graph = np.zeros((3, 3), np.bool_)
    for i, j in joined:
        graph[i, j] = True
    args = (X, X.mean(axis=0), np.cov(X.T), graph, ALL, 0.01)
    np.testing.assert_array_equal(curvature(*args, variables=len(args[1])), curvature(*args))
    assert curvature(*args)[1] > 0.05


def test_rows_in_passes_give_the_same():
    class Passes:
        shape = (2000, 3)

        def __iter__(self):
            return (X[begin : begin + 300] for begin in range(0, 2000, 300))

    X = rows_of(lambda x: np.tanh(2 * x) + x**2)
    parents = np.zeros((3, 3), np.bool_)
    parents[0, 1] = True
    args = (X.mean(axis=0), np.cov(X.T), parents, ALL, 0.01)
    np.testing.assert_allclose(curvature(Passes(), *args), curvature(X, *args), atol=1e-9)


def test_the_curves_of_slow_series_rest_on_few_windows():
    """The bound is Hotelling's, with a limited effective number of windows; for unordered rows it is that of χ²."""
    plain = chi_square_bound(3, 1e-3)
    assert _bound(3, math.inf, 1e-3) == plain
    assert plain < _bound(3, 1000.0, 1e-3) == hotelling_bound(3, 1000.0, 1e-3) < MAX_ENLARGEMENT * plain
    assert _bound(3, 20.0, 1e-3) == MAX_ENLARGEMENT * plain
