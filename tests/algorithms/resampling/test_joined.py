import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import Sparse
from fedbnsl.algorithms.resampling.bootstrap import concatenate_sparse, concatenate_summands, split_sum


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_the_sum_of_joined_vectors_is_taken_apart_into_the_sums(dtype):
    rng = np.random.default_rng(0)
    lengths = (3, 0, 5)
    silos = [[rng.integers(-9, 9, n).astype(dtype) for n in lengths] for _ in range(4)]
    total = np.sum([concatenate_summands(vectors) for vectors in silos], axis=0)
    assert total.dtype == dtype
    parts = split_sum(total, 3, 4)
    for which, part in enumerate(parts):
        np.testing.assert_array_equal(part, np.sum([vectors[which] for vectors in silos], axis=0))


def test_positions_are_those_of_each_vector_behind_the_lengths():
    found = concatenate_sparse([Sparse(np.array([0, 2]), 3), Sparse(np.array([1]), 4)])
    vectors = [np.array([5.0, 0, 6]), np.array([0, 7.0, 0, 0])]
    whole = concatenate_summands(vectors)
    assert found.length == len(whole)
    np.testing.assert_array_equal(np.flatnonzero(whole), found.positions)


def test_where_one_does_not_know_its_zeros_nothing_is_left_out():
    assert concatenate_sparse([Sparse(np.array([0]), 3), None]) is None
