"""Transforms and counts in a folder: how they are chosen for all silos alike, and which are refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import READ_ALL, Reading, parse_transforms
from fedbnsl.data.folder.folder import read_folder, read_schema, write_folder


@pytest.fixture(params=["in memory", "in passes"])
def study(request, tmp_path, monkeypatch):
    """A function that writes three silos of unequal size with counts, amounts and labels, and reads their schema."""
    if request.param == "in passes":
        monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
        monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 40)
        monkeypatch.setattr(batches, "MIN_BATCH_ROWS", 40)
    rng, n = np.random.default_rng(1), 900
    frame = pd.DataFrame(
        {
            "calls": rng.poisson(4, n),
            "rare": rng.poisson(0.5, n),
            "visits": rng.poisson(rng.lognormal(1, 1.5, n)),
            "income": rng.lognormal(8, 1.3, n).round(2),
            "size": rng.normal(170, 9, n).round(1),
            "ward": np.arange(n) % 7,
            "age": rng.integers(18, 90, n),
            "sex": rng.choice(["f", "m"], n),
        }
    )

    def read(about=None, reading=READ_ALL, **cells):
        for name, (row, value) in cells.items():
            frame[name] = frame[name].astype(object)
            frame.loc[row, name] = value
        for silo, rows in {"a": slice(0, 150), "b": slice(150, 400), "c": slice(400, n)}.items():
            frame.iloc[rows].to_csv(tmp_path / f"{silo}.csv", index=False)
        if about:
            (tmp_path / "about.json").write_text(json.dumps(about))
        return read_schema(tmp_path, reading)

    return read


def test_counts_are_read_alike_and_codes_stay_labels(study):
    schema = study()
    assert schema.counts == ("calls", "rare", "visits")
    assert schema.transforms == {"calls": "anscombe", "rare": "anscombe", "visits": "log1p"}
    assert set(schema.levels) == {"ward", "sex"}
    assert schema.skewed == {"income": "log"}


def test_what_is_declared_decides(study):
    about = {"columns": {"calls": "continuous", "rare": "discrete", "age": "count"}, "transform": {"income": "sqrt"}}
    schema = study(about)
    assert schema.counts == ("visits", "age")
    assert schema.transforms == {"visits": "log1p", "income": "sqrt", "age": "anscombe"}
    assert "rare" in schema.levels
    assert schema.skewed == {}


def test_an_option_applies_to_all_numbers_and_a_declaration_precedes_it(study):
    schema = study({"transform": {"size": "none"}}, Reading(transform="log", transforms=(("age", "normal-scores"),)))
    expected = {"calls": "log1p", "rare": "log1p", "visits": "log1p", "income": "log", "age": "normal-scores"}
    assert schema.transforms == expected


def test_a_number_without_a_logarithm_is_named_with_its_line(study):
    with pytest.raises(BadInput, match=r"b\.csv: (line 12|row 11), column 'income': -3 is below 0 and has no log: use"):
        study(reading=Reading(transforms=(("income", "log"),)), income=(160, -3))


def test_labels_and_unknown_columns_cannot_be_transformed(study):
    for name in ("sex", "gone"):
        with pytest.raises(BadInput, match=f"--transform: '{name}' is not a column of numbers"):
            study(reading=Reading(transforms=((name, "log"),)))
    with pytest.raises(
        BadInput,
        match="transform: 'income': 'cube' is not 'normal-scores', 'log-ratio', 'log', 'sqrt', 'bounded' or 'none'",
    ):
        study({"transform": {"income": "cube"}})


def test_missing_rows_leave_the_transforms(study):
    schema = study(reading=Reading(missing="complete-rows"), income=(3, ""))
    assert schema.complete_rows
    assert schema.transforms == {"calls": "anscombe", "rare": "anscombe", "visits": "log1p"}
    assert schema.skewed == {"income": "log"}


def test_a_run_with_an_epsilon_takes_transforms_from_declarations_alone(study):
    about = {
        "kind": "mixed",
        "columns": {"calls": "count", **dict.fromkeys(("rare", "visits", "income", "size", "age"), "continuous")},
        "levels": {"ward": [*map(str, range(7))], "sex": ["f", "m"]},
        "transform": {"income": "log"},
    }
    schema = study(about, Reading(private=True))
    assert schema.transforms == {"calls": "anscombe", "income": "log1p"}
    assert schema.counts == ("calls",)


def test_tables_have_the_numbers_as_measured_and_are_written_with_their_transforms(study, tmp_path):
    study(reading=Reading(transforms=(("income", "log"),)))
    data = read_folder(tmp_path, Reading(transforms=(("income", "log"),)))
    if data.schema.streamed:
        return
    assert data.tables["a"][:, data.schema.variables.index("income")].mean() > 1000
    write_folder(tmp_path / "again", data)
    again = read_schema(tmp_path / "again")
    assert again.counts == data.schema.counts
    assert again.transforms == data.schema.transforms


def test_outliers_are_far_after_the_transform(study, tmp_path):
    reading = Reading(transforms=(("income", "log"),), outliers="set-aside")
    if "visits" not in study(reading=READ_ALL).variables or read_schema(tmp_path).streamed:
        return
    kept = read_folder(tmp_path, reading).schema
    v = kept.variables.index("income")
    assert sum(counts[v] for counts in kept.empty.values()) == 0 if kept.empty else True
    raw = read_folder(tmp_path, Reading(outliers="set-aside")).schema
    assert sum(counts[v] for counts in raw.empty.values()) > 20


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("none", ("none", ())),
        ("log", ("log", ())),
        ("a=log, b = normal-scores", ("none", (("a", "log"), ("b", "normal-scores")))),
        ("sqrt,a=b=none", ("sqrt", (("a=b", "none"),))),
    ],
)
def test_the_option(given, found):
    assert parse_transforms(given) == found


@pytest.mark.parametrize(
    ("given", "fault"),
    [("cube", "'cube' is not one of"), ("a=", "'' is not one of"), ("a=log,a=sqrt", "names the column 'a' twice")],
)
def test_an_invalid_option_is_refused(given, fault):
    with pytest.raises(BadInput, match=fault):
        parse_transforms(given)


def test_a_column_with_a_far_number_gets_a_bound_and_a_note_says_where(study, tmp_path):
    assert study(size=(160, 1e6)).transforms["size"] == "bounded"
    (note,) = [one for one in read_folder(tmp_path).notes if one.startswith("far numbers:")]
    assert "some numbers of size (b) are" in note
    (option,) = re.findall(r"--transform (\S+) keeps", note)
    kept = Reading(transforms=parse_transforms(option)[1])
    assert "size" not in read_schema(tmp_path, kept).transforms
    assert not any("far numbers" in one for one in read_folder(tmp_path, kept).notes)


@pytest.mark.parametrize("option", [{"outliers": "set-aside"}, {"transforms": (("size", "normal-scores"),)}])
def test_a_far_number_that_something_else_treats_gets_no_bound(study, tmp_path, option):
    study(size=(160, 1e6))
    if option.get("outliers") and read_schema(tmp_path).streamed:
        return
    assert read_schema(tmp_path, Reading(**option)).transforms.get("size") != "bounded"


def test_with_an_epsilon_no_cell_decides_about_a_bound(study):
    about = {
        "kind": "mixed",
        "columns": dict.fromkeys(("calls", "rare", "visits", "income", "size", "age"), "continuous"),
        "levels": {"ward": [*map(str, range(7))], "sex": ["f", "m"]},
    }
    assert study(about, Reading(private=True), size=(160, 1e6)).transforms == {}


def test_a_bounded_column_is_still_examined_for_skew(study):
    schema = study(income=(160, 1e12))
    assert schema.transforms["income"] == "bounded"
    assert schema.skewed == {"income": "log"}
