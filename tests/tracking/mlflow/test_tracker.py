"""If MLflow fails, the run continues, reports it once, and sends the missing entries later."""

import shutil
import sqlite3
import time
from dataclasses import replace

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.track import track_run
from fedbnsl.tracking.mlflow.run import RoundEvent, RunLog, RunStart, ending_of
from fedbnsl.tracking.mlflow.saved_model import TrackedData
from fedbnsl.tracking.mlflow.store import open_client
from fedbnsl.tracking.mlflow.tracker import OUTBOX_FILE, Tracker, append_to_outbox, read_outbox, upload_outbox
from fedbnsl.tracking.outputs import write_outputs

NOWHERE = "http://127.0.0.1:9"
"""where nothing listens"""


@pytest.fixture
def impatient():
    """Let MLflow wait for a lock only for a moment instead of twenty seconds."""

    def at_once(connection, cursor, statement, parameters, context, many):
        return statement.replace("busy_timeout = 20000", "busy_timeout = 50"), parameters

    event.listen(Engine, "before_cursor_execute", at_once, retval=True)
    yield
    event.remove(Engine, "before_cursor_execute", at_once)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def opening(result, uri, run_id=""):
    data = TrackedData(result.dataset, result.about, result.schema)
    return RunStart(result.name, {**result.params, "seed": result.seed}, {"algorithm": "a"}, data, uri, run_id)


def rounds_of(uri, run_id):
    history = open_client(uri).get_metric_history(run_id, "round/bytes_up")
    return [metric.step for metric in history]


def structures_of(uri, run_id):
    return [file.path for file in open_client(uri).list_artifacts(run_id, "rounds")]


def finished(tracker, result, folder):
    write_outputs(result, folder)
    tracker.finish(result)


def said_once(capsys):
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("note: MLflow is not available (")
    assert said.err.count("\n") == 1, said.err
    return said.err


