"""The lag order with the lowest BIC: from one sum, equal with masks, and correct with enough data."""

import pytest

from fedbnsl.algorithms.dynamic.lag_order import choose_lag_order
from fedbnsl.data.generators.dynamic import dynamic

from .series import learn, unequal


@pytest.mark.parametrize("lags", [1, 2, 3])
@pytest.mark.parametrize("secure", [False, True])
def test_the_lags_of_the_model_are_found(monkeypatch, lags, secure):
    from fedbnsl.algorithms import registry

    monkeypatch.setitem(registry.ALGORITHMS, "lag-order", registry.STEPS["lag-order"])
    data = dynamic(6, 3, 400, 7, lags=lags, decay=1.0)
    _, server = learn(data, "lag-order", secure=secure)
    found, criteria = choose_lag_order(server)
    assert found == lags
    assert len(criteria) == 5
    assert criteria[lags - 1] < min(criteria) + 1e-3


@pytest.mark.parametrize("algorithm", ["var", "secure-sum"])
def test_learners_of_moments_choose_by_themselves(algorithm):
    found, _ = learn(dynamic(6, 3, 400, 7, lags=2, decay=1.0), algorithm, {"lags": "auto"})
    assert found.lags == 2


def test_no_more_lags_are_looked_at_than_the_shortest_silo_bears():
    data = unequal(dynamic(3, 2, 50, 1), {"silo-1": 51, "silo-2": 5})
    _, server = learn(data, "var", {"lags": "auto"})
    assert server.reach == 3
