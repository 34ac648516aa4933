"""`secure-linear` on time series: lagged columns precede the present, and the data decide what directs its edges."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge, no_prior
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.dag import is_acyclic, topological_order
from fedbnsl.algorithms.graphs.structure import Structure, unstacked
from fedbnsl.algorithms.moments.elimination import squared_t_values
from fedbnsl.algorithms.moments.equal_variance import MIN_SCORE_GAIN, score_fit
from fedbnsl.algorithms.moments.tiers import (
    RIDGE,
    best_lagged_fit,
    free_lagged_fit,
    price_of_parent,
    ridge_effects,
    ridge_strengths,
    weights_in_order,
)
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.algorithms.statistics.lagged import centred_means, centred_windows, windows
from fedbnsl.algorithms.statistics.moments import unit_diagonal
from fedbnsl.data.federated import FederatedData, time_series
from fedbnsl.data.generators.dynamic import svar
from fedbnsl.tasks.transport.in_process import InProcessFederation

D = 6
ARCS = ((0, 1), (1, 2), (0, 3), (3, 4), (2, 5))
"""a chain, a fork and a branch: without time most of them have no direction"""
PAST = ((4, 0), (5, 3), (1, 4))


def series(seed: int, rows: tuple[int, ...] = (260, 180, 360), noise: str = "gaussian", sd: float = 1.0):
    """Silos of one model with own pasts and levels; the errors of every second variable have `sd`, columns shuffled."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(D)
    model = np.zeros((2, D, D))
    for i, j in ARCS:
        model[0, order[i], order[j]] = 0.5
    np.fill_diagonal(model[1], 0.4)
    for i, j in PAST:
        model[1, order[i], order[j]] = -0.3
    scale = np.where(np.arange(D) % 2 == 0, sd, 1.0)
    inner = model.copy() * scale[:, None] / scale  # the same system in units of its errors
    tables = {
        f"s{k}": svar(inner, n, np.random.default_rng([seed, k]), noise) * scale + 3.0 * rng.normal(size=D)
        for k, n in enumerate(rows)
    }
    names = tuple(f"x{v}" for v in range(D))
    stretches = {silo: (len(table),) for silo, table in tables.items()}
    truth = Structure(names, model[0], lagged=model[1:])
    return FederatedData(time_series(tables, stretches, names), tables, truth, {}, {})


def learned(data: FederatedData, secure: bool = False, **params):
    algorithm = registry.build(registry.specify("secure-linear", params))
    if not secure:
        algorithm = replace(algorithm, needs_secure_sum=False)
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    return last.server, algorithm.structure(last.server)


def distance(data: FederatedData, structure: Structure) -> int:
    found = compare(structure, data.truth)
    return found["shd"] + found["lagged_shd"]


@pytest.mark.parametrize("seed", range(1000, 1003))
def test_errors_of_equal_variance_direct_every_edge(seed):
    data = series(seed)
    server, structure = learned(data)
    assert server.evidence.equal
    assert structure.lags == 1
    assert distance(data, structure) <= 1


@pytest.mark.parametrize("how", ["unequal", "standardised", "units"])
def test_the_past_directs_edges_whatever_the_variances(how):
    total = 0
    for seed in range(1000, 1004):
        data = series(seed, sd=2.0 if how == "unequal" else 1.0)
        scale = np.ones(D)
        if how == "standardised":
            scale = 1 / np.vstack([X - X.mean(axis=0) for X in data.tables.values()]).std(axis=0)
        if how == "units":
            scale = np.geomspace(1, 100, D)
        data = replace(data, tables={silo: X * scale for silo, X in data.tables.items()})
        server, structure = learned(data)
        assert how == "standardised" or not server.evidence.equal  # chance may make standardised errors alike
        assert structure.kind == "dag"
        total += distance(data, structure)
    assert total <= 3


