"""A single cell, row, column or silo that cannot be used is set aside with a note, and the others are read."""

import itertools

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder, silo_files
from fedbnsl.data.folder.text import repeats_names
from fedbnsl.data.splitting.partition import split_table
from fedbnsl.flows.api.tables import tables_in_memory

LIMITS = pytest.mark.parametrize("limit", [1, 1 << 28])


def rows_of(data, silo):
    table = data.tables[silo]
    return table if isinstance(table, np.ndarray) else np.concatenate(list(table))


@pytest.fixture
def wards(tmp_path):
    """One file with the rows of two wards, a ward of one row, and two rows without a ward."""
    rng = np.random.default_rng(0)
    names = ["east"] * 30 + ["west"] * 30 + ["attic"] + [""] * 2
    frame = pd.DataFrame(rng.normal(size=(63, 2)), columns=["x", "y"]).assign(ward=rng.permutation(names))
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv", frame


@LIMITS
def test_small_silos_are_left_out_or_merged(wards, monkeypatch, limit):
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit)
    path, frame = wards
    small = frame[~frame["ward"].isin(["east", "west"])][["x", "y"]]
    for how, silos in (("leave-out", ["east", "west"]), ("merge", ["east", "others", "west"])):
        data = read_folder(path, Reading(by="ward", small_silos=how))
        assert list(data.schema.rows) == silos
        for silo in ("east", "west"):
            assert np.allclose(rows_of(data, silo), frame[frame["ward"] == silo][["x", "y"]])
        (note,) = [note for note in data.notes if "without a cell in ward" in note]
        assert "2 rows without a cell in ward and 1 row of silos with one row (attic)" in note
    assert np.allclose(rows_of(data, "others"), small)
    split = split_table(path, 0, by="ward", small_silos="merge")
    assert {silo: len(rows) for silo, rows in split.tables.items()} == data.schema.rows
    assert note in split.notes
    in_memory = tables_in_memory(frame, Reading(small_silos="merge"), "ward")
    assert in_memory.schema.rows == data.schema.rows
    assert note in in_memory.notes
    assert set(tables_in_memory(frame, by="ward").schema.rows) == {"east", "west"}


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_a_silo_of_one_row_in_a_folder_is_left_out_with_a_note(tmp_path, ending):
    rng, write = np.random.default_rng(0), {"csv": "to_csv", "parquet": "to_parquet", "xlsx": "to_excel"}[ending]
    for silo, rows in (("a", 60), ("b", 2), ("c", 1), ("d", 1)):
        getattr(pd.DataFrame(rng.normal(size=(rows, 2)), columns=["x", "y"]), write)(
            tmp_path / f"{silo}.{ending}", index=False
        )
    data = read_folder(tmp_path)
    assert data.schema.rows == {"a": 60, "b": 2}
    note = "left out: 2 silos with one row (c, d)"
    assert note in data.notes
    assert note in learn(tmp_path, bootstrap=0).result.notes
    (tmp_path / f"c.{ending}").write_text("no table")
    with pytest.raises(BadInput, match=f"c.{ending}"):
        read_folder(tmp_path)


def test_a_file_in_which_no_silo_has_two_rows(tmp_path):
    (tmp_path / "t.csv").write_text("s,x\na,1\nb,2\n")
    with pytest.raises(BadInput, match="no silo has 2 rows or more"):
        silo_files(tmp_path / "t.csv", (), "s")


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("columns", [{"code": ["A", "B"]}, {"code": ["A", "B"], "year": [1998, 2005]}])
def test_a_column_that_the_silo_determines_is_set_aside(tmp_path, empty, columns):
    rng = np.random.default_rng(0)
    for k, silo in enumerate("ab"):
        frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["x", "y"])
        frame = frame.assign(**{name: values[k] for name, values in columns.items()})
        if empty:
            frame.loc[3, "code"] = frame.loc[5, "x"] = None
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    found = learn(tmp_path, bootstrap=0).result
    assert set(found.structure.variables) == {"x", "y"}
    assert all(reason.startswith("the silo determines it") for reason in found.schema.aside.values())


@LIMITS
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "xlsx"])
def test_headers_and_a_total_among_the_rows_are_no_rows(tmp_path, monkeypatch, ending, limit):
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit if ending == "csv.gz" else 1 << 28)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)).round(3), columns=["x mg", "y"])
    frame.insert(0, "name", [f"p{k}" for k in range(60)])
    names = pd.DataFrame([list(frame.columns)], columns=frame.columns)
    total = pd.DataFrame([["Total:", *frame.iloc[:, 1:].sum()]], columns=frame.columns)
    whole = pd.concat([frame[:20], names, frame[20:40], names, frame[40:], total]) if limit > 1 else frame
    path = tmp_path / f"a.{ending}"
    whole.to_excel(path, index=False) if ending == "xlsx" else whole.to_csv(path, index=False)
    data = read_folder(tmp_path)
    assert data.schema.variables == ("x mg", "y")
    assert np.allclose(rows_of(data, "a"), frame.iloc[:, 1:])
    said = {"a: 2 rows repeat the header and are left out", "a: the last row, 'Total:', is left out"}
    assert said <= set(data.notes) or limit == 1


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_line_break_in_a_name_is_a_space_and_an_index_has_a_name(tmp_path, ending):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)).round(3), columns=["x\nmg", "y"])
    frame.to_excel(tmp_path / "a.xlsx") if ending == "xlsx" else frame.to_csv(tmp_path / "a.csv")
    data = read_folder(tmp_path)
    assert data.schema.variables == ("x mg", "y")
    assert np.allclose(rows_of(data, "a"), frame)
    assert "a: line breaks in names are read as spaces: 'x mg'" in data.notes
    assert "a: the first column has no name: it is read as 'unnamed: 0'" in data.notes


