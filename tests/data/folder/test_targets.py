"""Intervention targets from about.json and from a file, and one-line errors for invalid ones."""

import json

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder, read_schema, write_folder
from fedbnsl.data.folder.targets import named_targets, read_targets, with_targets


@pytest.fixture
def folder(tmp_path):
    for silo in ("pma", "ly", "plain"):
        rows = "\n".join(f"{i * 5 % 13}.25,{i * i % 7},{i * 3 % 5}.5" for i in range(12))
        (tmp_path / f"{silo}.csv").write_text(f"PKC,Akt,Raf\n{rows}\n")
    return tmp_path


def declare(folder, **about):
    (folder / "about.json").write_text(json.dumps(about))


def test_targets_are_those_of_about_json_unless_an_option_has_others(folder):
    declare(folder, targets={"pma": ["PKC", "Raf"], "ly": []})
    assert read_folder(folder).schema.targets == {"pma": (("PKC", "Raf"),)}
    assert read_folder(folder, Reading(targets=(("ly", ("Akt",)),))).schema.targets == {"ly": (("Akt",),)}
    assert not read_folder(folder, Reading(targets=())).schema.has_targets


def test_targets_of_columns_and_silos_that_are_left_out_are_left_out(folder):
    declare(folder, targets={"pma": ["PKC", "Raf"], "ly": ["Akt"]})
    assert read_folder(folder, Reading(ignore=("Raf",))).schema.targets == {"pma": (("PKC",),), "ly": (("Akt",),)}
    assert read_folder(folder, Reading(silos=("ly", "plain"))).schema.targets == {"ly": (("Akt",),)}


def test_a_folder_that_is_written_again_has_the_same_targets(folder, tmp_path_factory):
    declare(folder, targets={"pma": ["PKC"]})
    copy = tmp_path_factory.mktemp("copy")
    write_folder(copy, read_folder(folder))
    assert read_folder(copy).schema.targets == {"pma": (("PKC",),)}


REFUSED = {
    "an unknown silo": ({"pmaa": ["PKC"]}, "about.json: targets: there is no silo 'pmaa'; available: ly, plain, pma"),
    "an unknown variable": ({"pma": ["PKA"]}, "about.json: targets: silo pma targets 'PKA', which is not a column"),
    "a name for a list": ({"pma": "PKC"}, r"about.json: targets: 'pma': 'PKC' is not a list"),
    "a list": (["PKC"], r"about.json: targets: .* is not a JSON object, such as"),
}


