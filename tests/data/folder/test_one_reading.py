"""One law: whether rows fit into memory changes neither what a folder says, nor its rows, nor its errors.

Each folder is read below a limit of one byte, in batches of a few rows, and below a limit of 256 MB. `DIFFERENCES`
names every folder for which the law does not hold yet, with the reason.
"""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.diagnosis.series_rows import PASSES_NOTE
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches, text
from fedbnsl.data.folder.about import READ_ALL, Reading, declarations
from fedbnsl.data.folder.folder import read_folder, read_schema, silo_files
from fedbnsl.data.folder.table import open_table

ROWS = 300
RNG = np.random.default_rng(7)


def table(columns: dict) -> str:
    """The columns as CSV; cells are repeated to the length of the longest column."""
    length = max(map(len, columns.values()))
    cells = [[str(column[k % len(column)]) for k in range(length)] for column in columns.values()]
    return "\n".join([",".join(columns), *map(",".join, zip(*cells, strict=True))]) + "\n"


SIZE = [f"{value:.3f}" for value in RNG.normal(170, 10, ROWS)]
DAYS = [f"2020-{1 + k // 28 % 12:02}-{1 + k % 28:02}" for k in range(ROWS)]
TABLES = {
    "numbers": {"size": SIZE, "weight": [f"{value:.2f}" for value in RNG.normal(70, 9, ROWS)]},
    "magnitudes about a power of ten": {"x": [f"{value:.4f}" for value in RNG.lognormal(3, 2, ROWS)], "size": SIZE},
    "an even number of sizes": {"x": ["1.5", "20.5"], "size": SIZE},
    "heavy tails": {"x": [f"{value:.4f}" for value in RNG.normal(size=ROWS) ** 3], "size": SIZE},
    "skewed positive numbers": {"x": [f"{value:.4f}" for value in RNG.lognormal(0, 1.2, ROWS)], "size": SIZE},
    "counts": {"visits": RNG.poisson(4, ROWS), "claims": RNG.poisson(RNG.lognormal(1, 1.6, ROWS)), "size": SIZE},
    "counts from 1": {"visits": 1 + RNG.poisson(9, ROWS), "size": SIZE},
    "codes": {"code": range(5), "size": SIZE},
    "codes with zeros before them": {"code": ["001", "002", "010"], "size": SIZE},
    "codes with signs": {"code": ["+1", "-1", "0"], "size": SIZE},
    "whole numbers with exponents": {"x": ["1e3", "2e3", "5"], "size": SIZE},
    "whole numbers with points": {"x": ["1.0", "2.0", "30"], "size": SIZE},
    "wide whole numbers": {"x": [10**17 + 7 * k for k in range(ROWS)], "size": SIZE},
    "a fraction after many whole numbers": {"x": [*range(250), "1.50", "1.5"], "size": SIZE},
    "two spellings of a fraction among whole numbers": {"x": [*[1, 2, 3] * 90, "1.50", "1.5"], "size": SIZE},
    "labels": {"colour": ["red", "blue", "Red ", "dark  blue"], "size": SIZE},
    "many labels that recur": {"kind": [f"label {k:02}" for k in range(60)] * 5, "size": SIZE},
    "many labels": {"kind": [f"label {k:03}" for k in range(ROWS)], "size": SIZE},
    "levels alone": {"colour": ["red", "blue"], "code": ["a", "b", "c"]},
    "missing words": {"damage": ["None", "Mild", "Severe"], "size": SIZE},
    "missing marks among numbers": {"x": ["1.5", "NA", "2.5", "", "?", " n/a "], "size": SIZE},
    "missing marks among whole numbers": {"x": ["1", "NA", "2", "", "-"], "size": SIZE},
    "a rare missing mark": {"x": [*SIZE[1:], "NA"], "size": SIZE},
    "a missing code": {"x": [*SIZE[10:], *["-9"] * 10], "size": SIZE},
    "zeros that may be missing": {"x": [*SIZE[20:], *["0"] * 20], "size": SIZE},
    "an empty column": {"x": [""], "size": SIZE},
    "a sparse column": {"x": ["", "", "", "", "1.5", "", "", "2.5", "3.5"], "size": SIZE},
    "a constant": {"x": ["7.50"], "size": SIZE},
    "a constant that is empty in some rows": {"x": ["7.5", ""], "size": SIZE},
    "row numbers": {"row": range(ROWS), "size": SIZE},
    "row numbers in another order": {"row": RNG.permutation(ROWS), "size": SIZE},
    "ids": {"patient_id": RNG.permutation(10**6)[:ROWS], "size": SIZE},
    "ids of letters": {"id": [f"p{k}" for k in RNG.permutation(ROWS)], "size": SIZE},
    "ids of which one occurs twice": {"patient_id": [*range(500, 500 + 2 * ROWS - 2, 2), 500], "size": SIZE},
    "dates": {"admitted": DAYS, "size": SIZE},
    "dates of which one is none": {"admitted": [*DAYS[1:], "soon"], "size": SIZE},
    "quarters": {"quarter": [f"{1950 + k // 4}Q{1 + k % 4}" for k in range(ROWS)], "size": SIZE},
    "a square": {"x": [f"{k / 10:.1f}" for k in range(ROWS)], "y": [f"{k * k / 100:.2f}" for k in range(ROWS)]},
    "a sum that begins late": {
        "x": SIZE,
        "y": SIZE[::-1],
        "z": ["1.5"] * 99 + [f"{float(a) + float(b):.3f}" for a, b in zip(SIZE[99:], SIZE[::-1][99:], strict=True)],
    },
    "numbers beyond the range": {"x": ["1e90", "1.5"], "size": SIZE},
    "a word among numbers": {"x": [*SIZE[1:], "tall"], "size": SIZE},
    "a word among whole numbers": {"x": [*range(299), "many"], "size": SIZE},
    "a word among numbers and labels": {"x": [*SIZE[1:], "tall"], "colour": ["red", "blue"]},
    "words that begin late": {"x": [*["1", "2"] * 120, *["low", "high"] * 30], "size": SIZE},
    "words in two columns": {"x": [*SIZE[2:], "tall", "1.5"], "y": [*SIZE[2:], "1.5", "small"]},
    "numbers in another notation": {"x": [*SIZE[1:], "12 %"], "size": SIZE},
    "an infinite number": {"x": [*SIZE[1:], "inf"], "size": SIZE},
    "a number that overflows": {"x": [*SIZE[1:], "1e400"], "size": SIZE},
    "a control character": {"colour": [*["red", "blue"] * 140, "bl\x07ue"], "size": SIZE},
}
FILES = {
    "a row that is too long": "x,y\n" + "1.5,2.5\n2.5,1.5\n" * 90 + "secret,1.5,9.25\n" + "1.5,2.5\n" * 9,
    "a row that is too short": "x,y\n" + "1.5,2.5\n2.5,1.5\n" * 90 + "3.75\n" + "1.5,2.5\n" * 9,
    "a quotation mark that is never closed": "x,y\n" + "1.5,2.5\n" * 90 + '3.75,"secret\n' + "1.5,2.5\n" * 9,
    "empty lines before a word": "x,y\n" + "1.5,2.5\n2.5,1.5\n" * 120 + "\n\n3.75,abc\n",
    "a cell of several lines before a word": 'x,y,z\n"a\nb",1.5,2.5\n' + "c,1.5,2.5\n" * 240 + "c,2.5,abc\n",
    "blank lines": "\nx,y\n\n1.5,2\n  \n3.5,5\n2.5,7\n\n",
    "semicolons and decimal commas": "x;y\n" + "1,5;2,5\n2,5;1,75\n" * 90 + "1,25;NA\n",
    "a decimal comma among labels": "x;y;z\n" + "1,5;2,5;a\n2,5;1,75;b\n" * 120 + "tall;1,5;a\n",
    "only a header": "x,y\n",
    "one row": "x,y\n1.5,2.5\n",
    "another encoding late": b"x,y\n" + b"a,1.5\nb,2.5\n" * 120 + b"\xe9,3.5\n",
    "excluded names": "x,note,x,y\n" + "1.5,a,1,2.5\n2.5,b,2,1.5\n" * 20,
}
ABOUT = {
    "levels": {"levels": {"colour": ["red", "blue"]}},
    "a cell that is not a level": {"levels": {"colour": ["red", "green"]}},
    "fractions in discrete data": {"kind": "discrete"},
    "a declared discrete column with fractions": {"columns": {"x": "discrete"}},
    "words in continuous data": {"kind": "continuous"},
    "marks": {"missing": {"x": ["-9"]}},
    "a unit": {"scale": {"a": {"size": 0.01}}},
    "a recoding": {"recode": {"a": {"colour": {"red": "rot"}}}},
}
ABOUT_TABLE = {
    "colour": [*["red", "blue"] * 140, "green"],
    "x": [*["1.5", "2.5", "-9"] * 80, "3.25"],
    "size": SIZE,
}
READINGS = {
    "complete rows": Reading(missing="complete-rows"),
    "refused gaps": Reading(missing="refuse"),
    "logarithms": Reading(transform="log"),
    "dates as days": Reading(dates="days"),
    "an ignored column": Reading(ignore=("x",)),
    "only one column": Reading(only=("size",)),
}
READING_TABLE = {
    "admitted": DAYS,
    "x": ["1.5", "", "2.5", "NA", "4.5"],
    "y": [*["5.5", "6.5", "2.5"] * 90, "-1.5"],
    "size": SIZE,
}

