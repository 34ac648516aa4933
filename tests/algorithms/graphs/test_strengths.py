"""Strengths and directions counted by hand."""

import numpy as np

from fedbnsl.algorithms.graphs.edges import classify, classify_lagged
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL
from fedbnsl.algorithms.graphs.strengths import edge_strengths
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = ("a", "b", "c")


def structure(*edges, kind="dag", lagged=None):
    weights = np.zeros((3, 3))
    for source, target in edges:
        weights[NAMES.index(source), NAMES.index(target)] = -2.0 if kind == "dag" else 1.0
    return Structure(NAMES, weights, kind, lagged=lagged)


def test_of_dags_the_strength_is_a_share_and_the_direction_a_share_of_that():
    found = edge_strengths([structure("ab", "bc"), structure("ba"), structure("ab"), structure()])
    np.testing.assert_array_equal(found.strength, [[0, 0.75, 0], [0.75, 0, 0.25], [0, 0.25, 0]])
    np.testing.assert_array_equal(found.direction, [[0, 2 / 3, 0], [1 / 3, 0, 1], [0, 0, 0]])
    assert found.dags
    assert found.structures == 4


def test_an_edge_without_a_direction_counts_as_half_each_way():
    found = edge_strengths([structure("ab", "ba", kind="cpdag"), structure("ab", kind="cpdag")])
    assert found.strength[0, 1] == 1
    assert (found.direction[0, 1], found.direction[1, 0]) == (0.75, 0.25)
    assert (found.arrows[0, 1], found.lines[0, 1], found.lines[1, 0]) == (1, 1, 1)
    assert not found.dags


def test_a_cycle_of_two_is_one_edge_with_no_direction():
    found = edge_strengths([structure("ab", "ba"), structure("ab")])
    assert found.strength[0, 1] == 1
    assert found.direction[0, 1] == 0.75


def test_in_a_pag_a_head_at_one_end_is_a_direction():
    def pag(at_a, at_b):
        weights = np.zeros((3, 3))
        weights[1, 0], weights[0, 1] = at_a, at_b
        return Structure(NAMES, weights, "pag")

    found = edge_strengths(
        [pag(TAIL, ARROW), pag(CIRCLE, ARROW), pag(ARROW, ARROW), pag(CIRCLE, CIRCLE), pag(ARROW, TAIL)]
    )
    assert found.strength[0, 1] == 1
    assert found.direction[0, 1] == (2 + 2 / 2) / 5
    assert found.direction[1, 0] == (1 + 2 / 2) / 5


def test_lagged_edges_are_counted_lag_by_lag():
    one, two = np.zeros((1, 3, 3)), np.zeros((2, 3, 3))
    one[0, 0, 0], two[0, 0, 0], two[1, 0, 2] = 0.5, 0.1, -0.3
    structures = [structure("ab", lagged=one), structure(lagged=two)]
    found = edge_strengths(structures)
    own, later = found.lagged[0, 0, 0], found.lagged[1, 0, 2]
    assert (own, later, found.lagged.sum()) == (1, 0.5, 1.5)
    (edge, other) = classify_lagged(structures[1], None)
    assert found.strength_and_direction(edge) == (1.0, 1.0)
    assert found.strength_and_direction(other) == (0.5, 1.0)


def test_an_edge_is_looked_up_the_way_it_is_written():
    found = edge_strengths([structure("ab"), structure("ba"), structure("ba"), structure()])
    (forth,), (back,) = (classify(structure(edge), None) for edge in ("ab", "ba"))
    assert found.strength_and_direction(forth) == (0.75, 1 / 3)
    assert found.strength_and_direction(back) == (0.75, 2 / 3)
    (never,) = classify(structure("bc"), None)
    assert found.strength_and_direction(never) == (0.0, None)
    lagged = np.zeros((1, 3, 3))
    lagged[0, 0, 1] = 1.0
    (never,) = classify_lagged(structure(lagged=lagged), None)
    assert found.strength_and_direction(never) == (0.0, None)
