"""Old runs are removed from their folder, MLflow and Prefect together, and what a deployment needs stays."""

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.engines.resuming import CHECKPOINT, Started, run_lock, write_started
from fedbnsl.flows.engines.retention import (
    RECORD,
    RunRecord,
    read_record,
    remove,
    runs_older_than,
    stored_runs,
    surplus_runs,
    write_record,
)
from fedbnsl.flows.engines.run_comparison import LastRun, claim_file, last_run_file, write_last_run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import RepeatSettings
from tests.flows.commands import run

DAY = 24 * 3600


def stored(runs, name, days, record=RunRecord(), interrupted=False):  # noqa: B008
    """A run of so many days ago in the folder `runs`."""
    folder = runs / name
    folder.mkdir(parents=True)
    if interrupted:
        write_started(folder, Started(LearnSettings(data="data"), "id", record.tracking_uri, record.tracking_id, {}))
        (folder / CHECKPOINT).write_bytes(b"state")
    else:
        write_record(folder, record)
        for file in ("metrics.json", "config.json"):
            (folder / file).write_text("{}")
    for file in folder.iterdir():
        os.utime(file, (time.time() - days * DAY,) * 2)
    return folder


def names(found):
    return [one.folder.name for one in found]


@pytest.fixture
def runs(tmp_path):
    """A folder of runs: of two deployments, one by hand, one interrupted, and things that are no runs."""
    runs = tmp_path / "runs"
    for number in range(4):
        stored(runs, f"nightly-{number}", 40 - number, RunRecord("nightly"))
    stored(runs, "weekly", 50, RunRecord("weekly"))
    stored(runs, "by-hand", 60)
    stored(runs, "broken-off", 70, RunRecord(tracking_uri="sqlite:///m.db", tracking_id="one"), interrupted=True)
    stored(runs, "young", 1)
    (runs / "notes").mkdir()
    (runs / "notes" / "metrics.json").write_text("{}")
    stored(tmp_path / "elsewhere", "kept", 90)
    (runs / "link").symlink_to(tmp_path / "elsewhere" / "kept")
    write_last_run(last_run_file(runs, "weekly"), LastRun(str(runs / "weekly"), "", {}))
    write_last_run(claim_file(last_run_file(runs, "nightly")), LastRun(str(runs / "nightly-0"), "", {}))
    return runs


def test_old_are_all_but_what_a_deployment_needs(runs):
    old = names(runs_older_than(runs, timedelta(days=30)))
    assert old == ["nightly-3", "nightly-2", "nightly-1", "by-hand", "broken-off"]
    assert names(runs_older_than(runs, timedelta(days=38.5))) == ["nightly-1", "by-hand", "broken-off"]


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 9])
def test_surplus_are_the_oldest_of_the_deployment(runs, keep):
    expected = ["nightly-3", "nightly-2", "nightly-1", "nightly-0"][keep:]
    assert names(surplus_runs(runs, "nightly", keep)) == [one for one in expected if one != "nightly-0"]
    assert surplus_runs(runs, "", keep) == []


def test_an_interrupted_run_is_known_with_its_mlflow_run(runs):
    (found,) = (one for one in stored_runs(runs) if one.is_interrupted)
    assert (found.folder.name, found.record.tracking_id) == ("broken-off", "one")


def test_a_run_that_cannot_be_removed_from_mlflow_keeps_its_folder(runs):
    stored(runs, "unreachable", 40, RunRecord("", "", "http://127.0.0.1:9/", "one"))
    (found,) = (one for one in stored_runs(runs) if one.folder.name == "unreachable")
    with pytest.raises(BadInput, match=r"unreachable: .*cannot be"):
        remove(found)
    assert read_record(found.folder) == found.record


