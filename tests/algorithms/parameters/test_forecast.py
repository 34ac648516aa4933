"""Forecasts from a past with empty cells equal conditional expectations of the joint Gaussian distribution."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import linear_network

W = np.array([[0.0, 0.6, 0.0], [0.0, 0.0, -0.5], [0.0, 0.0, 0.0]])
A = np.array(
    [[[0.5, 0.2, 0.0], [0.0, 0.4, 0.0], [0.3, 0.0, 0.6]], [[0.2, 0.0, 0.0], [0.0, 0.1, 0.3], [0.0, 0.0, -0.2]]]
)


def network(scale=1.0, adjustment=None):
    structure = Structure(("a", "b", "c"), W, lagged=scale * A)
    mixing = np.linalg.inv(np.eye(3) - W - scale * A.sum(axis=0))
    intercepts = np.array([1.0, -2.0, 0.5])
    options = {} if adjustment is None else {"adjustment": adjustment}
    return linear_network(
        structure, intercepts, np.array([1.0, 0.5, 2.0]), intercepts @ mixing, np.array([3.0, 2.0, 4.0]), **options
    )


def joint_covariance(model, rows):
    """The covariance of consecutive rows of a long series, computed from its errors, `[rows·d, rows·d]`."""
    burn, d = 400, 3
    _, lagged = model.reduced_form()
    mixing = np.linalg.inv(np.eye(d) - W)
    effect = np.zeros((burn + rows, d, (burn + rows) * d))
    for t in range(burn + rows):
        effect[t][:, t * d : (t + 1) * d] = (np.sqrt(model.variances)[:, None] * mixing).T
        for k in range(min(t, len(lagged))):
            effect[t] += lagged[k].T @ effect[t - k - 1]
    last = effect[burn:].reshape(rows * d, -1)
    return last @ last.T


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_it_is_the_expectation_given_all_cells(share):
    rng, model, n = np.random.default_rng(4), network(), 12
    covariance = joint_covariance(model, n + 1)
    past = model.means + rng.multivariate_normal(np.zeros(3 * n), covariance[: 3 * n, : 3 * n]).reshape(n, 3)
    past[rng.random(past.shape) < share] = np.nan
    past[-1] = [np.nan, np.nan, past[0, 2] if share > 0.5 else 1.0]
    known = np.flatnonzero(~np.isnan(past.ravel()))
    apart = (past - model.means).ravel()[known]
    expected = model.means + covariance[3 * n :, known] @ np.linalg.solve(covariance[np.ix_(known, known)], apart)
    assert model.forecast(past) == pytest.approx(expected, abs=1e-8)


def test_a_complete_past_and_one_with_older_empty_cells_agree():
    rng, model = np.random.default_rng(5), network()
    past = rng.normal(size=(8, 3))
    whole = model.forecast(past)
    past[2, 1] = np.nan
    assert model.forecast(past) == pytest.approx(whole, abs=1e-9)
    assert model.forecast(np.full((4, 3), np.nan)) == pytest.approx(model.means, abs=1e-9)


def test_a_model_without_a_stationary_covariance_starts_from_the_variances_of_the_data():
    model = network(1.9)
    assert model.spectral_radius > 1
    past = np.random.default_rng(6).normal(size=(5, 3))
    past[-1, 0] = np.nan
    assert np.isfinite(model.forecast(past)).all()


def test_what_cannot_be_forecast_is_refused():
    with pytest.raises(ValueError, match="a past of 2 rows or more, not 1"):
        network().forecast(np.zeros((1, 3)))
    past = np.zeros((9, 3))
    past[3, 1] = np.nan
    with pytest.raises(ValueError, match="differences of series needs a past without empty cells"):
        network(adjustment=Adjustment(difference=True)).forecast(past)


def test_the_columns_of_a_table_are_found_by_name():
    """Formerly the columns of a DataFrame in another order were taken for each other."""
    model, past = network(), np.random.default_rng(7).normal(size=(4, 3))
    table = pd.DataFrame(past, columns=["a", "b", "c"]).assign(time=range(4))
    expected = model.forecast(past)
    assert model.forecast(table[["c", "time", "a", "b"]]).tolist() == expected.tolist()
    assert model.forecast(past.tolist()).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="needs the column 'b', which its past does not have"):
        model.forecast(table[["a", "c"]])
    for wrong in (past[:, :2], past[0]):
        with pytest.raises(ValueError, match=r"needs rows of a, b, c, not an array of shape"):
            model.forecast(wrong)
