"""`fedbnsl algorithms`: the list, and a page for each algorithm."""

import json
from dataclasses import dataclass

import pytest

from fedbnsl.algorithms.registry import ALGORITHMS, STEPS
from fedbnsl.flows.options.parameters import field_meanings, parameters
from tests.flows.cli.test_commands import run


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
    assert found["alpha"][:2] == ["float", str(page["alpha"].default)]
    assert page["alpha"].meaning.startswith(found["alpha"][2])
    _, out, _ = run(capsys, "algorithms", "secure-sum")
    assert "equal-variance | notears | fed-sparse" in " ".join(out.split())


def test_an_unknown_algorithm_is_one_line_that_names_those_there_are(capsys):
    code, out, err = run(capsys, "algorithms", "magic")
    assert (code, out) == (2, "")
    assert err.startswith("error: unknown algorithm 'magic': available: fed-sparse, ")
    assert err.count("\n") == 1


@dataclass(frozen=True)
class Base:
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
