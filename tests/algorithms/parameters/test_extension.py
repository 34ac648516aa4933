"""The DAG for which parameters are fitted."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.graphs.cpdag import cpdag, dag_extension, extend, nearest_dag
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = tuple("abcdefg")
dags = st.tuples(arrays(np.bool_, (7, 7)), st.permutations(range(7))).map(
    lambda drawn: np.triu(drawn[0], 1)[np.ix_(drawn[1], drawn[1])]
)


def structure(edges, kind):
    return Structure(NAMES[: len(edges)], edges.astype(float), kind)


@settings(deadline=None, max_examples=60)
@given(dags)
def test_a_dag_is_its_own(dag):
    chosen = dag_extension(structure(dag, "dag"))
    assert np.array_equal(chosen.dag, dag)
    assert chosen.how == ""


@settings(deadline=None, max_examples=60)
@given(dags)
def test_of_a_cpdag_it_is_one_of_its_class(dag):
    chosen = dag_extension(structure(cpdag(dag), "cpdag"))
    assert np.array_equal(cpdag(chosen.dag), cpdag(dag))
    assert "of the CPDAG's class" in chosen.how


@settings(deadline=None, max_examples=120)
@given(arrays(np.bool_, (7, 7)))
def test_anything_has_a_nearest_dag_of_the_same_skeleton(edges):
    np.fill_diagonal(edges, False)
    dag = nearest_dag(edges)
    assert is_acyclic(dag)
    assert np.array_equal(dag | dag.T, edges | edges.T)
    exact = extend(edges)
    if exact is not None:
        assert np.array_equal(cpdag(dag), cpdag(exact))


def test_what_stands_for_no_dag_says_what_is_changed():
    square = np.zeros((4, 4), bool)  # undirected, without a chord: any DAG has a new v-structure
    for i, j in ((0, 1), (1, 2), (2, 3), (3, 0)):
        square[i, j] = square[j, i] = True
    chosen = dag_extension(structure(square, "cpdag"))
    assert is_acyclic(chosen.dag)
    assert "that of no DAG" in chosen.how
    assert "2 edges differ" in chosen.how


def test_a_cycle_and_a_pag_have_none_and_say_so():
    cycle = np.zeros((3, 3))
    cycle[0, 1] = cycle[1, 2] = cycle[2, 0] = 1.0
    assert dag_extension(structure(cycle, "dag")).how == "a cycle is left: a → b → c → a"
    pag = dag_extension(structure(np.zeros((3, 3)), "pag"))
    assert pag.dag is None
    assert "PAG" in pag.how
