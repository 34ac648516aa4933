"""Windows of time series, and how many a schema promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.lagged import windows


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
