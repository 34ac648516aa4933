import numpy as np
import pytest

from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.edge_classes import CATEGORIES, classify, count, weighted
from fedbnsl.algorithms.graphs.edge_types import MARKS, written
from fedbnsl.algorithms.graphs.pag import pag_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.pictures.style import STYLES, legend_entries


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
    assert list(written(graph(["ab", "ba"]))) == [(0, 1, "directed"), (1, 0, "directed")]
    assert list(written(graph(["ab-"], "cpdag"))) == [(0, 1, "undirected")]


@pytest.mark.parametrize("kind", ["dag", "cpdag"])
@pytest.mark.parametrize("seed", range(20))
def test_counts_agree_with_the_scores(random_case, seed, kind):
    learned, truth = random_case(9, 3, seed, kind=kind)
    counted, scores = count(classify(learned, truth)), compare(learned, truth)
    for category, score in (("right", "correct"), ("half-directed", "half_directed")):
        assert counted[category] == scores[score]
    for category in ("extra", "missing", "reversed"):
        assert counted[category] == scores[category]


def pag(*edges, names="abcd"):
    """Return a PAG of edges such as "a o-> b"."""
    weights = np.zeros((len(names), len(names)))
    for edge in edges:
        source, type_, target = edge.split()
        i, j = names.index(source), names.index(target)
        weights[j, i], weights[i, j] = MARKS[type_]
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


@pytest.mark.parametrize("seed", range(20))
def test_counts_agree_with_the_scores_of_pags(random_case, seed):
    hidden = np.random.default_rng(seed).choice(9, 2, replace=False)
    seen = tuple(f"X{v}" for v in range(9) if v not in hidden)
    learned, truth = (
        Structure(seen, pag_of(random_case(9, 3, number)[1].adjacency, hidden).astype(float), "pag")
        for number in (seed, seed + 100)
    )
    counted, scores = count(classify(learned, truth)), compare(learned, truth)
    names = {"right": "correct", "half-directed": "half_directed"}
    for category in ("right", "extra", "missing", "reversed", "half-directed"):
        assert counted[category] == scores[names.get(category, category)]


def test_only_real_weights_are_shown():
    assert not weighted(graph(["ab-"], "cpdag"))
    assert not weighted(pag("a --> b"))
    assert weighted(Structure(("a", "b"), np.array([[0, 0.5], [0, 0]])))


def test_categories_differ_in_colour_dash_and_marker():
    compared = [STYLES[category] for category in CATEGORIES if category != "learned"]
    for look in ("colour", "dash", "marker"):
        assert len({getattr(style, look) for style in compared}) == len(compared)


def test_the_legend_counts():
    edges = classify(graph(["ab", "cb", "ad"]), graph(["ab", "bc"]))
    assert legend_entries(edges, True) == [("right", "1 right"), ("extra", "1 extra"), ("reversed", "1 reversed")]
    assert legend_entries((), True) == [("right", "0 right")]
    assert legend_entries((), False) == [("learned", "0 learned")]
