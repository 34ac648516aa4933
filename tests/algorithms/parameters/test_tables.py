"""Probability tables from sums equal those of pooled rows, for any split, masked or not, and after lost silos."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import gather, rounds, silo_generator, traffic_of
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters import tables
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.data.generators.random_network import random_network
from fedbnsl.data.generators.sampling import forward_sample
from fedbnsl.tasks.transport.in_process import InProcessFederation

NAMES = tuple("edcba")


@dataclass(frozen=True)
class Case:
    """Rows of a random network, and a DAG over its variables that may differ from the network's DAG."""

    codes: np.ndarray
    dag: np.ndarray
    levels: dict

    def federation(self, parts, *, secure=False):
        silos = {f"s{number:02}": self.codes[rows] for number, rows in enumerate(parts)}
        schema = Schema(NAMES, {silo: len(codes) for silo, codes in silos.items()}, "discrete", self.levels)
        return InProcessFederation(schema, silos, secure=secure)

    def learned(self, parts, ess=1.0, *, secure=False):
        federation = self.federation(parts, secure=secure)
        return tables.network(exchanged(federation, self.dag, ess).server, ess)

    @property
    def frame(self):
        return pd.DataFrame({name: np.array(self.levels[name])[self.codes[:, v]] for v, name in enumerate(NAMES)})


def exchanged(federation, dag, ess=1.0):
    algorithm = tables.build(tables.FamilyTables(ess))
    (only,) = rounds(algorithm, federation, resume=(0, tables.start(federation.schema, dag)))
    return only


def case(seed, rows=200, unseen=0):
    """A case whose variables have `unseen` additional levels that never occur."""
    rng = np.random.default_rng(seed)
    network = random_network(random_dag(5, 6, rng), NAMES, (2, 4), None, rng)
    levels = {name: (*labels, *(f"never-{k}" for k in range(unseen))) for name, labels in network.levels.items()}
    return Case(forward_sample(network, rows, rng), random_dag(5, 7, rng), levels)


def equal(one, other):
    assert one.parents == other.parents
    for name in NAMES:
        np.testing.assert_array_equal(one.tables[name], other.tables[name])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 20), silos=st.sampled_from([1, 2, 7, 40]), deal=st.integers(0, 99))
def test_any_split_gives_the_tables_of_all_rows(seed, silos, deal):
    drawn = case(seed)
    owner = np.random.default_rng(deal).integers(0, silos, 200)
    owner[:silos] = np.arange(silos)
    split = [np.flatnonzero(owner == k) for k in range(silos)]
    equal(drawn.learned(split), drawn.learned([np.arange(200)]))


@pytest.mark.parametrize("ess", [0.5, 1.0, 10.0])
def test_it_is_what_pgmpy_estimates_from_pooled_rows(ess):
    from pgmpy.estimators import BayesianEstimator
    from pgmpy.models import DiscreteBayesianNetwork

    drawn = case(3, unseen=1)
    found = drawn.learned([np.arange(0, 90), np.arange(90, 200)], ess)
    model = DiscreteBayesianNetwork()
    model.add_nodes_from(NAMES)
    model.add_edges_from((parent, name) for name in NAMES for parent in found.parents[name])
    states = {name: list(levels) for name, levels in drawn.levels.items()}
    theirs = BayesianEstimator(model, drawn.frame, state_names=states)
    for name in NAMES:
        cpd = theirs.estimate_cpd(name, prior_type="BDeu", equivalent_sample_size=ess)
        axes = [cpd.variables.index(one) for one in (*found.parents[name], name)]
        assert cpd.state_names[name] == states[name]
        np.testing.assert_allclose(found.tables[name], np.transpose(cpd.values, axes), rtol=1e-12)


def test_masked_sums_give_the_same_bits():
    drawn = case(5)
    parts = [np.arange(k, 200, 4) for k in range(4)]
    equal(drawn.learned(parts, secure=True), drawn.learned(parts))


def test_a_silo_that_sees_one_level_alone_can_be_masked():
    """Codes are counted, not squared, so a column of zeros can be masked."""
    drawn = case(6)
    parts = [np.flatnonzero(drawn.codes[:, 0] == 0), np.flatnonzero(drawn.codes[:, 0] != 0)]
    equal(drawn.learned(parts, secure=True), drawn.learned([np.arange(200)]))


