"""The confidence in edges, in files, report and pictures."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges, classify
from fedbnsl.algorithms.graphs.strengths import averaged_network, edge_strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.truth import read_structure
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.pictures.picture import draw_structure
from fedbnsl.tracking.pictures.style import UNSTABLE_OPACITY, Marks, pens
from fedbnsl.tracking.report.files import structure_csv
from fedbnsl.tracking.report.report import report_html
from fedbnsl.tracking.report.tables import MIN_STRENGTH, frequent_edges
from fedbnsl.tracking.result import Confidence

NAMES = ("a", "b", "c")


def structure(*edges, lagged=None):
    weights = np.zeros((3, 3))
    for source, target in edges:
        weights[NAMES.index(source), NAMES.index(target)] = 1.0
    return Structure(NAMES, weights, lagged=lagged)


@pytest.fixture
def sure(chain):
    """The run on a → b → c with ten resamples: a–b is in ten, b–c in seven (five as b → c), a–c in two."""
    drawn = [structure("ab", "bc")] * 5 + [structure("ab", "cb")] * 2 + [structure("ab", "ac")] * 2 + [structure("ab")]
    strengths = edge_strengths(drawn)
    return replace(chain, bootstrap=10, confidence=Confidence(strengths, 0.2, averaged_network(strengths), 3, 4321))


def read(path):
    with path.open() as file:
        return {(row["source"], row["target"]): row for row in csv.DictReader(file)}


def test_files_say_strength_and_direction_and_are_read_back(sure, tmp_path):
    written = write_outputs(sure, tmp_path / "run")
    learned, averaged = (read(written[name]) for name in ("structure.csv", "averaged.csv"))
    for rows in (learned, averaged):
        assert {edge: (row["strength"], row["direction"]) for edge, row in rows.items()} == {
            ("a", "b"): ("1.0", "1.0"),
            ("b", "c"): ("0.7", str(5 / 7)),
        }
    again = read_structure(written["structure.csv"], NAMES)
    np.testing.assert_array_equal(again.weights, sure.structure.weights)
    assert json.loads(written["config.json"].read_text())["bootstrap"] == 10


def test_an_edge_that_no_resample_has_is_of_strength_0_and_of_no_direction():
    lagged = np.zeros((1, 3, 3))
    lagged[0, 0, 0] = 0.5
    strengths = edge_strengths([structure("ab", lagged=lagged), structure()])
    assert structure_csv(ClassifiedEdges(structure("ab", "cb", lagged=lagged)), strengths).splitlines() == [
        "source,target,weight,lag,strength,direction",
        "a,b,1.0,0,0.5,1.0",
        "c,b,1.0,0,0.0,",
        "a,a,0.5,1,0.5,1.0",
    ]


def test_an_edge_of_exactly_the_minimum_strength_is_listed():
    """Of ten resamples, one has a → b, so its strength is a tenth; of eleven, it is less."""
    resamples = [structure("ab"), *[structure()] * 9]
    assert MIN_STRENGTH == 0.1
    assert [one.text for one in frequent_edges(edge_strengths(resamples), MIN_STRENGTH)] == ["a → b"]
    assert not list(frequent_edges(edge_strengths([*resamples, structure()]), MIN_STRENGTH))


def test_a_run_that_was_not_asked_says_nothing_of_it(chain, sure):
    assert "Confidence" not in report_html(chain)
    assert "The confidence in the edges is unknown: a silo was lost." in report_html(
        replace(sure, confidence=None, unresampled="a silo was lost")
    )


def test_lines_are_as_thick_as_edges_are_strong_whatever_they_weigh_or_are(sure):
    strengths = sure.confidence.strengths
    edges = classify(sure.structure, structure("ab", "ac"))
    pen = pens(edges, Marks(strengths))
    widths = {(edge.text, edge.category): round(pen(edge).width, 9) for edge in edges}
    assert widths == {("a → b", "right"): 2.5, ("b → c", "extra"): 1.9, ("a → c", "missing"): 0.9}
    lines = [
        patch.get_linewidth()
        for patch in draw_structure(ClassifiedEdges(sure.structure), marks=Marks(strengths)).axes[0].patches
    ]
    assert {2.5, 1.9} <= {round(float(width), 9) for width in lines}


def test_edges_of_at_most_half_of_the_resamples_are_pale_and_counted(sure):
    strengths = edge_strengths([structure("ab", "bc")] * 5 + [structure("ab")] * 5)
    axes = draw_structure(ClassifiedEdges(sure.structure), marks=Marks(strengths)).axes[0]
    assert {patch.get_alpha() for patch in axes.patches if patch.get_linewidth() == 1.5} == {UNSTABLE_OPACITY}
    assert "1 unstable" in {text.get_text() for text in axes.get_legend().get_texts()}
    firm = draw_structure(ClassifiedEdges(sure.structure), marks=Marks(sure.confidence.strengths)).axes[0]
    assert not any("unstable" in text.get_text() for text in firm.get_legend().get_texts())
    lagged = structure(lagged=np.eye(3)[None])
    over_time = draw_structure(ClassifiedEdges(lagged), marks=Marks(edge_strengths([lagged, structure()]))).axes[0]
    assert "3 unstable" in {text.get_text() for text in over_time.get_legend().get_texts()}
    assert UNSTABLE_OPACITY in {patch.get_alpha() for patch in over_time.patches}


def test_in_a_drawing_over_time_lagged_edges_are_as_thick_as_they_are_strong():
    lagged = np.zeros((1, 3, 3))
    lagged[0, 0, 1] = 0.3
    one = structure(lagged=lagged)
    strengths = edge_strengths([one, one, one, structure()])
    lines = [
        patch.get_linewidth() for patch in draw_structure(ClassifiedEdges(one), marks=Marks(strengths)).axes[0].patches
    ]
    assert 2.0 in [round(float(width), 9) for width in lines]
