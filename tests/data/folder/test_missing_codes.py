"""Codes that may mark missing values are suggested with the entry that declares them, and never applied."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.missing_codes import missing_codes
from fedbnsl.flows.cli.main import main


def table(rows=120, **cells):
    """Numbers, whole numbers, labels; and `cells` of them: a value in every tenth row of a column."""
    rng = np.random.default_rng(11)
    made = {
        "age": rng.integers(20, 80, rows).astype(object),
        "dose": rng.normal(10, 2, rows).round(2).astype(object),
        "score": rng.integers(1, 6, rows).astype(object),
        "change": rng.normal(0, 4, rows).round(1).astype(object),
        "smokes": rng.choice(["no", "yes"], rows).astype(object),
    }
    for name, cell in cells.items():
        made[name][3::10] = cell
    return pd.DataFrame(made)


def folder_of(tmp_path, frame, about=None):
    frame.iloc[::2].to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[1::2].to_csv(tmp_path / "b.csv", index=False)
    if about is not None:
        (tmp_path / "about.json").write_text(json.dumps(about))
    return tmp_path


def codes_in(tmp_path, frame):
    data = read_folder(folder_of(tmp_path, frame))
    return [(one.column, one.cell, one.rows) for one in missing_codes(data.schema, data.tables)]


@pytest.mark.parametrize(
    ("column", "code"),
    [
        *(("age", code) for code in (999, -9, -99, 888, 9999)),
        *(("dose", code) for code in (99, 999, -9, 777, -99)),
        *(("score", code) for code in (99, -9, 9, 998)),
        *(("change", code) for code in (99, 999, -99)),
        *(("smokes", word) for word in ("unknown", "k.A.", "Keine  Angabe", "Inconnu", "9", "不明", "#REF!")),
    ],
)
def test_a_code_is_found_in_its_column(tmp_path, column, code):
    assert codes_in(tmp_path, table(**{column: code})) == [(column, str(code), 12)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("age", 85),
        ("age", 99),
        ("age", 1000),
        ("dose", 31.5),
        ("change", -9),
        ("change", 9),
        ("score", 7),
        ("smokes", "other"),
    ],
)
def test_a_value_that_may_be_one_is_not_suggested(tmp_path, column, value):
    assert codes_in(tmp_path, table(**{column: value})) == []


def test_a_weak_code_counts_if_several_columns_have_it(tmp_path):
    frame = table(age=99)
    assert codes_in(tmp_path, frame) == []
    frame["weight"] = frame["age"].map(lambda age: age if age == 99 else age + 15.5)
    frame.loc[frame["weight"] > 96, "weight"] = 99
    found = [(column, cell) for column, cell, _ in codes_in(tmp_path, frame)]
    assert found == [("age", "99"), ("weight", "99")]


def test_a_negative_code_is_found_beside_many_zeros(tmp_path):
    """Cholesterol of 0 marked what was not measured, at some hospitals; -9 did so at another one."""
    frame = table(dose=-9)
    frame.loc[frame.index % 5 == 1, "dose"] = 0
    assert codes_in(tmp_path, frame) == [("dose", "-9", 12)]


def test_a_single_far_value_is_an_outlier_and_no_code(tmp_path):
    frame = table()
    frame.loc[5, "dose"] = 999
    assert codes_in(tmp_path, frame) == []


def test_a_column_of_dates_or_one_that_is_skipped_has_no_codes():
    """A day 999 is a date like any other, even if it is far from the others."""
    rng = np.random.default_rng(3)
    tables = {silo: rng.integers(0, 60, (rows, 2)).astype(float) for silo, rows in (("a", 90), ("b", 40))}
    for table in tables.values():
        table[::10] = 999
    schema = Schema(("visit", "dose"), {"a": 90, "b": 40})
    dated = replace(schema, dates={"visit": ("ymd", "2020-01-01")})
    assert [one.column for one in missing_codes(schema, tables)] == ["visit", "dose"]
    assert [(one.column, one.rows) for one in missing_codes(dated, tables)] == [("dose", 13)]
    assert [one.column for one in missing_codes(schema, tables, ["dose"])] == ["visit"]
    assert missing_codes(dated, tables, ["dose"]) == ()


def run(*words):
    with pytest.raises(SystemExit) as done:
        main([*map(str, words)])
    assert not done.value.code


def test_inspect_prints_the_entry_and_what_it_declares_is_then_missing(tmp_path, capsys):
    folder = folder_of(tmp_path, table(age=999, smokes="k.A."), {"missing": {"age": ["-1"]}})
    before = read_folder(folder)
    run("inspect", folder)
    line = next(one for one in capsys.readouterr().out.splitlines() if "may mark missing values" in one)
    assert "age '999' (12 rows), smokes 'k.A.' (12 rows)" in line
    entry = json.loads(re.search(r"declare (\{.*\}) in about.json", line)[1])
    assert entry == {"missing": {"age": ["-1", "999"], "smokes": ["k.A."]}}
    assert before.schema.levels["smokes"] == ("k.A.", "no", "yes"), "nothing is applied without a declaration"
    assert not before.schema.gaps
    (folder / "about.json").write_text(json.dumps(entry))
    after = read_folder(folder)
    assert after.schema.levels["smokes"] == ("no", "yes")
    assert sum(after.schema.empty[silo][0] for silo in after.schema.silos) == 12
    run("inspect", folder)
    assert "may mark missing values" not in capsys.readouterr().out


def test_a_drafted_declaration_has_the_codes_and_says_so(tmp_path, capsys):
    folder = folder_of(tmp_path, table(score=9, smokes="unknown"))
    run("inspect", folder, "--write")
    text = " ".join(capsys.readouterr().out.split())
    assert "it declares '9' of score as missing (12 rows): delete it if it is a value" in text
    written = json.loads((folder / "about.json").read_text())
    assert written["missing"] == {"score": ["9"], "smokes": ["unknown"]}
    assert written["levels"]["smokes"] == ["no", "yes"]
    assert written["levels"]["score"] == ["1", "2", "3", "4", "5"]
    data = read_folder(folder)
    assert sum(map(sum, data.schema.empty.values())) == 24


def test_a_word_among_numbers_is_refused_with_the_entry(tmp_path):
    folder = folder_of(tmp_path, table(dose="unbekannt"))
    with pytest.raises(BadInput, match=r"'unbekannt' is not a number; if it marks a missing value, declare") as caught:
        read_folder(folder)
    entry = re.search(r"declare (\{.*?\}\}) in about.json; if not, correct it", str(caught.value))[1]
    (folder / "about.json").write_text(entry)
    assert sum(map(sum, read_folder(folder).schema.empty.values())) == 12


def test_inspect_shows_what_is_declared_for_single_silos(tmp_path, capsys):
    about = {"recode": {"a": {"smokes": {"Ja": "yes", "?": None}}}, "scale": {"b": {"dose": 0.5}}}
    run("inspect", folder_of(tmp_path, table(), about))
    text = " ".join(capsys.readouterr().out.split())
    assert "a: smokes: about.json reads 'Ja' as 'yes', '?' as empty" in text
    assert "b: dose: about.json multiplies the numbers by 0.5" in text


def test_two_cells_are_enough_for_a_far_code(tmp_path):
    frame = table()
    frame.loc[[5, 60], "dose"] = 999
    assert codes_in(tmp_path, frame) == [("dose", "999", 2)]
