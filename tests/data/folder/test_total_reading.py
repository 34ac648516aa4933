"""In a run with an ε no cell decides whether it succeeds: every cell of every kind of source can be read."""

import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.data.folder.about import Reading, declarations
from fedbnsl.data.folder.batches import numbers_in
from fedbnsl.data.folder.table import open_table

ABOUT = {"columns": {"x": "continuous", "word": "discrete"}, "levels": {"word": ["a", "b"]}, "ignore": ["note"]}
SCHEMA = Schema(("x", "word"), {"a": 3}, "mixed", {"word": ("a", "b")}, streamed=("a",))

LONG = '"' + "x" * 140_000  # an open quotation mark in a cell that is longer than a csv reader takes
CELLS = {
    "a long note": ["1", "b", LONG],
    "a NUL": ["\0", "\0", "\0"],
    "no UTF-8": [b"\xff\xfe", b"\xff", b"\x80"],
    "beyond 64 bits": [str(2**70), "b", "9" * 4000],
    "a date": ["2024-02-30", "10000-01-01", ""],
}
ARROW = {
    "whole numbers above 2^53": pa.array([1, 2**53 + 1, -(2**63)], pa.int64()),
    "unsigned": pa.array([1, 2**64 - 1, 0], pa.uint64()),
    "a decimal": pa.array([10**30, 1, 2], pa.decimal128(38, 2)),
    "text that is not UTF-8": pa.Array.from_buffers(
        pa.string(), 3, pa.array([b"\xff\xfe", b"a", b"\x80"], pa.binary()).buffers()
    ),
    "dates beyond the year 9999": pa.array([10**12, 0, -(10**12)], pa.int64()).cast(pa.timestamp("s")),
    "bytes": pa.array([b"\xff", b"", b"b"], pa.binary()),
    "truth": pa.array([True, None, False]),
    "lists": pa.array([[1], [], None], pa.list_(pa.int64())),
}


def rows_at(path):
    return np.concatenate([*open_table(path, declarations(ABOUT, Reading(private=True))).rows(SCHEMA, "a")])


def require_total(path):
    rows = rows_at(path)
    assert rows.shape == (3, 2)
    assert np.isfinite(rows).all()
    assert set(rows[:, 1]) <= {0.0, 1.0}


@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_of_a_text_file(tmp_path, cells, at):
    rows = [[b"1", b"a", b"n"], [b"2", b"b", b"n"], [b"3", b"a", b"n"]]
    rows[1][at] = cells[at] if isinstance(cells[at], bytes) else cells[at].encode()
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,word,note\n" + b"\n".join(b",".join(row) for row in rows) + b"\n")
    require_total(path)


@pytest.mark.parametrize("column", ARROW.values(), ids=ARROW)
@pytest.mark.parametrize("name", ["x", "word", "note"])
def test_of_parquet(tmp_path, column, name):
    columns = {"x": pa.array([1.0, 2.0, 3.0]), "word": pa.array(["a", "b", "a"]), "note": pa.array(["n"] * 3)}
    parquet.write_table(pa.table(columns | {name: column}), tmp_path / "a.parquet")
    require_total(tmp_path / "a.parquet")


@pytest.mark.parametrize("cell", ["CAST(x'fffe' AS TEXT)", "x'ff'", "9e999", "9223372036854775807", "NULL"])
@pytest.mark.parametrize("name", ["x", "word", "note"])
def test_of_a_query(tmp_path, cell, name):
    database = tmp_path / "rows.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table p(x, word, note)")
        connection.executemany("insert into p values (?, ?, ?)", [(1, "a", "n"), (2, "b", "n"), (3, "a", "n")])
        connection.execute(f"update p set {name} = {cell} where x = 2")
    (tmp_path / "a.sql").write_text(f"-- sqlite:///{database}\nSELECT x, word, note FROM p\n")
    require_total(tmp_path / "a.sql")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.int64(), pa.float32(), pa.decimal128(5, 2)], ids=str)
def test_numbers_are_those_of_the_cells_and_empty_cells_are_nan(kind):
    cells = [7, None, 3, 100, None, 1]
    column = pa.chunked_array([pa.array(cells, kind)[1:], pa.array(cells[:3], kind), pa.array([], kind)])
    np.testing.assert_array_equal(numbers_in(column), [np.nan, 3, 100, np.nan, 1, 7, np.nan, 3])
