"""secure-ges and secure-boss find from sums what GES and BOSS find on pooled rows, in few exchanges."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Limits, rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag, member_of
from fedbnsl.algorithms.score.discrete import all_too_wide, families_within_budget, sets_of
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation

POOLED = {"secure-ges": "ges", "secure-boss": "boss"}
both = pytest.mark.parametrize("name", POOLED)
CHECKED = settings(deadline=None, max_examples=10)


@both
class TestTheSameAsPooled:
    @pytest.mark.parametrize("most_levels", [1, 3], ids=["continuous", "discrete"])
    def test_any_split_into_any_number_of_silos(self, name, most_levels, drawing, learning):
        @CHECKED
        @given(seed=st.integers(0, 9), silos=st.sampled_from([1, 2, 7, 30]), deal=st.integers(0, 99))
        def check(seed, silos, deal):
            drawn = drawing(7, 400, seed, most_levels=most_levels)
            dealt = drawn.dealt(silos, deal)
            whole = pool(FederatedData(dealt.schema, dict(dealt.tables)))
            pooled = learning(POOLED[name], InProcessFederation(whole.schema, whole.tables))
            np.testing.assert_array_equal(learning(name, dealt).weights, pooled.weights)

        check()

    @pytest.mark.parametrize("ahead", [0, 1, 20])
    def test_however_far_it_looks_ahead(self, name, ahead, drawing, learning):
        drawn = drawing(9, 1000, 4)
        found = learning(name, drawn.dealt(3), lookahead=ahead)
        np.testing.assert_array_equal(found.weights, learning(POOLED[name], drawn.dealt()).weights)
        assert found.adjacency.any()

    def test_in_exchanges_of_few_cells(self, name, drawing, running):
        drawn = drawing(8, 1000, 4)
        whole = running(name, drawn.dealt(3), most_cells=200)
        parts = running(name, drawn.dealt(3), most_cells=200, cells=200)
        np.testing.assert_array_equal(whole.server.found, parts.server.found)
        assert parts.number > 2 * whole.number

    @pytest.mark.parametrize("most_cells", [3, 8, 20])
    def test_where_wide_families_are_left_out(self, name, most_cells, drawing, learning):
        drawn = drawing(8, 2000, 1, density=0.6)
        found = learning(name, drawn.dealt(3), most_cells=most_cells)
        np.testing.assert_array_equal(
            found.weights, learning(POOLED[name], drawn.dealt(), most_cells=most_cells).weights
        )
        everything = learning(POOLED[name], drawn.dealt())
        assert found.adjacency.sum() < everything.adjacency.sum()

    @pytest.mark.parametrize("settings", [{"score": "bic"}, {"ess": 10.0}, {"expected_parents": 0.0}])
    def test_under_other_scores(self, name, settings, drawing, learning):
        drawn = drawing(8, 500, 2)
        np.testing.assert_array_equal(
            learning(name, drawn.dealt(4), **settings).weights,
            learning(POOLED[name], drawn.dealt(), **settings).weights,
        )

    def test_silos_that_hold_one_level_each(self, name, drawing, learning):
        """v0 is a constant in every silo, so no silo could find its edges by itself."""
        drawn = drawing(6, 2000, 3)
        parts = {f"s{level}": drawn.table[drawn.table[:, 0] == level] for level in range(drawn.levels[0])}
        whole = drawn.dealt().schema
        schema = Schema(whole.variables, {silo: len(rows) for silo, rows in parts.items()}, "discrete", whole.levels)
        found = learning(name, InProcessFederation(schema, parts))
        np.testing.assert_array_equal(found.weights, learning(POOLED[name], drawn.dealt()).weights)
        assert found.adjacency[0].any()


class TestExchanges:
    def test_fewer_than_operators_with_look_ahead(self, drawing, running):
        for seed in range(3):
            last = running("secure-ges", drawing(12, 3000, seed, 0.3).dealt(3))
            assert last.outcome == "converged"
            assert last.number < last.server.state.moves
            assert last.number == last.server.exchanges

    def test_about_one_an_operator_without(self, drawing, running):
        for seed in range(3):
            last = running("secure-ges", drawing(12, 3000, seed, 0.3).dealt(3), lookahead=0)
            assert last.number <= last.server.state.moves + 3

    @both
    def test_continuous_data_take_one(self, name, drawing, running):
        assert running(name, drawing(8, 300, 0, most_levels=1).dealt(4)).number == 1

    def test_what_is_asked_does_not_tell_rows_apart(self, drawing):
        """Broadcasts follow from the sums, so they are the same for every assignment of rows to silos."""
        seen = []
        for deal in (0, 1):
            algorithm = registry.build(registry.specify("secure-ges", {}))
            federation = drawing(6, 300, 2).dealt(3, deal)
            servers = [algorithm.open_server(federation.schema), *(one.server for one in rounds(algorithm, federation))]
            seen.append([algorithm.broadcast(server).sets.tolist() for server in servers[:-1]])
        assert seen[0] == seen[1]
        assert len(seen[0]) > 1


class TestCandidates:
    """With few bytes, the search is restricted to sparse candidates, and says so."""

    def last(self, federation, limit, **params):
        algorithm = registry.build(registry.specify("secure-ges", params))
        *_, last = rounds(algorithm, federation, limits=Limits(bytes=limit))
        return last, algorithm.basis(last.server)

    def test_a_budget_that_all_pairs_exceed_goes_to_more_edges(self, drawing):
        """Within the same bytes a search of all pairs ends among its first edges."""
        federation, limit = drawing(60, 3000, 2, 0.03, most_levels=8).dealt(4), 1_200_000
        last, basis = self.last(federation, limit)
        number = last.server.state.candidates
        assert 5 <= number < 59
        assert f"the {number} variables most strongly associated with it" in basis[0]
        assert last.outcome == "converged"
        free, says = self.last(federation, np.inf)
        assert free.server.state.candidates == 0
        assert not any("most strongly associated" in line for line in says)
        every, _ = self.last(federation, limit, candidates=0)
        assert every.outcome == "out of bytes"
        apart = [(one.server.found != free.server.found).sum() for one in (last, every)]
        assert apart[0] < apart[1] / 3

    def test_the_setting_wins_over_the_budget(self, drawing):
        federation = drawing(12, 1000, 1).dealt(2)
        assert self.last(federation, 10, candidates=0)[0].server.state.candidates == 0
        assert self.last(federation, np.inf, candidates=3)[0].server.state.candidates == 3
        assert self.last(federation, np.inf, candidates=3, refine=True)[0].server.state.greedy.candidates == 3

    @pytest.mark.parametrize(("name", "most_levels"), [("secure-boss", 2), ("secure-ges", 1)])
    def test_a_search_that_would_not_use_the_setting_refuses_it(self, name, most_levels, drawing):
        federation = drawing(6, 300, 1, most_levels=most_levels).dealt(2)
        algorithm = registry.build(registry.specify(name, {"candidates": 3}))
        with pytest.raises(BadInput, match="candidates is 3, but only secure-ges uses it, on labels"):
            next(iter(rounds(algorithm, federation)))


def batch(*families):
    first = np.cumsum([0, *map(len, families)])
    return Batch(first, np.array([v for family in families for v in family], np.uint16))


class TestSets:
    LEVELS = np.array([2, 3, 4, 5])

    def test_a_set_within_another_is_not_asked_for(self):
        sets = sets_of(batch((0,), (0, 1), (1, 0), (2, 1), (2, 0, 1)), self.LEVELS, 100)
        assert sets.sets.tolist() == [[0, 1, 2]] or len(sets.sets) < 4
        for family, number in zip(((0,), (0, 1), (1, 0), (2, 1), (2, 0, 1)), sets.table_of, strict=True):
            assert set(family) <= set(sets.sets[number].tolist())

    def test_what_is_too_wide_is_not_asked_for(self):
        sets = sets_of(batch((0, 1), (3, 1, 2), (3, 2)), self.LEVELS, 20)
        assert sets.table_of[1] == -1
        assert [set(row) - {-1} for row in sets.sets.tolist()] == [{0, 1}, {2, 3}]
        assert all_too_wide(batch((3, 1, 2)), self.LEVELS, 59)
        assert not all_too_wide(batch((3, 1, 2), (0,)), self.LEVELS, 59)

    def test_what_an_exchange_can_carry(self):
        wanted = batch((0, 1), (1, 2), (2, 3), (3,))
        assert [len(families_within_budget(wanted, self.LEVELS, 100, cells)) for cells in (1, 6, 18, 37, 38, 1000)] == [
            1, 1, 2, 2, 3, 4,
        ]  # fmt: skip


class TestBadInput:
    def federation(self, code):
        table = np.zeros((4, 2), np.int64)
        table[2, 1] = code
        levels = {"a": ("x", "y"), "b": ("x", "y")}
        return InProcessFederation(Schema(("a", "b"), {"s": 4}, "discrete", levels), {"s": table})

    @pytest.mark.parametrize("name", ["ges", "boss", "secure-ges", "secure-boss", "fed-ges", "ges-union"])
    @pytest.mark.parametrize("code", [2, -1])
    def test_a_code_outside_the_levels_is_named_with_its_row(self, name, code, running):
        with pytest.raises(BadInput, match=rf"s: row 3, column b: {code} is not a level's code, 0 to 1"):
            running(name, self.federation(code))

    @pytest.mark.parametrize("name", ["ges", "boss", "secure-ges", "secure-boss"])
    def test_a_variable_that_no_table_may_hold_is_named(self, name, running):
        with pytest.raises(BadInput, match="most_cells is 1: a alone has 2 levels"):
            running(name, self.federation(0), most_cells=1)

    @pytest.mark.parametrize("name", ["ges", "boss", "fed-ges", "ges-union"])
    def test_time_series_are_refused(self, name):
        algorithm = registry.build(registry.specify(name, {}))
        with pytest.raises(BadInput, match="not a time series"):
            algorithm.open_server(Schema(("a", "b"), {"s": 4}, "time-series", {}))

    @pytest.mark.parametrize(
        ("name", "parameter", "value"),
        [
            ("ges", "ess", 0),
            ("ges", "expected_parents", -1),
            ("secure-ges", "most_cells", 0),
            ("secure-ges", "cells", 5),
            ("secure-ges", "candidates", -1),
            ("secure-boss", "lookahead", -1),
            ("fed-ges", "limit", 0),
            ("fed-ges", "quota", 1.5),
            ("fed-ges", "client_quota", -0.5),
            ("fed-ges", "drift", -1),
            ("fed-ges", "last_drift", -0.1),
            ("ges-union", "quota", -1),
        ],
    )
    def test_settings_out_of_range_are_named(self, name, parameter, value):
        with pytest.raises(BadInput, match=rf"parameter {parameter} is {value}"):
            registry.specify(name, {parameter: value})


@both
def test_means_of_silos_change_nothing(name, drawing, learning):
    dealt = drawing(8, 2000, 3, most_levels=1).dealt(5)
    rng = np.random.default_rng(0)
    moved = {silo: table + rng.uniform(-5, 5, 8) for silo, table in dealt.tables.items()}
    found = learning(name, dealt)
    np.testing.assert_array_equal(learning(name, InProcessFederation(dealt.schema, moved)).weights, found.weights)
    assert found.adjacency.any()


@both
def test_only_sums_are_seen_of_two_silos_or_more(name, drawing):
    searching = registry.build(registry.specify(name, {}))
    drawn = drawing(4, 100, 0)
    assert searching.is_masked(drawn.dealt(2).schema, requested=False)
    assert not searching.is_masked(drawn.dealt(1).schema, requested=False)


@pytest.mark.parametrize(
    ("name", "params"), [("secure-ges", {}), ("secure-ges", {"refine": True}), ("secure-boss", {})]
)
def test_a_search_that_ends_early_has_a_class_near_the_final_one_and_says_so(name, params, drawing):
    drawn = drawing(9, 1000, 4)
    algorithm = registry.build(registry.specify(name, {"lookahead": 0, "exact": 0, **params}))
    every = list(rounds(algorithm, drawn.dealt(3)))
    sent = np.cumsum([one.traffic.total for one in every])
    assert len(every) > 8
    distances = []
    for k in (1, len(every) // 2, len(every) - 2):
        *_, last = run = list(rounds(algorithm, drawn.dealt(3), limits=Limits(bytes=float(sent[k]))))
        assert last.outcome == "out of bytes"
        assert sum(one.traffic.total for one in run) <= sent[k]
        graph = algorithm.structure(last.server).adjacency
        np.testing.assert_array_equal(cpdag(member_of(graph)), graph)
        assert "did not come to its end" in " ".join(algorithm.basis(last.server))
        distances.append(np.triu((graph | graph.T) != (every[-1].server.found | every[-1].server.found.T)).sum())
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < distances[0]
    assert "did not come to its end" not in " ".join(algorithm.basis(every[-1].server))


@pytest.mark.parametrize("name", ["secure-boss", "secure-linear"])
def test_a_search_of_numbers_ends_with_its_time(name):
    data = homogeneous(variables=40, edges=80, silos=2, rows=2000, seed=3)
    tables = {silo: (table - table.mean(axis=0)) / table.std(axis=0) for silo, table in data.tables.items()}
    algorithm = registry.build(registry.specify(name, {"error_variances": "free"} if name == "secure-linear" else {}))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, tables), limits=Limits(ends=time.monotonic()))
    assert last.outcome == "out of time"
    assert algorithm.structure(last.server).adjacency.any()
    assert "until then" in " ".join(algorithm.basis(last.server))
