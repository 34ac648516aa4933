import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.truth import read_structure, write_structure
from fedbnsl.tracking import outputs
from fedbnsl.tracking.metrics import shown_in
from fedbnsl.tracking.outputs import OUTPUTS, write_outputs
from fedbnsl.tracking.report.files import flat_metrics, json_text, silo_edges_csv, structure_csv
from fedbnsl.tracking.result import silo_edges


def test_outputs_of_a_run(chain, tmp_path):
    folder = tmp_path / "runs" / "chain"
    written = write_outputs(chain, folder)
    assert written == {name: folder / name for name in (*OUTPUTS, "model.json")}
    assert sorted(path.name for path in folder.iterdir()) == sorted((*OUTPUTS, "model.json"))
    assert [path.name for path in folder.parent.iterdir()] == ["chain"]
    read = read_structure(folder / "structure.csv", chain.structure.variables)
    np.testing.assert_array_equal(read.weights, chain.structure.weights)
    assert json.loads((folder / "metrics.json").read_text())["formula_megabytes"] == 0.0008
    config = json.loads((folder / "config.json").read_text())
    assert config["params"] == chain.params
    assert config["rows"] == {"north": 30, "south": 40}
    with (folder / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["h"]) for row in rows] == [0.1, 0.01]
    assert next(iter(rows[0])) == "round"
    assert (folder / "structure.png").read_bytes().startswith(b"\x89PNG")


def test_metrics_are_there_and_null_without_a_truth(cyclic):
    metrics = json.loads(json_text(flat_metrics(cyclic)))
    assert {one.name for one in shown_in("always")} <= set(metrics)
    assert [metrics[name] for name in ("shd", "tpr", "fdr", "epsilon", "delta", "seconds")] == [None] * 6
    assert (metrics["edges"], metrics["rounds"], metrics["converged"], metrics["acyclic"]) == (3, 2, False, False)
    assert (metrics["bytes_up"], metrics["bytes_down"], metrics["formula_megabytes"]) == (300, 100, 0.0008)


def test_what_json_cannot_say_is_null():
    assert json.loads(json_text({"a": float("inf"), "b": np.float64("nan"), "c": (np.int64(3), True)})) == {
        "a": None,
        "b": None,
        "c": [3, True],
    }


def test_other_files_of_the_folder_stay(chain, tmp_path):
    (tmp_path / "checkpoint.bin").write_bytes(b"state")
    (tmp_path / "metrics.json").write_text("old")
    write_outputs(chain, tmp_path)
    assert (tmp_path / "checkpoint.bin").read_bytes() == b"state"
    assert json.loads((tmp_path / "metrics.json").read_text())["shd"] == 0


@pytest.mark.parametrize("there", [True, False])
def test_a_failure_leaves_nothing_half_written(chain, tmp_path, monkeypatch, there):
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
        (folder / "metrics.json").write_text("old")

    def fail(result):
        raise RuntimeError("disk full")

    monkeypatch.setattr(outputs, "report_html", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        write_outputs(chain, folder)
    assert [path.name for path in tmp_path.iterdir()] == (["run"] if there else [])
    assert not there or (folder / "metrics.json").read_text() == "old"


def test_a_run_that_never_finished_a_round(chain, tmp_path):
    empty = Structure(("a", "b", "c"), np.zeros((3, 3)))
    lost = replace(chain, structure=empty, rounds=(), metrics={}, outcome="silo lost", lost=("north",), refit={})
    write_outputs(lost, tmp_path / "lost")
    assert (tmp_path / "lost" / "rounds.csv").read_text() == "round\n"
    assert (tmp_path / "lost" / "structure.csv").read_text() == "source,target,weight\n"


def test_names_that_a_spreadsheet_takes_for_formulas_are_safe_and_read_back(tmp_path, chain):
    names = ("=1+1", "-x", "'@y")
    structure = Structure(names, chain.structure.weights)
    text = structure_csv(ClassifiedEdges(structure))
    assert text.splitlines() == ["source,target,weight", "'=1+1,'-x,2.0", "'-x,''@y,-0.5"]
    (tmp_path / "structure.csv").write_text(text)
    assert read_structure(tmp_path / "structure.csv").variables == names
    write_structure(tmp_path / "truth.csv", structure)
    assert (tmp_path / "truth.csv").read_text() == text
    edges = silo_edges_csv(silo_edges({"=north": ClassifiedEdges(structure)}), ["=north"])
    assert edges.splitlines()[1].startswith("'=1+1")


def test_the_types_of_edges_of_a_pag_stay_as_they_are():
    marks = np.array([[0.0, 2], [1, 0]])
    assert structure_csv(ClassifiedEdges(Structure(("a", "-b"), marks, "pag"))).splitlines()[1] == "a,'-b,-->"
