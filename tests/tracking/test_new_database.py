"""A new database is a copy of an empty one if that exists; an existing database is never changed."""

import sqlite3
from contextlib import closing

import pytest

from fedbnsl.tracking.mlflow import store
from fedbnsl.tracking.mlflow.store import create_from_template, save_template


@pytest.fixture(autouse=True)
def kept(monkeypatch, tmp_path):
    monkeypatch.setattr(store.sys, "prefix", str(tmp_path / "installation"))


def names(database):
    with closing(sqlite3.connect(database)) as db:
        return [name for (name,) in db.execute("SELECT name FROM runs")]


@pytest.fixture
def in_use(tmp_path):
    """A database that another connection still writes to, its last row in the write-ahead log."""
    path = tmp_path / "in-use.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE runs (name TEXT)")
        db.execute("CREATE TABLE places (name TEXT)")
        db.execute("INSERT INTO runs VALUES ('first')")
        db.execute("INSERT INTO places VALUES ('/here')")
        yield path


def test_a_new_database_begins_as_the_one_that_was_kept(in_use, tmp_path):
    save_template("mlflow", in_use, without=("places",))
    new = tmp_path / "folder" / "new.db"
    create_from_template("mlflow", new)
    assert names(new) == ["first"]
    with closing(sqlite3.connect(new)) as db:
        assert db.execute("SELECT * FROM places").fetchall() == []
    assert [path.name for path in new.parent.iterdir()] == ["new.db"]


def test_a_database_that_is_there_stays(in_use, tmp_path):
    save_template("mlflow", in_use)
    there = tmp_path / "there.db"
    there.write_bytes(b"mine")
    create_from_template("mlflow", there)
    assert there.read_bytes() == b"mine"


def test_without_one_that_was_kept_a_new_database_is_empty(tmp_path):
    create_from_template("prefect", tmp_path / "new.db")
    assert (tmp_path / "new.db").read_bytes() == b""


def test_a_program_of_another_version_has_a_database_of_its_own(in_use, monkeypatch, tmp_path):
    save_template("mlflow", in_use)
    monkeypatch.setattr(store, "version", lambda program: "99")
    create_from_template("mlflow", tmp_path / "new.db")
    assert (tmp_path / "new.db").read_bytes() == b""
