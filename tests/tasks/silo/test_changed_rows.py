"""A long-lived silo learns from its current rows, and a run stops if rows change during it."""

import os
import time
from dataclasses import replace

import pandas as pd
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import Fingerprint
from fedbnsl.data.folder.fingerprint import fingerprint
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.silo.source import FileSource, Parsed
from tests.tasks.broadcasts import first_broadcast

CHANGED = "silo silo-1: its rows have changed since the run began; start a new run"


def in_place(path):
    """Overwrite one digit in the file itself: the same size, and the time of modification set back."""
    status, text = path.stat(), bytearray(path.read_bytes())
    place = text.rindex(b".") + 1
    text[place] = ord("1") if text[place] != ord("1") else ord("2")
    with path.open("r+b") as opened:
        opened.write(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(path):
    """Put another file in its place, with as many rows."""
    lines = path.read_text().splitlines()
    beside = path.with_suffix(".new")
    beside.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    beside.replace(path)


def appended(path):
    """Add rows at the end."""
    line = path.read_text().splitlines()[-1]
    with path.open("a") as opened:
        opened.write(f"{line}\n{line}\n")


def shortened(path):
    """Take rows away from the end."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-20]) + "\n")


CHANGES = (in_place, replaced, appended, shortened)


@pytest.fixture(params=["durable", "in memory"])
def owners(hosted, request):
    """Owners whose services keep journals on disk, as over Dask, or in memory, as inline without an ε."""
    found = hosted()
    if request.param == "in memory":
        found.services = {
            silo: SiloService(silo, FileSource(silo, path, durable=False)) for silo, path in found.files.items()
        }
    return found


def learn(owners, terms, run_id):
    """The reply to round 1 of a run on the rows that silo-1 describes now."""
    service = owners.services["silo-1"]
    rows = dict(terms.schema.rows, **{"silo-1": service.describe().rows})
    now = replace(terms, run_id=run_id, schema=replace(terms.schema, rows=rows))
    return service.solve(now, 1, first_broadcast(now))


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_the_next_run_is_of_the_rows_that_are_there(owners, name, change):
    terms = owners.terms(name)
    before = learn(owners, terms, "first")
    change(owners.files["silo-1"])
    after = learn(owners, terms, "second")
    fresh = SiloService("silo-1", owners.files["silo-1"])
    owners.services["silo-1"] = fresh
    assert after == learn(owners, terms, "third")
    assert after != before


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("settled", [False, True], ids=["at once", "later"])
def test_a_run_whose_rows_change_half_way_ends(owners, change, settled):
    terms = owners.terms("notears-admm")
    service, message = owners.services["silo-1"], first_broadcast(terms)
    if settled:
        time.sleep(0.2)
    service.solve(terms, 1, message)
    change(owners.files["silo-1"])
    for _ in range(2):
        with pytest.raises(BadInput, match=CHANGED):
            service.solve(terms, 2, message)
    with pytest.raises(BadInput, match=CHANGED):
        service.solve(replace(terms, run_id="run-parameters", step_of="run"), 1, message)
    owners.services["silo-2"].solve(terms, 2, owners.services["silo-2"].solve(terms, 1, message) and message)


def test_rows_that_change_while_the_service_is_down_end_the_run(hosted):
    owners = hosted()
    terms = owners.terms("notears-admm")
    message = first_broadcast(terms)
    owners.services["silo-1"].solve(terms, 1, message)
    owners.restart()
    in_place(owners.files["silo-1"])
    with pytest.raises(BadInput, match=CHANGED):
        owners.services["silo-1"].solve(terms, 2, message)


def test_a_file_that_is_touched_has_the_same_rows(hosted):
    owners = hosted()
    terms = owners.terms("notears-admm")
    service, message = owners.services["silo-1"], first_broadcast(terms)
    service.solve(terms, 1, message)
    os.utime(owners.files["silo-1"])
    service.solve(terms, 2, message)


def test_rows_that_change_after_they_were_described(owners):
    terms = owners.terms("notears-admm")
    service = owners.services["silo-1"]
    service.describe()
    replaced(owners.files["silo-1"])
    with pytest.raises(BadInput, match=CHANGED):
        service.solve(terms, 1, first_broadcast(terms))


def test_a_table_that_was_parsed_before_is_not_read_again_unless_its_file_changed(hosted, monkeypatch):
    owners = hosted()
    terms = owners.terms("secure-sum")
    read = []
    monkeypatch.setattr("fedbnsl.tasks.silo.source.read_rows", lambda *given: read.append(given))
    path, table = owners.files["silo-1"], owners.data.tables["silo-1"]
    source = FileSource("silo-1", path, durable=False, parsed=Parsed(table, fingerprint(path)))
    assert source.read("silo-1", terms.schema, terms.declared) is table
    replaced(path)
    source.read("silo-1", terms.schema, terms.declared)
    assert len(read) == 1


def test_a_file_that_was_parsed_when_just_written_is_the_same_later(hosted):
    owners = hosted()
    terms = owners.terms("notears-admm")
    path, table = owners.files["silo-1"], owners.data.tables["silo-1"]
    os.utime(path)
    parsed = Parsed(table, fingerprint(path))
    assert not parsed.fingerprint.settled
    time.sleep(0.2)
    service = SiloService("silo-1", FileSource("silo-1", path, durable=False, parsed=parsed))
    for number in (1, 2):
        service.solve(terms, number, first_broadcast(terms))
    service.solve(replace(terms, run_id="another"), 1, first_broadcast(terms))


class TestFingerprint:
    def test_stamps_are_enough_once_they_have_settled(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x\n1\n2\n")
        assert fingerprint(path).digest, "just written: only the content tells"
        time.sleep(0.2)
        before = fingerprint(path)
        assert (before.settled, before.digest) == (True, b"")
        assert fingerprint(path, before) is before

    def test_of_parts(self, tmp_path):
        folder = tmp_path / "parts"
        folder.mkdir()
        pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(folder / "p1.parquet")
        before = fingerprint(folder)
        assert before.matches(fingerprint(folder, before))
        pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(folder / "p2.parquet")
        assert not before.matches(fingerprint(folder, before))

    def test_without_a_digest_a_stamp_decides(self):
        one, other = Fingerprint((("a", 1),), settled=True), Fingerprint((("a", 2),), settled=True)
        assert one.matches(one)
        assert not one.matches(other)
        assert not Fingerprint((), settled=False).matches(Fingerprint((), settled=False))


def test_the_algorithm_of_a_run_is_built_once(hosted, monkeypatch):
    owners = hosted()
    known, built = registry.entry("notears-admm"), []
    factory = replace(known.maker(), build=lambda settings: built.append(settings) or known.build(settings))
    monkeypatch.setitem(registry.ALGORITHMS, "notears-admm", replace(known, maker=lambda: factory))
    terms = owners.terms("notears-admm", {"rho1": "17.0"})
    message = first_broadcast(terms)
    for service in owners.services.values():
        service.solve(terms, 1, message)
        service.solve(terms, 2, message)
    assert len(built) == 1
