"""CPDAGs and Meek's rules against brute force over all DAGs, and extensions against their definition."""

import time
from functools import cache
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.graphs.cpdag import cpdag, extend, meek_closure, member_of
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.graphs.kernels import ALL_RULES, implied_arrows
from tests.algorithms.graphs.dags import dags


def all_partially_directed(d):
    pairs = list(combinations(range(d), 2))
    for ways in product([(0, 0), (1, 0), (0, 1), (1, 1)], repeat=len(pairs)):
        graph = np.zeros((d, d), dtype=bool)
        for (i, j), (there, back) in zip(pairs, ways, strict=True):
            graph[i, j], graph[j, i] = there, back
        yield graph


def class_key(graph):
    """Skeleton and unshielded colliders, by plain loops (Verma & Pearl's characterisation of a class)."""
    d = len(graph)
    both = graph | graph.T
    only = graph & ~graph.T
    colliders = frozenset(
        (i, k, j) for i, j in combinations(range(d), 2) if not both[i, j] for k in range(d) if only[i, k] and only[j, k]
    )
    return both.tobytes(), colliders


@cache
def classes(d):
    """All DAGs on d variables by Markov-equivalence class."""
    found = {}
    for graph in all_partially_directed(d):
        if nx.is_directed_acyclic_graph(nx.from_numpy_array(graph, create_using=nx.DiGraph)):
            found.setdefault(class_key(graph), []).append(graph)
    return found


def union(graphs):
    """The union of DAGs: an edge is directed if it has the same direction in all of them."""
    return np.logical_or.reduce(graphs)


def test_the_brute_force_knows_how_many_dags_and_classes_there_are():
    assert [sum(map(len, classes(d).values())) for d in (2, 3, 4)] == [3, 25, 543]
    assert [len(classes(d)) for d in (2, 3, 4)] == [2, 11, 185]


@pytest.mark.parametrize("d", [2, 3, 4])
def test_the_cpdag_of_every_small_dag_is_the_union_of_its_class(d):
    for members in classes(d).values():
        expected = union(members)
        for dag in members:
            np.testing.assert_array_equal(cpdag(dag), expected)


def orientations(dag):
    """All DAGs of the class of `dag`, by trying every orientation of its skeleton."""
    edges = np.argwhere(dag)
    for flips in product([False, True], repeat=len(edges)):
        graph = np.zeros_like(dag)
        for (i, j), flip in zip(edges, flips, strict=True):
            graph[(j, i) if flip else (i, j)] = True
        if is_acyclic(graph) and class_key(graph) == class_key(dag):
            yield graph


@settings(deadline=None, max_examples=25)
@given(dags(6, 2))
def test_the_cpdag_is_the_union_of_its_class_with_more_variables(dag):
    assume(dag.sum() <= 7)
    np.testing.assert_array_equal(cpdag(dag), union(list(orientations(dag))))


def pattern(dag):
    """The skeleton of `dag` with its v-structures."""
    graph = dag | dag.T
    for i, k, j in class_key(dag)[1]:
        graph[k, i] = graph[k, j] = False
    return graph


def wrong_closures(d, rules=ALL_RULES):
    """The cases in which Meek's rules do not give the union of the members that have the known directions.

    The v-structures and one or two further directions are known.
    """
    for members in classes(d).values():
        if not np.array_equal(meek_closure(pattern(members[0]), rules), union(members)):
            yield members[0]
        known = [(union(members), members)]
        for _ in range(2):
            known = [
                (oriented(graph, i, j), [member for member in consistent if member[i, j]])
                for graph, consistent in known
                for i, j in np.argwhere(graph & graph.T)
            ]
            for graph, consistent in known:
                if not np.array_equal(meek_closure(graph, rules), union(consistent)):
                    yield graph
            known = [(union(consistent), consistent) for _, consistent in known]


def oriented(graph, i, j):
    graph = graph.copy()
    graph[j, i] = False
    return graph


def test_background_knowledge_is_carried_as_far_as_it_goes():
    assert next(wrong_closures(4), None) is None


@pytest.mark.parametrize("rule", range(4))
def test_without_any_one_of_meeks_rules_it_is_not(rule):
    assert next(wrong_closures(4, np.arange(4) != rule), None) is not None


def pdag(text, d):
    """Edges such as "0>1 1-2"."""
    graph = np.zeros((d, d), dtype=bool)
    for edge in text.split():
        i, j = int(edge[0]), int(edge[2])
        graph[i, j] = True
        graph[j, i] = edge[1] == "-"
    return graph


def implied(graph, rules=ALL_RULES):
    """The directions that Meek's rules give to the undirected edges of `graph`."""
    unclear = np.zeros((0, 0, 0), bool)
    return implied_arrows(graph | graph.T, graph & ~graph.T, graph & graph.T, unclear, rules)


