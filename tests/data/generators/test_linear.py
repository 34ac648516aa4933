"""The generators draw from the model of the paper, and a seed repeats the data."""

from functools import partial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import silo_names
from fedbnsl.data.generators.linear import heterogeneous, homogeneous
from fedbnsl.data.generators.random_graphs import random_dag, random_weights
from fedbnsl.data.generators.sampling import draw_noise, linear_sem


@given(st.integers(2, 12), st.integers(0, 66), st.integers(0, 2**32), st.sampled_from(["ER", "SF"]))
@settings(max_examples=80, deadline=None)
def test_a_random_dag_is_one(variables, edges, seed, graph):
    most = variables * (variables - 1) // 2
    dag = random_dag(variables, min(edges, most), np.random.default_rng(seed), graph)
    assert dag.dtype == bool
    assert nx.is_directed_acyclic_graph(nx.from_numpy_array(dag, create_using=nx.DiGraph))
    if edges == 0:
        assert not dag.any()
    if edges >= most and graph == "ER":
        assert dag.sum() == most


def test_erdos_renyi_has_the_expected_number_of_edges_in_a_random_order():
    rng = np.random.default_rng(1)
    dags = [random_dag(20, 20, rng) for _ in range(2000)]
    counts = np.array([dag.sum() for dag in dags])
    probability = 20 / 190
    assert abs(counts.mean() - 20) < 4 * np.sqrt(190 * probability * (1 - probability) / 2000)
    assert abs(counts.var() / (190 * probability * (1 - probability)) - 1) < 0.15
    often = np.mean(dags, axis=0)
    off = ~np.eye(20, dtype=bool)
    assert abs(often[off] - probability / 2).max() < 6 * np.sqrt(probability / 2 / 2000), (
        "no pair or direction favoured"
    )


def test_scale_free_has_hubs():
    rng = np.random.default_rng(2)
    dags = [random_dag(50, 100, rng, "SF") for _ in range(50)]
    assert {int(dag.sum()) for dag in dags} == {2 * 48 + 1}
    largest = np.mean([dag.sum(axis=0).max() for dag in dags])
    assert largest > 1.5 * np.mean([random_dag(50, 97, rng).sum(axis=0).max() for _ in range(50)])


def test_weights_are_uniform_between_a_half_and_two_with_either_sign():
    weights = random_weights(np.triu(np.ones((200, 200), dtype=bool), 1), np.random.default_rng(3))
    drawn = weights[np.triu_indices(200, 1)]
    assert (weights[np.tril_indices(200)] == 0).all()
    assert abs(drawn).min() >= 0.5
    assert abs(drawn).max() <= 2
    assert abs(abs(drawn).mean() - 1.25) < 0.02
    assert abs(abs(drawn).std() - 1.5 / np.sqrt(12)) < 0.02
    assert abs((drawn > 0).mean() - 0.5) < 0.02


@pytest.mark.parametrize(("noise", "variance"), [("gaussian", 1.0), ("exponential", 1.0), ("gumbel", np.pi**2 / 6)])
def test_the_sample_has_the_covariance_of_the_model(noise, variance):
    data = homogeneous(8, 1, 300_000, seed=5, edges=12, noise=noise)
    table, weights = data.tables["silo-1"], data.truth.weights
    inverse = np.linalg.inv(np.eye(8) - weights)
    expected = variance * inverse.T @ inverse
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert abs((np.cov(table.T) - expected) / scale).max() < 0.02
    assert (abs(table.mean(axis=0)) / np.sqrt(np.diag(expected))).max() < 0.01


def test_noise_that_is_not_gaussian_is_skewed():
    rng = np.random.default_rng(0)
    for noise, skewness in (("gaussian", 0.0), ("exponential", 2.0), ("gumbel", 1.14)):
        drawn = draw_noise(noise, (200_000, 1), rng)
        assert abs((drawn**3).mean() / drawn.std() ** 3 - skewness) < 0.15


def test_intercepts_and_deviations():
    weights = np.array([[0, 2.0], [0, 0]])
    table = linear_sem(
        weights, 100_000, np.random.default_rng(0), intercepts=np.array([1.0, -3.0]), deviations=np.array([0.1, 0.5])
    )
    assert np.allclose(table.mean(axis=0), [1, -1], atol=0.01)
    assert np.allclose(table.var(axis=0), [0.01, 0.25 + 4 * 0.01], atol=0.005)


def test_a_cycle_cannot_be_sampled():
    with pytest.raises(ValueError, match="cycle"):
        linear_sem(np.array([[0, 1.0], [1.0, 0]]), 3, np.random.default_rng(0))


