"""Fisher's z against causal-learn and least squares, and `pooled_moments` against the moments of pooled rows."""

import numpy as np
import pytest
from scipy.stats import kstest

from fedbnsl.algorithms.constraint.moment_tests import fisher_z
from fedbnsl.algorithms.statistics.moments import correlation, pooled_moments


def correlated(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 5)) @ rng.normal(size=(5, 5)) + rng.normal(size=5) * 10


def pooled(table):
    return correlation(pooled_moments(table), table.shape[1])


def test_the_p_values_of_causal_learn(causal_learn):
    table = np.array([[int(code) for code in column] for column in causal_learn["columns"]], float).T
    n, correlations = pooled(table)
    assert n == len(table)
    for test in causal_learn["tests"]:
        found = fisher_z(n, correlations, np.array([[test["x"], test["y"], *test["given"]]], np.int16))
        assert found.p[0] == pytest.approx(test["fisherz"], abs=1e-9)


def test_a_partial_correlation_is_that_of_residuals():
    table = correlated()
    n, correlations = pooled(table)
    given = np.column_stack([np.ones(len(table)), table[:, 2:4]])
    residuals = [table[:, v] - given @ np.linalg.lstsq(given, table[:, v])[0] for v in (0, 1)]
    r = np.corrcoef(residuals)[0, 1]
    found = fisher_z(n, correlations, np.array([[0, 1, 2, 3]], np.int16))
    assert found.strength[0] == pytest.approx(abs(r))


def test_tests_of_several_sizes_are_those_made_one_by_one():
    n, correlations = pooled(correlated())
    tests = np.array([[0, 1, -1, -1], [0, 1, 2, 3], [3, 4, 2, -1], [1, 2, 0, 4]], np.int16)
    each = [fisher_z(n, correlations, test[test >= 0][None]).p[0] for test in tests]
    np.testing.assert_allclose(fisher_z(n, correlations, tests).p, each)


def test_the_moments_of_silos_add_up_to_those_of_all_rows():
    table = correlated()
    added = sum(pooled_moments(part) for part in np.array_split(table, 7))
    np.testing.assert_allclose(added, pooled_moments(table))


def test_a_column_that_is_constant_in_all_silos_correlates_with_nothing_though_sums_are_rounded():
    table = correlated(401)
    table[:, 4] = 0.1
    added = sum(pooled_moments(part) for part in np.array_split(table, 7))
    np.testing.assert_array_equal(correlation(added, 5)[1][4], np.eye(5)[4])


def test_p_values_of_independent_variables_are_uniform():
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=60)
        table = np.column_stack([z + rng.normal(size=60), z + rng.normal(size=60), z])
        p.append(fisher_z(*pooled(table), np.array([[0, 1, 2]], np.int16)).p[0])
    assert kstest(p, "uniform").pvalue > 0.01


def test_copies_and_constants_give_numbers():
    table = correlated()
    table[:, 1] = table[:, 0]
    table[:, 4] = 3.0
    n, correlations = pooled(table)
    found = fisher_z(n, correlations, np.array([[0, 1, -1], [0, 4, -1], [0, 2, 1], [2, 3, 4]], np.int16))
    assert np.isfinite(found.p).all()
    assert found.p[0] < 1e-9
    assert found.p[1] == 1
