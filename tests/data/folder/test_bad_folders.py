"""Each error in a folder gives one line that names file, line or row, column and value."""

import gzip

import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Declared
from fedbnsl.data.folder.folder import read_folder, read_schema, silo_files, write_folder
from fedbnsl.data.folder.formats import LISTED
from fedbnsl.data.folder.joint_columns import OR_JOIN as JOIN
from fedbnsl.data.folder.table import open_table
from fedbnsl.data.generators.linear import homogeneous

TWICE = ": rename one, or leave both out with --ignore x"

GOOD = "x,y\n1,2\n3,5\n"
NUMBERS = Declared("continuous")


def read_alone(path):
    return open_table(path, NUMBERS).profile()


def corrected(column):
    """How the message about a word among numbers goes on."""
    return (
        f"; correct it, leave the column out with --ignore {column}, or, if it has labels, declare "
        f'{{"columns": {{"{column}": "discrete"}}}} in about.json'
    )


def message_of(folder, read=read_folder):
    with pytest.raises(BadInput) as caught:
        read(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "").replace(str(folder), "FOLDER")


CELLS = {
    "text": ("x,y\n1,2\n3,abc\n4,5\n", "line 3, column 'y': 'abc' is not a number" + corrected("y")),
    "comma for a point": ('x,y\n1,2\n3,"4,5"\n', "line 3, column 'y': '4,5' is not a number" + corrected("y")),
    "python's underscore": ("x,y\n1,2\n1_000,3\n", "line 3, column 'x': '1_000' is not a number" + corrected("x")),
    "digits of another script": ("x,y\n1,2\n١,3\n", "line 3, column 'x': '١' is not a number" + corrected("x")),
    "truth value": ("x,y\n1,2\n3,True\n", "line 3, column 'y': 'True' is not a number" + corrected("y")),
    "infinite": ("x,y\n1,2\n3,-inf\n", "line 3, column 'y': '-inf' is not finite" + corrected("y")),
    "too large": ("x,y\n1,2\n3,1e400\n", "line 3, column 'y': '1e400' is not finite" + corrected("y")),
    "after an empty line": ("x,y\n1,2\n\n\n3,abc\n", "line 5, column 'y': 'abc' is not a number" + corrected("y")),
    "with windows' line ends": (
        "x,y\r\n1,2\r\n3,abc\r\n",
        "line 3, column 'y': 'abc' is not a number" + corrected("y"),
    ),
    "long": ("x,y\n1,2\n3," + "z" * 99 + "\n", f"line 3, column 'y': '{'z' * 40}…' is not a number" + corrected("y")),
    "several lines": ('x,y\n1,2\n3,"4\n5"\n', "line 4, column 'y': '4\\n5' has a control character"),
    "open quote": ('x,y\n1,2\n3,"4\n5,6\n', "line 3: a quotation mark is never closed"),
    "open quote in the header": ('x,"y\n1,2\n', "line 1: a quotation mark is never closed"),
    "row numbers without a name": ("x,y\n0,1,2\n1,3,4\n", "line 2: 3 cells, but the header names 2 columns"),
    "row too short": ("x,y\n1,2\n3\n", "line 3: 1 cell, but the header names 2 columns"),
    "row too long": ("x,y\n1,2\n3,4,5\n", "line 3: 3 cells, but the header names 2 columns"),
    "all rows too long": ("x,y\n1,2,3\n3,4,5\n", "line 2: 3 cells, but the header names 2 columns"),
    "comma at the end": ("x,y\n1,2,\n3,4,\n", "line 2: 3 cells, but the header names 2 columns"),
    "no rows": ("x,y\n", "no rows"),
    "empty file": ("", "the file is empty"),
    "only empty lines": ("\n\n", "the file is empty"),
    "name twice": ("x,y,x\n1,2,3\n4,5,6\n", "line 1: columns 1 and 3 have the same name 'x'" + TWICE),
    "name twice but for a space": ("x,y, x\n1,2,3\n4,5,6\n", "line 1: columns 1 and 3 have the same name 'x'" + TWICE),
    "no name": ("x,,y\n0,2,1\n1,3,2\n", "line 1: column 2 has no name (if it is an index, write the table without it)"),
    "no header": ("0.5,2\n1,3\n4,5\n", "line 1: must name the columns, but has numbers, '0.5,2'"),
    "control character": ("x,y\x07\n1,2\n3,4\n", "line 1: column 2 has a name with a control character, 'y\\x07'"),
}


