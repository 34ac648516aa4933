"""Cycles, topological order and d-separation, against networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.graphs.dag import (
    SMALL,
    break_cycles,
    d_separated,
    edges_on_cycles,
    find_cycle,
    is_acyclic,
    reachable,
    strongest_acyclic,
    topological_order,
)
from tests.algorithms.graphs.dags import dags

checked = settings(deadline=None, max_examples=40)


@st.composite
def digraphs(draw, most=6):
    d = draw(st.integers(1, most))
    graph = draw(arrays(np.bool_, (d, d)))
    np.fill_diagonal(graph, False)
    return graph


def to_nx(adjacency):
    return nx.from_numpy_array(adjacency, create_using=nx.DiGraph)


@checked
@given(st.one_of(digraphs(), dags(6)))
def test_acyclic_as_networkx_says(graph):
    assert is_acyclic(graph) == nx.is_directed_acyclic_graph(to_nx(graph))


@checked
@given(digraphs())
def test_edges_on_cycles_are_those_whose_head_reaches_their_tail(graph):
    expected = np.zeros_like(graph)
    for i, j in np.argwhere(graph):
        expected[i, j] = nx.has_path(to_nx(graph), j, i)
    np.testing.assert_array_equal(edges_on_cycles(graph), expected)


@checked
@given(digraphs(), st.randoms(use_true_random=False))
def test_the_strongest_edges_without_a_cycle_are_as_many_as_there_can_be(graph, random):
    weights = np.where(graph, np.reshape(random.sample(range(1, 100), graph.size), graph.shape), 0.0)
    kept = strongest_acyclic(weights)
    assert is_acyclic(kept != 0)
    dropped, left = np.abs(weights[(weights != 0) & (kept == 0)]), np.abs(kept[kept != 0])
    assert dropped.size == 0 or dropped.max() < left.min(initial=np.inf)
    if dropped.size:
        assert not is_acyclic(weights >= dropped.max())


@pytest.mark.parametrize("d", [SMALL, SMALL + 1])
def test_cycles_of_all_lengths_are_found_in_graphs_of_any_size(d):
    """A cycle through half of the variables, a short one that it leads to, and paths between and behind them."""
    graph, half = np.zeros((d, d), np.bool_), d // 2
    for i, j in ((i, (i + 1) % half) for i in range(half)):
        graph[i, j] = True
    for i, j in ((half, half + 1), (half + 1, half)):
        graph[i, j] = True
    cyclic = graph.copy()
    for i in range(half, d - 1):
        graph[i, i + 1] = True
    graph[0, half] = graph[d - 1, d - 2] = cyclic[d - 1, d - 2] = cyclic[d - 2, d - 1] = True
    np.testing.assert_array_equal(edges_on_cycles(graph), cyclic)


def test_an_edge_to_itself_is_a_cycle():
    graph = np.array([[True, False], [True, False]])
    assert not is_acyclic(graph)
    assert find_cycle(graph, ["a", "b"]) == ["a"]
    kept, dropped = break_cycles(graph * 2.0)
    np.testing.assert_array_equal(kept, [[0, 0], [2, 0]])
    assert dropped == 1


@checked
@given(digraphs(), st.randoms(use_true_random=False))
def test_the_cycle_found_is_one_and_does_not_depend_on_the_order_of_the_columns(graph, random):
    names = [f"v{i}" for i in range(len(graph))]
    cycle = find_cycle(graph, names)
    if cycle is None:
        assert nx.is_directed_acyclic_graph(to_nx(graph))
        return
    steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    assert all(graph[names.index(a), names.index(b)] for a, b in steps)
    assert len(set(cycle)) == len(cycle)
    order = list(range(len(graph)))
    random.shuffle(order)
    assert find_cycle(graph[np.ix_(order, order)], [names[v] for v in order]) == cycle


def test_the_cycle_found_is_the_short_one_and_starts_at_the_first_name():
    names = ["d", "c", "b", "a", "z"]
    graph = np.zeros((5, 5), dtype=bool)
    for tail, head in ["ab", "bc", "cd", "da", "ca", "za"]:
        graph[names.index(tail), names.index(head)] = True
    assert find_cycle(graph, names) == ["a", "b", "c"]


@checked
@given(dags(8))
def test_topological_order_has_parents_first(dag):
    order = topological_order(dag)
    assert sorted(order) == list(range(len(dag)))
    assert all(order.index(i) < order.index(j) for i, j in np.argwhere(dag))


@checked
@given(dags(8), st.data())
def test_topological_order_follows_a_former_one_where_it_may(dag, data):
    """The next variable is always the first in the former order whose parents are all placed."""
    former = data.draw(st.permutations(range(len(dag))))
    left, expected = list(former), []
    while left:
        expected.append(next(v for v in left if not dag[left, v].any()))
        left.remove(expected[-1])
    assert topological_order(dag, np.array(former)) == expected


def test_topological_order_of_a_cycle_is_refused():
    with pytest.raises(ValueError, match="directed cycle"):
        topological_order(np.array([[False, True, False], [False, False, True], [False, True, False]]))


def drop_weakest_one_at_a_time(weights):
    weights, dropped = weights.copy(), 0
    while not nx.is_directed_acyclic_graph(graph := nx.from_numpy_array(weights, create_using=nx.DiGraph)):
        on_cycles = [(abs(w), i, j) for i, j, w in graph.edges.data("weight") if nx.has_path(graph, j, i)]
        _, i, j = min(on_cycles)
        weights[i, j] = 0
        dropped += 1
    return weights, dropped


@checked
@given(digraphs(), st.integers(0, 2**32 - 1))
def test_break_cycles_drops_the_weakest_edge_on_a_cycle_again_and_again(graph, seed):
    weights = graph * np.random.default_rng(seed).choice([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], graph.shape)
    before = weights.copy()
    kept, dropped = break_cycles(weights)
    expected, expected_dropped = drop_weakest_one_at_a_time(weights)
    np.testing.assert_array_equal(kept, expected)
    assert dropped == expected_dropped
    np.testing.assert_array_equal(weights, before)


def test_break_cycles_keeps_a_weak_edge_that_lies_on_no_cycle():
    weights = np.zeros((4, 4))
    weights[0, 1], weights[1, 2], weights[2, 0], weights[2, 3] = 0.9, -0.5, 0.8, 0.01
    kept, dropped = break_cycles(weights)
    assert dropped == 1
    assert [tuple(edge) for edge in np.argwhere(kept)] == [(0, 1), (2, 0), (2, 3)]


@checked
@given(digraphs())
def test_reachable_forwards_and_backwards_as_networkx(graph):
    assert set(np.flatnonzero(reachable(graph, [0]))) == nx.descendants(to_nx(graph), 0) | {0}
    assert set(np.flatnonzero(reachable(graph.T, [0]))) == nx.ancestors(to_nx(graph), 0) | {0}


@settings(deadline=None, max_examples=100)
@given(dags(7), st.data())
def test_d_separation_as_networkx_says(dag, data):
    assume(len(dag) > 1)
    i, j, *others = data.draw(st.permutations(range(len(dag))))
    given_ = set(others[: data.draw(st.integers(0, len(others)))])
    assert d_separated(dag, i, j, given_) == nx.is_d_separator(to_nx(dag), {i}, {j}, given_)


def test_conditioning_on_a_colliders_descendant_opens_it():
    dag = np.zeros((4, 4), dtype=bool)
    dag[0, 2] = dag[1, 2] = dag[2, 3] = True
    assert d_separated(dag, 0, 1)
    assert not d_separated(dag, 0, 1, {3})
    assert not d_separated(dag, 0, 3)
    assert d_separated(dag, 0, 3, [2])


@pytest.mark.parametrize(("i", "j", "given_"), [(0, 0, ()), (0, 1, (0,)), (0, 1, (1, 2))])
def test_d_separation_of_overlapping_sets_is_refused(i, j, given_):
    with pytest.raises(ValueError, match="must not overlap"):
        d_separated(np.zeros((3, 3), dtype=bool), i, j, given_)
