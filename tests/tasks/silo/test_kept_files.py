"""Files beside a silo's rows: who may read them, which outlive a run, and the effects of damage or loss."""

import hashlib
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Cost, Promise, Release, ReplaceOne
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Budget, ChargeRequest, Overspent, total
from fedbnsl.algorithms.privacy.zcdp import budget
from fedbnsl.tasks.silo.journal import Journal
from fedbnsl.tasks.silo.ledger import FileLedger, ledger_of, reseal
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.silo.service import SiloService

DELTA = 1e-6


@pytest.fixture
def owners(hosted):
    return hosted(silos=2, rows=400)


@pytest.fixture
def terms(owners):
    return owners.terms("dp-covariance", {"epsilon": 4.0}, seed=7)


@pytest.fixture
def asked(owners):
    """The broadcasts of both rounds, as bytes."""
    algorithm = registry.build(registry.specify("dp-covariance", {"epsilon": 4.0}))
    server = algorithm.open_server(owners.data.schema)
    return [wire.encode(algorithm.broadcast(state)) for state in (server, replace(server, scales=np.ones(5)))]


def request(number=1, run="run", rho=0.01, limit=None):
    promise = Promise(1.0, DELTA, budget(1.0, DELTA, ReplaceOne), "from everyone")
    releases = (Release("a number", Cost(rho, ReplaceOne)),)
    budgets = (Budget(limit, DELTA),) if limit else ()
    return ChargeRequest(run, number, "binding", releases, promise, 1000, DELTA, budgets)


def charge(source: Path, silo: str, **asked) -> bytes:
    return ledger_of(source, silo).reserve(request(**asked), b"k" * 32)


