"""Columns that follow from others by arithmetic are found and named, and no others are."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.flows.cli.inspect import app

RNG = np.random.default_rng(0)
N = 600
AGE, EDUC = RNG.integers(20, 65, N), RNG.integers(8, 20, N)
PARTS = RNG.dirichlet([2, 3, 4], N).round(3)
PARTS[:, 2] = 1 - PARTS[:, :2].sum(axis=1)
GROUP = RNG.integers(4, size=N)
WEIGHT = RNG.normal(2900, 600, N).round()
CASES = {
    "age − educ − 6": {"age": AGE, "educ": EDUC, "exper": AGE - EDUC - 6},
    "100 − sand − silt": {
        "sand": 100 * PARTS[:, 0],
        "silt": 100 * PARTS[:, 1],
        "clay": 100 - 100 * PARTS[:, :2].sum(1),
    },
    "a, b, c, d are indicators of one variable": {name: (k == GROUP).astype(int) for k, name in enumerate("abcd")},
    "rank is the same for all rows of a level of school": {
        "school": np.array(["low", "mid", "high", "top"])[GROUP],
        "rank": np.array([0.5, 2.5, 3.0, 7.25])[GROUP],
    },
    "low is a threshold of weight": {"weight": WEIGHT, "low": (WEIGHT < 2500).astype(int)},
}


def tables(columns, seed=1):
    noise = np.random.default_rng(seed).normal(size=(N, 2))
    whole = pd.DataFrame({**columns, "x": noise[:, 0], "y": noise[:, 0] + noise[:, 1]})
    return {f"s{k}": whole[k::3].reset_index(drop=True) for k in range(3)}


@pytest.mark.parametrize("formula", CASES)
def test_an_arithmetic_dependence_is_named_and_the_advice_removes_it(tmp_path, formula):
    for silo, table in tables(CASES[formula]).items():
        table.to_csv(tmp_path / f"{silo}.csv", index=False)
    found = learn(tmp_path, bootstrap=0).result.diagnosed.findings
    (own,) = [one for one in found if formula in one.message]
    shown = CliRunner().invoke(app, [str(tmp_path)]).output
    assert formula in " ".join(shown.split())
    ignored = own.advice.rpartition("--ignore ")[2].rstrip(".")
    again = learn(tmp_path, bootstrap=0, ignore=[ignored]).result.diagnosed.findings
    assert not any(formula in one.message for one in again)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("noise", [0.02, 1.0])
def test_strong_dependences_are_no_arithmetic(seed, noise):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3))
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 0] + x[:, 1] + noise * x[:, 2], "k": rng.integers(2, size=N)}
    found = learn(tables(columns, seed), bootstrap=0).result.diagnosed.findings
    assert not {"arithmetic", "derived columns"} & {one.name for one in found}


@pytest.mark.parametrize("words", [("0", "1"), ("no", "yes"), ("False", "True")])
def test_indicators_can_be_joined_to_one_variable(tmp_path, words):
    columns = {name: np.array(words)[(k == GROUP).astype(int)] for k, name in enumerate("abcd")}
    for silo, table in tables(columns).items():
        table.to_csv(tmp_path / f"{silo}.csv", index=False)
    (tmp_path / "about.json").write_text(json.dumps({"join": {"group": list("abcd")}}))
    data = read_folder(tmp_path)
    assert data.schema.variables == ("group", "x", "y")
    assert data.schema.levels == {"group": tuple("abcd")}
    codes = np.concatenate([data.tables[f"s{k}"][:, 0] for k in range(3)])
    assert np.array_equal(codes, np.concatenate([GROUP[k::3] for k in range(3)]))
    (tmp_path / "about.json").write_text(json.dumps({"join": {"group": ["a", "z"]}}))
    with pytest.raises(BadInput, match=r"join: 'z' is not a column"):
        read_folder(tmp_path)
    (tmp_path / "about.json").write_text(json.dumps({"join": {"group": list("abcd")}}))
    with pytest.raises(BadInput, match="a run with an ε needs the variable as one column"):
        read_folder(tmp_path, Reading(private=True))
