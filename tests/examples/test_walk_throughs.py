"""Every walk-through runs from its first cell to its last, and shows what it says it does."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def walked(tmp_path, monkeypatch, capsys):
    """A function: what a script leaves behind in its names, and all that it printed."""

    def walk(name):
        monkeypatch.chdir(tmp_path)
        left = runpy.run_path(str(EXAMPLES / f"{name}.py"))
        assert list(tmp_path.iterdir()) == []
        return left, capsys.readouterr().out

    return walk


def continuous(left, said):
    assert left["consensus"].metrics["shd"] == 0
    assert set(left["found"].graph.edges()) == set(left["consensus"].graph.edges())
    assert "report.html" in said


def private(left, said):
    spent = left["private"].result.privacy
    assert 0 < spent.spent <= 2.0
    assert left["exact"].metrics["shd"] == 0
    assert "above the budget of 1" in said


def discrete(left, said):
    assert left["found"].metrics["shd"] == left["other"].metrics["shd"] == 0
    assert left["other"].metrics["bytes_up"] < left["found"].metrics["bytes_up"]
    assert "phi(x1)" in said


def independence_tests(left, said):
    assert (left["pc"].result.structure.kind, left["fci"].result.structure.kind) == ("cpdag", "pag")
    assert left["blanket"].parents or left["blanket"].children or left["blanket"].neighbours
    assert "a PAG does not distinguish parents from spouses" in said


def time_series(left, said):
    found = left["found"]
    assert found.result.structure.lags == 1
    assert found.metrics["forecast_mse"] < found.metrics["persistence_mse"]
    assert set(left["personal"].result.local_structures) == set(left["tables"])
    assert "x1[t-1]" in said


def nonlinear(left, said):
    assert left["nonlinear"].metrics["shd"] < left["linear"].metrics["shd"]
    assert left["additive"].metrics["shd"] < left["linear"].metrics["shd"]
    assert "not all effects are linear" in said


def mixed_with_gaps(left, said):
    assert left["incomplete"].schema.gaps
    assert left["found"].metrics["shd"] == left["full"].metrics["shd"] == 0
    assert "of the cells are empty" in said


def bootstrap(left, said):
    strengths = left["confidence"].strengths.strength
    assert ((strengths > 0) & (strengths < 1)).any()
    assert not left["constrained"].weights[left["first"]].any()
    assert "of the resamples" in said


def cross_validation(left, said):
    scores = left["search"].cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores.max() > scores.min()
    assert left["best"].learned_.result.schema.rows == dict.fromkeys(left["made"].tables, 100)
    assert "mean_test_score" in said


SHOWN = {
    one.__name__: one
    for one in (
        continuous,
        private,
        discrete,
        independence_tests,
        time_series,
        nonlinear,
        mixed_with_gaps,
        bootstrap,
        cross_validation,
    )
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SHOWN)
def test_a_walk_through_shows_what_it_says(walked, name):
    left, said = walked(name)
    SHOWN[name](left, said)


def test_every_script_is_walked_through_and_listed():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    listed = re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) \|", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE)
    assert set(SHOWN) == scripts == set(listed)


@pytest.mark.parametrize("name", SHOWN)
def test_a_script_is_short_and_in_cells_that_say_what_they_do(name):
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    assert text.startswith('"""')
    assert text.count("\n") <= 60
    assert len(re.findall(r"^# %% \S.*[.:?]$", text, re.MULTILINE)) == text.count("# %%") >= 3
