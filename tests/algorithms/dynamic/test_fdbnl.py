"""FDBNL: the block system of the paper, the lasso over lagged columns, and the learned graphs."""

import numpy as np
import pytest

from fedbnsl.algorithms.admm.notears_admm import closed_form
from fedbnsl.algorithms.admm.orders import free_entries
from fedbnsl.algorithms.admm.pgcd import pgcd
from fedbnsl.algorithms.admm.problem import Lasso, LinearModel, weighted_moments
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.statistics.lagged import windows
from fedbnsl.data.generators.dynamic import dynamic
from tests.algorithms.dynamic.series import differing, learn, permuted, unequal

D, M = 4, 12


def problem(seed: int = 0, l1: float = 0.0, allowed: np.ndarray | None = None) -> Lasso:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, M))
    free = ~np.eye(M, D, dtype=bool) if allowed is None else allowed
    return Lasso(
        linear=rng.normal(size=(M, D)),
        r=rng.uniform(0.5, 2, M),
        l1=np.full(M, l1),
        allowed=free,
        start=np.zeros((M, D)),
        S=rows.T @ rows / 40,
    )


def test_the_closed_form_solves_the_block_system_of_the_paper():
    """With all entries free: [[S + ρ₂I, M], [Mᵀ, N + ρ₂I]][B; D] = [b₁; b₂] (Chen, Ma & Yue 2025, §7.4)."""
    one = problem()
    S, crossed, N = one.S[:D, :D], one.S[:D, D:], one.S[D:, D:]
    left = np.block(
        [[S + np.diag(one.r[:D]), crossed], [crossed.T, N + np.diag(one.r[D:])]],
    )
    right = np.vstack([S - one.linear[:D], crossed.T - one.linear[D:]])
    np.testing.assert_allclose(closed_form(one, loops=True), np.linalg.solve(left, right))


@pytest.mark.parametrize("place", [None, np.array([2, 0, 3, 1])])
def test_both_solvers_meet_the_conditions_of_a_minimum(place):
    allowed = None if place is None else free_entries(place, np.ones((M, D), dtype=bool))
    smooth, sparse = problem(1, 0.0, allowed), problem(1, 0.3, allowed)
    for one, B in ((smooth, closed_form(smooth, loops=False)), (sparse, pgcd(sparse, 1.0, 1e-12, 100_000))):
        gradient = one.S @ B - one.S[:, :D] + one.linear + one.r[:, None] * B
        assert not B[~one.allowed].any()
        edges = one.allowed & (B != 0)
        np.testing.assert_allclose(gradient[edges], -np.sign(B[edges]) * one.l1[0], atol=1e-8)
        assert (np.abs(gradient[one.allowed & (B == 0)]) <= one.l1[0] + 1e-8).all()


def test_a_silo_weighs_as_much_as_it_has_windows():
    data = unequal(dynamic(3, 2, 100, 1), {"silo-1": 21, "silo-2": 61})
    moments = [
        weighted_moments(data.tables[silo], data.schema, silo, center=False, lags=1) for silo in data.schema.silos
    ]
    assert [one.rows for one in moments] == [20, 60]
    every = np.vstack([windows(data.tables[silo], data.schema.stretches[silo], 1) for silo in data.schema.silos])
    np.testing.assert_allclose(sum(one.S for one in moments) / 2, every.T @ every / 80)


def test_no_price_is_asked_of_lagged_edges_where_theirs_is_zero():
    model = LinearModel(lambda lasso: lasso.start, weighted_moments, lags=2, lagged_price=0.0)  # type: ignore[arg-type]
    assert model.penalty_factors(3).tolist() == [1.0] * 3 + [0.0] * 6


@pytest.mark.parametrize(("lags", "params"), [(1, {}), (2, {"lags": 2})])
def test_it_finds_the_network_in_unequal_silos(lags, params):
    data = dynamic(8, 4, 400, 3, lags=lags, degree=3.0)
    data = unequal(data, {"silo-1": 400, "silo-2": 200, "silo-3": 90, "silo-4": 45})
    found, _ = learn(data, "fdbnl", params)
    assert found.lags == lags
    assert differing(found, data.truth) <= 6  # a reversed edge differs twice


def test_the_papers_preset_runs_the_papers_loop():
    data = dynamic(6, 4, 400, 4, degree=2.0)
    found, server = learn(data, "fdbnl", {"preset": "paper", "l1": 0.05})
    assert not hasattr(server, "phase")
    assert found.acyclic
    assert compare(found, data.truth)["shd"] <= 5
    assert compare(found, data.truth)["lagged_shd"] <= 2


def test_the_order_of_the_columns_does_not_matter():
    data = dynamic(6, 3, 300, 5, degree=2.0)
    found, _ = learn(data, "fdbnl")
    turned, _ = learn(permuted(data, np.array([3, 0, 5, 1, 4, 2])), "fdbnl")
    assert differing(turned.reordered(found.variables), found) == 0


def test_gaps_are_not_crossed():
    """Two halves of a series, one after the other, are learned from as two; joined, their seam would be a window."""
    data = dynamic(4, 1, 60, 6)
    (table,) = data.tables.values()
    apart = unequal(data, {"silo-1": 61})
    stretches = {"silo-1": (30, 31)}
    schema = type(apart.schema)(apart.schema.variables, {"silo-1": 61}, "time-series", stretches=stretches)
    moments = weighted_moments(table, schema, "silo-1", center=False, lags=1)
    assert moments.rows == 59
    seam = windows(table, (61,), 1)
    np.testing.assert_allclose(moments.S * 59, np.delete(seam, 29, axis=0).T @ np.delete(seam, 29, axis=0))


def test_what_cannot_be_learned_from_is_refused():
    short = unequal(dynamic(3, 2, 50, 1), {"silo-1": 51, "silo-2": 3})
    with pytest.raises(BadInput, match=r"silo silo-2: fewer rows than lags \+ 2"):
        learn(short, "fdbnl", {"lags": 2})
    with pytest.raises(BadInput, match="lags is auto"):
        learn(short, "fdbnl", {"lags": "auto"})
    with pytest.raises(BadInput, match="parameter lags is 0: it must be 1 or more, or auto"):
        learn(short, "fdbnl", {"lags": "0"})
    with pytest.raises(BadInput, match="parameter lags of fdbnl is 'many'"):
        learn(short, "fdbnl", {"lags": "many"})
