import numpy as np
import pytest

from fedbnsl.algorithms.privacy.reconstruct import from_first_reply, from_later_reply, relative_error
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.attack import attack


def closed_form(S, W, beta, rho2):
    d = len(S)
    return np.linalg.solve(S + rho2 * np.eye(d), rho2 * W - beta + S)


@pytest.mark.parametrize("seed", range(5))
def test_a_reply_gives_the_second_moments_away(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 6))
    S, W, beta = rows.T @ rows / 40, rng.normal(size=(6, 6)), rng.normal(size=(6, 6))
    zero = np.zeros((6, 6))
    assert relative_error(from_first_reply(closed_form(S, zero, zero, 2.0), 2.0), S) < 1e-9
    B = closed_form(S, W, beta, 2.0)
    assert relative_error(from_later_reply(B, W, beta, 2.0), S) < 1e-9
    left = np.linalg.solve(B - np.eye(6), 2.0 * (W - B) - beta)  # as 000 A.1 has it
    assert relative_error(left, S) > 0.1


def test_protection_leaves_the_attacker_no_more_than_what_is_public():
    plain, masked, private = attack(homogeneous(6, 4, 1000, 1), epsilon=3.0)
    assert max(plain.error.values()) < 1e-6
    assert min(plain.public.values()) > 0.005
    for protected in (masked, private):
        for silo, error in protected.error.items():
            assert error > 0.5 * protected.public[silo]
    assert max(masked.public.values()) == pytest.approx(max(plain.public.values()), rel=1e-3)
