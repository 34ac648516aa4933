"""The consensus over silos that differ in rows, means and units: every row has the same weight."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm import consensus, staged_admm
from fedbnsl.algorithms.admm.acyclicity import acyclicity
from fedbnsl.algorithms.admm.consensus import Terms
from fedbnsl.algorithms.admm.fed_sparse import PRESETS, FedSparse
from fedbnsl.algorithms.admm.problem import LinearModel, LinearProblem, weighted_moments
from fedbnsl.algorithms.admm.settings import ConsensusSettings, RefinedSettings
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.moments import SecondMoments
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate
from tests.algorithms.unequal import stacked, unequal

D = 5


def schema_of(tables):
    return federate(tables).schema


def model():
    return LinearModel(
        lambda lasso: lasso.start, lambda table, schema, silo: SecondMoments(table.T @ table, len(table))
    )


def plain_server(tables, **changes):
    """The papers' server in the middle of a run: a W with a cycle and duals of its own."""
    rng = np.random.default_rng(4)
    W = rng.normal(size=(D, D)) * ~np.eye(D, dtype=bool)
    opened = consensus.open_server(schema_of(tables), D, ConsensusSettings())
    middle = {"number": 7, "W": W, "W_known": W, "B_sum": 2.5 * W, "beta_sum": rng.normal(size=(D, D)), "rho2": 0.7}
    return replace(opened, **middle | changes)


def terms(tables, **changes):
    scale = np.array([1.0, 4.0, 9.0, 2.0, 25.0])
    free = ~np.eye(D, dtype=bool)
    return replace(Terms(0.7, 0.2, scale, free, np.array([1.0, 1.0, 2.0, 1.0, 1.0])), **changes)


@pytest.mark.parametrize("center", [False, True])
def test_every_row_of_the_federation_counts_the_same(center):
    """The mean of the silos' weighted moments is the mean over all rows, however these are spread over the silos."""
    tables = unequal()
    schema = schema_of(tables)
    moments = {silo: weighted_moments(table, schema, silo, center=center) for silo, table in tables.items()}
    rows = {silo: table - table.mean(axis=0) * center for silo, table in tables.items()}
    pooled = stacked(rows)
    np.testing.assert_allclose(sum(one.S for one in moments.values()) / 3, pooled.T @ pooled / len(pooled), rtol=1e-10)
    assert {silo: one.rows for silo, one in moments.items()} == schema.rows


@pytest.mark.parametrize("center", [False, True])
def test_windows_of_time_series_are_weighted_and_centred_alike(center):
    """The means of these columns are far from zero, and `center` subtracts them."""
    tables = {silo: table + 1000.0 for silo, table in unequal({"a": 30, "b": 80}).items()}
    schema = Schema(tuple("vwxyz"), {"a": 30, "b": 80}, "time-series", stretches={"a": (10, 20), "b": (80,)})
    moments = {silo: weighted_moments(t, schema, silo, center=center, lags=1) for silo, t in tables.items()}
    rows = {"a": [*range(1, 10), *range(11, 30)], "b": [*range(1, 80)]}
    windows = {silo: np.hstack([tables[silo][at], tables[silo][np.array(at) - 1]]) for silo, at in rows.items()}
    X = stacked({silo: one - one.mean(axis=0) * center for silo, one in windows.items()})
    np.testing.assert_allclose(sum(one.S for one in moments.values()) / 2, X.T @ X / len(X), rtol=1e-9)


def test_silos_that_differ_agree_on_what_all_rows_say():
    """Without a penalty and in a known order, the consensus is least squares over all rows."""
    tables = unequal({"a": 60, "b": 150, "c": 600}, dag=True, seed=3)
    tables = {silo: table / np.geomspace(1, 10, D) for silo, table in tables.items()}
    X = stacked(tables)
    backwards = Knowledge(forbidden=tuple((f"x{i}", f"x{j}") for i in range(D) for j in range(i)))
    federation = InProcessFederation(replace(schema_of(tables), knowledge=backwards), tables)
    params = {"l1": 0.0, "center": False, "threshold": 0.0, "tolerance": 1e-5, "send_threshold": 0.0, "relax": False}
    algorithm = registry.build(registry.specify("notears-admm", {**params, "rounds": 300}))
    *_, last = rounds(algorithm, federation)
    found = algorithm.structure(last.server).weights
    for j in range(1, D):
        expected = np.linalg.lstsq(X[:, :j], X[:, j], rcond=None)[0]
        np.testing.assert_allclose(found[:j, j], expected, atol=2e-3)


