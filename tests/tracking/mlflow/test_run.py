import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.comparison import PastRun, compare_runs
from fedbnsl.tracking.mlflow import run as run_module
from fedbnsl.tracking.mlflow import store as mlflow_store
from fedbnsl.tracking.mlflow.run import RoundEvent, RunStart, ending_of, open_run, reopen_run
from fedbnsl.tracking.mlflow.saved_model import TrackedData, adjacency_image, load_pgmpy
from fedbnsl.tracking.mlflow.store import UI_URL, opened_by, run_url, tracking_uri
from fedbnsl.tracking.model import pgmpy_model
from fedbnsl.tracking.outputs import OUTPUTS, write_outputs
from fedbnsl.tracking.result import NO_PARAMETERS


def start(result, uri):
    data = TrackedData(result.dataset, result.about, result.schema)
    params, tags = {**result.params, "seed": result.seed}, {"algorithm": result.algorithm}
    return open_run(RunStart(result.name, params, tags, data, uri))


@pytest.fixture(scope="module")
def logged(chain, uri, tmp_path_factory):
    """A whole run: its log, its outputs, and the URI of its model."""
    folder = tmp_path_factory.mktemp("outputs")
    log = start(chain, uri)
    for row in chain.rounds:
        log.rounds([RoundEvent(row, chain.structure)])
    write_outputs(chain, folder)
    return log, folder, log.finish(ending_of(chain), folder)


def artifacts(log, folder=""):
    return {file.path.rpartition("/")[2] for file in log.client.list_artifacts(log.run_id, folder or None)}


