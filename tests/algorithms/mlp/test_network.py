"""The network, its loss and the gradients, against their formulas and finite differences."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import expit

from fedbnsl.algorithms.mlp import network
from fedbnsl.algorithms.mlp.network import WeightLayout, acyclicity, ridged_loss, sort_rows, squared_loss

LAYOUT = WeightLayout(d=4, units=3)
TABLE = np.random.default_rng(1).normal(1.0, 2.0, (60, 4))
THETA = 2 * LAYOUT.start(seed=2)
FREE = LAYOUT.free(~np.eye(4, dtype=bool))


def numerical(function: Callable[[np.ndarray], float], theta: np.ndarray, step: float = 1e-6) -> np.ndarray:
    gradient = np.zeros_like(theta)
    for at in np.ndindex(*theta.shape):
        change = np.zeros_like(theta)
        change[at] = step
        gradient[at] = (function(theta + change) - function(theta - change)) / (2 * step)
    return gradient


def test_the_loss_is_the_models() -> None:
    A, a, c, b = LAYOUT.split(THETA)
    expected = np.stack([expit(TABLE @ A[:, :, j] + a[:, j]) @ c[:, j] + b[j] for j in range(4)], axis=1)
    loss, _ = squared_loss(LAYOUT, THETA, TABLE, rows=40)
    assert loss == pytest.approx(0.5 / 40 * np.sum((TABLE - expected) ** 2))


@pytest.mark.parametrize("block", [1, 500, 10_000])
def test_the_gradient_of_the_loss_is_that_of_finite_differences(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "BLOCK", block)
    _, gradient = ridged_loss(LAYOUT, THETA, TABLE, 60, l2=0.3)
    expected = numerical(lambda theta: ridged_loss(LAYOUT, theta, TABLE, 60, l2=0.3)[0], THETA)
    np.testing.assert_allclose(gradient, np.where(FREE, expected, 0.0), atol=1e-7)


def test_biases_are_not_shrunk() -> None:
    gradients = [ridged_loss(LAYOUT, THETA, TABLE, 60, l2)[1] for l2 in (0.0, 1.0)]
    _, a, _, b = LAYOUT.split(gradients[1] - gradients[0])
    assert not a.any()
    assert not b.any()
    np.testing.assert_allclose(LAYOUT.split(gradients[1] - gradients[0])[2], LAYOUT.split(THETA)[2])


def test_the_acyclicity_is_that_of_the_norms_and_so_is_its_gradient() -> None:
    h, slope = acyclicity(LAYOUT, THETA)
    W = LAYOUT.adjacency(THETA)
    assert h == pytest.approx(np.trace(expm(W * W)) - 4)
    expected = numerical(lambda theta: acyclicity(LAYOUT, theta)[0], THETA)
    np.testing.assert_allclose(slope, expected[: LAYOUT.first], atol=1e-7)
    assert not expected[LAYOUT.first :].any()


def test_no_variable_explains_itself() -> None:
    start = LAYOUT.start(seed=0)
    assert start.shape == (LAYOUT.m, 4) == FREE.shape
    assert not np.diag(LAYOUT.adjacency(start)).any()
    assert (start[FREE] != 0).all(), "units that begin alike stay alike"


def test_rows_come_in_one_order() -> None:
    mixed = np.random.default_rng(0).permutation(TABLE)
    np.testing.assert_array_equal(sort_rows(mixed), sort_rows(TABLE))