TIMES = {"time": range(60), "x": SIZE[:60], "y": SIZE[60:120]}
SERIES = {
    "series": TIMES,
    "series with dates": TIMES | {"time": DAYS[:28] + DAYS[28:56] + DAYS[56:60]},
    "several series": {"series": ["a"] * 30 + ["b"] * 30} | TIMES | {"time": [*range(30), *range(30)]},
    "series with a gap": TIMES | {"time": [*range(30), *range(40, 70)]},
    "series with empty cells": TIMES | {"x": [*SIZE[:40], "", *SIZE[41:60]]},
    "series with a word": TIMES | {"x": [*SIZE[:40], "tall", *SIZE[41:60]]},
    "series with a time that occurs twice": TIMES | {"time": [*range(59), 58]},
    "series with irregular times": TIMES | {"time": [*range(59), 60.5]},
    "series with a constant": TIMES | {"x": ["1.5"]},
    "series with labels": TIMES | {"x": ["red", "blue"]},
}
BY = {"silo": ["a", "b", "b"], "x": SIZE[:180], "y": [*SIZE[:90], "NA", *SIZE[91:180]], "id": range(180)}
BY_TABLES = {
    "one file of all silos": BY | {"y": SIZE[:180]},
    "one file of all silos with missing marks": BY,
    "one file of all silos with a word": BY | {"x": [*SIZE[:170], "tall", *SIZE[171:180]]},
}


