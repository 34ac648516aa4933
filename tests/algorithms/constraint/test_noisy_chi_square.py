"""χ² on noisy tables: the usual test without noise, correct moments with it, and the stated rate of false alarms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.constraint.noisy_table_tests import noisy_chi_square, stratum_tests
from fedbnsl.algorithms.constraint.table_tests import chi_square
from fedbnsl.algorithms.statistics.count_tables import TableReader, count, tables_for

TEST = np.array([[0, 1, 2]], np.int16)


def p_of(table, variance):
    """The p-value of one table `[n_x, n_y, n_z]`."""
    read = TableReader(tables_for(TEST, 3), np.array(table.shape), table.ravel().astype(float))
    return noisy_chi_square(read, TEST, variance).p[0]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_without_noise_it_is_the_usual_test(seed):
    rng = np.random.default_rng(seed)
    levels = rng.integers(2, 5, 5)
    columns = np.array([rng.integers(0, n, 120) for n in levels], np.int16)
    columns[1] = np.where(rng.random(120) < 0.4, columns[0] % levels[1], columns[1])
    tests = np.array([[0, 1, -1, -1], [0, 1, 2, -1], [1, 3, 2, 4]], np.int16)
    tables = tables_for(tests, 5)
    counts = count(columns, levels, tables.sets).astype(float)
    exact = chi_square(counts, tables, levels, tests)
    noisy = noisy_chi_square(TableReader(tables, levels, counts), tests, 0.0)
    np.testing.assert_allclose(noisy.p, exact.p, atol=1e-9)
    np.testing.assert_allclose(noisy.strength, exact.strength, atol=1e-9)


@pytest.mark.parametrize("shape", [(2, 2), (3, 5)])
def test_mean_and_variance_are_those_of_the_quadratic_form(shape):
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.full(n, 5.0)) for n in shape)
    expected, variance = 4000 * np.outer(p, q), 90.0
    projections = [np.eye(len(share)) - np.sqrt(np.outer(share, share)) for share in (p, q)]
    Q = np.kron(*projections)
    A = Q + variance * Q @ np.diag(1 / expected.ravel()) @ Q
    found = stratum_tests(expected[None], variance)
    assert found.mean[0] == pytest.approx(np.trace(A))
    assert found.square[0] == pytest.approx(np.trace(A @ A))
    assert found.dof[0] == (shape[0] - 1) * (shape[1] - 1)


def noisy_tables(rng, shape, deviation, rows=8000):
    """A table of X and Y that are independent given Z, with noise."""
    n_x, n_y, n_z = shape
    table = np.zeros(shape)
    for z in range(n_z):
        shares = np.outer(rng.dirichlet(np.full(n_x, 2.0)), rng.dirichlet(np.full(n_y, 2.0)))
        table[:, :, z] = rng.multinomial(rows // n_z, shares.ravel()).reshape(n_x, n_y)
    return table + np.rint(rng.normal(0, deviation, shape))


@pytest.mark.parametrize(("shape", "deviation"), [((3, 3, 1), 20.0), ((4, 3, 4), 12.0), ((2, 2, 8), 10.0)])
def test_false_alarms_are_as_many_as_the_level_says(shape, deviation):
    rng = np.random.default_rng(1)
    tables = [noisy_tables(rng, shape, deviation) for _ in range(600)]
    alarms = np.mean([p_of(table, deviation**2) < 0.05 for table in tables])
    assert 0.02 < alarms < 0.08
    ignoring = np.mean([p_of(np.maximum(table, 0), 0.0) < 0.05 for table in tables])
    assert ignoring > 0.25


def test_dependence_is_seen_through_noise():
    rng = np.random.default_rng(2)
    seen = [p_of(rng.poisson(200, (3, 3, 2)) + 150 * np.eye(3)[:, :, None] + rng.normal(0, 20, (3, 3, 2)), 400.0)]
    assert seen[0] < 1e-4


def test_counts_below_zero_and_levels_lost_in_noise_are_left_out():
    clear = np.array([[400.0, 100.0], [100.0, 400.0]])
    wider = np.zeros((3, 2, 1))
    wider[:2, :, 0] = clear
    wider[2, :, 0] = (-7.0, 9.0)
    assert p_of(wider, 25.0) == p_of(clear[:, :, None], 25.0) < 1e-9
    assert p_of(wider, 1e6) == 0.0


@pytest.mark.parametrize(("n_x", "n_y"), [(2, 6), (6, 2), (3, 3), (4, 2)])
@pytest.mark.parametrize("over", [True, False])
def test_a_level_is_tested_if_its_rows_exceed_the_noise_of_the_cells_that_were_added_up(n_x, n_y, over):
    """A level of X has a cell for each level of Y, and the noise of so many cells; and the other way round."""
    variance = 100.0
    bound = 3 * np.sqrt(variance * n_y)
    table = np.full((n_x, n_y), 1000.0)
    table[-1] = bound * (1.01 if over else 0.99) / n_y
    for one in (table, table.T):
        dof = stratum_tests(one[None], variance).dof
        assert dof == (n_x - 1 if over else n_x - 2) * (n_y - 1)


def test_a_constant_is_independent_but_given_others_drowned_levels_prove_nothing():
    constant = np.array([[500.0, 480.0], [3.0, -2.0]])
    pair, read = np.array([[0, 1]], np.int16), np.array([2, 2])
    alone = noisy_chi_square(TableReader(tables_for(pair, 2), read, constant.ravel()), pair, 25.0)
    assert alone.p[0] == 1.0
    assert p_of(constant[:, :, None], 25.0) == 0.0
