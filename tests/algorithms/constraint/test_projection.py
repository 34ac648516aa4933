"""χ² by random projection: the corrected estimator, its effect on tests, and what it fails to hide."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gamma

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint.fed_pc import FederatedSettings, fed_pc
from fedbnsl.algorithms.constraint.projection import (
    SKETCH_BITS,
    expected_counts,
    geometric_mean,
    margin_tables,
    project,
    projection_evidence,
)
from fedbnsl.algorithms.constraint.table_tests import chi_square
from fedbnsl.algorithms.core.protocol import Replies, Summand, gather, rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.count_tables import TableReader, count, tables_for
from fedbnsl.algorithms.statistics.moments import to_multiples
from fedbnsl.algorithms.statistics.rows import answer_as_asked

L = 50


@pytest.mark.parametrize("square", [4.0, 300.0])
def test_the_geometric_mean_is_unbiased_and_the_printed_sum_is_not(square):
    """The sum of |e_k|^(2/l), as printed in Wang, Ma & Wang 2023, Theorem 1, is about 90 for any χ²."""
    u = np.random.default_rng(0).normal(size=12)
    u *= np.sqrt(square) / np.linalg.norm(u)
    e = project(np.tile(u, (4000, 1))[:, None], np.random.default_rng(1), L).reshape(4000, L)
    estimates = geometric_mean(e)
    assert estimates.mean() == pytest.approx(square, rel=0.02)
    assert estimates.std() / square == pytest.approx(np.sqrt(np.pi**2 / 2 / L), rel=0.15)
    constant = (2 / np.pi * gamma(2 / L) * gamma(1 - 1 / L) * np.sin(np.pi / L)) ** L
    printed = ((np.abs(e) ** (2 / L)).sum(axis=1) / constant).mean()
    assert 80 < printed < 100


def test_no_deviation_is_estimated_as_none():
    assert geometric_mean(np.zeros((1, L)))[0] == 0


def a_table(drawing, rows=3000):
    drawn = drawing(6, rows, 3)
    tests = np.array([[0, 1, 2, -1], [1, 3, -1, -1], [2, 4, 0, 5], [0, 5, 3, -1]], np.int16)
    return drawn, tests


def test_projected_tests_come_close_to_exact_ones(drawing, dealing):
    """Same degrees of freedom, statistics within the spread of the estimator."""
    drawn, tests = a_table(drawing)
    columns = np.ascontiguousarray(drawn.table.T, np.int16)
    tables = tables_for(tests, 6)
    counts = count(columns, drawn.cardinalities, tables.sets).astype(np.float64)
    exact = chi_square(counts, tables, drawn.cardinalities, tests)
    strengths = np.array([one.strength for one in (through(drawn, dealing, tests, seed) for seed in range(60))])
    np.testing.assert_allclose(strengths.mean(axis=0), exact.strength, rtol=0.15)
    assert (strengths.std(axis=0) > 0.02 * exact.strength).all()


def through(drawn, dealing, tests, seed, silos=3, lose=None):
    """The results of `tests` by two exchanges of `projection_evidence`, with a silo lost between them if asked."""
    federation = dealing(drawn, [np.arange(k, len(drawn.table), silos) for k in range(silos)])
    learner, evidence = fed_pc(FederatedSettings()), projection_evidence(L, seed)
    server = learner.open_server(federation.schema)
    server = replace(server, search=replace(server.search, tests=tests))
    states = {s: learner.open_silo(federation.tables[s], federation.schema, s, None) for s in federation.schema.silos}
    for _ in range(4):
        query = evidence.question(server)
        parts = {s: Summand(answer_as_asked(state, query, evidence.answers)) for s, state in states.items()}
        replies = gather(learner, parts)
        known = evidence.learn(server, replies.total, replies.silos)
        server = replace(server, known=known, exchanges=server.exchanges + 1)
        if (found := evidence.results(server)) is not None:
            return found
        if lose in states and known.what == "margins":
            del states[lose]
    raise AssertionError("no result")


def test_a_silo_lost_between_margins_and_projections_is_found_out(drawing, dealing):
    """Margins and projections are requested again; the result is that of the remaining rows."""
    drawn, tests = a_table(drawing)
    left = np.sort(np.concatenate([np.arange(k, 3000, 3) for k in (0, 2)]))
    alone = type(drawn)(drawn.dag, drawn.cardinalities, drawn.table[left])
    columns = np.ascontiguousarray(alone.table.T, np.int16)
    tables = tables_for(tests, 6)
    exact = chi_square(
        count(columns, drawn.cardinalities, tables.sets).astype(np.float64), tables, drawn.cardinalities, tests
    )
    found = np.mean([through(drawn, dealing, tests, seed, lose="s01").strength for seed in range(40)], axis=0)
    np.testing.assert_allclose(found, exact.strength, rtol=0.2)


def test_fed_pc_by_projection_finds_nearly_the_skeleton(drawing, dealing):
    drawn = drawing(7, 6000, 1)
    federation = dealing(drawn, [np.arange(k, 6000, 4) for k in range(4)])
    joined = []
    for mode in ("exact", "projection"):
        learner = registry.build(registry.specify("fed-pc", {"mode": mode}))
        runs = list(rounds(learner, federation))
        joined.append(runs[-1].server.search.joined)
        assert runs[-1].outcome == "converged"
    assert (joined[0] ^ joined[1]).sum() / 2 <= 2


def test_whoever_knows_the_projection_reads_the_table(drawing, dealing):
    """As the documentation says, margins and P·u are linear equations; here there are more of them than cells."""
    drawn, _ = a_table(drawing)
    test = np.array([[0, 1, 2]], np.int16)
    columns = np.ascontiguousarray(drawn.table.T, np.int16)
    margin_sets = margin_tables(test, 6)
    margins = TableReader(
        margin_sets, drawn.cardinalities, count(columns, drawn.cardinalities, margin_sets.sets).astype(np.float64)
    )
    expected = expected_counts(margins, 0, 0, 1)
    tables = tables_for(test, 6)
    true = TableReader(tables, drawn.cardinalities, count(columns, drawn.cardinalities, tables.sets)).strata(0, (0, 1))
    scaled = np.divide(true, np.sqrt(expected), out=np.zeros_like(true), where=expected > 0)
    sent = to_multiples(project(scaled, np.random.default_rng((0, 1)), L), SKETCH_BITS)
    for z, stratum in enumerate(true):
        P = np.random.default_rng((0, 1)).normal(0, np.sqrt(2), (len(true), L, stratum.size))[z]
        solved = np.linalg.lstsq(P, sent.reshape(len(true), L)[z])[0] * np.sqrt(expected[z]).ravel()
        np.testing.assert_allclose(solved, stratum.ravel(), atol=1e-3)


def test_continuous_data_have_no_tables_to_project(drawing, dealing):
    learner = registry.build(registry.specify("fed-pc", {"mode": "projection"}))
    federation = dealing(drawing(4, 50, 0), [np.arange(50)], "continuous")
    with pytest.raises(BadInput, match="parameter mode is projection, which needs discrete data"):
        learner.open_server(federation.schema)


def test_sums_of_projections_do_not_depend_on_their_order(drawing, dealing):
    drawn = drawing(5, 300, 0)
    learner = registry.build(registry.specify("fed-pc", {"mode": "projection"}))
    federation = dealing(drawn, [np.arange(k, 300, 3) for k in range(3)])
    server = learner.open_server(federation.schema)
    for number in (1, 2):
        replies, _ = federation.exchange(learner, number, learner.broadcast(server))
        assert isinstance(replies, Replies)
        whole = replies.total * 2.0**20
        np.testing.assert_array_equal(whole, np.round(whole))
        assert np.abs(whole).max() < 2.0**50
        server = learner.aggregate(server, replies)
    assert server.search.level == 1 or server.search.done
