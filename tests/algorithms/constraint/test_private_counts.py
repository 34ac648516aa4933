"""Private count tables: the effect of one row, the privacy cost, and runs that stay within their budget."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint import private_counts
from fedbnsl.algorithms.constraint.evidence import private_count_evidence as evidence_of_counts
from fedbnsl.algorithms.constraint.fed_pc import (
    FederatedSettings,
    bounded_settings,
    max_exchanges,
    privacy_plan,
    releases,
)
from fedbnsl.algorithms.constraint.orientation import FCI, PC
from fedbnsl.algorithms.constraint.private_counts import sensitivity, table_plan
from fedbnsl.algorithms.core.promise import Cost, ReplaceOne
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.privacy.ledger import PrivateSettings, spent, total
from fedbnsl.algorithms.privacy.zcdp import guaranteed_shares
from fedbnsl.algorithms.statistics.count_tables import count, offsets
from fedbnsl.algorithms.statistics.rows import Query
from fedbnsl.tasks.silo.policy import NotAllowed
from tests.algorithms.privacy.audit import audit

LEVELS = np.array([2, 3, 4, 2, 3])
D, ROWS = len(LEVELS), 9
records = st.tuples(*(st.integers(0, n - 1) for n in LEVELS.tolist()))
subsets = st.sets(st.integers(0, D - 1), min_size=1, max_size=4).map(sorted)
queries = st.lists(subsets, min_size=1, max_size=12)


def algorithm(name="fed-pc", **params):
    return registry.build(registry.specify(name, {"epsilon": 1.0, **params}))


def distance(sets, table, one, other):
    """The ℓ₂ distance of the tables over `sets` when the first row is `one` or `other`."""
    width = max(map(len, sets))
    query = np.array([given + [-1] * (width - len(given)) for given in sets], np.int16)
    answers = []
    for record in (one, other):
        rows = np.vstack([[record], table]).astype(np.int16)
        answers.append(count(rows.T, LEVELS, query).astype(float))
    return float(np.linalg.norm(answers[0] - answers[1]))


class TestSensitivity:
    @settings(max_examples=200, deadline=None)
    @given(queries, st.lists(records, min_size=1, max_size=8), records, records)
    def test_no_replaced_row_moves_the_tables_by_more(self, sets, table, one, other):
        """Sets may repeat: a server that requests the same table twice gets the noise of two tables."""
        assert distance(sets, np.array(table), one, other) <= sensitivity(len(sets))

    def test_a_row_that_differs_everywhere_reaches_it(self):
        sets = [[0, 1], [1, 2, 3], [4], [0, 2, 3, 4]]
        reached = distance(sets, np.zeros((3, D)), np.zeros(D), np.ones(D))
        assert reached == pytest.approx(sensitivity(len(sets)), rel=1e-12)
        assert reached > math.sqrt(len(sets))  # the sensitivity for adding or removing a row would be too small


def planned(rows, epsilon, colluders, exchanges):
    sure, protects = guaranteed_shares(len(rows), colluders)
    return table_plan(PrivateSettings(epsilon).promise(Schema((), rows), protects), sure, exchanges)


class TestThePlan:
    @settings(max_examples=60, deadline=None)
    @given(st.integers(1, 12), st.floats(0.05, 20), st.integers(1, 9), st.integers(1, 400), st.integers(2, 20_000))
    def test_no_exchange_costs_more_than_its_part_and_little_noise_is_wasted(self, silos, epsilon, n, tables, cells):
        rows = {f"s{k}": 500 for k in range(silos)}
        plan = planned(rows, epsilon, 0, n)
        variance = plan.variance(tables, cells)
        assert plan.cost(tables, cells, variance) <= plan.exchange_cost
        if (less := variance * 49 / 50 - Fraction(2, 64)) >= Fraction(1, 4):
            assert plan.exchange_cost < plan.cost(tables, cells, less)
        assert total([plan.exchange_cost] * n) <= plan.promise.cost

    def test_more_tables_get_more_noise_and_more_silos_less_of_it_each(self):
        plans = [planned({f"s{k}": 500 for k in range(n)}, 1.0, 0, 4) for n in (3, 30)]
        few, many = (plans[0].variance(tables, 1000) for tables in (10, 40))
        assert 3.9 < many / few < 4.1
        assert plans[1].variance(10, 1000) < few / 6

    def test_the_price_is_of_the_tables_asked_for_not_of_the_rows(self, drawing, dealing):
        learner, prices = algorithm(), []
        for seed in (1, 2):
            federation = dealing(drawing(5, 60, 0), [np.arange(30), np.arange(30, 60)])
            federation.tables["s00"][:] = np.random.default_rng(seed).integers(0, 2, (30, 5))
            silo = learner.open_silo(federation.tables["s00"], federation.schema, "s00", np.random.default_rng(0))
            prices.append(
                [releases(silo, Query("tables", np.array(sets, np.int16))) for sets in ([[0, 1]], [[0, 1]] * 7)]
            )
        assert prices[0] == prices[1]
        assert "7 count tables" in prices[0][1][0].what

    def test_colluders_make_the_others_add_more(self):
        rows = {f"s{k}": 500 for k in range(9)}
        alone, watched = (planned(rows, 1.0, n, 3).variance(9, 99) for n in (0, 3))
        assert watched / alone == pytest.approx(7 / 4, rel=0.01)
        with pytest.raises(BadInput, match="parameter colluders is 7: of 7 guaranteed shares none would remain"):
            planned(rows, 1.0, 7, 3)


def test_no_run_takes_more_exchanges_than_it_pays_for(drawing, dealing):
    drawn = drawing(7, 600, 3, density=0.4)

    @settings(max_examples=25, deadline=None)
    @given(
        st.sampled_from(["fed-pc", "fed-fci"]),
        st.integers(0, 3),
        st.sampled_from(["sepset", "clear"]),
        st.integers(0, 50),
        st.sampled_from([0.5, 20.0, 1e5]),
    )
    def check(name, depth, orientation, seed, epsilon):
        learner = algorithm(name, epsilon=epsilon, depth=depth, orientation=orientation, insecure_seed=seed)
        procedure = PC if name == "fed-pc" else FCI
        most = max_exchanges(FederatedSettings(depth=depth, orientation=orientation), procedure)
        assert learner.max_rounds == most
        end = list(rounds(learner, dealing(drawn, [np.arange(600)])))[-1]
        assert end.outcome == "converged"
        assert end.number <= most

    check()


class TestRuns:
    PARTS = tuple(np.arange(k, 3000, 5) for k in range(5))

    def test_the_ledgers_are_charged_before_and_no_more_than_promised(self, drawing, dealing):
        federation = dealing(drawing(6, 3000, 1), self.PARTS)
        learner = algorithm(epsilon=5.0)
        *_, end = rounds(learner, federation)
        promise = learner.private.promise(federation.schema)
        for charges in federation.charges().values():
            assert [charge.number for charge in charges] == list(range(1, end.number + 1))
            assert total(Cost(c.rho, ReplaceOne) for c in charges) <= promise.cost
            assert 0 < spent(charges, promise.delta) <= 5.0

    def test_an_exchange_too_many_is_refused(self, drawing, dealing):
        federation = dealing(drawing(6, 3000, 1), self.PARTS)
        learner = algorithm(depth=0, orientation="sepset")
        server = learner.open_server(federation.schema)
        federation.exchange(learner, 1, learner.broadcast(server))
        with pytest.raises(NotAllowed, match="round 2 is not one of its 1 round"):
            federation.exchange(learner, 2, learner.broadcast(server))

    @pytest.mark.parametrize("present", [5, 4])
    def test_the_server_knows_how_much_noise_is_in_a_sum(self, drawing, dealing, present):
        federation = dealing(drawing(6, 3000, 1), self.PARTS)
        learner = algorithm()
        server = learner.open_server(federation.schema)
        query = learner.broadcast(server)
        states = [
            learner.open_silo(federation.tables[silo], federation.schema, silo, np.random.default_rng(0))
            for silo in federation.schema.silos[:present]
        ]
        exact = sum(count(state.columns, state.cardinalities, query.sets).astype(np.int64) for state in states)
        noise, keyed = [], learner.private.with_key
        for k in range(8):
            keys = [bytes([k, n]) * 16 for n in range(present)]
            answers = [learner.local_solve(keyed(s, key), query)[1] for s, key in zip(states, keys, strict=True)]
            noise.append(sum(learner.summand(answer) for answer in answers) - exact)
        plan = states[0].plan
        stated = plan.variance(len(query.sets), int(offsets(query.sets, states[0].cardinalities)[-1])) * present
        assert np.var(noise) == pytest.approx(float(stated), rel=0.1)
        assert abs(np.mean(noise)) < 4 * math.sqrt(stated / np.size(noise))

    def test_what_it_learns_comes_near_the_exact_run_as_the_budget_grows(self, drawing, dealing):
        wrong = {0.2: 0.0, 10.0: 0.0, 1e4: 0.0}
        for seed in range(4):
            drawn = drawing(6, 20_000, seed)
            truth = Structure(drawn.variables, drawn.dag * 1.0)
            parts = [np.arange(k, 20_000, 5) for k in range(5)]
            for epsilon in wrong:
                *_, end = rounds(learner := algorithm(epsilon=epsilon, insecure_seed=seed), dealing(drawn, parts))
                wrong[epsilon] += compare(learner.structure(end.server), truth)["shd_skeleton"]
        assert wrong[1e4] <= wrong[10.0] < wrong[0.2]
        assert wrong[10.0] <= 8

    def test_replies_are_never_seen_one_by_one(self, drawing, dealing):
        federation = dealing(drawing(5, 3000, 0), self.PARTS)
        assert not federation.secure
        learner = algorithm()
        assert learner.needs_secure_sum
        replies, _ = federation.exchange(learner, 1, learner.broadcast(learner.open_server(federation.schema)))
        assert replies.each == ()


@pytest.mark.slow
class TestCanary:
    """Two tables that differ in all cells of one row: an observer of the sum cannot tell which table was used."""

    EPSILON, DELTA, RUNS = 1.0, 1e-3, 1200
    """with 300 runs, the lower bound of the mutant's ε is sometimes only .97; with 1,200 it is 1.85 to 2.7"""

    def bound(self, dealing, drawing):
        drawn, seen = drawing(3, 36, 0), []
        drawn = replace(drawn, cardinalities=np.array([2, 2, 2]), table=drawn.table % 2)
        learner = algorithm(epsilon=self.EPSILON, delta=self.DELTA, depth=0, orientation="sepset")
        for canary in (0, 1):
            drawn.table[0] = canary
            federation = dealing(drawn, [np.arange(k, 36, 3) for k in range(3)])
            query = learner.broadcast(learner.open_server(federation.schema))
            states = [
                learner.open_silo(table, federation.schema, silo, np.random.default_rng(0))
                for silo, table in federation.tables.items()
            ]
            rng = np.random.default_rng(canary)
            seen.append(np.array([self.outcome(learner, states, query, rng) for _ in range(self.RUNS)]))
        return audit(seen[0], seen[1], self.DELTA, 0.999)

    def outcome(self, learner, states, query, rng):
        """The sum of all replies, with new noise, projected on the direction in which the canaries differ."""
        keyed = [learner.private.with_key(state, rng.bytes(32)) for state in states]
        total = sum(learner.summand(learner.local_solve(state, query)[1]) for state in keyed)
        return float(np.tile([1, 0, 0, -1], 3) @ total)

    def test_it_is_hidden(self, dealing, drawing):
        assert self.bound(dealing, drawing) <= self.EPSILON

    def test_the_sensitivity_of_one_table_for_all_is_caught(self, dealing, drawing, monkeypatch):
        """Mutant: the noise is for a small part of the distance, but every cell keeps its minimum noise."""
        monkeypatch.setattr(private_counts, "sensitivity", lambda tables: 0.05)
        assert self.bound(dealing, drawing) > self.EPSILON


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "projection"}, "parameter mode is projection: with an epsilon it must be exact"),
        ({"statistic": "g2"}, "parameter statistic is g2: with an epsilon it must be chi2"),
        ({"epsilon": -1}, "parameter epsilon is -1.0: it must be 0 or more"),
        ({"colluders": -1}, "parameter colluders is -1: it must be 0 or more"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(params, message):
    with pytest.raises(BadInput, match=message):
        algorithm(**params)


def test_continuous_data_are_refused(drawing, dealing):
    with pytest.raises(BadInput, match="parameter epsilon needs discrete data, the data are continuous"):
        algorithm().open_server(dealing(drawing(4, 60, 0), [np.arange(60)], "continuous").schema)


def test_the_tests_allow_for_the_noise_of_all_silos(drawing, dealing):
    """The χ² tests use the sum of five noise shares; if they allowed for one share only, noise would give edges."""
    settings, dealt = FederatedSettings(epsilon=1.0), dealing(drawing(4, 500, 0), np.split(np.arange(500), 5))
    learner = algorithm()
    server = learner.open_server(dealt.schema)
    query = learner.broadcast(server)
    opened = [
        learner.open_silo(np.zeros_like(table), dealt.schema, silo, np.random.default_rng(0))
        for silo, table in dealt.tables.items()
    ]
    zeros = np.zeros((100, 4), np.int16)
    exact, noise = 5 * count(zeros.T, server.cardinalities, query.sets).astype(np.int64), []
    for seed in range(40):
        answers = [
            learner.local_solve(learner.private.with_key(one, bytes([k, seed]) * 16), query)[1].values
            for k, one in enumerate(opened)
        ]
        noise.append(sum(answers) - exact)
    evidence = evidence_of_counts(settings, partial(privacy_plan, bounded_settings(settings), PC))
    known = evidence.learn(server, np.array(noise[0], dtype=float), dealt.schema.silos)
    assert known.noise == pytest.approx(np.var(noise), rel=0.15)
