import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.moments import equal_variance as module
from fedbnsl.algorithms.moments import parent_selection
from fedbnsl.algorithms.moments.equal_variance import equal_variance
from fedbnsl.algorithms.moments.pooled import PooledLearner, learn_from_moments
from fedbnsl.algorithms.statistics.moments import residual_variances
from fedbnsl.data.generators.linear import homogeneous


def moments_of(W):
    """The covariance of a linear model with weights `W` and errors of variance 1."""
    inverse = np.linalg.inv(np.eye(len(W)) - W)
    return inverse.T @ inverse


def truth(d, seed):
    return homogeneous(d, 1, 5, seed).truth.weights


@pytest.mark.compiles
@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10**6))
def test_exact_moments_give_the_exact_graph(d, seed):
    W = truth(d, seed)
    found = equal_variance(moments_of(W), 1e-4, 12, 5)
    np.testing.assert_allclose(found.weights, W, atol=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_the_unit_and_the_order_of_the_columns_do_not_matter(d, seed, unit):
    S = moments_of(truth(d, seed))
    found = equal_variance(S, 0.1, 12, 5).weights
    np.testing.assert_allclose(equal_variance(unit**2 * S, 0.1, 12, 5).weights, found, atol=1e-6)
    mixed = np.random.default_rng(seed).permutation(d)
    again = equal_variance(S[np.ix_(mixed, mixed)], 0.1, 12, 5).weights
    np.testing.assert_allclose(again, found[np.ix_(mixed, mixed)], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_is_respected_and_weights_are_least_squares(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 7)) @ rng.normal(size=(7, 7))
    S = rows.T @ rows / 60
    found = equal_variance(S, 0.1, 12, 5)
    place = np.argsort(found.order)
    for i, j in zip(*np.nonzero(found.weights), strict=True):
        assert place[i] < place[j]
    for j in range(7):
        parents = np.flatnonzero(found.weights[:, j])
        if len(parents):
            expected = np.linalg.solve(S[np.ix_(parents, parents)], S[parents, j])
            np.testing.assert_allclose(found.weights[parents, j], expected)


def score(S, found, price):
    return residual_variances(S, found.weights).sum() + price * np.diag(S).min() * (found.weights != 0).sum()


def test_moves_lower_the_score_and_end_where_no_move_does():
    improved = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(25, 8)) @ moments_of(truth(8, seed))
        S = rows.T @ rows / 25
        first, last = equal_variance(S, 0.1, 7, 0), equal_variance(S, 0.1, 7, 20)
        assert score(S, last, 0.1) <= score(S, first, 0.1) * (1 + 1e-9)
        improved += score(S, last, 0.1) < score(S, first, 0.1) * (1 - 1e-9)
        prices, first = np.full(8, 0.1 * np.diag(S).min()), np.zeros(8, dtype=bool)
        assert (module._improve_order(S, first, last.order.copy(), prices, 7, 0.0, 1) == last.order).all()
    assert improved >= 3


@pytest.mark.parametrize("learner", ["equal-variance", "notears", "fed-sparse", "notears-admm"])
def test_every_learner_finds_the_graph_from_pooled_moments(learner):
    data = homogeneous(10, 1, 4000, 3)
    (table,) = data.tables.values()
    found = learn_from_moments(table.T @ table / 4000, 4000, data.schema.variables, PooledLearner(learner=learner))
    assert compare(found, data.truth)["shd"] == 0


def test_noise_in_the_moments_is_borne_better_with_few_parents_than_with_all():
    """What the method is for: regressing on all earlier variables adds up the noise of S, `price` keeps it out."""
    sparse, full = [], []
    for seed in range(6):
        data = homogeneous(20, 1, 4000, 100 + seed)
        (table,) = data.tables.values()
        noise = np.random.default_rng(seed).normal(0, 0.1, (20, 20))
        S = table.T @ table / 4000 + noise + noise.T
        S += (0.05 - min(0.0, float(np.linalg.eigvalsh(S).min()))) * np.eye(20)
        for price, scores in ((0.12, sparse), (1e-6, full)):
            weights = equal_variance(S, price, 19, 3).weights
            found = Structure(data.schema.variables, np.where(np.abs(weights) > 0.3, weights, 0.0))
            scores.append(compare(found, data.truth)["shd"])
    assert np.mean(sparse) < 0.7 * np.mean(full)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.integers(0, 10**6), st.floats(0.0, 0.1))
def test_a_selection_changes_only_if_a_candidate_can_enter_or_was_added(d, seed, noise):
    rng = np.random.default_rng(seed)
    S = np.cov(rng.normal(size=(3 * d, d)) @ rng.normal(size=(d, d)), rowvar=False)
    prices, paths = np.full(d, 0.02 * np.diag(S).min()), parent_selection.new_paths(1)
    j, candidate = rng.choice(d, 2, replace=False)
    without = rng.random(d) < 0.6
    without[[j, candidate]] = False
    allowed = without.copy()
    allowed[candidate] = True
    outcomes = [parent_selection.select_parents(S, j, one, prices, d - 1, noise) for one in (without, allowed)]
    same = set(outcomes[0][1]) == set(outcomes[1][1])
    parent_selection.select_path(S, j, without, prices, d - 1, noise, paths, 0)
    assert paths[-1][0] == pytest.approx(outcomes[0][0])
    assert same or parent_selection.can_enter(S, j, candidate, prices, d - 1, noise, paths, 0)
    parent_selection.select_path(S, j, allowed, prices, d - 1, noise, paths, 0)
    assert same or parent_selection.was_added(paths, 0, candidate)
    assert parent_selection.was_added(paths, 0, candidate) or not parent_selection.can_enter(
        S, j, candidate, prices * 1.0001, d - 1, noise, paths, 0
    )
