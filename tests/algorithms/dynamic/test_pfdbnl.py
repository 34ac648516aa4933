"""PFDBNL: the silo's problem, the participants, the collected values, and the benefit of personal structures."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.acyclicity import acyclicity
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.dynamic.pfdbnl import (
    Acyclic,
    Pfdbnl,
    build,
    implied_moments,
    local_structures,
    personal_structure,
    solve,
)
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure, stacked
from fedbnsl.algorithms.statistics.lagged import windows
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.dynamic.series import differing, learn


@given(st.integers(0, 1000))
def test_the_gradient_of_the_price_of_cycles_is_that_of_finite_differences(seed):
    price, W = Acyclic(0.7, 3.0), np.random.default_rng(seed).normal(0, 0.5, 9)
    off = check_grad(
        lambda w: price.value_and_gradient(w.reshape(3, 3))[0],
        lambda w: price.value_and_gradient(w.reshape(3, 3))[1].ravel(),
        W,
    )
    assert off < 1e-3 * max(1.0, np.linalg.norm(price.value_and_gradient(W.reshape(3, 3))[1]))


def test_the_silos_problem_is_solved_to_its_conditions():
    rng = np.random.default_rng(0)
    rows, near = rng.normal(size=(50, 6)), 0.3 * rng.normal(size=(6, 3))
    S, l1, price = rows.T @ rows / 50, np.full(6, 0.05), Acyclic(0.2, 1.0)
    B = solve(S, near, np.zeros((6, 3)), 0.4, l1, price, 5000)
    gradient = S @ B - S[:, :3] + 0.8 * (B - near)
    gradient[:3] += price.value_and_gradient(B[:3])[1]
    free = ~np.eye(6, 3, dtype=bool)
    zero = free & (np.abs(B) < 1e-8)
    assert (np.abs(gradient[zero]) <= 0.05 + 1e-3).all()
    np.testing.assert_allclose(gradient[free & ~zero], -0.05 * np.sign(B[free & ~zero]), atol=1e-3)


def test_a_growing_price_leaves_no_cycle():
    rows = np.random.default_rng(1).normal(size=(30, 8))
    rows[:, 0] += rows[:, 1]
    S = rows.T @ rows / 30
    assert (
        acyclicity(solve(S, np.zeros((8, 4)), np.zeros((8, 4)), 0.1, np.zeros(8), Acyclic(0, 1e6), 500)[:4])[0] < 1e-3
    )


def test_implied_moments_are_those_of_a_long_series():
    data = dynamic(4, 1, 200_000, 2)
    (table,) = data.tables.values()
    X = windows(table, (len(table),), 1)
    S = X.T @ X / len(X)
    weights = np.vstack([data.truth.weights, *data.truth.lagged])
    np.testing.assert_allclose(implied_moments(S, weights, 1.0), S, atol=0.03)


def test_a_silo_trusts_the_others_as_far_as_its_rows_bear_out():
    """With 30 windows: the common network is nearly taken over where it is the silo's own, and ignored where not."""
    gains, harms = [], []
    for seed in range(4):
        same, others = dynamic(6, 1, 30, seed, degree=3.0), dynamic(6, 1, 30, 100 + seed, degree=3.0)
        (table,) = same.tables.values()
        X = windows(table, (31,), 1)
        true, wrong = (np.vstack([one.truth.weights, *one.truth.lagged]) for one in (same, others))
        names = same.schema.variables

        def far(weights: np.ndarray, names=names, truth=same.truth) -> int:
            return differing(stacked(names, weights, abs(weights)), truth)

        alone = far(personal_structure(X, np.zeros_like(true)))
        gains.append(alone - far(personal_structure(X, true)))
        harms.append(far(personal_structure(X, wrong)) - alone)
    assert np.mean(gains) > 4
    assert np.mean(harms) < 2


