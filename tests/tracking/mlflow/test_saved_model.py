"""Models in MLflow: they predict, and pgmpy can load them."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.network_json import network_as_json
from fedbnsl.tracking.mlflow.saved_model import load_pgmpy, save_pyfunc
from fedbnsl.tracking.model import pgmpy_model
from tests.algorithms.parameters.networks import numbered
from tests.tracking.labelled import discrete, of


def test_a_saved_model_predicts_from_parents(chain, tmp_path, capfd):
    import mlflow.pyfunc

    save_pyfunc(network_as_json(chain.parameters.network), tmp_path / "model", {})
    files = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not [name for name in files if name.endswith((".pkl", ".pickle"))]
    assert {"network.json", "pyfunc_model.py"} <= files
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    table = pd.DataFrame({"c": [0, 9], "a": [1, 5], "b": [10, -4]}, index=[7, 8])
    expected = pd.DataFrame({"a": [0.0, 0.0], "b": [2.0, 10.0], "c": [-2.0, 5.0]}, index=[7, 8])
    pd.testing.assert_frame_equal(model.predict(table), expected)
    with pytest.raises(Exception, match="missing inputs"):
        model.predict(table[["a", "b"]])
    assert load_pgmpy(str(tmp_path / "model")) == pgmpy_model(chain)
    assert capfd.readouterr() == ("", "")


def test_a_saved_discrete_model_predicts_the_likeliest_label(chain, tmp_path, capfd):
    import mlflow.pyfunc

    network = discrete(("0", "1", "<5"), 5)
    save_pyfunc(network_as_json(network), tmp_path / "model", {})
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    table = pd.DataFrame({"smoke": ["0", "<5"], "lung cancer": ["1", "1"], "c-3": ["0", "0"]})
    levels = network.levels
    found = model.predict(table)
    for row, (smoke, cancer) in enumerate([(0, 1), (2, 1)]):
        expected = [
            network.tables["smoke"].argmax(),
            network.tables["lung cancer"][smoke].argmax(),
            network.tables["c-3"][smoke, cancer].argmax(),
        ]
        assert list(found.iloc[row]) == [levels[name][k] for name, k in zip(levels, expected, strict=True)]
    with pytest.raises(ValueError, match="column smoke: '7' is not one of its labels 0, 1, <5"):
        model.predict(table.assign(smoke=["0", "7"]))
    again = load_pgmpy(str(tmp_path / "model"))
    assert again.get_cpds("c-3") == pgmpy_model(of(chain, network)).get_cpds("c-3")
    assert capfd.readouterr() == ("", "")


def test_a_saved_mixed_model_predicts_means_and_likeliest_labels(chain, tmp_path, capfd):
    import mlflow.pyfunc

    network = numbered(
        ("dose", "sex", "stage", "weight"),
        {"sex": ("f", "m"), "stage": ("i", "ii", "iii")},
        ((), (), (0, 1), (0, 2)),
        (
            Linear(2.0, np.empty(0), 1.0),
            Tabular(np.array([0.4, 0.6])),
            Logistic(np.array([0.0, -1.0, -3.0]), np.array([[0.0, 0.0], [0.6, 1.0], [1.5, -1.0]])),
            Linear(50.0, np.array([2.0, 4.0, -3.0]), 1.0),
        ),
    )
    save_pyfunc(network_as_json(network), tmp_path / "model", {})
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    table = pd.DataFrame(
        {"dose": [0.0, 1.0, 9.0], "sex": ["f", "m", "m"], "stage": ["i", "ii", "iii"], "weight": [0.0, 0.0, 0.0]}
    )
    found = model.predict(table)
    assert found["dose"].tolist() == [2.0, 2.0, 2.0]
    assert found["sex"].tolist() == ["m", "m", "m"]
    assert found["stage"].tolist() == ["i", "ii", "iii"]
    np.testing.assert_allclose(found["weight"], [50.0, 56.0, 65.0])
    codes = np.array([[0.0, 0, 0, 0], [1.0, 1, 1, 0], [9.0, 1, 2, 0]])
    for v, name in enumerate(network.variables):
        expected = network.given_parents(v, codes)
        mine = found[name] if expected.ndim == 1 else [network.levels[name].index(label) for label in found[name]]
        np.testing.assert_allclose(mine, expected if expected.ndim == 1 else expected.argmax(axis=1))
    with pytest.raises(ValueError, match="column sex: 'x' is not one of its labels f, m"):
        model.predict(table.assign(sex="x"))
    assert capfd.readouterr() == ("", "")


def test_a_saved_model_of_series_with_labels_predicts_from_the_rows_before(tmp_path, capfd):
    """s = on with the log odds 3 a, a = .8 a[t-1]."""
    import mlflow.pyfunc

    labels = ("off", "on")
    local = (
        Linear(0.0, np.array([0.8]), 1.0),
        Logistic(np.zeros(2), np.array([[0.0], [3.0]])),
        Linear(0.0, np.empty(0), 1.0),
        Tabular(np.array([0.5, 0.5])),
    )
    network = numbered(("a", "s"), {"s": labels, "s[t-1]": labels}, ((2,), (0,), (), ()), local, lags=1)
    save_pyfunc(network_as_json(network), tmp_path / "model", {})
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    capfd.readouterr()
    rows = pd.DataFrame({"a": [1.0, -2.0, 0.5], "s": ["on", "off", "off"]}, index=[7, 8, 9])
    found = model.predict(rows)
    assert list(found.index) == [8, 9]
    assert found["a"].tolist() == pytest.approx([0.8, -1.6])
    assert found["s"].tolist() == ["off", "on"]
    with pytest.raises(ValueError, match="0 rows, but the model looks back over 1"):
        model.predict(rows[:0])


@pytest.mark.parametrize("lags", [1, 2])
def test_labels_that_are_whole_numbers_are_the_same_labels_in_the_rows_before(lags, tmp_path, capfd):
    """s repeats its label of `lags` rows before, whatever the type of the column."""
    import mlflow.pyfunc

    nodes = ["s", *(f"s[t-{lag}]" for lag in range(1, lags + 1))]
    local = (Tabular(np.eye(3)), *(Tabular(np.full(3, 1 / 3)) for _ in range(lags)))
    parents = ((lags,), *(() for _ in range(lags)))
    network = numbered(("s",), dict.fromkeys(nodes, ("0", "1", "2")), parents, local, lags=lags)
    save_pyfunc(network_as_json(network), tmp_path / "model", {})
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    capfd.readouterr()
    codes = [1, 0, 2, 2, 1]
    for labels in (codes, list(map(str, codes))):
        found = model.predict(pd.DataFrame({"s": labels}))
        assert found["s"].tolist() == list(map(str, codes[:-lags]))
        assert list(found.index) == list(range(lags, len(codes)))
