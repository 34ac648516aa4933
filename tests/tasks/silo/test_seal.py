"""Seals recognise equal rows under any file name, and reveal nothing about the rows to others."""

import hashlib
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import fingerprint as module
from fedbnsl.data.folder import formats
from fedbnsl.data.folder.fingerprint import rows_digest
from fedbnsl.tasks.silo.seals import seal


def write(path: Path, text: str = "x,y\n1,2\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def query(
    folder: Path, rows: list[tuple[object, ...]], name: str = "a.sql", comment: str = "", columns: str = "x, y"
) -> Path:
    database = folder / "rows.db"
    with sqlite3.connect(database) as db:
        db.execute("DROP TABLE IF EXISTS t")
        db.execute("CREATE TABLE t (x, y)")
        db.executemany("INSERT INTO t VALUES (?, ?)", rows)
    db.close()
    return write(folder / name, f"-- sqlite:///{database}\nSELECT {columns} FROM t ORDER BY rowid{comment}\n")


class TestDigest:
    def test_content_counts_and_the_name_does_not(self, tmp_path):
        one = rows_digest(write(tmp_path / "a.csv"))
        assert rows_digest(write(tmp_path / "b.csv")) == one
        assert rows_digest(write(tmp_path / "a.csv", "x,y\n1,3\n")) != one

    def test_is_blake2b_of_a_file_longer_than_a_block(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "BLOCK_BYTES", 3)
        text = "x,y\n1,2\n"
        assert rows_digest(write(tmp_path / "a.csv", text)) == hashlib.blake2b(text.encode(), digest_size=32).digest()

    def test_an_old_file_is_read_once(self, tmp_path):
        path = write(tmp_path / "a.csv")
        time.sleep(formats.FINE_CLOCK_SECONDS)
        before = rows_digest(path), module._file_digest.cache_info().hits
        assert (rows_digest(path), module._file_digest.cache_info().hits) == (before[0], before[1] + 1)

    def test_a_file_changed_just_now_is_read_again(self, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "file_stamp", lambda name, status: (name,))  # both changes within one tick
        path = write(tmp_path / "a.csv")
        before = rows_digest(path)
        path.write_text("x,y\n1,3\n")
        assert rows_digest(path) != before

    def test_of_parts(self, tmp_path):
        folder = write(tmp_path / "parts" / "p1.parquet", "1").parent
        write(folder / "p2.parquet", "2")
        before = rows_digest(folder)
        write(folder / ".fedbnsl" / "secret", "not of the rows")
        assert rows_digest(folder) == before
        write(folder / "p2.parquet", "3")
        assert rows_digest(folder) != before

    def test_of_a_query_are_its_rows(self, tmp_path):
        before = rows_digest(query(tmp_path, [(1, "u"), (2.5, None)]))
        assert rows_digest(query(tmp_path, [(1, "u"), (2.5, None)], "b.sql", " -- the same")) == before
        assert rows_digest(query(tmp_path, [(1, "u"), (2.5, "u")])) != before
        assert rows_digest(query(tmp_path, [(1, "u"), (2, None)])) != before

    def test_of_a_query_are_the_names_of_its_columns(self, tmp_path):
        before = rows_digest(query(tmp_path, [(1, 2.5)]))
        assert rows_digest(query(tmp_path, [(1, 2.5)], columns="x, y AS z")) != before
        assert rows_digest(query(tmp_path, [(1, 2.5)], columns="x AS y, y AS x")) != before

    def test_unreadable(self, tmp_path):
        with pytest.raises(BadInput, match=r"gone\.csv: cannot be read"):
            rows_digest(tmp_path / "gone.csv")


class TestSeal:
    def test_same_rows_same_context(self, tmp_path):
        a, b = write(tmp_path / "a.csv"), write(tmp_path / "b.csv")
        assert seal(a, "run 1") == seal(b, "run 1")
        assert seal(a, "run 1") != seal(a, "run 2")
        assert seal(a, "run 1") != seal(write(tmp_path / "c.csv", "x,y\n1,3\n"), "run 1")
        assert len(seal(a, "run 1")) == 64

    def test_needs_the_secret(self, tmp_path):
        """The same rows at another owner have another seal, so a seal cannot be computed from rows."""
        one, other = write(tmp_path / "one" / "a.csv"), write(tmp_path / "other" / "a.csv")
        assert seal(one, "run") != seal(other, "run")

    def test_only_the_owner_reads_the_secret(self, tmp_path):
        seal(write(tmp_path / "a.csv"), "run")
        folder = tmp_path / ".fedbnsl"
        assert [path.name for path in folder.iterdir()] == ["secret"]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600

    def test_an_open_folder_is_closed(self, tmp_path):
        (tmp_path / ".fedbnsl").mkdir(mode=0o755)
        seal(write(tmp_path / "a.csv"), "run")
        assert stat.S_IMODE((tmp_path / ".fedbnsl").stat().st_mode) == 0o700

    def test_a_link_leads_to_the_rows(self, tmp_path):
        rows = write(tmp_path / "real" / "a.csv")
        link = tmp_path / "links" / "b.csv"
        link.parent.mkdir()
        link.symlink_to(rows)
        assert seal(link, "run") == seal(rows, "run")
        assert not (tmp_path / "links" / ".fedbnsl").exists()

    def test_another_process_made_the_secret_first(self, tmp_path, monkeypatch):
        path = write(tmp_path / "a.csv")
        first = seal(path, "run")
        monkeypatch.setattr(Path, "exists", lambda self: False)
        assert seal(path, "run") == first

    def test_a_damaged_secret(self, tmp_path):
        path = write(tmp_path / "a.csv")
        seal(path, "run")
        (tmp_path / ".fedbnsl" / "secret").write_bytes(b"short")
        with pytest.raises(BadInput, match="damaged: a silo's secret has 32 bytes, not 5"):
            seal(path, "run")
