import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare, summary_graph
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = tuple("abc")
W = np.array([[0, 0.2, 0], [0, 0, 0], [0, 0, 0]])
A = np.zeros((2, 3, 3))
A[0, 0, 0], A[0, 1, 0], A[1, 0, 1], A[1, 1, 2] = 0.9, 0.5, -0.7, 0.1
DYNAMIC = Structure(NAMES, W, lagged=A)


def test_the_strongest_of_all_lags_stands_for_all():
    expected = [[0, -0.7, 0], [0.5, 0, 0.1], [0, 0, 0]]
    np.testing.assert_array_equal(summary_graph(DYNAMIC).weights, expected)
    assert summary_graph(DYNAMIC).scores is None
    assert summary_graph(DYNAMIC).lags == 0
    static = Structure(NAMES, W)
    assert summary_graph(static) is static


def test_scores_are_summed_up_the_same_way():
    scored = Structure(NAMES, W, scores=np.full((3, 3), 0.3), lagged=A, lagged_scores=np.full((2, 3, 3), -0.6))
    np.testing.assert_array_equal(summary_graph(scored).scores, -0.6 * (1 - np.eye(3)))
    half = Structure(NAMES, W, lagged=A, lagged_scores=np.full((2, 3, 3), 0.1))
    np.testing.assert_array_equal(summary_graph(half).scores[0], [0, 0.2, 0.1])


def test_a_truth_that_says_only_who_drives_whom_is_held_against_the_summary():
    truth = Structure(NAMES, np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0.0]]))
    found = compare(DYNAMIC, truth)
    assert (found["shd"], found["correct"], found["reversed"], found["edges"]) == (1, 2, 1, 3)
    assert not [name for name in found if name.startswith("lagged")]
    assert found["auroc"] == pytest.approx(7 / 9)
    with pytest.raises(BadInput, match="cycle"):
        compare(Structure(NAMES, W), truth)
