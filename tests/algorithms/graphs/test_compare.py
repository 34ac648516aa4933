"""Comparison of a learned structure with the truth: cases made by hand, and properties that hold for all graphs."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.structure import Structure

checked = settings(deadline=None, max_examples=40)


def graph(text, kind="dag", variables="abcde"):
    """A structure from edges such as "a>b b-c"."""
    weights = np.zeros((len(variables), len(variables)))
    for tail, mark, head in text.split():
        i, j = variables.index(tail), variables.index(head)
        weights[i, j] = 1
        if mark == "-":
            weights[j, i] = 1
    return Structure(tuple(variables), weights, kind)


def parts(learned, truth, *keys, **options):
    metrics = compare(learned, truth, **options)
    return tuple(metrics[key] for key in keys)


@st.composite
def dags(draw, d=5):
    order = draw(st.permutations(range(d)))
    weights = np.triu(draw(arrays(np.bool_, (d, d))), 1)[np.ix_(order, order)].astype(float)
    return Structure(tuple("abcde"[:d]), weights)


def test_known_numbers():
    truth = graph("a>b b>c c>d a>e")
    learned = graph("a>b c>b c>d b>d b>e")  # 2 correct, 1 reversed, 2 extra, 1 missing
    metrics = compare(learned, truth)
    expected = {"edges": 5, "true_edges": 4, "correct": 2, "reversed": 1, "extra": 2, "missing": 1, "half_directed": 0}
    assert {key: metrics[key] for key in expected} == expected
    assert (metrics["shd"], metrics["shd_lenient"], metrics["shd_skeleton"]) == (4, 4, 3)
    assert (metrics["tpr"], metrics["fdr"], metrics["precision"]) == pytest.approx((2 / 4, 3 / 5, 2 / 5))
    assert metrics["f1"] == pytest.approx(4 / 9)
    assert metrics["correct_skeleton"] == 3
    assert (metrics["v_structures"], metrics["v_structures_true"], metrics["v_structures_correct"]) == (1, 0, 0)
    # moral graphs: learned ab bc cd bd be and ac by marriage; true ab bc cd ae
    assert metrics["smhd"] == 4


def test_a_reversed_edge_counts_once():
    assert parts(graph("b>a c>b"), graph("a>b c>b"), "shd", "reversed", "missing", "extra") == (1, 1, 0, 0)


def test_equivalent_dags_differ_in_shd_but_not_in_shd_cpdag():
    assert parts(graph("b>a c>b"), graph("a>b b>c"), "shd", "shd_cpdag", "smhd") == (2, 0, 0)


def test_the_v_structures_in_common():
    learned, truth = graph("a>c b>c d>c"), graph("a>c b>c c>d e>d")
    assert parts(learned, truth, "v_structures", "v_structures_true", "v_structures_correct") == (3, 2, 1)


def test_between_cpdags_a_directed_edge_that_should_be_undirected_counts_once():
    learned, truth = graph("a>b c>b c-d", "cpdag"), graph("a-b b-c d-e", "cpdag")
    counts = ("correct", "reversed", "extra", "missing", "half_directed", "edges", "true_edges")
    assert parts(learned, truth, *counts) == (0, 0, 1, 1, 2, 3, 3)
    assert parts(learned, truth, "shd", "shd_cpdag", "shd_lenient", "shd_skeleton") == (4, 4, 2, 2)
    assert parts(learned, truth, "tpr", "fdr", "precision", "f1") == (0, pytest.approx(1 / 3), 0, 0)


def test_between_cpdags_exactly_reversed_counts_in_every_shd():
    learned, truth = graph("a>b c>b", "cpdag"), graph("b>a c>b", "cpdag")
    assert parts(learned, truth, "shd", "shd_lenient", "reversed", "correct") == (1, 1, 1, 1)


def test_a_learned_cpdag_is_compared_with_the_cpdag_of_the_truth():
    truth = graph("a>b b>c d>e")
    assert parts(graph("a-b b-c d-e", "cpdag"), truth, "shd", "shd_cpdag", "tpr", "edges") == (0, 0, 1, 3)
    assert parts(graph("a-b c>b", "cpdag"), truth, "shd", "shd_cpdag", "half_directed", "missing") == (2, 2, 1, 1)
    # the ranking is compared with the DAG: only one direction of a-b is an edge
    assert compare(graph("a-b", "cpdag"), truth)["aupr"] < compare(graph("a>b"), truth)["aupr"]


def test_a_learned_dag_is_compared_with_a_true_cpdag_as_its_cpdag():
    truth = graph("a-b b-c", "cpdag")
    assert parts(graph("c>b b>a"), truth, "shd", "correct", "true_edges") == (0, 2, 2)
    assert parts(graph("a>b c>b"), truth, "shd", "shd_cpdag", "half_directed") == (2, 2, 2)


def test_variables_go_by_name():
    truth = graph("a>b b>c d>c", variables="abcd")
    learned = graph("a>b b>c d>c c>a", variables="dcba")
    assert parts(learned, truth, "shd", "correct", "extra") == (1, 3, 1)
    swapped = Structure(("b", "a"), np.array([[0.0, 1], [0, 0]]))
    assert parts(swapped, Structure(("a", "b"), np.array([[0.0, 1], [0, 0]])), "shd", "reversed") == (1, 1)


def test_scores_are_permuted_with_their_names_and_stand_before_weights():
    truth = graph("a>b b>c", variables="abc")
    scores = np.array([[9.0, 0.1, 0.2], [0.3, 9.0, -0.9], [0.0, 0.8, 9.0]])  # order c b a: best are b>a, a>b
    learned = Structure(("c", "b", "a"), np.zeros((3, 3)), scores=scores)
    pairs = [("c", "b"), ("c", "a"), ("b", "c"), ("b", "a"), ("a", "c"), ("a", "b")]
    labels = [pair in {("a", "b"), ("b", "c")} for pair in pairs]
    strengths = [0.1, 0.2, 0.3, 0.9, 0.0, 0.8]
    metrics = compare(learned, truth)
    assert metrics["auroc"] == pytest.approx(roc_auc_score(labels, strengths))
    assert metrics["aupr"] == pytest.approx(average_precision_score(labels, strengths))


@checked
@given(dags(), st.integers(0, 2**32 - 1))
def test_ranking_of_weights_without_the_diagonal_as_scikit_learn(truth, seed):
    assume(truth.weights.any())
    weights = np.random.default_rng(seed).choice([-2.0, -1.0, 0.0, 1.0, 3.0], (5, 5))
    np.fill_diagonal(weights, 0)
    metrics = compare(Structure(truth.variables, weights), truth)
    off = ~np.eye(5, dtype=bool)
    assert metrics["auroc"] == pytest.approx(roc_auc_score(truth.adjacency[off], np.abs(weights)[off]))
    assert metrics["aupr"] == pytest.approx(average_precision_score(truth.adjacency[off], np.abs(weights)[off]))


def test_a_cyclic_truth_is_refused_by_the_name_of_its_cycle():
    truth = Structure(("Plcg", "PIP3", "PIP2"), np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]))
    learned = Structure(("PIP2", "PIP3", "Plcg"), np.array([[0.0, 1, 0], [0, 0, 0], [0, 0, 0]]))
    with pytest.raises(BadInput) as caught:
        compare(learned, truth)
    message = (
        "truth has the cycle PIP2 -> PIP3 -> Plcg -> PIP2: SHD needs a DAG (set allow_cyclic_truth to compare anyway)"
    )
    assert str(caught.value) == message
    keys = ("shd", "shd_cpdag", "missing", "tpr", "reversed")
    assert parts(learned, truth, *keys, allow_cyclic_truth=True) == (2, None, 2, pytest.approx(1 / 3), 0)
    in_a_cpdag = Structure(truth.variables, truth.weights, "cpdag")
    with pytest.raises(BadInput, match="PIP2 -> PIP3 -> Plcg -> PIP2"):
        compare(learned, in_a_cpdag)


def test_of_a_true_cycle_of_two_either_direction_is_correct():
    truth = graph("a>b b>a b>c")
    metrics = parts(graph("b>a"), truth, "shd", "correct", "reversed", "true_edges", allow_cyclic_truth=True)
    assert metrics == (2, 1, 0, 3)


def test_a_learned_cycle_is_a_value_not_an_error():
    truth = graph("a>b b>c")
    assert parts(graph("a>b b>c c>a"), truth, "shd", "shd_cpdag", "extra") == (1, None, 1)
    two = graph("a>b b>a b>c")
    assert parts(two, truth, "shd", "edges", "correct", "reversed") == (1, 3, 2, 1)
    assert parts(two, truth, "shd_lenient", "fdr", "shd_cpdag") == (1, pytest.approx(1 / 3), None)
    assert parts(two, graph("a-b b-c", "cpdag"), "shd", "shd_cpdag") == (2, None)


def test_different_variables_are_refused_by_name():
    with pytest.raises(BadInput, match="only in the learned graph: c; only in the truth: d, e"):
        compare(graph("a>b", variables="abc"), graph("a>b", variables="abde"))
    with pytest.raises(BadInput, match="only in the learned graph: none; only in the truth: c"):
        compare(graph("a>b", variables="ab"), graph("a>b", variables="abc"))


def test_a_nan_is_refused():
    scores = np.diag([np.nan, np.nan])
    assert compare(Structure(("a", "b"), np.zeros((2, 2)), scores=scores), graph("a>b", variables="ab"))["auroc"] == 0.5
    scores[1, 0] = np.nan
    with pytest.raises(BadInput, match="b -> a is NaN"):
        compare(Structure(("a", "b"), np.zeros((2, 2)), scores=scores), graph("a>b", variables="ab"))


def test_every_denominator_may_be_zero():
    empty, full = graph("", variables="ab"), graph("a>b", variables="ab")
    assert parts(empty, full, "tpr", "fdr", "precision", "f1", "auroc", "aupr") == (0, 0, None, 0, 0.5, 0.5)
    assert parts(full, empty, "tpr", "fdr", "precision", "f1", "auroc", "aupr") == (None, 1, 0, 0, None, None)
    assert parts(empty, empty, "tpr", "fdr", "precision", "f1", "shd") == (None, 0, None, None, 0)
    nothing = Structure((), np.zeros((0, 0)))
    assert parts(nothing, nothing, "shd", "tpr", "auroc") == (0, None, None)


@checked
@given(dags(), dags(), dags())
def test_shd_is_a_metric_on_dags(one, two, three):
    def shd(a, b):
        return compare(a, b)["shd"]

    assert shd(one, two) == shd(two, one)
    assert (shd(one, two) == 0) == np.array_equal(one.weights, two.weights)
    assert shd(one, three) <= shd(one, two) + shd(two, three)
    assert shd(one, one) == 0


@checked
@given(dags(), dags())
def test_between_dags_all_figures_follow_from_the_edge_sets(learned, truth):
    """The counts of NOTEARS's count_accuracy, by sets of edges."""
    predicted, true = set(learned.to_networkx().edges), set(truth.to_networkx().edges)
    turned = {(b, a) for a, b in true}
    reversed_, extra = (predicted - true) & turned, predicted - true - turned
    missing = {(a, b) for a, b in true if (a, b) not in predicted and (b, a) not in predicted}
    metrics = compare(learned, truth)
    assert metrics["shd"] == metrics["shd_lenient"] == len(reversed_) + len(extra) + len(missing)
    assert metrics["shd_skeleton"] == len(extra) + len(missing)
    assert (metrics["reversed"], metrics["extra"], metrics["missing"]) == (len(reversed_), len(extra), len(missing))
    assert metrics["correct"] == len(predicted & true)
    if predicted:
        assert metrics["fdr"] == pytest.approx(1 - metrics["precision"])
        assert metrics["fdr"] == pytest.approx((len(reversed_) + len(extra)) / len(predicted))
    if true:
        assert metrics["tpr"] == pytest.approx(len(predicted & true) / len(true))
    assert metrics["shd_cpdag"] >= metrics["shd_skeleton"]


@checked
@given(dags(), dags())
def test_between_cpdags_the_parts_add_up(learned, truth):
    one, other = (Structure(s.variables, cpdag(s.adjacency).astype(float), "cpdag") for s in (learned, truth))
    m = compare(one, other)
    assert m["shd"] == m["shd_cpdag"] == compare(learned, truth)["shd_cpdag"]
    assert m["shd"] == m["missing"] + m["extra"] + m["reversed"] + m["half_directed"]
    assert m["shd_lenient"] == m["shd"] - m["half_directed"]
    assert m["edges"] == m["correct"] + m["reversed"] + m["extra"] + m["half_directed"]
    assert m["true_edges"] == m["correct"] + m["reversed"] + m["missing"] + m["half_directed"]
    assert m["smhd"] == compare(learned, truth)["smhd"]
