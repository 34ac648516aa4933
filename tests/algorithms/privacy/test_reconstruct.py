import numpy as np
import pytest

from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.attack import reconstruct_from_first_reply, relative_error, run_attack


def first_reply(S, rho2):
    """The closed-form local update (S + ρ₂I)⁻¹(ρ₂W − β + S) at W = β = 0."""
    return np.linalg.solve(S + rho2 * np.eye(len(S)), S)


@pytest.mark.parametrize("seed", range(5))
def test_a_reply_gives_the_second_moments_away(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 6))
    S = rows.T @ rows / 40
    assert relative_error(reconstruct_from_first_reply(first_reply(S, 2.0), 2.0), S) < 1e-9


def test_protection_leaves_the_attacker_no_more_than_what_is_public():
    plain, masked, private = run_attack(homogeneous(6, 4, 1000, 1), epsilon=3.0)
    assert max(plain.error.values()) < 1e-6
    assert min(plain.public.values()) > 0.005
    for protected in (masked, private):
        for silo, error in protected.error.items():
            assert error > 0.5 * protected.public[silo]
    assert max(masked.public.values()) == pytest.approx(max(plain.public.values()), rel=1e-3)


def test_too_few_rows_for_an_epsilon_leave_the_other_attacks():
    plain, masked, private = run_attack(homogeneous(6, 4, 5, 1), epsilon=1.0)
    assert plain.succeeds
    assert not masked.succeeds
    assert not private.succeeds
    assert private.finding.startswith("does not run on these rows: 20 rows are too few for this budget")
