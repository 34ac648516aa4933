"""The nonlinear generator draws from the model of Zheng et al. 2020, and a seed repeats the data."""

import numpy as np
import pytest
from scipy.special import expit

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.generators.nonlinear import nonlinear, nonlinear_sem, random_perceptrons


def test_what_a_perceptron_leaves_of_a_variable_is_standard_normal():
    dag = np.zeros((3, 3), dtype=bool)
    dag[2, 0] = dag[0, 1] = dag[2, 1] = True
    perceptrons = random_perceptrons(dag, np.random.default_rng(1))
    assert {j: (inner.shape, outer.shape) for j, (inner, outer) in perceptrons.items()} == {
        0: ((1, 100), (100,)),
        1: ((2, 100), (100,)),
    }
    drawn = nonlinear_sem(dag, perceptrons, 50_000, np.random.default_rng(2))
    expected = np.zeros_like(drawn)
    for j, (inner, outer) in perceptrons.items():
        expected[:, j] = expit(drawn[:, dag[:, j]] @ inner) @ outer
    noise = drawn - expected
    np.testing.assert_allclose(np.cov(noise.T), np.eye(3), atol=0.03)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.02)
    assert np.var(drawn[:, 0]) > 2, "its parent matters"


def test_more_rows_and_more_silos_leave_the_rest_as_it_was():
    small, large = nonlinear(6, 2, 20, seed=3), nonlinear(6, 4, 50, seed=3)
    np.testing.assert_array_equal(small.truth.weights, large.truth.weights)
    np.testing.assert_allclose(small.tables["silo-1"], large.tables["silo-1"][:20])
    assert not np.allclose(large.tables["silo-1"], large.tables["silo-2"])


def test_the_columns_are_in_no_causal_order_and_there_are_as_many_edges_as_variables():
    truths = [nonlinear(10, 1, 2, seed).truth.weights for seed in range(60)]
    forward = sum(np.triu(truth).sum() for truth in truths)
    every = sum(truth.sum() for truth in truths)
    assert abs(every / 60 - 10) < 1.5
    assert abs(forward / every - 0.5) < 0.1
    assert nonlinear(6, 1, 2, seed=1, edges=0).truth.weights.sum() == 0


def test_it_says_how_it_was_made():
    about = nonlinear(5, 2, 10, seed=4).about
    assert (about["generator"], about["seed"]) == ("nonlinear", 4)
    assert about["parameters"] == {"variables": 5, "silos": 2, "rows": 10, "edges": 5, "graph": "ER"}


def test_too_many_edges_are_refused():
    with pytest.raises(BadInput, match="edges: 11"):
        nonlinear(5, 1, 10, seed=1, edges=11)
