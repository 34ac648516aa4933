"""Fits with equal error variances, and the choice between equal and free ones, against closed forms and raw rows."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.moments import equal_variance as equal_errors_module
from fedbnsl.algorithms.moments.equal_variance import (
    MAX_SPREAD,
    best_equal_variance_fit,
    variance_evidence,
    variance_spread,
    variances_near_equal,
)
from fedbnsl.algorithms.moments.secure_linear import SecureLinear, open_server, select_fit
from fedbnsl.algorithms.score.gaussian_order import gaussian_boss
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.data.generators.linear import homogeneous


def drawn(d, n, seed, density=0.3, sd=None):
    """Weights, and centred rows of them with errors of deviations `sd`, all 1 by default."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(d)
    W = np.triu(rng.uniform(0.5, 1.5, (d, d)) * rng.choice([-1, 1], (d, d)) * (rng.random((d, d)) < density), 1)
    W = W[np.ix_(names, names)]
    X = (rng.normal(size=(n, d)) * (1 if sd is None else sd)) @ np.linalg.inv(np.eye(d) - W)
    return W, X - X.mean(axis=0)


def covariance(X):
    return X.T @ X / len(X)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("d", "n", "density"), [(8, 5000, 0.3), (12, 5000, 0.7), (8, 60, 0.2)])
def test_the_graph_is_found_with_least_squares_weights(d, n, density, seed):
    W, X = drawn(d, n, 100 + seed, density)
    fit = best_equal_variance_fit(covariance(X), n)
    assert is_acyclic(fit.weights != 0)
    assert ((fit.weights != 0) != (W != 0)).sum() <= (1 if n > 1000 else 4)
    for j in range(d):
        parents = np.flatnonzero(fit.weights[:, j])
        if len(parents):
            expected = np.linalg.lstsq(X[:, parents], X[:, j], rcond=None)[0]
            np.testing.assert_allclose(fit.weights[parents, j], expected, atol=1e-6)
    np.testing.assert_allclose(fit.variances, ((X - X @ fit.weights) ** 2).mean(axis=0))


def test_the_score_is_the_likelihood_of_the_rows_less_its_price():
    n, d = 300, 6
    _, X = drawn(d, n, 7)
    fit = best_equal_variance_fit(covariance(X), n)
    residuals = X - X @ fit.weights
    v = (residuals**2).mean()
    likelihood = (-0.5 * np.log(2 * np.pi * v) - residuals**2 / (2 * v)).sum()
    parameters = fit.edges + 1
    assert fit.score == pytest.approx(likelihood - 0.5 * math.log(n) * parameters - math.log(d) * fit.edges)


