"""The profile of a column is the same whether it was read as numbers or as text."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.data.folder.cells import parse_cells
from fedbnsl.data.folder.tally import SAMPLED_ROWS, ColumnTally, count_transform, derived_columns, suggested_transforms

CELLS = st.lists(
    st.sampled_from(["1", "2", "0", "-3", "40", "0.5", "250", ""]) | st.integers(-99, 99).map(str),
    min_size=1,
    max_size=80,
)


def tally_of(values, start=0):
    tally = ColumnTally()
    tally.count_numbers(values, np.arange(start, start + len(values)))
    return tally


def of_numbers(values):
    return tally_of(values).profile()


def of_text(texts):
    distinct, codes = np.unique(texts, return_inverse=True)
    tally = ColumnTally()
    tally.count_cells(parse_cells([str(text) for text in distinct]), codes, np.arange(len(texts)))
    return tally.profile()


@given(CELLS)
def test_numbers_and_the_cells_they_stand_in_have_the_same_profile(texts):
    values = np.array([float(text) if text else np.nan for text in texts])
    assert of_numbers(values) == of_text(texts)


@given(CELLS, st.lists(st.integers(0, 80), max_size=4))
def test_tallies_of_consecutive_rows_merge_into_the_tally_of_all_rows(texts, cuts):
    values = np.array([float(text) if text else np.nan for text in texts])
    merged = ColumnTally()
    for part in np.split(np.arange(len(values)), sorted(cut for cut in cuts if cut < len(values))):
        merged.merge(tally_of(values[part], int(part[0]) if len(part) else 0))
    assert merged.profile() == of_numbers(values)


@pytest.mark.parametrize("rows", [SAMPLED_ROWS, SAMPLED_ROWS + 1, 30_000])
def test_the_sample_depends_on_the_numbers_of_the_rows_only(rows):
    values = np.random.default_rng(0).normal(size=rows)
    whole, merged = tally_of(values), ColumnTally()
    for start in range(0, rows, 701):
        merged.merge(tally_of(values[start : start + 701], start))
    for one, other in zip(merged.sample, whole.sample, strict=True):
        np.testing.assert_array_equal(one, other)
    assert SAMPLED_ROWS / 2 < len(whole.sample[0]) <= SAMPLED_ROWS


def test_beyond_the_rows_that_are_compared_only_rising_values_are_unique(monkeypatch):
    monkeypatch.setattr("fedbnsl.data.folder.tally.MAX_SEEN", 5)
    for values, unique in (([3.0, 1, 2, 5, 4], True), ([3.0, 1, 2, 5, 4, 6], False), ([1.0, 2, 3, 4, 5, 7], True)):
        found = of_numbers(np.array(values))
        words = of_text([f"p{value:.0f}" for value in values])
        assert (found.unique, words.unique) == (unique, unique)


def test_a_profile_counts_cells():
    found = of_text(["1", "2", "2", "x", "NA", "", "1,5"])
    assert (found.empty, found.numbers, found.words, found.number_like) == (2, 3, 2, 1)
    assert (found.labels, found.distinct, found.kinds_of_words) == (("1", "1,5", "2", "x"), 4, 2)


@pytest.mark.parametrize(
    ("values", "size", "apart", "unique", "consecutive"),
    [
        ([100.0, 120, 0, 90, 300], 2.0, True, True, False),
        ([100.0, 120, 0, 1, 300], 2.0, False, True, False),
        ([6.0, 8, 7, 9], 0.8, True, True, True),
        ([3.0, 5, 4, 6], 0.6, False, True, True),
        ([0.0, 0, 0], None, False, False, False),
        ([1.5, 2.5, 2.5], 0.4, True, False, False),
    ],
)
def test_what_is_said_of_the_values(values, size, apart, unique, consecutive):
    found = of_numbers(np.array(values))
    assert (found.size, found.apart, found.unique, found.consecutive) == (size, apart, unique, consecutive)


def test_a_shape_suggests_a_logarithm_normal_scores_or_nothing():
    rng = np.random.default_rng(4)
    n = 2000
    columns = {
        "normal": rng.normal(size=n),
        "exponential": rng.exponential(size=n),
        "t3": rng.standard_t(3, size=n),
        "laplace": rng.laplace(size=n),
        "lognormal": rng.lognormal(sigma=1.2, size=n),
        "cubes": rng.normal(size=n) ** 3,
        "amounts": np.maximum(rng.lognormal(sigma=1.2, size=n) - 1, 0),
        "0, 1": (rng.random(n) < 0.02).astype(float),
    }
    expected = ["", "", "", "", "log", "normal-scores", "normal-scores", ""]
    assert suggested_transforms(np.column_stack(list(columns.values()))) == expected
    with_gap = columns["lognormal"].copy()
    with_gap[5] = np.nan
    assert suggested_transforms(with_gap[:, None]) == ["log"]
    assert suggested_transforms(columns["lognormal"][:49, None]) == [""]


@pytest.mark.parametrize(
    ("values", "coding"),
    [
        (lambda rng: rng.poisson(4, 900), "anscombe"),
        (lambda rng: rng.poisson(rng.lognormal(1, 1.6, 900)), "log1p"),
        (lambda rng: np.arange(900) % 9, ""),  # as many of each: codes
        (lambda rng: 40 + rng.poisson(4, 900), ""),
        (lambda rng: 9 - np.minimum(rng.poisson(2, 900), 9), ""),
    ],
)
def test_counts_start_at_zero_and_are_skewed_to_the_right(values, coding):
    distinct, counts = np.unique(values(np.random.default_rng(5)), return_counts=True)
    assert count_transform(distinct.astype(float), counts) == coding


def test_a_table_beyond_the_range_of_the_computations_is_not_examined_for_formulas():
    """It is refused later, in one line, which no warnings of NumPy should precede."""
    rows = np.random.default_rng(0).normal(size=(200, 2))
    rows[:, 1] = rows[:, 0] ** 2
    assert [found[:2] for found in derived_columns(["x", "y"], rows)] == [("y", "the square of x")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not list(derived_columns(["x", "y"], rows * [1, 1e160]))
