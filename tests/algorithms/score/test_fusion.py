"""Fusion: the order, independence maps by d-separation, the votes, and graphs that cannot be fused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.graphs.dag import d_separated, is_acyclic
from fedbnsl.algorithms.score.fusion import fuse, greedy_order, independence_map

CHECKED = settings(deadline=None, max_examples=60)


@st.composite
def dags(draw, most=7, k=None):
    """Several DAGs over the same variables, `[k, d, d]`."""
    d, count = draw(st.integers(2, most)), k or draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    density = draw(st.sampled_from([0.1, 0.3, 0.6, 1.0]))
    graphs = []
    for _ in range(count):
        order = rng.permutation(d)
        graphs.append(np.triu(rng.random((d, d)) < density, 1)[np.ix_(order, order)])
    return np.stack(graphs)


def names(d):
    return tuple(f"v{i}" for i in range(d))


def make_sink(dag, v, priority):
    """Cover and reverse the edges of v in place, one by one, each time to a child that no other child leads to."""
    while dag[v].any():
        reach = np.linalg.matrix_power(np.eye(len(dag)) + dag, len(dag)) > 0
        children = set(np.flatnonzero(dag[v]).tolist())
        child = min((c for c in children if not reach[list(children - {c}), c].any()), key=lambda c: priority[c])
        for p in range(len(dag)):
            if p not in (v, child) and (dag[p, v] or dag[p, child]):
                dag[p, v] = dag[p, child] = True
        dag[v, child], dag[child, v] = False, True
        assert is_acyclic(dag)


class TestIndependenceMap:
    @CHECKED
    @given(graphs=dags(k=1), seed=st.integers(0, 10**6))
    def test_an_arc_stands_where_d_separation_given_all_before_fails(self, graphs, seed):
        (dag,) = graphs
        order = np.random.default_rng(seed).permutation(len(dag))
        found = independence_map(dag, order)
        for place, v in enumerate(order):
            before = {int(w) for w in order[:place]}
            for w in before:
                assert found[w, v] == (not d_separated(dag, w, int(v), before - {w}))
        assert found.sum() == sum(found[order[i], order[j]] for j in range(len(order)) for i in range(j))

    @CHECKED
    @given(graphs=dags(k=1), seed=st.integers(0, 10**6))
    def test_covered_arc_reversals_lead_to_a_dag_that_holds_it(self, graphs, seed):
        (dag,) = graphs
        order = np.random.default_rng(seed).permutation(len(dag))
        rest, reversed_ = dag.copy(), np.zeros_like(dag)
        for v in order[::-1]:  # the first possible child in the order, so added edges agree with the order
            make_sink(rest, v, np.argsort(order))
            reversed_[:, v], rest[:, v] = rest[:, v], False
        assert (reversed_ >= independence_map(dag, order)).all()

    @CHECKED
    @given(graphs=dags())
    def test_the_union_has_no_independence_that_one_of_the_dags_lacks(self, graphs):
        union = fuse(graphs, 0.0, names(graphs.shape[1]))
        d = len(union)
        rng = np.random.default_rng(d)
        for _ in range(20):
            x, y = rng.choice(d, 2, replace=False)
            given_ = {v for v in range(d) if v not in (x, y) and rng.random() < 0.5}
            if d_separated(union, int(x), int(y), given_):
                assert all(d_separated(dag, int(x), int(y), given_) for dag in graphs)


class TestOrder:
    @CHECKED
    @given(graphs=dags(), seed=st.integers(0, 10**6))
    def test_it_is_greedy_by_the_cost_of_making_a_sink(self, graphs, seed):
        """Costs computed for each variable by reversing its edges: the added edges, and its children minus one."""
        priority = np.random.default_rng(seed).permutation(graphs.shape[1])
        rest, left, order = [dag.copy() for dag in graphs], list(range(graphs.shape[1])), []
        while left:
            cheapest = min(left, key=lambda v: (sum(_cost(dag, v) for dag in rest), priority[v]))
            order.insert(0, cheapest)
            left.remove(cheapest)
            for dag in rest:
                make_sink(dag, cheapest, priority)
                dag[:, cheapest] = False
        assert greedy_order(graphs, priority).tolist() == order

    def test_an_arc_that_covers_two_arcs_is_added_once(self):
        """Both 0 → 2 and 0 → 3 of the first graph are covered by 1 → 0."""
        graphs = np.zeros((2, 4, 4), np.bool_)
        for graph, arcs in zip(graphs, ("02 03 12 13 23", "01 21 23 30 31"), strict=True):
            for source, target in arcs.split():
                graph[int(source), int(target)] = True
        assert greedy_order(graphs, np.arange(4)).tolist() == [2, 3, 0, 1]

    @CHECKED
    @given(graphs=dags(k=3), seed=st.integers(0, 10**6))
    def test_neither_the_order_of_the_columns_nor_of_the_silos_matters(self, graphs, seed):
        d = graphs.shape[1]
        mixed = np.random.default_rng(seed).permutation(d)
        one = fuse(graphs, 0.5, names(d))
        other = fuse(graphs[::-1][:, mixed][:, :, mixed], 0.5, tuple(names(d)[v] for v in mixed))
        np.testing.assert_array_equal(other, one[np.ix_(mixed, mixed)])


def _cost(dag, v):
    """Children minus one, plus the missing edges that would make each edge from v covered in the current graph."""
    missing = set()
    for child in np.flatnonzero(dag[v]):
        missing |= {(p, child) for p in np.flatnonzero(dag[:, v]) if not dag[p, child]}
        missing |= {(p, v) for p in np.flatnonzero(dag[:, child]) if p != v and not dag[p, v] and not dag[v, p]}
    return len(missing) + int(dag[v].sum()) - 1


class TestVotes:
    @CHECKED
    @given(graphs=dags(k=1), count=st.integers(1, 6), quota=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    def test_equal_dags_fuse_into_themselves(self, graphs, count, quota):
        np.testing.assert_array_equal(fuse(np.repeat(graphs, count, axis=0), quota, names(graphs.shape[1])), graphs[0])

    @CHECKED
    @given(graphs=dags())
    def test_consensus_shrinks_with_the_quota_and_is_acyclic(self, graphs):
        fused = [fuse(graphs, quota, names(graphs.shape[1])) for quota in (0.0, 0.25, 0.5, 0.75, 1.0)]
        for more, less in pairwise(fused):
            assert (more >= less).all()
        assert all(is_acyclic(dag) for dag in fused)

    @pytest.mark.parametrize(
        ("quota", "silos", "needed"),
        [(0.0, 9, 1), (0.25, 5, 1), (0.5, 5, 2), (0.25, 20, 5), (0.5, 20, 10), (1.0, 3, 3)],
    )
    def test_how_many_dags_must_have_an_arc(self, quota, silos, needed):
        for votes in (needed - 1, needed):
            graphs = np.zeros((silos, 2, 2), np.bool_)
            graphs[:votes, 0, 1] = True
            assert fuse(graphs, quota, ("a", "b")).sum() == (votes == needed)
