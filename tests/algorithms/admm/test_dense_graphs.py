"""The final steps of the consensus learners on dense graphs: the weighted fit, and the order that it implies."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.model_metric import dual_step, fit_silo, implied_covariance, least_squares
from fedbnsl.algorithms.admm.orders import forward
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.moments import top_down_order
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import federate


def wrong_edges(name: str, data: FederatedData, move: float = 0.0) -> int:
    """The SHD on shuffled columns, with site means of deviation `move` added."""
    assert data.truth is not None
    rng = np.random.default_rng(1)
    order = rng.permutation(len(data.schema.variables))
    tables = {silo: rows[:, order] + move * rng.normal(size=len(order)) for silo, rows in data.tables.items()}
    algorithm = registry.build(registry.specify(name, {}))
    *_, last = rounds(algorithm, federate(tables, data.schema.variables))
    assert last.outcome == "converged"
    truth = Structure(data.schema.variables, data.truth.weights[np.ix_(order, order)])
    return int(compare(algorithm.structure(last.server), truth)["shd"] or 0)


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm"])
def test_a_dense_graph_is_found(name: str) -> None:
    assert wrong_edges(name, homogeneous(20, 8, 5000, 75, 80)) <= 8


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm"])
def test_site_means_do_no_harm(name: str) -> None:
    data = homogeneous(20, 8, 2000, 76)
    assert wrong_edges(name, data, move=2.0) <= wrong_edges(name, data) + 1


def test_the_papers_presets_leave_columns_as_they_are() -> None:
    for name, preset in (("fed-sparse", "paper"), ("notears-admm", "fed-bnsl")):
        assert not registry.specify(name, {"preset": preset}).settings.center
        assert registry.specify(name, {}).settings.center


def moments(seed: int, d: int, rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d)) @ rng.normal(size=(d, d))
    return X.T @ X / rows


def test_a_model_with_all_entries_fitted_is_the_moments_themselves() -> None:
    S, place = moments(3, 6), np.random.default_rng(3).permutation(6)
    W = least_squares(S, S, forward(place, 6))
    gap = np.eye(6) - W
    np.testing.assert_allclose(implied_covariance(W, np.diag(gap.T @ S @ gap)), S, rtol=1e-8, atol=1e-8)


def test_equal_variances_give_the_order_from_the_top() -> None:
    W = np.zeros((4, 4))
    W[2, 0], W[2, 3], W[0, 3], W[3, 1] = 2.0, -1.0, 0.5, 1.5
    place, variances = top_down_order(implied_covariance(W, np.ones(4)))
    assert place.tolist() == [1, 3, 0, 2]
    np.testing.assert_allclose(variances, 1.0)


def test_the_fit_comes_to_the_least_squares_of_all_rows() -> None:
    """Silos with fewer rows than variables, whose own moments have no inverse, and unequal curvature."""
    d, silos = 6, [moments(seed, 6, rows=5) for seed in range(8)]
    S, free = sum(silos) / len(silos), forward(np.arange(d), d)
    expected = least_squares(S, S, free)
    gap = np.eye(d) - expected
    metric = implied_covariance(expected, np.diag(gap.T @ S @ gap))
    W = np.zeros((d, d))
    B, beta = [W] * len(silos), [W] * len(silos)
    for _ in range(300):
        beta = [dual_step(b, own - W, metric, free) for b, own in zip(beta, B, strict=True)]
        B = [fit_silo(own, b, W, metric, free) for own, b in zip(silos, beta, strict=True)]
        W = sum(B) / len(B)
    np.testing.assert_allclose(W, expected, atol=1e-4)
