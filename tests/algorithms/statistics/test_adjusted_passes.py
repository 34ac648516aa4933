"""Adjusted series that are read in passes: the rows of the same series in memory, wherever the chunks end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.adjusted_passes import AdjustedPasses, adjusted_series
from tests.algorithms.statistics.passes import DrawnTable, peak_of
from tests.algorithms.statistics.test_window_passes import Cut, cut_series

ADJUSTMENTS = st.builds(Adjustment, st.booleans(), st.sampled_from([0, 2, 3, 24]), st.booleans())


def by_least_squares(part, adjustment):
    """`part` `[n, d]` less its projection on the time and the phases, with its means; then differences."""
    times = np.arange(len(part))
    columns = [np.ones(len(part))] + [times] * adjustment.detrend
    columns += [times % adjustment.period == phase for phase in range(1, adjustment.period)]
    design = np.column_stack(columns).astype(float)
    flat = part - design @ np.linalg.lstsq(design, part, rcond=None)[0] + part.mean(axis=0)
    return np.diff(flat, axis=0) if adjustment.difference else flat


@given(cut_series(), ADJUSTMENTS)
@settings(deadline=None, max_examples=150)
def test_adjusted_rows_do_not_depend_on_where_the_series_are_cut(drawn, adjustment):
    table, stretches, _, cut = drawn
    whole = adjustment.adjusted(table, stretches)
    parts = np.split(table, np.cumsum(stretches)[:-1])
    fits = adjustment.fits
    expected = [by_least_squares(part, adjustment) if fits or adjustment.difference else part for part in parts]
    np.testing.assert_allclose(whole, np.concatenate(expected), rtol=0, atol=1e-8)
    passes = adjusted_series(cut, adjustment, stretches)
    assert passes.shape == whole.shape
    for _ in range(2):
        found = np.concatenate([np.empty((0, 2)), *passes])
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-10)


def test_the_rows_of_a_million_are_adjusted_up_to_rounding():
    """A slope of a long series is a ratio of sums of cubes of its length."""
    rng = np.random.default_rng(1)
    n = 1_000_000
    times = np.arange(n)[:, None]
    noise = rng.normal(size=(n, 1))
    table = noise + 1e4 + 3e-4 * times + np.sin(2 * np.pi * times / 1440)
    adjustment = Adjustment(True, 1440)
    found = np.concatenate(list(AdjustedPasses(Cut(table, tuple(range(9_999, n, 9_999))), adjustment, (n,))))
    means = table.mean(axis=0) - noise.mean(axis=0)
    np.testing.assert_allclose(found - means, adjustment.adjusted(noise, (n,)), atol=1e-9)


def test_series_that_change_between_passes_are_refused_in_one_line():
    table = np.arange(40.0)[:, None] ** 2
    changing = Cut(table, (10, 20))
    passes = AdjustedPasses(changing, Adjustment(detrend=True), (20, 20))
    assert len(np.concatenate(list(passes))) == 40
    changing.ends = (10, 20, 30)
    with pytest.raises(BadInput, match="series have changed while a run read them"):
        list(passes)


def test_memory_does_not_grow_with_the_rows():
    def peak(rows):
        table = DrawnTable(rows, lambda rng, shape: rng.exponential(size=shape))
        passes = AdjustedPasses(table, Adjustment(True, 24, True), (rows - 100, 90, 10))
        return peak_of(lambda: [None for _ in passes])

    peak(2000)
    few, many = peak(10_000), peak(200_000)
    assert many < 1.2 * few + 1e4
