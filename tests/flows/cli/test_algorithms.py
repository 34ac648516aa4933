"""`fedbnsl algorithms`: the list, and a page for each algorithm."""

import json
from dataclasses import dataclass

import pytest
from rich.console import Console

from fedbnsl.algorithms.core.settings import Settings
from fedbnsl.algorithms.registry import ALGORITHMS, STEPS
from fedbnsl.flows.options.parameters import field_meanings, parameters
from fedbnsl.flows.terminal import console
from tests.flows.commands import run


@pytest.mark.parametrize("name", [*ALGORITHMS, *STEPS])
def test_every_parameter_has_a_meaning(name):
    known = parameters((ALGORITHMS | STEPS)[name].config)
    assert [one.name for one in known if not one.meaning] == []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page(capsys, name):
    code, out, _ = run(capsys, "algorithms", name)
    entry, said = ALGORITHMS[name], " ".join(out.split())
    assert code == 0
    assert out.startswith(name)
    assert all(word in said for word in entry.disclosure.split())
    assert all(f"preset={preset}" in said for preset in entry.presets)
    code, out, _ = run(capsys, "algorithms", name, "--json")
    page = json.loads(out)
    assert page["leaves"] == entry.disclosure
    assert set(page["parameters"]) == set(page["meanings"]) == set(page["types"])


def test_the_page_tells_choices_defaults_and_meanings(capsys):
    _, out, _ = run(capsys, "algorithms", "fed-pc")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    found = {row[0]: row[1:] for row in rows}
    page = {one.name: one for one in parameters(ALGORITHMS["fed-pc"].config)}
    assert found["alpha"][:2] == ["float between 0 and 1", str(page["alpha"].default)]
    assert page["alpha"].meaning.startswith(found["alpha"][2])
    _, out, _ = run(capsys, "algorithms", "secure-sum")
    assert "equal-variance | notears | fed-sparse" in " ".join(out.split())


def test_an_unknown_algorithm_is_one_line_that_names_those_there_are(capsys):
    code, out, err = run(capsys, "algorithms", "magic")
    assert (code, out) == (2, "")
    assert err.startswith("error: unknown algorithm 'magic': available: fed-sparse, ")
    assert err.count("\n") == 1


@dataclass(frozen=True)
class Base(Settings):
    """Settings to inherit from."""

    first: float = 1.0
    """what the first
    is"""
    second: int = 2
    """what the second is"""


@dataclass(frozen=True)
class Derived(Base):
    """Another default for one, another meaning for the other."""

    first: float = 3.0
    second: int = 4
    """another meaning"""
    third: int = 5


def test_a_meaning_is_inherited_until_it_is_stated_anew():
    assert field_meanings(Derived) == {"first": "what the first is", "second": "another meaning"}
    assert [one.default for one in parameters(Derived)] == [3.0, 4, 5]
    assert parameters(Derived)[2].meaning == ""


def test_the_list_is_by_family_and_fits_a_narrow_terminal(capsys, monkeypatch):
    code, out, _ = run(capsys, "algorithms")
    assert code == 0
    lines = out.splitlines()
    assert (
        lines.index("summed moments") < lines.index("secure-linear") < lines.index("baselines") < lines.index("notears")
    )
    assert [name for name in (*ALGORITHMS, *STEPS) if name not in lines] == []
    monkeypatch.setattr(console, "console", lambda: Console(width=60, highlight=False, markup=False))
    _, out, _ = run(capsys, "algorithms")
    assert max(map(len, out.splitlines())) <= 60
    said = " ".join(out.split())
    assert all(entry.disclosure in said for entry in ALGORITHMS.values())


def test_a_folder_leaves_those_that_learn_from_such_data(capsys, tmp_path):
    for silo in "ab":
        rows = "".join(f"{time},{(3 * time + ord(silo)) % 7},{time * time % 11}\n" for time in range(40))
        (tmp_path / f"{silo}.csv").write_text(f"time,x,y\n{rows}")
    (tmp_path / "about.json").write_text('{"kind": "time-series"}')
    _, out, _ = run(capsys, "algorithms", "--data", tmp_path, "--json")
    assert set(json.loads(out)) == {name for name, entry in ALGORITHMS.items() if "time-series" in entry.kinds}
    _, out, _ = run(capsys, "algorithms", "--data", tmp_path)
    assert f"{tmp_path}: time-series data" in out
    assert "fdbnl" in out.splitlines()
    assert "fed-sparse" not in out.splitlines()
