"""Directions from non-Gaussian errors: the means against raw rows, and the resulting directions."""

import math

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.moments.non_gaussian import (
    contrast_sums,
    contrasts,
    correlations,
    credible_contrasts,
    dependences,
    direct_edges,
    negentropies,
    standardising,
    undirected_edges,
)


def entropy(u):
    """Hyvärinen's approximation to the entropy of standardised `u`, written out."""
    gauss = (1 + math.log(2 * math.pi)) / 2
    return (
        gauss - 79.047 * (np.mean(np.log(np.cosh(u))) - 0.37457) ** 2 - 7.4129 * np.mean(u * np.exp(-(u**2) / 2)) ** 2
    )


def standard(x):
    return (x - x.mean()) / x.std()


def contrast_by_rows(x, y):
    """H(y) + H(x|y) − H(x) − H(y|x), above 0 for x → y."""
    x, y = standard(x), standard(y)
    rho = np.mean(x * y)
    return entropy(y) + entropy(standard(x - rho * y)) - entropy(x) - entropy(standard(y - rho * x))


def found_contrasts(X, graph):
    S = X.T @ X / len(X)
    edges, scale = undirected_edges(graph), standardising(S, graph)
    return edges, contrasts(contrast_sums(X, scale, edges, correlations(S, scale, edges)) / len(X))


def chain(n, seed, draw):
    """Centred rows of x0 → x1 → x2 with errors that `draw` gives."""
    rng = np.random.default_rng(seed)
    E = draw(rng, (n, 3))
    X = np.column_stack([E[:, 0], E[:, 0] + E[:, 1], E[:, 0] + E[:, 1] + E[:, 2]])
    return X - X.mean(axis=0)


BENT = {
    "exponential": lambda rng, size: rng.exponential(size=size),
    "uniform": lambda rng, size: rng.uniform(size=size),
    "Laplace": lambda rng, size: rng.laplace(size=size),
    "Gumbel": lambda rng, size: rng.gumbel(size=size),
}
CHAIN = np.array([[False, True, False], [True, False, True], [False, True, False]])


def test_contrasts_are_those_of_the_rows():
    X = chain(700, 1, BENT["exponential"])
    edges, R = found_contrasts(X, CHAIN)
    assert edges.tolist() == [[0, 1], [1, 2]]
    np.testing.assert_allclose(R, [contrast_by_rows(X[:, i], X[:, j]) for i, j in edges], atol=1e-10)


def test_what_compelled_parents_explain_is_taken_away_first():
    rng = np.random.default_rng(4)
    E = rng.exponential(size=(900, 4))
    X = E @ np.linalg.inv(np.eye(4) - np.array([[0, 0, 1, 1], [0, 0, 1, 0.7], [0, 0, 0, 0.8], [0, 0, 0, 0.0]]))
    X -= X.mean(axis=0)
    graph = np.zeros((4, 4), bool)
    graph[[0, 1, 0, 1], [2, 2, 3, 3]] = graph[2, 3] = graph[3, 2] = True
    left = X[:, 2:] - X[:, :2] @ np.linalg.lstsq(X[:, :2], X[:, 2:], rcond=None)[0]
    edges, R = found_contrasts(X, graph)
    assert edges.tolist() == [[2, 3]]
    assert R[0] == pytest.approx(contrast_by_rows(left[:, 0], left[:, 1]), abs=1e-10)


@pytest.mark.parametrize("errors", BENT)
def test_bent_errors_point_from_cause_to_effect(errors):
    for seed in range(5):
        X = chain(2000, 10 + seed, BENT[errors])
        edges, R = found_contrasts(X, CHAIN)
        graph, count = direct_edges(CHAIN, edges, R, len(X), 10.0)
        assert graph.tolist() == [[False, True, False], [False, False, True], [False, False, False]]
        assert count in (1, 2)


