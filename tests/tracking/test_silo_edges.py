"""The silos' own structures, compared with each other."""

import numpy as np

from fedbnsl.algorithms.graphs.edges import ClassifiedEdges
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.report.files import silo_edges_csv
from fedbnsl.tracking.result import silo_edges

NAMES = ("a", "b")


def structure(within, own=0.0):
    return ClassifiedEdges(Structure(NAMES, np.array(within), lagged=np.array([[[own, 0.0], [0.0, 0.0]]])))


OWN = {
    "north": structure([[0, 0.5], [0, 0]], 0.25),
    "south": structure([[0, -1.5], [0, 0]]),
    "west": structure([[0, 0], [2.0, 0]]),
}


def test_edges_of_most_silos_come_first_with_their_mean_and_what_points_the_other_way():
    found = [(one.edge.text, one.edge.lag, len(one.weights), one.mean, one.turned) for one in silo_edges(OWN)]
    assert found == [("a → b", 0, 2, -0.5, 1), ("b → a", 0, 1, 2.0, 2), ("a[t-1] → a", 1, 1, 0.25, 0)]


def test_every_weight_is_in_the_file():
    assert silo_edges_csv(silo_edges(OWN), OWN).splitlines() == [
        "edge,source,target,lag,silos,mean_weight,weight:north,weight:south,weight:west",
        "a → b,a,b,0,2,-0.5,0.5,-1.5,",
        "b → a,b,a,0,1,2.0,,,2.0",
        "a[t-1] → a,a,a,1,1,0.25,0.25,,",
    ]


def test_graphs_without_weights_and_undirected_edges_are_counted():
    pag = ClassifiedEdges(Structure(NAMES, np.array([[0, 3.0], [3.0, 0]]), "pag"))
    (found,) = silo_edges({"north": pag, "south": pag})
    assert (found.edge.text, len(found.weights), found.mean, found.turned) == ("a o—o b", 2, None, 0)
    cpdag = ClassifiedEdges(Structure(NAMES, np.array([[0, 1.0], [1.0, 0]]), "cpdag"))
    (found,) = silo_edges({"north": cpdag})
    assert (found.edge.text, found.turned) == ("a — b", 0)
