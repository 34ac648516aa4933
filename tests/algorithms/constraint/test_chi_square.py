"""χ² and G² against scipy for each table, against causal-learn, and against their theoretical distribution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2, chi2_contingency, kstest

from fedbnsl.algorithms.constraint.table_tests import chi_square
from fedbnsl.algorithms.statistics.count_tables import Tables, count, tables_for

STATISTICS = pytest.mark.parametrize(("g_square", "lambda_"), [(False, "pearson"), (True, "log-likelihood")])


def p_value(table, *, g_square=False):
    """The p-value of X ⊥ Y | Z from one table `[n_x, n_y, n_z]`, or `[n_x, n_y]` without Z."""
    table = table.reshape(*table.shape[:2], -1)
    sets = np.arange(3, dtype=np.int16)[None]
    tests = np.array([[0, 1, 2]], np.int16)
    tables = Tables(sets, np.zeros(1, np.int64))
    counts = np.ascontiguousarray(table, np.float64).ravel()
    return float(chi_square(counts, tables, np.array(table.shape), tests, g_square=g_square).p[0])


def by_scipy(table, lambda_):
    """Sum of the statistics and degrees of freedom of the strata, each without the levels that do not occur in it."""
    statistic = dof = 0.0
    for z in range(table.shape[2]):
        stratum = table[:, :, z]
        stratum = stratum[stratum.any(axis=1)][:, stratum.any(axis=0)]
        if min(stratum.shape) > 1:
            found = chi2_contingency(stratum, correction=False, lambda_=lambda_)
            statistic, dof = statistic + found.statistic, dof + found.dof
    return chi2.sf(statistic, dof) if dof else 1.0


@STATISTICS
@settings(deadline=None, max_examples=60)
@given(table=arrays(np.int64, st.tuples(*[st.integers(1, 4)] * 3), elements=st.integers(0, 12)))
def test_any_table_gives_what_scipy_gives(g_square, lambda_, table):
    assert p_value(table, g_square=g_square) == pytest.approx(by_scipy(table, lambda_), abs=1e-9)


def test_a_two_way_table_needs_no_third_axis():
    table = np.array([[10, 20], [30, 15]])
    assert p_value(table) == pytest.approx(chi2_contingency(table, correction=False).pvalue)


def test_levels_and_strata_that_do_not_occur_change_nothing():
    table = np.random.default_rng(0).integers(1, 20, (2, 3, 2))
    wider = np.zeros((4, 5, 3), np.int64)
    wider[:2, 1:4, 1:] = table
    assert p_value(wider) == p_value(table)


@pytest.mark.parametrize("table", [np.zeros((2, 2)), [[5, 7], [0, 0]], [[5, 0], [3, 0]], [[4]]])
def test_without_a_degree_of_freedom_there_is_no_evidence_of_dependence(table):
    assert p_value(np.array(table)) == 1.0


def test_p_values_of_independent_variables_are_uniform():
    """The variables are independent given a common cause, and dependent without it."""
    rng = np.random.default_rng(1)
    given_z, marginal = [], []
    for _ in range(300):
        z = rng.integers(0, 3, 600)
        x, y = (rng.random((2, 600)) < np.array([0.2, 0.5, 0.8])[z]).astype(int)
        table = np.zeros((2, 2, 3), np.int64)
        np.add.at(table, (x, y, z), 1)
        given_z.append(p_value(table))
        marginal.append(p_value(table.sum(axis=2)))
    assert kstest(given_z, "uniform").pvalue > 0.01
    assert np.mean(np.array(marginal) < 0.05) == 1


@pytest.mark.parametrize(("name", "g_square"), [("chisq", False), ("gsq", True)])
def test_the_p_values_of_causal_learn(causal_learn, name, g_square):
    columns = np.array([[int(code) for code in column] for column in causal_learn["columns"]], np.int16)
    cardinalities = np.array(causal_learn["cardinalities"])
    width = max(len(test["given"]) for test in causal_learn["tests"])
    tests = np.array(
        [
            [test["x"], test["y"], *test["given"], *[-1] * (width - len(test["given"]))]
            for test in causal_learn["tests"]
        ],
        np.int16,
    )
    tables = tables_for(tests, len(columns))
    counts = count(columns, cardinalities, tables.sets).astype(np.float64)
    found = chi_square(counts, tables, cardinalities, tests, g_square=g_square).p
    np.testing.assert_allclose(found, [test[name] for test in causal_learn["tests"]], atol=1e-9)


def test_the_strength_does_not_grow_with_the_rows():
    """Twice the rows with the same shares: the same T², a smaller p."""
    sets = np.array([[0, 1]], np.int16)
    tests = np.array([[0, 1]], np.int16)
    tables, two = tables_for(tests, 2), np.array([2, 2])
    once = np.array([30, 20, 10, 40])
    one, other = (chi_square(n * once, tables, two, tests) for n in (1, 2))
    assert (tables.sets == sets).all()
    np.testing.assert_allclose(one.strength, other.strength)
    assert other.p < one.p