def outcome(read):
    try:
        return read()
    except BadInput as error:
        return str(error)


def said(folder, reading, limit):
    """All that is read in `folder`: profiles, schema, notes, rows, or the errors in their place."""
    about = (folder if folder.is_dir() else folder.parent) / "about.json"
    declared = declarations(json.loads(about.read_text()) if about.exists() else {}, reading)

    def profile(silo, path):
        found = open_table(path, declared.at_silo(silo)).profile()
        columns = {name: asdict(column) for name, column in found.columns.items()}
        return replace(found, columns={}), columns

    def rows():
        data = read_folder(folder, reading)
        tables = {
            silo: one if isinstance(one, np.ndarray) else np.concatenate([*one]) for silo, one in data.tables.items()
        }
        notes = tuple(note for note in data.notes if PASSES_NOTE not in note)
        return replace(data.schema, streamed=()), notes, {silo: one.tolist() for silo, one in tables.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "IN_MEMORY_BYTES", limit)
        for module, name, size in (
            (batches, "MAX_BATCH_ROWS", 7),
            (batches, "MIN_BATCH_ROWS", 7),
            (text, "BLOCK_BYTES", 400),
        ):
            patch.setattr(module, name, size)
        paths = silo_files(folder, reading.silos, reading.by)
        return (
            {silo: outcome(lambda silo=silo, path=path: profile(silo, path)) for silo, path in paths.items()},
            outcome(lambda: replace(read_schema(folder, reading), streamed=())),
            repr(outcome(rows)),
        )


