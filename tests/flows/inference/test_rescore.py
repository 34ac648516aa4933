"""A graph edited by hand compared with the learned one: the figures of runs, and one-line errors for bad files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedbnsl import learn, load, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.data.federated import FederatedData, discrete
from fedbnsl.data.folder.folder import read_structure, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.main import app
from fedbnsl.flows.inference.rescore import rescore
from fedbnsl.tasks.transport.federation import Roster
from fedbnsl.tracking.report.explore import edges_csv


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """A run on numbers, masked, and one on labels, with their data."""
    home = tmp_path_factory.mktemp("studies")
    prepare("homogeneous", home / "numbers", variables=6, silos=3, rows=600, seed=2)
    prepare("discrete", home / "labels", variables=5, silos=3, rows=900, seed=2)
    learn(home / "numbers", "secure-linear", out=home / "numbers-run", bootstrap=0)
    learn(home / "labels", "fed-pc", out=home / "labels-run")
    return home


def without_first(folder, path):
    """The edges of the run in `folder` without the first one, written to `path`."""
    frame = pd.read_csv(folder / "structure.csv")
    frame.iloc[1:].to_csv(path, index=False)
    return frame.iloc[0]


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_both_graphs_get_what_a_run_gives(kind, studies, tmp_path):
    run, data = load(studies / f"{kind}-run").result, studies / kind
    first = without_first(studies / f"{kind}-run", tmp_path / "edited.csv")
    found = rescore(run, tmp_path / "edited.csv", data)
    names = [name for name in run.fit.metrics if name not in ("fit", "fit_bytes", "fit_worst")]
    assert {name: found.learned.metrics[name] for name in names} == pytest.approx(
        {name: run.metrics[name] for name in names}, rel=1e-6, abs=1e-6
    )
    assert found.learned.metrics["shd"] == run.metrics["shd"]
    assert found.edited.metrics["edges"] == run.metrics["edges"] - 1
    ends = {first.source, first.target}
    assert any({one.earlier, one.later} == ends for one in found.edited.fit.worst)
    assert found.edited.metrics["fit_bic_over_empty"] < found.learned.metrics["fit_bic_over_empty"]
    network = found.edited.parameters.network
    assert network is not None
    assert "edited by hand" in found.edited.basis[0]


def test_the_file_of_the_report_gives_the_learned_graph_again(studies, tmp_path):
    for kind in ("numbers", "labels"):
        structure = load(studies / f"{kind}-run").result.structure
        (tmp_path / "edges.csv").write_text(edges_csv(ClassifiedEdges(structure)))
        again = read_structure(tmp_path / "edges.csv", structure.variables)
        assert again.kind == structure.kind
        np.testing.assert_array_equal(again.adjacency, structure.adjacency)
        report = (studies / f"{kind}-run" / "report.html").read_text()
        assert "Save edges" in report
        assert json.dumps(edges_csv(ClassifiedEdges(structure)))[1:-1] in report
    lagged = replace(structure, kind="dag", weights=np.triu(np.ones((5, 5)), 1), lagged=np.ones((2, 5, 5)))
    (tmp_path / "lagged.csv").write_text(edges_csv(ClassifiedEdges(lagged)))
    np.testing.assert_array_equal(read_structure(tmp_path / "lagged.csv", lagged.variables).lagged, lagged.lagged)


BAD = {
    "an unknown variable": ("source,target\nx1,x2\nx1,x9\n", "line 3, column 'target': 'x9'"),
    "a cycle": ("source,target\nx1,x2\nx2,x3\nx4,x5\nx3,x1\n", "line 5: 'x3' → 'x1' closes the cycle"),
    "a duplicate": ("source,target\nx1,x2\nx1,x2\n", "line 3"),
    "an edge to itself": ("source,target\nx1,x1\n", "line 2"),
    "a missing column": ("from,to\nx1,x2\n", "source"),
}


@pytest.mark.parametrize("which", BAD)
def test_a_bad_file_is_one_line_with_its_place(which, studies, tmp_path):
    text, said = BAD[which]
    (tmp_path / "edited.csv").write_text(text)
    with pytest.raises(BadInput) as error:
        rescore(load(studies / "numbers-run").result, tmp_path / "edited.csv", studies / "numbers")
    assert said in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "edited.csv"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("secure", [True, False])
def test_silos_send_masked_replies_alone_if_those_of_the_run_were_masked(secure, tmp_path, monkeypatch):
    """The learner does not need masks itself, so only the option of the run asks for them."""
    data = homogeneous(variables=3, silos=2, rows=200, seed=2)
    write_folder(tmp_path / "data", data)
    (tmp_path / "edited.csv").write_text("source,target\nx1,x2\n")
    run = learn(data, "fed-sparse", secure=secure, rounds=3, bootstrap=0, parameters=False, diagnose=False).result
    assert run.secure == secure
    methods, ask = set(), Roster.ask

    def recorded(self, calls, **how):
        methods.update(call.method for call in calls.values())
        return ask(self, calls, **how)

    monkeypatch.setattr(Roster, "ask", recorded)
    rescore(run, tmp_path / "edited.csv", tmp_path / "data")
    assert methods == {"secure_answer" if secure else "solve", "finish"}


@pytest.mark.parametrize("small_cells", ["keep", "blank"])
def test_counts_of_few_rows_stay_if_the_run_kept_them(small_cells, tmp_path):
    """A label has 1, 2 and 27 rows: kept, they are counted with a third of a row each; else 1 and 2 count as 27."""
    codes = np.column_stack([[0, 1, 1, *[2] * 27], [0, 1] * 15])
    tables = {"p": codes[:15], "q": codes[15:]}
    levels = {"x": ("low", "middle", "high"), "y": ("no", "yes")}
    data = FederatedData(discrete(tables, ("x", "y"), levels), tables)
    write_folder(tmp_path / "data", data)
    (tmp_path / "edited.csv").write_text("source,target\ny,x\n")
    run = learn(data, "fed-pc", small_cells=small_cells, bootstrap=0, parameters=False, diagnose=False).result
    found = rescore(run, tmp_path / "edited.csv", tmp_path / "data")
    assert found.learned.structure.adjacency.sum() == 0
    counts = np.array([1, 2, 27] if small_cells == "keep" else [0.5, 0.5, 30])
    expected = (counts + 1 / 3) / (counts.sum() + 1)
    np.testing.assert_allclose(found.learned.parameters.network.tables["x"], expected, rtol=1e-12)


def test_other_rows_and_runs_with_an_epsilon_are_refused(studies, tmp_path):
    run = load(studies / "numbers-run").result
    without_first(studies / "numbers-run", tmp_path / "edited.csv")
    prepare("homogeneous", tmp_path / "other", variables=6, silos=3, rows=500, seed=2)
    with pytest.raises(BadInput, match="has 500 rows, and the run had 600"):
        rescore(run, tmp_path / "edited.csv", tmp_path / "other")
    private = learn(studies / "numbers", epsilon=5.0, parameters=False).result
    with pytest.raises(BadInput, match="the run has an ε"):
        rescore(private, tmp_path / "edited.csv", studies / "numbers")


def test_the_command_prints_both_and_writes_the_edited_one(studies, tmp_path):
    without_first(studies / "numbers-run", tmp_path / "edited.csv")
    words = ["rescore", str(studies / "numbers-run"), "--edges", str(tmp_path / "edited.csv")]
    words += ["--data", str(studies / "numbers")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "learned" in done.output
    assert "fit_failing" in done.output
    assert load(tmp_path / "out").result.fit.failing > 0
    figures = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert figures["edges"]["learned"] == figures["edges"]["edited"] + 1