@pytest.mark.parametrize("fault", CELLS)
def test_a_fault_of_a_csv_file(tmp_path, fault):
    content, message = CELLS[fault]
    (tmp_path / "a.csv").write_bytes(GOOD.encode())
    (tmp_path / "b.csv").write_bytes(content.encode())
    found = message_of(tmp_path)
    assert found == f"b.csv: {message}"
    assert message_of(tmp_path, read_schema) == found


def test_blank_lines_are_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("\nx,y\n\n1,2\n  \n3,5\n\n")
    assert read_folder(tmp_path).tables["a"].tolist() == [[1, 2], [3, 5]]
    (tmp_path / "a.csv").write_text("x,y\n1,2\n2,4\n  \n3,5z\n")
    assert message_of(tmp_path) == "a.csv: line 5, column 'y': '5z' is not a number" + corrected("y")


def test_the_same_faults_in_a_packed_table(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n3,abc\n"))
    assert message_of(tmp_path / "t.csv.gz", read_alone) == "FOLDER: line 3, column 'y': 'abc' is not a number"
    (tmp_path / "t.csv.gz").write_bytes(b"no gzip at all")
    assert message_of(tmp_path / "t.csv.gz", read_alone).startswith("FOLDER: cannot be read: Not a gzipped file")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n3,4\n" * 99)[:40])
    assert message_of(tmp_path / "t.csv.gz", read_alone).startswith("FOLDER: cannot be read: ")


DECLARE = '; declare its encoding in about.json, such as {"encoding": "cp1252"}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x,y\n1,2\n\xc3\xa9,\xe9\n", "a.csv: line 3: byte 0xe9 is not UTF-8 text"),
        (b"x,\x81\n1,2\n3,4\n", "a.csv: line 1: byte 0x81 is not UTF-8 text"),
        (b"x,\xe9\n1,2\n3,\0\n", "a.csv: line 1: byte 0xe9 is not UTF-8 text"),
        (b"x,y\n\xc3\xa9,1\n" + b"1,2\n" * 9000 + b"3,\xe9\n", "a.csv: line 9003: byte 0xe9 is not UTF-8 text"),
    ],
)
def test_text_in_an_encoding_that_is_not_certain(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    assert message_of(tmp_path) == message + DECLARE


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"x": [1, 2, 3], "y": ["1", "two", "3"]}, "row 2, column 'y': 'two' is not a number" + corrected("y")),
        ({"x": [1, 2, 3], "y": [1.0, 2.0, float("inf")]}, "row 3, column 'y': inf is not finite"),
        ({"x": [1], "y": [4]}, "only one row; at least two are needed"),
        ({"x": [], "y": []}, "no rows"),
        ({"x": [1, 2], " x": [3, 4]}, "columns 1 and 2 have the same name 'x'" + TWICE),
    ],
)
def test_a_fault_of_a_parquet_file(tmp_path, frame, message):
    pd.DataFrame(frame).to_parquet(tmp_path / "a.parquet")
    assert message_of(tmp_path) == f"a.parquet: {message}"


def test_a_parquet_file_that_is_none(tmp_path):
    (tmp_path / "a.parquet").write_text("x,y\n1,2\n")
    assert message_of(tmp_path).startswith("a.parquet: not a readable parquet file: ")
    (tmp_path / "a.parquet").write_text("")
    assert message_of(tmp_path) == "a.parquet: the file is empty"


