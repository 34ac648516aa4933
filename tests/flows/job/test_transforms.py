"""Runs on transformed numbers: the advised command helps, and masks and pooling change nothing."""

import shlex

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.main import main


def distorted(seed=2):
    """Linear data in three silos; columns are exponentials and cubes in turn."""
    data = homogeneous(variables=6, silos=3, rows=700, seed=seed)
    for silo, table in data.tables.items():
        z = (table - table.mean(axis=0)) / table.std(axis=0)
        data.tables[silo] = np.where(np.arange(6) % 2, np.exp(1.5 * z), z**3)
    return data


def skeleton(learned):
    adjacency = learned.result.structure.adjacency
    return adjacency | adjacency.T


def test_the_advice_is_a_command_that_finds_the_skeleton(tmp_path, capsys):
    data = distorted()
    write_folder(tmp_path / "study", data)
    (tmp_path / "study" / "about.json").unlink()
    first = learn(tmp_path / "study", bootstrap=0)
    (advice,) = [one.advice for one in first.result.diagnosed.findings if one.name == "skewed columns"]
    words = shlex.split(advice.rstrip(".").partition("--transform ")[2])
    assert words[0].count("=log") == 3
    assert words[0].count("=normal-scores") == 3
    options = ["--engine", "inline", "--bootstrap", "0", "--transform", *words, "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as leaving:
        main(["learn", str(tmp_path / "study"), *options])
    capsys.readouterr()
    assert leaving.value.code == 0
    then, true = load(tmp_path / "out"), data.truth.adjacency | data.truth.adjacency.T
    assert (skeleton(then) == true).all()
    assert (skeleton(first) != true).any()
    assert not [one for one in then.result.diagnosed.findings if one.name == "skewed columns"]
    assert set(then.result.schema.transforms.values()) == {"log", "normal-scores"}
    assert "weights and parameters are on that scale" in " ".join(then.result.basis)
    assert "on the transformed scale" in then.result.parameters.how


@pytest.mark.parametrize("transform", ["normal-scores", "x2=log"])
def test_masked_sums_give_the_result_of_plain_ones(transform):
    plain, masked = (
        learn(distorted(), "fed-frank-wolfe", transform=transform, secure=secure, diagnose=False, rounds=10)
        for secure in (False, True)
    )
    assert plain.result.schema.transforms == masked.result.schema.transforms
    assert masked.result.secure
    np.testing.assert_allclose(plain.result.structure.weights, masked.result.structure.weights, atol=1e-3)


def test_pooled_rows_give_the_result_of_the_silos():
    data = distorted()
    alone, together = (learn(data, name, transform="normal-scores", diagnose=False) for name in ("fed-pc", "pc"))
    assert (alone.result.structure.adjacency == together.result.structure.adjacency).all()


def test_a_file_in_the_folder_and_a_table_in_memory_are_learned_alike(tmp_path):
    data = distorted()
    write_folder(tmp_path / "study", data)
    one, other = (learn(given, "secure-linear", transform="normal-scores") for given in (data, tmp_path / "study"))
    np.testing.assert_allclose(one.result.structure.weights, other.result.structure.weights, atol=1e-12)


@pytest.mark.parametrize("transform", ["normal-scores", "log-ratio"])
def test_what_depends_on_other_rows_is_refused_with_an_epsilon_and_logarithms_are_not(transform):
    data = {silo: pd.DataFrame(np.exp(table), columns=list("abcdef")) for silo, table in distorted().tables.items()}
    with pytest.raises(BadInput, match="s of 'a' cannot be used with an ε, because they depend on other rows"):
        learn(data, "secure-sum", epsilon=5.0, transform=transform)
    private = learn(data, "secure-sum", epsilon=5.0, transform="log")
    assert set(private.result.schema.transforms.values()) == {"log1p"}


def test_time_series_are_transformed_and_a_zero_is_refused():
    rng = np.random.default_rng(1)
    x = np.exp(np.cumsum(rng.normal(size=(60, 2)), axis=0) / 9)
    frame = pd.DataFrame({"time": np.arange(60), "gdp": x[:, 0], "rate": x[:, 1]})
    found = learn({"one": frame}, transform="log", parameters=False)
    assert found.result.schema.transforms == {"gdp": "log", "rate": "log"}
    frame.loc[4, "rate"] = 0
    with pytest.raises(BadInput, match="column 'rate': 0 has no logarithm"):
        learn({"one": frame}, transform="log")


def test_log_ratios_of_few_columns_and_of_numbers_below_zero_are_refused():
    rng = np.random.default_rng(2)
    data = {silo: pd.DataFrame(rng.lognormal(size=(40, 6)), columns=list("abcdef")) for silo in "pq"}
    with pytest.raises(BadInput, match="needs at least 6 columns, not 'a', 'b' only"):
        learn(data, transform="a=log-ratio,b=log-ratio")
    with pytest.raises(BadInput, match=r"column 'b': -.* is below 0 and has no log-ratio"):
        learn({silo: table.assign(b=-table["b"]) for silo, table in data.items()}, transform="log-ratio")