def test_gaussian_errors_point_nowhere():
    for seed in range(40):
        X = chain(500, 100 + seed, lambda rng, size: rng.normal(size=size))
        edges, R = found_contrasts(X, CHAIN)
        graph, count = direct_edges(CHAIN, edges, R, len(X), 10.0)
        assert count == 0
        np.testing.assert_array_equal(graph, CHAIN)


def test_negentropy_is_nothing_for_a_gaussian():
    u = np.random.default_rng(0).normal(size=10**6)
    assert negentropies(np.array([np.log(np.cosh(u)).mean(), (u * np.exp(-(u**2) / 2)).mean()])) < 1e-4


def test_the_strongest_goes_first_and_the_rest_follows():
    edges = undirected_edges(CHAIN)
    graph, count = direct_edges(CHAIN, edges, np.array([0.5, -0.2]), 100, 10.0)
    # The evidence for 0 → 1 is stronger; 1 → 2 follows from it and overrides weaker evidence.
    assert graph.tolist() == [[False, True, False], [False, False, True], [False, False, False]]
    assert count == 1
    graph, count = direct_edges(CHAIN, edges, np.array([0.1, -0.05]), 100, 10.0)
    np.testing.assert_array_equal(graph, CHAIN)
    assert count == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_evidence_gives_a_graph_of_the_same_class(seed):
    rng = np.random.default_rng(seed)
    dag = np.triu(rng.random((7, 7)) < 0.5, 1)
    names = rng.permutation(7)
    whole = cpdag(dag[np.ix_(names, names)])
    edges = undirected_edges(whole)
    graph, _ = direct_edges(whole, edges, rng.normal(size=len(edges)), 1000, 0.0)
    assert is_acyclic(graph)
    np.testing.assert_array_equal(cpdag(graph), whole)


def found_means(X, graph):
    S = X.T @ X / len(X)
    edges, scale = undirected_edges(graph), standardising(S, graph)
    return contrast_sums(X, scale, edges, correlations(S, scale, edges)) / len(X)


def test_dependences_are_correlations_of_cause_and_residual():
    X = chain(400, 3, BENT["exponential"])
    i, j = standard(X[:, 0]), standard(X[:, 1])
    rho = np.mean(i * j)
    expected = [
        np.corrcoef(np.log(np.cosh(cause)), np.log(np.cosh((effect - rho * cause) / math.sqrt(1 - rho**2))))[0, 1]
        for cause, effect in ((i, j), (j, i))
    ]
    np.testing.assert_allclose(dependences(found_means(X, CHAIN))[0], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("errors", BENT)
def test_true_directions_stay_credible(errors):
    for seed in range(5):
        means = found_means(chain(2000, seed, BENT[errors]), CHAIN)
        R, dependent = credible_contrasts(means, 2000, 10.0)
        assert dependent == 0
        np.testing.assert_array_equal(R, contrasts(means))


def test_errors_that_grow_with_the_cause_give_no_direction():
    """Multiplicative errors leave large contrasts, but no linear model."""
    rng = np.random.default_rng(4)
    a = rng.normal(size=2000)
    b = a + np.exp(0.8 * a) * rng.normal(size=2000)
    X = standard(np.column_stack([a, b]))
    pair = np.array([[False, True], [True, False]])
    means = found_means(X - X.mean(axis=0), pair)
    assert 2000 * abs(contrasts(means)[0]) > 100
    R, dependent = credible_contrasts(means, 2000, 10.0)
    assert (R[0], dependent) == (0.0, 1)


def test_no_edge_has_a_direction_if_most_fail():
    good, bad = found_means(chain(2000, 1, BENT["exponential"]), CHAIN)[0], np.zeros(14)
    bad[:] = [0.5, 0.3, 0.4, 0.1, 0.4, 0.0, 0.4, 0.0, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3]
    mostly_good, mostly_bad = np.array([good, good, bad]), np.array([good, bad, bad])
    np.testing.assert_array_equal(credible_contrasts(mostly_good, 2000, 10.0)[0], contrasts(mostly_good))
    R, dependent = credible_contrasts(mostly_bad, 2000, 10.0)
    assert not R.any()
    assert dependent == 3
