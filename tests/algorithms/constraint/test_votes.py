"""Votes on graphs and on tests."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.baselines.vote_on_graphs import Poll, as_marks, ballot, elect
from fedbnsl.algorithms.baselines.vote_on_tests import votes
from fedbnsl.algorithms.constraint.fed_pc import FederatedSettings, fed_pc
from fedbnsl.algorithms.constraint.settings import ConstraintSettings
from fedbnsl.algorithms.core.protocol import Summand, gather, rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.count_tables import PAD
from fedbnsl.algorithms.statistics.rows import answer_as_asked

TAIL, ARROW, CIRCLE = 1, 2, 3


def poll(*graphs):
    """The result of a vote between graphs on two variables; a ballot is (mark at 0, mark at 1)."""
    each = [np.array([[0, there], [here, 0]]) for here, there in graphs]
    counted = np.array([[marks == mark for mark in (TAIL, ARROW, CIRCLE)] for marks in each]).sum(axis=0)
    return Poll(("a", "b"), counted.astype(float), len(each))


FORWARD, BACKWARD, LINE, APART = (TAIL, ARROW), (ARROW, TAIL), (TAIL, TAIL), (0, 0)


@pytest.mark.parametrize(
    ("graphs", "elected"),
    [
        ([FORWARD, FORWARD, BACKWARD], [[0, 1], [0, 0]]),
        ([FORWARD, BACKWARD], [[0, 1], [1, 0]]),
        ([FORWARD, FORWARD, LINE, LINE], [[0, 1], [1, 0]]),
        ([FORWARD, LINE, LINE], [[0, 1], [1, 0]]),
        ([FORWARD, FORWARD, APART], [[0, 1], [0, 0]]),
        ([FORWARD, APART], [[0, 0], [0, 0]]),
        ([FORWARD, APART, APART], [[0, 0], [0, 0]]),
    ],
)
def test_a_cpdag_is_elected_edge_by_edge(graphs, elected):
    structure = elect(poll(*graphs), "cpdag")
    assert structure.weights.tolist() == elected
    assert structure.scores[0, 1] == sum(graph != APART for graph in graphs) / len(graphs)


@pytest.mark.parametrize(
    ("graphs", "elected"),
    [
        ([(CIRCLE, ARROW), (TAIL, ARROW), (CIRCLE, ARROW)], (CIRCLE, ARROW)),
        ([(TAIL, ARROW), (TAIL, ARROW), (CIRCLE, CIRCLE)], (TAIL, ARROW)),
        ([(TAIL, ARROW), (ARROW, ARROW), (CIRCLE, TAIL)], (CIRCLE, ARROW)),  # one vote each: undirected
        ([(TAIL, ARROW), APART, APART], (0, 0)),
    ],
)
def test_the_ends_of_a_pag_are_elected_one_by_one(graphs, elected):
    marks = elect(poll(*graphs), "pag").marks
    assert (marks[1, 0], marks[0, 1]) == elected


def test_a_cpdag_as_marks():
    edges = Structure(("a", "b", "c"), np.array([[0, 1.0, 0], [0, 0, 1], [0, 1, 0]]), "cpdag")
    assert as_marks(edges).tolist() == [[0, 2, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("name", ["pc-voting", "pc-cit-voting", "fci-voting", "fci-cit-voting"])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_one_voter_decides(name, kind, drawing, dealing, learning):
    drawn = drawing(8, 800, 1)
    pooled = "pc" if name.startswith("pc") else "fci"
    voted, learned = (
        learning(registry.build(registry.specify(n, {})), dealing(drawn, [np.arange(800)], kind))
        for n in (name, pooled)
    )
    np.testing.assert_array_equal(voted.weights, learned.weights)
    assert voted.kind == learned.kind


def test_a_test_is_decided_by_more_than_half(drawing, dealing):
    """Silos whose own rows show dependence are outvoted by the others."""
    rng = np.random.default_rng(0)
    drawn = drawing(2, 300, 0)
    table = rng.integers(0, 2, (300, 2))
    table[:200, 1] = table[:200, 0]
    drawn = type(drawn)(drawn.dag, np.array([2, 2]), table)
    learner, ballots = fed_pc(FederatedSettings()), votes(ConstraintSettings(alpha=1e-6))
    for parts, dependent in (((0, 1), True), ((0, 2), True), ((0, 1, 2), True), ((0, 2, 2), False), ((2, 2), False)):
        federation = dealing(drawn, [np.arange(100 * part, 100 * part + 100) for part in parts])
        server = learner.open_server(federation.schema)
        query = ballots.question(server)
        states = {s: learner.open_silo(federation.tables[s], federation.schema, s, rng) for s in federation.tables}
        parts = {s: Summand(answer_as_asked(state, query, ballots.answers)) for s, state in states.items()}
        replies = gather(learner, parts)
        known = ballots.learn(server, replies.total, replies.silos)
        (p,) = ballots.results(type(server)(**{**vars(server), "known": known})).p
        assert (p == 0) == dependent, parts


@pytest.mark.parametrize(
    "tests", [[[0]], [[0, 0]], [[0, PAD]], [[0, 1, 1]], [[0, 1, 4]], [[0, 1, -2]]], ids=lambda tests: str(tests[0])
)
def test_a_test_that_is_not_of_distinct_variables_is_refused(tests, drawing, dealing):
    """The compiled statistics would read counts outside their tables."""
    federation = dealing(drawing(4, 60, 0), [np.arange(60)])
    learner = registry.build(registry.specify("pc-cit-voting", {}))
    ((silo, table),) = federation.tables.items()
    state = learner.open_silo(table, federation.schema, silo, np.random.default_rng(0))
    query = replace(learner.broadcast(learner.open_server(federation.schema)), sets=np.array(tests, np.int16))
    with pytest.raises(BadInput, match="a test must be of two variables, given others"):
        learner.local_solve(state, query)


@pytest.mark.parametrize("name", ["pc", "fci"])
def test_a_silo_votes_for_what_its_own_rows_bear_and_no_more(name, drawing, dealing, learning):
    """The ballots are the graphs that silos of 60, 200 and 540 rows find alone, with the tests their rows allow."""
    drawn = drawing(9, 800, 5, density=0.5)
    parts = np.split(np.arange(800), [60, 260])
    federation = dealing(drawn, parts)
    alone = registry.build(registry.specify(name, {"rows_per_cell": 5.0}))
    voting = registry.build(registry.specify(f"{name}-voting", {"rows_per_cell": 5.0}))
    rng = np.random.default_rng(0)
    for silo, rows in zip(federation.schema.silos, parts, strict=True):
        vote = voting.open_silo(federation.tables[silo], federation.schema, silo, rng)
        marks = as_marks(learning(alone, dealing(drawn, [rows])))
        assert [(marks == mark).tolist() for mark in (TAIL, ARROW, CIRCLE)] == [
            (array == 1).tolist() for array in ballot(len(marks)).unpack(vote).values()
        ]


@pytest.mark.parametrize("name", ["pc-cit-voting", "fci-cit-voting"])
def test_votes_on_tests_ask_for_none_that_the_average_silo_has_no_rows_for(name, drawing, dealing):
    drawn = drawing(8, 900, 5, density=0.6)
    federation = dealing(drawn, np.split(np.arange(900), [30, 90]))
    learner = registry.build(registry.specify(name, {"rows_per_cell": 5.0}))
    asked = [one.server.search for one in rounds(learner, federation)]
    tests = [test[test != PAD] for search in asked for test in search.tests]
    cells = [drawn.cardinalities[test].prod() for test in tests]
    assert 5.0 * max(cells) <= 900 // 3


def test_small_silos_vote_worse_than_their_sum_knows(drawing, dealing):
    """The reason for federated tests: each of 60 silos with 25 rows finds little, and together they find all edges.

    Source: Wang, Ma & Wang 2023, §4.2.
    """
    found = {"fed-pc": 0, "pc-voting": 0, "pc-cit-voting": 0}
    for seed in range(3):
        drawn = drawing(8, 1500, seed)
        for name in found:
            federation = dealing(drawn, [np.arange(k, 1500, 60) for k in range(60)])
            learner = registry.build(registry.specify(name, {}))
            *_, last = rounds(learner, federation)
            edges = learner.structure(last.server).adjacency
            found[name] += ((edges | edges.T) & (drawn.dag | drawn.dag.T)).sum() / 2
    assert found["fed-pc"] > 1.5 * max(found["pc-voting"], found["pc-cit-voting"])