def test_a_database_that_is_locked_is_told_at_the_end(chain, uri, store, folder, capsys, impatient):
    tracker = Tracker(folder, opening(chain, uri), ())
    tracker.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    with sqlite3.connect(store / "mlflow.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        tracker.rounds([RoundEvent(chain.rounds[1], chain.structure)])
        assert "database is locked" in said_once(capsys)
        assert tracker.url is None
    other.close()
    finished(tracker, chain, folder)
    assert "MLflow is available again" in capsys.readouterr().err
    run = open_client(uri).get_run(tracker.opening.run_id)
    assert run.info.status == "FINISHED"
    assert rounds_of(uri, run.info.run_id) == [1, 2]
    assert len(structures_of(uri, run.info.run_id)) == 2
    assert f"/runs/{run.info.run_id}?" in tracker.url
    assert read_outbox(folder) is None


def test_a_server_that_is_not_there_is_said_at_once_and_told_later(chain, uri, folder, capsys, monkeypatch):
    begin = time.monotonic()
    tracker = Tracker(folder, opening(chain, NOWHERE), ())
    assert "Connection refused" in said_once(capsys)
    for row in chain.rounds:
        tracker.rounds([RoundEvent(row, chain.structure)])
    finished(tracker, chain, folder)
    assert capsys.readouterr().err == ""
    assert time.monotonic() - begin < 10
    assert tracker.url is None
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(BadInput, match="cannot be opened"):
        track_run(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    run_id = track_run(folder).partition("?")[0].rpartition("/")[2]
    run = open_client(uri).get_run(run_id)
    assert (run.info.status, run.info.run_name) == ("FINISHED", chain.name)
    assert run.data.params["rho1"] == "1000.0"
    assert run.data.metrics["shd"] == 0
    assert run.data.tags["outcome"] == "converged"
    assert run.data.tags["model"].startswith("models:/")
    assert rounds_of(uri, run_id) == [1, 2]
    files = {file.path for file in open_client(uri).list_artifacts(run_id, "outputs")}
    assert {"outputs/structure.csv", "outputs/model.json"} <= files
    with pytest.raises(BadInput, match="MLflow has the complete run"):
        track_run(folder)


def test_a_run_that_mlflow_has_no_more_is_begun_anew_when_it_is_resumed(chain, uri, folder):
    first = Tracker(folder, opening(chain, uri))
    first.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    client = open_client(uri)
    client.delete_run(first.opening.run_id)
    again = Tracker(folder, first.opening, chain.rounds[:1])
    again.rounds([RoundEvent(chain.rounds[1], chain.structure)])
    assert again.opening.run_id != first.opening.run_id
    assert rounds_of(uri, again.opening.run_id) == [1, 2]
    assert read_outbox(folder) is None
    elsewhere = Tracker(folder, replace(first.opening, run_id="0" * 32), ())
    assert elsewhere.opening.run_id not in ("", "0" * 32)


def test_a_resumed_run_hands_over_what_was_kept_before_it_was_killed(chain, uri, folder, capsys, monkeypatch):
    begun = Tracker(folder, opening(chain, uri))
    with monkeypatch.context() as broken:
        broken.setattr(RunLog, "figures", lambda self, row: 1 / 0)
        begun.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    said_once(capsys)
    whole = (folder / OUTBOX_FILE).read_bytes()
    append_to_outbox(folder, read_outbox(folder).rounds[0])
    record = (folder / OUTBOX_FILE).read_bytes()[len(whole) :]
    for length in (4, 45, len(record) - 1):  # killed while it wrote the head, the body, the last byte
        (folder / OUTBOX_FILE).write_bytes(whole + record[:length])
        assert len(read_outbox(folder).rounds) == 1
    again = Tracker(folder, begun.opening, chain.rounds[:1])
    assert again.opening.run_id == begun.opening.run_id
    assert rounds_of(uri, begun.opening.run_id) == [1]
    assert not (folder / OUTBOX_FILE).exists()


def test_a_round_that_was_half_told_is_not_told_twice(chain, uri, folder, capsys, monkeypatch):
    tracker = Tracker(folder, opening(chain, uri))
    with monkeypatch.context() as broken:
        broken.setattr(RunLog, "_picture", lambda self, structure, number: 1 / 0)
        tracker.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    said_once(capsys)
    finished(tracker, replace(chain, rounds=chain.rounds[:1]), folder)
    assert rounds_of(uri, tracker.opening.run_id) == [1]


@pytest.mark.parametrize("ended", [True, False])
def test_an_upload_that_fails_keeps_all_records_and_the_run_that_it_began(
    chain, uri, store, folder, monkeypatch, ended
):
    rounds = tuple(RoundEvent({"round": float(k), "bytes_up": 8.0 * k}, chain.structure) for k in (1, 2))
    ending = ending_of(chain) if ended else None
    for record in (opening(chain, uri), *rounds, *([ending] if ending else [])):
        append_to_outbox(folder, record)
    before = read_outbox(folder)

    def fail(*given):
        raise OSError("disk full")

    monkeypatch.setattr(RunLog, "rounds", fail)
    with pytest.raises(OSError, match="disk full"):
        upload_outbox(before, folder)
    kept = read_outbox(folder)
    assert kept.opening == replace(before.opening, run_id=kept.opening.run_id)
    assert open_client(uri).get_run(kept.opening.run_id).info.status == "RUNNING"
    assert [one.row for one in kept.rounds] == [one.row for one in rounds]
    assert (kept.ending is not None) == ended
    monkeypatch.undo()
    write_outputs(chain, folder)
    log = upload_outbox(kept, folder)
    assert log.run_id == kept.opening.run_id
    assert open_client(uri).get_run(log.run_id).info.status == ("FINISHED" if ended else "RUNNING")
    assert read_outbox(folder) is None


def test_a_database_that_was_deleted_is_noticed(chain, uri, store, tmp_path, folder, capsys):
    open_client(uri)
    database = shutil.copy(store / "mlflow.db", tmp_path / "mlflow.db")
    tracker = Tracker(folder, opening(chain, f"sqlite:///{database}"))
    database.unlink()
    tracker.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    said_once(capsys)
    assert [one.row["round"] for one in read_outbox(folder).rounds] == [1]


def test_a_deleted_database_is_noticed_where_writing_to_it_raises_nothing(
    chain, uri, store, tmp_path, folder, capsys, monkeypatch
):
    open_client(uri)
    database = shutil.copy(store / "mlflow.db", tmp_path / "mlflow.db")
    tracker = Tracker(folder, opening(chain, f"sqlite:///{database}"))
    monkeypatch.setattr(RunLog, "rounds", lambda self, told: None)
    tracker.rounds([RoundEvent(chain.rounds[0], chain.structure)])
    assert tracker.url is not None
    database.unlink()
    tracker.rounds([RoundEvent(chain.rounds[1], chain.structure)])
    assert f"({database} was deleted)" in said_once(capsys)
    assert [one.row["round"] for one in read_outbox(folder).rounds] == [2]


def test_an_error_of_the_run_is_not_replaced_by_one_of_mlflow(chain, uri, folder, capsys, monkeypatch):
    tracker = Tracker(folder, opening(chain, uri))
    monkeypatch.setattr(RunLog, "fail", lambda self, message: 1 / 0)
    tracker.fail("the silo is gone")
    said_once(capsys)


def test_an_interrupted_run_is_resumed_and_not_tracked(chain, folder, capsys):
    Tracker(folder, opening(chain, NOWHERE)).rounds([RoundEvent(chain.rounds[0], chain.structure)])
    with pytest.raises(BadInput, match="this run was interrupted"):
        track_run(folder)
    (folder / OUTBOX_FILE).write_bytes(b"nonsense")
    with pytest.raises(BadInput, match="damaged"):
        track_run(folder)
    with pytest.raises(BadInput, match="no such folder"):
        track_run(folder / "none")
