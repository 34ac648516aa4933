"""Summed moments of time series: results of the pooled learners, for every learner, and the cost of protection."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import gather
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.structure import unstacked
from fedbnsl.algorithms.moments.equal_variance import equal_variance
from fedbnsl.algorithms.moments.pooled import PooledLearner, learn_from_moments
from fedbnsl.algorithms.moments.secure_sum import SecureSum, secure_sum_plan
from fedbnsl.algorithms.statistics.lagged import moments_given_past, subtract_levels, windows
from fedbnsl.data.federated import pool
from fedbnsl.data.generators.dynamic import dynamic
from tests.algorithms.dynamic.series import differing, learn, permuted, unequal


@pytest.fixture(scope="module")
def data():
    return dynamic(8, 4, 500, 3, degree=3.0)


def test_masked_sums_give_exactly_what_the_pooled_rows_give(data):
    parts = unequal(data, {"silo-1": 501, "silo-2": 200, "silo-3": 80, "silo-4": 20})
    masked, _ = learn(parts, "secure-sum", secure=True)
    pooled, _ = learn(pool(parts), "secure-sum")
    assert differing(masked, pooled) == 0
    np.testing.assert_allclose(masked.weights, pooled.weights, atol=1e-6)
    np.testing.assert_allclose(masked.lagged, pooled.lagged, atol=1e-6)


@pytest.mark.parametrize("name", ["secure-sum", "fdbnl", "pfdbnl"])
def test_means_that_differ_by_silo_change_nothing(data, name):
    rng = np.random.default_rng(0)
    data = data if name == "secure-sum" else dynamic(4, 3, 300, 3, degree=2.0)
    d = len(data.schema.variables)
    shifts = [{silo: rng.uniform(5, 20, d) for silo in data.tables} for _ in range(2)]
    there = [
        type(data)(
            data.schema, {silo: table + shift[silo] for silo, table in data.tables.items()}, data.truth, {}, data.about
        )
        for shift in shifts
    ]
    one, other = (learn(shifted, name)[0] for shifted in there)
    np.testing.assert_allclose(unstacked(other)[0], unstacked(one)[0], atol=1e-3)
    assert differing(one, learn(data, name)[0]) <= 4


def test_a_mean_within_chance_is_no_level():
    rows = np.random.default_rng(0).normal(size=(80, 4))
    np.testing.assert_array_equal(subtract_levels(rows, 2), rows)
    lifted = rows + np.array([3.0, 0.0, 3.0, 0.0])
    found = subtract_levels(lifted, 2)
    np.testing.assert_allclose(found[:, [0, 2]].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(found[:, [1, 3]], rows[:, [1, 3]])


@pytest.mark.parametrize("learner", ["equal-variance", "notears", "fed-sparse", "notears-admm"])
def test_learners_of_dags_find_the_network(learner):
    data = dynamic(8, 4, 1000, 4, degree=3.0)  # with fewer rows the minimum that is reached depends on rounding
    found, _ = learn(data, "secure-sum", {"learner": learner})
    assert differing(found, data.truth) <= (0 if learner == "equal-variance" else 4)  # a reversed edge differs twice


@pytest.mark.parametrize("learner", ["pc", "ges"])
def test_learners_of_classes_find_the_class_within_one_time_and_the_lagged_edges(data, learner):
    found, _ = learn(data, "secure-sum", {"learner": learner})
    assert found.kind == "cpdag"
    assert (found.adjacency != cpdag(data.truth.adjacency)).sum() <= 2
    assert int(((found.lagged != 0) != (data.truth.lagged != 0)).sum()) <= 2


@pytest.mark.parametrize(("rows", "edges"), [(20, 0), (30, 1)])
def test_edges_given_the_past_are_tested_with_the_rows_that_the_past_leaves(rows, edges):
    """Ten lagged columns take ten rows. Of a correlation of 0.6, z √(n - 3) is 1.83 in 10 rows and 2.86 in 20 rows.

    At the level of 1 %, a correlation is significant above 2.58.
    """
    S = np.eye(12)
    S[0, 1] = S[1, 0] = 0.6
    found = learn_from_moments(S, rows, ("x", "y"), PooledLearner("pc", alpha=0.01))
    assert found.adjacency.any(axis=0).sum() == 2 * edges


def test_the_order_of_the_columns_does_not_matter(data):
    found, _ = learn(data, "secure-sum")
    turned, _ = learn(permuted(data, np.array([3, 0, 7, 5, 1, 6, 4, 2])), "secure-sum")
    assert differing(turned.reordered(found.variables), found) == 0


def test_what_the_past_leaves_of_the_variables_is_what_regression_leaves(data):
    table = data.tables["silo-1"]
    X = windows(table, (len(table),), 2)
    past, present = X[:, 8:], X[:, :8]
    left = present - past @ np.linalg.lstsq(past, present, rcond=None)[0]
    np.testing.assert_allclose(moments_given_past(X.T @ X, 8), left.T @ left, rtol=1e-6, atol=1e-6)


def test_lagged_variables_come_first_and_are_no_part_of_the_order(data):
    table = data.tables["silo-1"]
    X = windows(table, (len(table),), 1)
    found = equal_variance(X.T @ X / len(X), 0.02, 12, 5, 8)
    assert sorted(found.order) == list(range(8))
    place = np.argsort(found.order)
    sources, targets = np.nonzero(found.weights[:8])
    assert (place[sources] < place[targets]).all()


def test_prices_may_differ_by_parent(data):
    table = data.tables["silo-1"]
    X = windows(table, (len(table),), 1)
    S = X.T @ X / len(X)
    free = equal_variance(S, 0.02, 12, 5, 8).weights
    dear = equal_variance(S, np.repeat([0.02, 1e6], 8), 12, 5, 8).weights
    assert free[8:].any()
    assert not dear[8:].any()


def test_a_larger_unit_of_protection_takes_as_many_times_the_noise(data):
    parts = unequal(data, {"silo-1": 101, "silo-2": 51, "silo-3": 51, "silo-4": 51})
    variances, costs = [], []
    for protect in ("window", "row", "stretch"):
        shares = secure_sum_plan(SecureSum(epsilon=1.0, lags=1, protect=protect), parts.schema)
        variances.append(float(shares.gram_variance))
        costs.append(shares.gram_cost.rho + shares.count_cost.rho)
        assert shares.promise.protects.startswith("one record is ")
    np.testing.assert_allclose(np.array(variances[1:]) / variances[0], [2**2, 100**2], rtol=1e-3)
    np.testing.assert_allclose(costs, shares.promise.cost.rho, rtol=1e-2)
    assert max(costs) <= shares.promise.cost.rho


def test_a_private_run_with_enough_windows_finds_the_network():
    data = dynamic(6, 4, 4000, 5, degree=2.0)
    found, _ = learn(data, "secure-sum", {"epsilon": 20.0, "insecure_seed": 1})
    scores = compare(found, data.truth)
    assert scores["shd"] <= 2
    assert scores["lagged_shd"] <= 3


def test_a_lost_silo_costs_its_windows_alone(data):
    algorithm = registry.build(registry.specify("secure-sum"))
    assert algorithm.tolerates_dropout
    stay = sorted(data.tables)[1:]
    server, replies = algorithm.open_server(data.schema), {}
    for silo in stay:
        state = algorithm.open_silo(data.tables[silo], data.schema, silo, np.random.default_rng(0))
        _, replies[silo] = algorithm.local_solve(state, algorithm.broadcast(server))
    found = algorithm.structure(algorithm.aggregate(server, gather(algorithm, replies)))
    without = {field: {silo: getattr(data.schema, field)[silo] for silo in stay} for field in ("rows", "stretches")}
    others = replace(data, schema=replace(data.schema, **without), tables={silo: data.tables[silo] for silo in stay})
    alone, _ = learn(others, "secure-sum")
    np.testing.assert_allclose(unstacked(found)[0], unstacked(alone)[0], atol=1e-9)


def test_what_is_protected_is_one_of_three():
    with pytest.raises(BadInput, match="protect of secure-sum is 'person': it must be one of window, row, stretch"):
        registry.specify("secure-sum", {"protect": "person"})
