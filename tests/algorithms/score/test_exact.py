"""The exact final step of BOSS: the best of all DAGs, equal from rows and from sums, and only on request."""

from itertools import permutations

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag, member_of
from fedbnsl.algorithms.score import settings
from fedbnsl.algorithms.score.exact_search import best_dag, request_all_families
from fedbnsl.algorithms.score.families import Batch, no_families
from fedbnsl.algorithms.score.ges import score_pending
from fedbnsl.algorithms.score.settings import SearchSettings


def total(dag, scores):
    families = [[v, *np.flatnonzero(dag[:, v])] for v in range(len(dag))]
    members = np.array([v for family in families for v in family], np.uint16)
    return scores(Batch(np.cumsum([0, *map(len, families)]), members)).sum()


def exact(scores, d, most_parents):
    families = no_families()
    while not request_all_families(d, most_parents, families.tables):
        families = score_pending(families, scores)
    return (*best_dag(d, most_parents, families.tables), families)


def by_orders(scores, d, most_parents):
    """The greatest score of all DAGs: in each order of the variables, each one's best parents among those before."""
    best = -np.inf
    single = {}
    for v in range(d):
        for chosen in range(1 << d):
            parents = [w for w in range(d) if chosen >> w & 1]
            if v not in parents and len(parents) <= most_parents:
                single[v, chosen] = scores(Batch(np.array([0, 1 + len(parents)]), np.array([v, *parents], np.uint16)))[
                    0
                ]
    for order in permutations(range(d)):
        before, score = 0, 0.0
        for v in order:
            score += max(value for (child, chosen), value in single.items() if child == v and not chosen & ~before)
            before |= 1 << v
        best = max(best, score)
    return best


@pytest.mark.parametrize("most_parents", [1, 2, 4])
def test_no_dag_is_better(drawing, most_parents):
    for seed in range(3):
        drawn = drawing(5, 200, seed, 0.8)
        dag, score, _ = exact(drawn.scores(), 5, most_parents)
        assert score == pytest.approx(total(dag, drawn.scores()))
        assert score == pytest.approx(by_orders(drawn.scores(), 5, most_parents))
        assert dag.sum(axis=0).max() <= most_parents


def test_it_asks_for_families_of_few_parents_once(drawing):
    families = exact(drawing(7, 100, 0).scores(), 7, 2)[2]
    sizes = np.diff(families.first[: families.used[0] + 1])
    assert np.bincount(sizes).tolist() == [0, 7, 7 * 6, 7 * 15]


def test_boss_ends_in_the_best_dag_where_its_orders_miss_it(drawing, learning):
    """One start and no prior: some of these searches end in a local optimum, from rows and from sums alike."""
    missed, prior = 0, {"expected_parents": 0.0}
    for seed in range(6):
        drawn = drawing(8, 400, seed, 0.7)
        scores = drawn.scores(**prior)
        _, score, _ = exact(scores, 8, 5)
        settings = {"starts": 1, "seed": seed, **prior}
        found = learning("boss", drawn.dealt(), **settings).adjacency
        assert total(member_of(found), scores) == pytest.approx(score, rel=1e-10)
        np.testing.assert_array_equal(learning("secure-boss", drawn.dealt(3), **settings).adjacency, found)
        without = learning("boss", drawn.dealt(), exact=0, **settings).adjacency
        missed += total(member_of(without), scores) < score - 1e-6
    assert missed


def test_the_class_of_boss_is_kept_where_it_is_as_good(drawing, learning):
    drawn = drawing(6, 3000, 1, 0.3)
    found = learning("boss", drawn.dealt())
    np.testing.assert_array_equal(found.weights, learning("boss", drawn.dealt(), exact=0).weights)
    np.testing.assert_array_equal(found.adjacency, cpdag(exact(drawn.scores(), 6, 5)[0]))


def test_more_variables_than_asked_for_have_none():
    assert SearchSettings().exact_parents_of(11) == 5
    assert SearchSettings().exact_parents_of(12) == 0
    assert SearchSettings(exact=0).exact_parents_of(2) == 0
    for wrong in ({"exact": 17}, {"exact": -1}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            SearchSettings(**wrong)


def test_it_asks_silos_for_no_wider_tables(drawing, running, monkeypatch):
    """Families requested after the starts have at most as many parents as the exact search allows."""
    drawn = drawing(8, 200, 3, 0.3, 2)
    before = running("secure-boss", drawn.dealt(2), exact=0).server.families.used[0]
    monkeypatch.setattr(settings, "EXACT_PARENTS", 3)
    server = running("secure-boss", drawn.dealt(2)).server
    sizes = np.diff(server.families.first[before : server.families.used[0] + 1])
    assert len(sizes)
    assert sizes.max() == 1 + 3
