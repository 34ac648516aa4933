"""Order searches with a time limit: the same moves as without one, and the best graph found so far."""

import math
import time

import numpy as np
import pytest

from fedbnsl.algorithms.score import order_starts
from fedbnsl.algorithms.score.block_order import block_boss
from fedbnsl.algorithms.score.gaussian import price_of
from fedbnsl.algorithms.score.gaussian_order import gaussian_boss
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.algorithms.statistics.coding import Blocks

ROWS = 500


def correlations(d: int, seed: int) -> np.ndarray:
    """The correlations of rows of a random DAG over d numbers."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.normal(size=(d, d)) * (rng.random((d, d)) < 3 / d), 1)
    X = rng.normal(size=(ROWS, d)) @ np.linalg.inv(np.eye(d) - W)
    return np.corrcoef(X[:, rng.permutation(d)], rowvar=False)


def by_gaussian(R, ends):
    return gaussian_boss(R, ROWS, math.log(ROWS), OrderSettings(), ends=ends)


def by_blocks(R, ends):
    return block_boss(Blocks(ROWS, R, np.arange(len(R) + 1)), price_of(ROWS), OrderSettings(), ends=ends)


SEARCHES = pytest.mark.parametrize("search", [by_gaussian, by_blocks])


@SEARCHES
@pytest.mark.parametrize("d", [2, 12, 60])
def test_a_search_with_time_to_spare_is_the_same_as_one_without_a_limit(search, d, monkeypatch):
    monkeypatch.setattr(order_starts, "MOVED_AT_ONCE", 7)
    R = correlations(d, d)
    free, limited = search(R, math.inf), search(R, time.monotonic() + 3600)
    np.testing.assert_array_equal(limited.dag, free.dag)
    assert (limited.score, limited.starts, limited.agreeing) == (free.score, free.starts, free.agreeing)
    assert limited.complete
    assert free.complete


@SEARCHES
def test_a_search_without_time_says_so_and_has_the_parents_of_its_first_order(search):
    R = correlations(60, 1)
    cut, free = search(R, time.monotonic() - 1), search(R, math.inf)
    assert not cut.complete
    assert cut.starts == 1
    assert cut.dag.any()
    nothing = search(np.eye(60), math.inf).score
    assert nothing < cut.score < free.score


@pytest.mark.slow
def test_more_time_gives_no_worse_a_score():
    R = correlations(120, 2)
    scores = [by_gaussian(R, time.monotonic() + seconds).score for seconds in (0.0, 0.05, 0.2, 3600.0)]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]
