"""Runs with an ε: what is described and whether a table can be read depend on no cell, only on the table's shape."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading, declarations
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.private_table import LINES, ORDER_NOTE, PrivateSource
from fedbnsl.data.folder.profile import LARGEST

PRIVATE = Reading(private=True, learned_from=True)
NUMBERS = {"kind": "continuous"}


def written(folder, text, name="a.csv", about=None):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / "about.json").write_text(json.dumps(NUMBERS if about is None else about), encoding="utf-8")
    return folder


def rows(folder, silo="a"):
    data = read_folder(folder, PRIVATE)
    table = data.tables[silo]
    return table if isinstance(table, np.ndarray) else np.concatenate([*table])


CELLS = {
    "": 0.0,
    "word": 0.0,
    "NA": 0.0,
    "nan": 0.0,
    "1.5": 1.5,
    "+2": 2.0,
    "5.": 5.0,
    " 7 ": 7.0,
    "-1e-3": -1e-3,
    "1,5": 1.0,  # two cells: the line is cut
    "1e999": LARGEST,
    "-inf": 0.0,
    "-1e300": -LARGEST,
    "0x10": 0.0,
    "١": 0.0,
}


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_is_a_number(tmp_path, cell):
    folder = written(tmp_path / "data", f"x\n0.5\n{cell}\n-3\n")
    assert rows(folder)[:, 0].tolist() == [0.5, CELLS[cell], -3.0]


@pytest.mark.parametrize("line", ["", "1", "1,2,3", '1,"2', '"', '1,"2\n', "\x00,1", "é,ü"])
def test_every_line_is_a_row(tmp_path, line):
    text = f"x,y\n1,2\n{line.rstrip(chr(10))}\n3,4\n"
    table = rows(written(tmp_path / "data", text))
    assert table.shape == (3, 2)
    assert table[[0, 2]].tolist() == [[1, 2], [3, 4]]


def test_bytes_that_are_no_text_are_read(tmp_path):
    folder = written(tmp_path / "data", "")
    (folder / "a.csv").write_bytes(b"x,y\n1,2\n\xff\xfe,\xe9\n3,4\n")
    assert rows(folder).tolist() == [[1, 2], [0, 0], [3, 4]]


def test_a_quoted_cell_may_hold_the_separator(tmp_path):
    assert rows(written(tmp_path / "data", 'x,y\n"1.5",2\n3,4\n')).tolist() == [[1.5, 2], [3, 4]]


def test_more_lines_than_are_parsed_at_once(tmp_path):
    values = np.arange(2.0 * LINES + 3)
    text = "x\n" + "".join(f"{value}\n" for value in values)
    folder = written(tmp_path / "data", text)
    assert rows(folder)[:, 0].tolist() == values.tolist()
    with gzip.open(folder / "a.csv.gz", "wt") as file:
        file.write(text)
    (folder / "a.csv").unlink()
    assert rows(folder)[:, 0].tolist() == values.tolist()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_the_marks_at_the_start_of_a_file_tell_its_encoding(tmp_path, encoding):
    folder = written(tmp_path / "data", "")
    (folder / "a.csv").write_bytes("ä,y\n1,2\n3,4\n".encode(encoding))
    assert read_folder(folder, PRIVATE).schema.variables == ("ä", "y")
    assert rows(folder).tolist() == [[1, 2], [3, 4]]


def test_labels_that_are_no_level_count_as_the_first(tmp_path):
    about = {"kind": "discrete", "levels": {"x": ["no", "yes"], "y": ["1", "2"]}}
    text = "x,y\nyes,2\nperhaps,1\n,\nYES,2.0\n"
    assert rows(written(tmp_path / "data", text, about=about)).tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]


def test_mixed_tables(tmp_path):
    about = {"kind": "mixed", "levels": {"x": ["no", "yes"]}, "columns": {"y": "continuous"}}
    folder = written(tmp_path / "data", "x,y\nyes,2\nno,word\n", about=about)
    assert read_folder(folder, PRIVATE).schema.kind == "mixed"
    assert rows(folder).tolist() == [[1, 2], [0, 0]]


def test_parquet_and_text_are_the_same(tmp_path):
    frame = pd.DataFrame({"x": [1.5, np.nan, np.inf], "y": ["2", None, "word"], "z": [True, False, True]})
    folder = written(tmp_path / "data", "")
    (folder / "a.csv").unlink()
    frame.to_parquet(folder / "a.parquet", index=False)
    assert rows(folder).tolist() == [[1.5, 2, 0], [0, 0, 0], [LARGEST, 0, 0]]


def test_a_mark_of_missing_values_is_an_empty_cell(tmp_path):
    about = {"kind": "continuous", "missing": {"x": ["-9", "unknown"]}}
    assert rows(written(tmp_path / "data", "x\n-9\n-9.0\n8\n", about=about))[:, 0].tolist() == [0, 0, 8]


def test_decimal_commas_are_declared(tmp_path):
    about = {"kind": "continuous", "separator": ";", "decimal": ","}
    assert rows(written(tmp_path / "data", "x;y\n1,5;2\n-3;,5\n", about=about)).tolist() == [[1.5, 2], [-3, 0.5]]


class TestSeries:
    def test_rows_stay_as_they_are_in_the_file(self, tmp_path):
        """Times are data: if rows were sorted by them or split at missing ones, one cell could move others."""
        about = {"kind": "time-series"}
        folder = written(tmp_path / "data", "time,x\n3,1\n1,2\nword,3\n9,4\n", about=about)
        data = read_folder(folder, PRIVATE)
        assert data.schema.stretches == {"a": (4,)}
        assert data.notes == (ORDER_NOTE,)
        assert rows(folder)[:, 0].tolist() == [1, 2, 3, 4]

    def test_lengths_are_declared(self, tmp_path):
        about = {"kind": "time-series", "stretches": {"a": [3, 1]}}
        folder = written(tmp_path / "data", "series,time,x\n1,3,1\n1,1,2\n1,2,3\n2,9,4\n", about=about)
        assert read_folder(folder, PRIVATE).schema.stretches == {"a": (3, 1)}

    def test_lengths_must_add_up(self, tmp_path):
        about = {"kind": "time-series", "stretches": {"a": [3, 2]}}
        folder = written(tmp_path / "data", "time,x\n3,1\n1,2\n2,3\n9,4\n", about=about)
        with pytest.raises(BadInput, match="stretches of 'a' add up to 5 rows, not 4"):
            read_folder(folder, PRIVATE)


class TestWhatMustBeDeclared:
    def test_the_kind(self, tmp_path):
        with pytest.raises(BadInput, match=r"column 'x': a run with an ε takes the kind of every column"):
            read_folder(written(tmp_path / "data", "x,y\n1,2\n3,4\n", about={}), PRIVATE)

    def test_the_levels(self, tmp_path):
        with pytest.raises(BadInput, match="column 'x': its levels must be declared"):
            read_folder(written(tmp_path / "data", "x,y\na,b\nb,a\n", about={"kind": "discrete"}), PRIVATE)

    def test_the_separator_of_a_header_that_two_divide(self, tmp_path):
        with pytest.raises(BadInput, match="separated by commas or semicolons"):
            read_folder(written(tmp_path / "data", "a,b;c\n1,2;3\n"), PRIVATE)


def test_a_description_has_names_and_rows_only(tmp_path):
    folder = written(tmp_path / "data", "x,y\n1,2\n3,word\n")
    said = declarations(NUMBERS, PRIVATE)
    other = written(tmp_path / "other", "x,y\n1.5,\n3,4\n")
    assert PrivateSource(folder / "a.csv", said).profile() == PrivateSource(other / "a.csv", said).profile()


MIXED = {"kind": "mixed", "levels": {"x": ("no", "yes")}, "columns": {"y": "continuous"}}
FAULTS = {
    "empty cell": ("x,y\n1,2\n3,\n5,6\n", NUMBERS),
    "no level": (
        "x,y\nno,2.5\nyes,3.5\nmaybe77,4.5\n",
        MIXED,
    ),
    "no number": ("x,y\n1,2\n3,77x\n5,6\n", NUMBERS),
    "infinite": ("x,y\n1,2\n3,1e999\n5,6\n", NUMBERS),
    "long line": ("x,y\n1,2\n3,4,77\n5,6\n", NUMBERS),
    "constant series": ("time,x\n1,77\n2,77\n3,77\n", {"kind": "time-series"}),
    "irregular times": ("time,x\n1,3\n2,4\n77.3,5\n", {"kind": "time-series"}),
}


@pytest.mark.parametrize(("text", "about"), FAULTS.values(), ids=FAULTS)
def test_what_other_runs_refuse_is_read(tmp_path, text, about):
    assert len(rows(written(tmp_path / "data", text, about=about))) == 3


def test_a_database_that_fails_is_named_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where SQLite creates the empty database
    query = "-- sqlite:///gone.db\nSELECT x FROM secrets77\n"
    written(tmp_path, query, "a.sql")
    with pytest.raises(BadInput, match=r"a\.sql: its rows cannot be read") as refused:
        PrivateSource(tmp_path / "a.sql", declarations(NUMBERS, PRIVATE)).profile()
    assert "secrets77" not in str(refused.value)
    assert str(tmp_path) in str(refused.value)