@pytest.mark.parametrize(
    ("rule", "fires", "does_not"),
    [
        (0, "2>0 0-1", ["2>0 0-1 2-1", "2-0 0-1", "0>2 0-1"]),
        (1, "0>2 2>1 0-1", ["0-2 2>1 0-1", "0>2 2-1 0-1", "2>0 1>2 0-1"]),
        (2, "0-1 0-2 0-3 2>1 3>1", ["0-1 0-2 0-3 2>1 3>1 2-3", "0-1 0-2 2>1", "0-1 0-2 0-3 2>1 1>3"]),
        (3, "0-1 0-2 0-3 2>3 3>1", ["0-1 0-2 0-3 2>3 3>1 2-1", "0-1 0-2 2>3 3>1", "0-1 0-2 0-3 3>2 3>1"]),
    ],
)
def test_each_rule_fires_on_its_picture_and_only_there(rule, fires, does_not):
    only = np.arange(4) == rule
    assert implied(pdag(fires, 4), only)[0, 1]
    assert not implied(pdag(fires, 4), only)[1, 0]
    assert not any(implied(pdag(picture, 4), only)[0, 1] for picture in does_not)


@pytest.mark.parametrize("between", ["0-3", "0>3", "3>0"])
def test_in_rule_4_any_edge_will_do_between_i_and_l(between):
    only = np.arange(4) == 3
    assert implied(pdag(f"0-1 0-2 2>3 3>1 {between}", 4), only)[0, 1]
    assert not implied(pdag("0-1 0-2 2>3 3>1", 4), only)[0, 1]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_after_the_closure_no_rule_has_anything_left_to_orient(data):
    d = data.draw(st.integers(4, 7))
    graph = data.draw(arrays(np.bool_, (d, d)))
    graph |= data.draw(arrays(np.bool_, (d, d))).T  # a denser graph has more undirected edges; it may be inconsistent
    np.fill_diagonal(graph, False)
    closed = meek_closure(graph)
    assert np.array_equal(closed | closed.T, graph | graph.T)
    assert not (closed & ~graph).any()
    assert not implied(closed).any()


def test_closure_leaves_its_argument_alone():
    graph = pdag("0>1 1-2", 3)
    np.testing.assert_array_equal(meek_closure(graph), pdag("0>1 1>2", 3))
    np.testing.assert_array_equal(graph, pdag("0>1 1-2", 3))


@settings(deadline=None, max_examples=50)
@given(dags(8, 2), st.data())
def test_reversing_an_edge_keeps_the_cpdag_exactly_if_the_edge_is_covered(dag, data):
    """Chickering 1995, Lemma 1: i → j can be reversed within the class if and only if j's other parents are i's."""
    edges = np.argwhere(dag)
    assume(len(edges) > 0)
    i, j = data.draw(st.sampled_from([tuple(edge) for edge in edges]))
    turned = dag.copy()
    turned[i, j], turned[j, i] = False, True
    assume(is_acyclic(turned))
    others = dag[:, j].copy()
    others[i] = False
    assert np.array_equal(cpdag(dag), cpdag(turned)) == np.array_equal(dag[:, i], others)


def test_a_cycle_has_no_cpdag():
    with pytest.raises(ValueError, match="directed cycle"):
        cpdag(pdag("0>1 1>2 2>0", 3))


@pytest.mark.parametrize("extend", [extend, member_of])
@settings(deadline=None, max_examples=40)
@given(dag=dags(12, 2))
def test_an_extension_of_a_cpdag_is_in_its_class(extend, dag):
    extension = extend(cpdag(dag))
    assert extension is not None
    assert is_acyclic(extension)
    assert not (extension & extension.T).any()
    assert class_key(extension) == class_key(dag)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_extend_finds_a_dag_exactly_if_there_is_one(d):
    for graph in all_partially_directed(d):
        directed = graph & ~graph.T
        consistent = [m for m in classes(d).get(class_key(graph), []) if not (directed & ~m).any()]
        extension = extend(graph)
        if extension is None:
            assert not consistent
            with pytest.raises(ValueError, match="no consistent extension"):
                member_of(graph)
        else:
            assert any(np.array_equal(extension, member) for member in consistent)
            assert any(np.array_equal(member_of(graph), member) for member in consistent)


def sparse_dag(d, edges, seed):
    rng = np.random.default_rng(seed)
    rows, columns = np.triu_indices(d, 1)
    chosen = rng.choice(len(rows), edges, replace=False)
    dag = np.zeros((d, d), dtype=bool)
    dag[rows[chosen], columns[chosen]] = True
    order = rng.permutation(d)
    return dag[np.ix_(order, order)]


def long_chain(d):
    """One v-structure at the head of a path: R1 must be applied along the whole path."""
    chain = np.eye(d, k=1, dtype=bool)
    chain[0, 1], chain[0, 2] = False, True
    return chain


@pytest.mark.parametrize("dag", [sparse_dag(700, 1200, 0), long_chain(700)], ids=["random", "chain"])
def test_seven_hundred_variables_take_less_than_a_second(dag):
    extend(cpdag(sparse_dag(80, 100, 0)))  # compiles
    start = time.process_time()
    completed = cpdag(dag)
    extension = extend(completed)
    assert time.process_time() - start < 1
    assert extension is not None
    np.testing.assert_array_equal(cpdag(extension), completed)


def test_the_long_chain_is_oriented_to_its_end():
    np.testing.assert_array_equal(cpdag(long_chain(30)), long_chain(30))