def test_what_never_occurs_is_as_the_prior_has_it():
    drawn = case(7, rows=30, unseen=2)
    found = drawn.learned([np.arange(30)], ess=2.0)
    for name in NAMES:
        table, levels = found.tables[name], len(drawn.levels[name])
        np.testing.assert_allclose(table.sum(axis=-1), 1)
        assert (table > 0).all()
        if found.parents[name]:
            np.testing.assert_allclose(table[(-1,) * (table.ndim - 1)], 1 / levels)


@pytest.mark.parametrize("secure", [False, True])
def test_a_silo_that_does_not_answer_costs_its_rows(secure):
    drawn = case(8)
    parts = [np.arange(k, 200, 4) for k in range(4)]
    whole = drawn.federation(parts, secure=secure)

    class Losing:
        schema = whole.schema

        def exchange(self, algorithm, number, broadcast, sparse=None):
            replies = {}
            for silo in ("s00", "s01", "s03"):
                state = algorithm.open_silo(whole.tables[silo], self.schema, silo, silo_generator(0, silo))
                replies[silo] = algorithm.local_solve(state, broadcast)[1]
            return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    last = exchanged(Losing(), drawn.dag)
    assert last.lost == ("s02",)
    assert tables.contributing_rows(last.server) == 150
    equal(tables.network(last.server, 1.0), drawn.learned([parts[0], parts[1], parts[3]]))


def test_a_reply_has_the_families_counts_and_nothing_else():
    drawn = case(9)
    schema = drawn.federation([np.arange(200)]).schema
    algorithm = tables.build(tables.FamilyTables())
    silo = algorithm.open_silo(drawn.codes, schema, "s00", silo_generator(0, "s00"))
    _, reply = algorithm.local_solve(silo, algorithm.broadcast(tables.start(schema, drawn.dag)))
    cells = sum(
        int(np.prod([len(drawn.levels[NAMES[u]]) for u in (v, *np.flatnonzero(drawn.dag[:, v]))])) for v in range(5)
    )
    assert reply.values.shape == (cells,)
    assert reply.values.sum() == 5 * 200
    server = exchanged(drawn.federation([np.arange(200)]), drawn.dag).server
    assert wire.encode(wire.decode(tables.Server, wire.encode(server))) == wire.encode(server)


def test_ten_parents_of_many_levels_are_refused_in_words():
    names = tuple(f"x{k}" for k in range(11))
    levels = dict.fromkeys(names, tuple("abcdef"))
    dag = np.zeros((11, 11), bool)
    dag[:10, 10] = True
    said = tables.size_error(Schema(names, {"s": 100}, "discrete", levels), dag)
    assert said == (
        "the probability tables would have 362,797,116 cells, more than 2,000,000: "
        "362,797,056 alone for x10 with its 10 parents"
    )
    small = Schema(names, {"s": 100}, "discrete", dict.fromkeys(names, ("a", "b")))
    assert tables.size_error(small, dag) is None


def test_ten_parents_of_two_levels_are_learned():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (500, 11))
    names = tuple(f"x{k}" for k in range(11))
    dag = np.zeros((11, 11), bool)
    dag[:10, 10] = True
    schema = Schema(names, {"a": 200, "b": 300}, "discrete", dict.fromkeys(names, ("n", "y")))
    federation = InProcessFederation(schema, {"a": codes[:200], "b": codes[200:]})
    found = tables.network(exchanged(federation, dag).server, 1.0)
    assert found.tables["x10"].shape == (2,) * 11
    row = codes[0]
    alike = codes[(codes[:, :10] == row[:10]).all(axis=1), 10]
    alpha = 1 / 2**11
    expected = (sum(alike == 1) + alpha) / (len(alike) + 2 * alpha)
    assert found.tables["x10"][(*row[:10], 1)] == pytest.approx(expected)


def test_a_prior_of_nothing_is_refused():
    with pytest.raises(BadInput, match="ess is 0"):
        registry.specify("family-tables", {"ess": "0"})
