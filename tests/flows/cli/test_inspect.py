"""How the tables of a folder are read is shown before learning and kept with the result."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.flows.options.learn import LearnOptions
from tests.flows.commands import run


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    """Two hospitals, one of which uses other units and has no cholesterol; both have ids and a constant column."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    Path("hospitals").mkdir()
    for silo, unit, first in (("east", 1, 0), ("west", 1000, 60)):
        lines = ["id,sex,weight,chol,country"]
        for i in range(60):
            chol = "" if silo == "west" else f"{rng.normal(200, 20):.1f}"
            weight = "" if i % 10 == 0 else f"{rng.normal(70, 9) * unit:.2f}"
            lines.append(f"{first + i},{rng.choice(['f', 'm'])},{weight},{chol},AT")
        Path("hospitals", f"{silo}.csv").write_text("\n".join(lines) + "\n")


def test_inspect_shows_columns_rows_and_what_is_to_be_known(capsys, hospitals):
    code, out, err = run(capsys, "inspect", "hospitals")
    assert (code, err) == (0, "")
    first, header, *rows = out.splitlines()
    assert first == "mixed data, 3 variables; 120 rows in 2 silos: east 60, west 60"
    assert header.split() == ["column", "kind", "content", "missing", "east", "west"]
    assert rows[0].split() == ["sex", "labels", "f,", "m"]
    assert " ".join(rows[1].split()) == "weight numbers numbers, about 63 to 63000 10 % 10 % 10 %"
    assert " ".join(rows[2].split()) == "chol numbers numbers, about 200 50 % all"
    assert rows[3:] == [
        "excluded: id: row numbers or ids: all values are distinct",
        "excluded: country: constant: every cell is 'AT'",
        "note: chol: empty in every row of west",
        "note: weight: the median at west is about 1e+03 times the other silos' median: is it in another unit there?",
        "note: sex: no other column can be a cause: consider --no-parents sex",
    ]
    assert sorted(path.name for path in Path("hospitals").iterdir()) == ["east.csv", "west.csv"]


def test_inspect_takes_the_options_of_learn(capsys, hospitals):
    code, out, _ = run(
        capsys, "inspect", "hospitals", "--ignore", "chol,id", "--ignore", "sex", "--missing", "complete-rows"
    )
    assert code == 0
    assert out.splitlines()[0] == "continuous data, 1 variable; 108 rows in 2 silos: east 54, west 54"
    assert "excluded: id, sex, chol: left out by --ignore" in out
    code, _, err = run(capsys, "inspect", "hospitals", "--missing", "guess")
    assert (code, err.count("\n")) == (2, 1)
    assert "missing is 'guess'" in err


def test_columns_are_words_with_commas_or_a_list():
    assert LearnOptions(ignore="a,b").ignore == LearnOptions(ignore=["a", "b"]).ignore == ("a", "b")


def test_a_run_says_how_its_tables_were_read(capsys, hospitals):
    asked = ("--ignore", "sex", "--ignore", "chol", "--missing", "complete-rows", "-a", "secure-sum")
    for silo in ("east", "west"):
        path = Path("hospitals", f"{silo}.csv")
        lines = path.read_text().splitlines()
        path.write_text("\n".join(f"{line},{i / 4 if i else 'x'}" for i, line in enumerate(lines)) + "\n")
    code, out, err = run(capsys, "learn", "hospitals", "--engine", "inline", "--out", "out", *asked)
    assert code == 0, err
    note = "weight: the median at west is about 1e+03 times the other silos' median: is it in another unit there?"
    assert f"note: {note}" in out
    config = json.loads(Path("out/config.json").read_text())
    assert config["notes"] == [note]
    assert config["complete_rows"] is True
    assert config["aside"]["country"] == "constant: every cell is 'AT'"
    report = Path("out/report.html").read_text()
    assert "<h2>Data</h2>" in report
    assert "Each silo excluded its rows with missing values" in report
    assert "is it in another unit there?" in report


@pytest.mark.parametrize(("breaks", "said"), [((), "3"), ((4,), "4"), ((3, 9), "5")])
def test_inspect_counts_the_stretches_of_series(capsys, tmp_path, breaks, said):
    """Three silos; one of them misses some times."""
    (tmp_path / "about.json").write_text('{"kind": "time-series", "step": 1}')
    rng = np.random.default_rng(2)
    for silo, missing in (("a", ()), ("b", breaks), ("c", ())):
        lines = [f"{t},{rng.normal():.3f},{rng.normal():.3f}" for t in range(14) if t not in missing]
        (tmp_path / f"{silo}.csv").write_text("\n".join(["time,x,y", *lines]) + "\n")
    code, out, err = run(capsys, "inspect", tmp_path)
    assert code == 0, err
    ends = "each ends where its series ends, a time is missing or a cell is empty"
    assert f"{said} unbroken stretches: {ends}" in " ".join(out.split())
    (tmp_path / "b.csv").write_text("\n".join(["time,x,y", *lines[:-1], "13,,1"]) + "\n")
    code, out, err = run(capsys, "inspect", tmp_path)
    assert code == 0, err
    assert "3 unbroken stretches: each ends where its series ends or a time is missing" in " ".join(out.split())
    assert "or a cell is empty" not in out
