"""The report's sentences about the strongest edges: effects of the fitted model, and no unsupported claims."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.strengths import edge_strengths
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import Network, linear_network
from fedbnsl.tracking.report.report import report_html
from fedbnsl.tracking.report.statements import MAX_STATEMENTS, statements
from fedbnsl.tracking.result import NO_PARAMETERS, Confidence, Parameters, RunResult

NAMES = ("a", "b", "c")


def run(structure, network=None, strengths=None):
    """A run that learned `structure` from 10,000 rows, and fitted `network`."""
    levels = getattr(network, "levels", {})
    return RunResult(
        name="run",
        algorithm="secure-linear",
        params={},
        seed=1,
        engine="inline",
        dataset="study",
        about={},
        schema=Schema(structure.variables, {"north": 4000, "south": 6000}, *(["discrete", levels] if levels else [])),
        structure=structure,
        truth=None,
        outcome="converged",
        lost=(),
        rounds=(),
        metrics={},
        parameters=Parameters(network, "fitted") if network else NO_PARAMETERS,
        bootstrap=10 if strengths else 0,
        confidence=Confidence(strengths, 0.5, structure, 1, 100) if strengths else None,
    )


def chain():
    """B = 2 A + C + e, with Var A = 4, Var C = 1, Var e = 1."""
    weights = np.array([[0, 2.0, 0], [0, 0, 0], [0, 1.0, 0]])
    structure = Structure(NAMES, weights)
    return structure, linear_network(structure, np.zeros(3), np.array([4.0, 1.0, 1.0]))


def test_an_edge_of_numbers_has_the_effect_of_one_standard_deviation():
    found = statements(run(*chain()))
    assert [one.edge.text for one in found.sentences] == ["a → b", "c → b"]
    first = found.sentences[0].text
    assert "with a higher by 2 (one standard deviation), the mean of b is higher by 4 (95 % interval" in first
    assert "c held fixed" in first
    low, high = (float(end) for end in first.split("interval ")[1].split(")")[0].split(" to "))
    # The weight has the standard error sqrt(1 / (4 · 10,000)) = .005, two units of A twice that.
    assert (low, high) == pytest.approx((4 - 1.96 * 0.01, 4 + 1.96 * 0.01), abs=0.006)
    assert found.sentences[0].size == pytest.approx(4 / np.sqrt(18))


@pytest.mark.parametrize(("lost", "rows"), [((), 10_000), (("north",), 6000), (("south",), 4000)])
def test_an_interval_is_that_of_the_rows_of_the_silos_that_stayed(lost, rows):
    found = statements(replace(run(*chain()), lost=lost)).sentences[0].text
    low, high = (float(end) for end in found.split("interval ")[1].split(")")[0].split(" to "))
    assert high - low == pytest.approx(2 * 1.96 * 2 * np.sqrt(1 / (4 * rows)), abs=0.011)


def test_an_edge_of_labels_names_the_levels_that_differ_most():
    tables = {
        "a": np.array([0.5, 0.3, 0.2]),
        "b": np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]]),
    }
    levels = {"a": ("low", "mid", "top"), "b": ("no", "yes")}
    network = Network(("a", "b"), levels, {"a": (), "b": ("a",)}, tables)
    (one,) = statements(run(network.structure, network)).sentences
    assert "with a = top instead of low, the probability of b = yes is higher by 0.7 (95 % interval" in one.text


def test_an_undirected_edge_is_said_to_be_open():
    structure, network = chain()
    both = (structure.adjacency | structure.adjacency.T).astype(float)
    said = statements(run(Structure(NAMES, both, "cpdag"), network)).sentences
    assert all("the data do not determine the direction. If the direction is" in one.text for one in said)
    assert "If the direction is a → b, then with a higher by 2" in said[0].text


def test_unstable_edges_are_counted_and_not_stated():
    structure, network = chain()
    without = Structure(NAMES, structure.weights * [[1], [1], [0]])
    strengths = edge_strengths([structure] * 2 + [without] * 8)
    found = statements(run(structure, network, strengths))
    assert [one.edge.text for one in found.sentences] == ["a → b"]
    assert found.unstable == 1
    assert found.sentences[0].text.endswith("; found in all 10 resamples, all with this direction.")
    html = report_html(run(structure, network, strengths))
    assert "Not described: 1 edge that at most half of the resamples have." in " ".join(html.split())


def test_the_share_of_a_direction_is_said_where_it_is_not_all():
    structure, network = chain()
    turned = Structure(NAMES, np.where(structure.weights == 2, 0, structure.weights) + np.diag([2.0, 0], -1))
    (first, _) = statements(run(structure, network, edge_strengths([structure] * 7 + [turned] * 3))).sentences
    assert first.text.endswith("; found in all 10 resamples, 70 % of them with this direction.")


def test_no_sentence_is_about_a_level_that_hardly_any_row_has():
    """Otherwise a declared level without rows would be the reference of all comparisons."""
    levels = {"a": ("Ja", "no", "yes"), "b": ("no", "yes")}
    tables = {"a": np.array([0.001, 0.599, 0.4]), "b": np.array([[0.01, 0.99], [0.8, 0.2], [0.3, 0.7]])}
    network = Network(("a", "b"), levels, {"a": (), "b": ("a",)}, tables)
    structure = Structure(("a", "b"), np.array([[0, 1.0], [0, 0]]))
    (one,) = statements(run(structure, network)).sentences
    assert "with a = yes instead of no, the probability of b = yes is higher by 0.5 " in one.text


def test_only_the_strongest_of_many_edges_are_stated():
    names = tuple(f"x{k}" for k in range(9))
    weights = np.triu(np.arange(81.0).reshape(9, 9), 1) / 100
    structure = Structure(names, weights)
    found = statements(run(structure, linear_network(structure, np.zeros(9), np.ones(9))))
    assert len(found.sentences) == MAX_STATEMENTS
    assert found.weaker == 36 - MAX_STATEMENTS
    sizes = [one.size for one in found.sentences]
    assert sizes == sorted(sizes, reverse=True)


def test_released_weights_have_no_interval():
    structure, network = chain()
    (first, _) = statements(run(structure)).sentences
    assert first.text == ": with a higher by one unit, the mean of b is higher by 2, by the learned weight."
    assert "interval" not in statements(replace(run(structure, network), privacy=object())).sentences[0].text


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (("yes", "no"), "with a = yes instead of no, the probability of b = yes is higher by 0.6"),
        (("no", "yes"), "with a = yes instead of no, the probability of b = yes is higher by 0.6"),
        (("low", "high"), "with a = high instead of low, the probability of b = high is higher by 0.6"),
    ],
)
def test_a_sentence_affirms_where_the_labels_deny(levels, said):
    """The report formerly said "with smoke = no instead of yes, the probability of cancer = no is higher"."""
    table = {"a": np.array([0.5, 0.5]), "b": np.array([[0.8, 0.2], [0.2, 0.8]])}
    structure = Structure(("a", "b"), np.array([[0, 1.0], [0, 0]]))
    network = Network(("a", "b"), {"a": levels, "b": levels}, {"a": (), "b": ("a",)}, table)
    text = statements(run(structure, network)).sentences[0].text
    assert said in text
    low, high = (float(end) for end in text.split("interval ")[1].split(")")[0].split(" to "))
    assert 0.5 < low < 0.6 < high < 0.7