def write(path: Path, text="x\n1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def spoil(path: Path, statement: str, *values) -> None:
    """Damage a database."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement, values)


class TestOwnersOnly:
    def test_folder_and_files(self, owners, terms, asked):
        owners.services["silo-1"].solve(terms, 1, asked[0])
        folder = owners.files["silo-1"].parent / ".fedbnsl"
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {"secret", "silo-1.ledger", "silo-1.sqlite", "silo-1.sqlite-wal"} <= set(found)
        assert set(found.values()) == {0o600}

    def test_what_was_open_is_closed(self, tmp_path):
        path = write(tmp_path / "a.csv")
        charge(path, "a")
        ledger = tmp_path / ".fedbnsl" / "a.ledger"
        ledger.chmod(0o644)
        ledger.parent.chmod(0o755)
        charge(path, "a", number=2)
        assert [stat.S_IMODE(one.stat().st_mode) for one in (ledger.parent, ledger)] == [0o700, 0o600]


class TestKeys:
    def test_of_a_finished_run_are_overwritten_and_its_charges_stay(self, tmp_path):
        path, keys = write(tmp_path / "a.csv"), [os.urandom(32) for _ in range(30)]
        ledger = ledger_of(path, "a")
        for number, key in enumerate(keys, 1):
            ledger.reserve(request(number=number, rho=1e-4), key)
        ledger.reserve(request(run="another"), b"k" * 32)
        assert all(key in ledger.path.read_bytes() for key in keys)
        ledger.finish("run")
        assert not any(key in ledger.path.read_bytes() for key in keys)
        assert [charge.key for charge in ledger.charges()] == [b""] * 30 + [b"k" * 32]
        with pytest.raises(Overspent, match="round 1 of run run is over, and its noise erased: start a new run"):
            ledger.reserve(request(rho=1e-4), keys[0])

    def test_are_erased_when_a_service_finishes(self, owners, terms, asked):
        service = owners.services["silo-1"]
        service.solve(terms, 1, asked[0])
        service.finish("run")
        (kept,) = ledger_of(owners.files["silo-1"], "silo-1").charges()
        assert kept.key == b""
        with pytest.raises(Overspent, match="is over"):
            service.solve(terms, 1, asked[0])

    def test_neither_key_nor_binding_leaves(self, owners, terms, asked):
        service = owners.services["silo-1"]
        service.solve(terms, 1, asked[0])
        (told,) = service.charges()
        assert (told.key, told.binding) == (b"", "")
        (kept,) = ledger_of(owners.files["silo-1"], "silo-1").charges()
        assert len(kept.key) == 32
        assert kept.binding


class TestBound:
    """A charge covers one question with one set of settings and one table; repeating the question is free."""

    @pytest.fixture
    def crashed(self, owners, terms, asked, monkeypatch):
        """Charge round 1 without an answer, and return the service as it is after the crash."""
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "commit", lambda *args, **more: (_ for _ in ()).throw(OSError("crash")))
            with pytest.raises(Exception, match="crash"):
                owners.services["silo-1"].solve(terms, 1, asked[0])
        owners.restart()
        return owners.services["silo-1"]

    def test_the_same_is_answered(self, crashed, terms, asked):
        crashed.solve(terms, 1, asked[0])
        assert len(crashed.charges()) == 1

    def test_other_settings(self, crashed, terms, asked):
        for params in ({"epsilon": 2.0}, {"epsilon": 4.0, "clip": 9.0}):
            other = replace(terms, spec=registry.pack(registry.specify("dp-covariance", params)))
            with pytest.raises(NotAllowed, match="the run began under other terms"):
                crashed.solve(other, 1, asked[0])

    def test_another_schema(self, crashed, terms, asked):
        rows = dict(terms.schema.rows, **{"silo-2": 399})
        with pytest.raises(NotAllowed, match="the run began under other terms"):
            crashed.solve(replace(terms, schema=replace(terms.schema, rows=rows)), 1, asked[0])

    def test_one_changed_row(self, owners, crashed, terms, asked):
        path = owners.files["silo-1"]
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-1], ",".join(["9.5"] * 5)]) + "\n")
        with pytest.raises(BadInput, match="silo-1: its rows have changed since the run began"):
            crashed.solve(terms, 1, asked[0])

    def test_rows_that_change_while_the_service_has_them_in_memory(self, owners, crashed, terms, asked):
        """The run ends; the next run uses the rows at that time, and their seal."""
        crashed.solve(terms, 1, asked[0])
        path = owners.files["silo-1"]
        lines = path.read_text().splitlines()
        path.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
        read = []
        original = SiloService._table
        try:
            SiloService._table = lambda self, terms: read.append(original(self, terms)) or read[-1]
            with pytest.raises(BadInput, match="silo-1: its rows have changed since the run began"):
                crashed.solve(terms, 2, asked[1])
            assert not read
            crashed.solve(replace(terms, run_id="next"), 1, asked[0])
        finally:
            SiloService._table = original
        np.testing.assert_allclose(read[-1][0], [float(cell) for cell in lines[-1].split(",")])

    def test_an_answered_round_with_other_settings_or_rows(self, owners, crashed, terms, asked):
        first = crashed.solve(terms, 1, asked[0])
        spec = registry.pack(registry.specify("dp-covariance", {"epsilon": 2.0}))
        with pytest.raises(BadInput, match="the run began under other terms"):
            crashed.solve(replace(terms, spec=spec), 1, asked[0])
        path = owners.files["silo-1"]
        kept = path.read_text()
        path.write_text(kept.replace("\n", "\n ", 2))
        with pytest.raises(BadInput, match="its rows have changed since the run began"):
            crashed.solve(terms, 1, asked[0])
        path.write_text(kept)
        assert crashed.solve(terms, 1, asked[0]) == first


class TestTheJournalKnowsBetter:
    @pytest.mark.parametrize("loss", ["deleted", "emptied"])
    @pytest.mark.parametrize("when", ["between rounds", "after the run"])
    def test_a_ledger_that_lacks_a_charge_is_refused(self, owners, terms, asked, loss, when):
        service = owners.services["silo-1"]
        service.solve(terms, 1, asked[0])
        if when == "after the run":
            service.finish("run")
        ledger = ledger_of(owners.files["silo-1"], "silo-1").path
        if loss == "deleted":
            ledger.unlink()
        else:
            spoil(ledger, "DELETE FROM charges")
        owners.restart()
        service, other = owners.services["silo-1"], replace(terms, run_id="another")
        for refused in (
            service.charges,
            lambda: service.solve(terms, 2, asked[1]),
            lambda: service.admit(other, False),  # before any silo has spent anything
            lambda: service.solve(other, 1, asked[0]),
        ):
            with pytest.raises(
                BadInput, match="round 1 of run run was charged but is missing in the privacy ledger: restore the file"
            ):
                refused()

    def test_so_does_the_process_that_charged(self, tmp_path):
        ledger = ledger_of(write(tmp_path / "a.csv"), "a")
        ledger.reserve(request(), b"k" * 32)
        ledger.path.unlink()
        for refused in (ledger.charges, lambda: ledger.reserve(request(number=2), b"k" * 32)):
            with pytest.raises(BadInput, match="round 1 of run run was charged but is missing"):
                refused()


class TestLedgersFollowTheRows:
    LIMIT = 1.2  # at most one run of ε = 1

    @pytest.fixture
    def rows(self, tmp_path):
        """Rows on which one run has been charged, so another would exceed the budget."""
        path = write(tmp_path / "rows" / "a.csv")
        charge(path, "a", limit=self.LIMIT)
        with pytest.raises(Overspent):
            charge(path, "a", run="another", rho=0.02, limit=self.LIMIT)
        return path

    def refused(self, source: Path, silo: str) -> bool:
        try:
            charge(source, silo, run="another", rho=0.02, limit=self.LIMIT)
        except Overspent:
            return True
        return False

    def test_a_renamed_file(self, rows):
        assert self.refused(rows.rename(rows.with_name("b.csv")), "b")

    def test_a_copy_beside_it(self, rows):
        copy = shutil.copy(rows, rows.with_name("b.csv"))
        assert self.refused(Path(copy), "b")
        assert total(Cost(one.rho, ReplaceOne) for one in ledger_of(Path(copy), "b").charges()).rho == 0.01

    def test_a_link_elsewhere(self, rows, tmp_path):
        link = tmp_path / "elsewhere" / "a.csv"
        link.parent.mkdir()
        link.symlink_to(rows)
        assert self.refused(link, "a")
        assert self.refused(link, "b")

    def test_a_changed_file_of_the_same_name(self, rows):
        write(rows, "x\n2\n")
        assert self.refused(rows, "a")

    def test_what_resets_it_as_the_documents_say(self, rows, tmp_path):
        """Other rows under another name, and a copy in another folder."""
        assert not self.refused(write(rows.with_name("b.csv"), "x\n2\n"), "b")
        assert not self.refused(write(tmp_path / "other" / "a.csv"), "a")

    def test_two_silos_with_the_same_rows_both_count(self, tmp_path):
        """In one run, a record that is in both silos is released twice."""
        one, two = write(tmp_path / "a.csv"), write(tmp_path / "b.csv")
        charge(one, "a", limit=2.0)
        with pytest.raises(Overspent, match=r"above the budget of 1\.2"):
            charge(two, "b", limit=self.LIMIT)
        charge(two, "b", limit=2.0)
        assert [len(ledger_of(one, "a").charges(run)) for run in ("run", None)] == [1, 2]


class TestDamage:
    FLIP = "UPDATE {0} SET {1} = CAST(substr({1}, 1, 4) || x'00010203' || substr({1}, 9) AS BLOB)"

    def test_of_a_state(self, owners):
        terms = owners.terms("fed-sparse", {"rounds": 5})
        algorithm = terms.algorithm()
        broadcast = wire.encode(algorithm.broadcast(algorithm.open_server(terms.schema)))
        service = owners.services["silo-1"]
        service.solve(terms, 1, broadcast)
        path = owners.files["silo-1"].parent / ".fedbnsl" / "silo-1.sqlite"
        owners.restart()
        spoil(path, self.FLIP.format("standings", "state"))
        service = owners.services["silo-1"]
        with pytest.raises(BadInput, match=r"silo-1\.sqlite: the journal is damaged, in round 1 of run run"):
            service.solve(terms, 2, broadcast)

    @pytest.mark.parametrize(
        "statement",
        [FLIP.format("answers", "reply"), "UPDATE answers SET binding = 'c'", "UPDATE answers SET round = 2"],
    )
    def test_of_a_reply(self, tmp_path, statement):
        path = tmp_path / "a.sqlite"
        with Journal(path) as journal:
            journal.commit("run", 1, bytes(16), b"state", "b")
            spoil(path, statement)
            with pytest.raises(BadInput, match=r"a\.sqlite: the journal is damaged, in round [12] of run run: start"):
                journal.reply("run", 2 if "round" in statement else 1, "c" if "binding" in statement else "b")

    @pytest.mark.parametrize("change", ["rho = rho / 2", "key = x'00'", "rows = 'other'", "delta = 0.5"])
    def test_of_a_charge(self, tmp_path, change):
        ledger = ledger_of(write(tmp_path / "a.csv"), "a")
        ledger.reserve(request(), b"k" * 32)
        spoil(ledger.path, f"UPDATE charges SET {change}")
        for refused in (ledger.charges, lambda: ledger.reserve(request(number=2), b"k" * 32)):
            with pytest.raises(BadInput, match="the privacy ledger is damaged, in round 1 of run run"):
                refused()


def test_a_ledger_of_an_earlier_version_counts_once_its_owner_has_sealed_it(tmp_path):
    """Earlier checksums had no key, so anyone who could write the file could forge a valid charge."""
    path = tmp_path / "a.ledger"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE charges (run TEXT, number INTEGER, digest TEXT NOT NULL, what TEXT NOT NULL, "
            "rho REAL NOT NULL, delta REAL NOT NULL, broken TEXT NOT NULL, key BLOB NOT NULL, "
            "PRIMARY KEY (run, number))"
        )
        db.execute("INSERT INTO charges VALUES ('old', 1, 'd', 'what', 0.03, 1e-6, '', x'00')")
    ledger = FileLedger(path)
    with pytest.raises(BadInput, match="sealed with `fedbnsl silo reseal`"):
        ledger.charges()
    assert reseal(path) == 1
    assert reseal(path) == 0
    assert [charge.rho for charge in ledger.charges()] == [0.03]
    with pytest.raises(Overspent, match=r"above the budget of 1\.2"):
        ledger.reserve(request(limit=1.2), b"k" * 32)
    ledger.reserve(request(limit=3.0), b"k" * 32)
    assert len(ledger.charges()) == 2


def test_a_checksum_without_the_secret_is_a_forgery(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = FileLedger(path)
    ledger.reserve(request(limit=3.0), b"k" * 32)
    with closing(sqlite3.connect(path)) as db, db:
        row = db.execute("SELECT run, number, digest, what, rho, delta, broken, key, rows FROM charges").fetchone()
        forged = (*row[:4], 0.0, *row[5:])
        checksum = hashlib.blake2b(wire.encode(forged), digest_size=16).hexdigest()
        db.execute("UPDATE charges SET rho = 0.0, checksum = ?", (checksum,))
    with pytest.raises(BadInput, match="the privacy ledger is damaged, in round 1"):
        ledger.charges()
