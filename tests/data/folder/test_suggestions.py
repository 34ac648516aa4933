"""What `inspect` suggests: derived columns, columns without causes, an order in time."""

import numpy as np
import pandas as pd
import pytest

from fedbnsl.data.federated import continuous
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.data.folder.suggestions import suggestions
from fedbnsl.flows.cli.inspect import show_folder
from fedbnsl.flows.options.learn import LearnOptions


def found(columns):
    """The suggestions on two silos that share these columns."""
    table = np.column_stack(list(columns.values()))
    tables = {"a": table[::2], "b": table[1::2]}
    return suggestions(continuous(tables, tuple(columns)), tables)


@pytest.fixture
def columns():
    rng = np.random.default_rng(4)
    return {"x": rng.uniform(1, 2, 60), "y": rng.uniform(3, 9, 60), "w": rng.normal(size=60)}


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("the square of x", lambda x, y: x**2),
        ("the natural logarithm of y", lambda x, y: np.log(y)),
        ("the decimal logarithm of y", lambda x, y: np.log10(y)),
        ("the sum of x and y", lambda x, y: x + y),
        ("the product of x and y", lambda x, y: x * y),
        ("the ratio of y to x", lambda x, y: y / x),
    ],
)
def test_a_column_that_others_determine_is_named_once(columns, formula, values):
    columns["z"] = np.round(values(columns["x"], columns["y"]), 5)
    (one,) = found(columns)
    assert formula in one
    assert "--ignore" in one


def test_a_column_that_others_nearly_determine_is_not_named(columns):
    columns["z"] = columns["x"] + columns["y"] + 0.01 * np.random.default_rng(1).normal(size=60)
    assert found(columns) == ()


def test_a_ratio_may_be_0(columns):
    columns["x"][::7] = 0.0
    columns["z"] = columns["x"] / columns["y"]
    (one,) = found(columns)
    assert one.startswith("z is the ratio of x to y")


def test_columns_without_causes_are_suggested(columns):
    names = {"age": "x", "birth_year": "y", "stage": "w"}
    assert found({name: columns[old] for name, old in names.items()}) == (
        "age, birth_year: no other column can be a cause: consider --no-parents age,birth_year",
    )


def test_a_year_that_rises_at_every_silo_is_suggested_as_time(columns):
    (line,) = found({"year": np.repeat(np.arange(2000, 2015), 4).astype(float), **columns})
    assert line.startswith("year: it rises from row to row at every silo")
    assert "--time year reads them as time series" in line
    (line,) = found({"year": np.random.default_rng(2).permutation(60).astype(float), **columns})
    assert line.endswith("consider --no-parents year")
    rising = {"year": np.sort(columns["x"]), **columns}
    table = np.column_stack(list(rising.values()))
    tables = {"a": table[:30], "b": table[30:][::-1]}
    (line,) = suggestions(continuous(tables, tuple(rising)), tables)
    assert "--time" not in line, "it falls at the second silo"
    quarters = {"year": np.repeat(np.arange(2000, 2015), 4), "quarter": np.arange(60) % 4 + 1}
    lines = found({name: column.astype(float) for name, column in quarters.items()} | columns)
    assert any("--time year,quarter" in line for line in lines)


def test_zeros_of_counts_do_not_look_like_missing_values(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    counts = [0, 0, *(2 + rng.exponential(7, 2000).astype(int))]
    rows = "\n".join(f"{n},{value:.3f}" for n, value in zip(counts, rng.normal(size=2002), strict=True))
    (tmp_path / "a.csv").write_text(f"visits,v\n{rows}\n")
    assert not [note for note in read_folder(tmp_path).notes if "missing" in note]


def test_inspect_prints_suggestions(tmp_path, capsys):
    rows = "\n".join(f"{20 + k % 31},{k * k % 17 / 2},{20 + k % 31 + k * k % 17 / 2}" for k in range(40))
    (tmp_path / "a.csv").write_text(f"age,dose,total\n{rows}\n")
    show_folder(tmp_path, LearnOptions())
    shown = capsys.readouterr().out
    assert "note: age: no other column can be a cause" in shown
    assert "note: total is the sum of age and dose" in shown


@pytest.mark.parametrize(
    ("names", "roots"),
    [
        (("Age", "birth year", "bmi"), "Age,birth year"),
        (("patient_sex", "year_of_birth", "dose"), "patient_sex,year_of_birth"),
        (("age_in_years", "ethnicity", "message"), "age_in_years,ethnicity"),
        (("Geschlecht", "Alter", "alternative"), "Geschlecht,Alter"),
    ],
)
def test_variables_without_causes_are_known_by_their_names(names, roots):
    rng = np.random.default_rng(2)
    (line,) = found({name: rng.normal(size=40) for name in names})
    assert line.endswith(f"consider --no-parents {roots}")


def test_labels_of_a_sex_are_known_whatever_the_column_is_called(tmp_path):
    rows = [f"{k % 7 / 2},{('Mann', 'frau')[k % 2]},{'abc'[k % 3]},{'mx'[k % 2]}" for k in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["x,q1,q2,q3", *rows]))
    data = read_folder(tmp_path)
    assert [line for line in suggestions(data.schema, data.tables) if "--no-parents" in line] == [
        "q1: no other column can be a cause: consider --no-parents q1"
    ]


@pytest.mark.parametrize(("columns", "says"), [(30, False), (31, True), (60, True), (61, False)])
def test_what_is_not_examined_before_a_run_is_said(tmp_path, columns, says):
    rng = np.random.default_rng(0)
    for silo in "ab":
        pd.DataFrame(rng.normal(size=(40, columns))).add_prefix("c").to_csv(tmp_path / f"{silo}.csv", index=False)
    notes = [note for note in read_folder(tmp_path).notes if note.startswith("not examined")]
    assert bool(notes) == (columns > 30)
    assert any("`fedbnsl inspect` examines up to 60" in note for note in notes) == says
