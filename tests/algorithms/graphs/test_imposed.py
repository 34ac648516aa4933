"""Knowledge imposed on a graph: the graph agrees, nothing else changes, and imposing it again changes nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.cpdag import cpdag, pdag_with_knowledge
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.graphs.imposed_knowledge import impose_knowledge, truth_with_knowledge
from fedbnsl.algorithms.graphs.pag import ARROW, TAIL, pag_of
from fedbnsl.algorithms.graphs.structure import Structure


def random_dag(d, rng):
    order = rng.permutation(d)
    return np.triu(rng.random((d, d)) < 0.4, 1)[np.ix_(order, order)]


def drawn(d, seed, *, true):
    """A DAG, and knowledge that is true of it or of another DAG."""
    rng = np.random.default_rng(seed)
    dag = random_dag(d, rng)
    about = dag if true else random_dag(d, rng)
    names = tuple(f"x{v}" for v in range(d))
    required = about & (rng.random((d, d)) < 0.3)
    forbidden = ~about & (rng.random((d, d)) < 0.3) & ~np.eye(d, dtype=bool)
    known = Knowledge(*(tuple((names[i], names[j]) for i, j in np.argwhere(arcs)) for arcs in (required, forbidden)))
    return names, dag, known.required_matrix(names), known.possible(names)


def structure(kind, names, dag, rng):
    if kind == "pag":
        return Structure(names, pag_of(dag).astype(float), "pag")
    weights = dag * rng.uniform(0.5, 2, dag.shape)
    return Structure(names, cpdag(dag).astype(float), "cpdag") if kind == "cpdag" else Structure(names, weights)


@pytest.mark.parametrize("kind", ["dag", "cpdag", "pag"])
@given(d=st.integers(2, 7), seed=st.integers(0, 10_000))
def test_the_result_agrees_and_once_is_enough(kind, d, seed):
    names, dag, needed, possible = drawn(d, seed, true=False)
    one = structure(kind, names, dag, np.random.default_rng(seed))
    found = impose_knowledge(one, needed, possible)
    if kind == "pag":
        marks = found.marks
        assert (marks[needed] == ARROW).all()
        assert (marks.T[needed] == TAIL).all()
        arrows = (marks == ARROW) & (marks.T == TAIL)
        assert not (arrows & ~possible).any()
    else:
        edges = found.adjacency
        assert edges[needed].all()
        assert not edges.T[needed].any()
        assert not (edges & ~possible).any()  # so an undirected edge is possible both ways
        assert is_acyclic(edges & ~edges.T)
    if kind == "dag":
        assert (found.weights[one.adjacency & found.adjacency] == one.weights[one.adjacency & found.adjacency]).all()
    assert np.array_equal(impose_knowledge(found, needed, possible).weights, found.weights)


@given(d=st.integers(2, 7), seed=st.integers(0, 10_000))
def test_true_knowledge_directs_the_class_of_the_truth_and_changes_nothing_else(d, seed):
    _, dag, needed, possible = drawn(d, seed, true=True)
    found = pdag_with_knowledge(cpdag(dag), needed, possible)
    assert np.array_equal(found | found.T, dag | dag.T)
    assert not (dag & ~found).any()
    # What stays undirected has possible members both ways.
    lines = found & found.T
    assert not (lines & ~possible).any()


def test_nothing_known_leaves_everything_as_it_was():
    names, dag, _, _ = drawn(5, 1, true=True)
    one = structure("dag", names, dag, np.random.default_rng(0))
    nothing = Knowledge().prior(names)
    assert impose_knowledge(one, nothing.required, nothing.possible) is one


def test_a_class_that_agrees_already_is_not_closed_again():
    # Meek's first rule would direct b - c in a -> b - c, but the learner left it undirected on purpose.
    graph = np.zeros((3, 3), bool)
    graph[0, 1] = graph[1, 2] = graph[2, 1] = True
    needed = np.zeros((3, 3), bool)
    needed[0, 1] = True
    possible = ~np.eye(3, dtype=bool)
    possible[1, 0] = False
    assert np.array_equal(pdag_with_knowledge(graph, needed, possible), graph)


def test_the_weakest_other_edge_goes_where_required_arcs_close_a_cycle():
    weights = np.zeros((3, 3))
    weights[0, 1], weights[1, 2] = 0.5, 2.0
    needed = np.zeros((3, 3), bool)
    needed[2, 0] = True
    found = impose_knowledge(Structure(("a", "b", "c"), weights), needed, ~np.eye(3, dtype=bool) & ~needed.T)
    assert [tuple(edge) for edge in np.argwhere(found.weights)] == [(1, 2), (2, 0)]
    assert found.weights[2, 0] == 1.0


def test_a_class_is_compared_with_what_knowledge_leaves_of_the_truth():
    names = ("a", "b", "c")
    weights = np.zeros((3, 3))
    weights[0, 1], weights[1, 2] = 2.0, -1.0
    truth = Structure(names, weights)
    known = Knowledge(required=(("a", "b"),)).prior(names)
    learned = Structure(names, (weights != 0).astype(float), "cpdag")
    assert compare(learned, truth)["shd"] == 2
    kept = truth_with_knowledge(truth, "cpdag", known.required, known.possible)
    assert compare(learned, kept)["shd"] == 0
    assert kept.weights[1, 2] == -1.0
    assert truth_with_knowledge(truth, "dag", known.required, known.possible) is truth
    false = Knowledge(required=(("c", "b"),)).prior(names)
    assert truth_with_knowledge(truth, "cpdag", false.required, false.possible) is truth
