"""Moments of columns: the silos' sums equal the moments of the pooled rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.statistics.moments import (
    centred_moments,
    correlation,
    covariance,
    per_row,
    pooled_moments,
    pooled_packing,
    products,
    residual_variances,
    undo_per_row,
    unit_diagonal,
)


def table(seed: int, rows: int = 40, d: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(rng.normal(size=d), rng.uniform(0.5, 3, d), (rows, d)) @ rng.normal(size=(d, d))


@given(st.integers(0, 999), st.integers(1, 39))
def test_summed_moments_are_those_of_all_rows(seed, at):
    X = table(seed)
    parts = [per_row(pooled_moments(part), len(X)) for part in (X[:at], X[at:])]
    summed = undo_per_row(parts[0] + parts[1], len(X))
    n, S = covariance(summed, 4)
    assert n == len(X)
    np.testing.assert_allclose(S, np.cov(X.T, bias=True), rtol=1e-7, atol=1e-9)
    n, R = correlation(summed, 4)
    assert n == len(X)
    np.testing.assert_allclose(R, np.corrcoef(X.T), rtol=1e-7, atol=1e-9)


def test_a_constant_column_correlates_with_nothing():
    X = table(1)
    X[:, 2] = 0.1
    _, R = correlation(pooled_moments(X), 4)
    np.testing.assert_array_equal(R[2], [0, 0, 1, 0])


def test_centred_products_do_not_see_where_the_columns_are():
    X = table(2)
    np.testing.assert_allclose(products(X + 100, center=True), products(X, center=True), rtol=1e-9)
    assert products(X + 100)[0, 0] > products(X)[0, 0]


def test_residual_variances_are_the_mean_squares_of_residuals():
    X = table(3)
    weights = np.triu(np.random.default_rng(0).normal(size=(4, 4)), 1)
    expected = ((X - X @ weights) ** 2).mean(axis=0)
    np.testing.assert_allclose(residual_variances(products(X) / len(X), weights), expected)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_own_units_make_the_diagonal_one(scale):
    np.testing.assert_allclose(np.diag(unit_diagonal(scale * products(table(4)))), 1.0)


def test_moments_centred_by_silo_are_those_of_rows_less_their_silos_means():
    X = table(3)
    shifted = X + np.repeat([[0.0], [50.0], [-7.0]], [10, 25, 5], axis=0)
    lengths = (10, 25, 5)
    parts = sum(centred_moments(part, (len(part),)) for part in np.split(shifted, [10, 35]))
    np.testing.assert_allclose(parts, centred_moments(shifted, lengths), atol=1e-8)
    n, S = covariance(parts, 4)
    assert n == 40 - 3
    within = np.vstack([part - part.mean(axis=0) for part in np.split(X, [10, 35])])
    np.testing.assert_allclose(S, within.T @ within / n, rtol=1e-7, atol=1e-8)


def test_a_column_that_is_constant_in_each_silo_has_no_variance_left():
    X = table(4)
    X[:, 1] = np.repeat([0.1, 0.7], 20)
    _, R = correlation(centred_moments(X, (20, 20)), 4)
    np.testing.assert_array_equal(R[1], np.eye(4)[1])


def test_a_column_far_from_zero_is_not_taken_for_a_constant():
    """Like times in seconds since 1970 within some minutes; rounding of a constant is far smaller than their spread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    far = np.column_stack([X, np.full(200, 0.1)]) + np.array([1e8, 0, 0])
    found = pooled_packing(3).unpack(centred_moments(far, (200,)))["products"]
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(found[:2, :2], centred.T @ centred, rtol=1e-5)
    assert not found[2].any()
