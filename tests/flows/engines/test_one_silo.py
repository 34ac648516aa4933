"""Both engines report a silo's refusal alike; a long-lived federation notices changed rows."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from tests.flows.owners import owners_of

PRIVATE = {"algorithm": "dp-covariance", "epsilon": 3.0, "budget": 4.0, "diagnose": False}
CHANGED = "silo silo-2: its rows have changed since the run began; start a new run"


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "three"
    write_folder(place, homogeneous(variables=4, silos=3, rows=300, seed=3))
    (place / "about.json").write_text('{"kind": "continuous"}')  # without checksums, as rows change
    return place


@pytest.fixture(params=["inline", "prefect"])
def engine(request):
    if request.param == "prefect":
        request.getfixturevalue("server")
    return request.param


def shorten(path):
    path.write_text("\n".join(path.read_text().splitlines()[:-50]) + "\n")


@pytest.mark.parametrize("loss", ["deleted", pytest.param("emptied", marks=pytest.mark.slow)])
def test_a_ledger_that_was_lost_is_refused(folder, engine, tmp_path, loss):
    learn(folder, engine=engine, out=tmp_path / "first", **PRIVATE)
    for ledger in (folder / ".fedbnsl").glob("*.ledger"):
        if loss == "deleted":
            ledger.unlink()
        else:
            with closing(sqlite3.connect(ledger)) as db, db:
                db.execute("DELETE FROM charges")
    with pytest.raises(
        BadInput, match=r"round 1 of run .* is missing in the privacy ledger.*nothing is released without it"
    ):
        learn(folder, engine=engine, out=tmp_path / "second", **PRIVATE)


def test_what_one_engine_spent_the_other_may_not_spend_again(server, folder, tmp_path):
    learn(folder, engine="inline", **PRIVATE)
    with pytest.raises(BadInput, match="above the budget of 4"):
        learn(folder, engine="prefect", out=tmp_path / "second", **PRIVATE)
    for ledger in (folder / ".fedbnsl").glob("*.ledger"):
        ledger.unlink()
    with pytest.raises(BadInput, match="is missing in the privacy ledger"):
        learn(folder, engine="prefect", out=tmp_path / "third", **PRIVATE)


@pytest.mark.parametrize("options", [{"algorithm": "fed-sparse"}, {"algorithm": "dp-covariance", "epsilon": 3.0}])
def test_rows_that_change_half_way_end_the_run(folder, engine, tmp_path, options):
    def change(progress):
        if progress.round.number == 1:
            shorten(folder / "silo-2.csv")

    settings = LearnSettings(data=str(folder), out=str(tmp_path / "out"), name="half", **options)
    if engine == "inline":
        data = read_folder(folder)
        job = job_inline(settings, "run", data)
        with pytest.raises(BadInput, match=CHANGED):
            run_inline(job, data, (change,), silo_files(folder))
    else:
        with pytest.raises(BadInput, match=CHANGED):
            learn_flow(RunContext((change,)))(settings)
        assert not (tmp_path / "out" / "structure.csv").exists()


def test_an_interrupted_private_run_has_spent_and_leaves_no_key(folder):
    def interrupt(progress):
        raise KeyboardInterrupt

    data = read_folder(folder)
    settings = LearnSettings(data=str(folder), **PRIVATE)
    with pytest.raises(KeyboardInterrupt):
        run_inline(job_inline(settings, "run", data), data, (interrupt,), silo_files(folder))
    for ledger in (folder / ".fedbnsl").glob("*.ledger"):
        with closing(sqlite3.connect(ledger)) as db:
            assert db.execute("SELECT number, length(key) FROM charges").fetchall() == [(1, 0)]
    with pytest.raises(BadInput, match="above the budget of 4"):
        learn(folder, **{**PRIVATE, "epsilon": 3.9})


def test_without_an_epsilon_inline_writes_nothing_beside_the_rows(folder):
    (folder / ".fedbnsl").write_text("no folder can be made here")
    assert learn(folder, algorithm="secure-sum").metrics["edges"] >= 0
    (folder / ".fedbnsl").unlink()
    learn(folder, algorithm="fed-sparse", secure=True)
    assert not (folder / ".fedbnsl").exists()
    with pytest.raises(BadInput):
        learn(folder / "none", **PRIVATE)


def test_inline_parses_each_file_once(folder, monkeypatch):
    from fedbnsl.data.folder import text

    parsed = []
    read = text.TextFile.batches
    monkeypatch.setattr(
        text.TextFile, "batches", lambda file, *names: parsed.append(file.path.name) or read(file, *names)
    )
    learn(folder, algorithm="fed-sparse")
    assert sorted(parsed) == ["silo-1.csv", "silo-2.csv", "silo-3.csv"]


@pytest.fixture
def mixed(tmp_path):
    """Silos of three forms: a file, Parquet parts, and a query; and how each gets 50 rows more."""
    data = homogeneous(variables=4, silos=3, rows=300, seed=3)
    names, place = list(data.schema.variables), tmp_path / "rows"
    frames = [pd.DataFrame(data.tables[silo], columns=names) for silo in data.schema.silos]
    place.mkdir()
    frames[0].to_csv(place / "file.csv", index=False)
    (place / "parts").mkdir()
    frames[1].to_parquet(place / "parts" / "p1.parquet")
    database = tmp_path / "rows.db"
    with closing(sqlite3.connect(database)) as db:
        frames[2].to_sql("t", db, index=False)
    (place / "query.sql").write_text(f"-- sqlite:///{database}\nSELECT * FROM t ORDER BY rowid\n")
    more = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 4)), columns=names)

    def grow(silo):
        if silo == "file":
            more.to_csv(place / "file.csv", mode="a", header=False, index=False)
        elif silo == "parts":
            more.to_parquet(place / "parts" / "p2.parquet")
        else:
            with closing(sqlite3.connect(database)) as db:
                more.to_sql("t", db, index=False, if_exists="append")

    return place, grow


@pytest.mark.slow(60)
def test_a_federation_that_stays_up_learns_from_the_rows_that_are_there(server, mixed, tmp_path):
    place, grow = mixed
    with owners_of(silo_files(place), tmp_path / "federation") as owners:

        def learned(name):
            settings = LearnSettings(
                data=str(owners.file.parent),
                federation=str(owners.file),
                algorithm="secure-sum",
                out=str(tmp_path / name),
            )
            return learn_flow(RunContext())(settings).result

        for done, silo in enumerate(("file", "parts", "query")):
            before = learned(f"before {silo}")
            assert sum(before.schema.rows.values()) == 900 + 50 * done
            grow(silo)
            after = learned(f"after {silo}")
            assert after.schema.rows[silo] == 350
            data = read_folder(place)
            settings = LearnSettings(data=str(place), algorithm="secure-sum")
            fresh = run_inline(job_inline(settings, "fresh", data), data)
            assert after.structure.weights.tobytes() == fresh.structure.weights.tobytes()
            assert after.structure.weights.tobytes() != before.structure.weights.tobytes()