def test_few_windows_do_not_fill_the_graph_with_wrong_edges():
    """64 windows of 20 variables, and silos without common edges: their consensus must not make edges cheap."""
    data, wrong, true = dynamic(20, 2, 64, 101, own_structures=True), 0, 0
    for silo, table in data.tables.items():
        edges = personal_structure(windows(table, (65,), 1), np.zeros((40, 20)))[:20] != 0
        truth = data.silo_weights[silo][0] != 0
        wrong, true = wrong + (edges & ~truth & ~truth.T).sum(), true + truth.sum()
    assert wrong < 0.5 * true


@pytest.fixture(scope="module")
def own():
    return dynamic(5, 4, 40, 3, own_structures=True)


def test_in_a_round_only_those_drawn_take_part(own):
    algorithm = build(Pfdbnl(participants=2, rounds=4))
    sent = []

    def local_solve(silo, message):
        state, reply = algorithm.local_solve(silo, message)
        if not message.last:
            sent.append((silo.name in message.taking_part, bool(reply.mean.any())))
        return state, reply

    watched = replace(algorithm, local_solve=local_solve)
    servers = [one.server for one in rounds(watched, InProcessFederation(own.schema, own.tables))]
    assert all(drawn == spoke for drawn, spoke in sent)
    assert sum(drawn for drawn, _ in sent) == 2 * 4
    assert len({algorithm.broadcast(server).taking_part for server in servers}) > 1


def test_the_consensus_is_the_mean_of_those_that_take_part(own):
    algorithm = build(Pfdbnl(rounds=1, collect=False))
    federation = InProcessFederation(own.schema, own.tables)
    (one,) = rounds(algorithm, federation)
    states = federation.states().values()
    np.testing.assert_allclose(one.server.B, np.mean([state.near for state in states], axis=0), atol=1e-8)
    for state in states:
        np.testing.assert_allclose(state.near, 0.2 * state.own / 1.2)  # W and β are zero in the first round


@pytest.mark.parametrize("secure", [False, True])
def test_every_silos_own_structure_is_collected_at_the_end(own, secure):
    settings = {"rounds": 3}
    _, server = learn(own, "pfdbnl", settings, secure=secure)
    found = local_structures(server, Pfdbnl(rounds=3))
    assert tuple(found) == own.schema.silos
    assert all(isinstance(one, Structure) and one.acyclic and one.lags == 1 for one in found.values())
    _, kept = learn(own, "pfdbnl", settings | {"collect": "false"}, secure=secure)
    assert local_structures(kept, Pfdbnl()) == {}


def test_masks_change_no_personal_structure(own):
    plain, hidden = (learn(own, "pfdbnl", {"rounds": 3}, secure=secure)[1] for secure in (False, True))
    np.testing.assert_array_equal(plain.own, hidden.own)


@pytest.mark.slow
def test_silos_that_differ_are_better_off_with_structures_of_their_own():
    shd = {"own": 0, "common": 0}
    for seed in range(2):
        data = dynamic(5, 4, 60, seed, own_structures=True, degree=2.0)
        _, server = learn(data, "pfdbnl")
        common, _ = learn(data, "fdbnl")
        for silo, structure in registry.build(registry.specify("pfdbnl")).local_structures(server).items():
            own = data.silo_weights[silo]
            truth = Structure(data.schema.variables, own[0], lagged=own[1:])
            shd["own"] += differing(structure, truth)
            shd["common"] += differing(common, truth)
    assert shd["own"] < 0.8 * shd["common"]


def test_more_participants_than_silos_are_refused(own):
    with pytest.raises(BadInput, match="participants is 5: there are 4 silos"):
        learn(own, "pfdbnl", {"participants": 5})


def test_it_ends_before_its_rounds_are_over():
    data = dynamic(5, 4, 60, 1000, heterogeneity=0.1)
    algorithm = registry.build(registry.specify("pfdbnl", {"refine": False}))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    assert last.outcome == "converged"
    assert last.number < 40
