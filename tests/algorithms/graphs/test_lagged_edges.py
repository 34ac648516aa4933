import numpy as np

from fedbnsl.algorithms.graphs.edges import classify_lagged
from fedbnsl.algorithms.graphs.structure import Structure


def structure(names, **weights):
    A = np.zeros((2, 2, 2))
    place = {name: number for number, name in enumerate(names)}
    for edge, weight in weights.items():
        A[int(edge[2]) - 1, place[edge[0]], place[edge[1]]] = weight
    return Structure(tuple(names), np.zeros((2, 2)), lagged=A)


def test_every_edge_has_its_lag_and_its_place_in_the_truth():
    learned, truth = structure("ab", aa1=0.5, ab2=-1.0), structure("ba", aa1=0.4, ba1=2.0)
    found = classify_lagged(learned, truth)
    assert [(edge.text, edge.category) for edge in found] == [
        ("a[t-1] → a", "right"),
        ("b[t-1] → a", "missing"),
        ("a[t-2] → b", "extra"),
    ]
    assert [(edge.weight, edge.true_weight, edge.own) for edge in found] == [
        (0.5, 0.4, True),
        (None, 2.0, False),
        (-1.0, None, False),
    ]


def test_without_lagged_true_edges_all_are_just_learned():
    learned = structure("ab", aa1=0.5, ab2=-1.0)
    for truth in (None, Structure(("a", "b"), np.zeros((2, 2)))):
        assert [edge.category for edge in classify_lagged(learned, truth)] == ["learned", "learned"]
    assert classify_lagged(Structure(("a", "b"), np.zeros((2, 2))), None) == ()