def test_a_masked_sum_finds_the_graph_of_the_pooled_windows():
    data = series(1004, sd=2.0)
    masked, plain = learned(data, secure=True)[1], learned(data)[1]
    np.testing.assert_allclose(unstacked(masked)[0], unstacked(plain)[0], atol=1e-6)
    cut = [centred_windows(X, data.schema.stretches[silo], 1) for silo, X in data.tables.items()]
    S = sum(X.T @ X for X in cut) / (sum(map(len, cut)) - len(cut))
    pooled = free_lagged_fit(S, sum(map(len, cut)) - len(cut), OrderSettings(), no_prior(D))
    np.testing.assert_array_equal(pooled.dag[:, :D], unstacked(plain)[0] != 0)
    assert not pooled.dag[:, D:].any()


def test_edges_without_a_past_stay_undirected_unless_the_errors_are_not_gaussian():
    rng = np.random.default_rng(5)
    tables = {}
    for noise in ("gaussian", "exponential"):
        cause = rng.normal(size=3000) if noise == "gaussian" else rng.exponential(size=3000) - 1
        error = rng.normal(size=3000) if noise == "gaussian" else rng.exponential(size=3000) - 1
        tables[noise] = np.column_stack([0.6 * cause + 0.8 * error, cause])
    for noise, table in tables.items():
        schema = time_series({"s": table}, {"s": (3000,)}, ("effect", "cause"))
        _, structure = learned(FederatedData(schema, {"s": table}, None, {}, {}), lags=1)
        expected = [[0, 0], [1, 0]] if noise == "exponential" else [[0, 1], [1, 0]]
        np.testing.assert_array_equal(structure.adjacency, np.array(expected, bool))
        assert structure.lags == 1


def test_background_knowledge_of_the_present_is_kept_in_the_search():
    data = series(1005)
    names, (i, j) = data.schema.variables, next(map(tuple, np.argwhere(data.truth.adjacency)))
    turned = Knowledge(required=((names[j], names[i]),))
    server, structure = learned(replace(data, schema=replace(data.schema, knowledge=turned)), error_variances="free")
    assert structure.adjacency[j, i]
    assert not server.graph[:, D:].any()


def test_required_edges_against_the_order_of_least_variance_close_no_cycle():
    data = series(1005)
    server, names = learned(data)[0], data.schema.variables
    for i, j in map(tuple, np.argwhere(data.truth.adjacency)):
        prior = Knowledge(required=((names[j], names[i]),)).prior(names)
        within = best_lagged_fit(server.S, 800, prior).weights[:D] != 0
        assert within[j, i]
        assert is_acyclic(within)


def test_the_past_has_no_parents_and_may_be_a_parent_of_everything_present():
    prior = Knowledge(required=(("b", "a"),)).prior(("a", "b")).of_windows(6)
    assert not prior.possible[:, 2:].any()
    assert prior.possible[2:, :2].all()
    assert prior.possible[1, 0]
    assert not prior.possible[0, 1]
    np.testing.assert_array_equal(np.argwhere(prior.required), [[1, 0]])


def test_every_long_series_is_about_its_own_means_and_short_ones_about_common_means():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(75, 2)) + np.repeat([0.0, 50.0, 9.0, 9.0], [30, 30, 8, 7])[:, None]
    rows = centred_windows(table, (30, 30, 8, 7), 1)
    parts = np.split(rows, [29, 58])
    for part in parts:
        np.testing.assert_allclose(part.mean(axis=0), 0.0, atol=1e-12)
    whole = np.split(windows(table, (30, 30, 8, 7), 1), [29, 58])
    np.testing.assert_allclose(parts[2], whole[2] - whole[2].mean(axis=0))
    assert centred_means((30, 30, 8, 7), 1) == 3


def test_all_t_values_come_from_one_inverse():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    S, order = X.T @ X / 200, np.array([2, 0, 1])
    found = squared_t_values(S, order, 200)
    for place, j in enumerate(order):
        of = [3, 4, *order[:place]]
        beta, residuals, *_ = np.linalg.lstsq(X[:, of], X[:, j])
        expected = beta**2 / (residuals[0] / 200 * np.diag(np.linalg.inv(X[:, of].T @ X[:, of])))
        np.testing.assert_allclose(found[of, j], expected)
        assert not np.delete(found[:, j], of).any()


