"""BOSS: grow-shrink trees against new growing and shrinking, and its result against all orders."""

from itertools import permutations

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.cpdag import member_of
from fedbnsl.algorithms.score.boss import advance_boss, better_place, boss_from, graph_of, order_graph
from fedbnsl.algorithms.score.families import Batch, no_families
from fedbnsl.algorithms.score.ges import score_pending
from fedbnsl.algorithms.score.grow_shrink import no_trees


def scorer(drawn):
    """(child, parents) -> score."""
    known, ask = {}, drawn.scores()

    def score(child, parents):
        key = (child, *sorted(parents))
        if key not in known:
            known[key] = ask(Batch(np.array([0, len(key)]), np.array(key, np.uint16)))[0]
        return known[key]

    return score


def grown_and_shrunk(v, allowed, score):
    """The parents of v among `allowed`: the best addition while it improves, then the best removal (Algorithm 2)."""
    parents = set()
    while True:
        options = [(score(v, parents | {p}), -p) for p in sorted(allowed - parents)]
        if not options or max(options)[0] <= score(v, parents):
            break
        parents.add(-max(options)[1])
    while parents:
        best, left_out = max((score(v, parents - {p}), -p) for p in parents)
        if best <= score(v, parents):
            break
        parents.discard(-left_out)
    return parents


def total_of(order, score):
    return sum(score(v, grown_and_shrunk(v, set(order[:place]), score)) for place, v in enumerate(order))


def walked(order, drawn):
    """The DAG of an order, and its score, by trees."""
    families, trees = no_families(), no_trees()
    while True:
        trees = trees.roomy(families, len(order))
        _, stopped = better_place(order, order[0], len(order), trees.arrays, families.tables)
        if not stopped:
            return order_graph(order, trees.arrays, families.tables)
        families = score_pending(families, drawn.scores())


def searched(drawn, order=None):
    search, families = boss_from(np.arange(len(drawn.dag)) if order is None else order), no_families()
    while True:
        search = advance_boss(search, families)
        if search.done:
            return search, families
        families = score_pending(families, drawn.scores())


class TestTrees:
    @pytest.mark.parametrize("most_levels", [1, 3])
    def test_an_order_has_the_parents_of_growing_and_shrinking_afresh(self, most_levels, drawing):
        for seed in range(8):
            drawn = drawing(7, 300, seed, 0.6, most_levels)
            order = np.random.default_rng(seed).permutation(7)
            dag, total = walked(order, drawn)
            score = scorer(drawn)
            for place, v in enumerate(order):
                expected = grown_and_shrunk(int(v), set(order[:place].tolist()), score)
                assert set(np.flatnonzero(dag[:, v]).tolist()) == expected
            assert total == pytest.approx(total_of(order.tolist(), score))

    def test_a_variable_is_moved_to_its_best_place(self, drawing):
        for seed in range(6):
            drawn = drawing(6, 300, seed, 0.6)
            score, order = scorer(drawn), np.random.default_rng(seed).permutation(6)
            families, trees, stopped = no_families(), no_trees(), True
            while stopped:
                trees = trees.roomy(families, 6)
                moved, stopped = better_place(order, 2, 6, trees.arrays, families.tables)
                families = score_pending(families, drawn.scores()) if stopped else families
            rest = [v for v in order.tolist() if v != 2]
            best = max(total_of([*rest[:at], 2, *rest[at:]], score) for at in range(6))
            assert total_of(moved.tolist(), score) == pytest.approx(best)


class TestSearch:
    def test_no_move_of_one_variable_improves_the_end(self, drawing):
        for seed in range(6):
            drawn = drawing(6, 300, seed, 0.6)
            score = scorer(drawn)
            order = searched(drawn)[0].order.tolist()
            here = total_of(order, score)
            for x in range(6):
                rest = [v for v in order if v != x]
                assert all(total_of([*rest[:at], x, *rest[at:]], score) <= here + 1e-8 for at in range(6))

    def test_few_searches_miss_the_best_order(self, drawing):
        reached = 0
        for seed in range(12):
            drawn = drawing(5, 500, seed, 0.6, most_levels=1 + 2 * (seed % 2))
            score = scorer(drawn)
            best = max(total_of(order, score) for order in permutations(range(5)))
            mine = total_of(searched(drawn)[0].order.tolist(), score)
            assert mine <= best + 1e-8
            reached += mine >= best - 1e-8
        assert reached >= 10

    def test_it_never_does_worse_than_the_order_it_starts_from(self, drawing):
        for seed in range(5):
            drawn = drawing(8, 300, seed, 0.5)
            score, start = scorer(drawn), np.random.default_rng(seed).permutation(8)
            assert total_of(searched(drawn, start)[0].order.tolist(), score) >= total_of(start.tolist(), score) - 1e-8

    def test_the_graph_is_of_the_order_at_the_end(self, drawing):
        drawn = drawing(8, 1000, 3)
        search, families = searched(drawn)
        dag, total = order_graph(search.order, search.trees.arrays, families.tables)
        score, member = scorer(drawn), member_of(graph_of(search.order, search.trees, families, search.backward.prior))
        assert sum(score(v, np.flatnonzero(member[:, v]).tolist()) for v in range(8)) == pytest.approx(total)
        np.testing.assert_array_equal(member | member.T, dag | dag.T)
