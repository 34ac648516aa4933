"""PC on one secure sum of second moments against FedPC on the same rows, and the loss by noise."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint.moment_tests import fisher_z
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import federate


def learned(name, tables, **params):
    algorithm = registry.build(registry.specify(name, params))
    *_, last = rounds(algorithm, federate(tables, tuple(f"x{v:02d}" for v in range(1, 11))))
    return algorithm.structure(last.server), algorithm


def centred(seed, rows=3000):
    data = homogeneous(10, 3, rows, seed)
    return {silo: table - table.mean(axis=0) for silo, table in data.tables.items()}, data.truth


@pytest.mark.parametrize("seed", [40, 41, 42])
def test_one_sum_gives_the_graph_of_fed_pc(seed):
    tables, _ = centred(seed)
    by_sum, algorithm = learned("secure-sum", tables, learner="pc", alpha=0.01)
    by_tests, _ = learned("fed-pc", tables, alpha=0.01)
    assert by_sum.kind == "cpdag"
    assert by_sum.adjacency.any()
    np.testing.assert_array_equal(by_sum.adjacency, by_tests.adjacency)
    assert algorithm.residual_variances is None  # an equivalence class has no weights, so there are no residuals


@pytest.mark.parametrize("seed", [40, 41, 42])
def test_one_sum_gives_the_graph_of_secure_ges(seed):
    tables, _ = centred(seed)
    by_sum, _ = learned("secure-sum", tables, learner="ges")
    by_scores, _ = learned("secure-ges", tables)
    assert by_sum.kind == "cpdag"
    assert by_sum.adjacency.any()
    np.testing.assert_array_equal(by_sum.adjacency, by_scores.adjacency)


@pytest.mark.parametrize("learner", ["pc", "ges"])
def test_private_moments_give_nearly_the_same_graph_and_noise_makes_searches_careful(learner):
    """These seeds were not used to choose defaults, which was done on seeds from 100 on."""
    missed = {}
    for epsilon in (20.0, 0.5):
        found = []
        for seed in range(2, 12):
            tables, truth = centred(seed, 5000)
            graph, _ = learned("secure-sum", tables, learner=learner, epsilon=epsilon, insecure_seed=seed)
            found.append(compare(graph, truth))
        missed[epsilon] = np.median([one["shd_skeleton"] for one in found])
        assert np.median([one["fdr"] for one in found]) < 0.25
    assert missed[20.0] <= 2
    assert missed[0.5] <= 6


@pytest.mark.parametrize("given", [(), (2,), (2, 3), (2, 3, 4)])
def test_noise_in_the_correlations_is_reckoned_with_at_its_size(given):
    """Independent x and y, with noise added to the true correlations many times: p-values stay uniform."""
    rng, noise = np.random.default_rng(5), 0.02
    B = np.zeros((5, 5))
    B[2:, 0], B[2:, 1] = [0.9, -0.7, 0.8], [1.1, 0.6, -0.5]  # x and y have common causes
    if len(given) < 3:  # without the variables that are given, none are left
        B[2 + len(given) :] = 0
    root = np.linalg.inv(np.eye(5) - B)
    S = root.T @ root
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    p = []
    for _ in range(1500):
        N = np.triu(rng.normal(0, noise, (5, 5)), 1)
        p.append(fisher_z(10**8, R + N + N.T, np.array([[0, 1, *given]], np.int16), noise).p[0])
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.08
    assert 0.4 < np.mean(np.array(p) < 0.5) < 0.6
