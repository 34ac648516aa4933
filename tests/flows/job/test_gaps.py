"""Runs on data with empty cells, of every kind and on both engines: the result, and the statements about gaps."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.amputate import amputate
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.data.networks.published import network
from tests.flows.commands import assert_same_files, run, stop_and_resume

MAKERS = {
    "continuous": lambda: homogeneous(6, 3, 400, 5),
    "discrete": lambda: discrete(6, 2, 800, 3),
    "mixed": lambda: mixed(6, 3, 400, 5),
}


@pytest.fixture(scope="module", params=MAKERS)
def gaps(request):
    whole = MAKERS[request.param]()
    return whole, amputate(whole, "mcar", 0.15, np.random.default_rng(1))


def test_the_default_learns_from_gaps_nearly_what_it_learns_without(gaps):
    whole, holed = gaps
    full, found = learn(whole, parameters=False).result, learn(holed).result
    assert compare(found.structure, full.structure)["shd_skeleton"] <= 2
    assert any("5-20 % of the cells are empty" in said for said in found.basis)
    assert found.metrics["filling_exchanges"] >= 2
    assert found.parameters.network is not None
    assert not [one for one in found.diagnosed.findings if one.name == "empty cells depend on other columns"]


@pytest.mark.parametrize("algorithm", ["fed-pc", "pc", "boss", "secure-ges"])
def test_others_learn_from_gaps_too(gaps, algorithm):
    whole, holed = gaps
    full, found = (learn(data, algorithm, parameters=False, diagnose=False).result for data in (whole, holed))
    assert compare(found.structure, full.structure)["shd_skeleton"] <= 4


def test_what_cannot_says_which_can(gaps):
    _, holed = gaps
    name = "fed-ges" if holed.schema.kind == "discrete" else "secure-lingam"
    if holed.schema.kind == "mixed":
        return
    with pytest.raises(BadInput, match=f"{name} needs complete tables, and .* empty cells: use secure-(linear|boss)"):
        learn(holed, name)


@pytest.mark.slow
def test_both_engines_learn_the_same_from_a_folder(gaps, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "data", gaps[1])
    written = {}
    for engine in ("inline", "prefect"):
        code, out, err = run(capsys, "learn", tmp_path / "data", "-v", "--engine", engine, "--out", tmp_path / engine)
        assert code == 0, err
        assert "5-20 % of the cells are empty" in out.replace("\n", " ")
        written[engine] = (tmp_path / engine / "structure.csv").read_text()
    assert written["inline"] == written["prefect"]
    metrics = json.loads((tmp_path / "prefect" / "metrics.json").read_text())
    assert metrics["filling_bytes"] > 0


def test_with_a_budget_gaps_are_read_as_zeros(gaps, tmp_path, capsys):
    """A refusal would disclose that a cell is empty; noise hides the zero that replaces an empty cell."""
    _, holed = gaps
    write_folder(tmp_path / "data", holed)
    words = ("--epsilon", "500", "--engine", "inline", "--out", tmp_path / "o")
    code, out, err = run(capsys, "learn", tmp_path / "data", *words)
    assert code == 0, err
    assert "empty" not in out + err


def test_few_rows_with_all_cells_of_a_family_do_not_pass_for_bent_effects():
    told = []
    for seed in range(4):
        whole = homogeneous(14, 2, 500, seed)
        holed = amputate(whole, "mcar", 0.35, np.random.default_rng(seed))
        told += [one.name for one in learn(holed, parameters=False).result.diagnosed.findings]
    assert "not linear" not in told


@pytest.mark.slow
def test_a_run_stopped_after_em_goes_on_to_the_same_result(server, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "data", amputate(homogeneous(6, 3, 300, 9), "mcar", 0.2, np.random.default_rng(2)))
    options = ("learn", tmp_path / "data", "-a", "secure-linear", "-p", "error_variances=free")
    assert run(capsys, *options, "--engine", "inline", "--out", tmp_path / "whole")[0] == 0
    stop_and_resume(
        capsys, monkeypatch, "fedbnsl.algorithms.moments.secure_linear.direct_edges", options, tmp_path / "out"
    )
    assert_same_files(tmp_path / "out", tmp_path / "whole", ("structure.csv", "rounds.csv", "model.json"))


@pytest.mark.slow
def test_searches_on_scores_of_different_rows_come_to_an_end():
    """On these rows, GES never ends if it starts before cells are imputed."""
    drawn = network("alarm", 5, 1000, 2)
    order = np.random.default_rng(2).permutation(37)
    names = tuple(drawn.schema.variables[v] for v in order)
    whole = replace(
        drawn,
        schema=replace(drawn.schema, variables=names),
        tables={silo: table[:, order] for silo, table in drawn.tables.items()},
        truth=Structure(names, drawn.truth.weights[np.ix_(order, order)]),
    )
    holed = amputate(whole, "mcar", 0.1, np.random.default_rng((2, 1)))
    found = learn(holed, seed=2, parameters=False, diagnose=False).result
    assert found.metrics["shd_skeleton"] <= 8
