import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.draws import blocks, resample, resampled_schema
from fedbnsl.algorithms.statistics.lagged import windows


def series(*stretches):
    return Schema(("x",), {"a": sum(stretches)}, "time-series", stretches={"a": stretches})


def test_rows_are_drawn_with_replacement_from_the_silos_own():
    table = np.arange(2000.0).reshape(1000, 2)
    schema = Schema(("x", "y"), {"a": 1000})
    drawn = resample(table, schema, "a", 0, np.random.default_rng(1))
    assert drawn.shape == table.shape
    assert resampled_schema(schema, 0) == schema
    np.testing.assert_array_equal(drawn[:, 1], drawn[:, 0] + 1)
    # A row is left out with probability (1 − 1/n)ⁿ, about 1/e: 368 ± 10 of 1000.
    assert 330 < 1000 - len(np.unique(drawn[:, 0])) < 410


@pytest.mark.parametrize(("stretches", "lags"), [((100,), 1), ((60, 9, 31), 2), ((5, 5, 5, 5), 1), ((4,), 2)])
def test_blocks_have_as_many_windows_as_the_series_and_none_crosses_a_gap(stretches, lags):
    schema = series(*stretches)
    table = np.concatenate([np.arange(n) + 1000.0 * which for which, n in enumerate(stretches)])[:, None]
    after = resampled_schema(schema, lags)
    assert after.windows(lags) == {"a": sum(n - lags for n in stretches)}
    assert after.rows["a"] == sum(after.stretches["a"])
    drawn = resample(table, schema, "a", lags, np.random.default_rng(3))
    assert len(drawn) == after.rows["a"]
    seen = windows(drawn, after.stretches["a"], lags)
    # Each row of a window follows the row before it, in the same stretch.
    np.testing.assert_array_equal(seen[:, :-1] - seen[:, 1:], 1.0)


def test_all_windows_of_a_long_series_can_be_drawn():
    schema = series(12, 12)
    table = np.concatenate([np.arange(12), 100 + np.arange(12)])[:, None].astype(float)
    rng = np.random.default_rng(0)
    seen = {row for _ in range(200) for row in resample(table, schema, "a", 1, rng)[:, 0]}
    assert seen == set(table[:, 0])


def test_blocks_are_as_long_as_the_cube_root_says():
    assert blocks(series(1001), "a", 1) == (10,) * 100
    assert blocks(series(30), "a", 1) == (3,) * 9 + (2,)
    assert blocks(series(4, 4, 4), "a", 1) == (2,) * 4 + (1,)


def test_series_without_two_windows_are_refused():
    with pytest.raises(BadInput, match=r"silo a: its unbroken series are too short .* 4 rows at least"):
        resampled_schema(series(3, 3), 2)
