"""A direction into a variable that nothing in a table can cause is not claimed anywhere, whatever the data say."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.flows.terminal.summary import show_result
from fedbnsl.tracking.report.drawings import marks_of
from fedbnsl.tracking.report.explore import graph_data
from fedbnsl.tracking.report.files import csv_text, edge_table_of
from fedbnsl.tracking.report.sections import SECTIONS
from fedbnsl.tracking.report.statements import statements
from fedbnsl.tracking.result import CompletedRun


def silos():
    """Two silos in which the data, but not the names, support dose → age ← pain."""
    rng, tables = np.random.default_rng(0), {}
    for silo in "ab":
        dose, pain = rng.exponential(size=(2, 500))
        tables[silo] = pd.DataFrame({"dose": dose, "pain": pain, "age": dose + pain + rng.exponential(size=500)})
    return tables


@pytest.fixture(scope="module")
def result():
    return learn(silos(), "secure-boss", bootstrap=0).result


def test_every_place_doubts_the_same_directions(result, capsys, tmp_path):
    assert result.doubted.keys() == {("dose", "age"), ("pain", "age")}
    rows = list(csv.DictReader(io.StringIO(csv_text(*edge_table_of(result)))))
    assert {row["basis"] for row in rows} == {"doubted: nothing in a table can cause age"}
    marks = marks_of(result)
    assert all(map(marks.doubtful, result.edges))
    assert not marks.basis
    assert [edge["doubtful"] for edge in graph_data(result)["edges"]] == [True, True]
    sentences = [one.text for one in statements(result).sentences]
    assert all("so the direction of the graph is doubtful" in text and "higher by" not in text for text in sentences)
    assert len(sentences) == 2
    show_result(CompletedRun(result, tmp_path))
    said = capsys.readouterr().out
    assert said.count("doubtful direction") == 2
    assert "2 edges, 2 with a direction (2 doubtful)." in said
    graph = next(one for one in SECTIONS if one.name == "graph")
    assert list(graph.lines(result)) == ["2 edges, 2 with a direction (2 doubtful)."]


def test_what_background_knowledge_requires_is_not_doubted():
    known = learn(silos(), "secure-boss", bootstrap=0, required_arcs="dose->age").result
    assert ("dose", "age") not in known.doubted
    assert {known.basis_of(edge) for edge in known.edges if edge.source == "dose"} == {"background knowledge"}


def test_the_advice_on_an_impossible_cause_leaves_nothing_to_doubt(result):
    (found,) = (one for one in result.diagnosed.findings if one.name == "impossible cause")
    assert "--no-parents age" in found.advice
    again = learn(silos(), "secure-boss", bootstrap=0, no_parents="age").result
    assert not again.doubted
    assert {(edge.source, edge.target) for edge in again.edges if edge.directed} >= {("age", "dose"), ("age", "pain")}


def test_a_variable_with_another_name_is_not_doubted():
    renamed = {silo: table.rename(columns={"age": "score"}) for silo, table in silos().items()}
    assert not learn(renamed, "secure-boss", bootstrap=0).result.doubted
