"""When a scheduled run asks the same question as the previous one: everything that can change the answer counts."""

import json

import pytest

from fedbnsl.flows.engines.resuming import IRRELEVANT_OPTIONS
from fedbnsl.flows.engines.run_comparison import settings_digest
from fedbnsl.flows.options.learn import LearnSettings
from tests.flows.options.values import OTHER


@pytest.fixture
def folder(tmp_path):
    data = tmp_path / "study"
    data.mkdir()
    (data / "clinic.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    (data / "truth.csv").write_text("source,target\na,b\n")
    (data / "about.json").write_text(json.dumps({"kind": "continuous"}))
    (tmp_path / "k.csv").write_text("rule,source,target\nrequired,a,b\n")
    (tmp_path / "federation.toml").write_text('name = "one"\n')
    (tmp_path / "t.csv").write_text("silo,variable\nclinic,a\n")
    return data


def question(folder, **options):
    return settings_digest(LearnSettings(data=str(folder), **options))


@pytest.mark.parametrize("name", sorted(set(LearnSettings.model_fields) - {"data"}))
def test_an_option_that_matters_makes_another_question(folder, name):
    value = True if name == "resume" else OTHER[name]
    assert (question(folder, **{name: value}) == question(folder)) == (name in IRRELEVANT_OPTIONS)


def test_what_does_not_matter_is_named():
    """Its folder, resuming and waiting times do not affect what a run learns."""
    assert {"name", "out", "resume", "silo_patience"} == IRRELEVANT_OPTIONS


@pytest.mark.parametrize(
    ("file", "option"),
    [("k.csv", "knowledge"), ("federation.toml", "federation"), ("t.csv", "targets"), ("study/truth.csv", None)],
)
def test_other_contents_of_a_file_of_the_same_name_are_another_question(folder, file, option):
    path = folder.parent / file
    options = {option: str(path)} if option else {}
    before = question(folder, **options)
    assert question(folder, **options) == before
    path.write_text(path.read_text().replace("a", "c", 1))
    other = question(folder, **options)
    assert other != before
    path.unlink()
    assert question(folder, **options) not in (before, other)


def test_a_file_does_not_stand_in_for_another(folder):
    """The contents of two files, knowledge and federation, are swapped, which is a different question."""
    k, federation = str(folder.parent / "k.csv"), str(folder.parent / "federation.toml")
    before = question(folder, knowledge=k, federation=federation)
    contents = [(folder.parent / name).read_text() for name in ("k.csv", "federation.toml")]
    for name, text in zip(("federation.toml", "k.csv"), contents, strict=True):
        (folder.parent / name).write_text(text)
    assert question(folder, knowledge=k, federation=federation) != before


def test_rows_are_no_part_of_the_question(folder):
    """The seals show changes of the rows."""
    before = question(folder)
    (folder / "clinic.csv").write_text("a,b,c\n7,8,9\n4,5,6\n")
    assert question(folder) == before


def test_another_version_may_answer_otherwise(folder, monkeypatch):
    from fedbnsl.flows.engines import run_comparison

    before = question(folder)
    monkeypatch.setattr(run_comparison, "version", lambda name: "0.0.0")
    assert question(folder) != before
