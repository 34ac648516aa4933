"""BOSS on a covariance against all DAGs of few variables, scored by least squares on rows."""

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.score.gaussian_order import Prior, _graph, _select, _sweep, gaussian_boss
from fedbnsl.algorithms.score.order_starts import SCORE_TOLERANCE
from fedbnsl.algorithms.score.settings import OrderSettings
from tests.algorithms.score.small_dags import all_dags

# Three starts that agree may all have missed the best score.
THOROUGH = OrderSettings(starts=30, agreeing_starts=10)


def left_of(X, parents, j):
    """The mean squared residual of column j on `parents`, by least squares."""
    if not len(parents):
        return float(np.mean(X[:, j] ** 2))
    weights = np.linalg.lstsq(X[:, parents], X[:, j], rcond=None)[0]
    return float(np.mean((X[:, j] - X[:, parents] @ weights) ** 2))


def families(X, price):
    """Return the score function of a family (parents, j): −n/2·ln v − price/2·k."""

    @functools.cache
    def score(parents, j):
        return -0.5 * len(X) * math.log(left_of(X, list(parents), j)) - 0.5 * price * len(parents)

    return score


def score_of(dag, score):
    return sum(score(tuple(map(int, np.flatnonzero(dag[:, j]))), j) for j in range(len(dag)))


def rows_of(d, n, seed, density=0.6):
    rng = np.random.default_rng(seed)
    names = rng.permutation(d)
    W = (np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < density), 1))[np.ix_(names, names)]
    X = (rng.normal(size=(n, d)) * rng.uniform(0.3, 3, d)) @ np.linalg.inv(np.eye(d) - W)
    X -= X.mean(axis=0)
    return X, X.T @ X / n


def test_there_are_as_many_dags_as_counted_by_robinson():
    assert [len(all_dags(d)) for d in (2, 3, 4)] == [3, 25, 543]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("d", "n"), [(3, 40), (4, 60), (4, 500)])
def test_no_dag_scores_better(d, n, seed):
    X, S = rows_of(d, n, seed)
    price = math.log(n)
    score = families(X, price)
    found = gaussian_boss(S, n, price, OrderSettings())
    best = max(score_of(dag, score) for dag in all_dags(d))
    assert found.score == pytest.approx(best, abs=1e-6)
    assert score_of(found.dag, score) == pytest.approx(found.score, abs=1e-6)


def test_no_dag_of_five_variables_scores_better():
    for seed in range(3):
        X, S = rows_of(5, 200, 300 + seed)
        price = math.log(200) + 2 * math.log(5)
        score = families(X, price)
        found = gaussian_boss(S, 200, price, OrderSettings())
        assert found.score == pytest.approx(best_over_orders(5, score), abs=1e-6)


def best_over_orders(d, score):
    """The best score of any DAG: of the best order, each variable with the best of the sets before it."""

    @functools.cache
    def best(before, j):
        return max(score(parents, j) for k in range(len(before) + 1) for parents in itertools.combinations(before, k))

    orders = itertools.permutations(range(d))
    return max(sum(best(tuple(sorted(order[:k])), j) for k, j in enumerate(order)) for order in orders)


@pytest.mark.parametrize("seed", range(6))
def test_columns_in_another_order_or_another_unit_give_the_same_class(seed):
    _, S = rows_of(8, 1000, 400 + seed, density=0.3)
    found = gaussian_boss(S, 1000, math.log(1000), THOROUGH)
    rng = np.random.default_rng(seed)
    mixed, units = rng.permutation(8), 10.0 ** rng.uniform(-6, 6, 8)
    again = gaussian_boss(S[np.ix_(mixed, mixed)], 1000, math.log(1000), replace(THOROUGH, seed=7))
    scaled = gaussian_boss(S * np.outer(units, units), 1000, math.log(1000), THOROUGH)
    np.testing.assert_array_equal(cpdag(again.dag), cpdag(found.dag)[np.ix_(mixed, mixed)])
    np.testing.assert_array_equal(cpdag(scaled.dag), cpdag(found.dag))
    assert scaled.score == pytest.approx(found.score - 1000 * np.log(units).sum())


@pytest.mark.parametrize("seed", range(8))
def test_prior_knowledge_holds_and_the_best_dag_that_agrees_is_found(seed):
    X, S = rows_of(4, 100, 500 + seed)
    rng = np.random.default_rng(seed)
    names = rng.permutation(4)
    required = np.zeros((4, 4), bool)
    required[names[0], names[1]] = True
    possible = ((rng.random((4, 4)) < 0.6) | required) & ~required.T
    score = families(X, math.log(100))
    agree = [dag for dag in all_dags(4) if (dag <= possible).all() and (dag >= required).all()]
    found = gaussian_boss(S, 100, math.log(100), OrderSettings(), Prior(possible, required))
    assert (found.dag <= possible).all()
    assert (found.dag >= required).all()
    best = max(score_of(dag, score) for dag in agree)
    assert found.score == pytest.approx(best, abs=1e-6)


