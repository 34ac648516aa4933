import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import SamplingScheme, block_size, resample, resampled_schema
from fedbnsl.algorithms.statistics.lagged import windows


def series(*stretches):
    return Schema(("x",), {"a": sum(stretches)}, "time-series", stretches={"a": stretches})


def table_of(*stretches):
    """A table of one variable that counts the rows of each stretch, the stretches 1000 apart."""
    return np.concatenate([np.arange(n) + 1000.0 * which for which, n in enumerate(stretches)])[:, None]


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_half_of_the_rows_are_drawn_each_at_most_once(n):
    table = np.arange(2.0 * n).reshape(n, 2)
    schema = Schema(("x", "y"), {"a": n})
    drawn = resample(table, schema, "a", SamplingScheme(), np.random.default_rng(1))
    assert resampled_schema(schema, SamplingScheme()).rows == {"a": len(drawn)}
    assert len(drawn) == (n + 1) // 2 == len(np.unique(drawn[:, 0]))
    np.testing.assert_array_equal(drawn[:, 1], drawn[:, 0] + 1)


def test_every_row_is_in_half_of_the_halves():
    rng = np.random.default_rng(2)
    table, schema = np.arange(10.0)[:, None], Schema(("x",), {"a": 10})
    times = np.bincount(
        np.concatenate([resample(table, schema, "a", SamplingScheme(), rng)[:, 0] for _ in range(2000)]).astype(int)
    )
    # 2000 draws with probability ½: 1000 ± 22.
    assert (np.abs(times - 1000) < 100).all()


def test_the_mean_of_a_half_spreads_as_the_mean_of_as_many_rows_with_replacement():
    rng = np.random.default_rng(3)
    table, schema = rng.normal(size=(200, 1)), Schema(("x",), {"a": 200})
    spread = [
        np.var([resample(table, schema, "a", SamplingScheme(replacement), rng).mean() for _ in range(4000)])
        for replacement in (False, True)
    ]
    assert spread[0] == pytest.approx(table.var() / 200, rel=0.1)
    assert spread[1] == pytest.approx(table.var() / 200, rel=0.1)


def test_with_replacement_there_are_as_many_rows_as_before_and_some_twice():
    table, schema, draw = np.arange(1000.0)[:, None], Schema(("x",), {"a": 1000}), SamplingScheme(replacement=True)
    drawn = resample(table, schema, "a", draw, np.random.default_rng(1))
    assert resampled_schema(schema, draw) == schema
    assert drawn.shape == table.shape
    # A row is left out with probability (1 − 1/n)ⁿ, about 1/e: 368 ± 10 of 1000.
    assert 330 < 1000 - len(np.unique(drawn)) < 410


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("stretches", "lags"), [((100,), 1), ((60, 9, 31), 2), ((5, 5, 5, 5), 1), ((4,), 2)])
def test_blocks_are_described_and_none_crosses_a_gap(stretches, lags, replacement):
    schema, draw = series(*stretches), SamplingScheme(replacement, lags)
    after = resampled_schema(schema, draw)
    drawn = resample(table_of(*stretches), schema, "a", draw, np.random.default_rng(3))
    assert len(drawn) == after.rows["a"] == sum(after.stretches["a"])
    seen = windows(drawn, after.stretches["a"], lags)
    assert len(seen) == after.windows(lags)["a"]
    # Each row of a window follows the row before it, in the same stretch.
    np.testing.assert_array_equal(seen[:, :-1] - seen[:, 1:], 1.0)
    if not replacement:
        assert len(np.unique(seen[:, 0])) == len(seen)


def test_half_of_the_windows_of_series_are_drawn_and_any_may_be():
    schema, draw, rng = series(14, 15), SamplingScheme(lags=1), np.random.default_rng(0)
    assert block_size(schema, "a", draw) == 3
    assert resampled_schema(schema, draw).stretches == {"a": (4,) * 4}  # of four and four blocks of three windows
    seen = {row for _ in range(200) for row in resample(table_of(14, 15), schema, "a", draw, rng)[:, 0]}
    assert seen == set(table_of(14, 15)[:, 0])


def test_blocks_are_as_long_as_the_cube_root_says_and_no_longer_than_a_stretch():
    assert block_size(series(1001), "a", SamplingScheme(lags=1)) == 10
    assert block_size(series(500, 4, 500), "a", SamplingScheme(lags=1)) == 3
    assert (
        block_size(series(500, 2, 500), "a", SamplingScheme(lags=1)) == 10
    )  # the second has one window, which is in no block
    assert block_size(series(4, 4), "a", SamplingScheme(lags=1)) == 2


def test_series_without_two_windows_are_refused():
    with pytest.raises(BadInput, match=r"silo a: its unbroken series are too short .* at least 4 rows"):
        resampled_schema(series(3, 3), SamplingScheme(lags=2))