def test_columns_in_another_order_or_all_in_another_unit_give_the_same_fit():
    for seed in range(5):
        _, X = drawn(9, 800, 30 + seed)
        S, mixed = covariance(X), np.random.default_rng(seed).permutation(9)
        fit = best_equal_variance_fit(S, 800).weights
        again = best_equal_variance_fit(S[np.ix_(mixed, mixed)], 800).weights
        np.testing.assert_allclose(again, fit[np.ix_(mixed, mixed)], atol=1e-9)
        np.testing.assert_allclose(best_equal_variance_fit(S * 1e12, 800).weights, fit, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_required_arcs_are_there_and_forbidden_ones_are_not(seed):
    W, X = drawn(7, 1000, 60 + seed)
    names = tuple("abcdefg")
    causes, effects = np.nonzero(W)
    against = (names[effects[0]], names[causes[0]])  # the reverse of a true arc
    forbidden = (names[causes[-1]], names[effects[-1]])
    if forbidden == against[::-1]:
        pytest.skip("one edge")
    known = Knowledge((against,), (forbidden,)).prior(names)
    fit = best_equal_variance_fit(covariance(X), 1000, known)
    assert fit.weights[names.index(against[0]), names.index(against[1])] != 0
    assert fit.weights[names.index(forbidden[0]), names.index(forbidden[1])] == 0
    assert is_acyclic(fit.weights != 0)


@pytest.mark.parametrize("seed", range(4))
def test_more_variables_than_rows_give_a_fit(seed):
    _, X = drawn(30, 12, seed)
    fit = best_equal_variance_fit(covariance(X) + 1e-9 * np.eye(30), 11)
    assert np.isfinite(fit.score)
    assert is_acyclic(fit.weights != 0)


def test_the_spread_is_zero_for_equal_variances_alone():
    assert variance_spread(np.full(5, 3.7)) == pytest.approx(0, abs=1e-12)
    assert variance_spread(np.array([1.0, math.e**2])) == pytest.approx(math.log((1 + math.e**2) / 2) - 1)
    with pytest.raises(BadInput, match="without variance"):
        variance_spread(np.array([1.0, 0.0]))


def evidence_of(X):
    S, n = covariance(X), len(X)
    fit = best_equal_variance_fit(S, n)
    free = gaussian_boss(S, n, math.log(n) + 2 * math.log(len(S)), OrderSettings())
    return variance_evidence(variances_near_equal(S, fit), fit, free, n), fit, free


def test_the_gain_is_the_difference_of_two_penalised_likelihoods():
    _, X = drawn(6, 400, 11)
    n, d = X.shape
    evidence, fit, free = evidence_of(X)
    likelihood = 0.0
    for j in range(d):
        parents = np.flatnonzero(free.dag[:, j])
        residual = X[:, j] - X[:, parents] @ np.linalg.lstsq(X[:, parents], X[:, j], rcond=None)[0]
        v = residual @ residual / n
        likelihood += float((-0.5 * np.log(2 * np.pi * v) - residual**2 / (2 * v)).sum())
    edges = int(free.dag.sum())
    expected = fit.score - (likelihood - 0.5 * math.log(n) * (edges + d) - edges * math.log(d))
    assert evidence.gain == pytest.approx(expected, abs=1e-6)


def test_equal_variances_are_claimed_for_equal_ones_and_not_for_others():
    claimed = {"equal": 0, "unequal": 0, "standardised": 0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        _, equal = drawn(8, 3000, 200 + seed)
        _, unequal = drawn(8, 3000, 200 + seed, sd=rng.uniform(0.3, 3, 8))
        for name, X in (("equal", equal), ("unequal", unequal), ("standardised", equal / equal.std(axis=0))):
            claimed[name] += evidence_of(X)[0].equal
    assert claimed == {"equal": 6, "unequal": 0, "standardised": 0}


def test_where_the_first_order_leaves_no_more_spread_than_sampling_none_is_sought_further(monkeypatch):
    data = homogeneous(6, 1, 20_000, 4)
    (table,) = data.tables.values()
    S = np.cov(table.T)
    monkeypatch.setattr(equal_errors_module, "equal_variance", None)
    found = best_equal_variance_fit(S, 20_000)
    assert ((np.abs(found.weights) > 0.3) == data.truth.adjacency).all()
    with pytest.raises(TypeError, match="not callable"):
        best_equal_variance_fit(S * np.outer(range(1, 7), range(1, 7)), 20_000)


def no_search(monkeypatch):
    """Let the search for better orders of equal variances fail the test."""

    def search(*args, **named):
        raise AssertionError("the search for better orders began")

    monkeypatch.setattr(equal_errors_module, "equal_variance", search)


@pytest.mark.parametrize("seed", range(4))
def test_a_fit_far_from_equal_variances_is_not_improved(seed, monkeypatch):
    """The class is learned first, and the decision is the one after a search for better orders."""
    _, X = drawn(15, 3000, 900 + seed)
    standard = X / X.std(axis=0)
    schema = Schema(tuple(map(str, range(15))), {"a": len(X) + 1})
    server = replace(open_server(schema), S=covariance(standard), rows=len(X))
    searched, fit, _ = evidence_of(standard)
    no_search(monkeypatch)
    found = select_fit(server, SecureLinear())
    assert not found.evidence.equal
    assert not searched.equal
    assert found.fit.score <= fit.score
    with pytest.raises(AssertionError, match="better orders"):
        select_fit(server, SecureLinear(error_variances="equal"))


def test_a_fit_that_is_nearly_equal_is_improved(monkeypatch):
    """Its score is far below that of the class, but a better order could bring its spread below the bound."""
    _, X = drawn(15, 3000, 907, sd=np.linspace(0.7, 1.3, 15))
    server = replace(open_server(Schema(tuple(map(str, range(15))), {"a": len(X) + 1})), S=covariance(X), rows=len(X))
    evidence, _, _ = evidence_of(X)
    assert MAX_SPREAD < evidence.spread < 2 * MAX_SPREAD
    assert evidence.gain < -0.03 * X.size
    no_search(monkeypatch)
    with pytest.raises(AssertionError, match="better orders"):
        select_fit(server, SecureLinear())


def test_directions_by_nearly_equal_variances_need_a_dag_that_fits_as_well_as_the_class():
    """Standard deviations that differ by a seventh order some variables wrongly; such a DAG is not chosen."""
    wrong, by_variances = [], 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        W, X = drawn(20, 4000, seed, 0.25, np.exp(rng.normal(scale=0.15, size=20)))
        names = tuple(f"v{k}" for k in range(20))
        tables = {silo: pd.DataFrame(part, columns=names) for silo, part in zip("pq", np.split(X, 2), strict=True)}
        found = learn(tables, "secure-linear", bootstrap=0, diagnose=False, parameters=False).result.structure
        by_variances += found.kind == "dag"
        graph = cpdag(found.adjacency) if found.kind == "dag" else found.adjacency
        wrong.append(int(np.triu((graph | graph.T) != ((W != 0) | (W != 0).T)).sum()))
    assert max(wrong) <= 2, wrong
    assert 1 <= by_variances < 8
