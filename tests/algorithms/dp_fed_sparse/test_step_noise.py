"""The noise of private steps has the planned variance, and no two releases share noise."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.promise import Cost, ReplaceOne
from fedbnsl.algorithms.dp_fed_sparse import silo
from fedbnsl.algorithms.dp_fed_sparse.clipping import huber
from fedbnsl.algorithms.dp_fed_sparse.silo import PrivateProblem, dp_pgcd, residuals
from fedbnsl.algorithms.dp_fed_sparse.step_noise import GumbelGaussian, LaplacePair
from fedbnsl.algorithms.privacy.discrete_gaussian import Bits

D, ROWS, RUNS = 2, 50, 300
ONES = np.ones(D)
ALLOWED = np.array([[False, True], [False, False]])


def one_step(noise, key):
    """B_01 after a step on zeros, whose gradient is all noise, in units of its sensitivity."""
    clip = huber(0.7 * ONES, 0.7 * ONES, ONES, ONES)
    problem = PrivateProblem(np.zeros((D, D)), 0 * ONES, ONES, 0 * ONES, ALLOWED, np.zeros((D, D)), clip, ONES)
    table = np.zeros((ROWS, D))
    B = dp_pgcd(problem, table, residuals(table, problem.start), noise, 1, 1.0, key)
    return B[0, 1] / (2 * clip.reach[0, 1] / ROWS)


@pytest.mark.parametrize("noise", [GumbelGaussian(Cost(0.1, ReplaceOne), Cost(0.2, ReplaceOne)), LaplacePair(0.5)])
def test_a_gradient_has_as_much_noise_as_is_charged(noise):
    drawn = np.array([one_step(noise, k.to_bytes(32, "big")) for k in range(RUNS)])
    assert abs(drawn.mean()) < 4 * noise.deviation / RUNS**0.5
    assert drawn.std() == pytest.approx(noise.deviation, rel=0.2)
    if isinstance(noise, GumbelGaussian):
        assert noise.deviation**2 >= 1 / (2 * noise.step.rho)


@pytest.mark.parametrize("sensitivity", [0.02, 3.0])
@pytest.mark.parametrize("gap", [0.5, 2.0])
@pytest.mark.parametrize("kind", ["gumbel", "laplace"])
def test_a_selection_has_as_much_noise_as_is_charged(kind, gap, sensitivity):
    """`gap` is the distance of two scores in units of the scale: Δ/√(2ρ), or 2Δ/ε₀ of two scores that both change."""
    noise = LaplacePair(0.8) if kind == "laplace" else GumbelGaussian(Cost(0.1, ReplaceOne), Cost(0.2, ReplaceOne))
    scale = 2 * sensitivity / 0.8 if kind == "laplace" else sensitivity / np.sqrt(2 * 0.1)
    bits, scores = Bits(bytes(32)), np.array([0.0, gap * scale, -np.inf if kind == "gumbel" else -1e3 * scale])
    share = np.mean([noise.select(bits, scores, sensitivity) == 1 for _ in range(1000)])
    expected = 1 - np.exp(-gap) * (0.5 + gap / 4) if kind == "laplace" else 1 / (1 + np.exp(-gap))
    assert share == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 1000))


def test_choices_and_gradients_have_keys_of_their_own(monkeypatch):
    """Under one key, who knows the choices would know something of the noise in the gradients."""
    keys, real = [], silo.Bits
    monkeypatch.setattr(silo, "Bits", lambda key: keys.append(key) or real(key))
    one_step(GumbelGaussian(Cost(0.1, ReplaceOne), Cost(0.2, ReplaceOne)), bytes(32))
    assert len(keys) == len(set(keys)) == 2
    assert bytes(32) not in keys
