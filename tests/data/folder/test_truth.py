"""Graphs as CSV files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.edges import PAG_TYPES, edge_count
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, NO_EDGE, TAIL
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.truth import read_structure, read_truth, write_structure


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


@given(st.integers(2, 6), st.data())
def test_any_marks_of_a_pag_are_written_and_read(tmp_path_factory, variables, data):
    path = tmp_path_factory.mktemp("pag") / "t.csv"
    marks = np.zeros((variables, variables))
    for i in range(variables):
        for j in range(i):
            edge = data.draw(st.sampled_from([(NO_EDGE, NO_EDGE), *PAG_TYPES.values()]))
            marks[j, i], marks[i, j] = edge
    names = tuple(f"v{number}" for number in range(variables))
    write_structure(path, Structure(names, marks, "pag"))
    back, own = read_truth(path, names)
    assert own == {}
    if marks.any():
        assert back.kind == "pag"
    assert np.array_equal(back.weights, marks)
    assert len(path.read_text().splitlines()) == 1 + edge_count(back)


def test_the_marks_of_a_pag_read_off_by_hand(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("source,target,type\na,b,-->\nb,c,<->\nd,c,o->\nd,a,o-o\nb,d,<-o\na,c,o--\n")
    truth, _ = read_truth(path, ("a", "b", "c", "d"))
    assert truth.weights.tolist() == [
        [NO_EDGE, ARROW, TAIL, CIRCLE],
        [TAIL, NO_EDGE, ARROW, CIRCLE],
        [CIRCLE, ARROW, NO_EDGE, CIRCLE],
        [CIRCLE, ARROW, ARROW, NO_EDGE],
    ]
    write_structure(path, truth)
    assert path.read_text() == "source,target,type\na,b,-->\na,c,o--\na,d,o-o\nb,c,<->\nd,b,o->\nd,c,o->\n"


def test_a_cpdag_as_a_run_writes_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("source,target,weight,type\na,b,0.5,undirected\nc,b,-2.0,directed\n")
    learned = read_structure(path, ("a", "b", "c"))
    assert learned.kind == "cpdag"
    assert learned.weights.tolist() == [[0, 0.5, 0], [0.5, 0, 0], [0, -2, 0]]
    assert edge_count(learned) == 2
    write_structure(tmp_path / "again.csv", learned)
    assert (tmp_path / "again.csv").read_text() == path.read_text()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,b,\n", "line 2, column 'type': '' is not one of directed, undirected, ---, -->, --o, "),
        ("a,b,->\n", "line 2, column 'type': '->' is not one of"),
        ("a,b,-->\nb,c,directed\n", "line 3, column 'type': 'directed', but the edges above have types of a PAG"),
        ("a,b,undirected\nb,c,o-o\n", "line 3, column 'type': 'o-o', but the edges above have types of a CPDAG"),
        ("a,b,-->\nb,a,o-o\n", "line 3: the edge 'b' → 'a' is already on line 2"),
        ("a,b,directed\nb,a,directed\n", "line 3: the edge 'b' → 'a' is already on line 2"),
    ],
)
def test_a_fault_of_a_type(tmp_path, rows, message):
    (tmp_path / "t.csv").write_text("source,target,type\n" + rows)
    with pytest.raises(BadInput) as caught:
        read_structure(tmp_path / "t.csv")
    assert message in str(caught.value)


def test_the_edges_of_a_dynamic_graph_have_lags(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("source,target,weight,lag\na,b,0.5,0\nb,a,2,\na,b,-1,1\nb,b,3,2.0\na,a,4,2\n")
    truth, own = read_truth(path, ("a", "b"))
    assert own == {}
    assert truth.weights.tolist() == [[0, 0.5], [2, 0]]
    assert truth.lagged.tolist() == [[[0, -1], [0, 0]], [[4, 0], [0, 3]]]
    write_structure(tmp_path / "again.csv", truth)
    lines = "source,target,weight,lag\na,b,0.5,0\nb,a,2.0,0\na,b,-1.0,1\na,a,4.0,2\nb,b,3.0,2\n"
    assert (tmp_path / "again.csv").read_text() == lines


def test_a_graph_whose_lags_are_all_0_is_a_summary(tmp_path):
    (tmp_path / "t.csv").write_text("source,target,lag\na,b,0\nb,a,0\n")
    truth, _ = read_truth(tmp_path / "t.csv", ("a", "b"))
    assert truth.lagged is None
    assert not truth.acyclic


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**32))
def test_dynamic_weights_of_silos_are_written_and_read(tmp_path_factory, d, lags, seed):
    rng = np.random.default_rng(seed)
    edges = rng.random((lags + 1, d, d)) < 0.5
    edges[0] &= ~np.eye(d, dtype=bool)
    edges[lags, 0, 0] = True
    weights = np.where(edges, rng.normal(size=edges.shape), 0.0)
    own = {silo: weights * (rng.random(edges.shape) < 0.7) * rng.normal() for silo in ("a", "b c")}
    names = tuple(f"v{number}" for number in range(d))
    path = tmp_path_factory.mktemp("dynamic") / "t.csv"
    write_structure(path, Structure(names, weights[0], lagged=weights[1:]), own)
    truth, back = read_truth(path, names)
    assert np.array_equal(truth.weights, weights[0])
    assert np.array_equal(truth.lagged, weights[1:])
    assert all(np.array_equal(back[silo], own[silo]) for silo in own)


def test_a_class_with_lagged_edges_reads_back(tmp_path):
    """Time-series learners with undirected edges write such files."""
    within = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0.0]])
    lagged = np.array([np.eye(3), [[0, 2, 0], [3, 0, 0], [0, 0, 0]]])
    path = tmp_path / "t.csv"
    write_structure(path, Structure(("a", "b", "c"), within, "cpdag", lagged=lagged))
    again = read_structure(path)
    assert again.kind == "cpdag"
    assert (again.weights == within).all()
    assert (again.lagged == lagged).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,target,lag\na,a,0\n", "line 2: an edge from 'a' to itself"),
        ("source,target,lag\na,b,1\na,b,2\na,b,1\n", "line 4: the edge 'a' → 'b' is already on line 2"),
        ("source,target,lag\na,b,-1\n", "line 2, column 'lag': '-1' is not a whole number of steps from 0 to 1000"),
        ("source,target,lag\na,b,soon\n", "line 2, column 'lag': 'soon' is not a whole number"),
        ("source,target,type,lag\na,b,-->,1\n", "line 2, column 'lag': '1', but its type is '-->': the past"),
    ],
)
def test_a_fault_of_a_lag(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(BadInput) as caught:
        read_structure(tmp_path / "t.csv")
    assert message in str(caught.value)
    with pytest.raises(ValueError, match="a pag with lagged edges cannot be written"):
        write_structure(tmp_path / "w.csv", Structure(("a",), np.zeros((1, 1)), "pag", lagged=np.zeros((1, 1, 1))))
