"""Comparison of PAGs: cases made by hand, and the axioms of a distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.pag import pag_of
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = tuple("abcde")
MARKS = {"-": 1, ">": 2, "<": 2, "o": 3}


def pag(text):
    marks = np.zeros((5, 5))
    for edge in text.split():
        i, j = NAMES.index(edge[0]), NAMES.index(edge[-1])
        marks[j, i], marks[i, j] = MARKS[edge[1]], MARKS[edge[2]]
    return Structure(NAMES, marks, "pag")


def parts(learned, truth, *keys):
    metrics = compare(learned, truth)
    return tuple(metrics[key] for key in keys)


DISTANCES = ("shd", "shd_lenient", "shd_skeleton")


@pytest.mark.parametrize(
    ("learned", "distances"),
    [
        ("a->b bo>c", (0, 0, 0)),
        ("a->b boo c", (1, 0, 0)),
        ("a->b b<oc", (1, 1, 0)),  # exactly reversed
        ("a<-b bo>c", (1, 1, 0)),
        ("a<>b b->c", (2, 0, 0)),
        ("a->b", (1, 1, 1)),
        ("a->b bo>c cood", (1, 1, 1)),
        ("", (2, 2, 2)),
    ],
)
def test_pairs_that_differ(learned, distances):
    assert parts(pag(learned.replace("boo c", "booc")), pag("a->b bo>c"), *DISTANCES) == distances


def test_known_counts():
    learned, truth = pag("a->b c<ob cood a<>d"), pag("a->b co>b coo d d->e".replace("coo d", "cood"))
    keys = ("edges", "true_edges", "correct", "reversed", "extra", "missing", "half_directed", "correct_skeleton")
    assert parts(learned, truth, *keys) == (4, 4, 2, 1, 1, 1, 0, 3)
    assert parts(learned, truth, "tpr", "fdr", "precision", "f1", "shd_cpdag", "smhd") == (
        0.5,
        0.5,
        0.5,
        0.5,
        None,
        None,
    )
    assert parts(learned, pag("a->b co>d"), "half_directed", "shd", "shd_lenient") == (1, 3, 2)


def test_the_keys_are_those_of_other_graphs():
    dag = Structure(NAMES, np.diag(np.ones(4), 1))
    assert set(compare(pag("aoob"), pag("aoob"))) == set(compare(dag, dag))


def test_a_dag_and_a_cpdag_stand_for_the_pag_of_their_class():
    dag = np.zeros((5, 5), bool)
    dag[0, 2] = dag[1, 2] = dag[2, 3] = True
    learned = Structure(NAMES, pag_of(dag).astype(float), "pag")
    assert parts(learned, Structure(NAMES, dag * 1.0), "shd", "correct") == (0, 3)
    assert parts(Structure(NAMES, cpdag(dag) * 1.0, "cpdag"), learned, "shd", "correct") == (0, 3)


def test_a_cpdag_of_no_dag_is_refused():
    """An undirected cycle of four without a chord."""
    square = np.zeros((5, 5))
    for i, j in ((0, 1), (1, 2), (2, 3), (3, 0)):
        square[i, j] = square[j, i] = 1
    with pytest.raises(BadInput, match="this cpdag belongs to no class of DAGs"):
        compare(Structure(NAMES, square, "cpdag"), pag("aoob"))


@st.composite
def pags(draw):
    ends = np.triu(draw(arrays(np.int8, (5, 5), elements=st.integers(0, 9))), 1)
    marks = ends % 3 + 1 + 10 * (ends // 3 % 3 + 1)
    upper = np.where(ends > 0, marks, 0)
    upper = np.triu(upper, 1)
    return Structure(NAMES, (upper % 10 + (upper // 10).T).astype(float), "pag")


@settings(deadline=None, max_examples=30)
@given(pags(), pags(), pags())
def test_the_strict_shd_is_a_metric_and_bounds_the_others(one, other, third):
    def distances(a, b):
        return tuple(compare(a, b, allow_cyclic_truth=True)[key] for key in DISTANCES)

    strict, lenient, skeleton = distances(one, other)
    assert distances(one, one) == (0, 0, 0)
    assert distances(other, one) == (strict, lenient, skeleton)
    assert strict >= lenient >= skeleton
    assert distances(one, third)[0] <= strict + distances(other, third)[0]
    assert (strict == 0) == np.array_equal(one.weights, other.weights)
