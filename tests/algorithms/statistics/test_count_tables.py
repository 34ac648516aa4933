"""Count tables against counting by hand, and the totals of a silo's counts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.statistics.count_tables import count, offsets, tables_for


def by_hand(table, levels, variables):
    counted = np.zeros(levels[variables], np.int64)
    np.add.at(counted, tuple(table[:, v] for v in variables), 1)
    return counted.ravel()


sets_of = st.lists(
    st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(lambda s: tuple(sorted(s))),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=80)
@given(sets_of, st.randoms(use_true_random=False))
def test_tables_of_any_sets_in_any_order(sets, random):
    rng = np.random.default_rng(random.randrange(1000))
    levels = rng.integers(1, 5, 6)
    table = rng.integers(0, levels, (60, 6))
    width = max(map(len, sets))
    filled = np.array([[*s, *[-1] * (width - len(s))] for s in sets], np.int16)
    counts = count(np.ascontiguousarray(table.T, np.int16), levels, filled)
    begins = offsets(filled, levels)
    assert begins[-1] == len(counts)
    for s, variables in enumerate(sets):
        np.testing.assert_array_equal(
            counts[begins[s] : begins[s + 1]], by_hand(table, levels, list(variables)), err_msg=str(sets)
        )


def test_tests_on_the_same_variables_share_a_table():
    tests = np.array([[0, 1, 2, -1], [1, 2, 0, -1], [0, 2, 1, -1], [3, 4, -1, -1], [0, 1, 2, 3]], np.int16)
    tables = tables_for(tests, 5)
    assert tables.sets.tolist() == [[0, 1, 2, 3], [0, 1, 2, -1], [3, 4, -1, -1]]
    assert tables.table_of.tolist() == [1, 1, 1, 2, 0]


def test_many_variables_take_the_long_way_to_the_same_tables():
    """The key of a set fits into 63 bits up to a point; beyond, rows are compared."""
    tests = np.random.default_rng(0).permuted(np.tile(np.arange(12, dtype=np.int16), (30, 1)), axis=1)[:, :7]
    short, long = tables_for(tests, 12), tables_for(tests, 600)
    np.testing.assert_array_equal(short.sets, long.sets)
    np.testing.assert_array_equal(short.table_of, long.table_of)


def test_counts_travel_in_the_smallest_type_that_holds_the_number_of_rows():
    sets, levels = np.array([[0]], np.int16), np.array([2])
    types = [count(np.zeros((1, rows), np.int16), levels, sets).dtype for rows in (10, 255, 256, 65535, 65536)]
    assert types == [np.uint16, np.uint16, np.uint16, np.uint16, np.uint32]


def test_the_tables_of_all_rows_are_the_sum_of_the_silos():
    rng = np.random.default_rng(3)
    levels = np.array([2, 3, 4])
    columns = rng.integers(0, levels, (500, 3)).T.astype(np.int16)
    sets = np.array([[0, 1, 2], [0, 2, -1]], np.int16)
    parts = [np.ascontiguousarray(columns[:, k::7]) for k in range(7)]
    total = sum(count(part, levels, sets).astype(np.int64) for part in parts)
    np.testing.assert_array_equal(total, count(columns, levels, sets))


def test_rows_without_a_cell_that_a_set_needs_are_left_out_of_its_table_alone():
    rng, levels = np.random.default_rng(4), np.array([2, 3, 4])
    table = np.array([rng.integers(-1, n, 200) for n in levels], np.int16)
    sets = np.array([[0, -1, -1], [0, 1, -1], [0, 1, 2], [1, 2, -1]], np.int16)
    found = np.split(count(table, levels, sets), offsets(sets, levels)[1:-1])
    for own, chosen in zip(found, sets, strict=True):
        variables = chosen[chosen >= 0]
        there = table[variables][:, (table[variables] >= 0).all(axis=0)]
        expected = np.zeros(levels[variables], np.int64)
        np.add.at(expected, tuple(there), 1)
        np.testing.assert_array_equal(own, expected.ravel())