def test_the_price_of_a_row_is_its_root_scale():
    one = terms({})
    roots = np.array([1.0, 2.0, 3.0, np.sqrt(2), 5.0])
    np.testing.assert_allclose(one.l1_rows, 0.2 * roots * [1, 1, 2, 1, 1])
    np.testing.assert_allclose(one.r, 0.7 * roots**2)
    four = replace(one, scale=4 * one.scale)
    np.testing.assert_allclose(four.l1_rows, 4 * one.l1_rows)
    np.testing.assert_allclose(replace(one, send_threshold=0.1).least_change, 0.1 / roots)


def test_other_units_of_measurement_give_the_same_graph_in_those_units():
    """Penalties are relative to mean squares, so other units of the columns change the units of W and no edge."""
    tables = unequal(dag=True, seed=2)
    algorithm = registry.build(registry.specify("fed-sparse", {"rounds": 12, "send_threshold": 0.0, "threshold": 0.0}))
    one = list(rounds(algorithm, federate(tables)))[-1].server.W
    other = list(rounds(algorithm, federate({silo: 8.0 * table for silo, table in tables.items()})))[-1].server.W
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_server_minimises_what_the_papers_say():
    """W is a stationary point of ρ₂P/2‖W − B̄‖² + αh(W) + ρ₁/2h(W)² in the rows' scales; the target has cycles."""
    tables = unequal()
    own = replace(terms(tables), l1=0.0, scale=np.ones(D))
    change = 0.1 * np.random.default_rng(6).normal(size=(D, D)) * ~np.eye(D, dtype=bool)
    server = plain_server(tables, W=np.zeros((D, D)), alpha=0.6, rho1=1.5)
    after = consensus.step(server, change, 0.0, own, 3000)
    mean = (server.B_sum + change + server.beta_sum / 0.7) / 3
    h, gradient = acyclicity(after.W)
    assert h > 1e-3
    slope = 0.7 * 3 * (after.W - mean) + (0.6 + 1.5 * h) * gradient
    np.testing.assert_allclose(slope[np.abs(after.W) > 1e-6], 0.0, atol=2e-3)
    assert after.h == pytest.approx(h)


def test_duals_follow_what_is_still_violated():
    tables = unequal()
    own, server = terms(tables), plain_server(tables, h=0.3, alpha=0.5, rho1=4.0)
    after = consensus.duals(server, own)
    assert after.alpha == pytest.approx(0.5 + 4.0 * 0.3)
    expected = server.beta_sum + own.r[:, None] * (server.B_sum - 3 * server.W)
    np.testing.assert_allclose(after.beta_sum, expected)


def test_a_run_ends_only_when_silos_agree_and_w_stands_still():
    tables = unequal()
    settings = ConsensusSettings(tolerance=0.01)
    still, moving = {"primal": 0.005, "dual": 0.005}, {"primal": 0.005, "dual": 0.02}
    assert consensus.converged(plain_server(tables, **still), settings)
    assert not consensus.converged(plain_server(tables, **moving), settings)
    assert not consensus.converged(plain_server(tables, primal=0.02, dual=0.005), settings)
    assert not consensus.converged(plain_server(tables, h=1.0, **still), settings)


def test_residuals_are_relative_to_the_weights_in_their_scales():
    tables = unequal()
    own = replace(terms(tables), l1=0.0, acyclic=True, free=np.triu(np.ones((D, D), bool), 1))
    server = plain_server(tables)
    after = consensus.step(server, np.zeros((D, D)), 12.0, own, 5)
    size = np.sqrt((own.scale[:, None] * after.W**2).sum())
    assert after.dual == pytest.approx(np.sqrt((own.scale[:, None] * (after.W - server.W) ** 2).sum()) / size)
    assert after.primal == pytest.approx(np.sqrt(12.0 / 3) / size)


