"""Likelihood ratio tests of mixed data against determinants, simulation and Fisher's z."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from fedbnsl.algorithms.constraint.moment_tests import fisher_z, likelihood_ratio
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.coding import Blocks, blocks_of, coding_of
from fedbnsl.algorithms.statistics.moments import centred_moments
from fedbnsl.data.generators.mixed import mixed


def test_the_statistic_is_that_of_four_determinants():
    data = mixed(5, 2, 150, 3, edges=7)
    coding = coding_of(data.schema)
    blocks = blocks_of(sum(centred_moments(coding.encode(t), (len(t),)) for t in data.tables.values()), coding)
    first = blocks.first

    def det(*members):
        at = np.concatenate([[], *(np.arange(first[v], first[v + 1]) for v in members)]).astype(int)
        return np.linalg.det(blocks.R[np.ix_(at, at)])

    tests = np.array([[0, 1, -1, -1], [0, 1, 2, -1], [3, 2, 0, 4], [4, 0, 1, 3]], np.int16)
    found = likelihood_ratio(blocks, tests)
    width = np.diff(first)
    for t, (x, y, *rest) in enumerate(tests.tolist()):
        z = [v for v in rest if v >= 0]
        ratio = det(x, y, *z) * det(*z) / (det(x, *z) * det(y, *z))
        rows = blocks.rows - width[z].sum() - (width[x] + width[y] + 1) / 2
        assert found.p[t] == pytest.approx(chi2.sf(-rows * np.log(ratio), width[x] * width[y]), rel=1e-6)
        assert found.strength[t] == pytest.approx(np.sqrt(1 - ratio ** (1 / min(width[x], width[y]))), rel=1e-6)


def test_independent_columns_have_uniform_p_values_and_dependent_ones_do_not():
    """A label with three levels, and a number, that depend on a third column alone."""
    schema = Schema(("label", "number", "cause"), {"s": 300}, "mixed", {"label": ("a", "b", "c")})
    coding, rng = coding_of(schema), np.random.default_rng(0)
    given, alone = [], []
    for _ in range(400):
        cause = rng.normal(size=300)
        label = (np.outer(cause, (0.0, 1.0, -1.0)) + rng.gumbel(size=(300, 3))).argmax(axis=1)
        table = np.column_stack([label, cause + rng.normal(size=300), cause])
        blocks = blocks_of(centred_moments(coding.encode(table), (300,)), coding)
        p = likelihood_ratio(blocks, np.array([[0, 1, 2], [0, 1, -1]], np.int16)).p
        given.append(p[0])
        alone.append(p[1])
    assert kstest(given, "uniform").pvalue > 0.01
    assert np.mean(np.array(alone) < 1e-3) > 0.95


def test_numbers_are_tested_about_as_by_fishers_z():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 4)) @ (np.eye(4) + 0.2 * rng.normal(size=(4, 4)))
    R = np.corrcoef(X.T)
    tests = np.array([[0, 1, -1, -1], [0, 2, 1, -1], [1, 3, 0, 2]], np.int16)
    one = likelihood_ratio(Blocks(499, R, np.arange(5)), tests)
    other = fisher_z(500, R, tests)
    np.testing.assert_allclose(one.strength, other.strength, atol=1e-9)
    np.testing.assert_allclose(one.p, other.p, atol=5e-3)


def test_a_variable_without_columns_is_independent():
    blocks = Blocks(100, np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([0, 1, 2, 2]))
    found = likelihood_ratio(blocks, np.array([[0, 2, -1], [0, 1, 2]], np.int16))
    assert found.p[0] == 1.0
    assert found.strength[0] == 0.0
    assert found.p[1] < 1e-6
