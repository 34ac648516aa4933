import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import check_grad

from fedbnsl.algorithms.admm.acyclicity import acyclicity, cyclic_part

seeds = st.integers(0, 10_000)


def random_matrix(seed: int, d: int = 6, density: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(d, d)) * (rng.random((d, d)) < density)
    np.fill_diagonal(W, 0)
    return W


@given(seeds)
def test_it_is_the_trace_of_the_whole_exponential(seed: int) -> None:
    W = random_matrix(seed)
    h, gradient = acyclicity(W)
    whole = expm(W * W)
    assert h == pytest.approx(np.trace(whole) - len(W), abs=1e-9)
    np.testing.assert_allclose(gradient, whole.T * 2 * W, atol=1e-9)


@given(seeds)
def test_it_is_zero_exactly_for_a_dag(seed: int) -> None:
    W = random_matrix(seed)
    acyclic = nx.is_directed_acyclic_graph(nx.from_numpy_array(W != 0, create_using=nx.DiGraph))
    assert (acyclicity(W)[0] == 0) == acyclic


@pytest.mark.parametrize("seed", range(5))
def test_gradient_against_finite_differences(seed: int) -> None:
    W = random_matrix(seed, density=0.6)
    error = check_grad(
        lambda w: acyclicity(w.reshape(W.shape))[0], lambda w: acyclicity(w.reshape(W.shape))[1].ravel(), W.ravel()
    )
    assert error < 1e-4 * max(1.0, np.abs(acyclicity(W)[1]).max())


@pytest.mark.compiles
@given(seeds, st.integers(-6, 6))
def test_units_change_nothing_but_the_size_of_the_numbers(seed: int, power: int) -> None:
    W = random_matrix(seed)
    units = np.geomspace(1, 10.0**power, len(W))
    part, plain = cyclic_part(W != 0, units), cyclic_part(W != 0, np.ones(len(W)))
    w = W[part.entries]
    (h, coefficients), (h_plain, coefficients_plain) = part.h(w), plain.h(w)
    # The error of a number grows with the largest of them.
    np.testing.assert_allclose(h, h_plain, rtol=1e-7, atol=1e-9)
    slopes = coefficients_plain * w
    np.testing.assert_allclose(coefficients * w, slopes, rtol=1e-7, atol=1e-7 * np.abs(slopes).max(initial=1.0))


def test_variables_in_very_different_units_do_not_overflow() -> None:
    """A cycle whose weights are 10⁵ one way and 10⁻⁵ back is a cycle of strength one; squared, 10¹⁰ would overflow."""
    W = np.array([[0, 1e5], [1e-5, 0]])
    part = cyclic_part(W != 0, np.array([1.0, 1e5]))
    h, _ = part.h(W[part.entries])
    assert h == pytest.approx(2 * np.cosh(1.0) - 2)
