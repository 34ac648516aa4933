"""`auto` on numbers: equal with and without masks, for any site means, units, column order and lost silos."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.protocol import gather, rounds, traffic_of
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.statistics.moments import Units, units_of
from fedbnsl.algorithms.statistics.moments import build as units_exchange
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation, federate


def algorithm_of(**params):
    return registry.build(registry.specify("secure-linear", params))


def learned(federation, **params):
    """The last state and the structure."""
    *_, last = rounds(algorithm_of(**params), federation)
    return last.server, algorithm_of(**params).structure(last.server)


def tables(seed, d=8, rows=600, silos=3, noise="gaussian", unequal=False):
    """Silos of a linear model with means of their own."""
    rng = np.random.default_rng(seed)
    W = homogeneous(d, 2, 5, seed).truth.weights
    sd = rng.uniform(0.3, 3, d) if unequal else np.ones(d)
    found = {}
    for k in range(silos):
        E = rng.exponential(size=(rows, d)) if noise == "exponential" else rng.normal(size=(rows, d))
        found[f"s{k}"] = (E * sd) @ np.linalg.inv(np.eye(d) - W)
    return found, W


def unmasked(federation, **params):
    """Return the result of the exchanges with unmasked replies."""
    *_, last = rounds(replace(algorithm_of(**params), needs_secure_sum=False), federation)
    return last.server, algorithm_of(**params).structure(last.server)


@pytest.mark.parametrize("seed", range(3))
def test_equal_errors_give_the_true_graph(seed):
    given, W = tables(300 + seed)
    server, structure = learned(federate(given))
    assert server.evidence.equal
    np.testing.assert_array_equal(structure.adjacency, W != 0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["unequal", "standardised", "units"])
def test_other_columns_give_the_true_class_and_claim_nothing(how, seed):
    given, W = tables(400 + seed, rows=2000, unequal=how == "unequal")
    scale = {
        "unequal": np.ones(8),
        "standardised": 1 / np.vstack(list(given.values())).std(axis=0),
        "units": 10.0 ** np.random.default_rng(seed).uniform(-1, 1, 8),
    }[how]
    server, structure = learned(federate({silo: X * scale for silo, X in given.items()}))
    assert not server.evidence.equal
    assert (structure.adjacency != cpdag(W != 0)).sum() <= 2
    assert not server.directed


@pytest.mark.parametrize("seed", range(3))
def test_bent_errors_direct_the_class(seed):
    given, W = tables(500 + seed, rows=2000, noise="exponential", unequal=True)
    server, structure = learned(federate(given))
    assert not server.evidence.equal
    assert structure.kind == "dag"
    assert (structure.adjacency != (W != 0)).sum() <= 2
    open_edges = int(np.triu(cpdag(W != 0) & cpdag(W != 0).T).sum())
    assert (server.directed > 0) == (open_edges > 0)
    assert not learned(federate(given), non_gaussian=False)[0].directed


@pytest.mark.parametrize("noise", ["gaussian", "exponential"])
def test_masks_change_nothing(noise):
    given, _ = tables(11, noise=noise, unequal=True)
    one, plain = unmasked(federate(given))
    other, masked = learned(federate(given))
    np.testing.assert_allclose(other.S, one.S, atol=1e-8)
    np.testing.assert_allclose(masked.weights, plain.weights, atol=1e-6)
    assert other.evidence.gain == pytest.approx(one.evidence.gain, abs=1e-3)


@pytest.mark.parametrize("unequal", [False, True])
def test_site_means_change_nothing(unequal):
    given, _ = tables(12, unequal=unequal)
    rng = np.random.default_rng(0)
    moved = {silo: X + rng.normal(0, 30, 8) for silo, X in given.items()}
    (one, plain), (other, shifted) = unmasked(federate(given)), unmasked(federate(moved))
    np.testing.assert_allclose(other.S, one.S, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(shifted.weights, plain.weights, atol=1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "exponential"])
def test_columns_in_another_order_give_the_same_graph(noise):
    for seed in range(4):
        given, _ = tables(20 + seed, noise=noise, unequal=seed % 2 == 1)
        mixed = np.random.default_rng(seed).permutation(8)
        _, structure = learned(federate(given))
        _, again = learned(federate({silo: X[:, mixed] for silo, X in given.items()}))
        np.testing.assert_allclose(again.weights, structure.weights[np.ix_(mixed, mixed)], atol=1e-6)


def in_units(given):
    """The federation of `given`, with units computed as before a masked run."""
    federation = federate(given)
    (only,) = rounds(units_exchange(Units()), federation)
    return InProcessFederation(replace(federation.schema, units=tuple(map(float, units_of(only.server)))), given)


def test_masked_columns_a_million_times_larger_or_smaller_give_the_same_class_and_scaled_moments():
    given, _ = tables(31, unequal=True)
    scale = 10.0 ** np.array([-6, 6, 0, 3, -3, 5, -5, 1])
    one, plain = learned(in_units(given), error_variances="free")
    other, scaled = learned(in_units({silo: X * scale for silo, X in given.items()}), error_variances="free")
    np.testing.assert_allclose(other.S / np.outer(scale, scale), one.S, atol=1e-7)
    np.testing.assert_array_equal(scaled.adjacency, plain.adjacency)
    with pytest.raises(BadInput, match="does not fit the fixed-point numbers"):
        learned(federate({silo: X * scale for silo, X in given.items()}))


class Losing(InProcessFederation):
    """A federation in which silo s2 answers round 1 only, or none."""

    from_round = 1

    def exchange(self, algorithm, number, broadcast, sparse=None):
        silos = [silo for silo in self.schema.silos if silo != "s2" or number < self.from_round]
        replies = {silo: self.reply(algorithm, number, silo, broadcast) for silo in silos}
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)


@pytest.mark.parametrize("noise", ["gaussian", "exponential"])
def test_the_rows_of_a_lost_silo_do_not_count(noise):
    given, _ = tables(40, noise=noise, unequal=True)
    schema = federate(given).schema
    without, expected = unmasked(federate({silo: given[silo] for silo in ("s0", "s1")}))
    found, structure = unmasked(Losing(schema, given))
    np.testing.assert_allclose(found.S, without.S)
    assert found.rows == without.rows == 1198
    np.testing.assert_allclose(structure.weights, expected.weights, atol=1e-12)


def test_evidence_is_that_of_the_silos_that_answered_the_second_exchange():
    given, _ = tables(41, noise="exponential", unequal=True)
    federation = Losing(federate(given).schema, given)
    federation.from_round = 2
    seen = []
    algorithm = replace(algorithm_of(), needs_secure_sum=False)

    def aggregate(server, replies):
        if len(server.S):
            # Here s2 has the same means as the others.
            whole = replace(replies, silos=("s0", "s1", "s2"), total=replies.total * 3 / 2)
            seen.append([algorithm.aggregate(server, one) for one in (replies, whole)])
        return algorithm.aggregate(server, replies)

    list(rounds(replace(algorithm, aggregate=aggregate), federation))
    ((found, expected),) = seen
    assert found.directed == expected.directed > 0
    np.testing.assert_array_equal(found.graph, expected.graph)


def test_knowledge_is_kept():
    given, W = tables(50, unequal=True)
    cause, effect = (f"x{v}" for v in np.argwhere(W)[0])
    for known in (Knowledge(required=((effect, cause),)), Knowledge(forbidden=((cause, effect), (effect, cause)))):
        for variances in ("equal", "free"):
            schema = replace(federate(given).schema, knowledge=known)
            _, structure = learned(InProcessFederation(schema, given), error_variances=variances)
            i, j = int(cause[1:]), int(effect[1:])
            assert not structure.adjacency[i, j]
            assert structure.adjacency[j, i] == bool(known.required)


def test_what_cannot_be_learned_from_is_refused():
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(BadInput, match="column 'x1' has no variance within any silo"):
        unmasked(federate({"a": X * [1, 0, 1] + [0, 5, 0], "b": X * [1, 0, 1]}))
    with pytest.raises(BadInput, match="every silo has one row"):
        unmasked(federate({"s": X[:1], "t": X[1:2]}))
    with pytest.raises(BadInput, match="min_log_likelihood_ratio is -1"):
        registry.specify("secure-linear", {"min_log_likelihood_ratio": -1})


def test_the_basis_says_what_was_decided():
    given, _ = tables(301)
    server, _ = learned(federate(given))
    assert "The data support errors of equal variance" in algorithm_of().basis(server)[0]
    scaled = {silo: X * 10.0 ** np.arange(-2, 2, 0.5) for silo, X in given.items()}
    told = algorithm_of().basis(learned(federate(scaled))[0])
    assert "do not support" in told[0]
    assert "v-structures" in told[1]
