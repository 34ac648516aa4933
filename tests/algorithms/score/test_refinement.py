"""GES refined by BOSS near its graph: the score never falls, sums give the same, and only near families are scored."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.knowledge import Knowledge, no_prior
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.cpdag import member_of
from fedbnsl.algorithms.score.boss import order_graph
from fedbnsl.algorithms.score.families import Batch, no_families
from fedbnsl.algorithms.score.ges import score_pending
from fedbnsl.algorithms.score.knowledge_constraints import apply_knowledge, drop_impossible
from fedbnsl.algorithms.score.procedures import BOSS, GES, REFINED_GES, search
from fedbnsl.algorithms.score.refinement import MAX_DISTANCE, refined_graph
from fedbnsl.algorithms.score.settings import SearchSettings
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.tasks.transport.in_process import InProcessFederation

SETTINGS = SearchSettings(refine=True)


def score_of(graph, drawn):
    """The score of a member of the class `graph`, family by family."""
    dag = member_of(graph)
    members = [np.array([child, *np.flatnonzero(dag[:, child])], np.uint16) for child in range(len(dag))]
    return float(drawn.scores()(Batch(np.cumsum([0, *map(len, members)]), np.concatenate(members))).sum())


def test_it_scores_no_worse_than_ges_and_at_times_better(drawing):
    gains = []
    for seed in range(12):
        drawn = drawing(10, 250, seed, 0.5)
        greedy, refined = (search(one, 10, SETTINGS, drawn.scores()) for one in (GES, REFINED_GES))
        gains.append(score_of(refined, drawn) - score_of(greedy, drawn))
        if gains[-1] == 0:
            np.testing.assert_array_equal(refined, greedy)
    assert min(gains) >= 0
    assert max(gains) > 0.1


def test_the_gain_of_the_report_is_that_of_the_graphs(drawing, running):
    drawn = next(one for one in (drawing(10, 250, seed, 0.5) for seed in range(12)) if _gain(one, running) > 0.1)
    greedy = running("secure-ges", drawn.dealt(3)).server.found
    last = running("secure-ges", drawn.dealt(3), refine=True)
    gain = score_of(last.server.found, drawn) - score_of(greedy, drawn)
    assert last.server.state.gain == pytest.approx(gain)
    (sentence,) = registry.build(registry.specify("secure-ges", {"refine": True})).basis(last.server)
    assert f"greater by {gain:.1f}" in sentence


def _gain(drawn, running):
    return running("secure-ges", drawn.dealt(3), refine=True).server.state.gain


@pytest.mark.parametrize("ahead", [0, 8])
@pytest.mark.parametrize("most_levels", [1, 3], ids=["continuous", "discrete"])
def test_sums_find_what_pooled_rows_do(most_levels, ahead, drawing, learning):
    for seed in range(4):
        dealt = drawing(8, 300, seed, 0.5, most_levels).dealt(4)
        whole = pool(FederatedData(dealt.schema, dict(dealt.tables)))
        pooled = learning("ges", InProcessFederation(whole.schema, whole.tables), refine=True)
        found = learning("secure-ges", dealt, refine=True, lookahead=ahead)
        np.testing.assert_array_equal(found.weights, pooled.weights)


def test_masks_change_nothing(drawing, learning):
    drawn = drawing(7, 300, 2, 0.5)
    dealt = drawn.dealt(3)
    masked = InProcessFederation(dealt.schema, dealt.tables, secure=True)
    found = learning("secure-ges", masked, refine=True)
    np.testing.assert_array_equal(found.weights, learning("ges", drawn.dealt(), refine=True).weights)


def test_a_run_resumes_from_any_exchange(drawing):
    federation = drawing(9, 300, 3, 0.5).dealt(3)
    algorithm = registry.build(registry.specify("secure-ges", {"refine": True}))
    whole = list(rounds(algorithm, federation))
    resumed = set()
    for one in whole[:-1]:
        state = wire.decode(algorithm.server_type, wire.encode(one.server))
        resumed.add(bool(state.state.near))
        last = list(rounds(algorithm, federation, resume=(one.number, state)))[-1]
        np.testing.assert_array_equal(last.server.found, whole[-1].server.found)
        assert last.number == whole[-1].number
    assert resumed == {False, True}  # during GES, and after it


def test_only_parents_near_the_greedy_graph_are_scored_after_it(drawing):
    drawn, families = drawing(14, 2000, 1, 0.12), no_families()
    state, asked = REFINED_GES.begin(no_prior(14), SETTINGS), []
    while not state.done:
        state = REFINED_GES.advance(state, families, 8)
        if state.near:
            pending = families.pending
            asked += [pending.family(m) for m in range(len(pending))]
        families = score_pending(families, drawn.scores())
    joined = (state.graph | state.graph.T).astype(int) + np.eye(14, dtype=int)
    near = np.linalg.matrix_power(joined, MAX_DISTANCE) > 0
    assert not near.all()
    assert asked
    assert all(near[child, parents].all() for child, parents in asked)


def finished(drawn, prior):
    """The end of a search with the background knowledge `prior`."""
    families, state = no_families(), REFINED_GES.begin(prior, SETTINGS)
    while True:
        state = REFINED_GES.advance(state, families, 0)
        if state.done:
            return state
        families = score_pending(families, drawn.scores())


def test_background_knowledge_holds_in_both_searches(drawing):
    """Knowledge that contradicts the data: edges of the true graph are forbidden."""
    for seed in range(6):
        drawn = drawing(8, 1000, seed, 0.4)
        names, rng = drawn.variables, np.random.default_rng(seed)
        wrong = rng.permutation(np.argwhere(drawn.dag))[:4]
        prior = Knowledge((), tuple((names[a], names[b]) for a, b in wrong)).prior(names)
        state = finished(drawn, prior)
        near = state.near[0]
        dag, _ = order_graph(near.best, near.trees.arrays, state.known.tables, int(near.prior.parentless.sum()))
        assert dag.any()
        assert not (dag & ~prior.possible).any()
        found = search(REFINED_GES, 8, SETTINGS, drawn.scores(), prior)
        assert not (found & ~found.T & ~prior.possible).any()


def test_the_greedy_class_is_kept_if_it_scores_better(drawing):
    state = finished(drawing(10, 250, 0, 0.5), no_prior(10))
    for lead, gain in ((-1.0, 1.0), (0.0, 0.0), (1.0, 0.0)):
        one = replace(
            state, greedy_total=state.near[0].total + lead, greedy=replace(state.greedy, graph=np.eye(10) > 1)
        )
        assert one.gain == pytest.approx(gain)
        assert refined_graph(one).any() == (gain > 0)


def test_the_score_of_boss_includes_variables_that_can_have_no_parents(drawing):
    """No sweep needs their scores, and formerly starts with the same final graph had different totals."""
    drawn = drawing(7, 800, 4, 0.4)
    names = drawn.variables
    prior = Knowledge((), tuple((other, one) for one in names[:3] for other in names if other != one)).prior(names)
    settings, families = SearchSettings(exact=0), no_families()
    state = BOSS.begin(prior, settings)
    while not state.done:
        state = BOSS.advance(state, families, 0)
        if state.done:
            break
        families = score_pending(
            families, lambda batch: apply_knowledge(drawn.scores()(drop_impossible(batch, prior)), batch, prior)
        )
    graph = BOSS.graph(state, families)
    dag, total = order_graph(state.best, state.trees.arrays, families.tables, 3)
    assert total == pytest.approx(state.total)
    assert score_of(graph, drawn) == pytest.approx(state.total)
    assert not dag[:, :3].any()
    assert state.begun < len(state.orders)
