"""PFDBNL with partial participation: means are over the participants, and the duals of other silos do not change."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.admm.acyclicity import acyclicity
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.dynamic.pfdbnl import Pfdbnl, build, personal_structure
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.dynamic.series import unequal
from tests.algorithms.exact import exact

LENGTHS = {"silo-1": 20, "silo-2": 60, "silo-3": 90, "silo-4": 45}


@pytest.fixture(scope="module")
def data():
    return unequal(dynamic(4, 4, 90, 5, own_structures=True), LENGTHS)


def watched(data, **settings):
    """The servers of all rounds, and of each round who took part and the silos' states after it."""
    algorithm = build(Pfdbnl(collect=False, tolerance=1e-9, **settings))
    drawn, states = [], []
    federation = InProcessFederation(data.schema, data.tables)

    def aggregate(server, replies):
        drawn.append(algorithm.broadcast(server).taking_part)
        states.append(dict(federation.states()))
        return algorithm.aggregate(server, replies)

    servers = [one.server for one in rounds(replace(algorithm, aggregate=aggregate), federation)]
    return servers, drawn, states


@pytest.mark.parametrize("participants", [0, 1, 3])
def test_h_is_the_mean_over_those_that_take_part_and_moves_alpha(data, participants):
    settings = {"participants": participants, "rounds": 5, "rho1": 0.7, "rho1_growth": 1.5}
    servers, drawn, states = watched(data, **settings)
    alpha, rho1 = 0.0, 0.7
    for server, taking_part, after in zip(servers, drawn, states, strict=True):
        assert len(taking_part) == (participants or 4)
        h = np.mean([acyclicity(after[silo].own[:4])[0] for silo in taking_part])
        assert server.h == pytest.approx(h, abs=1e-8)
        alpha, rho1 = alpha + rho1 * h, rho1 * 1.5
        assert (server.alpha, server.rho1) == pytest.approx((alpha, rho1), abs=1e-7)
    assert alpha > 0.01


def test_a_dual_moves_once_for_each_round_that_its_silo_took_part_in(data):
    """β_k ← β_k + ρ₂(B̃_k − B), when the silo hears the B of a round in which it took part, and never again for it."""
    servers, drawn, states = watched(data, participants=2, rounds=9, rho2=0.4, rho2_growth=1.3)
    assert len(set(drawn)) > 3
    beta, rho2, moved = defaultdict(lambda: np.zeros((8, 4))), 0.4, []
    for number, after in enumerate(states):
        for silo in drawn[number - 1] if number else ():
            step = rho2 * (states[number - 1][silo].near - servers[number - 1].B)
            beta[silo] = beta[silo] + step
            moved.append(np.abs(step).max())
        rho2 *= 1.3 if number else 1.0
        for silo, state in after.items():
            np.testing.assert_allclose(state.beta, beta[silo], atol=1e-8)
    assert min(moved) > 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_what_a_silo_takes_over_counts_as_rows_of_its_own(seed):
    """Its moments are those of the consensus, so that it trusts it: an effect is kept that its 40 windows cannot pay.

    The effect explains 0.0625 of the variance; it costs 0.127 of 40 windows, and 0.020 of those and 320 pseudo-rows.
    """
    consensus = np.zeros((4, 2))
    consensus[2, 0], consensus[3, 1] = 0.25, 0.9
    S = np.eye(4)
    S[:2, :2] = np.diag([0.25**2 + 1, 0.9**2 + 1])
    S[0, 2] = S[2, 0] = 0.25
    S[1, 3] = S[3, 1] = 0.9
    table = exact(S, {"s": 40}, seed)["s"]
    X = (table - table.mean(axis=0)) * np.sqrt(40 / 39)
    found = personal_structure(X, consensus)
    assert found[2, 0] == pytest.approx(0.25, abs=1e-3)
    assert found[3, 1] == pytest.approx(0.9, abs=1e-3)
    assert np.count_nonzero(found) == 2
    assert personal_structure(X, 0 * consensus)[2, 0] == 0