def test_silos_that_disagree_on_their_columns(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("y,z\n1,2\n3,4\n")
    assert (
        message_of(tmp_path)
        == "b.csv: column 'x' is missing; a.csv has it: --ignore x leaves it out everywhere, " + JOIN
    )
    (tmp_path / "b.csv").write_text("y,x,z\n1,2,3\n3,4,6\n")
    assert (
        message_of(tmp_path)
        == "b.csv: column 'z' is unexpected; a.csv does not have it: --ignore z leaves it out, " + JOIN
    )


def test_a_folder_that_is_none(tmp_path):
    assert message_of(tmp_path / "nowhere", silo_files) == "FOLDER: no such folder"
    (tmp_path / "file").write_text("")
    assert message_of(tmp_path / "file", silo_files) == (
        "FOLDER: not a folder with one file per silo: for one file with the rows of all silos, name the column "
        "with the silo of each row: --by COLUMN"
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "truth.csv").write_text("source,target\n")
    (tmp_path / "empty" / "notes.txt").write_text("")
    assert (
        message_of(tmp_path / "empty", silo_files)
        == f"FOLDER: no silo: no table besides truth.csv; a table is a file in {LISTED}"
    )
    assert message_of(tmp_path / "gone.csv", open_table) == "FOLDER: no such file"


def test_two_files_for_one_silo(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    pd.DataFrame({"x": [1, 2], "y": [3, 4]}).to_parquet(tmp_path / "a.parquet")
    assert message_of(tmp_path) == "FOLDER: a.csv and a.parquet both name the silo 'a'"


TRUTHS = {
    "unknown variable": ("source,target\nx,y\ny,z\n", "line 3, column 'target': 'z' is not a column of the data"),
    "self": ("source,target\nx,x\n", "line 2: an edge from 'x' to itself"),
    "twice": ("source,target\nx,y\n\nx, y\n", "line 4: the edge 'x' → 'y' is already on line 2"),
    "weight": ("source,target,weight\nx,y,much\n", "line 2, column 'weight': 'much' is not a number"),
    "no weight": ("source,target,weight\nx,y,\n", "line 2, column 'weight': the cell is empty"),
    "infinite weight": ("source,target,weight\nx,y,inf\n", "line 2, column 'weight': 'inf' is not finite"),
    "zero weight": (
        "source,target,weight\nx,y,0.0\n",
        "line 2, column 'weight': '0.0' is not a weight: omit an edge of weight 0",
    ),
    "lag": (
        "source,target,lag\nx,y,1\nx,y,1.5\n",
        "line 3, column 'lag': '1.5' is not a whole number of steps from 0 to 1000",
    ),
    "no target": (
        "source,weight\nx,1\n",
        "line 1: column 'target' is missing; a graph has source,target[,weight][,type][,lag]",
    ),
    "empty target": ("source,target\nx,\n", "line 2, column 'target': the cell is empty"),
    "another column": (
        "source,target,wieght\nx,y,1\n",
        "line 1: column 'wieght' is not one of source, target, weight, type, lag, weight:<silo>",
    ),
    "another silo": ("source,target,weight,weight:b\nx,y,1,1\n", "line 1: column 'weight:b': there is no silo 'b'"),
    "silo's weight": ("source,target,weight:a\nx,y,one\n", "line 2, column 'weight:a': 'one' is not a number"),
    "short row": ("source,target,weight\nx,y\n", "line 2: 2 cells, but the header names 3 columns"),
    "empty file": ("", "the file is empty"),
}


@pytest.mark.parametrize("fault", TRUTHS)
def test_a_fault_of_the_truth(tmp_path, fault):
    content, message = TRUTHS[fault]
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "truth.csv").write_text(content)
    assert message_of(tmp_path) == f"truth.csv: {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "line 1: not JSON: Expecting property name enclosed in double quotes"),
        ("[]", "not a JSON object with keys such as 'kind'"),
        ('{"kind": "audio"}', "kind: 'audio' is not 'continuous', 'discrete', 'mixed', 'time-series' or 'events'"),
        ('{"checksums": 3}', "checksums: '3' is not a JSON object"),
    ],
)
def test_a_fault_of_about(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "about.json").write_text(content)
    assert message_of(tmp_path) == f"about.json: {message}"


def test_files_that_are_not_those_that_were_made(tmp_path):
    folder = tmp_path / "set"
    write_folder(folder, homogeneous(2, 2, 3, seed=1))
    remedy = "if this is intended, delete 'checksums' from about.json"
    (folder / "silo-2.csv").write_text("x1,x2\n1,2\n3,5\n")
    assert message_of(folder) == f"silo-2.csv: changed since about.json was written; {remedy}"
    (folder / "silo-2.csv").unlink()
    assert message_of(folder) == f"silo-2.csv: no such file, but about.json names it; {remedy}"
    assert message_of(folder, read_schema) == f"silo-2.csv: no such file, but about.json names it; {remedy}"
    (folder / "about.json").write_text('{"kind": "continuous"}')
    assert read_folder(folder).schema.silos == ("silo-1",)


def test_a_file_that_was_not_there(tmp_path):
    folder = tmp_path / "set"
    write_folder(folder, homogeneous(2, 1, 3, seed=1))
    (folder / "new.csv").write_text("x1,x2\n1,2\n3,5\n")
    assert message_of(folder).startswith("new.csv: not there when about.json was written; ")
