"""No CSV file of the program gives a spreadsheet a formula that a silo has written as a name or a label.

Every place that writes CSV is found in the source. It writes for people, and then escapes what a spreadsheet would
evaluate; or it writes the rows of a data set, which must be read back as they are.
"""

import csv
import io
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fedbnsl
from fedbnsl.algorithms.core.schema import FORMULA, Schema, escape_formula, escape_formulas, unescape_formula
from fedbnsl.algorithms.graphs.markov_blanket import MarkovBlanket
from fedbnsl.flows.benchmark.tables import files_of
from fedbnsl.flows.cli.features import write as write_features
from fedbnsl.flows.inference.queries import _read, write_table

HOSTILE = ("=HYPERLINK(0)", "+1+1", "-2+3", "@SUM(1)", "\tx", "'=a")
WRITES = re.compile(r"csv\.writer\(|\.to_csv\(|write_csv\(|DictWriter\(")
FOR_PEOPLE = {
    "flows/benchmark/tables.py",
    "flows/inference/queries.py",
    "tracking/report/files.py",  # tests/tracking/test_outputs.py
    "data/folder/truth.py",
}
DATA_SETS = {
    "data/folder/folder.py",
    "data/folder/events.py",
    "flows/benchmark/cells.py",  # for the program of another author
}


def test_every_place_that_writes_csv_is_known():
    root = Path(fedbnsl.__path__[0]).parent
    rooms = ("algorithms", "data", "flows", "tasks", "tracking")
    found = {
        str(path.relative_to(root))
        for room in rooms
        for path in (root / room).rglob("*.py")
        if WRITES.search(path.read_text("utf-8"))
    }
    assert found == FOR_PEOPLE | DATA_SETS
    for name in FOR_PEOPLE:
        assert "escape_formula" in (root / name).read_text("utf-8"), name


def cells_of(text):
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def formulas(text):
    """The cells that a spreadsheet would evaluate: numbers are none, and an apostrophe before the text prevents it."""
    return [cell for cell in cells_of(text) if cell[:1] in "=+-@\t\r" and cell and not _number(cell)]


def _number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def frame():
    labels = pd.Categorical([*HOSTILE, "-1"])
    return pd.DataFrame(dict.fromkeys(HOSTILE, labels) | {"n": -1.5, "text": [*HOSTILE, "-1"]})


def by_simulate(folder):
    write_table(frame(), folder / "out.csv")


def by_features(folder):
    write_features(folder / "out.csv", MarkovBlanket(HOSTILE[:2], HOSTILE[2:4], HOSTILE[4:], ()))


def by_benchmark(folder):
    rows = pd.DataFrame(
        {"data": HOSTILE, "algorithm": HOSTILE[::-1], "seed": 0, "status": "ok", "reason": "=1", "shd": 1}
    )
    (folder / "out.csv").write_bytes(files_of(rows, "b")["results.csv"])


@pytest.mark.parametrize("written", [by_simulate, by_features, by_benchmark])
def test_names_and_labels_are_no_formulas(written, tmp_path):
    written(tmp_path)
    text = (tmp_path / "out.csv").read_bytes().decode("utf-8")
    assert formulas(text) == []
    assert {escape_formula(name) for name in HOSTILE} <= {*cells_of(text)}


@given(st.text(st.sampled_from("=+-@'\tx1"), max_size=4))
@example("'")
def test_reading_restores_every_name(name):
    assert unescape_formula(escape_formula(name)) == name
    assert escape_formula(name)[:1] not in ("=", "+", "-", "@", "\t")


def test_numbers_stay_as_they_are():
    given = pd.DataFrame({"n": [-1.5], "label": ["-1"]})
    assert escape_formulas(given).equals(given)


def test_a_simulated_table_can_be_predicted(tmp_path):
    """`predict` reads the escaped names and labels that `simulate` wrote."""
    names = HOSTILE[:4]
    pd_frame = pd.DataFrame({name: ["=yes", "no"] for name in names})
    write_table(pd_frame, tmp_path / "out.csv")
    schema = Schema(tuple(names), {"a": 2}, "discrete")
    table = _read(tmp_path / "out.csv", names, dict.fromkeys(names, ("no", "=yes")), schema)
    assert table.tolist() == [[1.0] * 4, [0.0] * 4]
    assert FORMULA.match(cells_of((tmp_path / "out.csv").read_text("utf-8"))[0][1:])
