"""Orders and eliminated parents against plain least squares on rows."""

import math

import numpy as np
import pytest

from fedbnsl.algorithms.moments import elimination as module
from fedbnsl.algorithms.moments.elimination import backward_elimination, squared_t_values
from fedbnsl.algorithms.moments.equal_variance import respect_precedence
from fedbnsl.algorithms.score.gaussian_order import Prior
from fedbnsl.algorithms.statistics.moments import top_down_order


def order_of(S, precedes):
    return np.argsort(top_down_order(S, precedes)[0])


def rows_of(d, n, seed):
    """Centred rows of a random dense linear model with unequal errors, and their covariance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.3, 2, d)
    for j, i in enumerate(rng.permutation(d)):
        X[:, i] += X[:, rng.permutation(d)[: j // 2]].sum(axis=1) * 0.4
    X -= X.mean(axis=0)
    return X, X.T @ X / n


def left_of(X, parents, j):
    """The mean squared residual of column j on the columns `parents`, and the weights."""
    if not parents:
        return float(np.mean(X[:, j] ** 2)), np.empty(0)
    weights = np.linalg.lstsq(X[:, parents], X[:, j], rcond=None)[0]
    return float(np.mean((X[:, j] - X[:, parents] @ weights) ** 2)), weights


def backward(X, order, price, possible, required):
    """Weights by taking out, with a regression for each try, the parent whose loss is least."""
    n, d = X.shape
    weights = np.zeros((d, d))
    for place, j in enumerate(order):
        parents = [int(i) for i in order[:place] if possible[i, j]]
        while True:
            now = left_of(X, parents, j)[0]
            loss = {
                i: n * math.log(left_of(X, [p for p in parents if p != i], j)[0] / now)
                for i in parents
                if not required[i, j]
            }
            if not loss or min(loss.values()) >= price:
                break
            parents.remove(min(loss, key=loss.__getitem__))
        weights[parents, j] = left_of(X, parents, j)[1]
    return weights


def unknown(d):
    return np.ones((d, d), bool), np.zeros((d, d), bool)


@pytest.mark.parametrize("seed", range(12))
def test_elimination_is_that_of_one_regression_after_another(seed):
    rng = np.random.default_rng(100 + seed)
    d, n = int(rng.integers(2, 9)), int(rng.integers(40, 200))
    X, S = rows_of(d, n, seed)
    order, price = rng.permutation(d), float(rng.uniform(0, 20))
    expected = backward(X, order, price, *unknown(d))
    found = backward_elimination(S, order, n, price)
    np.testing.assert_array_equal(found != 0, expected != 0)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_impossible_parents_are_never_there_and_required_ones_always(seed):
    rng = np.random.default_rng(200 + seed)
    d, n = 7, 80
    X, S = rows_of(d, n, seed)
    order = rng.permutation(d)
    earlier = np.argsort(order)[:, None] < np.argsort(order)[None, :]
    required = (rng.random((d, d)) < 0.2) & earlier
    possible = (rng.random((d, d)) < 0.6) | required
    found = backward_elimination(S, order, n, 9.0, Prior(possible, required))
    assert (found[required] != 0).all()
    assert not found[~possible].any()
    np.testing.assert_allclose(found, backward(X, order, 9.0, possible, required), atol=1e-9)


def test_a_price_of_nothing_keeps_all_and_a_great_one_keeps_none():
    X, S = rows_of(6, 50, 3)
    order = np.arange(6)
    for j in range(1, 6):
        np.testing.assert_allclose(
            backward_elimination(S, order, 50, 0.0)[:j, j], left_of(X, list(range(j)), j)[1], atol=1e-9
        )
    assert not backward_elimination(S, order, 50, 1e4).any()


@pytest.mark.parametrize(("d", "n"), [(20, 4), (30, 8), (12, 12), (60, 22)])
def test_fewer_rows_than_variables_still_give_finite_weights(d, n):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        X -= X.mean(axis=0)
        S = X.T @ X / (n - 1)
        found = backward_elimination(
            S * (1 + 1e-9 * np.eye(d)), rng.permutation(d), n - 1, math.log(n) + 2 * math.log(d)
        )
        assert np.isfinite(found).all()
        assert np.abs(found).max() < 1e3


@pytest.mark.parametrize("seed", range(8))
def test_the_order_takes_the_least_residual_on_all_before(seed):
    X, S = rows_of(7, 60, 50 + seed)
    left, expected = list(range(7)), []
    while left:
        expected.append(min(left, key=lambda v: left_of(X, expected, v)[0]))
        left.remove(expected[-1])
    nothing = np.zeros((7, 7), bool)
    assert order_of(S, nothing).tolist() == expected
    mixed = np.random.default_rng(seed).permutation(7)
    assert mixed[order_of(S[np.ix_(mixed, mixed)], nothing)].tolist() == expected


def test_equal_error_variances_give_an_order_of_the_true_graph():
    rng = np.random.default_rng(4)
    for _ in range(20):
        d = int(rng.integers(2, 15))
        names = rng.permutation(d)
        W = np.triu(rng.uniform(0.5, 2, (d, d)) * (rng.random((d, d)) < 0.5), 1)[np.ix_(names, names)]
        inverse = np.linalg.inv(np.eye(d) - W)
        order = order_of(inverse.T @ inverse, np.zeros((d, d), bool))
        assert not np.tril(W[np.ix_(order, order)]).any()
        np.testing.assert_allclose(backward_elimination(inverse.T @ inverse, order, 10**6, 10.0), W, atol=1e-6)


def test_what_precedes_comes_first_and_the_rest_keeps_its_order():
    precedes = np.zeros((5, 5), bool)
    precedes[4, 0] = precedes[3, 1] = True
    assert respect_precedence(np.array([0, 1, 2, 3, 4]), precedes).tolist() == [2, 3, 1, 4, 0]
    assert respect_precedence(np.array([4, 3, 2, 1, 0]), precedes).tolist() == [4, 3, 2, 1, 0]
    S = np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    assert order_of(S, precedes).tolist() == [2, 3, 1, 4, 0]


def one_by_one(S, precedes):
    """The order by least Schur complement, with one elimination step for each variable."""
    residual, left, order, variances = S.copy(), list(range(len(S))), [], np.empty(len(S))
    while left:
        j = min((v for v in left if not precedes[left, v].any()), key=lambda v: residual[v, v])
        left.remove(j)
        order.append(j)
        variances[j] = residual[j, j]
        residual = residual - np.outer(residual[:, j], residual[j]) / residual[j, j]
    return order, variances


@pytest.mark.parametrize("d", [1, 63, 64, 65, 150])
def test_panels_of_variables_have_the_order_of_single_ones(d):
    rng = np.random.default_rng(d)
    X, tier = rng.normal(size=(3 * d, d)) @ (np.eye(d) + rng.normal(size=(d, d)) / (2 * d)), rng.integers(0, 3, d)
    S = X.T @ X / (3 * d)
    for precedes in (np.zeros((d, d), bool), tier[:, None] < tier):
        order, variances = one_by_one(S, precedes)
        np.testing.assert_array_equal(order_of(S, precedes), order)
        np.testing.assert_allclose(top_down_order(S, precedes)[1], variances, rtol=1e-8)


def test_of_many_variables_only_candidates_with_a_sizeable_t_value_are_eliminated_one_by_one():
    """The screened elimination is that of the candidates above the bound, and finds the graph."""
    d, n, rng = 130, 6000, np.random.default_rng(8)
    W = np.triu(rng.random((d, d)) < 3 / d, 1) * rng.uniform(0.4, 1.2, (d, d))
    X = rng.normal(size=(n, d)) @ np.linalg.inv(np.eye(d) - W)
    S, order = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0)) / n, np.arange(d)
    price, possible, required = math.log(n) + 2 * math.log(d), *unknown(d)
    found = backward_elimination(S, order, n, price)
    np.testing.assert_array_equal(found != 0, W != 0)
    last = np.flatnonzero(squared_t_values(S, order, n)[:, d - 1] >= module.MIN_CANDIDATE_T**2)
    few = np.append(last, d - 1)
    expected = backward_elimination(S[np.ix_(few, few)], np.arange(len(few)), n, price)[:-1, -1]
    np.testing.assert_allclose(found[last, d - 1], expected, atol=1e-9)
    absent = np.argwhere((W == 0) & np.triu(np.ones((d, d), bool), 1))[40]
    present = np.argwhere(W)[40]
    required[tuple(absent)], possible[tuple(present)] = True, False
    known = backward_elimination(S, order, n, price, Prior(possible, required))
    assert known[tuple(absent)] != 0
    assert known[tuple(present)] == 0


def test_what_is_known_of_another_order_changes_no_elimination():
    """Variables with the candidates that they had before are not eliminated again, and the others are."""
    d, n, rng = 130, 6000, np.random.default_rng(8)
    _, S = rows_of(d, n, 9)
    order, price, known = np.arange(d), math.log(n) + 2 * math.log(d), {}
    first = backward_elimination(S, order, n, price, None, known)
    for _ in range(3):
        at = rng.integers(d - 1)
        order[at : at + 2] = order[at : at + 2][::-1].copy()
        found = backward_elimination(S, order, n, price, None, known)
        np.testing.assert_array_equal(found, backward_elimination(S, order, n, price))
    assert not np.array_equal(found, first)


def test_few_rows_a_variable_are_not_screened(monkeypatch):
    """Of 5 rows a variable, parents that explain only together have small t-values: all of them are eliminated."""
    _, S = rows_of(110, 550, 4)
    screened = backward_elimination(S, np.arange(110), 550, 16.0)
    monkeypatch.setattr(module, "MAX_UNSCREENED", 1000)
    np.testing.assert_array_equal(screened, backward_elimination(S, np.arange(110), 550, 16.0))
    many = backward_elimination(S, np.arange(110), 5500, 16.0)
    monkeypatch.undo()
    assert not np.array_equal(many, backward_elimination(S, np.arange(110), 5500, 16.0))


@pytest.mark.parametrize("rows_per_variable", [2.05, 4.0])
def test_with_few_rows_screening_keeps_what_explains_only_jointly(rows_per_variable, monkeypatch):
    """At 300 variables a quarter of the candidates is left, and the parents are nearly those without screening."""
    d = 300
    n = int(rows_per_variable * d)
    rng = np.random.default_rng(5)
    W = np.triu(rng.random((d, d)) < 3 / d, 1) * rng.uniform(0.4, 0.9, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    S = np.cov(rng.normal(size=(n, d)) @ np.linalg.inv(np.eye(d) - W), rowvar=False)
    order, price = np.arange(d), math.log(n) + 2 * math.log(d)
    sizes = []
    among = module.eliminate_among
    monkeypatch.setattr(
        module,
        "eliminate_among",
        lambda S, candidates, *more: sizes.append(candidates.sum()) or among(S, candidates, *more),
    )
    screened = backward_elimination(S, order, n, price)
    monkeypatch.setattr(module, "KEPT_BY_CHANCE", d)
    whole = backward_elimination(S, order, n, price)
    assert ((screened != 0) != (whole != 0)).sum() <= 0.02 * (whole != 0).sum()
    assert len(sizes) == 1
    assert sizes[0] < 0.85 * d * (d - 1) / 2
