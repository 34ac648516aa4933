"""Learners from private moments treat the noise as a loss of rows."""

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.moments.pooled import PooledLearner, learn_from_moments, rows_with_noise
from fedbnsl.data.generators.linear import homogeneous


@pytest.mark.parametrize("learner", ["notears-admm", "fed-sparse", "equal-variance"])
def test_noise_adds_few_edges(learner):
    """If the moments were taken as exact, regressions on 40,000 rows would find dozens of edges in the noise."""
    wrong = []
    for seed in (3, 5, 6):
        data = homogeneous(variables=20, silos=8, rows=5000, seed=seed)
        found = learn(data, "dp-covariance", epsilon=1.0, seed=seed, learner=learner, insecure_seed=seed)
        wrong.append(found.metrics["shd"])
    assert np.mean(wrong) <= 8


@pytest.mark.parametrize(("rows", "noise", "expected"), [(1000, 0.0, 1000), (10_000, 0.01, 99), (50, 10.0, 1)])
def test_rows_with_noise(rows, noise, expected):
    assert rows_with_noise(rows, noise) == expected


NAMES = tuple("abcdefgh")


@pytest.mark.parametrize("learner", ["pc", "ges"])
def test_learners_of_classes_allow_for_the_noise_of_moments(learner):
    """Noisy moments of independent variables have correlations that exact moments of these rows never have."""
    rng, d = np.random.default_rng(4), len(NAMES)
    error = np.triu(rng.normal(0, 0.05, (d, d)), 1)
    S, settings = np.eye(d) + error + error.T, PooledLearner(learner=learner)
    found = [learn_from_moments(S, 100_000, NAMES, settings, noise).weights.any() for noise in (0.0, 0.05)]
    assert found == [True, False]
