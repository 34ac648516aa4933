"""Windows of time series, and the number of windows that a schema states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.lagged import subtract_levels, windows


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(0, 4))
def test_no_window_crosses_from_one_stretch_to_the_next(stretches, lags):
    n = sum(stretches)
    series = np.repeat(np.arange(len(stretches)), stretches)
    time = np.concatenate([np.arange(length) for length in stretches])
    table = np.column_stack([series, time]).astype(float)
    found = windows(table, stretches, lags).reshape(-1, lags + 1, 2)
    assert (found[:, :, 0] == found[:, :1, 0]).all()
    assert (found[:, :, 1] == found[:, :1, 1] - np.arange(lags + 1)).all()
    schema = Schema(("series", "time"), {"one": n}, "time-series", stretches={"one": tuple(stretches)})
    assert len(found) == schema.windows(lags)["one"]


def test_stretches_that_are_not_those_of_the_table_are_refused():
    with pytest.raises(ValueError, match="stretches of 5 rows for a table of 4"):
        windows(np.zeros((4, 2)), (2, 3), 1)


@pytest.mark.parametrize(("errors", "taken"), [(4.97, False), (5.03, True), (-4.97, False), (-5.03, True)])
@pytest.mark.parametrize("n", [15, 200])
def test_a_mean_is_a_level_from_five_standard_errors_on(n, errors, taken):
    """For its mean, a series of n rows is worth n/(1 + 40/n) independent rows."""
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n, 4))
    rows[:, :2] = (rows[:, :2] - rows[:, :2].mean(axis=0)) / rows[:, :2].std(axis=0) * [3.0, 0.2]
    rows[:, 0] += errors * 3.0 * np.sqrt((1 + 40 / n) / n)
    found = subtract_levels(rows, 2)
    means = rows.mean(axis=0)
    np.testing.assert_allclose(found, rows - ([means[0], 0, means[2], 0] if taken else 0.0))