def test_a_run_in_progress_stays(runs):
    found = stored_runs(runs)[-1]
    pid = os.fork()
    if pid == 0:  # the lock of another process
        with run_lock(found.folder):
            (runs / "locked").write_text("")
            time.sleep(60)
        os._exit(0)
    try:
        while not (runs / "locked").exists():
            time.sleep(0.01)
        with pytest.raises(BadInput, match="in progress"):
            remove(found)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    remove(found)
    assert not found.folder.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"other": 1}', '"text"', "null"])
def test_a_damaged_record_names_no_other_place(tmp_path, text):
    (tmp_path / RECORD).write_text(text)
    assert read_record(tmp_path) == RunRecord()


def test_clean_shows_and_removes_old_runs(runs, capsys):
    code, said, _ = run(capsys, "clean", "--runs", runs)
    assert code == 0
    assert f"old, in {runs}/by-hand: a run, of " in said
    assert f"old, in {runs}/broken-off: an interrupted run and its MLflow run, of " in said
    assert (runs / "by-hand").exists()
    (runs / "broken-off" / "started.json").unlink()
    code, said, _ = run(capsys, "clean", "--runs", runs, "--yes")
    assert code == 0
    assert f"removed from {runs}/by-hand: a run, of " in said
    left = {"nightly-0", "weekly", "broken-off", "young", "notes", "link", ".repeated"}
    assert {one.name for one in runs.iterdir()} == left
    assert (runs / "link" / "metrics.json").exists()


@pytest.mark.slow
def test_a_deployment_keeps_its_newest_runs(server, example, mlflow_uri):
    """The others are gone from MLflow, with artifacts and model, and from Prefect."""
    from mlflow import MlflowClient
    from prefect.client.orchestration import get_client

    from fedbnsl.flows.learn import learn
    from fedbnsl.tracking.mlflow.store import artifact_root

    repeat = RepeatSettings(deployment="nightly", unchanged="learn", keep=2)
    places = []
    for number in range(3):
        settings = LearnSettings(data=str(example), algorithm="secure-sum", name=f"night-{number}").named()
        learn(settings, repeat)
        places.append(read_record(Path(str(settings.out))))
    assert {one.name for one in Path("runs").iterdir()} == {"night-1", "night-2", ".repeated"}
    client, (first, *others) = MlflowClient(mlflow_uri), places
    known = {one.info.run_id for one in client.search_runs(["1"], run_view_type=3)}
    assert first.tracking_id not in known
    assert {one.tracking_id for one in others} <= known
    root = artifact_root(mlflow_uri)
    written = {one.parent.name: json.dumps(str(one)) for one in root.glob("fedbnsl/*/artifacts")}
    assert first.tracking_id not in written
    assert {one.tracking_id for one in others} <= set(written)
    models = {one.read_text() for one in root.glob("fedbnsl/models/*/artifacts/MLmodel")}
    assert not any(first.tracking_id in text for text in models)
    assert all(any(one.tracking_id in text for text in models) for one in others)
    with get_client(sync_client=True) as prefect:
        there = {str(one.id) for one in prefect.read_flow_runs()}
    assert first.flow_run not in there
    assert {one.flow_run for one in others} <= there


def test_a_registered_model_with_an_alias_keeps_its_run(server, example, mlflow_uri):
    from mlflow import MlflowClient

    from fedbnsl.flows.learn import learn

    settings = [
        LearnSettings(data=str(example), algorithm="secure-sum", name=name, register_as="ward").named()
        for name in ("first", "second")
    ]
    for one in settings:
        learn(one)
    second, first = stored_runs(Path("runs"))
    with pytest.raises(BadInput, match="second: stays, because version 2 of the registered model ward is current"):
        remove(second)
    assert (second.folder / "report.html").exists()
    remove(first)
    (version,) = MlflowClient(mlflow_uri).search_model_versions("name = 'ward'")
    assert version.run_id == second.record.tracking_id
    remove(first)


def test_serve_keeps_two_runs_at_least(example, capsys):
    code, _, said = run(capsys, "serve", example, "--interval", "60", "--keep", "1")
    assert code == 2
    assert "keep" in said