def test_a_name_in_a_cell_is_no_header():
    """In tables of multiple answers, each cell has the name of its column or nothing."""
    assert not repeats_names(["bus", "car"], [["bus", ""], ["bus", "car"]])
    assert repeats_names(["bus", "car"], [["tram", "3"], ["bus", "car"]])


def test_a_level_called_total_is_no_footer(tmp_path):
    rows = [f"{kind},{k}.5" for k, kind in enumerate(["part", "total"] * 20)]
    (tmp_path / "a.csv").write_text("\n".join(["kind,x", *rows, ""]))
    assert sum(read_folder(tmp_path).schema.rows.values()) == 40


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("id", [*range(1, 60), 59], "ids that recur (a few twice)"),
        ("patient_id", [k // 2 for k in range(120)], "ids that recur (2 rows each)"),
        ("Hospital_Number", [*range(500, 580), 510, 520], "ids that recur (a few twice)"),
        ("zip", [f"{k:05d}" for k in range(7, 99)], "codes with leading zeros"),
        ("fnlwgt", [1000 + 37 * k for k in range(60)], "strata, sampling units or weights"),
        ("stratum", [k % 4 for k in range(60)], "strata, sampling units or weights"),
        ("hex", ["0004e797", "00a0a8fe", *(f"{k * 7919:08x}" for k in range(2000, 2060))], "more than 50 distinct"),
    ],
)
@LIMITS
def test_numbers_that_are_no_measurements_are_set_aside(tmp_path, monkeypatch, name, cells, reason, limit):
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", limit)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(len(cells), 2)), columns=["x", "y"]).assign(**{name: cells})
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = read_folder(tmp_path)
    assert data.schema.variables == ("x", "y")
    assert data.schema.aside[name].startswith(reason)
    if not isinstance(cells[0], str):
        (tmp_path / "about.json").write_text(f'{{"columns": {{"{name}": "continuous"}}}}')
        assert name in read_folder(tmp_path).schema.variables


@pytest.mark.parametrize("weight", ["weight", "body_weight", "number_of_visits", "index_bmi"])
def test_measurements_with_such_names_stay(tmp_path, weight):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({weight: rng.normal(70, 9, 60).round(1), "x": rng.normal(size=60)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert weight in read_folder(tmp_path).schema.variables


TIMES = {
    "of follow-up": np.random.default_rng(3).choice(4000, 60, replace=False),
    "of visits": np.arange(60) % 3,
    "of day": ["Lunch", "Dinner"] * 30,
    "with a unit": [f"{k % 7} min" for k in range(60)],
}


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("labels", [False, True])
def test_a_column_named_time_does_not_make_a_series(tmp_path, times, labels):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"]).assign(time=TIMES[times])
    frame = frame.assign(sex=["f", "m"] * 30) if labels else frame
    for silo in "ab":
        frame.to_csv(tmp_path / f"{silo}.csv", index=False)
    data = read_folder(tmp_path)
    assert data.schema.kind != "time-series"
    assert any("--time time reads the rows as time series" in note for note in data.notes)
    assert learn(tmp_path, bootstrap=0).result.schema.kind == data.schema.kind


@pytest.mark.parametrize("step", [1, 0.5, 86_400])
@pytest.mark.parametrize("gaps", [0, 5])
def test_regular_times_make_a_series(tmp_path, step, gaps):
    rng = np.random.default_rng(0)
    times = np.delete(np.arange(60), rng.choice(np.arange(1, 59), gaps, replace=False)) * step
    pd.DataFrame(rng.normal(size=(60 - gaps, 2)), columns=["x", "y"]).assign(time=times).to_csv(tmp_path / "a.csv")
    assert read_folder(tmp_path).schema.kind == "time-series"


def test_silos_of_two_rows_do_not_end_a_run(tmp_path):
    rng = np.random.default_rng(0)
    for k, number in itertools.product(range(12), range(1)):
        frame = pd.DataFrame(rng.normal(size=(2, 3)), columns=["x", "y", "z"]).assign(sex=["f", "m"][number])
        frame.assign(smokes=rng.choice(["no", "yes"], 2)).to_csv(tmp_path / f"s{k}.csv", index=False)
    assert learn(tmp_path).result.structure.variables
