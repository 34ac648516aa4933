"""The spectral radius states how fast a shock to a dynamic model decays."""

import numpy as np
import pytest

from fedbnsl.algorithms.statistics.moments import spectral_radius


def test_of_one_variable_it_is_the_largest_root_of_its_polynomial():
    """The polynomial is z² − 0.5 z − 0.24 = (z − 0.8)(z + 0.3)."""
    assert spectral_radius(np.zeros((1, 1)), np.array([[[0.5]], [[0.24]]])) == pytest.approx(0.8)


def test_it_is_the_rate_at_which_a_shock_dies_away():
    rng = np.random.default_rng(0)
    weights, lagged = np.triu(rng.normal(size=(4, 4)), 1), rng.normal(size=(3, 4, 4)) / 4
    total = np.linalg.inv(np.eye(4) - weights)
    x = [np.zeros(4), np.zeros(4), np.ones(4)]
    sizes = []
    for _ in range(3000):
        x = [*x[1:], sum(x[-i] @ lagged[i - 1] for i in (1, 2, 3)) @ total]
        sizes.append(np.linalg.norm(np.concatenate(x)))
        x = [one / sizes[-1] for one in x]
    assert np.exp(np.log(sizes[500:]).mean()) == pytest.approx(spectral_radius(weights, lagged), rel=1e-3)


def test_a_model_that_cannot_be_solved_for_the_present_is_not_stable():
    assert spectral_radius(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros((1, 2, 2))) == np.inf
