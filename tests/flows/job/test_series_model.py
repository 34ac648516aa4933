"""The final model of series with labels: its prior, its forecast errors, and its cost."""

import numpy as np
import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms.parameters.distributions import Tabular


@pytest.fixture(scope="module")
def series():
    return prepare("dynamic", variables=4, silos=2, rows=90, labels=2, seed=2)


def learned(series, **options):
    """A run without lags to choose, diagnoses and resamples."""
    return learn(series, "secure-boss", lags=1, diagnose=False, bootstrap=0, **options).result


@pytest.fixture(scope="module")
def result(series):
    return learned(series)


def test_the_errors_are_means_over_the_variables_of_their_kind(result):
    network, forecasts = result.parameters.network, result.parameters.forecasts
    numbers = network.numbers
    assert numbers.sum() == 2
    for name, errors in (("forecast", forecasts.model), ("persistence", forecasts.persistence)):
        assert result.metrics[f"{name}_mse"] == pytest.approx(errors[numbers].mean(), rel=5e-3)
        assert result.metrics[f"{name}_wrong"] == pytest.approx(errors[~numbers].mean(), abs=0.01)
    figures = [result.metrics[f"{name}_{kind}"] for name in ("forecast", "persistence") for kind in ("mse", "wrong")]
    assert len(set(figures)) == 4


def test_smoothing_is_the_prior_of_its_tables(series, result):
    """Rows of the prior are spread evenly over the cells, so more of them make every table flatter."""

    def spreads(one):
        return [local.table.std() for local in one.parameters.network.local if isinstance(local, Tabular)]

    smooth = learned(series, smoothing=40.0)
    np.testing.assert_array_equal(smooth.structure.weights, result.structure.weights)
    assert spreads(smooth)
    assert all(one < other for one, other in zip(spreads(smooth), spreads(result), strict=True))


def test_its_bytes_are_those_of_its_exchanges(series, exchanged):
    sent = {"parameters": 0, "forecasts": 0}
    result = learned(series)
    for part, size in exchanged:
        sent |= {part: sent[part] + size} if part in sent else {}
    assert min(sent.values()) > 0
    assert result.metrics["parameter_bytes"] == sum(sent.values())
