"""Files of a run are readable only by its user, also if the umask makes new files public."""

import os
import stat

import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.flows.engines.resuming import STARTED, Started, run_lock, write_started
from fedbnsl.flows.engines.run_comparison import LastRun, write_last_run
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.servers.processes import api_token
from fedbnsl.tracking.checkpoint import Checkpoint, save
from fedbnsl.tracking.mlflow import store
from fedbnsl.tracking.mlflow.store import create_from_template, experiment_id, open_client
from fedbnsl.tracking.mlflow.tracker import append_to_outbox
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.staging import write_files


@pytest.fixture(autouse=True)
def open_to_all():
    """Everybody may read new files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    """The permission bits of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def readable_by_others(folder):
    """The files and folders in `folder` that others may use."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if mode(path) & 0o077]


def test_results_are_private(chain, tmp_path):
    files = write_outputs(chain, tmp_path / "runs" / "one")
    assert readable_by_others(tmp_path) == []
    assert {mode(path) for path in files.values()} == {0o600}
    assert mode(tmp_path / "runs" / "one") == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    write_files(shared, {"a.csv": b""})
    with run_lock(shared):
        pass
    assert mode(shared) == 0o755
    assert mode(shared / "a.csv") == 0o600


def test_the_folder_of_a_run_that_begins_is_private(tmp_path):
    with run_lock(tmp_path / "runs" / "one"):
        assert readable_by_others(tmp_path) == []


def test_what_a_run_keeps_to_be_resumed_is_private(tmp_path):
    folder = tmp_path / "run"
    write_started(folder, Started(LearnSettings(data="data"), "run", "sqlite:///none.db", "", {}))
    save(folder / "checkpoint.bin", Checkpoint("run", b"", 1, 1, b""))
    assert {path.name for path in folder.iterdir()} == {STARTED, "checkpoint.bin"}
    assert readable_by_others(tmp_path) == []


def test_the_record_of_the_last_run_is_private(tmp_path):
    write_last_run(tmp_path / ".repeated" / "last.json", LastRun("folder", "question", {}))
    assert readable_by_others(tmp_path) == []


def test_what_mlflow_missed_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "encode", lambda record: b"record")
    append_to_outbox(tmp_path / "run", _an_end())
    assert readable_by_others(tmp_path) == []


def _an_end():
    from fedbnsl.tracking.mlflow.tracker import RunEnd

    return object.__new__(RunEnd)


@pytest.mark.parametrize("with_template", [True, False])
def test_a_new_database_is_private(tmp_path, monkeypatch, with_template):
    template = tmp_path / "template.db"
    if with_template:
        template.write_bytes(b"tables")
        template.chmod(0o644)
    monkeypatch.setattr(store, "template", lambda program: template)
    create_from_template("prefect", tmp_path / "home" / "prefect.db")
    assert mode(tmp_path / "home") == 0o700
    assert mode(tmp_path / "home" / "prefect.db") == 0o600


@pytest.mark.parametrize("with_template", [True, False])
def test_the_store_of_mlflow_and_its_artifacts_are_private(tmp_path, monkeypatch, with_template):
    if not with_template:
        monkeypatch.setattr(store, "template", lambda program: tmp_path / "none.db")
    uri = f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"
    experiment = experiment_id(client := open_client(uri), uri)
    client.create_run(experiment)
    assert [name for name in readable_by_others(tmp_path / "store") if "/" not in name] == []
    assert mode(tmp_path / "store") == 0o700
    assert mode(tmp_path / "store" / "mlartifacts") == 0o700


def test_the_folder_of_the_token_is_private(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING", raising=False)
    api_token()
    assert readable_by_others(tmp_path) == []
