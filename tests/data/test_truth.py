"""Graphs as CSV files."""

import numpy as np

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.truth import read_structure, read_truth, write_structure


def test_edges_without_weights_weigh_one(tmp_path):
    (tmp_path / "t.csv").write_text("target,source,lag\nb,a,0\nc,b,0\n")
    truth, own = read_truth(tmp_path / "t.csv", ("c", "b", "a"))
    assert truth.variables == ("c", "b", "a")
    assert truth.weights.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert own == {}


def test_a_cyclic_truth_is_read_as_it_stands(tmp_path):
    (tmp_path / "t.csv").write_text("source,target,weight\na,b,1\nb,a,-2\n")
    truth, _ = read_truth(tmp_path / "t.csv", ("a", "b"))
    assert truth.weights.tolist() == [[0, 1], [-2, 0]]
    assert not truth.acyclic


def test_a_structure_alone_has_the_variables_of_its_edges(tmp_path):
    (tmp_path / "t.csv").write_text("source,target\nb,c\na,b\n")
    assert read_structure(tmp_path / "t.csv").variables == ("b", "c", "a")
    assert read_structure(tmp_path / "t.csv", ("a", "b", "c", "d")).weights.shape == (4, 4)


def test_a_graph_without_edges(tmp_path):
    write_structure(tmp_path / "t.csv", Structure(("a", "b"), np.zeros((2, 2))))
    assert (tmp_path / "t.csv").read_text() == "source,target,weight\n"
    assert not read_structure(tmp_path / "t.csv", ("a", "b")).adjacency.any()


def test_what_is_written_is_read(tmp_path):
    weights = np.array([[0, 0.1, 1 / 3], [0, 0, -1e-300], [0, 0, 0]])
    own = {"s 1": weights * 1.1, "s,2": weights * 0.9}
    write_structure(tmp_path / "t.csv", Structure(("a", 'b"', "c,d"), weights), own)
    truth, back = read_truth(tmp_path / "t.csv", ("a", 'b"', "c,d"))
    assert np.array_equal(truth.weights, weights)
    assert back.keys() == own.keys()
    assert all(np.array_equal(back[silo], own[silo]) for silo in own)
