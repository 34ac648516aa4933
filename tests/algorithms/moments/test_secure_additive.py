"""Additive models from one more masked sum: curved effects direct edges, and linear data give the linear result."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.protocol import gather, rounds
from fedbnsl.algorithms.moments.secure_additive import (
    MIN_COLUMN_SHARE,
    after_linear,
    coded_products,
    coded_rows,
    curvature_gain,
    effect_sizes,
    orthogonal_blocks,
)
from fedbnsl.algorithms.score.block_order import block_boss
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.algorithms.statistics.coding import log_residual_det
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.curved import EFFECTS, curved, wrong_edges

CURVED = [effect for effect in EFFECTS if effect != "linear"]


def algorithm_of(name="secure-additive", **params):
    return registry.build(registry.specify(name, params))


def learned(federation, name="secure-additive", **params):
    """The last state and the structure."""
    *_, last = rounds(algorithm_of(name, **params), federation)
    return last.server, algorithm_of(name, **params).structure(last.server)


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("effect", CURVED)
def test_curved_effects_are_found_with_their_directions(effect, standardised):
    wrong = []
    for seed in range(40, 44):
        given, truth = curved(effect, seed, standardised=standardised)
        server, structure = learned(federate(given))
        assert structure.kind == "dag"
        assert server.gain > 100
        wrong.append(wrong_edges(structure.adjacency, truth))
    assert np.mean(wrong) <= 1


def test_the_linear_learner_misses_them():
    wrong = []
    for seed in range(40, 44):
        given, truth = curved("quadratic", seed)
        wrong.append(wrong_edges(learned(federate(given), "secure-linear")[1].adjacency, truth))
    assert np.mean(wrong) > 6


@pytest.mark.parametrize("errors", ["normal", "exponential", "laplace", "t3"])
@pytest.mark.parametrize("standardised", [False, True])
def test_linear_data_keep_the_linear_result(errors, standardised):
    """With skewed errors, curves against the true direction fit well: the score alone would prefer them."""
    for seed in (50, 51):
        given, _ = curved("linear", seed, errors=errors, standardised=standardised)
        server, structure = learned(federate(given))
        _, linear = learned(federate(given), "secure-linear")
        assert not len(server.strengths)
        assert server.gain < 0
        np.testing.assert_array_equal(structure.weights, linear.weights)
        assert (structure.kind, structure.acyclic) == (linear.kind, linear.acyclic)
        assert algorithm_of().basis(server)[1:] == algorithm_of("secure-linear").basis(server.linear)
        assert "do not improve the linear graph" in algorithm_of().basis(server)[0]


def test_a_quadratic_effect_without_a_linear_part_is_evidence():
    """The linear graph has no edge that could be curved."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    given = {"a": np.column_stack([x[:2000] ** 2 + rng.normal(size=2000), x[:2000]])}
    given["b"] = np.column_stack([x[2000:] ** 2 + rng.normal(size=1000), x[2000:]])
    server, structure = learned(federate(given))
    assert not server.linear.fit.weights.any()
    assert np.argwhere(structure.adjacency).tolist() == [[1, 0]]
    assert structure.weights[1, 0] == pytest.approx(math.sqrt(2), rel=0.1)
    assert "1 edges of an additive model" in algorithm_of().basis(server)[1]


def test_masks_offsets_units_and_the_order_of_columns_change_nothing():
    given, _ = curved("tanh", 60)
    _, plain = learned(federate(given))
    unmasked = replace(algorithm_of(), needs_secure_sum=False)
    *_, last = rounds(unmasked, federate(given))
    np.testing.assert_allclose(unmasked.structure(last.server).weights, plain.weights, atol=1e-6)
    scales, rng = 2.0 ** np.arange(-4, 4), np.random.default_rng(0)
    moved = {silo: X * scales + 100 * rng.normal(size=8) * scales for silo, X in given.items()}
    *_, last = rounds(unmasked, federate(moved))
    np.testing.assert_array_equal(unmasked.structure(last.server).adjacency, plain.adjacency)
    back = {silo: X[:, ::-1] for silo, X in given.items()}
    np.testing.assert_array_equal(learned(federate(back))[1].adjacency[::-1, ::-1], plain.adjacency)


