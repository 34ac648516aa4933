"""The Markov blanket of a target, in a DAG and in the CPDAG of its class."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import moral_graph
from fedbnsl.algorithms.graphs.markov_blanket import markov_blanket
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = tuple("abcdefg")


def test_lung_cancer():
    """The graph of LUCAS (Wang, Ma & Wang 2023, §7.5): causes, effects, and the other causes of these."""
    names = ("Smoking", "Genetics", "Lung_Cancer", "Coughing", "Fatigue", "Allergy", "Car_Accident", "Anxiety")
    edges = np.zeros((8, 8))
    for i, j in ((7, 0), (0, 2), (1, 2), (2, 3), (2, 4), (5, 3), (3, 4), (4, 6)):
        edges[i, j] = 1
    blanket = markov_blanket(Structure(names, edges), "Lung_Cancer")
    assert blanket.parents == ("Smoking", "Genetics")
    assert blanket.children == ("Coughing", "Fatigue")
    assert blanket.spouses == ("Allergy",)
    assert blanket.all == ("Allergy", "Coughing", "Fatigue", "Genetics", "Smoking")


@settings(deadline=None, max_examples=80)
@given(arrays(np.bool_, (7, 7)), st.permutations(range(7)), st.sampled_from(range(7)))
def test_a_dag_and_its_cpdag_have_the_same_blanket_the_neighbours_in_the_moral_graph(dense, order, target):
    dag = np.triu(dense, 1)[np.ix_(order, order)]
    expected = {NAMES[v] for v in np.flatnonzero(moral_graph(dag)[target])}
    of_dag = markov_blanket(Structure(NAMES, dag * 1.0), NAMES[target])
    of_class = markov_blanket(Structure(NAMES, cpdag(dag) * 1.0, "cpdag"), NAMES[target])
    assert set(of_dag.all) == expected
    assert set(of_class.all) == expected
    assert not of_dag.neighbours
    assert set(of_class.parents) <= set(of_dag.parents)


def test_what_is_refused():
    empty = np.zeros((2, 2))
    with pytest.raises(BadInput, match="there is no variable 'y': available: a, b"):
        markov_blanket(Structure(("a", "b"), empty), "y")
    with pytest.raises(BadInput, match="a PAG does not distinguish parents"):
        markov_blanket(Structure(("a", "b"), empty, "pag"), "a")
