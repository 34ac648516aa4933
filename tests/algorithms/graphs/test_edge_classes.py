"""The classes of edges: cases made by hand, and the computed class of each pair against the definition."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.edges import PAG_TYPES, ClassifiedEdges, classify, count, weighted
from fedbnsl.algorithms.graphs.pag import ARROW, TAIL
from fedbnsl.algorithms.graphs.structure import Structure


def graph(edges, kind="dag", names="abcd"):
    weights = np.zeros((len(names), len(names)))
    for edge in edges:
        weights[names.index(edge[0]), names.index(edge[1])] = 1.0
        if len(edge) == 3:
            weights[names.index(edge[1]), names.index(edge[0])] = 1.0
    return Structure(tuple(names), weights, kind)


def said(learned, truth):
    return {(edge.source + edge.target, edge.category) for edge in classify(learned, truth)}


def test_every_category():
    learned, truth = graph(["ab", "cb", "ad"]), graph(["ab", "bc", "bd"])
    assert said(learned, truth) == {("ab", "right"), ("cb", "reversed"), ("ad", "extra"), ("bd", "missing")}


def test_without_truth_all_is_learned():
    assert said(graph(["ab", "cb"]), None) == {("ab", "learned"), ("cb", "learned")}


def test_a_missing_edge_has_no_weight_and_a_reversed_one_keeps_both():
    edges = {edge.category: edge for edge in classify(graph(["cb"]), graph(["bc", "ab"]))}
    assert (edges["missing"].weight, edges["missing"].true_weight) == (None, 1.0)
    assert (edges["reversed"].weight, edges["reversed"].true_weight) == (1.0, 1.0)


def test_variables_go_by_name():
    assert said(graph(["ab"]), graph(["ab"], names="dcba")) == {("ab", "right")}


def test_other_variables_are_refused():
    with pytest.raises(ValueError, match="x"):
        classify(graph(["ab"]), graph(["ab"], names="abcx"))


def test_cpdag_against_cpdag():
    learned, truth = graph(["ab-", "cd-"], "cpdag"), graph(["ab-", "cd"], "cpdag")
    assert said(learned, truth) == {("ab", "right"), ("cd", "half-directed")}
    assert [edge.directed for edge in classify(learned, truth)] == [False, False]


def test_a_dag_is_compared_with_a_cpdag_through_its_class():
    assert said(graph(["ab-", "bc-"], "cpdag"), graph(["ab", "bc"])) == {("ab", "right"), ("bc", "right")}


def test_a_two_cycle_is_two_edges_of_a_dag():
    assert said(graph(["ab", "ba"]), graph(["ab"])) == {("ab", "right"), ("ba", "reversed")}
    assert ClassifiedEdges(graph(["ab", "ba"])).rows()[1] == [("a", "b", 1.0), ("b", "a", 1.0)]
    assert ClassifiedEdges(graph(["ab-"], "cpdag")).rows()[1] == [("a", "b", 1.0, "undirected")]


def pag(*edges, names="abcd"):
    """A PAG of edges such as "a o-> b"."""
    weights = np.zeros((len(names), len(names)))
    for edge in edges:
        source, type_, target = edge.split()
        i, j = names.index(source), names.index(target)
        weights[j, i], weights[i, j] = PAG_TYPES[type_]
    return Structure(tuple(names), weights, "pag")


def test_marks_of_a_pag_are_told_apart():
    learned = pag("a o-> b", "b <-> c", "c --> d")
    truth = pag("a --> b", "b <-> c", "d --> c", "a o-o d")
    assert [(edge.text, edge.category) for edge in classify(learned, truth)] == [
        ("a o→ b", "half-directed"),
        ("a o—o d", "missing"),
        ("b ↔ c", "right"),
        ("c → d", "reversed"),
    ]
    assert all(edge.weight is None for edge in classify(learned, truth))


def test_exchanged_marks_are_reversed_with_or_without_an_arrow():
    learned, truth = pag("a o-- b", "b o-> c"), pag("a --o b", "c o-> b")
    assert [edge.category for edge in classify(learned, truth)] == ["reversed", "reversed"]
    assert compare(learned, truth)["reversed"] == 2


def test_a_dag_is_compared_with_a_pag_through_its_class():
    assert said(graph(["ab", "cb"]), pag("a o-> b", "c o-> b")) == {("ab", "right"), ("cb", "right")}
    cyclic = graph(["ab", "bc", "ca"])
    assert count(classify(cyclic, pag("a --> b")))["extra"] == 2


@st.composite
def structures(draw, kind):
    """Any graph on five variables: a "dag" may have cycles, and a CPDAG or PAG may belong to no DAG."""
    seed, density = draw(st.integers(0, 10**6)), draw(st.sampled_from([0.1, 0.4, 0.8]))
    rng = np.random.default_rng(seed)
    joined = np.triu(rng.random((5, 5)) < density, 1)
    if kind == "pag":
        weights = np.where(joined | joined.T, rng.integers(1, 4, (5, 5)), 0)
    else:
        one_way = rng.random((5, 5)) < 0.4
        weights = (joined & (one_way | (rng.random((5, 5)) < 0.5))) | (joined & ~one_way).T
    return Structure(tuple("abcde"), weights.astype(float), kind)


def joins(structure, i, j):
    """All edges between i and j, as (mark at i, mark at j)."""
    there, back = int(structure.weights[i, j]), int(structure.weights[j, i])
    if structure.kind == "pag":
        return {(back, there)} if there else set()
    if structure.kind == "cpdag" and there and back:
        return {(TAIL, TAIL)}
    return {marks for marks, is_there in (((TAIL, ARROW), there), ((ARROW, TAIL), back)) if is_there}


def by_definition(learned, truth):
    """The counts and distances of `compare`, pair by pair."""
    found = dict.fromkeys(("correct", "reversed", "extra", "missing", "half_directed", "shd", "shd_skeleton"), 0)
    for i, j in combinations(range(len(learned.variables)), 2):
        ours, true = joins(learned, i, j), joins(truth, i, j)
        turned = {(at_j, at_i) for at_i, at_j in true}
        found["correct"] += len(ours & true)
        found["reversed"] += len(ours & turned - true) if true else 0
        found["extra"] += 0 if true else len(ours)
        found["missing"] += 0 if ours else len(true)
        found["half_directed"] += bool(true and ours - true - turned)
        found["shd"] += ours != true
        found["shd_skeleton"] += bool(ours) != bool(true)
    return found


KINDS = [("dag", "dag"), ("cpdag", "cpdag"), ("pag", "pag")]


@pytest.mark.parametrize("kinds", KINDS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_figures_and_classes_are_those_of_the_definition(kinds, data):
    learned, truth = (data.draw(structures(kind)) for kind in kinds)
    expected = by_definition(learned, truth)
    scores = compare(learned, truth, allow_cyclic_truth=True)
    assert {key: scores[key] for key in expected} == expected
    assert scores["shd_lenient"] == expected["shd"] - expected["half_directed"]
    counted = count(classify(learned, truth))
    names = {"right": "correct", "half-directed": "half_directed"}
    for category in ("right", "extra", "missing", "reversed", "half-directed"):
        assert counted[category] == expected[names.get(category, category)]


def test_a_cycle_of_two_against_a_line_is_two_edges_and_one_pair():
    learned, truth = graph(["ab", "ba"]), graph(["ab-"], "cpdag")
    assert count(classify(learned, truth))["half-directed"] == 2
    scores = compare(learned, truth)
    assert (scores["half_directed"], scores["shd"], scores["shd_lenient"], scores["edges"]) == (1, 1, 0, 2)


def test_only_real_weights_are_shown():
    assert not weighted(graph(["ab-"], "cpdag"))
    assert not weighted(pag("a --> b"))
    assert weighted(Structure(("a", "b"), np.array([[0, 0.5], [0, 0]])))
