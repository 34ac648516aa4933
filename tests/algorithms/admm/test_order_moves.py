import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.admm.orders import proposals, turned, variance_changes


def conditional_variances(S: np.ndarray, order: np.ndarray) -> float:
    """Σ_j var(x_j | those before), each by regression."""
    total = 0.0
    for k, j in enumerate(order):
        before = order[:k]
        explained = S[j, before] @ np.linalg.solve(S[np.ix_(before, before)], S[before, j]) if k else 0.0
        total += S[j, j] - explained
    return float(total)


def moments(seed: int, d: int) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(40, d)) @ np.random.default_rng(seed + 1).normal(size=(d, d))
    return X.T @ X / 40


def move(order: np.ndarray, start: int, end: int) -> np.ndarray:
    rest = [node for at, node in enumerate(order) if at != start]
    rest.insert(end, order[start])
    return np.array(rest)


@given(st.integers(0, 500), st.integers(2, 7))
def test_a_change_is_that_of_the_whole_sum(seed: int, d: int) -> None:
    S = moments(seed, d)
    order = np.random.default_rng(seed).permutation(d)
    moves = np.array([(a, b) for a in range(d) for b in range(d) if a != b], dtype=np.int32)
    changes = variance_changes(S, np.argsort(order), moves)
    now = conditional_variances(S, order)
    for (a, b), change in zip(moves, changes, strict=True):
        assert change == pytest.approx(conditional_variances(S, move(order, a, b)) - now, abs=1e-6 * now)


@given(st.integers(0, 500))
def test_moves_taken_together_add_up(seed: int) -> None:
    S, d = moments(seed, 8), 8
    place = np.random.default_rng(seed).permutation(d)
    edges = np.random.default_rng(seed + 2).random((d, d)) < 0.3
    np.fill_diagonal(edges, False)
    moves = proposals(place, edges)
    changes = variance_changes(S, place, moves)
    after = turned(place, moves, changes, 0.0)
    assert sorted(after) == list(range(d))
    gained = conditional_variances(S, np.argsort(after)) - conditional_variances(S, np.argsort(place))
    assert gained <= changes.min(initial=0.0) + 1e-9
    assert np.array_equal(after, place) == (changes.min(initial=0.0) >= 0)


def test_each_edge_may_be_turned_by_moving_either_end() -> None:
    edges = np.zeros((4, 4), dtype=bool)
    edges[2, 0] = True
    place = np.array([3, 1, 0, 2])  # the order is 2, 1, 3, 0
    assert proposals(place, edges).tolist() == [[0, 3], [3, 0]]


def test_with_equal_variances_a_reversed_edge_is_turned_back() -> None:
    """x1 = 2·x0 + noise: putting x1 first leaves it a variance of 5 to explain."""
    S = np.array([[1.0, 2.0], [2.0, 5.0]])
    place = np.array([1, 0])
    moves = proposals(place, np.array([[False, False], [True, False]]))
    assert turned(place, moves, variance_changes(S, place, moves), 0.01).tolist() == [0, 1]


def test_a_gain_too_small_to_matter_is_left() -> None:
    place = np.array([0, 1])
    assert turned(place, np.array([[0, 1]], dtype=np.int32), np.array([-0.5]), 0.6).tolist() == [0, 1]
