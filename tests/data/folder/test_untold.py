"""With an ε, a file that cannot be read is named, and nothing of what is in it."""

import re
from pathlib import Path

import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Declared, Reading
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.tasks.silo.rows import describe_rows

FAULTS = {
    "empty cell": ("x,y\n1,2\n3,\n5,6\n", {}),
    "no level": ("x,y\nno,2.5\nyes,3.5\nmaybe77,4.5\n", {"levels": {"x": ("no", "yes")}}),
    "no number": ("x,y\n1,2\n3,77x\n5,6\n", {"columns": {"x": "continuous", "y": "continuous"}}),
    "infinite": ("x,y\n1,2\n3,1e999\n5,6\n", {"columns": {"x": "continuous", "y": "continuous"}}),
    "long line": ("x,y\n1,2\n3,4,77\n5,6\n", {}),
    "constant series": ("time,x\n1,77\n2,77\n3,77\n", {"kind": "time-series"}),
    "irregular times": ("time,x\n1,3\n2,4\n77.3,5\n", {"kind": "time-series"}),
}


def write(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.csv").write_text(text)
    return folder / "a.csv"


@pytest.mark.parametrize(("text", "said"), FAULTS.values(), ids=FAULTS)
def test_the_file_alone_is_named(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(BadInput) as refused:
        describe_rows("a", path, Declared(**said, reading=Reading(private=True)))
    assert str(refused.value).startswith(f"{path}: it has empty cells, or lines or cells that cannot be read")
    assert not re.search("77|maybe|line [0-9]|row [0-9]|column", str(refused.value).replace(str(path), ""))


def test_without_an_epsilon_line_and_value_are(tmp_path):
    with pytest.raises(BadInput, match=r"a\.csv: line 3, column 'y': '77x' is not a number"):
        describe_rows("a", write(tmp_path, FAULTS["no number"][0]), Declared(**FAULTS["no number"][1]))


def test_a_folder_and_one_of_parts(tmp_path):
    write(tmp_path / "set", FAULTS["long line"][0])
    with pytest.raises(BadInput, match=r"a\.csv: it has empty cells, .*: `fedbnsl inspect` names them") as refused:
        read_folder(tmp_path / "set", Reading(private=True))
    assert "77" not in str(refused.value)
    parts = tmp_path / "parts"
    parts.mkdir()
    pd.DataFrame({"x": [1.0, float("inf")], "y": [1.0, 2.0]}).to_parquet(parts / "1.parquet")
    with pytest.raises(BadInput, match="parts: it has empty cells"):
        describe_rows("parts", parts, Declared(reading=Reading(private=True)))
    with pytest.raises(BadInput, match="inf is not finite"):
        describe_rows("parts", parts)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(BadInput, match=r"gone\.csv: "):
        describe_rows("a", tmp_path / "gone.csv", Declared(reading=Reading(private=True)))