def selected(S, j, before, price, possible=None, required=None):
    """Return the result of `_select` for variable j: its cost, and its sorted parents."""
    d = len(S)
    possible = np.ones((d, d), bool) if possible is None else possible
    required = np.zeros((d, d), bool) if required is None else required
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    cost, candidates, _, chosen, *_ = _select(R, j, before, price, possible, required, np.empty((d, d)))
    return cost, sorted(map(int, candidates[chosen]))


@pytest.mark.parametrize("seed", range(8))
def test_parents_are_grown_and_shrunk_as_by_least_squares(seed):
    n, price = 120, math.log(120) / 120
    X, S = rows_of(6, n, 600 + seed)
    X = X / np.sqrt(np.diag(S))
    before = np.array([False, True, True, True, True, True])

    def cost(parents):
        return math.log(left_of(X, parents, 0)) + price * len(parents)

    parents = []
    while True:
        tries = {p: cost([*parents, p]) for p in range(1, 6) if p not in parents}
        if not tries or min(tries.values()) >= cost(parents):
            break
        parents.append(min(tries, key=tries.__getitem__))
    while parents:
        tries = {p: cost([q for q in parents if q != p]) for p in parents}
        if min(tries.values()) >= cost(parents):
            break
        parents.remove(min(tries, key=tries.__getitem__))
    found, chosen = selected(S, 0, before, price)
    assert chosen == sorted(parents)
    assert found == pytest.approx(cost(parents))


def test_a_required_parent_is_taken_whatever_it_explains_and_an_impossible_one_is_not():
    _, S = rows_of(5, 300, 9)
    before = np.array([False, True, True, True, True])
    required, possible = np.zeros((5, 5), bool), np.ones((5, 5), bool)
    required[3, 0], possible[2, 0] = True, False
    _, chosen = selected(S, 0, before, 100.0, possible, required)
    assert chosen == [3]
    _, chosen = selected(S, 0, before, 0.0, possible, required)
    assert chosen == [1, 3, 4]
    late, _ = selected(S, 0, np.array([False, True, True, False, True]), 100.0, possible, required)
    assert late > 900


def test_a_column_twice_is_no_second_parent():
    X, _ = rows_of(4, 200, 11, density=1.0)
    twice = np.column_stack([X, 3 * X[:, 0]])
    found = gaussian_boss(twice.T @ twice / 200, 200, math.log(200), OrderSettings())
    assert math.isfinite(found.score)
    assert found.dag[0, 4] | found.dag[4, 0]
    assert not (found.dag[0] & found.dag[4]).any()


def test_starts_end_once_enough_agree():
    _, S = rows_of(4, 500, 12)
    assert gaussian_boss(S, 500, math.log(500), OrderSettings(agreeing_starts=2)).starts == 2
    found = gaussian_boss(S, 500, math.log(500), OrderSettings(agreeing_starts=9, starts=5))
    assert (found.starts, found.agreeing) == (5, 5)
    with pytest.raises(BadInput, match="starts is 0"):
        OrderSettings(starts=0)


def moved_one_by_one(R, order, price, possible, required):
    """One sweep in which all parents are selected anew for every position of every variable."""
    for x in order.copy():
        rest, at = order[order != x], int(np.argmax(order == x))
        tries = [np.concatenate([rest[:i], [x], rest[i:]]) for i in range(len(order))]
        totals = np.array([_graph(R, one, price, possible, required)[1] for one in tries])
        if totals[at] > totals.min() + SCORE_TOLERANCE:
            order = tries[int(np.argmax(totals <= totals.min() + SCORE_TOLERANCE))]
    return order


@pytest.mark.parametrize("seed", range(6))
def test_a_sweep_moves_variables_as_if_all_parents_were_selected_anew(seed):
    """The cases have background knowledge, columns that precede all others, and a penalty with long paths."""
    rng, d, lagged = np.random.default_rng(seed), 11, 3
    _, S = rows_of(d + lagged, 300, 700 + seed, density=0.5)
    R = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    possible = rng.random(R.shape) < (0.7 if seed % 2 else 1.0)
    np.fill_diagonal(possible, False)
    order, required = rng.permutation(d), np.zeros(R.shape, bool)
    for a, b in rng.choice(d, (2, 2), replace=False):
        required[a, b] = possible[a, b] = seed % 2
    price = (0.3, 2.0, 9.0)[seed % 3] / 300
    expected = moved_one_by_one(R, order, price, possible, required)
    assert not np.array_equal(expected, order)
    np.testing.assert_array_equal(_sweep(R, order, order, price, possible, required, 1), expected)


def test_more_parents_than_a_path_stores_are_all_found():
    """A sum of 134 independent columns has them all as parents, wherever the search begins."""
    S = np.eye(135)
    S[134, :134] = S[:134, 134] = 1.0
    S[134, 134] = 135.0
    assert gaussian_boss(S, 100_000, 20.0, OrderSettings(starts=1)).dag[:134, 134].all()
