"""Targets of experiments, from about.json and from a file: what is read, and what is refused in one line."""

import json

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.folder.targets import read_targets


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
    "a name for a list": ({"pma": "PKC"}, r"about.json: targets: 'pma': not a list of names of variables"),
    "a list": (["PKC"], r"about.json: targets: not a JSON object such as"),
}


@pytest.mark.parametrize(("targets", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_about_json_may_not_say(folder, targets, reason):
    declare(folder, targets=targets)
    with pytest.raises(BadInput, match=reason) as refusal:
        read_folder(folder)
    assert "\n" not in str(refusal.value)


FILES = {
    "another header": ("silo,target\npma,PKC\n", "targets.csv: line 1: the header must be silo,variable"),
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