def test_scores_tell_of_edges_below_the_threshold():
    """τ decides which weights are edges; the scores of the others are kept to rank them."""
    tables = unequal()
    W = np.triu(np.arange(25.0).reshape(5, 5), 1) / 20
    found = consensus.structure(plain_server(tables, W=W), W, ConsensusSettings(threshold=0.5))
    assert found.weights[0, 1] == 0.0
    np.testing.assert_allclose(found.scores, W)
    np.testing.assert_allclose(found.weights, np.where(W > 0.5, W, 0.0))


def test_a_move_is_worth_taking_beyond_what_chance_gains_in_all_silos():
    """By chance, a silo's sum of variances falls by about d/n of the smallest variance; P silos are added up."""
    tables = unequal()
    opened = staged_admm.open_server(schema_of(tables), model(), RefinedSettings(), l1_at_server=False)
    server = replace(opened, scale=np.array([3.0, 2.0, 8.0, 5.0, 4.0]))
    assert server.worth == pytest.approx(D / (440 / 3) * 3 * 2.0)
    more = federate({**tables, "d": stacked(tables)}).schema
    other = replace(staged_admm.open_server(more, model(), RefinedSettings(), l1_at_server=False), scale=server.scale)
    assert other.worth == pytest.approx(D / (880 / 4) * 4 * 2.0)


def test_a_silo_with_fewer_rows_than_variables_judges_moves_as_well():
    """Its moments have no inverse. A ridge of (d/n)² of the diagonal gives one, and is negligible for many rows."""
    table = unequal({"a": 3, "b": 400})["a"]
    S = table.T @ table / 3
    within = LinearProblem(SecondMoments(S, 3), lambda lasso: lasso.start).contemporaneous_moments(np.zeros((D, D)))
    np.testing.assert_allclose(within, S + (D / 3) ** 2 * np.diag(np.diag(S)))
    moves = np.array([[0, 3], [4, 1]], np.int32)
    problem = LinearProblem(SecondMoments(S, 3), lambda lasso: lasso.start)
    assert np.isfinite(staged_admm.evaluate_moves(problem, np.zeros((D, D)), np.arange(D), moves)).all()


def test_means_of_silos_are_taken_away_or_kept_as_asked():
    """With `center`, a shift of a silo changes nothing; without it, the result changes."""
    tables = unequal(dag=True, seed=1)
    shifted = {silo: table + 40.0 * (silo == "b") for silo, table in tables.items()}

    def learned(given, **params):
        algorithm = registry.build(registry.specify("fed-sparse", {"rounds": 6, **params}))
        return list(rounds(algorithm, federate(given)))[-1].server.W

    np.testing.assert_allclose(learned(tables, center=True), learned(shifted, center=True), atol=1e-6)
    assert np.abs(learned(tables, center=False) - learned(shifted, center=False)).max() > 0.01


def test_the_papers_presets_are_the_papers():
    """The presets have the values of Fassy El Fehri et al., B.3.2 and B.3.4, and none of our additions."""
    paper, sachs, ours = PRESETS["paper"], PRESETS["paper-sachs"], PRESETS["sachs"]
    assert (paper.rho1 * 8, paper.rho2, paper.l1, paper.gamma, paper.threshold) == (1000, 1, 0.1, 0.5, 0.3)
    assert (sachs.rho1 * 3, sachs.rho2, sachs.l1, sachs.gamma, sachs.threshold) == (10_000, 5, 1, 0.1, 0.1)
    for one in (paper, sachs, ours):
        assert not any((one.scaled, one.fix_order, one.send_threshold, one.order_searches, one.relax))
    assert not paper.center
    assert not sachs.center
    assert ours == replace(sachs, center=True, threshold=0.3)
    assert isinstance(ours, FedSparse)


@pytest.mark.parametrize(
    ("name", "preset"), [("fed-sparse", "paper-sachs"), ("fed-sparse", "sachs"), ("notears-admm", "fed-bnsl-sachs")]
)
def test_the_presets_for_sachs_run_the_papers_loop(name, preset):
    algorithm = registry.build(registry.specify(name, {"preset": preset, "rounds": 3}))
    run = list(rounds(algorithm, federate(unequal(dag=True))))
    assert [type(one.server) for one in run] == [consensus.Server] * 3
    rho1, rho2 = {"fed-sparse": (10_000, 5.0), "notears-admm": (100_000, 10.0)}[name]
    assert run[-1].server.rho1 == pytest.approx(rho1)
    assert run[-1].server.rho2 == rho2
