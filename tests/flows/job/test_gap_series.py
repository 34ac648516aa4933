"""Runs on series with empty cells: what is modelled, what is left out, and equal results on both engines."""

import json
import re

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, time_series, with_gaps
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.dynamic import svar
from tests.flows.commands import run

W, A = np.zeros((5, 5)), np.diag([0.5, 0.4, -0.5, 0.5, 0.4])
W[0, 1], W[1, 2], W[3, 4], A[0, 3], A[2, 4] = 0.5, -0.5, 0.5, 0.4, 0.5


def holed(share=0.12, seed=3):
    """Series of three silos of unequal lengths and levels, errors of unequal variances, with empty cells at random."""
    rng, tables = np.random.default_rng(seed), {}
    sizes, scale = {"north": 180, "south": 260, "west": 140}, np.array([1.0, 2.0, 0.5, 1.5, 0.7])
    in_errors = np.array([W, A])
    for k, (silo, length) in enumerate(sizes.items()):
        table = svar(in_errors, length, rng, "gaussian")[-length:] * scale + 3 * k
        table[rng.random(table.shape) < share] = np.nan
        tables[silo] = table
    stretches = {silo: (len(table),) for silo, table in tables.items()}
    names = ("a", "b", "c", "d", "e")
    truth = Structure(names, W, lagged=A[None])
    return FederatedData(with_gaps(time_series(tables, stretches, names), tables), tables, truth, {}, {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("series") / "data"
    write_folder(path, holed())
    return path


def test_the_default_models_empty_cells_and_finds_the_true_graph():
    found = learn(holed(0.2), seed=1, bootstrap=0).result
    scores = compare(found.structure, holed().truth)
    assert scores["shd"] <= 1
    assert scores["lagged_shd"] <= 1
    assert any("of the cells are empty: second moments are estimated by EM" in one for one in found.basis)
    assert found.metrics["filling_exchanges"] >= 2
    assert found.parameters.network is not None
    assert not found.diagnosed.findings or {one.name for one in found.diagnosed.findings} <= {"site means"}


def test_a_column_that_is_empty_for_a_stretch_is_modelled_too():
    data = holed(0.0)
    for table in data.tables.values():
        table[40:110, 2] = np.nan
    found = learn(FederatedData(with_gaps(data.schema, data.tables), data.tables, data.truth, {}, {}), seed=1).result
    scores = compare(found.structure, data.truth)
    assert scores["shd"] + scores["lagged_shd"] <= 2


@pytest.mark.parametrize(("name", "options"), [("trend", {"detrend": True}), ("season", {"deseasonalise": 24})])
def test_advice_on_trend_and_season_works_on_series_with_empty_cells(name, options, tmp_path):
    """No stretch of complete rows is as long as two periods."""
    data = holed(0.12)
    for table in data.tables.values():
        times, spread = np.arange(len(table))[:, None], np.nanstd(table, axis=0)
        table += spread * (8 * times / len(table) if name == "trend" else 3 * np.sin(2 * np.pi * times / 24))
    write_folder(tmp_path / "data", data)
    first = learn(tmp_path / "data", engine="inline", seed=1, bootstrap=0).result
    (advice,) = [one.advice for one in first.diagnosed.findings if one.name == name]
    option, value = next(iter(options.items()))
    assert advice == f"Learn again with --{option}{'' if value is True else f' {value}'}."
    found = learn(tmp_path / "data", engine="inline", seed=1, bootstrap=0, **options).result
    assert any("of the cells are empty: second moments are estimated by EM" in one for one in found.basis)
    assert name not in {one.name for one in found.diagnosed.findings}
    scores = compare(found.structure, data.truth)
    assert scores["shd"] + scores["lagged_shd"] <= 3
    past = data.tables["south"][:60]
    assert np.isnan(past).any()
    assert np.isfinite(found.parameters.network.forecast(past)).all()


@pytest.mark.slow
def test_both_engines_learn_the_same_masked_with_resamples(capsys, server, folder, tmp_path):
    results = []
    for engine in ("inline", "prefect"):
        options = ["--engine", engine, "--secure", "--bootstrap", "4", "--seed", "5", "--out", tmp_path / engine]
        assert run(capsys, "learn", folder, *options)[0] == 0
        metrics = json.loads((tmp_path / engine / "metrics.json").read_text())
        results.append([(tmp_path / engine / "structure.csv").read_text(), metrics["filling_exchanges"]])
    assert results[0] == results[1]
    assert results[0][1] >= 2


def test_other_learners_leave_rows_out_and_say_so(capsys, folder, tmp_path):
    code, out, err = run(capsys, "learn", folder, "--algorithm", "fdbnl", "--engine", "inline", "--out", tmp_path / "o")
    assert code == 0
    assert "rows left out because of empty cells: each ends a stretch" in out + err


@pytest.mark.parametrize("option", [("--missing", "complete-rows"), ("--difference",)])
def test_rows_are_left_out_on_request_and_where_differences_are_learned_from(capsys, folder, tmp_path, option):
    code, out, err = run(
        capsys, "learn", folder, *option, "--bootstrap", 0, "--engine", "inline", "--out", tmp_path / "o"
    )
    assert code == 0
    assert "rows left out because of empty cells" in out + err


def test_refused_empty_cells_end_the_run_in_one_line(capsys, folder, tmp_path):
    for algorithm in ("auto", "fdbnl"):
        options = ["--missing", "refuse", "--algorithm", algorithm, "--engine", "inline", "--out", tmp_path / "o"]
        code, out, err = run(capsys, "learn", folder, *options)
        assert code == 2
        (line,) = [one for one in (out + err).splitlines() if "--missing refuse" in one]
        assert re.search(r"north\.csv: line \d+, column '[a-e]': the cell is empty, and --missing refuse", line)
        assert not (tmp_path / "o").exists()


def test_a_learner_that_needs_complete_series_names_one_that_does_not():
    with pytest.raises(BadInput, match=r"fdbnl needs series without empty cells, and .* has some: use secure-linear"):
        learn(holed(), "fdbnl")
