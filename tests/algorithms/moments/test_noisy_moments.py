"""Learners from private moments count the noise as a loss of rows."""

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.moments.pooled import rows_with_noise
from fedbnsl.data.generators.linear import homogeneous


@pytest.mark.parametrize("learner", ["notears-admm", "fed-sparse", "equal-variance"])
def test_noise_adds_few_edges(learner):
    """As if the moments were exact, regressions on 40,000 rows would find dozens of edges in the noise."""
    wrong = []
    for seed in (3, 5, 6):
        data = homogeneous(variables=20, silos=8, rows=5000, seed=seed)
        found = learn(data, "dp-covariance", epsilon=1.0, seed=seed, learner=learner, insecure_seed=seed)
        wrong.append(found.metrics["shd"])
    assert np.mean(wrong) <= 8


@pytest.mark.parametrize(("rows", "noise", "expected"), [(1000, 0.0, 1000), (10_000, 0.01, 99), (50, 10.0, 1)])
def test_rows_with_noise(rows, noise, expected):
    assert rows_with_noise(rows, noise) == expected
