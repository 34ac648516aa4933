"""Columns that determine each other, by counts and by correlations."""

import numpy as np
import pytest

from fedbnsl.algorithms.statistics.count_tables import one_to_one, proportional


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([[5, 0], [0, 7]], True),
        ([[0, 5, 0], [7, 0, 0]], True),
        ([[5, 1], [0, 7]], False),
        ([[5, 0], [3, 0], [0, 2]], False),
        ([[5, 3, 0], [0, 0, 2]], False),
        ([[5, 0], [0, 0]], False),
        ([[0, 0], [0, 0]], False),
    ],
    ids=["same", "permuted", "one row differs", "A decides B alone", "B decides A alone", "constant", "no rows"],
)
def test_counts_of_columns_that_determine_each_other(counts, expected):
    assert one_to_one(np.array(counts)) is expected


def test_columns_in_another_unit_or_sign():
    X = np.random.default_rng(0).normal(size=(500, 4))
    X[:, 3] = 2 - 7 * X[:, 1]
    X[:, 2] = X[:, 0] + 0.01 * X[:, 2]
    assert proportional(np.corrcoef(X.T)) == ((1, 3),)
    assert proportional(np.corrcoef(X.T), tolerance=1e-2) == ((0, 2), (1, 3))


def test_a_constant_column_is_in_no_pair():
    R = np.eye(3)
    R[2, :] = R[:, 2] = np.nan
    assert proportional(R) == ()