def test_parents_that_explain_only_together_are_found():
    """Two causes that nearly cancel: growing adds neither of them."""
    rng = np.random.default_rng(8)
    common = rng.normal(size=4000)
    a, b = common + 0.1 * rng.normal(size=4000), common + 0.1 * rng.normal(size=4000)
    X = np.column_stack([a - b + rng.normal(size=4000), a, b])
    S = X.T @ X / 4000
    weights = weights_in_order(S, np.array([0]), 4000, 20.0, no_prior(1).of_windows(3))
    assert (weights[1:, 0] != 0).all()


def test_few_windows_rank_the_pairs_by_ridge_effects():
    data = series(1006, rows=(9, 8, 9))
    server, structure = learned(data, lags=1)
    np.testing.assert_array_equal(structure.lagged_scores, ridge_strengths(server.S, D))
    assert (structure.lagged_scores > 0).all()


def test_ridge_effects_lie_between_regression_and_correlations():
    X = np.random.default_rng(9).normal(size=(60, 9)) @ np.random.default_rng(10).normal(size=(9, 9))
    C = np.corrcoef(X.T)
    regression = np.linalg.solve(C[3:, 3:], C[3:, :3])
    np.testing.assert_allclose(ridge_effects(C, 3, 0.0).reshape(6, 3), regression)
    np.testing.assert_allclose(ridge_effects(C, 3, 1e9).reshape(6, 3), C[3:, :3], rtol=1e-6)


def test_the_strength_of_an_effect_grows_with_the_other_effects_of_its_cause():
    X = np.random.default_rng(11).normal(size=(40, 8)) @ np.random.default_rng(12).normal(size=(8, 8))
    S = X.T @ X / 40
    effects, strengths = np.abs(ridge_effects(unit_diagonal(S), 4, RIDGE)), ridge_strengths(S, 4)
    for i, j in np.ndindex(4, 4):
        others = [effects[0, i, k] ** 2 if k != i else 0.0 for k in range(4)]
        assert strengths[0, i, j] == pytest.approx(effects[0, i, j] * np.sqrt(np.mean(others)))


def test_series_that_their_past_explains_but_for_rounding_have_a_graph():
    """A sine is a sum of its two last values: what rounding leaves of its variance may be below 0."""
    t = np.arange(600)
    tables = {
        silo: np.stack([np.sin(0.01 * t + k), np.cos(0.013 * t), 1e3 * np.sin(0.017 * t), np.cos(0.005 * t)], axis=1)
        for k, silo in enumerate(("a", "b", "c"))
    }
    schema = time_series(tables, dict.fromkeys(tables, (600,)), ("w", "x", "y", "z"))
    _, structure = learned(FederatedData(schema, tables, None, {}, {}), secure=True)
    assert np.isfinite(structure.adjacency).all()


def test_in_few_windows_no_move_of_one_variable_improves_the_fit():
    """The place of every variable in the order is compared: reversals of weak edges leave some of them wrong."""
    for seed in range(4):
        data = series(seed, rows=(30, 20, 16), sd=1.0)
        each = [centred_windows(one, data.schema.stretches[silo], 1) for silo, one in data.tables.items()]
        X = np.concatenate(each)
        rows, S = len(X) - len(each), X.T @ X / (len(X) - len(each))
        price, knowledge = price_of_parent(rows, 2 * D), no_prior(D).of_windows(2 * D)
        best = best_lagged_fit(S, rows, no_prior(D))
        order = topological_order(best.weights[:D] != 0)
        for place in range(D):
            for to in range(D):
                moved = np.insert(np.delete(order, place), to, order[place])
                other = score_fit(S, weights_in_order(S, moved, rows, price, knowledge), rows, price)
                assert other.score <= best.score + 2 * MIN_SCORE_GAIN
