"""Owners on other machines declare labels and units of their rows, which the coordinator does not know."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.flows.learn import learn as learn_with_prefect
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.policy import Policy

from ..owners import owners_of

OWN = {
    "kind": "mixed",
    "recode": {"ulm": {"smokes": {"Ja": "yes", "Nein": "no"}}},
    "scale": {"ulm": {"weight": 0.4536}},
}


@pytest.mark.slow
def test_a_run_of_owners_who_harmonise_is_that_of_equal_files(server, tmp_path):
    rng, files = np.random.default_rng(1020), tmp_path / "files"
    for home in (files, tmp_path / "apart"):
        home.mkdir()
    for silo, rows in {"graz": 90, "ulm": 140, "wien": 60}.items():
        smokes = rng.choice(["no", "yes"], rows)
        weight = rng.normal(75, 10, rows) + 9 * (smokes == "yes")
        frame = pd.DataFrame({"smokes": smokes, "weight": weight, "pressure": 2 * weight + rng.normal(0, 5, rows)})
        frame.to_csv(files / f"{silo}.csv", index=False)
        if silo == "ulm":
            words = frame["smokes"].map({"yes": "Ja", "no": "Nein"})
            frame = frame.assign(weight=frame["weight"] / 0.4536, smokes=words)
        frame.to_csv(tmp_path / "apart" / f"{silo}.csv", index=False)
    expected = learn(files, "secure-boss", about=None)
    found = []
    with owners_of(silo_files(tmp_path / "apart"), tmp_path / "federation", {"ulm": Policy(rows=20)}, OWN) as owners:
        (owners.file.parent / "about.json").write_text('{"kind": "mixed"}')
        asked = {"data": str(owners.file.parent), "federation": str(owners.file), "algorithm": "secure-boss"}
        learn_with_prefect(LearnSettings(**asked, out=str(tmp_path / "run")))
        found.append(json.loads((tmp_path / "run" / "config.json").read_text()))
    assert "recode" not in json.dumps(found), "the owner's declaration stays with the owner"
    arcs = pd.read_csv(tmp_path / "run" / "structure.csv")
    names, adjacency = expected.result.structure.variables, expected.result.structure.adjacency
    pairs = {(names[i], names[j]) for i, j in np.argwhere(adjacency)}
    either = pairs | {(one, other) for other, one in pairs}
    assert {frozenset(pair) for pair in zip(arcs["source"], arcs["target"], strict=True)} == {
        frozenset(p) for p in either
    }
