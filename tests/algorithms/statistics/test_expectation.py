"""The E-step for rows with empty cells, against the textbook's formulas for each row."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.coding import coding_of
from fedbnsl.algorithms.statistics.em import pairwise_complete
from fedbnsl.algorithms.statistics.expected_moments import about_own_means, expected_moments, patterns
from fedbnsl.algorithms.statistics.moments import about_means
from fedbnsl.data.federated import with_gaps

NAMES = ("a", "b", "c", "d")


def drawn(seed: int, rows: int, share: float):
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((4, 4))
    table = rng.standard_normal((rows, 4)) @ factor + rng.standard_normal(4) * 5
    table[rng.random(table.shape) < share] = np.nan
    return table, factor.T @ factor + 0.1 * np.eye(4)


def row_by_row(table, S):
    """Mean and products as Little & Rubin write them, with the mean that maximises the likelihood given S."""
    precision, weighted = np.zeros((4, 4)), np.zeros(4)
    for x in table:
        o = np.flatnonzero(~np.isnan(x))
        K = np.linalg.inv(S[np.ix_(o, o)]) if len(o) else np.zeros((0, 0))
        precision[np.ix_(o, o)] += K
        weighted[o] += K @ x[o]
    mean = np.linalg.lstsq(precision, weighted, rcond=None)[0]
    total = np.zeros((4, 4))
    for x in table:
        o, m = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
        deviation = np.where(np.isnan(x), 0.0, x - mean)
        spread = np.zeros((4, 4))
        if len(m):
            B = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)]) if len(o) else np.zeros((len(m), 0))
            deviation[m] = B @ (x[o] - mean[o])
            spread[np.ix_(m, m)] = S[np.ix_(m, m)] - B @ S[np.ix_(o, m)]
        total += np.outer(deviation, deviation) + spread
    return mean, total


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 30), st.floats(0, 0.7))
def test_it_is_what_row_by_row_formulas_give(seed, rows, share):
    table, S = drawn(seed, rows, share)
    schema = Schema(NAMES, {"s": rows})
    found = expected_moments(table, coding_of(schema), S)
    mean, products = row_by_row(table, S)
    there = ~np.isnan(table).all(axis=0)
    np.testing.assert_allclose(found.products, products, rtol=1e-6, atol=1e-6 * np.abs(products).max())
    np.testing.assert_allclose(found.mean[there], mean[there], rtol=1e-5, atol=1e-5)


def test_of_complete_rows_it_is_what_they_give():
    table, S = drawn(1, 50, 0.0)
    found = expected_moments(table, coding_of(Schema(NAMES, {"s": 50})), S)
    mean, products = about_means(table)
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.products, products, atol=1e-8)


def test_the_units_of_a_column_do_not_matter():
    table, S = drawn(2, 40, 0.3)
    units = np.array([1e-6, 1.0, 1e6, 10.0])
    coding = coding_of(Schema(NAMES, {"s": 40}))
    scaled = expected_moments(table * units, coding, S * np.outer(units, units))
    np.testing.assert_allclose(
        scaled.products / np.outer(units, units), expected_moments(table, coding, S).products, rtol=1e-6
    )


def test_rows_with_the_same_empty_cells_stand_together():
    table = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.nan], [np.nan, np.nan]])
    found = patterns(table)
    assert sorted(map(tuple, found.observed.tolist())) == [(False, False), (True, False), (True, True)]
    sizes = dict(zip(map(tuple, found.observed.tolist()), np.diff(found.first).tolist(), strict=True))
    assert sizes == {(False, False): 1, (True, False): 2, (True, True): 1}


def test_before_the_covariance_is_known_there_is_nothing_to_expect():
    table, S = drawn(3, 20, 0.3)
    schema = with_gaps(Schema(NAMES, {"s": 20}), {"s": table})
    with pytest.raises(ValueError, match="before EM has estimated their covariance"):
        about_own_means(table, schema)
    known = replace(schema, imputation_model=ImputationModel(covariance=S, rows=10))
    assert about_own_means(table, known).products.shape == (4, 4)


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (4, 3), (5, 5), (3, 3)])
def test_a_covariance_of_another_shape_is_refused(shape):
    """Compiled code does not check its indices: with such a covariance it would read beyond it."""
    table, _ = drawn(3, 20, 0.3)
    coding = coding_of(with_gaps(Schema(NAMES, {"s": 20}), {"s": table}))
    with pytest.raises(BadInput, match="the covariance of 4 columns has not 4 rows and columns"):
        expected_moments(table, coding, np.ones(shape))


@dataclass(frozen=True)
class InParts:
    table: np.ndarray
    rows: int

    @property
    def shape(self):
        return self.table.shape

    def __iter__(self):
        return (self.table[begin : begin + self.rows] for begin in range(0, len(self.table), self.rows))


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_rows_read_in_passes_give_the_same(rows):
    table, S = drawn(4, 50, 0.3)
    coding = coding_of(Schema(NAMES, {"s": 50}))
    whole, parts = expected_moments(table, coding, S), expected_moments(InParts(table, rows), coding, S)
    np.testing.assert_allclose(parts.products, whole.products, atol=1e-8)
    np.testing.assert_allclose(parts.mean, whole.mean, atol=1e-8)
    for one, other in zip(
        pairwise_complete(InParts(table, rows), coding), pairwise_complete(table, coding), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-8)