@pytest.mark.parametrize(("targets", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_about_json_may_not_say(folder, targets, reason):
    declare(folder, targets=targets)
    with pytest.raises(BadInput, match=reason) as refusal:
        read_folder(folder)
    assert "\n" not in str(refusal.value)


FILES = {
    "another header": ("silo,target\npma,PKC\n", "targets.csv: line 1: the header must be silo,variable or condition,"),
    "an empty cell": ("silo,variable\npma,PKC\n\npma,\n", "targets.csv: line 4, column 'variable': the cell is empty"),
    "three cells": ("silo,variable\npma,PKC,1\n", "targets.csv: line 2: 3 cells, but the header names 2 columns"),
}


def test_a_file_has_a_line_for_each_target(tmp_path):
    (tmp_path / "t.csv").write_text("silo,variable\npma, PKC\nly,Akt\npma,Raf\npma,PKC\n")
    assert read_targets(str(tmp_path / "t.csv")) == {"pma": ("PKC", "Raf"), "ly": ("Akt",)}
    assert read_targets("none") == {}
    with pytest.raises(BadInput, match=r"--targets missing\.csv: no such file"):
        read_targets("missing.csv")


@pytest.mark.parametrize(("text", "reason"), FILES.values(), ids=FILES)
def test_a_file_that_is_miswritten_is_refused(tmp_path, text, reason):
    (tmp_path / "targets.csv").write_text(text)
    with pytest.raises(BadInput, match=reason):
        read_targets(str(tmp_path / "targets.csv"))


@pytest.fixture
def mixed_rows(tmp_path):
    """Two silos, each with rows of several conditions in random order."""
    for silo, sizes in (("north", {"none": 30, "pma": 20}), ("south", {"pma": 15, "ly": 12, "none": 40})):
        rng = np.random.default_rng(len(silo))
        drugs = rng.permutation([drug for drug, count in sizes.items() for _ in range(count)])
        rows = [f"{x:.3f},{drug},{y:.3f}" for (x, y), drug in zip(rng.normal(size=(len(drugs), 2)), drugs, strict=True)]
        (tmp_path / f"{silo}.csv").write_text("\n".join(["PKC,drug,Akt", *rows]))
    return tmp_path


def test_levels_of_a_column_are_conditions_with_rows_in_their_order(mixed_rows):
    declare(mixed_rows, targets={"pma": ["PKC"], "ly": ["Akt"]})
    found = read_folder(mixed_rows, Reading(condition="drug"))
    assert found.schema.variables == ("PKC", "Akt")
    assert found.schema.condition_names == {"north": ("none", "pma"), "south": ("ly", "none", "pma")}
    assert found.schema.stretches == {"north": (30, 20), "south": (12, 40, 15)}
    assert found.schema.targets == {"north": ((), ("PKC",)), "south": (("Akt",), (), ("PKC",))}
    frame = pd.read_csv(mixed_rows / "south.csv")
    ordered = frame.sort_values("drug", kind="stable")[["PKC", "Akt"]].to_numpy()
    np.testing.assert_array_equal(found.tables["south"], ordered)
    declare(mixed_rows, targets={"pma": ["PKC"], "ly": ["Akt"]}, condition="drug")
    assert read_folder(mixed_rows).schema.targets == found.schema.targets
    assert read_schema(mixed_rows).condition_names == found.schema.condition_names


def test_without_targets_a_column_of_conditions_is_no_variable_either(mixed_rows):
    declare(mixed_rows, condition="drug", targets={"pma": ["PKC"]})
    found = read_folder(mixed_rows, Reading(targets=()))
    assert found.schema.variables == ("PKC", "Akt")
    assert not found.schema.has_targets
    assert (found.schema.stretches, found.schema.condition_names) == ({}, {})


def test_rows_of_conditions_that_are_written_again_are_the_same(mixed_rows, tmp_path_factory):
    declare(mixed_rows, targets={"pma": ["PKC"]}, condition="drug")
    data, copy = read_folder(mixed_rows), tmp_path_factory.mktemp("copy")
    write_folder(copy, data)
    again = read_folder(copy)
    assert (again.schema.targets, again.schema.stretches) == (data.schema.targets, data.schema.stretches)
    np.testing.assert_array_equal(again.tables["south"], data.tables["south"])


def test_only_complete_rows_count_for_conditions(mixed_rows):
    declare(mixed_rows, targets={"pma": ["PKC"]}, condition="drug")
    lines = (mixed_rows / "south.csv").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if ",none," in line)
    lines[first] = ",none,0.5"
    (mixed_rows / "south.csv").write_text("\n".join(lines))
    found = read_folder(mixed_rows, Reading(missing="complete-rows"))
    assert found.schema.stretches["south"] == (12, 39, 15)
    assert len(found.tables["south"]) == 66


CONDITIONS = {
    "no such column": ({}, {"condition": "dose"}, "north.csv: --condition: there is no column 'dose'"),
    "no targets": ({}, {"condition": "drug"}, "--condition 'drug' needs the variables that were set in each condition"),
    "an unknown condition": (
        {"targets": {"pm": ["PKC"]}},
        {"condition": "drug"},
        "about.json: targets: there is no condition 'pm'; available: ly, none, pma",
    ),
    "an unknown variable": (
        {"targets": {"pma": ["PKA"]}},
        {"condition": "drug"},
        "about.json: targets: condition pma targets 'PKA', which is not a column".replace("pma t", "'pma' t"),
    ),
    "not a name": ({"condition": ["drug"]}, {}, "about.json: condition: .* is not text"),
    "a column that is ignored": ({}, {"condition": "drug", "ignore": ("drug",)}, "--condition and --ignore both name"),
    "an ε": ({"targets": {"pma": ["PKC"]}, "condition": "drug"}, {"private": True}, "--condition cannot be used with"),
}


@pytest.mark.parametrize(("about", "options", "reason"), CONDITIONS.values(), ids=CONDITIONS)
def test_what_conditions_may_not_be(mixed_rows, about, options, reason):
    declare(mixed_rows, **about)
    with pytest.raises(BadInput, match=reason) as refusal:
        read_folder(mixed_rows, Reading(**options))
    assert "\n" not in str(refusal.value)


def test_a_condition_of_few_rows_and_a_row_without_a_condition_are_refused(mixed_rows):
    declare(mixed_rows, targets={"pma": ["PKC"]}, condition="drug")
    whole = (mixed_rows / "south.csv").read_text()
    (mixed_rows / "south.csv").write_text(whole + "\n" + "\n".join(["1.5,few,2.5"] * 9))
    with pytest.raises(BadInput, match=r"south.csv: column 'drug': condition 'few' has 9 rows; the minimum is 10"):
        read_folder(mixed_rows)
    (mixed_rows / "south.csv").write_text(whole + "\n1.5,,2.5")
    with pytest.raises(BadInput, match=r"south.csv: line 69, column 'drug'"):
        read_folder(mixed_rows)


def test_targets_by_condition_come_from_a_file(mixed_rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("targets") / "t.csv"
    path.write_text("condition,variable\npma,PKC\n")
    named = tuple(read_targets(str(path)).items())
    found = read_folder(mixed_rows, Reading(condition="drug", targets=named))
    assert found.schema.targets == {"north": ((), ("PKC",)), "south": ((), (), ("PKC",))}
    assert named_targets(found.schema) == {"pma": ("PKC",)}


def test_a_condition_may_target_an_excluded_column():
    names = dict.fromkeys("ab", ("control", "drug"))
    schema = Schema(("x", "y"), {"a": 50, "b": 50}, condition_names=names, aside={"z": "left out by --ignore"})
    found = with_targets(schema, {"drug": ("z", "x")}, "t.csv", condition="arm")
    assert found.targets == {"a": ((), ("x",)), "b": ((), ("x",))}
