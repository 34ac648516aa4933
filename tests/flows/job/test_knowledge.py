"""Background knowledge on the command line: its traces in every file, the report and the terminal."""

import csv
import json

import pytest

from fedbnsl.data.folder.folder import read_structure, write_folder
from fedbnsl.data.generators.discrete import discrete
from tests.flows.commands import run


@pytest.fixture
def folder(tmp_path):
    """Two silos of six discrete variables X0, X1, ..."""
    write_folder(tmp_path / "data", discrete(6, 2, 400, 3))
    return tmp_path / "data"


@pytest.mark.parametrize("algorithm", ["secure-boss", "fed-pc", "fed-ges"])
def test_a_file_and_options_together_are_imposed_and_told(capsys, folder, tmp_path, algorithm, rendered):
    names = next(csv.reader((folder / "silo-1.csv").open()))
    a, b, c, d, *_ = names
    known = tmp_path / "known.csv"
    known.write_text(f"rule,source,target\nrequired,{a},{b}\ntier,{a},1\ntier,{c},2\n")
    code, out, err = run(
        capsys,
        *("learn", folder, "-a", algorithm, "--engine", "inline", "--out", tmp_path / "out", "-v"),
        *("--knowledge", known, "--forbidden", f"{d}->{a},{d}->{b}", "--no-parents", c),
    )
    assert code == 0, err
    assert "background knowledge: required arcs 1, forbidden arcs 8" in out
    rows = list(csv.DictReader((tmp_path / "out" / "structure.csv").open()))
    marked = [(row["source"], row["target"]) for row in rows if row["imposed"] == "1"]
    assert marked == [(a, b)]
    assert not {(d, a), (d, b), (c, a)} & {(row["source"], row["target"]) for row in rows}
    assert not [row for row in rows if row["target"] == c]
    told = json.loads((tmp_path / "out" / "config.json").read_text())["knowledge"]
    assert told["required"] == [[a, b]]
    assert [d, a] in told["forbidden"]
    assert len(told["forbidden"]) == 8
    report = (tmp_path / "out" / "report.html").read_text()
    assert "Background knowledge" in report
    assert "1 required" in report  # in the legend of the picture
    assert f"because they were required: {a} → {b}." in report
    assert read_structure(tmp_path / "out" / "structure.csv").variables  # read back, the column left aside


def test_without_knowledge_nothing_is_said_of_it(capsys, folder, tmp_path):
    code, out, _ = run(capsys, "learn", folder, "-a", "fed-pc", "--engine", "inline", "--out", tmp_path / "out")
    assert code == 0
    assert "background knowledge" not in out
    assert "imposed" not in (tmp_path / "out" / "structure.csv").read_text()
    assert "Background knowledge" not in (tmp_path / "out" / "report.html").read_text()
    assert json.loads((tmp_path / "out" / "config.json").read_text())["knowledge"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--required", "X0"), "--required 'X0': an arc must be 'A->B'"),
        (("--forbidden", "{0}->nobody"), "'nobody' is not a column of the data"),
        (("--required", "{0}->{1}", "--forbidden", "{0}->{1}"), "is both required and forbidden"),
        (("--required", "{0}->{1}", "--tiers", "{1}<{0}"), "is both required and forbidden"),
        (("--tiers", "{0},{1}<{0}"), "is in two tiers"),
        (("--tiers", "{0},{1}"), "one tier orders nothing: write < between tiers"),
        (("--required", "{0}->{1},{1}->{0}"), "required arcs form the cycle"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_written(capsys, folder, tmp_path, words, said):
    names = next(csv.reader((folder / "silo-1.csv").open()))
    given = [word.format(*names) for word in words]
    code, _, err = run(capsys, "learn", folder, "--engine", "inline", "--out", tmp_path / "out", *given)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_truth_of_a_class_has_the_directions_that_true_knowledge_tells(capsys, folder, tmp_path):
    truth = read_structure(folder / "truth.csv")
    arcs = ",".join(f"{source}->{target}" for source, target in truth.to_networkx().edges)
    base = ("learn", folder, "-a", "secure-boss", "--engine", "inline", "--required", arcs)
    code, _, err = run(capsys, *base, "--out", tmp_path / "out")
    assert code == 0, err
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["reversed"] == 0
    assert metrics["half_directed"] == 0
    assert metrics["missing"] == 0
