"""The requested conditioning sets: each is requested exactly once, and promising ones come first."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.constraint.subsets import SubsetSource, next_tests


def drawing(d, size, seed=0, **changes):
    rng = np.random.default_rng(seed)
    strength = rng.random((d, d))
    strength = strength + strength.T
    none = np.zeros((d, d), bool)
    everything = {
        "size": size,
        "pools": ~np.eye(d, dtype=bool) & (rng.random((d, d)) < 0.7),
        "exhausted": none,
        "strength": strength,
        "cardinalities": np.full(d, 2),
        "blocks": np.ones((1, d), bool),
        "block_of": np.zeros((d, d), np.int64),
        "max_sets": 10**9,
        "most_cells": np.inf,
    }
    return SubsetSource(**{**everything, **changes})


def all_of(draw, pairs, cells=1e9):
    """Every test, batch after batch."""
    asked, found = np.zeros(len(pairs), np.int64), []
    while True:
        tests, asked, _ = next_tests(draw, pairs, asked, cells)
        if not len(tests):
            return found
        found.append(tests)


def expected(draw, i, j):
    """Subsets of either pool, by itertools."""
    pools = [np.flatnonzero(draw.pools[v] & (np.arange(len(draw.pools)) != other)) for v, other in ((i, j), (j, i))]
    return {frozenset(s) for pool in pools for s in combinations(pool.tolist(), draw.size)}


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 8), st.integers(0, 4), st.integers(0, 99), st.sampled_from([1.0, 40.0, 1e9]))
def test_every_subset_of_either_pool_is_asked_once(d, size, seed, cells):
    draw = drawing(d, size, seed)
    pairs = np.array(list(combinations(range(d), 2)))
    tests = [tuple(row) for batch in all_of(draw, pairs, cells) for row in batch.tolist()]
    for i, j in pairs.tolist():
        sets = [frozenset(given) for x, y, *given in tests if (x, y) == (i, j)]
        assert len(sets) == len(set(sets))
        assert set(sets) == expected(draw, i, j)


def test_batches_do_not_change_the_order_within_a_pair():
    draw = drawing(7, 2)
    pairs = np.array(list(combinations(range(7), 2)))
    (whole,) = all_of(draw, pairs)
    parts = all_of(draw, pairs, cells=200)
    assert len(parts) > 3
    for pair in pairs:
        of_pair = [batch[(batch[:, :2] == pair).all(axis=1)] for batch in parts]
        np.testing.assert_array_equal(np.concatenate(of_pair), whole[(whole[:, :2] == pair).all(axis=1)])


def test_the_promising_come_first():
    """Sets of the k best variables come before sets with the next one; the weaker of two dependences ranks."""
    draw = drawing(6, 2, pools=~np.eye(6, dtype=bool))
    (tests,) = all_of(draw, np.array([[0, 1]]))
    promise = np.minimum(draw.strength[0], draw.strength[1])
    best = sorted(range(2, 6), key=lambda k: -promise[k])
    ranks = [sorted(best.index(k) for k in given) for given in tests[:, 2:]]
    assert ranks == sorted(ranks, key=lambda pair: pair[::-1])
    assert ranks[0] == [0, 1]


def test_the_order_of_the_columns_does_not_matter():
    draw = drawing(6, 2, 5)
    order = np.array([3, 0, 5, 1, 4, 2])
    turned = drawing(6, 2, pools=draw.pools[np.ix_(order, order)], strength=draw.strength[np.ix_(order, order)])
    (tests,) = all_of(draw, np.array([[0, 3]]))
    (same,) = all_of(turned, np.array([[0, 1]]))
    assert [set(order[row].tolist()) for row in same[:, 2:]] == [set(row) for row in tests[:, 2:].tolist()]


def test_what_was_tried_before_is_not_tried_again():
    tried = np.zeros((5, 5), bool)
    tried[0, [2, 3]] = True
    draw = drawing(5, 2, pools=~np.eye(5, dtype=bool), exhausted=tried)
    (tests,) = all_of(draw, np.array([[0, 1]]))
    assert {frozenset(row) for row in tests[:, 2:].tolist()} == {frozenset({2, 4}), frozenset({3, 4})}


def test_a_pair_stays_within_its_block():
    blocks = np.array([[True, True, True, True, False]])
    draw = drawing(5, 1, pools=~np.eye(5, dtype=bool), blocks=blocks)
    (tests,) = all_of(draw, np.array([[0, 1]]))
    assert sorted(tests[:, 2].tolist()) == [2, 3]


@pytest.mark.parametrize(("max_sets", "n"), [(1, 1), (4, 4), (100, 6)])
def test_no_more_sets_than_allowed(max_sets, n):
    draw = drawing(6, 2, pools=~np.eye(6, dtype=bool), max_sets=max_sets)
    for cells in (1.0, 1e9):
        assert sum(map(len, all_of(draw, np.array([[0, 1]]), cells))) == n


def test_tables_that_are_too_large_are_left_out_and_counted():
    draw = drawing(5, 1, pools=~np.eye(5, dtype=bool), cardinalities=np.array([2, 2, 3, 4, 5]), most_cells=15)
    tests, asked, left_out = next_tests(draw, np.array([[0, 1]]), np.zeros(1, np.int64), 1e9)
    assert tests[:, 2].tolist() == [2]
    assert (asked.tolist(), left_out) == ([3], 2)


def test_a_batch_has_about_the_cells_asked_for_and_a_test_for_everyone():
    draw = drawing(10, 2, pools=~np.eye(10, dtype=bool))
    pairs = np.array(list(combinations(range(10), 2)))
    asked = np.zeros(len(pairs), np.int64)
    for cells, least, most in ((1, 45, 45), (3200, 100, 245), (10**6, 45 * 28, 45 * 28)):
        tests, _, _ = next_tests(draw, pairs, asked, cells)
        assert least <= len(tests) <= most
