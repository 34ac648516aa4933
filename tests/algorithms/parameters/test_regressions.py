"""Linear Gaussian parameters from sums equal least squares over all rows, from no more moments than needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.protocol import gather, rounds, silo_generator, traffic_of
from fedbnsl.algorithms.diagnosis import exchange
from fedbnsl.algorithms.graphs.dag import moral_graph
from fedbnsl.algorithms.parameters import regressions
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.unequal import stacked, unequal

NAMES = tuple("dcba")


def rows(seed, n=120):
    rng = np.random.default_rng(seed)
    dag = random_dag(4, 4, rng)
    noise = rng.normal(size=(n, 4)) * rng.uniform(0.5, 3, 4) + rng.uniform(-9, 9, 4)
    weights = np.where(dag, rng.uniform(-2, 2, (4, 4)), 0.0)
    return noise @ np.linalg.inv(np.eye(4) - weights), dag


def split(table, silos):
    return {f"s{k}": table[k::silos] for k in range(silos)}


def exchanged(federation, dag, **given):
    settings = regressions.Regressions(**given)
    algorithm = regressions.build(settings)
    (only,) = rounds(algorithm, federation, resume=(0, regressions.start(federation.schema, dag)))
    return only


def learned(tables, dag, *, secure=False, **given):
    last = exchanged(federate(tables, NAMES, secure=secure), dag, **given)
    return regressions.network(last.server, regressions.Regressions(**given))


def least_squares(table, dag):
    weights, intercepts, variances = np.zeros((4, 4)), np.zeros(4), np.zeros(4)
    for j in range(4):
        design = np.column_stack([np.ones(len(table)), table[:, dag[:, j]]])
        found, *_ = np.linalg.lstsq(design, table[:, j], rcond=None)
        intercepts[j], weights[dag[:, j], j] = found[0], found[1:]
        variances[j] = ((table[:, j] - design @ found) ** 2).mean()
    return weights, intercepts, variances


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 99), silos=st.sampled_from([1, 2, 5, 30]))
def test_any_split_gives_the_regressions_of_all_rows(seed, silos):
    table, dag = rows(seed)
    found = learned(split(table, silos), dag)
    for value, expected in zip(
        (found.structure.weights, found.intercepts, found.variances), least_squares(table, dag), strict=True
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-7)


def test_silos_that_differ_count_by_their_rows():
    """Silos of 40, 90 and 310 rows with different means and units: least squares over all rows, or within silos."""
    tables = unequal(variables=4, seed=2)
    dag = np.triu(np.ones((4, 4), bool), 1)
    for center in (False, True):
        found = learned(tables, dag, center=center)
        own = {silo: table - table.mean(axis=0) * center for silo, table in tables.items()}
        weights, _, variances = least_squares(stacked(own), dag)
        np.testing.assert_allclose(found.structure.weights, weights, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(found.variances, variances, rtol=1e-7)
        means = stacked(tables).mean(axis=0)
        np.testing.assert_allclose(found.intercepts, means - means @ weights, rtol=1e-6, atol=1e-6)


def test_masked_sums_give_the_same():
    table, dag = rows(3)
    plain, hidden = (learned(split(table, 4), dag, secure=secure) for secure in (False, True))
    np.testing.assert_allclose(hidden.structure.weights, plain.structure.weights, atol=1e-5)
    np.testing.assert_allclose(hidden.intercepts, plain.intercepts, atol=1e-4)
    np.testing.assert_allclose(hidden.variances, plain.variances, rtol=1e-4)


def test_silos_around_other_means_are_regressed_within_where_the_run_was():
    """Between the silos, b decreases with a; within each silo it increases."""
    rng = np.random.default_rng(1)
    dag = np.zeros((4, 4), bool)
    dag[0, 1] = True
    tables = {}
    for k in range(5):
        a = rng.normal(size=400)
        within = np.column_stack([a, a + 0.1 * rng.normal(size=400), rng.normal(size=(400, 2))])
        tables[f"s{k}"] = within + k * np.array([5.0, -5.0, 0.0, 0.0])
    assert learned(tables, dag).structure.weights[0, 1] < -0.8
    found = learned(tables, dag, center=True)
    assert found.structure.weights[0, 1] == pytest.approx(1, abs=0.02)
    assert found.variances[1] == pytest.approx(0.01, rel=0.2)
    everything = np.vstack(list(tables.values())).mean(axis=0)
    np.testing.assert_allclose(found.intercepts, everything - everything @ found.structure.weights)


def test_moments_that_are_known_give_the_same_network_bit_by_bit():
    table, dag = rows(7)
    federation, settings = federate(split(table, 3), NAMES), regressions.Regressions(center=True)
    (first, _) = rounds(exchange.build(exchange.Diagnosis()), federation)
    known = regressions.state_from(federation.schema, dag, first.server.moments)
    last = exchanged(federation, dag, center=True)
    found, expected = (regressions.network(server, settings) for server in (known, last.server))
    for name in ("intercepts", "variances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.structure.weights, expected.structure.weights)
    assert regressions.contributing_rows(known) == regressions.contributing_rows(last.server) == len(table)


def test_only_pairs_that_share_a_family_are_asked_for():
    table, _ = rows(5)
    chain = np.zeros((4, 4), bool)
    chain[0, 1] = chain[1, 2] = chain[3, 2] = True
    federation = federate(split(table, 2), NAMES)
    algorithm = regressions.build(regressions.Regressions())
    server = regressions.start(federation.schema, chain)
    silo = algorithm.open_silo(federation.tables["s0"], federation.schema, "s0", silo_generator(0, "s0"))
    _, reply = algorithm.local_solve(silo, algorithm.broadcast(server))
    joined = int(np.triu(moral_graph(chain)).sum())
    assert joined == 4  # three arrows, and the parents of the collider
    assert reply.values.shape == (1 + 4 + 4 + joined,)
    assert [0, 2] not in regressions.pairs(chain).tolist()


def test_a_silo_that_does_not_answer_costs_its_rows():
    table, dag = rows(6)
    tables = split(table, 4)
    whole = federate(tables, NAMES)

    class Losing:
        schema = whole.schema

        def exchange(self, algorithm, number, broadcast, sparse=None):
            replies = {}
            for silo in ("s0", "s2", "s3"):
                state = algorithm.open_silo(tables[silo], self.schema, silo, silo_generator(0, silo))
                replies[silo] = algorithm.local_solve(state, broadcast)[1]
            return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)

    last = exchanged(Losing(), dag)
    assert (last.lost, last.outcome) == (("s1",), "converged")
    assert regressions.contributing_rows(last.server) == 90
    found = regressions.network(last.server, regressions.Regressions())
    weights, intercepts, variances = least_squares(np.vstack([tables[silo] for silo in ("s0", "s2", "s3")]), dag)
    np.testing.assert_allclose(found.structure.weights, weights, atol=1e-7)
    np.testing.assert_allclose(found.intercepts, intercepts, atol=1e-7)
    np.testing.assert_allclose(found.variances, variances, rtol=1e-7)
