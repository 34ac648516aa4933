"""The ridge VAR lies between least squares and correlations, and needs one sum."""

import numpy as np
import pytest

from fedbnsl.algorithms.dynamic.var import ridge_effects
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.lagged import windows
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.generators.dynamic import dynamic
from tests.algorithms.dynamic.series import learn, unequal


def test_without_ridge_the_effects_are_those_of_least_squares():
    data = dynamic(4, 3, 80, 1)
    found, _ = learn(data, "var", {"ridge": 0, "threshold": 0})
    X = np.vstack([windows(data.tables[silo], data.schema.stretches[silo], 1) for silo in data.schema.silos])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(found.lagged[0], np.linalg.lstsq(X[:, 4:], X[:, :4], rcond=None)[0], atol=1e-8)
    assert not found.weights.any()


def test_with_a_great_ridge_they_are_the_correlations():
    C = np.corrcoef(np.random.default_rng(0).normal(size=(6, 50)))
    np.testing.assert_allclose(ridge_effects(C, 3, 1e9)[0], C[3:, :3], atol=1e-6)


def test_the_federation_finds_what_the_pooled_rows_give():
    data = unequal(dynamic(5, 3, 100, 2), {"silo-1": 100, "silo-2": 50, "silo-3": 12})
    apart, _ = learn(data, "var", secure=True)
    together, _ = learn(pool(data), "var")
    np.testing.assert_allclose(apart.lagged_scores, together.lagged_scores, atol=1e-6)


def test_levels_of_sites_are_subtracted_if_that_is_asked_for():
    data = dynamic(4, 3, 100, 2)
    shifted = {silo: table + 10.0 * k for k, (silo, table) in enumerate(data.tables.items(), 1)}
    there = FederatedData(data.schema, shifted, data.truth, {}, data.about)
    plain, _ = learn(data, "var")
    misled, _ = learn(there, "var")
    centred, _ = learn(there, "var", {"center": "true"})
    np.testing.assert_allclose(centred.lagged_scores, plain.lagged_scores, atol=0.05)
    assert np.abs(misled.lagged_scores - plain.lagged_scores).max() > 0.2


def test_a_variable_that_drives_many_is_given_more_weight():
    data = dynamic(5, 3, 100, 2)
    plain, _ = learn(data, "var")
    weighed, _ = learn(data, "var", {"hubs": "true"})
    others = np.where(np.eye(5, dtype=bool), 0, plain.lagged_scores[0])
    np.testing.assert_allclose(
        weighed.lagged_scores[0], plain.lagged_scores[0] * np.sqrt((others**2).mean(axis=1))[:, None]
    )
    np.testing.assert_array_equal(plain.lagged, weighed.lagged)


def test_series_too_short_are_refused():
    data = unequal(dynamic(3, 2, 50, 1), {"silo-1": 51, "silo-2": 2})
    with pytest.raises(BadInput, match="silo silo-2: fewer rows"):
        learn(data, "var")
    with pytest.raises(BadInput, match="silo silo-2: fewer rows"):
        learn(data, "var", {"lags": "auto"})
