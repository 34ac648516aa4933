import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import refit
from fedbnsl.algorithms.statistics.moments import regression_weights
from fedbnsl.data.generators.linear import heterogeneous
from fedbnsl.tasks.transport.in_process import federate


def fitted(
    weights: np.ndarray, true: dict[str, np.ndarray], tables: dict[str, np.ndarray], center: bool = False
) -> refit.Server:
    structure = Structure(tuple(f"x{i}" for i in range(len(weights))), weights)
    algorithm = refit.build(refit.Refit(center))
    (only,) = rounds(algorithm, federate(tables), resume=(0, refit.refit_start(structure, true)))
    return only.server


def test_with_the_right_structure_each_silo_finds_its_own_weights() -> None:
    data = heterogeneous(6, 4, 4000, 1, weight_variance=0.1)
    assert data.truth is not None
    server = fitted(data.truth.weights, data.silo_weights, data.tables)
    assert set(server.refit) == set(data.tables)
    for errors in server.refit.values():
        assert errors["personal"] < 0.01 < errors["consensus"]


def test_refitting_is_regression_on_the_parents() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    adjacency = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)
    weights = regression_weights(X.T @ X / 200, adjacency)
    np.testing.assert_allclose(weights[:2, 2], np.linalg.lstsq(X[:, :2], X[:, 2])[0], atol=1e-10)
    assert np.count_nonzero(weights) == 2


def test_without_a_truth_nothing_comes_back() -> None:
    rng = np.random.default_rng(0)
    tables = {"a": rng.normal(size=(30, 2)) + 5, "b": rng.normal(size=(90, 2)) * 2 + 5}
    assert fitted(np.zeros((2, 2)), {}, tables, center=True).refit == {}


def test_the_error_is_the_papers() -> None:
    true = np.array([[0.0, 2.0], [0.0, 0.0]])
    assert refit.normalised_mse(np.array([[0.0, 1.0], [0.0, 0.0]]), true) == pytest.approx(0.25)
