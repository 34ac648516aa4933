"""DP-Fed-Sparse-BNSL: what one record can move, what is paid for it, and that nothing goes around the noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms import registry, wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.in_process import federate, silo_generator
from fedbnsl.algorithms.privacy import dp_pgcd, dp_silo
from fedbnsl.algorithms.privacy.clip import Clip, huber, product
from fedbnsl.algorithms.privacy.dp_fed_sparse import DpFedSparse, build
from fedbnsl.algorithms.privacy.dp_settings import plan
from fedbnsl.algorithms.privacy.ledger import total
from fedbnsl.algorithms.privacy.spread import shares_sensitivity, truncated_squares
from fedbnsl.algorithms.protocol import Schema, rounds
from fedbnsl.data.generate import homogeneous

D, ROWS = 4, 8
SCALES = np.array([0.5, 1.0, 3.0, 20.0])
RULES = {
    "huber": huber(0.7 * SCALES, 0.7 * SCALES, SCALES, SCALES),
    "product": product("product", 50.0, SCALES**2),
}
extreme = arrays(np.float64, D, elements=st.one_of(st.floats(-1e5, 1e5), st.sampled_from([0.0, 1e-20, 1e6])))
tables = arrays(np.float64, (ROWS, D), elements=st.floats(-50, 50))
B = np.triu(np.random.default_rng(0).normal(size=(D, D)), 1)


def gradient(clip: Clip, table, record):
    """Return the data term of the gradient at B, `[d, d]`, with `record` in the place of the first row."""
    table = table.copy()
    table[0] = record
    R, factors = dp_pgcd.residuals(table, B), clip.factors(table)
    return np.stack([clip.gradient(factors, R[j], j) for j in range(D)], axis=1)


def problem(clip):
    d = len(SCALES)
    allowed = ~np.eye(d, dtype=bool)
    M, weights = SCALES**2, SCALES.min() / SCALES
    return dp_pgcd.PrivateProblem(np.zeros((d, d)), np.zeros(d), M, 0.05 * SCALES, allowed, B, clip, weights)


def scores(clip, G):
    where = dp_pgcd.entries(problem(clip).allowed)
    return np.concatenate([dp_pgcd.scores(problem(clip), G[:, j], B[:, j], where, j) for j in range(D)])


@pytest.mark.parametrize("rule", RULES)
def test_no_record_moves_a_gradient_or_a_score_by_more_than_is_stated(rule):
    clip = RULES[rule]

    @settings(max_examples=150, deadline=None)
    @given(tables, extreme, extreme)
    def law(table, one, other):
        G, H = gradient(clip, table, one), gradient(clip, table, other)
        assert (np.abs(G - H) <= 2 * clip.reach / ROWS * (1 + 1e-9)).all()
        moved = np.abs(scores(clip, G) - scores(clip, H)).max()
        assert moved <= dp_pgcd.score_sensitivity(problem(clip), ROWS)

    law()


def worst_move(clip):
    """Return by what share of the stated sensitivity two opposite records move the gradient."""
    table = np.zeros((ROWS, D))
    one, other = np.full(D, 1e5), np.full(D, 1e5) * [1, -1, 1, -1]
    moved = np.abs(gradient(clip, table, one) - gradient(clip, table, other))
    return float((moved / (2 * clip.reach / ROWS)).max())


def test_the_stated_sensitivity_is_reached_and_clipping_the_average_breaks_it():
    for clip in RULES.values():
        assert 0.5 < worst_move(clip) <= 1 + 1e-9
    assert worst_move(product("average", 50.0, SCALES**2)) > 5


@settings(max_examples=100, deadline=None)
@given(tables, extreme, extreme)
def test_the_spread_moves_by_no_more_than_is_stated(table, one, other):
    shares = []
    for record in (one, other):
        changed = table.copy()
        changed[0] = record
        shares.append(truncated_squares(changed, SCALES))
    assert np.linalg.norm(shares[0] - shares[1]) <= shares_sensitivity(D, ROWS) * (1 + 1e-12)


SCHEMA = Schema(tuple("abcde"), {"one": 400, "two": 500})


@pytest.mark.parametrize("params", [{}, {"preset": "paper", "rounds": 5}, {"mechanism": "mangold"}, {"steps": 3}])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_whole_price_is_what_was_promised(params, epsilon):
    config = registry.configure("dp-fed-sparse", {"epsilon": epsilon, **params})
    wanted = plan(config, SCHEMA)
    each = [wanted.scales] + [
        cost for _ in range(config.rounds) for cost in (wanted.spread, wanted.choices, wanted.gradients)
    ]
    spent, promised = total(each).rho, wanted.promise.cost.rho
    assert spent <= promised
    if config.mechanism == "gumbel":
        assert spent > 0.99 * promised


def test_what_is_sent_and_kept_follows_from_what_was_released(monkeypatch):
    """Two tables, one key; all released numbers forced to be alike: then replies and states are alike, too."""
    config = DpFedSparse(epsilon=1.0, steps=6)
    algorithm = build(config)
    monkeypatch.setattr(dp_pgcd, "release", lambda noise, value, drawn: drawn * noise.grid)
    monkeypatch.setattr(dp_silo, "private_squares", lambda bits, values, caps, cost: np.full(5, 0.4))
    monkeypatch.setattr(
        "fedbnsl.algorithms.privacy.step_noise.exponential", lambda bits, scores, scale: bits.below(len(scores))
    )
    sent = []
    for seed in (1, 2):
        table = np.random.default_rng(seed).normal(size=(400, 5)) * seed
        state = algorithm.open_silo(table, SCHEMA, "one", silo_generator(0, "one"))
        server = algorithm.open_server(SCHEMA)
        ask = dp_silo.Ask(np.ones(5), np.ones(5), algorithm.broadcast(server).W, np.arange(5))
        state, part = algorithm.local_solve(algorithm.private.keyed(state, b"k" * 32), ask)
        sent.append((wire.encode(part), wire.encode(state.B), wire.encode(state.beta)))
    assert sent[0] == sent[1]


@pytest.mark.parametrize("params", [{}, {"acyclicity": "notears"}, {"clip": "product"}, {"mechanism": "mangold"}])
def test_with_hardly_any_noise_the_graph_is_found(params):
    data = homogeneous(6, 3, 3000, 4)
    more = {"epsilon": 1e5, "insecure_seed": 1, "rounds": 25, "steps": 40, **params}
    algorithm = registry.build("dp-fed-sparse", registry.configure("dp-fed-sparse", more))
    *_, last = rounds(algorithm, federate(data.tables, data.schema.variables))
    assert compare(algorithm.structure(last.server), data.truth, allow_cyclic_truth=True)["shd_skeleton"] <= 1


def test_at_a_moderate_budget_most_of_the_graph_is_found():
    found = []
    for seed in (100, 101, 103):
        data = homogeneous(20, 8, 5000, seed)
        algorithm = build(DpFedSparse(epsilon=5.0, insecure_seed=seed))
        *_, last = rounds(algorithm, federate(data.tables, data.schema.variables))
        found.append(compare(algorithm.structure(last.server), data.truth)["shd"])
    assert np.mean(found) <= 3


def test_the_average_clip_is_called_not_private():
    promise = plan(DpFedSparse(clip="average"), SCHEMA).promise
    assert "clips the average" in promise.broken


def test_bounds_that_are_asked_for_must_be_given():
    for given_, said in (
        ({"smoothness": "private"}, "second_moment_bound"),
        ({"smoothness": "known"}, "known_smoothness"),
    ):
        with pytest.raises(BadInput, match=said):
            registry.configure("dp-fed-sparse", given_)
    registry.configure("dp-fed-sparse", {"smoothness": "known", "known_smoothness": 2.0})


@pytest.mark.parametrize(
    "given_", [{"smoothness": "private", "second_moment_bound": 50.0}, {"smoothness": "known", "known_smoothness": 2.0}]
)
def test_curvatures_may_come_from_elsewhere(given_):
    algorithm = registry.build(
        "dp-fed-sparse", registry.configure("dp-fed-sparse", {"epsilon": 20.0, "rounds": 3, **given_})
    )
    data = homogeneous(5, 3, 500, 4)
    federation = federate(data.tables, data.schema.variables)
    *_, last = rounds(algorithm, federation)
    assert last.number == (4 if given_["smoothness"] == "private" else 3)
    assert algorithm.structure(last.server).acyclic