def test_params_and_tags(logged):
    log, _, model = logged
    run = log.client.get_run(log.run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "fed-sparse-chain-0"
    assert log.client.get_experiment(run.info.experiment_id).name == "fedbnsl"
    sizes = {"variables": "3", "silos": "2", "rows": "70"}
    assert run.data.params == {"rho1": "1000.0", "l1": "0.1", "max_rounds": "100", "seed": "0", **sizes}
    tags = {"algorithm": "fed-sparse", "outcome": "converged", "lost": "none", "model": model}
    assert tags.items() <= run.data.tags.items()


def test_metrics_of_each_round_and_of_the_run(logged, chain):
    log, _, _ = logged
    history = log.client.get_metric_history(log.run_id, "round/h")
    assert [(metric.step, metric.value) for metric in history] == [(1, 0.1), (2, 0.01)]
    assert [m.value for m in log.client.get_metric_history(log.run_id, "round/bytes_up")] == [100, 200]
    metrics = log.client.get_run(log.run_id).data.metrics
    assert (metrics["bytes_up"], metrics["shd"], metrics["converged"], metrics["edges"]) == (300, 0, 1, 2)
    assert metrics["megabytes"] == pytest.approx(0.0004)
    assert "epsilon" not in metrics
    # Values measured by an algorithm stay; edges are counted for algorithms that do not report them.
    assert [m.value for m in log.client.get_metric_history(log.run_id, "round/edges")] == [2, 1]


def test_structures_pictures_and_files(logged, chain, store):
    log, _, _ = logged
    assert artifacts(log) == {"rounds", "images", "outputs"}
    assert artifacts(log, "rounds") == {"structure-0001.json", "structure-0002.json"}
    assert artifacts(log, "outputs") == {*OUTPUTS, "model.json"}
    assert {name.split("+")[2] for name in artifacts(log, "images")} == {"1", "2"}
    kept = store / "mlartifacts" / "fedbnsl" / log.run_id / "artifacts"
    structure = json.loads((kept / "rounds" / "structure-0002.json").read_text())
    assert structure["edges"][1] == {"source": "b", "target": "c", "weight": -0.5, "type": "directed"}


def test_the_data_set_is_an_input(logged):
    log, _, _ = logged
    (found,) = log.client.get_run(log.run_id).inputs.dataset_inputs
    assert (found.dataset.name, len(found.dataset.digest)) == ("chain", 16)
    assert json.loads(found.dataset.profile)["checksums"] == {"north.csv": "ab" * 32}
    assert json.loads(found.dataset.profile)["num_rows"] == 70
    assert [c["name"] for c in json.loads(found.dataset.schema)["mlflow_colspec"]] == ["a", "b", "c"]


def test_the_model_loads_and_predicts(logged, chain, uri):
    import mlflow

    log, _, model = logged
    (output,) = log.client.get_run(log.run_id).outputs.model_outputs
    assert model == f"models:/{output.model_id}"
    assert log.client.get_logged_model(output.model_id).tags["parameters"].startswith("each variable regressed")
    assert load_pgmpy(model, uri) == pgmpy_model(chain)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        predicted = mlflow.pyfunc.load_model(model).predict(pd.DataFrame({"a": [1.0], "b": [4.0], "c": [0.0]}))
    finally:
        mlflow.set_tracking_uri(before)
    assert predicted.to_dict("list") == {"a": [0.0], "b": [2.0], "c": [1.0]}


def test_pictures_come_every_so_often(chain, cyclic, uri, tmp_path, capfd):
    log = start(chain, uri)
    rows = [{"round": k, "h": float("nan")} for k in range(1, 8)]
    for row in rows:
        log.rounds([RoundEvent(row, cyclic.structure)])
    assert log.finish(ending_of(replace(cyclic, rounds=tuple(rows))), tmp_path) is None
    assert {name.split("+")[2] for name in artifacts(log, "images")} == {"1", "2", "3", "5", "7"}
    tags = log.client.get_run(log.run_id).data.tags
    assert tags["model"] == "none: a cycle is left: a → b → c → a"
    assert tags["outcome"] == "out of rounds"
    assert capfd.readouterr() == ("", "")


def test_a_failed_run_says_why_and_can_go_on(chain, uri):
    log = start(chain, uri)
    log.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    log.fail("killed: " + "x" * 10_000)
    run = log.client.get_run(log.run_id)
    assert run.info.status == "FAILED"
    assert run.data.tags["error"].startswith("killed: x")
    again = reopen_run(log.run_id, uri)
    again.rounds([RoundEvent(chain.rounds[1], chain.structure)])
    assert again.client.get_run(log.run_id).info.status == "RUNNING"
    assert len(again.client.get_metric_history(log.run_id, "round/h")) == 2
    again.fail("enough")


def test_the_figures_of_a_round_are_told_in_one_call(chain, uri, monkeypatch):
    log, calls = start(chain, uri), []
    monkeypatch.setattr(run_module, "MAX_BATCH", 5)
    monkeypatch.setattr(log.client, "log_batch", lambda run_id, metrics: calls.append([one.step for one in metrics]))
    log.figures({"round": number, "h": 0.0, "edges": 1.0} for number in range(1, 6))
    log.figures([])
    assert calls == [[1, 1, 2, 2], [3, 3, 4, 4], [5, 5]]


def test_names_that_mlflow_refuses_are_changed(chain, uri):
    log = start(replace(chain, params={"weird:*name": 1}), uri)
    log.rounds([RoundEvent({"round": 1, "mse/silo ä|b": 2.0}, chain.structure)])
    log.fail("enough")
    run = log.client.get_run(log.run_id)
    assert run.data.params["weird__name"] == "1"
    assert run.data.metrics == {"round/mse/silo ä_b": 2.0, "round/edges": 2.0}


def test_without_checksums_the_digest_is_of_the_sizes(chain):
    plain = TrackedData("chain", {}, chain.schema)
    assert plain.digest != TrackedData("chain", chain.about, chain.schema).digest
    assert plain.digest == TrackedData("other", {}, chain.schema).digest
    grown = replace(chain.schema, rows={silo: n + 1 for silo, n in chain.schema.rows.items()})
    assert TrackedData("chain", {}, grown).digest != plain.digest


def test_the_experiment_is_made_once_by_two_at_once(uri, logged):
    log, _, _ = logged

    class Late:
        """A client that finds no experiment at first, and then that another process has made it."""

        looks = 0

        def __getattr__(self, name):
            return getattr(log.client, name)

        def get_experiment_by_name(self, name):
            self.looks += 1
            return log.client.get_experiment_by_name(name) if self.looks > 1 else None

    assert mlflow_store.experiment_id(Late(), uri) == log.experiment_id


def test_where_runs_are_kept(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("FEDBNSL_HOME", raising=False)
    assert tracking_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    assert opened_by(f"{UI_URL}/#/experiments/1").startswith(
        " (once `fedbnsl ui` runs in this folder; set FEDBNSL_HOME"
    )
    monkeypatch.setenv("FEDBNSL_HOME", "home")
    assert tracking_uri() == f"sqlite:///{tmp_path}/home/mlflow.db"
    assert opened_by(f"{UI_URL}/#/experiments/1") == " (once `fedbnsl ui` runs)"
    assert opened_by("http://tracker:5000/#/experiments/1") == ""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker:5000")
    assert tracking_uri() == "http://tracker:5000"
    assert tracking_uri("sqlite:///x.db") == "sqlite:///x.db"
    for refused in ("file:///runs", "./mlruns"):
        with pytest.raises(BadInput, match="plain files"):
            tracking_uri(refused)


def test_a_store_that_cannot_be_opened(tmp_path, chain):
    (tmp_path / "mlflow.db").write_text("no database")
    for uri in (f"sqlite:///{tmp_path}/mlflow.db", "nonsense://x"):
        with pytest.raises(BadInput, match="cannot be opened"):
            start(chain, uri)
    with pytest.raises(BadInput) as refused:
        start(chain, "nonsense://me:secret@host/runs")
    assert "secret" not in str(refused.value)


TRAINING = "?workflowType=machine_learning"


def test_links():
    assert run_url("http://tracker:5000/", "1", "ab") == "http://tracker:5000/#/experiments/1/runs/ab" + TRAINING
    assert run_url("sqlite:///x.db", "1", "ab") == "http://127.0.0.1:5000/#/experiments/1/runs/ab" + TRAINING


def test_the_picture_of_a_matrix():
    image = adjacency_image(Structure(("a", "b"), np.array([[0.0, 1.0], [0.0, 0.0]])))
    assert image.shape == (320, 320, 3)
    assert image[0, 0].tolist() == [255, 255, 255]
    assert image[0, -1].tolist() == [22, 84, 160]
    empty = Structure(tuple(map(str, range(500))), np.zeros((500, 500)))
    assert adjacency_image(empty).shape == (500, 500, 3)


def test_nothing_heavy_is_imported_and_telemetry_is_off():
    code = (
        "import os, sys, importlib, pkgutil, fedbnsl.tracking as room\n"
        "found = [m.name for m in pkgutil.walk_packages(room.__path__, 'fedbnsl.tracking.')]\n"
        "names = [name for name in found if '.pyfunc_' not in name]\n"
        "[importlib.import_module(name) for name in names]\n"
        "assert {'fedbnsl.tracking.mlflow.run', 'fedbnsl.tracking.pictures.drawing'} <= set(names)\n"
        "assert os.environ['MLFLOW_DISABLE_TELEMETRY'] == os.environ['DO_NOT_TRACK'] == 'true'\n"
        "print({'mlflow', 'pgmpy', 'matplotlib', 'prefect', 'dask'} & set(sys.modules))"
    )
    fresh = {name: value for name, value in os.environ.items() if "TRACK" not in name and "MLFLOW" not in name}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=fresh)
    assert done.stdout.strip() == "set()"


def test_a_dynamic_run_has_both_matrices_a_round_and_a_warning(over_time, uri, store, tmp_path):
    log = start(over_time, uri)
    loud = replace(over_time, metrics=over_time.metrics | {"spectral_radius": 1.25})
    for row in over_time.rounds:
        log.rounds([RoundEvent(row, over_time.structure)])
    write_outputs(loud, tmp_path / "run")
    log.finish(ending_of(loud), tmp_path / "run")
    run = log.client.get_run(log.run_id)
    assert (run.data.metrics["lagged_shd"], run.data.metrics["forecast_mse"]) == (1, 2.0)
    assert run.data.tags["warning"].startswith("Unstable: the spectral radius is 1.250")
    assert {"matrices.png", "silos.csv", "silo_structures.csv", "model.json"} <= artifacts(log, "outputs")
    kept = store / "mlartifacts" / "fedbnsl" / log.run_id / "artifacts" / "rounds" / "structure-0002.json"
    structure = json.loads(kept.read_text())
    assert structure["lags"] == 2
    assert [(edge["source"], edge["target"], edge["lag"]) for edge in structure["edges"]] == [
        ("a", "b", 0),
        *((name, name, 1) for name in "abc"),
        ("a", "c", 2),
    ]


def test_the_matrices_of_a_dynamic_structure_stand_beside_each_other(over_time):
    image = adjacency_image(over_time.structure)
    side = adjacency_image(Structure(("a", "b", "c"), over_time.structure.weights)).shape[0]
    assert image.shape == (side, 3 * side + 24, 3)
    assert tuple(image[5, side + 12 + 5]) == (22, 84, 160)
    assert tuple(image[5, -5]) == (196, 48, 18)


def test_what_has_changed_since_the_run_before_is_logged(chain, uri, tmp_path):
    before = PastRun("yesterday", Structure(chain.structure.variables, np.zeros((3, 3))))
    changes = compare_runs(before, PastRun("today", chain.structure))
    repeated = replace(chain, changes=changes, metrics=chain.metrics | changes.metrics, parameters=NO_PARAMETERS)
    log = start(repeated, uri)
    write_outputs(repeated, tmp_path)
    log.finish(ending_of(repeated), tmp_path)
    run = log.client.get_run(log.run_id)
    assert (run.data.metrics["edges_gained"], run.data.metrics["edges_lost"]) == (2, 0)
    assert run.data.tags["compared_with"] == "yesterday"
    assert "changes.csv" in artifacts(log, "outputs")