def check(folder, reading=READ_ALL):
    passes, memory = said(folder, reading, 1), said(folder, reading, 1 << 28)
    assert passes == memory
    assert "secret" not in repr(passes)
    assert not any(isinstance(one, str) and "\n" in one for one in passes)


def write(folder, content, about=None):
    folder.mkdir(exist_ok=True)
    (folder / "a.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    if about:
        (folder / "about.json").write_text(json.dumps(about))
    return folder


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_text(tmp_path, name):
    check(write(tmp_path, table(TABLES[name])))


@pytest.mark.parametrize("name", [f"{name} in Parquet" for name in TABLES])
def test_a_table_of_numbers_and_text(tmp_path, name):
    text = write(tmp_path / "text", table(TABLES[name.removesuffix(" in Parquet")])) / "a.csv"
    (tmp_path / "typed").mkdir()
    pd.read_csv(text, dtype_backend="numpy_nullable").to_parquet(tmp_path / "typed" / "a.parquet", row_group_size=50)
    check(tmp_path / "typed")


@pytest.mark.parametrize("name", FILES)
def test_an_odd_file(tmp_path, name):
    check(write(tmp_path, FILES[name]), Reading(ignore=("x",)) if name == "excluded names" else READ_ALL)


@pytest.mark.parametrize("name", ABOUT)
def test_a_declaration(tmp_path, name):
    check(write(tmp_path, table(ABOUT_TABLE), ABOUT[name]))


@pytest.mark.parametrize("name", READINGS)
def test_an_option(tmp_path, name):
    check(write(tmp_path, table(READING_TABLE)), READINGS[name])


@pytest.mark.parametrize("name", SERIES)
def test_series(tmp_path, name):
    complete = Reading(missing="complete-rows")
    check(write(tmp_path, table(SERIES[name])), complete if "empty" in name else READ_ALL)


def test_series_in_another_order_are_sorted_in_memory_and_refused_in_passes(tmp_path):
    shuffled = write(tmp_path / "shuffled", table(TIMES | {"time": [*range(30, 60), *range(30)]}))
    ordered = {name: [*cells[30:], *cells[:30]] for name, cells in TIMES.items() if name != "time"}
    sorted_rows = said(write(tmp_path / "sorted", table({"time": range(60)} | ordered)), READ_ALL, 1 << 28)
    assert said(shuffled, READ_ALL, 1 << 28)[1:] == sorted_rows[1:]
    _, schema, rows = said(shuffled, READ_ALL, 1)
    assert schema == (
        "read as time series because of regular times in column 'time': "
        f"{shuffled / 'a.csv'}: line 32, column 'time': '0' is before the time of the row above: rows of series that "
        "exceed the memory limit must be sorted by series and time"
    )
    assert rows == repr(schema)


@pytest.mark.parametrize("name", BY_TABLES)
def test_a_file_of_all_silos(tmp_path, name):
    check(write(tmp_path, table(BY_TABLES[name])) / "a.csv", Reading(by="silo"))


CELLS = ["1", "2", "0", "-3", "0.5", "2.50", "1e3", "NA", "", "red", "blue", "12 %", "2020-01-31", "007", "1.0"]


@given(st.lists(st.sampled_from(CELLS), min_size=2, max_size=40), st.integers(1, 4))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_cells(tmp_path_factory, cells, kinds):
    chosen = [cell if CELLS.index(cell) % kinds == 0 else cells[0] for cell in cells]
    check(write(tmp_path_factory.mktemp("any"), table({"x": chosen, "y": cells, "size": SIZE[:45]})))
