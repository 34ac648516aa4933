"""From separating sets to a CPDAG: colliders by several rules, conflicts, and independence of the order."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.constraint.orientation import Triples, classify, orient
from fedbnsl.algorithms.constraint.search import create_plan, start
from fedbnsl.algorithms.constraint.settings import ConstraintSettings
from fedbnsl.algorithms.graphs.cpdag import cpdag, meek_closure
from fedbnsl.algorithms.graphs.dag import skeleton, v_structures
from fedbnsl.algorithms.graphs.pag import unshielded_triples
from tests.algorithms.graphs.dags import dags


def graph(text, d=5):
    edges = np.zeros((d, d), bool)
    for tail, mark, head in text.split():
        i, j = "abcdef".index(tail), "abcdef".index(head)
        edges[i, j] = True
        edges[j, i] = mark == "-"
    return edges


def triples(colliders=(), ambiguous=()):
    return Triples(frozenset(colliders), frozenset(ambiguous))


def a_search(*separators):
    """a - b - c, and sets that separate a from c, by letters; d and e are not joined to anything."""
    begun = start(create_plan(ConstraintSettings(), np.ones(5, np.int64), 100, None))
    rows = [[0, 2, *(["abcdef".index(k) for k in given] + [-1] * (2 - len(given)))] for given in separators]
    return replace(begun, joined=graph("a-b b-c"), separators=np.array(rows, np.int16), p=np.ones(len(rows)))


COLLIDER, NOT, UNCLEAR = "collider", "not", "unclear"


@pytest.mark.parametrize(
    ("separators", "sepset", "conservative", "clear", "majority"),
    [
        ([""], COLLIDER, COLLIDER, COLLIDER, COLLIDER),
        (["b"], NOT, NOT, NOT, NOT),
        (["b", ""], NOT, UNCLEAR, UNCLEAR, UNCLEAR),
        (["", "bd", "d"], COLLIDER, UNCLEAR, UNCLEAR, COLLIDER),
        (["", "d", "e", "de", "b"], COLLIDER, UNCLEAR, COLLIDER, COLLIDER),
        (["", "b", "bd", "be"], COLLIDER, UNCLEAR, UNCLEAR, NOT),
        (["d", "b", "bd", "be", "ab"], COLLIDER, UNCLEAR, NOT, NOT),
        (["", "b", "b", "b"], COLLIDER, UNCLEAR, UNCLEAR, UNCLEAR),  # the same set counts once
    ],
)
def test_what_separating_sets_say_of_a_triple(separators, sepset, conservative, clear, majority):
    expected = {"sepset": sepset, "conservative": conservative, "clear": clear, "majority": majority}
    for orientation, verdict in expected.items():
        found = classify(a_search(*separators), orientation)
        assert found.colliders == ({(0, 1, 2)} if verdict == COLLIDER else set()), orientation
        assert found.ambiguous == ({(0, 1, 2)} if verdict == UNCLEAR else set()), orientation


@settings(deadline=None, max_examples=80)
@given(dags(7, 2))
def test_the_colliders_of_a_dag_give_its_cpdag(dag):
    np.testing.assert_array_equal(orient(skeleton(dag), triples(v_structures(dag))), cpdag(dag))


@settings(deadline=None, max_examples=80)
@given(dags(6, 2), st.randoms(use_true_random=False))
def test_the_order_of_the_variables_does_not_matter_whatever_the_triples(dag, random):
    joined = skeleton(dag)
    said = {triple: random.choice([COLLIDER, NOT, UNCLEAR]) for triple in unshielded_triples(joined)}
    order = np.array(random.sample(range(len(dag)), len(dag)))
    to = np.argsort(order)

    def turned(verdict, where):
        return frozenset(
            (min(where[i], where[j]), where[k], max(where[i], where[j]))
            for (i, k, j), v in said.items()
            if v == verdict
        )

    here, there = (Triples(turned(COLLIDER, where), turned(UNCLEAR, where)) for where in (np.arange(len(dag)), to))
    found = orient(joined, here)
    np.testing.assert_array_equal(orient(joined[np.ix_(order, order)], there), found[np.ix_(order, order)])
    np.testing.assert_array_equal(found | found.T, joined)


def test_meeks_own_order_would_matter():
    """Two colliders contradict each other; in the closure of cpdag.py, the first one that it visits would decide."""
    joined = graph("a-b b-c c-d", 4)
    both = triples([(0, 1, 2), (1, 2, 3)])
    np.testing.assert_array_equal(orient(joined, both), graph("a>b b-c d>c", 4))
    first_wins = graph("a>b c>b c-d", 4)
    assert not np.array_equal(meek_closure(first_wins), orient(joined, both))


def test_conclusions_that_contradict_each_other_leave_an_edge_undirected():
    """R1 requires b > c because of a and e, and c > b because of d and f."""
    joined = graph("a-b e-b b-c c-d c-f", 6)
    directed = graph("a>b e>b b-c d>c f>c", 6)
    np.testing.assert_array_equal(orient(joined, triples([(0, 1, 4), (3, 2, 5)])), directed)
    np.testing.assert_array_equal(orient(joined, triples([(0, 1, 4)])), graph("a>b e>b b>c c>d c>f", 6))


def test_no_rule_draws_on_an_ambiguous_triple():
    joined = graph("a-b e-b b-c")
    sure = triples([(0, 1, 4)])
    np.testing.assert_array_equal(orient(joined, sure), graph("a>b e>b b>c"))
    unsure = triples([(0, 1, 4)], [(0, 1, 2), (2, 1, 4)])
    np.testing.assert_array_equal(orient(joined, unsure), graph("a>b e>b b-c"))


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ("", "a>b c>b"),
        ("b>a", "b>a b-c"),
        ("b>c", "a-b b>c"),
        ("b>a b>c", "b>a b>c"),
        ("a>b", "a>b c>b"),
        ("c>b", "a>b c>b"),
        ("a>b b>c", "a>b b>c"),
    ],
)
def test_a_known_direction_out_of_the_middle_of_a_triple_is_worth_more_than_its_collider(known, found):
    """Whichever end it leads to."""
    oriented = orient(graph("a-b b-c", 3), triples([(0, 1, 2)]), graph(known, 3))
    np.testing.assert_array_equal(oriented, graph(found, 3))


def test_rule_three_needs_a_sure_non_collider():
    joined = graph("a-b a-c a-d b-d c-d", 4)
    np.testing.assert_array_equal(orient(joined, triples([(1, 3, 2)])), graph("a-b a-c a>d b>d c>d", 4))
    np.testing.assert_array_equal(orient(joined, triples([(1, 3, 2)], [(1, 0, 2)])), graph("a-b a-c a-d b>d c>d", 4))
