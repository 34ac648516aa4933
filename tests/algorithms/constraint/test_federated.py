"""FedPC and FedFCI find from sums what PC and FCI find on pooled rows, for any split and after lost silos."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import gather, rounds, silo_generator, traffic_of
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, pool
from fedbnsl.data.networks.surrogate import surrogate
from fedbnsl.tasks.transport.in_process import InProcessFederation

FEDERATED = ("fed-pc", "fed-fci")
POOLED = {"fed-pc": "pc", "fed-fci": "fci"}
ALL = (*FEDERATED, "pc", "fci", "pc-voting", "fci-voting", "pc-cit-voting", "fci-cit-voting")
each_federated = pytest.mark.parametrize("name", FEDERATED)
everyone = pytest.mark.parametrize("name", ALL)
CHECKED = settings(deadline=None, max_examples=12)


def algorithm(name, **params):
    return registry.build(registry.specify(name, params))


def last(name, federation, **params):
    return list(rounds(algorithm(name, **params), federation))[-1]


def structure(name, federation, **params):
    return algorithm(name, **params).structure(last(name, federation, **params).server)


class TestTheSameAsPooled:
    @each_federated
    @pytest.mark.parametrize("kind", ["discrete", "continuous"])
    def test_any_split_into_any_number_of_silos(self, name, kind, drawing, dealing):
        @CHECKED
        @given(seed=st.integers(0, 9), silos=st.sampled_from([1, 2, 7, 64]), deal=st.integers(0, 99))
        def check(seed, silos, deal):
            drawn = drawing(8, 700, seed)
            owner = np.random.default_rng(deal).integers(0, silos, 700)
            owner[:silos] = np.arange(silos)
            split = dealing(drawn, [np.flatnonzero(owner == k) for k in range(silos)], kind)
            whole = pool(FederatedData(split.schema, dict(split.tables)))
            pooled = structure(POOLED[name], InProcessFederation(whole.schema, whole.tables))
            np.testing.assert_array_equal(structure(name, split).weights, pooled.weights)

        check()

    @each_federated
    def test_silos_that_are_split_by_a_variable(self, name, drawing, dealing):
        """In each silo, v0 has a single level, so no silo could find its edges by itself."""
        drawn = drawing(8, 2000, 4)
        parts = [np.flatnonzero(drawn.table[:, 0] == level) for level in range(drawn.cardinalities[0])]
        assert len(parts) > 1
        federated = structure(name, dealing(drawn, parts))
        pooled = structure(POOLED[name], dealing(drawn, [np.arange(2000)]))
        np.testing.assert_array_equal(federated.weights, pooled.weights)
        assert federated.adjacency.any()

    @each_federated
    def test_silos_that_a_hidden_surrogate_variable_makes(self, name):
        @CHECKED
        @given(
            seed=st.integers(0, 99),
            silos=st.integers(2, 9),
            parents=st.integers(0, 4),
            orientation=st.sampled_from(["sepset", "conservative", "clear", "majority"]),
            secure=st.booleans(),
        )
        def check(seed, silos, parents, orientation, secure):
            data = surrogate(silos, 1200 // silos, seed, parents=parents, variables=7, concentration=2.0)
            whole = pool(data)
            split = InProcessFederation(data.schema, data.tables, secure=secure)
            pooled = InProcessFederation(whole.schema, whole.tables)
            one, other = (structure(n, f, orientation=orientation) for n, f in ((name, split), (POOLED[name], pooled)))
            np.testing.assert_array_equal(one.weights, other.weights)

        check()

    @each_federated
    def test_the_way_the_level_is_sent_in_parts(self, name, drawing, dealing):
        drawn = drawing(10, 1000, 3, density=0.4)
        thirds = [np.arange(k, 1000, 3) for k in range(3)]
        whole, parts = (last(name, dealing(drawn, thirds), cells=cells, max_sets=0) for cells in (10**9, 300))
        np.testing.assert_array_equal(whole.server.search.joined, parts.server.search.joined)
        assert parts.number > whole.number

    def test_pc_learns_the_truth_from_many_rows(self, drawing, dealing):
        wrong = edges = 0
        for seed in range(8):
            drawn = drawing(7, 20_000, seed)
            federation = dealing(drawn, [np.arange(k, 20_000, 5) for k in range(5)])
            scores = compare(structure("fed-pc", federation, alpha=0.001), Structure(drawn.variables, drawn.dag * 1.0))
            wrong, edges = wrong + scores["shd"], edges + scores["true_edges"]
        assert edges > 40
        assert wrong <= 0.2 * edges


def test_a_run_takes_one_exchange_a_size_and_one_for_the_colliders(drawing, dealing):
    for seed in range(5):
        end = last("fed-pc", dealing(drawing(10, 2000, seed), [np.arange(1000), np.arange(1000, 2000)]))
        assert end.outcome == "converged"
        assert end.number <= end.server.search.deepest + 2
        assert end.number == end.server.exchanges


def test_continuous_data_take_one_exchange(drawing, dealing):
    drawn = drawing(8, 400, 0)
    end = last("fed-pc", dealing(drawn, [np.arange(200), np.arange(200, 400)], "continuous"))
    assert (end.number, end.outcome) == (1, "converged")


@dataclass
class Losing:
    """A federation that loses silos: those in `lost[number]` do not answer from round `number` on."""

    whole: InProcessFederation
    lost: dict[int, tuple[str, ...]]

    @property
    def schema(self):
        return self.whole.schema

    def exchange(self, learner, number, broadcast, sparse=None):
        gone = {silo for first, silos in self.lost.items() if first <= number for silo in silos}
        replies = {}
        for silo in self.schema.silos:
            if silo not in gone:
                state = learner.open_silo(self.whole.tables[silo], self.schema, silo, silo_generator(0, silo))
                replies[silo] = learner.local_solve(state, broadcast)[1]
        return gather(learner, replies), traffic_of(learner, broadcast, replies)


class TestASiloIsLost:
    PARTS = tuple(np.arange(k, 1200, 4) for k in range(4))

    @pytest.mark.parametrize("name", [*FEDERATED, "pc-cit-voting", "pc-voting"])
    def test_from_the_start_it_costs_its_rows(self, name, drawing, dealing):
        drawn = drawing(8, 1200, 2)
        without = structure(name, dealing(drawn, self.PARTS[:3]))
        losing = Losing(dealing(drawn, self.PARTS), {1: ("s03",)})
        np.testing.assert_array_equal(structure(name, losing).weights, without.weights)

    @each_federated
    def test_between_exchanges_it_costs_its_counts_of_those_to_come(self, name, drawing, dealing):
        """A silo is lost between exchanges: level 0 is tested on all rows, other levels on three quarters of them."""
        drawn = drawing(8, 1200, 2)
        losing = list(rounds(algorithm(name), Losing(dealing(drawn, self.PARTS), {2: ("s01",)})))
        all_rows = list(rounds(algorithm(name), dealing(drawn, self.PARTS)))
        fewer = list(rounds(algorithm(name), dealing(drawn, [self.PARTS[0], self.PARTS[2], self.PARTS[3]])))
        assert losing[-1].outcome == "converged"
        assert [one.lost for one in losing] == [(), *(("s01",) for _ in losing[1:])]
        assert algorithm(name).tolerates_dropout
        first = [run[0].server.search for run in (losing, all_rows, fewer)]
        np.testing.assert_array_equal(first[0].joined, first[1].joined)
        np.testing.assert_array_equal(first[0].strength, first[1].strength)
        assert not np.array_equal(first[0].strength, first[2].strength)

    def test_a_fifth_of_the_silos_makes_little_difference(self, drawing, dealing):
        drawn = drawing(8, 4000, 1)
        parts = [np.arange(k, 4000, 10) for k in range(10)]
        kept = structure("fed-pc", dealing(drawn, parts))
        lost = structure("fed-pc", Losing(dealing(drawn, parts), {2: ("s04", "s07")}))
        assert (kept.adjacency ^ lost.adjacency).sum() <= 2


def discrete_federation(name, drawing, dealing):
    parts = [np.arange(300)] if registry.entry(name).pooled else [np.arange(k, 300, 3) for k in range(3)]
    return dealing(drawing(7, 300, 5), parts)


@everyone
class TestDiscreteData:
    def test_messages_survive_the_wire(self, name, drawing, dealing):
        learner, federation = algorithm(name), discrete_federation(name, drawing, dealing)

        def by_wire(silo, broadcast):
            broadcast = wire.decode(learner.broadcast_type, wire.encode(broadcast))
            silo, reply = learner.local_solve(wire.decode(type(silo), wire.encode(silo)), broadcast)
            return silo, wire.decode(learner.reply_type, wire.encode(reply))

        end = list(rounds(replace(learner, local_solve=by_wire), federation))[-1]
        assert wire.encode(end.server) == wire.encode(last(name, discrete_federation(name, drawing, dealing)).server)

    def test_only_a_sum_reaches_the_server_and_counts_add_up_as_integers(self, name, drawing, dealing):
        learner, federation = algorithm(name), discrete_federation(name, drawing, dealing)
        replies, _ = federation.exchange(learner, 1, learner.broadcast(learner.open_server(federation.schema)))
        assert replies.each == ()
        assert replies.total is not None
        if "voting" not in name:
            np.testing.assert_array_equal(replies.total, np.round(replies.total))

    def test_levels_that_nobody_has_and_constant_columns(self, name, drawing, dealing):
        drawn = drawing(6, 300, 1)
        drawn.table[:, 2] = 1
        wider = replace(drawn, cardinalities=drawn.cardinalities + 2)
        parts = [np.arange(300)] if registry.entry(name).pooled else [np.arange(k, 300, 3) for k in range(3)]
        found, same = (structure(name, dealing(one, parts), rows_per_cell=0) for one in (drawn, wider))
        np.testing.assert_array_equal(found.weights, same.weights)
        assert not found.adjacency[2].any()

    def test_a_code_that_is_no_level_is_refused_by_name(self, name, drawing, dealing):
        drawn = drawing(5, 60, 0)
        drawn.table[7, 3] = 9
        federation = dealing(drawn, [np.arange(60)])
        last_code = drawn.cardinalities[3] - 1
        with pytest.raises(BadInput, match=rf"^s00: row 8, column v3: 9 is not a level's code, 0 to {last_code}$"):
            last(name, federation)


@pytest.mark.parametrize("name", [name for name in ALL if not registry.entry(name).pooled])
def test_masks_change_nothing_even_where_a_silo_has_one_level_of_a_variable(name, drawing, dealing):
    plain, masked = (discrete_federation(name, drawing, dealing) for _ in range(2))
    for one in (plain, masked):
        one.tables["s01"][:, 2] = 0
    masked.secure = True
    assert wire.encode(last(name, plain).server) == wire.encode(last(name, masked).server)


@pytest.mark.parametrize("name", [name for name in ALL if "time-series" not in registry.entry(name).kinds])
def test_time_series_are_refused(name):
    schema = Schema(("a", "b"), {"s": 10}, "time-series")
    with pytest.raises(BadInput, match="not a time series"):
        last(name, InProcessFederation(schema, {"s": np.zeros((10, 2))}))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0}, "parameter alpha is 0.0: it must be between 0 and 1"),
        ({"alpha": 1}, "parameter alpha is 1.0"),
        ({"depth": -2}, "parameter depth is -2: it must be -1 or more"),
        ({"rows_per_cell": -1}, "parameter rows_per_cell is -1.0: it must be 0 or more"),
        ({"cells": 0}, "parameter cells is 0: it must be 1 or more"),
        ({"max_sets": -1}, "parameter max_sets is -1: it must be 0 or more"),
        ({"statistic": "t"}, "parameter statistic of fed-pc is 't': it must be one of chi2, g2"),
        (
            {"orientation": "any"},
            "parameter orientation of fed-pc is 'any': it must be one of sepset, conservative, clear, majority",
        ),
        ({"projections": 1}, "parameter projections is 1: it must be 2 or more"),
        ({"projection_seed": -1}, "parameter projection_seed is -1: it must be 0 or more"),
    ],
)
def test_settings_out_of_range_are_refused(params, message):
    with pytest.raises(BadInput) as refused:
        registry.specify("fed-pc", params)
    assert str(refused.value).startswith(message)


def test_measures_follow_the_search(drawing, dealing):
    learner = algorithm("fed-pc")
    followed = [learner.measures(one.server) for one in rounds(learner, dealing(drawing(8, 900, 1), [np.arange(900)]))]
    assert [m["tests"] for m in followed] == sorted(m["tests"] for m in followed)
    assert [m["edges"] for m in followed] == sorted((m["edges"] for m in followed), reverse=True)
    assert all(np.isfinite(value) for m in followed for value in m.values())
