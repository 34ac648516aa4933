"""Corners of count tables against counting by hand, for single rows and for weighted distinct rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics import corner_counts
from fedbnsl.algorithms.statistics.corner_counts import corner_offsets, count_corners, distinct_codes
from fedbnsl.algorithms.statistics.count_tables import (
    CountLimits,
    DistinctCodes,
    TableRefused,
    count,
    limited_counts,
    offsets,
)
from tests.algorithms.statistics.test_count_tables import by_hand, sets_of


def corner_by_hand(table, levels, variables, common):
    """The whole table without the common level of each variable."""
    whole = by_hand(table[(table[:, variables] >= 0).all(axis=1)], levels, variables).reshape(levels[variables])
    for axis, v in enumerate(variables):
        whole = np.delete(whole, common[v], axis=axis)
    return whole.ravel()


@settings(deadline=None, max_examples=80)
@given(sets_of, st.integers(0, 999), st.sampled_from([3, 64, 200]), st.booleans(), st.booleans())
def test_corners_of_any_sets_in_any_order(sets, seed, rows, weighted, gaps):
    """The corner has no, one or several levels; there are more rows than a word has bits, and empty cells."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 5, 6)
    common = rng.integers(0, levels).astype(np.int16)
    table = np.where(rng.random((rows, 6)) < 0.4, common, rng.integers(-gaps, levels, (rows, 6)))
    width = max(map(len, sets))
    filled = np.array([[*s, *[-1] * (width - len(s))] for s in sets], np.int16)
    columns = np.ascontiguousarray(table.T, np.int16)
    if weighted:
        first, weights = corner_counts._distinct(columns)
        columns = DistinctCodes(columns[:, first], weights)
    found, begins = count_corners(columns, levels, filled, common), corner_offsets(filled, levels)
    assert found.dtype == np.uint16
    for s, variables in enumerate(sets):
        expected = corner_by_hand(table, levels, list(variables), common)
        np.testing.assert_array_equal(found[begins[s] : begins[s + 1]], expected, err_msg=str(sets))


def test_a_shorter_set_between_longer_ones_ends_their_shared_rows():
    rng = np.random.default_rng(2)
    table, levels, common = rng.integers(0, 2, (90, 7)), np.full(7, 2), np.zeros(7, np.int16)
    sets = np.array([[0, 1, 4, 5], [0, 2, 3, -1], [0, 2, 4, 5]], np.int16)
    expected = [table[:, one[one >= 0]].all(axis=1).sum() for one in sets]
    assert count_corners(np.ascontiguousarray(table.T, np.int16), levels, sets, common).tolist() == expected


@pytest.mark.compiles
@pytest.mark.parametrize("levels", [3, 300])
def test_distinct_rows_are_all_rows_with_their_weights(levels):
    rng = np.random.default_rng(5)
    columns = rng.integers(-1, levels, (3, 2000)).astype(np.int16)
    columns[:, 500:] = np.tile(columns[:, :500], 3)
    distinct = distinct_codes(columns)
    again = np.repeat(distinct.columns, distinct.weights, axis=1)
    assert len(distinct.weights) <= 500
    assert len(np.unique(distinct.columns, axis=1).T) == len(distinct.weights)
    assert sorted(map(tuple, again.T.tolist())) == sorted(map(tuple, columns.T.tolist()))
    sets, sizes = np.array([[0, 2], [1, -1]], np.int16), np.full(3, levels)
    np.testing.assert_array_equal(count(distinct, sizes, sets), count(columns, sizes, sets))
    assert offsets(sets, sizes)[-1] == levels**2 + levels


def test_other_common_levels_are_counted_anew():
    """What is computed from the rows once belongs to the common levels of the request."""
    rng = np.random.default_rng(4)
    columns, levels = rng.integers(0, 3, (4, 200)).astype(np.int16), np.full(4, 3)
    sets, distinct = np.array([[0, 1], [2, 3]], np.int16), distinct_codes(columns)
    for common in ([0, 0, 0, 0], [2, 1, 0, 1], [2, 1, 0, 1], [0, 0, 0, 0]):
        terms = np.array(common, np.int16)
        np.testing.assert_array_equal(
            count_corners(distinct, levels, sets, terms), count_corners(columns, levels, sets, terms)
        )


def test_few_or_different_rows_stay_as_they_are():
    columns = np.random.default_rng(1).integers(0, 30, (20, 3000)).astype(np.int16)
    assert distinct_codes(columns).columns is columns
    assert distinct_codes(columns).weights.tolist() == [1] * 3000
    assert distinct_codes(np.zeros((2, 999), np.int16)).weights.tolist() == [1] * 999
    assert distinct_codes(np.zeros((2, 1000), np.int16)).weights.tolist() == [1000]


@pytest.mark.parametrize("common", [[0, 3, 0], [-1, 0, 0], [0, 0], [0, 0, 0, 0]])
def test_levels_that_are_not_one_of_each_variable_are_refused(common):
    with pytest.raises(BadInput, match="the common levels of a query are not one level of each variable"):
        count_corners(np.zeros((3, 9), np.int16), np.full(3, 3), np.array([[0, 1]], np.int16), np.array(common))


@pytest.mark.parametrize("odd", [[[0, 3]], [[1, 0]], [[1, 1]], [[-1, 0]]])
def test_sets_that_are_not_sets_of_variables_are_refused(odd):
    with pytest.raises(BadInput, match="is not one of increasing variables followed by padding"):
        count_corners(np.zeros((3, 9), np.int16), np.full(3, 3), np.array(odd, np.int16), np.zeros(3, np.int16))


@pytest.mark.parametrize("limits", [CountLimits(variables=2), CountLimits(parameters=2.8), CountLimits(cells=2)])
def test_an_owners_limits_are_those_of_whole_tables(limits):
    """A margin would disclose a suppressed count, so a silo with a limit on small counts sends no corners."""
    columns, levels = np.zeros((3, 9), np.int16), np.full(3, 3)
    with limited_counts(limits), pytest.raises(TableRefused):
        count_corners(columns, levels, np.array([[0, 1, 2]], np.int16), np.zeros(3, np.int16))
    pair = np.array([[0, 1]], np.int16)
    with limited_counts(CountLimits(variables=2, parameters=0.9)):
        assert count_corners(columns, levels, pair, np.ones(3, np.int16)).tolist() == [9, 0, 0, 0]
