"""Unusual files: each is read correctly, or refused with one line that says what to do."""

import gzip
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, read_schema

NUMBERS = [[1.5, 2.0], [3.25, -4.0], [0.5, 6.0]]
PLAIN = b"x,y\n1.5,2\n3.25,-4\n0.5,6\n"
LABELS = {"x": ("blue", "red"), "y": ("no", "yes")}
CODES = [[1, 1], [0, 0], [1, 1]]
WORDS = b"x,y\nred,yes\nblue,no\nred,yes\n"


def lines(*rows: str) -> bytes:
    return "".join(row + "\n" for row in rows).encode()


@dataclass(frozen=True)
class Case:
    """The files of a folder, and either the data that are read for silo `a` or the text of the error."""

    files: dict[str, Any]
    table: Any = None
    kind: str = "continuous"
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """words that must occur in the notes: exactly one note for each"""
    about: dict[str, Any] | None = None
    refused: str = ""


def many(header, row, count=40):
    return lines(header, *(row(i) for i in range(count)))


NAN = np.nan
VARIED = [0.5, 1.5, 0.25, 4.0]
CASES = {
    "semicolons": Case({"a.csv": b"x;y\n1.5;2\n3.25;-4\n0.5;6\n"}, NUMBERS),
    "semicolons and decimal commas": Case({"a.csv": b"x;y\n1,5;2\n3,25;-4\n0,5;6\n"}, NUMBERS),
    "semicolons, commas that may be thousands": Case(
        {"a.csv": b"x;y\n1,500;2\n3,250;4\n"},
        refused="a.csv: numbers such as '1,500' may have decimals or thousands; declare in about.json {\"decimal\"",
    ),
    "the same, declared": Case(
        {"a.csv": b"x;y\n1,500;2\n3,250;4\n"}, [[1.5, 2], [3.25, 4]], about={"decimal": ",", "separator": ";"}
    ),
    "points and commas": Case(
        {"a.csv": b"x;y\n1.5;2,5\n3.25;4\n0.5;6\n"}, refused="line 2, column 'y': '2,5' is not a number; correct it"
    ),
    "tabs": Case({"a.csv": b"x\ty\n1.5\t2\n3.25\t-4\n0.5\t6\n"}, NUMBERS),
    "tabs, called so": Case({"a.tsv": b"x\ty\n1.5\t2\n3.25\t-4\n0.5\t6\n"}, NUMBERS),
    "bars": Case({"a.csv": b"x|y\n1.5|2\n3.25|-4\n0.5|6\n"}, NUMBERS),
    "two separators": Case(
        {"a.csv": b"x;u,y;v\n1;2,3;4\n5;6,7;8\n"},
        refused="a.csv: its columns may be separated by commas or semicolons; declare it in about.json",
    ),
    "the same, declared to be one": Case(
        {"a.csv": b"x;u,y;v\nr;2,s;4\nq;6,t;8\nr;2,s;4\n"},
        [[1, 0], [0, 1], [1, 0]],
        "discrete",
        {"x;u": ("q;6", "r;2"), "y;v": ("s;4", "t;8")},
        about={"separator": ","},
    ),
    "byte order mark": Case({"a.csv": b"\xef\xbb\xbf" + PLAIN}, NUMBERS),
    "UTF-16": Case({"a.csv": PLAIN.decode().encode("utf-16")}, NUMBERS),
    "Latin letters of old": Case(
        {"a.csv": "x,y\nré,1.5\nmi,2.5\nré,3.5\n".encode("latin-1")},
        [[1, 1.5], [0, 2.5], [1, 3.5]],
        "mixed",
        {"x": ("mi", "ré")},
        notes=("a: it is read as cp1252",),
    ),
    "Latin letters of old, declared": Case(
        {"a.csv": "x,y\nré,1.5\nmi,2.5\nré,3.5\n".encode("latin-1")},
        [[1, 1.5], [0, 2.5], [1, 3.5]],
        "mixed",
        {"x": ("mi", "ré")},
        about={"encoding": "latin-1"},
    ),
    "one damaged letter": Case(
        {"a.csv": "x,y\nré,1\n".encode() + b"\xe9,2\n"},
        refused="a.csv: line 3: byte 0xe9 is not UTF-8 text; declare its enc",
    ),
    "line ends of Windows": Case({"a.csv": PLAIN.replace(b"\n", b"\r\n")}, NUMBERS),
    "line ends of old": Case({"a.csv": PLAIN.replace(b"\n", b"\r")}, NUMBERS),
    "quotes": Case({"a.csv": b'"x","y"\n"1.5","2"\n"3.25","-4"\n"0.5","6"\n'}, NUMBERS),
    "labels with commas and quotes": Case(
        {"a.csv": b'x,y\n"a,b",yes\n"say ""no""",no\n"a,b",yes\n'},
        [[0, 1], [1, 0], [0, 1]],
        "discrete",
        {"x": ("a,b", 'say "no"'), "y": ("no", "yes")},
    ),
    "ragged row": Case({"a.csv": b"x,y\n1,2\n3\n"}, refused="a.csv: line 3: 1 cell, but the header names 2 columns"),
    "ragged row after a gap": Case(
        {"a.csv": b"x,y\n0.5,\n3\n"}, refused="a.csv: line 3: 1 cell, but the header names 2 columns"
    ),
    "name twice": Case({"a.csv": b"x,x\n1,2\n3,4\n"}, refused="columns 1 and 2 have the same name 'x'"),
    "no name": Case({"a.csv": b"x,\n1,2\n3,4\n"}, refused="a.csv: line 1: column 2 has no name"),
    "separator at each end": Case(
        {"a.csv": b"x,y,,\n1.5,2,,\n3.25,-4,,\n0.5,6,,\n"},
        NUMBERS,
        notes=("a: 2 empty columns without a name are left out",),
    ),
    "blank lines": Case({"a.csv": b"\n\nx,y\n\n1.5,2\n   \n3.25,-4\n0.5,6\n\n\n"}, NUMBERS),
    "header alone": Case({"a.csv": b"x,y\n"}, refused="a.csv: no rows"),
    "nothing": Case({"a.csv": b""}, refused="a.csv: the file is empty"),
    "one row": Case({"a.csv": b"x,y\n1,2\n"}, refused="a.csv: only one row; at least two are needed"),
    "packed": Case({"a.csv.gz": gzip.compress(PLAIN)}, NUMBERS),
    "packed badly": Case({"a.csv.gz": b"x,y\n"}, refused="a.csv.gz: cannot be read: Not a gzipped file"),
    "row numbers": Case({"a.csv": many("n,x", lambda i: f"{i + 1},{i % 7 / 2}")}, aside=("n",)),
    "named ids": Case({"a.csv": many("patient_id,x", lambda i: f"{i * i + 5},{i % 7 / 2}")}, aside=("patient_id",)),
    "names": Case({"a.csv": many("who,x", lambda i: f"name{i},{i % 7 / 2}", 60)}, aside=("who",)),
    "dates": Case({"a.csv": many("day,x", lambda i: f"2020-01-{i % 28 + 1:02} {i:02}:00,{i / 2}", 60)}, aside=("day",)),
    "constant": Case({"a.csv": b"x,y\n1.5,2\n3.5,2.0\n2,2\n"}, [[1.5], [3.5], [2]], aside=("y",)),
    "constant in one silo": Case(
        {"a.csv": PLAIN, "b.csv": b"x,y\n0.5,3\n1.5,3\n"}, NUMBERS, notes=("y: every filled cell is '3' at b",)
    ),
    "nearly empty": Case({"a.csv": many("x,y", lambda i: f"{i / 4},{i if i < 3 else ''}")}, aside=("y",)),
    "empty": Case({"a.csv": many("x,y", lambda i: f"{i / 4},")}, aside=("y",)),
    "empty in one silo": Case(
        {"a.csv": PLAIN, "b.csv": b"x,y\n0.5,\n1.5,\n"}, NUMBERS, notes=("y: empty in every row of b",)
    ),
    "spellings of a label": Case(
        {"a.csv": b"x,y\nYes,0.5\nyes,1.5\n yes,0.25\nno,4\n"},
        [[0, 0.5], [0, 1.5], [0, 0.25], [1, 4]],
        "mixed",
        {"x": ("Yes", "no")},
        notes=("x: 'yes' counts as the level that differs only in", "spaces around some labels of x are ignored"),
    ),
    "spellings that are all there is": Case(
        {"a.csv": b"x,y\nAa,0.5\naa,1.5\nAA,0.25\nAa,4\n"},
        [[1, 0.5], [2, 1.5], [0, 0.25], [1, 4]],
        "mixed",
        {"x": ("AA", "Aa", "aa")},
    ),
    "marks of missing values": Case(
        {"a.csv": b"x,y\nNA,0.5\n1.5,?\n2.5,NaN\nnull,-9\n0.5,n/a\n"},
        [[NAN, 0.5], [1.5, NAN], [2.5, NAN], [NAN, -9], [0.5, NAN]],
        notes=("read as missing: x ('NA' over 20 %, 'null' over 20 %), y ('?' over 20 %",),
    ),
    "a mark of one's own": Case(
        {"a.csv": b"x,y\n-9,0.5\n1.5,-9\n2.5,3.5\n"},
        [[NAN, 0.5], [1.5, -9], [2.5, 3.5]],
        about={"missing": {"x": ["-9"]}},
    ),
    "missing among labels": Case(
        {"a.csv": b"x,y\nred,yes\n,no\nblue,?\nred,no\n"},
        [[1, 1], [-1, 0], [0, -1], [1, 0]],
        "discrete",
        LABELS,
        notes=("read as missing: y ('?' over 20 %)",),
    ),
    "truth values": Case(
        {"a.csv": b"x,y\ntrue,0.5\nfalse,1.5\ntrue,0.25\n"},
        [[1, 0.5], [0, 1.5], [1, 0.25]],
        "mixed",
        {"x": ("false", "true")},
    ),
    "thousands": Case(
        {"a.csv": b'x,y\n"1,234",2\n"3,456",4\n'},
        [[1234, 2], [3456, 4]],
        notes=("numbers with marks between thousands: x",),
    ),
    "powers of ten": Case({"a.csv": b"x,y\n15e-1,2\n3.25,-4\n.5,6e0\n"}, NUMBERS),
    "infinity": Case({"a.csv": b"x,y\n1.5,2\n3.25,inf\n0.5,6\n"}, refused="line 3, column 'y': 'inf' is not finite"),
    "percents": Case(
        {"a.csv": b"x,y\n1.5,2%\n3.25,4%\n"},
        [[1.5, 2], [3.25, 4]],
        notes=("numbers with their unit in the cells: y (%)",),
    ),
    "a typing error": Case(
        {"a.csv": b"x,y\n1.5,2\n3.25,4x\n2,7\n"},
        refused="line 3, column 'y': '4x' is not a number; correct it, leave the",
    ),
    "words and fractions in turn": Case(
        {"a.csv": b"x,y\n1.5,2\nlow,4\n2,7\n"},
        refused="line 3, column 'x': 'low' is not a number; correct it, leave the",
    ),
    "codes with an open end": Case(
        {"a.csv": many("x,y", lambda i: f"{i % 4 if i % 4 < 3 else '3+'},{i / 4}")},
        kind="mixed",
        levels={"x": ("0", "1", "2", "3+")},
    ),
    "codes beside fractions": Case(
        {"a.csv": many("x,y", lambda i: f"{i % 3},{i / 4}")},
        kind="mixed",
        levels={"x": ("0", "1", "2")},
        notes=("codes: few distinct integers in x are read as labels",),
    ),
    "codes that are none": Case(
        {"a.csv": many("x,y", lambda i: f"{i % 3},{i / 4}")}, about={"columns": {"x": "continuous"}}
    ),
    "codes alone": Case(
        {"a.csv": many("x,y", lambda i: f"{i % 3},{i % 4}")}, notes=("integers with few values: x, y are read as",)
    ),
    "codes alone, declared": Case(
        {"a.csv": many("x,y", lambda i: f"{i % 3},{i % 4}")},
        kind="mixed",
        levels={"x": ("0", "1", "2")},
        about={"columns": {"x": "discrete", "y": "continuous"}},
    ),
    "levels of one silo": Case(
        {"a.csv": WORDS, "b.csv": b"x,y\nred,yes\nblue,no\nred,perhaps\n"},
        [[1, 2], [0, 0], [1, 2]],
        "discrete",
        {"x": ("blue", "red"), "y": ("no", "perhaps", "yes")},
        notes=("levels of a single silo: y 'perhaps' (b); map other spellings of them by \"recode\" in about.json",),
    ),
    "labels of one silo in another language": Case(
        {"a.csv": WORDS, "b.csv": b"x,y\nred,Ja\nblue,Nein\nred,Ja\n"},
        refused="a.csv: column 'y': no other silo has one of its labels ('no', 'yes'; elsewhere 'ja', 'nein')",
    ),
    "other units": Case(
        {"a.csv": PLAIN, "b.csv": b"x,y\n1500,2\n3250,-4\n500,6\n"},
        NUMBERS,
        notes=("x: the median at b is about 1e+03 times",),
    ),
    "another order of columns": Case({"a.csv": PLAIN, "b.csv": b"y,x\n2,1.5\n-4,3.5\n"}, NUMBERS),
    "one column too many": Case(
        {"a.csv": PLAIN, "b.csv": b"x,y,z\n1,2,3\n3,4,6\n"},
        refused="b.csv: column 'z' is unexpected; a.csv does not have it: --ignore z leaves it out",
    ),
    "parquet of all sorts": Case(
        {
            "a.parquet": {
                "group": pd.Categorical(["b", "a", "b", None]),
                "flag": [True, False, True, True],
                "count": pd.array([3, None, 10, 300], dtype="Int64"),
                "word": ["x", "y", None, "x"],
                "number": VARIED,
            }
        },
        [[1, 1, 3, 0, 0.5], [0, 0, NAN, 1, 1.5], [1, 1, 10, NAN, 0.25], [NAN, 1, 300, 0, 4]],
        "mixed",
        {"group": ("a", "b"), "flag": ("False", "True"), "word": ("x", "y")},
    ),
    "parquet with an infinite number": Case(
        {"a.parquet": {"x": [1.5, 2.0, float("inf")]}}, refused="a.parquet: row 3, column 'x': inf is not finite"
    ),
}


def written(folder, case):
    for name, content in case.files.items():
        if isinstance(content, dict):
            pd.DataFrame(content).to_parquet(folder / name)
        else:
            (folder / name).write_bytes(content)
    if case.about is not None:
        (folder / "about.json").write_text(json.dumps(case.about))
    return folder


@pytest.mark.parametrize("name", CASES)
def test_an_odd_file(tmp_path, name):
    case = CASES[name]
    folder = written(tmp_path, case)
    if case.refused:
        with pytest.raises(BadInput) as caught:
            read_folder(folder)
        assert case.refused in str(caught.value)
        assert "\n" not in str(caught.value)
        return
    data = read_folder(folder)
    assert (data.schema.kind, data.schema.levels) == (case.kind, case.levels)
    assert tuple(data.schema.aside) == case.aside
    assert len(data.notes) == len(case.notes), data.notes
    for note, said in zip(data.notes, case.notes, strict=True):
        assert note.startswith(said)
    if case.table is not None:
        np.testing.assert_array_equal(data.tables["a"], case.table)
    assert read_schema(folder) == data.schema
