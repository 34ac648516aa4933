"""Tables read in passes and in memory give the same profile, the same rows and the same errors."""

import sys
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import pool
from fedbnsl.data.folder import batches
from fedbnsl.data.folder import table as silo_table
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.folder import read_folder, read_schema, silo_files
from fedbnsl.data.folder.query import QuerySource
from fedbnsl.data.folder.table import open_table

NOTHING = Declared()


@pytest.fixture
def small(monkeypatch):
    """Everything is read in passes, a few rows at a time."""
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
    for module, name in ((batches, "MAX_BATCH_ROWS"), (batches, "MIN_BATCH_ROWS"), (silo_table, "MIN_CHUNK_ROWS")):
        monkeypatch.setattr(module, name, 3)
    monkeypatch.setattr(batches, "BATCH_CELLS", 1)
    monkeypatch.setattr(silo_table, "CHUNK_CELLS", 1)


def frame(seed: int, rows: int = 60) -> pd.DataFrame:
    """A table as owners have them: numbers, codes, words, empty cells, ids, a constant."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "id": np.arange(1, rows + 1),
            "size": rng.normal(170, 10, rows),
            "count": rng.integers(0, 100, rows),
            "code": rng.integers(0, 3, rows),
            "word": rng.choice(["no", "yes", "Yes", "may be"], rows),
            "text": [f"note {i}" for i in range(rows)],
            "same": np.full(rows, 7.5),
        }
    )
    made["size"] = made["size"].mask(rng.random(rows) < 0.2)
    made["word"] = made["word"].mask(rng.random(rows) < 0.2)
    return made.astype({"text": object})


def as_parts(folder, made: pd.DataFrame, name: str = "parts"):
    path = folder / name
    path.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(made)), 3)):
        made.iloc[part].to_parquet(path / f"part-{number}.parquet", index=False)
    return path


def as_query(folder, made: pd.DataFrame):
    url = f"sqlite:///{folder / 'owner.db'}"
    made.to_sql("patients", create_engine(url), index=False)
    path = folder / "query.sql"
    path.write_text(f"-- {url}\nSELECT * FROM patients ORDER BY id;\n")
    return path


def as_csv(folder, made: pd.DataFrame):
    made.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def as_duckdb(folder, made: pd.DataFrame):
    with duckdb.connect(str(folder / "owner.duckdb")) as connection:
        connection.register("made", made)
        connection.sql("CREATE TABLE patients AS SELECT * FROM made")
    path = folder / "query.sql"
    path.write_text(f"-- duckdb:///{folder / 'owner.duckdb'}\nSELECT * FROM patients ORDER BY id;\n")
    return path


WRITTEN = {"parts": as_parts, "query": as_query, "duckdb": as_duckdb, "csv": as_csv}
EXACT = ["empty", "numbers", "words", "whole", "labels", "distinct", "number_like", "kinds_of_words", "zeros", "apart"]
EXACT += ["unique", "consecutive", "spaced", "odd"]


@pytest.mark.parametrize("form", WRITTEN)
@pytest.mark.parametrize("seed", range(100, 103))
def test_the_profile_and_the_rows_are_those_of_the_table_in_memory(small, tmp_path, form, seed):
    made = frame(seed)
    made.to_parquet(tmp_path / "whole.parquet", index=False)
    whole = open_table(tmp_path / "whole.parquet")
    table = open_table(WRITTEN[form](tmp_path, made), NOTHING)
    assert table.streamed
    one, other = whole.profile(), table.profile()
    assert other.rows == one.rows == 60
    assert other.variables == one.variables
    for name in one.variables:
        for fact in EXACT:
            if (name, fact) == ("text", "unique"):
                continue  # whether many words are all different is not found out in one pass
            assert getattr(other.columns[name], fact) == getattr(one.columns[name], fact), (name, fact)
        if one.columns[name].size is not None:
            assert other.columns[name].size == pytest.approx(one.columns[name].size, abs=0.11)
    levels = {"word": ("may be", "no", "yes"), "code": ("0", "1", "2")}
    schema = Schema(("word", "size", "code", "count"), {"a": 60}, "mixed", levels, aside=dict.fromkeys(made, "why"))
    schema = replace(schema, aside={name: "" for name in made if name not in schema.variables})
    rows = list(table.view(schema, "a"))
    assert len(rows) > 3
    assert np.array_equal(np.concatenate(rows), whole.view(schema, "a").array(), equal_nan=True)


@pytest.mark.parametrize("form", WRITTEN)
def test_codes_of_discrete_data_and_complete_rows(small, tmp_path, form):
    made = frame(104)[["id", "word", "code"]]
    path = WRITTEN[form](tmp_path, made)
    levels = {"code": ("0", "1", "2"), "word": ("may be", "no", "yes")}
    there = int(made["word"].notna().sum())
    said = Declared(reading=Reading(missing="complete-rows"), complete=("word", "code"))
    profile = open_table(path, said).profile()
    assert profile.rows == there
    assert profile.columns["word"].empty == 0
    for complete, count in ((False, 60), (True, there)):
        schema = Schema(("code", "word"), {"a": count}, "discrete", levels, complete_rows=complete)
        rows = np.concatenate(list(open_table(path, said).view(schema, "a")))
        assert rows.dtype == np.int16
        assert len(rows) == count
        assert ((rows < 0).sum() == 0) == complete


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 3))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_the_rows_do_not_depend_on_how_many_are_read_at_once(tmp_path_factory, monkeypatch, read, handed, seed):
    folder = tmp_path_factory.mktemp("any")
    made = frame(seed)[["size", "count"]].fillna(0.0)
    for module, name, size in (
        (batches, "MAX_BATCH_ROWS", read),
        (batches, "MIN_BATCH_ROWS", 1),
        (silo_table, "MIN_CHUNK_ROWS", handed),
    ):
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(silo_table, "CHUNK_CELLS", 1)
    schema = Schema(("size", "count"), {"a": 60})
    rows = list(open_table(as_parts(folder, made), NOTHING).view(schema, "a"))
    assert np.array_equal(np.concatenate(rows), made.to_numpy())
    assert max(map(len, rows)) <= min(read, handed)


def test_a_table_is_read_in_passes_only_if_it_is_large_or_in_parts(tmp_path, monkeypatch):
    made = frame(105)
    files = [as_csv(tmp_path, made), tmp_path / "one.parquet"]
    made.to_parquet(files[1], index=False)
    parts, query = as_parts(tmp_path, made), as_query(tmp_path, made)
    assert [open_table(path).streamed for path in (*files, parts, query)] == [False, False, True, False]
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 8 * made.size - 1)
    assert open_table(files[1]).streamed
    assert open_table(query).streamed
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 8 * made.size)
    assert not open_table(files[1]).streamed
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", files[0].stat().st_size - 1)
    assert open_table(files[0]).streamed


def test_a_folder_with_parts_a_query_and_a_file_is_one_data_set(small, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    as_parts(folder, frame(106), "a")
    frame(107).to_csv(folder / "b.csv", index=False)
    as_query(folder, frame(108)).rename(folder / "c.sql")
    (folder / ".notes").mkdir()
    assert list(silo_files(folder)) == ["a", "b", "c"]
    data = read_folder(folder)
    assert data.schema == read_schema(folder)
    assert data.schema.streamed == ("a", "b", "c")
    assert data.schema.kind == "mixed"
    assert set(data.schema.aside) == {"id", "text", "same"}
    assert {silo: table.shape for silo, table in data.tables.items()} == dict.fromkeys("abc", (60, 4))
    with pytest.raises(BadInput, match="silo 'a' reads its rows in passes"):
        pool(data)


BAD = {
    "word among numbers": (
        frame(1)[["size"]].assign(x=["1"] * 59 + ["one"]),
        Declared("continuous"),
        "part-2.parquet: row 20, column 'x': 'one' is not a number",
    ),
    "level": (
        frame(1)[["word"]],
        Declared(levels={"word": ("no", "yes")}),
        "column 'word': '.*' is not one of the levels",
    ),
    "infinite": (
        frame(1)[["count"]].assign(x=[np.inf] * 60),
        NOTHING,
        "part-0.parquet: row 1, column 'x': inf is not finite",
    ),
    "refused gap": (
        frame(1)[["count", "size"]],
        Declared(reading=Reading(missing="refuse"), complete=("size",)),
        "row .*column 'size': the cell is empty, and --missing refuse",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_line(small, tmp_path, case):
    made, said, line = BAD[case]
    with pytest.raises(BadInput, match=line) as refused:
        open_table(as_parts(tmp_path, made), said).profile()
    assert "\n" not in str(refused.value)


def test_parts_with_other_columns_and_a_changed_table_are_refused(small, tmp_path):
    path = as_parts(tmp_path, frame(109)[["size", "count"]])
    table = open_table(path, NOTHING)
    with pytest.raises(BadInput, match="it has 60 rows, not 59 as when the run began"):
        list(table.view(Schema(("size",), {"a": 59}), "a"))
    frame(109)[["size"]].to_parquet(path / "part-9.parquet")
    with pytest.raises(BadInput, match=r"part-9.parquet: column 'count' is missing; part-0.parquet has it"):
        open_table(path, NOTHING).profile()
    (path / "part-9.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(BadInput, match=r"part-9.parquet: not a readable parquet file"):
        open_table(path, NOTHING).profile()


def test_a_query_that_cannot_be_run_is_refused_and_says_what_is_lacking(tmp_path, monkeypatch):
    path = tmp_path / "a.sql"

    def said(text):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"a\.sql: ") as refused:
            open_table(path, NOTHING).profile()
        return str(refused.value)

    assert "line 1 names no database" in said("SELECT 1")
    assert "there is no query below line 1" in said("-- sqlite://")
    assert "no such table: none" in said("-- sqlite://\nSELECT * FROM none")
    assert "line 1" in said("-- nodatabase://x\nSELECT 1")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "needs the package duckdb: pip install 'fedbnsl[sql]'" in said("-- duckdb:///x.duckdb\nSELECT 1")


def test_a_query_may_give_values_of_several_types_in_one_column(small, tmp_path):
    url = f"sqlite:///{tmp_path / 'odd.db'}"
    with create_engine(url).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x, y)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 'a:b'), ('two', NULL), (3.5, '%')")
    path = tmp_path / "a.sql"
    path.write_text(f"-- {url}\nSELECT x, y FROM t WHERE y IS NULL OR y <> ':z'")
    profile = open_table(path, NOTHING).profile()
    assert (profile.columns["x"].numbers, profile.columns["x"].words) == (2, 1)
    assert (profile.columns["y"].empty, profile.columns["y"].labels) == (1, ("%", "a:b"))


def test_memory_does_not_grow_with_the_rows_of_a_file(tmp_path):
    import pyarrow as pa

    def most(rows):
        rng = np.random.default_rng(0)
        path = tmp_path / str(rows)
        path.mkdir()
        for part in range(rows // 50_000):
            made = pd.DataFrame(rng.normal(size=(50_000, 8)), columns=list("abcdefgh"))
            made.to_parquet(path / f"{part:03}.parquet", index=False)
        table = open_table(path, NOTHING)
        found = table.profile()
        before = pa.total_allocated_bytes()
        grown = 0
        for _ in table.view(Schema(found.variables, {"a": rows}), "a"):
            grown = max(grown, pa.total_allocated_bytes() - before)
        return grown

    few, many = most(100_000), most(500_000)
    assert many < 1.2 * few + 1e6


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".csv.xz"])
def test_declared_marks_are_empty_in_rows_read_in_passes(tmp_path, small, ending):
    made = frame(3)[["size", "count"]].fillna({"size": 99.0})
    write = {".csv": made.to_csv, ".parquet": made.to_parquet, ".csv.xz": made.to_csv}[ending]
    write(tmp_path / f"a{ending}", index=False)
    (tmp_path / "about.json").write_text('{"missing": {"size": ["99"]}, "kind": "continuous"}')
    data = read_folder(tmp_path)
    assert data.schema.streamed == ("a",)
    read = np.concatenate([*data.tables["a"]])
    np.testing.assert_array_equal(np.isnan(read[:, 0]), made["size"] == 99.0)
    assert data.schema.empty["a"][0] == np.isnan(read[:, 0]).sum() > 0


def test_a_query_of_comments_alone_is_one_line(tmp_path):
    duckdb.connect(str(tmp_path / "owner.duckdb")).close()
    path = tmp_path / "clinic.sql"
    path.write_text(f"-- duckdb:///{tmp_path / 'owner.duckdb'}\n-- nothing yet\n")
    with pytest.raises(BadInput, match=r"clinic\.sql: there is no statement below line 1"):
        list(QuerySource(path).batches(("a",)))
