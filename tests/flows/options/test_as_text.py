"""Options with several names accept text, lists, pairs and paths; an error states in one line what is expected."""

from pathlib import Path

import pandas as pd
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.options.learn import LearnOptions
from fedbnsl.flows.options.model import validate


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("tiers", [["age", "sex"], "dose", ("cure",)], "age,sex<dose<cure"),
        ("no_parents", ("age", "sex"), "age,sex"),
        ("no_parents", {"sex", "age"}, "age,sex"),
        ("required_arcs", [("a", "b"), "b->c"], "a->b,b->c"),
        ("forbidden_arcs", [["a", "b"]], "a->b"),
        ("knowledge", Path("known.csv"), "known.csv"),
        ("targets", Path("set.csv"), "set.csv"),
        ("targets", None, None),
        ("ignore", pd.Index(["a", "b"]), ("a", "b")),
        ("only", "a,b", ("a", "b")),
    ],
)
def test_python_s_own_types_are_read(name, given, text):
    assert getattr(validate(LearnOptions, {name: given}), name) == text


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("tiers", 5, "tiers such as 'age,sex<dose', or a list of lists of names"),
        ("tiers", [[1]], "tiers such as"),
        ("targets", ["a"], "none, unknown, or the name of a CSV file with columns silo, variable"),
        ("no_parents", 3, "names such as 'age,sex', or a list of names"),
        ("no_parents", [1], "names such as"),
        ("required_arcs", [("a", "b", "c")], "arcs such as 'A->B,B->C', or a list of pairs of names"),
        ("forbidden_arcs", {"a": "b"}, "arcs such as"),
        ("knowledge", True, "the name of a CSV file with columns rule, source, target"),
        ("ignore", 3, "names such as"),
        ("only", {"a": 1}, "names such as"),
    ],
)
def test_other_types_are_refused_in_one_line_that_says_what_is_expected(name, given, expected):
    with pytest.raises(BadInput) as refused:
        validate(LearnOptions, {name: given})
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{name} is ")
    assert f"expected {expected}" in line
