import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import linear_network


def network(W, A, intercepts=(0.0, 0.0)):
    structure = Structure(("x", "y"), np.array(W, float), lagged=np.array(A, float))
    return linear_network(structure, np.array(intercepts), np.ones(2), np.zeros(2), np.ones(2))


def test_a_forecast_by_hand():
    """x = 1 + 0.5 x[t-1] - 0.1 y[t-2], y = 2 + 3 x: y is computed from the expected x."""
    model = network([[0, 3], [0, 0]], [[[0.5, 0], [0, 0]], [[0, 0], [-0.1, 0]]], (1.0, 2.0))
    np.testing.assert_allclose(model.forecast(np.array([[7.0, 20.0], [4.0, 9.0]])), [1.0, 5.0])


@pytest.mark.parametrize("a", [0.9, -1.0, 1.2])
def test_one_variable_alone_explodes_with_its_weight(a):
    assert network([[0, 0], [0, 0]], [[[a, 0], [0, 0.1]]]).spectral_radius == pytest.approx(abs(a))


def test_edges_within_one_time_close_the_loop():
    """x drives y at once and y drives x a step later: neither matrix alone shows that 2 · 0.6 > 1."""
    assert network([[0, 2], [0, 0]], [[[0, 0], [0.6, 0]]]).spectral_radius == pytest.approx(1.2)


def test_two_lags_by_the_roots_of_their_polynomial():
    model = network([[0, 0], [0, 0]], [[[0.5, 0], [0, 0]], [[0.3, 0], [0, 0]]])
    assert model.spectral_radius == pytest.approx(max(abs(np.roots([1, -0.5, -0.3]))))


def test_a_static_structure_is_no_dynamic_network():
    with pytest.raises(ValueError, match="lags"):
        linear_network(Structure(("x",), np.zeros((1, 1))), np.zeros(1), np.ones(1), np.zeros(1), np.ones(1))
