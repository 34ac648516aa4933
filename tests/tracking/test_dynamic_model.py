"""The model of time series: for pgmpy, as a file, and in MLflow as forecasts."""

import json
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.network_json import network_as_json, network_from_json
from fedbnsl.tracking.mlflow.saved_model import load_pgmpy, save_pyfunc
from fedbnsl.tracking.model import model_file, pgmpy_dynamic, pgmpy_model


def test_the_network_is_over_all_times(over_time):
    model = pgmpy_model(over_time)
    assert model.check_model()
    assert set(model.edges()) == {("a", "b"), ("a[t-1]", "a"), ("b[t-1]", "b"), ("c[t-1]", "c"), ("a[t-2]", "c")}
    cpd = model.get_cpds("b")
    assert (dict(zip(cpd.evidence, cpd.beta[1:], strict=True)), cpd.beta[0]) == ({"a": 2.0, "b[t-1]": 0.5}, 1.0)
    assert (model.get_cpds("a[t-2]").std, model.get_cpds("a").std) == (2.0, 1.0)


def test_the_network_says_what_the_forecast_says(over_time):
    """The mean of the present given the past, from the joint distribution that pgmpy makes of the network."""
    model, past = pgmpy_model(over_time), np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mean, covariance = model.to_joint_gaussian()
    names = list(nx.topological_sort(model))
    now, before = [names.index(name) for name in "abc"], [n for n, name in enumerate(names) if "[" in name]
    values = [past[-int(names[n][4])]["abc".index(names[n][0])] for n in before]
    given = covariance[np.ix_(now, before)] @ np.linalg.inv(covariance[np.ix_(before, before)])
    expected = mean[now] + given @ (np.array(values) - mean[before])
    np.testing.assert_allclose(over_time.parameters.network.forecast(past), expected, atol=1e-3)


def test_the_file_holds_all_of_it(over_time):
    content = json.loads(model_file(over_time)["model.json"])
    read = network_from_json(content, "model.json")
    assert read.nodes[:4] == ("a", "b", "c", "a[t-1]")
    np.testing.assert_array_equal(read.structure.weights, over_time.structure.weights)
    np.testing.assert_array_equal(read.structure.lagged, over_time.structure.lagged)


def test_mlflow_keeps_a_model_that_forecasts(over_time, tmp_path, capfd):
    import mlflow.pyfunc

    save_pyfunc(network_as_json(over_time.parameters.network), tmp_path / "model", {})
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    rows = pd.DataFrame({"c": [3.0, 6.0, 0.0], "a": [1.0, 4.0, 1.0], "b": [2.0, 5.0, 0.0]}, index=[7, 8, 9])
    found = model.predict(rows)
    assert list(found.index) == [8, 9]
    values = rows[["a", "b", "c"]].to_numpy()
    for row, past in zip(found.to_numpy(), (values[:2], values[1:]), strict=True):
        np.testing.assert_allclose(row, over_time.parameters.network.forecast(past))
    with pytest.raises(ValueError, match="1 rows, but the model looks back over 2"):
        model.predict(rows[:1])
    assert load_pgmpy(str(tmp_path / "model")) == pgmpy_model(over_time)
    assert capfd.readouterr() == ("", "")


def test_a_structure_of_two_slices_for_pgmpy(over_time):
    one = replace(over_time.structure, lagged=over_time.structure.lagged[:1])
    model = pgmpy_dynamic(one)
    inter = {tuple((node.node, node.time_slice) for node in edge) for edge in model.get_inter_edges()}
    intra = {tuple(node.node for node in edge) for edge in model.get_intra_edges()}
    assert inter == {((name, 0), (name, 1)) for name in "abc"}
    assert intra == {("a", "b")}


@pytest.mark.parametrize(
    ("structure", "why"),
    [
        (Structure(("a", "b"), np.zeros((2, 2))), "a single lag, not 0"),
        (Structure(("a", "b"), np.zeros((2, 2)), lagged=np.zeros((2, 2, 2))), "a single lag, not 2"),
        (Structure(("a", "b"), 1.0 - np.eye(2), lagged=np.zeros((1, 2, 2))), "acyclic"),
    ],
)
def test_what_is_not_two_slices_says_why(structure, why):
    with pytest.raises(ValueError, match=why):
        pgmpy_dynamic(structure)
