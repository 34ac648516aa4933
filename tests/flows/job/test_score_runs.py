"""Score-based runs as users start them: equal on both engines, and with masks."""

import json

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.check import algorithm_spec
from fedbnsl.flows.learn import learn
from fedbnsl.flows.options.learn import LearnOptions, LearnSettings
from tests.flows.commands import run


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A folder of two silos of 800 rows over five discrete variables."""
    folder = tmp_path_factory.mktemp("data") / "two"
    write_folder(folder, discrete(variables=5, silos=2, rows=800, seed=3))
    return folder


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"algorithm": "secure-ges"}, id="summed", marks=pytest.mark.slow),
        pytest.param({"algorithm": "secure-ges", "secure": True}, id="masked", marks=pytest.mark.slow),
        pytest.param({"algorithm": "fed-ges"}, id="fused"),
    ],
)
def test_both_engines_learn_the_same_and_make_a_model(server, two, tmp_path, given):
    given = {"data": str(two), **given}
    finished = learn(LearnSettings(out=str(tmp_path / "out"), **given))
    data = read_folder(two)
    alone = run_inline(job_inline(LearnSettings(**given), "alone", data), data)
    np.testing.assert_array_equal(finished.result.structure.weights, alone.structure.weights)
    assert finished.result.structure.adjacency.any()
    assert finished.result.outcome == "converged"
    assert (finished.folder / "model.bif").exists()


def test_what_needs_every_reply_cannot_be_masked(capsys, two, tmp_path):
    asked = ("learn", two, "-a", "fed-ges", "--secure", "--engine", "inline", "--out", tmp_path / "out")
    code, _, err = run(capsys, *asked)
    assert code == 2
    assert "needs each silo's reply, not only their sum" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("params", "expected"), [({}, 5), ({"seed": "9"}, 9)])
def test_the_seed_of_a_run_is_that_of_its_search(params, expected):
    options = LearnOptions(algorithm="boss", seed=5, params=params)
    assert algorithm_spec(options, Schema(("a", "b"), {"silo": 9}, "discrete")).settings.seed == expected


def test_a_run_on_labels_says_which_silo_is_another(capsys, two, tmp_path):
    """The diagnosis of discrete data, from the command line to `metrics.json`, with the learner's masking."""
    folder = tmp_path / "odd"
    odd = discrete(variables=5, silos=4, rows=800, seed=3)
    odd.tables["silo-2"][:300, 0] = 0
    odd.tables["silo-2"][300:, 0] = 1
    write_folder(folder, odd)
    for data, expected in ((two, ""), (folder, "shifted silo")):
        out = tmp_path / f"out-{data.name}"
        asked = ("learn", data, "-a", "secure-boss", "--engine", "inline", "--out", out)
        code, shown, _ = run(capsys, *asked)
        assert code == 0
        metrics = json.loads((out / "metrics.json").read_text())
        assert expected in metrics["findings"]
        assert bool(expected) == ("would have to change their level of" in " ".join(shown.split()))
        assert bool(expected) == bool(metrics["findings"])
        assert metrics["diagnosis_bytes"] > 0
