"""Log likelihoods of rows against scipy's densities, and against tables looked up by hand."""

import numpy as np
import pytest
from scipy import stats

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.networks import Network, linear_network
from tests.algorithms.parameters.networks import numbered


def test_a_gaussian_network_is_a_normal_distribution():
    W = np.array([[0, 2.0, 0], [0, 0, -0.5], [0, 0, 0]])
    intercepts, variances = np.array([1.0, 0.0, 3.0]), np.array([1.0, 0.25, 4.0])
    back = np.linalg.inv(np.eye(3) - W)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    joint = stats.multivariate_normal(intercepts @ back, back.T @ np.diag(variances) @ back)
    found = linear_network(Structure(("a", "b", "c"), W), intercepts, variances).log_likelihood(rows)
    assert found == pytest.approx(joint.logpdf(rows))


def test_a_discrete_network_multiplies_its_tables():
    network = Network(
        ("x", "y"),
        {"x": ("0", "1"), "y": ("a", "b", "c")},
        {"x": ("y",), "y": ()},
        {"x": np.array([[0.9, 0.1], [0.5, 0.5], [1.0, 0.0]]), "y": np.array([0.2, 0.3, 0.5])},
    )
    found = network.log_likelihood(np.array([[1, 0], [0, 1], [1, 2]]))
    assert found == pytest.approx(np.log([0.2 * 0.1, 0.3 * 0.5, 1e-999]), abs=1e-12)


def test_a_mixed_network_multiplies_densities_and_probabilities():
    network = numbered(
        ("g", "x", "h"),
        {"g": ("a", "b"), "h": ("u", "v")},
        ((), (0,), (1,)),
        (
            Tabular(np.array([0.3, 0.7])),
            Linear(1.0, np.array([2.0]), 0.25),
            Logistic(np.array([0.0, -1.0]), np.array([[0.0], [0.5]])),
        ),
    )
    (found,) = network.log_likelihood(np.array([[1.0, 2.5, 1.0]]))
    score = np.exp(-1 + 0.5 * 2.5)
    assert found == pytest.approx(np.log(0.7) + stats.norm(3.0, 0.5).logpdf(2.5) + np.log(score / (1 + score)))


def test_rows_of_time_series_have_none():
    structure = Structure(("a",), np.zeros((1, 1)), lagged=np.full((1, 1, 1), 0.5))
    network = linear_network(structure, *(np.ones(1),) * 4)
    with pytest.raises(ValueError, match="rows of time series are not independent"):
        network.log_likelihood(np.ones((2, 1)))
