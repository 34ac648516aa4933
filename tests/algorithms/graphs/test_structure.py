"""The matrices that `Structure` refuses, and how it reads the others."""

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.structure import Structure


def test_a_bad_matrix_is_refused():
    with pytest.raises(ValueError, match=r"2 variables need a 2 x 2 matrix, not \(3, 3\)"):
        Structure(("a", "b"), np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"2 variables need a 2 x 2 matrix, not \(2, 1\)"):
        Structure(("a", "b"), np.zeros((2, 2)), scores=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="b has an edge to itself"):
        Structure(("a", "b"), np.diag([0.0, 0.3]))
    with pytest.raises(ValueError, match="more than once: a"):
        Structure(("a", "b", "a"), np.zeros((3, 3)))


def test_an_edge_in_both_directions_is_a_cycle_in_a_dag_and_undirected_in_a_cpdag():
    both = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert not Structure(("a", "b"), both).acyclic
    assert Structure(("a", "b"), both).cycle == ["a", "b"]
    assert Structure(("a", "b"), both, "cpdag").acyclic
    assert Structure(("a", "b"), both, "cpdag").cycle is None


def test_reordered_moves_weights_and_scores_with_the_names():
    structure = Structure(
        ("a", "b", "c"), np.array([[0, 0.5, 0], [0, 0, -2], [0, 0, 0.0]]), scores=np.arange(9.0).reshape(3, 3)
    )
    other = structure.reordered(["c", "a", "b"])
    assert other.variables == ("c", "a", "b")
    for i, source in enumerate(other.variables):
        for j, target in enumerate(other.variables):
            old = structure.variables.index(source), structure.variables.index(target)
            assert other.weights[i, j] == structure.weights[old]
            assert other.scores[i, j] == structure.scores[old]
    with pytest.raises(ValueError, match="is not an order of"):
        structure.reordered(["a", "b", "d"])


def test_to_networkx_carries_names_and_weights():
    graph = Structure(("a", "b", "c"), np.array([[0, 0.5, 0], [0, 0, 0], [0, 0, 0.0]])).to_networkx()
    assert set(graph.nodes) == {"a", "b", "c"}
    assert list(graph.edges.data("weight")) == [("a", "b", 0.5)]


def test_lagged_edges_move_with_the_names_and_are_drawn_from_earlier_times():
    lagged = np.zeros((2, 2, 2))
    lagged[0, 0, 0], lagged[1, 0, 1] = 0.5, -1.0
    structure = Structure(("a", "b"), np.array([[0.0, 2.0], [0.0, 0.0]]), lagged=lagged, lagged_scores=abs(lagged))
    assert structure.lags == 2
    turned = structure.reordered(("b", "a"))
    assert turned.lagged[0, 1, 1] == 0.5
    assert turned.lagged[1, 1, 0] == -1.0
    assert turned.lagged_scores[1, 1, 0] == 1.0
    assert set(structure.to_networkx().edges) == {("a", "b"), ("a[t-1]", "a"), ("a[t-2]", "b")}
    with pytest.raises(ValueError, match=r"2 variables need 2 x 2 x 2 lagged weights, not \(2, 3, 3\)"):
        Structure(("a", "b"), np.zeros((2, 2)), lagged=lagged, lagged_scores=np.zeros((2, 3, 3)))


def test_a_sink_is_added_and_taken_away():
    weights = np.array([[0, 2.0], [0, 0]])
    plain = Structure(("a", "b"), weights, scores=abs(weights))
    more = plain.with_sink("c", {"b": -0.5})
    assert more.variables == ("a", "b", "c")
    assert np.argwhere(more.adjacency).tolist() == [[0, 1], [1, 2]]
    assert (more.weights[1, 2], more.scores[1, 2]) == (-0.5, 0.5)
    assert np.array_equal(more.among(("b", "a")).weights, weights)
    assert more.among(("a", "c")).variables == ("a", "c")
    assert plain.among(("a", "b", "c")) is plain
    pag = Structure(("a", "b"), np.array([[0, 3.0], [3, 0]]), "pag").with_sink("c", {"a": 1.0})
    assert (pag.weights[0, 2], pag.weights[2, 0]) == (2, 1)
