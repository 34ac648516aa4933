"""Columns that determine each other, detected by counts and by correlations."""

import numpy as np
import pytest

from fedbnsl.algorithms.statistics.count_tables import one_to_one


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