def test_a_silo_that_is_lost_before_the_last_sum_leaves_the_others():
    given, truth = curved("tanh", 61, silos=6)
    algorithm, federation = algorithm_of(), federate(given)
    *_, last = rounds(algorithm_of("secure-linear"), federation)
    server = after_linear(last.server)
    request = algorithm.broadcast(server)
    answering = [silo for silo in given if silo != "s2"]
    replies = {
        silo: algorithm.local_solve(algorithm.open_silo(given[silo], federation.schema, silo, None), request)[1]
        for silo in answering
    }
    server = algorithm.aggregate(server, gather(algorithm, replies))
    coded = [coded_rows(given[silo], given[silo].mean(axis=0), request.scales) for silo in answering]
    S = sum((X - X.mean(axis=0)).T @ (X - X.mean(axis=0)) for X in coded) / (sum(map(len, coded)) - len(coded))
    assert server.gain == pytest.approx(
        curvature_gain(
            orthogonal_blocks(S, sum(map(len, coded)) - len(coded)),
            algorithm_of("secure-linear").structure(last.server).adjacency,
        )
    )
    assert wrong_edges(algorithm.structure(server).adjacency, truth) <= 1


class Passes:
    """A table that is read in chunks."""

    def __init__(self, table, step):
        self.table, self.step, self.shape = table, step, table.shape

    def __iter__(self):
        return (self.table[begin : begin + self.step] for begin in range(0, len(self.table), self.step))


def test_a_table_read_in_passes_gives_the_same():
    given, _ = curved("quadratic", 62)
    X = given["s0"]
    scales = X.std(axis=0)
    whole = coded_products(X, X.mean(axis=0), scales)
    np.testing.assert_allclose(coded_products(Passes(X, 97), X.mean(axis=0), scales), whole, rtol=1e-9, atol=1e-6)
    streamed = federate(given)
    streamed.tables = {silo: Passes(X, 97) for silo, X in given.items()}
    np.testing.assert_array_equal(learned(streamed)[1].adjacency, learned(federate(given))[1].adjacency)


def test_only_the_cube_is_limited():
    rows = np.array([[10.0], [-6.0], [1.0]])
    np.testing.assert_array_equal(
        coded_rows(rows, np.zeros(1), np.full(1, 2.0)), [[5, 25, 64], [-3, 9, -27], [0.5, 0.25, 0.125]]
    )


def test_a_column_of_two_values_has_no_curve():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 400), rng.normal(size=400)]).astype(float)
    coded = coded_rows(X, X.mean(axis=0), X.std(axis=0))
    S = np.cov(coded.T) + MIN_COLUMN_SHARE / 100 * rng.normal(size=(6, 6))
    assert orthogonal_blocks((S + S.T) / 2, 400).first.tolist() == [0, 1, 4]


def test_a_parent_must_explain_its_share():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(40_000, 3))
    x[:, 1] += np.tanh(3 * x[:, 0])
    x[:, 2] += 0.12 * np.tanh(3 * x[:, 0])  # about 1 % of the variance
    given = {"a": x[:25_000], "b": x[25_000:]}
    assert [
        structure.adjacency[0].tolist()
        for structure in (learned(federate(given))[1], learned(federate(given), min_share=0.0)[1])
    ] == [
        [False, True, False],
        [False, True, True],
    ]


def test_little_evidence_keeps_the_linear_model():
    given, _ = curved("tanh", 63)
    gain = learned(federate(given))[0].gain
    assert len(learned(federate(given), min_log_likelihood_ratio=0.9 * gain)[0].strengths)
    assert not len(learned(federate(given), min_log_likelihood_ratio=1.1 * gain)[0].strengths)


def test_knowledge_is_respected():
    given, truth = curved("tanh", 64)
    i, j = map(int, np.argwhere(truth)[0])
    schema = federate(given).schema
    names = schema.variables
    schema = replace(schema, knowledge=Knowledge(forbidden=((names[i], names[j]),)))
    federation = federate(given)
    federation.schema = schema
    assert not learned(federation)[1].adjacency[i, j]


def test_the_score_of_an_order_counts_the_first_column_of_a_child():
    given, _ = curved("tanh", 65, d=4, edges=4)
    X = np.vstack([table - table.mean(axis=0) for table in given.values()])
    blocks = orthogonal_blocks(np.cov(coded_rows(X, np.zeros(4), X.std(axis=0)).T), len(X))
    found = block_boss(blocks, 10.0, OrderSettings(), first_column_only=True)
    total = sum(
        len(X) * log_residual_det(blocks.R, blocks.first, j, np.flatnonzero(found.dag[:, j]), 1)
        + 30.0 * found.dag[:, j].sum()
        for j in range(4)
    )
    assert found.score == pytest.approx(-0.5 * total)
    columns = np.arange(12).reshape(4, 3)
    for j in range(4):
        parents = columns[np.flatnonzero(found.dag[:, j])].ravel()
        explained = blocks.R[parents, 3 * j] @ np.linalg.solve(
            blocks.R[np.ix_(parents, parents)], blocks.R[parents, 3 * j]
        )
        assert log_residual_det(blocks.R, blocks.first, j, np.flatnonzero(found.dag[:, j]), 1) == pytest.approx(
            np.log(1 - explained)
        )
    assert ((effect_sizes(blocks, found.dag) > 0) == found.dag).all()
