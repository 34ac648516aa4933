"""Sums over silos that differ in rows, means and units: rows have equal weight, and lost silos leave no trace."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import gather, silo_generator
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dynamic.var import summed_windows
from fedbnsl.algorithms.moments.equal_variance import select_weights
from fedbnsl.algorithms.moments.secure_sum import SecureSum
from fedbnsl.algorithms.moments.summed import learn, open_server
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.unequal import stacked, unequal

LEARNERS = ("secure-sum", "secure-linear", "secure-lingam")


def first_sum(name, tables, answering=None, **params):
    """The server after the first exchange, in which the silos `answering` (all) answer."""
    algorithm, federation = registry.build(registry.specify(name, params)), federate(tables)
    server = algorithm.open_server(federation.schema)
    replies = {}
    for silo in answering or tables:
        state = algorithm.open_silo(tables[silo], federation.schema, silo, silo_generator(0, silo))
        replies[silo] = algorithm.local_solve(state, algorithm.broadcast(server))[1]
    return algorithm.aggregate(server, gather(algorithm, replies))


def within(tables, freedom):
    """Second moments about the silos' own means: per degree of freedom, or per row."""
    rows = stacked({silo: table - table.mean(axis=0) for silo, table in tables.items()})
    return rows.T @ rows / (len(rows) - len(tables) * freedom)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_row_counts_the_same(name):
    tables = unequal()
    found = first_sum(name, tables)
    np.testing.assert_allclose(found.S, within(tables, name != "secure-lingam"), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_lost_silo_leaves_the_moments_of_the_others(name):
    """The moments are not reduced by the lost silo's share, and its rows are not counted."""
    tables = unequal()
    left = {silo: table for silo, table in tables.items() if silo != "b"}
    found = first_sum(name, tables, left)
    np.testing.assert_allclose(found.S, within(left, name != "secure-lingam"), rtol=1e-6, atol=1e-6)
    counted = found.counted if name == "secure-sum" else found.rows
    assert counted == 350 - 2


@pytest.mark.parametrize("center", [True, False])
def test_means_of_silos_are_taken_away_or_kept_as_asked(center):
    tables = unequal()
    found = first_sum("secure-sum", tables, center=center)
    X = stacked(tables)
    np.testing.assert_allclose(found.S, within(tables, 1) if center else X.T @ X / len(X), rtol=1e-6)
    assert found.counted == (437 if center else 440)


def test_with_noise_a_parent_must_explain_more():
    """A parent of weight 0.3 is accepted with exact moments only; one of weight 2 with noisy moments, too."""
    weights = np.zeros((3, 3))
    weights[0, 1], weights[0, 2] = 0.32, 2.0
    inverse = np.linalg.inv(np.eye(3) - weights)
    settings = SecureSum()
    server = open_server(federate({"a": np.zeros((4000, 3))}).schema, settings, None)

    def edges(noise):
        found = learn(server, inverse.T @ inverse, 4000, noise, settings).weights
        return [(i, j) for i, j in np.argwhere(found).tolist()]

    assert edges(0.0) == [(0, 1), (0, 2)]
    assert edges(0.0005) == [(0, 1), (0, 2)]  # a penalty of 0.05
    assert edges(0.0019) == [(0, 2)]  # a penalty of 0.114, and the parent explains 0.102


def test_a_parent_that_others_make_needless_is_given_up_again():
    """y = b + c. Their noisy sum a is the best single parent and is added first; then b and c make it unnecessary."""
    b_c = np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]])  # the weights of b and c in b, c, a and y
    S = b_c.T @ b_c + np.diag([0.0, 0.0, 0.1, 0.05])
    before = np.zeros((4, 4), bool)
    before[:3, 3] = True
    weights = select_weights(S, before, 0.001, 3)[:, 3]
    assert np.flatnonzero(weights).tolist() == [0, 1]
    np.testing.assert_allclose(weights[:2], 1.0)


def test_windows_of_series_are_pooled_one_by_one():
    """One sum of windows of series: each window has the same weight in silos with different lengths and means."""
    tables = unequal({"a": 30, "b": 80, "c": 200})
    stretches = {"a": (10, 20), "b": (80,), "c": (150, 50)}
    schema = Schema(
        tuple("vwxyz"), {silo: len(table) for silo, table in tables.items()}, "time-series", stretches=stretches
    )
    algorithm = summed_windows(lambda schema: 1, lambda server: None, center=False)
    sent = {
        silo: algorithm.local_solve(algorithm.open_silo(table, schema, silo, None), None)[1]
        for silo, table in tables.items()
    }
    for answering in (("a", "b", "c"), ("a", "c")):
        replies = gather(algorithm, {silo: sent[silo] for silo in answering})
        found = algorithm.aggregate(algorithm.open_server(schema), replies)
        parts = [part for silo in answering for part in np.split(tables[silo], np.cumsum(stretches[silo])[:-1])]
        windows = np.vstack([np.hstack([part[1:], part[:-1]]) for part in parts])
        assert found.rows == len(windows)
        np.testing.assert_allclose(found.covariance, np.cov(windows.T, bias=True), rtol=1e-7)
