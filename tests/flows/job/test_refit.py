"""After the rounds: what is refitted, from which rows, and how the silos' errors are combined."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.refit import Server, refit_start
from fedbnsl.data.federated import FederatedData, continuous
from fedbnsl.flows.job import follow_up as module


def test_the_errors_of_the_silos_are_told_by_their_median():
    before = refit_start(Structure(("a", "b"), np.zeros((2, 2))), {})
    server = Server(before.learned, before.variables, ("s", "t", "u"), (0.1, 0.7, 0.2), (0.5, 0.4, 9.0))
    assert module.refit_errors(server) == {"mse_consensus": 0.5, "mse_personal": 0.2}
    unknown = Server(before.learned, before.variables, ("s", "t"), (-1.0, 0.3), (-1.0, 0.6))
    assert module.refit_errors(unknown) == {"mse_consensus": 0.6, "mse_personal": 0.3}
    assert module.refit_errors(None) == {"mse_consensus": None, "mse_personal": None}


def shifted(rows=(60, 150, 400)):
    """Silos of unequal size with different means: b increases with a within each, and decreases between them."""
    rng = np.random.default_rng(1)
    tables = {}
    for k, n in enumerate(rows):
        a = rng.normal(size=n)
        tables[f"s{k}"] = np.column_stack([a + 6 * k, 1.5 * a + rng.normal(size=n) - 9 * k])
    weights = np.array([[0.0, 1.5], [0.0, 0.0]])
    return FederatedData(continuous(tables, ("a", "b")), tables, Structure(("a", "b"), weights), {})


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm", "secure-sum"])
def test_with_center_all_that_is_learned_is_within_the_silos(name):
    """This covers the weight, the model and, if requested, the errors of the silos' refitted weights."""
    data = shifted()
    found = learn(data, name, required_arcs="a->b")
    within = np.vstack([table - table.mean(axis=0) for table in data.tables.values()])
    slope = within[:, 0] @ within[:, 1] / (within[:, 0] @ within[:, 0])
    assert found.weights.loc["a", "b"] == pytest.approx(slope, abs=0.1)
    assert found.result.parameters.network.structure.weights[0, 1] == pytest.approx(slope, abs=1e-9)
    if name != "secure-sum":
        assert found.metrics["mse_personal"] < 0.02


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm", "secure-sum"])
def test_without_center_what_stands_between_the_silos_counts(name):
    data = shifted()
    found = learn(data, name, center=False, required_arcs="a->b")
    rows = np.vstack(list(data.tables.values()))
    about_all = rows - rows.mean(axis=0)
    slope = about_all[:, 0] @ about_all[:, 1] / (about_all[:, 0] @ about_all[:, 0])
    assert slope < 0
    assert found.result.parameters.network.structure.weights[0, 1] == pytest.approx(slope, abs=1e-9)
    if name != "secure-sum":
        assert found.weights.loc["a", "b"] < 0
        assert found.metrics["mse_personal"] > 1


def test_frames_and_a_setting_by_name_are_heeded_alike():
    """`center` reaches the algorithm for every way of setting it."""
    data = shifted()
    frames = {silo: pd.DataFrame(table, columns=["a", "b"]) for silo, table in data.tables.items()}
    one, other = (learn(source, "fed-sparse", center=False, rounds=5) for source in (data, frames))
    assert one.weights.equals(other.weights)
    assert not one.weights.equals(learn(data, "fed-sparse", center=True, rounds=5).weights)


def test_only_true_weights_are_compared_with():
    """A true graph of ones and zeros gives the edges, but not their weights."""
    graph = Structure(("a", "b"), np.array([[0.0, 1.0], [0.0, 0.0]]))
    assert module.true_weights(SimpleNamespace(silo_weights={}, truth=graph)) == {}
