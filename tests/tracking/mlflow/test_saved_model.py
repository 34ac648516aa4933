"""Models as MLflow keeps them: they predict, and come back for pgmpy."""

import pandas as pd
import pytest

from fedbnsl.tracking.mlflow.saved_model import load_pgmpy, save_pyfunc
from fedbnsl.tracking.model import pgmpy_model

from ..labelled import discrete, of


def test_a_saved_model_predicts_from_parents(chain, tmp_path, capfd):
    import mlflow.pyfunc

    save_pyfunc(chain, tmp_path / "model", {})
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
    save_pyfunc(of(chain, network), tmp_path / "model", {})
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
    with pytest.raises(ValueError, match="column smoke: '7' is none of its labels 0, 1, <5"):
        model.predict(table.assign(smoke=["0", "7"]))
    again = load_pgmpy(str(tmp_path / "model"))
    assert again.get_cpds("c-3") == pgmpy_model(of(chain, network)).get_cpds("c-3")
    assert capfd.readouterr() == ("", "")
