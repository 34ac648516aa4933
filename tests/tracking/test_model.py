import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.protocol import Schema
from fedbnsl.tracking.model import load_pgmpy, network, pgmpy_model, save_pyfunc, where_noise_comes_from, why_no_model


def test_the_network_has_weights_and_noise(chain):
    model = pgmpy_model(chain)
    assert model.check_model()
    assert set(model.edges()) == {("a", "b"), ("b", "c")}
    cpd = model.get_cpds("b")
    assert (list(cpd.beta), cpd.std, cpd.evidence) == ([0.0, 2.0], 0.5, ["a"])
    assert list(model.get_cpds("a").beta) == [0.0]


def test_the_network_is_in_pgmpys_format(chain, tmp_path):
    pgmpy_model(chain).save(str(tmp_path / "network.json"))
    assert json.loads((tmp_path / "network.json").read_text()) == network(chain)


def test_the_joint_distribution_is_right(chain):
    _, covariance = pgmpy_model(chain).to_joint_gaussian()
    inverse = np.linalg.inv(np.eye(3) - chain.structure.weights)
    np.testing.assert_allclose(covariance, inverse.T @ np.diag(chain.residual_variances) @ inverse, atol=1e-3)


def test_no_noise_is_one(chain):
    quiet = replace(chain, residual_variances=None)
    assert [pgmpy_model(quiet).get_cpds(name).std for name in "abc"] == [1, 1, 1]
    assert "not asked for" in where_noise_comes_from(quiet)


def test_no_edge_is_a_model_too(chain):
    empty = replace(chain, structure=Structure(("a", "b", "c"), np.zeros((3, 3))))
    assert sorted(pgmpy_model(empty).nodes()) == ["a", "b", "c"]


def test_what_is_no_network_says_why(chain, cyclic):
    assert why_no_model(chain) is None
    assert why_no_model(cyclic) == "a cycle is left: a → b → c → a"
    cpdag = replace(chain, structure=Structure(("a", "b", "c"), chain.structure.weights, "cpdag"))
    assert "CPDAG" in str(why_no_model(cpdag))
    discrete = replace(chain, schema=Schema(("a", "b", "c"), {"north": 3}, "discrete"))
    assert "discrete" in str(why_no_model(discrete))
    with pytest.raises(ValueError, match="cycle"):
        pgmpy_model(cyclic)


def test_a_saved_model_predicts_from_parents(chain, tmp_path, capfd):
    import mlflow.pyfunc

    save_pyfunc(chain, tmp_path / "model", {})
    files = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not [name for name in files if name.endswith((".pkl", ".pickle"))]
    assert {"network.json", "pyfunc_model.py"} <= files
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    table = pd.DataFrame({"c": [0, 9], "a": [1, 5], "b": [10, -4]}, index=[7, 8])
    expected = pd.DataFrame({"a": [0.0, 0.0], "b": [2.0, 10.0], "c": [-5.0, 2.0]}, index=[7, 8])
    pd.testing.assert_frame_equal(model.predict(table), expected)
    with pytest.raises(Exception, match="missing inputs"):
        model.predict(table[["a", "b"]])
    assert load_pgmpy(str(tmp_path / "model")) == pgmpy_model(chain)
    assert capfd.readouterr() == ("", "")