def test_the_same_again_under_a_seed_and_another_under_another():
    one, again, other = (homogeneous(6, 2, 10, seed) for seed in (4, 4, 5))
    for silo in one.tables:
        assert np.array_equal(one.tables[silo], again.tables[silo])
    assert np.array_equal(one.truth.weights, again.truth.weights)
    assert not np.array_equal(one.truth.weights, other.truth.weights)
    assert not np.array_equal(one.tables["silo-1"], one.tables["silo-2"])


@pytest.mark.parametrize("generate", [homogeneous, partial(heterogeneous, weight_variance=0.1)])
def test_more_rows_or_silos_leave_the_rest_as_it_was(generate):
    few, more = generate(6, 2, 10, 4), generate(6, 12, 25, 4)
    assert np.array_equal(few.truth.weights, more.truth.weights)
    for silo, same in zip(few.schema.silos, more.schema.silos, strict=False):
        assert np.allclose(few.tables[silo], more.tables[same][:10], rtol=1e-12)


def test_heterogeneous_silos_share_the_graph_and_differ_in_the_weights_by_the_variance():
    data = heterogeneous(40, 50, 2, seed=6, weight_variance=0.1, edges=200)
    edges = data.truth.adjacency
    changes = np.array([data.silo_weights[silo][edges] - data.truth.weights[edges] for silo in data.schema.silos])
    for own in data.silo_weights.values():
        assert np.array_equal(own != 0, edges)
    assert abs(changes.mean()) < 0.02
    assert abs(changes.var() - 0.1) < 0.01
    assert abs(np.corrcoef(changes[:, :2].T)[0, 1]) < 0.5
    assert abs(data.truth.weights[edges]).min() >= 0.5
    assert data.about["parameters"]["weight_variance"] == 0.1


def test_heterogeneous_rows_come_from_the_silos_own_weights():
    data = heterogeneous(5, 2, 200_000, seed=7, edges=6, weight_variance=0.5)
    for silo, own in data.silo_weights.items():
        inverse = np.linalg.inv(np.eye(5) - own)
        expected = inverse.T @ inverse
        assert np.allclose(np.cov(data.tables[silo].T) / np.diag(expected), expected / np.diag(expected), atol=0.05)


def test_names_sort_as_numbers():
    data = homogeneous(11, 10, 2, seed=0)
    assert data.schema.variables[:2] == ("x01", "x02")
    assert data.schema.variables == tuple(sorted(data.schema.variables))
    assert data.schema.silos == silo_names(10)
    assert homogeneous(9, 9, 2, seed=0).schema.variables[0] == "x1"


def test_how_it_was_made_is_recorded():
    about = homogeneous(5, 2, 3, seed=9, noise="gumbel").about
    assert about == {
        "kind": "continuous",
        "generator": "homogeneous",
        "source": "Fassy El Fehri et al., B.1.1",
        "parameters": {"variables": 5, "silos": 2, "rows": 3, "edges": 5, "graph": "ER", "noise": "gumbel"},
        "seed": 9,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variables": 1}, "variables is 1: it must be 2 or more"),
        ({"silos": 0}, "silos is 0: it must be 1 or more"),
        ({"rows": 1}, "rows is 1: it must be 2 or more"),
        ({"seed": -1}, "seed is -1: it must be 0 or more"),
        ({"edges": 11}, "edges: 11 is not between 0 and 10, the maximum of 5 variables"),
        ({"edges": -1}, "edges: -1 is not between 0 and 10, the maximum of 5 variables"),
        ({"graph": "WS"}, "graph is 'WS': it must be one of ER, SF"),
        ({"noise": "cauchy"}, "noise is 'cauchy': it must be one of gaussian, exponential, gumbel"),
        ({"weight_variance": -0.1}, "weight_variance: -0.1 is not a finite number ≥ 0"),
        ({"weight_variance": float("nan")}, "weight_variance: nan is not a finite number ≥ 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(change, message):
    with pytest.raises(BadInput) as caught:
        heterogeneous(**({"variables": 5, "silos": 2, "rows": 5, "seed": 0, "weight_variance": 0.1} | change))
    assert str(caught.value) == message


def test_standardised_columns_have_unit_variance_and_the_true_weights_of_their_units():
    raw, scaled = homogeneous(6, 3, 500, 4), homogeneous(6, 3, 500, 4, standardise=True)
    whole = np.concatenate([*scaled.tables.values()])
    np.testing.assert_allclose(whole.std(axis=0), 1.0)
    unit = np.concatenate([*raw.tables.values()]).std(axis=0)
    for silo, table in scaled.tables.items():
        errors = raw.tables[silo] @ (np.eye(6) - raw.truth.weights)
        np.testing.assert_allclose(table @ (np.eye(6) - scaled.truth.weights), errors / unit, atol=1e-9)
