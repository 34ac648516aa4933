"""The starts of BOSS: the best result is kept, the seed determines the orders, and column numbers do not matter."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.core.knowledge import no_prior
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.score import boss_starts
from fedbnsl.algorithms.score.boss import advance_boss, boss_from, order_graph
from fedbnsl.algorithms.score.boss_starts import AGREEING_STARTS, advance_starts, starts_from
from fedbnsl.algorithms.score.families import Batch, no_families
from fedbnsl.algorithms.score.ges import score_pending
from fedbnsl.algorithms.score.procedures import BOSS, search
from fedbnsl.algorithms.score.settings import SearchSettings
from fedbnsl.tasks.transport.in_process import InProcessFederation


def finished(drawn, number, seed=0):
    """The end of a search from this number of orders, and the families that it has scored."""
    state, families = starts_from(no_prior(len(drawn.dag)), number, np.random.default_rng(seed)), no_families()
    while True:
        state = advance_starts(state, families)
        if state.done:
            return state, families
        families = score_pending(families, drawn.scores())


def single(drawn, order):
    """The score that one search ends in."""
    boss, families = boss_from(order), no_families()
    while True:
        boss = advance_boss(boss, families)
        if boss.done:
            return boss.total
        families = score_pending(families, drawn.scores())


def test_the_best_of_the_starts_is_kept(monkeypatch, drawing):
    monkeypatch.setattr(boss_starts, "AGREEING_STARTS", 99)
    differing = 0
    for seed in range(8):
        drawn = drawing(9, 300, seed, 0.6)
        state, families = finished(drawn, 5)
        each = [single(drawn, order) for order in state.orders]
        assert state.begun == 5
        assert state.total == pytest.approx(max(each))
        assert state.agreeing == sum(one == pytest.approx(max(each), abs=1e-6) for one in each)
        assert order_graph(state.best, state.trees.arrays, families.tables)[1] == pytest.approx(state.total)
        differing += max(each) - each[-1] > 1e-6
    assert differing  # the last start is not always the best one


def test_starts_that_agree_end_the_search(drawing):
    state, _ = finished(drawing(5, 3000, 1, 0.3), 10)
    assert state.agreeing == AGREEING_STARTS
    assert state.begun < 10


@pytest.mark.parametrize(("d", "starts"), [(2, 10), (20, 10), (50, 8), (100, 4), (500, 1)])
def test_many_variables_have_fewer_starts(d, starts):
    assert SearchSettings().starts_of(d) == starts
    assert SearchSettings(starts=7).starts_of(d) == 7


def twins(d=5, rows=400):
    """Columns of which the first two are one-to-one, and all others noisy copies of them."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, rows)
    return np.column_stack([first, 1 - first, *(first ^ (rng.random(rows) < 0.2) for _ in range(d - 2))])


def test_twins_share_the_edges_of_others_by_seed_not_by_column(learning):
    """Either of two one-to-one columns explains the others equally well; the choice is random."""
    table = twins()
    names = tuple("abcde")
    schema = Schema(names, {"s": len(table)}, "discrete", dict.fromkeys(names, ("x", "y")))
    chosen = set()
    for seed in range(12):
        found = learning("boss", InProcessFederation(schema, {"s": table}), seed=seed).adjacency
        assert found[0, 1] | found[1, 0]
        chosen.add((bool((found | found.T)[0, 2:].any()), bool((found | found.T)[1, 2:].any())))
    assert {(True, False), (False, True)} <= chosen


def test_the_same_seed_gives_the_same_graph_from_rows_and_from_sums(drawing, learning):
    drawn = drawing(8, 400, 5, 0.6)
    for seed in (0, 3):
        one = learning("boss", drawn.dealt(), seed=seed)
        np.testing.assert_array_equal(learning("secure-boss", drawn.dealt(3), seed=seed).weights, one.weights)


def test_the_score_does_not_depend_on_the_order_of_the_columns(drawing):
    for case in range(3):
        drawn = drawing(8, 800, case, 0.5)
        totals = []
        for order in (np.arange(8), np.random.default_rng(case).permutation(8), np.arange(8)[::-1]):
            turned = replace(
                drawn, dag=drawn.dag[np.ix_(order, order)], table=drawn.table[:, order], levels=drawn.levels[order]
            )
            totals.append(finished(turned, 10)[0].total)
        assert np.ptp(totals) < 1e-6


def test_a_search_on_very_many_rows_ends():
    """With very large totals, rounding exceeds any fixed bound; steps that gain only rounding are not taken."""
    rng = np.random.default_rng(0)
    d = 12
    base = rng.normal(size=(d, d))
    loss = base @ base.T

    def scores(batch: Batch):
        found = np.empty(len(batch))
        for m in range(len(batch)):
            child, parents = batch.family(m)
            # Equal for all but rounding, which depends on the family.
            found[m] = -1e9 * (1 + 1e-16 * loss[child, parents].sum())
        return found + 1e-7 * np.sin(np.arange(len(batch)))

    assert search(BOSS, d, SearchSettings(starts=2), scores).shape == (d, d)
