"""Weak effects under exact and approximate models: when weak edges are kept, and reversals of uncertain edges."""

import math

import numpy as np
import pytest

from fedbnsl.algorithms.moments.edge_reversals import order_after_reversals
from fedbnsl.algorithms.moments.elimination import backward_elimination
from fedbnsl.algorithms.moments.equal_variance import (
    EXPECTED_SPREAD_FACTOR,
    best_equal_variance_fit,
    variance_spread,
)
from fedbnsl.data.generators.random_graphs import random_dag
from tests.algorithms.moments.test_decisions import exact, learned, of_model

D, EDGES, ROWS = 20, 40, 4000


def weak_model(seed, low=0.1, high=0.5):
    rng = np.random.default_rng(seed)
    dag = random_dag(D, EDGES, rng, "ER")
    return dag * rng.uniform(low, high, (D, D)) * rng.choice([-1.0, 1.0], (D, D)), rng


def moments_of(weights, rng, rows, rounded=False):
    X = rng.normal(size=(rows, len(weights))) @ np.linalg.inv(np.eye(len(weights)) - weights)
    X = np.rint(X) if rounded else X
    return np.cov(X.T)


def wrong_edges(found, truth):
    A, B = found != 0, truth != 0
    return int(np.triu((A != B) | (A.T != B.T)).sum())


def test_reversals_find_the_directions_of_weak_edges():
    """The top-down order alone has 5 wrong edges on average, and 10 or more on some seeds."""
    wrong = []
    for seed in range(20, 30):
        weights, rng = weak_model(seed)
        wrong.append(wrong_edges(best_equal_variance_fit(moments_of(weights, rng, ROWS), ROWS).weights, weights))
    assert np.mean(wrong) <= 2.5


def test_reversals_lower_the_score_and_keep_a_dag():
    weights, rng = weak_model(3)
    S = moments_of(weights, rng, 600)
    price = math.log(600) + 2 * math.log(D)
    reversed_order = np.argsort(np.argsort(rng.random(D)))
    before = backward_elimination(S, reversed_order, 600, price)
    order = order_after_reversals(S, before != 0, price / 600)
    after = backward_elimination(S, order, 600, price)
    assert sorted(order) == list(range(D))

    def cost(W):
        R = np.eye(D) - W
        return np.trace(R.T @ S @ R) + price / 600 * np.count_nonzero(W)

    assert cost(after) < cost(before)


@pytest.mark.parametrize(("factor", "edges"), [(0.9, 1), (1.1, 0)])
def test_edges_below_tau_stay_if_error_variances_are_equal_up_to_sampling_error(factor, edges):
    """The weight is 0.25, below τ = 0.3: the edge stays if the spread of the variances is below the bound."""
    rows = {"a": 700, "b": 500}
    freedom = sum(rows.values()) - len(rows)
    wanted, low, high = factor * EXPECTED_SPREAD_FACTOR / freedom, 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if variance_spread(np.exp(middle * np.arange(3))) < wanted else (low, middle)
    weights = np.zeros((3, 3))
    weights[0, 1], weights[1, 2] = 0.25, 2.0
    *_, structure = learned("secure-linear", exact(of_model(weights, np.exp(low * np.arange(3))), rows))
    assert structure.kind == "dag"
    assert structure.adjacency[1, 2]
    assert structure.adjacency[0, 1] == bool(edges)


def test_an_approximate_model_adds_no_weak_edges():
    """Columns rounded to integers have an error that no linear model describes, so τ is needed where it is assumed."""
    weights, rng = weak_model(5, 0.5, 2.0)
    X = np.rint(rng.normal(size=(ROWS, D)) @ np.linalg.inv(np.eye(D) - weights))
    *_, structure = learned("secure-linear", {"a": X[:1500], "b": X[1500:]})
    assert wrong_edges(structure.weights, weights) <= 3
    *_, without = learned("secure-linear", {"a": X[:1500], "b": X[1500:]}, threshold=0.0, error_variances="equal")
    assert wrong_edges(without.weights, weights) > 10


@pytest.mark.parametrize("seed", range(8))
def test_no_reversal_closes_a_cycle(seed):
    """In a complete graph with a random order, almost every edge is better reversed."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(7, 7))
    dag = np.triu(np.ones((7, 7), bool), 1)
    assert sorted(order_after_reversals(A @ A.T / 7, dag, 0.01)) == list(range(7))
