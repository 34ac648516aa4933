"""The remains of old runs are listed, and removed on request; spent ε stays recorded."""

import os
import sqlite3
import time
from datetime import timedelta

import pytest

from fedbnsl.algorithms.core.promise import Cost, Promise, Release, ReplaceOne
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import ChargeRequest
from fedbnsl.flows.cli.clean import old_journals
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.servers.prune import old_history, prune
from fedbnsl.tasks.silo.journal import Journal
from fedbnsl.tasks.silo.ledger import FileLedger

DAY = 24 * 3600


def request(run):
    promise = Promise(1.0, 1e-6, Cost(0.02, ReplaceOne), "from everyone")
    return ChargeRequest(run, 1, "binding", (Release("a number", Cost(0.01, ReplaceOne)),), promise, 1000, 1e-6)


@pytest.fixture
def folder(tmp_path):
    """A folder with three journals: one long unused, one still in use, one that is old and empty."""
    kept = tmp_path / "data" / ".fedbnsl"
    for silo, days in (("old", 40), ("young", 1), ("done", 40)):
        with Journal(kept / f"{silo}.sqlite") as journal:
            journal.commit("run-1", 1, b"r" * 100_000, b"state", "binding")
            journal.commit("run-2", 1, b"reply", b"state", "binding")
            if silo == "done":
                journal.forget("run-1")
                journal.forget("run-2")
        then = time.time() - days * DAY
        os.utime(kept / f"{silo}.sqlite", (then, then))
    FileLedger(kept / "old.ledger").reserve(request("run-1"), b"k" * 32)
    return tmp_path / "data"


def runs_in(folder, silo):
    with Journal(folder / ".fedbnsl" / f"{silo}.sqlite") as journal:
        return [run for (run,) in journal._db.execute("SELECT run FROM standings ORDER BY run")]


def cleaned(capsys, monkeypatch, *words, database=None):
    monkeypatch.setattr("fedbnsl.flows.servers.prune.database_file", lambda: database)
    with pytest.raises(SystemExit) as leaving:
        main(["clean", *map(str, words)])
    said = capsys.readouterr()
    return leaving.value.code, said.out, said.err


def test_old_journals_are_shown_and_stay(folder, capsys, monkeypatch):
    code, said, _ = cleaned(capsys, monkeypatch, folder)
    assert code == 0
    assert f"old, in {folder}/.fedbnsl/old.sqlite: 2 runs, last used on " in said
    assert "young" not in said
    assert "done" not in said
    assert said.endswith("nothing was removed; add --yes to remove it\n")
    assert runs_in(folder, "old") == ["run-1", "run-2"]


def test_old_journals_are_emptied_and_ledgers_stay(folder, capsys, monkeypatch):
    journal = folder / ".fedbnsl" / "old.sqlite"
    before = journal.stat().st_size
    code, said, _ = cleaned(capsys, monkeypatch, folder, "--yes")
    assert code == 0
    assert said.startswith("removed from ")
    assert runs_in(folder, "old") == []
    assert runs_in(folder, "young") == ["run-1", "run-2"]
    assert journal.stat().st_size < before - 90_000
    (charge,) = FileLedger(folder / ".fedbnsl" / "old.ledger").charges()
    assert (charge.run, charge.rho) == ("run-1", 0.01)
    assert cleaned(capsys, monkeypatch, folder)[1] == "nothing to remove\n"


def test_old_logs_of_errors_are_removed(tmp_path, capsys, monkeypatch):
    logs = tmp_path / "errors"
    logs.mkdir()
    for name, days in (("old.log", 40), ("young.log", 1), ("notes.txt", 40)):
        (logs / name).write_text("Traceback")
        os.utime(logs / name, (time.time() - days * DAY,) * 2)
    monkeypatch.setattr("fedbnsl.tracking.own_servers.errors_folder", lambda: logs)
    assert f"old, in {logs}: 1 log of unexpected errors" in cleaned(capsys, monkeypatch)[1]
    assert (logs / "old.log").exists()
    assert cleaned(capsys, monkeypatch, "--yes")[0] == 0
    assert {one.name for one in logs.iterdir()} == {"young.log", "notes.txt"}


def test_what_is_only_in_the_log_of_a_journal_counts_as_use(folder):
    (folder / ".fedbnsl" / "old.sqlite-wal").write_bytes(b"new")
    assert old_journals(folder, timedelta(days=30)) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere: no such folder"),
        (["--older-than", "0"], "--older-than is 0: it must be from 1"),
        (["--older-than", "nan"], "--older-than is nan"),
    ],
)
def test_what_cannot_be_cleaned(capsys, monkeypatch, words, said):
    code, _, err = cleaned(capsys, monkeypatch, *words)
    assert code == 2
    assert said in err


@pytest.fixture
def database(server, tmp_path):
    """A copy of the server's database with one run that ended long ago, and one that has just ended."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings
    from prefect.states import Completed

    @flow(name="cleaned")
    def nothing():
        pass

    with get_client(sync_client=True) as client:
        old, young = (client.create_flow_run(nothing, state=Completed()).id for _ in range(2))
    path = tmp_path / "prefect.db"
    with sqlite3.connect(os.environ["PREFECT_HOME"] + "/prefect.db") as there, sqlite3.connect(path) as copy:
        there.backup(copy)
        for run, then in ((old, "2020-01-01 00:00:00.000000"), (young, "2120-01-01 00:00:00.000000")):
            copy.execute("UPDATE flow_run SET end_time = ? WHERE id = ?", (then, str(run)))
    copy.close()
    there.close()
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{path}"}):
        yield path, str(old), str(young)


def test_old_runs_leave_the_database_of_prefect(database):
    path, old, young = database
    assert old_history(path, timedelta(days=30)).runs == 1
    prune(path, timedelta(days=30))
    assert old_history(path, timedelta(days=30)).runs == 0
    with sqlite3.connect(path) as db:
        left = {run for (run,) in db.execute("SELECT id FROM flow_run")}
    db.close()
    assert old not in left
    assert young in left


def test_a_database_of_something_else_is_one_line(tmp_path):
    (tmp_path / "prefect.db").write_bytes(b"no database, but some text")
    with pytest.raises(BadInput, match=r"prefect\.db: Prefect's database cannot be read"):
        old_history(tmp_path / "prefect.db", timedelta(days=30))


def test_a_damaged_database_is_set_aside_and_nothing_of_it_is_lost(tmp_path, capsys, monkeypatch):
    database = tmp_path / "prefect.db"
    database.write_bytes(b"no database, but some text")
    (tmp_path / "prefect.db-wal").write_bytes(b"")
    code, said, _ = cleaned(capsys, monkeypatch, database=database)
    assert code == 0
    assert f"old, in {database}: damaged (file is not a database), to be set aside" in said
    assert database.exists()
    code, said, _ = cleaned(capsys, monkeypatch, "--yes", database=database)
    (aside,) = tmp_path.glob("prefect.db.damaged-*")
    assert aside.read_bytes() == b"no database, but some text"
    assert [path.name for path in tmp_path.iterdir()] == [aside.name]
    assert code == 0
    assert f"now {aside.name}" in said


def test_a_server_of_ours_prunes_itself(monkeypatch):
    from fedbnsl.flows.servers.environment import DEFAULTS

    for name, value in DEFAULTS.items():
        monkeypatch.setenv(name, value)
    from prefect.settings import Settings

    services = Settings().server.services.db_vacuum
    assert services.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert services.retention_period == timedelta(days=30)
    assert Settings().server.events.retention_period == timedelta(days=1)
