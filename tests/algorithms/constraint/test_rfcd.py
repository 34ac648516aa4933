"""RFCD: silos report differences of scores, all neighbouring graphs are proposed, and the worst regret only falls."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Replies, rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.procedures import scores_of
from fedbnsl.algorithms.score.rfcd import Judgement, Proposal, Server, aggregate, neighbours
from fedbnsl.algorithms.score.settings import SearchSettings


def algorithm(**params):
    return registry.build(registry.specify("rfcd", params))


def score(rows, dag):
    """The score of a DAG, family by family."""
    families = [np.r_[v, np.flatnonzero(dag[:, v])] for v in range(len(dag))]
    first = np.cumsum([0, *map(len, families)])
    return scores_of(rows, SearchSettings())(Batch(first, np.concatenate(families).astype(np.uint16))).sum()


@pytest.mark.compiles
@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10**6))
def test_the_neighbours_are_all_acyclic_graphs_one_edge_away(d, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    dag = np.triu(rng.random((d, d)) < 0.5, 1)[np.ix_(order, order)]
    expected = set()
    for i, j in permutations(range(d), 2):
        for entries in ([(i, j)], [(i, j), (j, i)] if dag[i, j] else [(i, j)]):
            other = dag.copy()
            for entry in entries:
                other[entry] ^= True
            if is_acyclic(other):
                expected.add(other.tobytes())
    changes, graphs = neighbours(dag)
    assert {graph.tobytes() for graph in graphs} == expected
    assert len(graphs) == len(expected)
    np.testing.assert_array_equal(changes, (graphs ^ dag).reshape(-1, d * d))


def test_a_judgement_is_the_difference_of_scores(drawing, dealing):
    drawn = drawing(5, 400, 2)
    federation, learner = dealing(drawn, [np.arange(200), np.arange(200, 400)]), algorithm()
    silo = learner.open_silo(federation.tables["s00"], federation.schema, "s00", np.random.default_rng(0))
    dag = drawn.dag
    judged = learner.local_solve(silo, Proposal(dag))[1]
    now = score(silo.rows, dag)
    assert judged.regret == pytest.approx(silo.best - now)
    for change, graph in zip(*neighbours(dag), strict=True):
        assert change @ judged.gains.ravel() == pytest.approx(score(silo.rows, graph) - now)


@pytest.mark.parametrize("lie", [np.ones((4, 4), bool), np.zeros((3, 3), bool), np.zeros((4, 3), bool)])
def test_a_proposal_that_is_no_dag_of_the_variables_is_refused(lie, drawing, dealing):
    """The compiled scores would count a variable twice, outside their tables."""
    federation, learner = dealing(drawing(4, 60, 0), [np.arange(60)]), algorithm()
    ((silo, table),) = federation.tables.items()
    state = learner.open_silo(table, federation.schema, silo, np.random.default_rng(0))
    with pytest.raises(BadInput, match="must be a DAG of 4 variables"):
        learner.local_solve(state, Proposal(lie))


def test_the_worst_off_silo_decides():
    """x → y improves the first silo much and the second not at all; y → z improves both a little and is chosen."""
    gains = [np.zeros((3, 3)), np.zeros((3, 3))]
    gains[0][0, 1], gains[0][1, 2], gains[1][1, 2] = 50.0, 3.0, 2.0
    replies = Replies(("a", "b"), tuple(Judgement(60.0, one) for one in gains))
    server = aggregate(Server(tuple("xyz"), np.zeros((3, 3), bool), np.inf), replies)
    assert np.argwhere(server.dag).tolist() == [[1, 2]]
    assert server.worst == 60.0


def test_the_worst_regret_only_falls_until_nothing_lessens_it(drawing, dealing):
    for seed in range(3):
        learner = algorithm()
        run = list(rounds(learner, dealing(drawing(6, 900, seed), [np.arange(k, 900, 3) for k in range(3)])))
        worst = [one.server.worst for one in run]
        assert run[-1].outcome == "converged"
        assert worst[:-1] == sorted(worst[:-1], reverse=True)
        assert run[-1].server.dag.any()


def test_it_learns_what_the_silos_share(drawing, dealing):
    wrong = edges = 0
    for seed in range(4):
        drawn = drawing(6, 12_000, seed)
        *_, end = rounds(learner := algorithm(), dealing(drawn, [np.arange(k, 12_000, 3) for k in range(3)]))
        scores = compare(learner.structure(end.server), Structure(drawn.variables, drawn.dag * 1.0))
        wrong, edges = wrong + scores["shd_skeleton"], edges + scores["true_edges"]
    assert wrong <= 0.2 * edges
