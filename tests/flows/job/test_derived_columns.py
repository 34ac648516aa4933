"""The advice on derived columns and impossible causes is a command after which the finding is gone."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.folder import read_schema


@pytest.fixture
def study(tmp_path):
    """Three silos with a total, and an age that depends on other columns although an age has no causes."""
    rng = np.random.default_rng(3)
    for silo, n in {"a": 300, "b": 500, "c": 200}.items():
        dose, other = rng.normal(5, 1, n).round(3), rng.normal(5, 1, n).round(3)
        age = (dose + other + rng.normal(size=n)).round(3)
        frame = pd.DataFrame({"dose": dose, "other": other, "total": (dose * other).round(6), "age": age})
        frame.loc[7, "other"] = np.nan
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("in_passes", [False, True])
def test_a_formula_of_all_silos_is_part_of_the_schema(study, monkeypatch, in_passes):
    if in_passes:
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 90)
        monkeypatch.setattr(batches, "MIN_BATCH_ROWS", 90)
    assert read_schema(study).derived == {"total": "the product of dose and other"}
    frame = pd.read_csv(study / "c.csv")
    frame["total"] += np.random.default_rng(1).normal(size=len(frame))
    frame.to_csv(study / "c.csv", index=False)
    assert read_schema(study).derived == {}


def test_the_advice_removes_the_findings(study):
    first = {one.name: one.advice for one in learn(study, "secure-linear").result.diagnosed.findings}
    assert first["derived columns"] == "Learn again with --ignore total."
    assert first["impossible cause"] == "Learn again with --no-parents age."
    then = learn(study, "secure-linear", ignore="total", no_parents="age")
    assert {"derived columns", "impossible cause"}.isdisjoint(one.name for one in then.result.diagnosed.findings)
    assert not then.result.structure.adjacency[:, then.result.structure.variables.index("age")].any()
