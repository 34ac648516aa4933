"""Each error in a discrete folder gives one line that names file, line or row, column and value."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import read_folder, read_schema, write_folder
from fedbnsl.data.folder.joint_columns import OR_JOIN as JOIN

GOOD = "x,y\nred,1\nblue,2\n"
DECLARE = "declare its levels in about.json if this is intended"


def message_of(folder, read=read_folder):
    with pytest.raises(BadInput) as caught:
        read(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{folder}/", "").replace(str(folder), "FOLDER")


CELLS = {
    "several lines": ('x,y\nred,1\n"blue\ngreen",2\n', "line 4, column 'x': 'blue\\ngreen' has a control character"),
    "row too short": ("x,y\nred,1\nblue\n", "line 3: 1 cell, but the header names 2 columns"),
    "row too long": ("x,y\nred,1\nblue,2,3\n", "line 3: 3 cells, but the header names 2 columns"),
    "open quote": ('x,y\nred,1\n"blue,2\n', "line 3: a quotation mark is never closed"),
    "no rows": ("x,y\n", "no rows"),
    "empty file": ("", "the file is empty"),
    "name twice": (
        "x,x\nred,1\nblue,2\n",
        "line 1: columns 1 and 2 have the same name 'x': rename one, or leave both out with --ignore x",
    ),
    "column missing": (
        "x\nred\nblue\n",
        "column 'y' is missing; a.csv has it: --ignore y leaves it out everywhere, " + JOIN,
    ),
    "column too many": (
        "x,y,z\nred,1,2\nblue,2,2\n",
        "column 'z' is unexpected; a.csv does not have it: --ignore z leaves it out, " + JOIN,
    ),
}


@pytest.mark.parametrize("fault", CELLS)
def test_a_fault_of_a_csv_file(tmp_path, fault):
    content, message = CELLS[fault]
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text(content)
    found = message_of(tmp_path)
    assert found == f"b.csv: {message}"
    assert message_of(tmp_path, read_schema) == found


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"x": ["red"], "y": [4]}, "only one row; at least two are needed"),
    ],
)
def test_a_fault_of_a_parquet_file(tmp_path, frame, message):
    pd.DataFrame(frame).to_parquet(tmp_path / "a.parquet")
    assert message_of(tmp_path) == f"a.parquet: {message}"


def test_nothing_is_left_to_learn_from(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\nred,one\nred,one\n")
    (tmp_path / "b.csv").write_text("x,y\nred,one\nred,one\n")
    why = "'x' (constant: every cell is 'red'), 'y' (constant: every cell is 'one')"
    message = f"FOLDER: no column is left to learn from: {why}"
    assert message_of(tmp_path) == message == message_of(tmp_path, read_schema)


def test_a_continuous_column_where_about_says_discrete(tmp_path):
    (tmp_path / "about.json").write_text('{"kind": "discrete"}')
    (tmp_path / "a.csv").write_text("x,y\n1,0.1\n2,0.7\n")
    assert message_of(tmp_path) == (
        f"a.csv: line 2, column 'y': '0.1' is a fraction: a continuous column in discrete data; {DECLARE}"
    )


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"levels": {"x": ["red", "green"]}}, "a.csv: line 3, column 'x': 'blue' is not one of the levels red, green"),
        (
            {"levels": {"x": [f"l{i}" for i in range(9)]}},
            "a.csv: line 2, column 'x': 'red' is not one of the levels l0, l1, l2, l3, l4, l5, l6, l7, …",
        ),
        ({"levels": {"z": ["a", "b"]}}, "FOLDER: about.json: levels: 'z' is not a column of the data"),
        (
            {"levels": {"x": "red"}},
            'about.json: levels: \'x\': \'red\' is not a list, such as {"smokes": ["no", "yes"]}',
        ),
        (
            {"levels": {"x": []}},
            'about.json: levels: \'x\': \'[]\' is not long enough, such as {"smokes": ["no", "yes"]}',
        ),
        ({"levels": {"x": ["a", "a"]}}, "about.json: levels of 'x': 'a' is declared twice"),
        ({"levels": {"x": ["a", ""]}}, "about.json: levels of 'x': '' cannot be a label"),
        ({"levels": {"x": ["a", " b"]}}, "about.json: levels of 'x': ' b' cannot be a label"),
        (
            {"levels": {"x": ["a", 0.5]}},
            'about.json: levels: \'x\': \'0.5\' is not text or a whole number, such as {"smokes": ["no", "yes"]}',
        ),
        (
            {"levels": {"x": ["a", True]}},
            'about.json: levels: \'x\': \'True\' is not text or a whole number, such as {"smokes": ["no", "yes"]}',
        ),
        ({"levels": ["a"]}, 'about.json: levels: "[\'a\']" is not a JSON object, such as {"smokes": ["no", "yes"]}'),
        (
            {"kind": "continuous", "levels": {"x": ["a", "b"]}},
            "about.json: levels: continuous data have no levels; is the kind discrete?",
        ),
        ({"kind": "continuous"}, "a.csv: line 2, column 'x': 'red' is not a number"),
    ],
)
def test_a_fault_of_what_is_declared(tmp_path, about, message):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "about.json").write_text(json.dumps(about))
    assert message_of(tmp_path) == message


@pytest.mark.parametrize(
    ("levels", "table", "message"),
    [
        (("a", "b"), [[0], [2]], "set/s.csv: row 2, column 'x': 2 is not a code of 2 levels"),
        (("a", "b"), [[-2], [1]], "set/s.csv: row 1, column 'x': -2 is not a code of 2 levels"),
        (("a", "b"), [[-1], [-1]], "set: column 'x': empty in every row"),
        (("a", "b"), [[1]], "set/s.csv: only one row; at least two are needed"),
        (("a", "b "), [[0], [1]], "set: levels of 'x': 'b ' cannot be a label"),
        (("a", ""), [[0], [1]], "set: levels of 'x': '' cannot be a label"),
        (("a", "a"), [[0], [1]], "set: levels of 'x': 'a' is declared twice"),
        (("a", "b\nc"), [[0], [1]], "set: levels of 'x': 'b\\nc' cannot be a label"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, levels, table, message):
    data = FederatedData(Schema(("x",), {"s": len(table)}, "discrete", {"x": levels}), {"s": np.array(table)})
    with pytest.raises(BadInput) as caught:
        write_folder(tmp_path / "set", data)
    assert str(caught.value) == f"{tmp_path}/{message}"
    assert list(tmp_path.iterdir()) == []
