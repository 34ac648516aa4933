import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.admm.consensus import change_between, entry_bytes, suppress_small_changes


@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(0, 1))
def test_putting_a_change_on_the_old_matrix_gives_the_new_one(seed: int, d: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(d, d))
    new = np.where(rng.random((d, d)) < share, rng.normal(size=(d, d)), old)
    np.testing.assert_array_equal(change_between(old, new).put(old), new)


@pytest.mark.parametrize(("d", "size"), [(2, 9), (16, 9), (17, 10), (20, 10), (200, 10), (256, 10), (257, 11)])
def test_the_price_of_an_entry_is_the_papers(d: int, size: int) -> None:
    assert entry_bytes((d, d)) == size


def test_a_change_costs_the_cheaper_of_list_and_matrix() -> None:
    old, new = np.zeros((20, 20)), np.zeros((20, 20))
    new[0, :5] = 1
    assert change_between(old, new).cost == 5 * 10
    assert change_between(old, np.ones((20, 20))).cost == 400 * 8
    assert change_between(old, old).cost == 0


def test_only_what_moved_enough_is_let_through() -> None:
    old, new = np.zeros((2, 2)), np.array([[0.0, 0.05], [0.05, 0.0]])
    np.testing.assert_array_equal(suppress_small_changes(old, new, np.array([0.1, 0.01])), [[0, 0], [0.05, 0]])
