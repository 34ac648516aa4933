"""Whether a sparse DAG fits the second moments, and what the default does if none fits."""

import math

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis import findings
from fedbnsl.algorithms.moments import model_fit
from fedbnsl.algorithms.moments.model_fit import misfit, residual_excess
from fedbnsl.algorithms.score.gaussian_order import gaussian_boss
from fedbnsl.algorithms.score.settings import OrderSettings
from fedbnsl.data.networks.published import network

EMPTY = np.zeros((8, 8), np.bool_)


def hidden_causes(rng, n, pairs=5):
    """Rows of pairs of variables with a hidden common cause; each variable also has an observed cause of its own."""
    own, hidden = rng.normal(size=(n, 2 * pairs)), np.repeat(rng.normal(size=(n, pairs)), 2, axis=1)
    return np.hstack([own, own + hidden + 0.7 * rng.normal(size=(n, 2 * pairs))])


def linear(rng, n, d=20, weights=(0.1, 0.5)):
    """Rows of a random linear model with weak effects, standardised."""
    W = np.triu(rng.random((d, d)) < 0.2, 1) * rng.uniform(*weights, (d, d))
    X = rng.normal(size=(n, d)) @ np.linalg.inv(np.eye(d) - W)
    return X / X.std(axis=0)


def best(S, rows):
    price = math.log(rows) + 2 * math.log(len(S))
    return gaussian_boss(S, rows, price, OrderSettings()).dag, price


def test_the_excess_of_a_true_dag_is_standardised_even_for_few_rows():
    """Without the correction for few rows, its mean would be 3 standard deviations."""
    rng = np.random.default_rng(0)
    each = [residual_excess(np.cov(rng.normal(size=(25, 8)).T), EMPTY, 24, 8) for _ in range(400)]
    assert abs(np.mean(each)) < 0.2
    assert np.std(each) == pytest.approx(1, abs=0.15)
    assert residual_excess(np.eye(8), EMPTY, 9, 8) == 0.0


def test_dependences_too_weak_for_edges_add_up():
    S = np.full((8, 8), 0.05) + 0.95 * np.eye(8)
    assert residual_excess(S, EMPTY, 2000, 8) > 6


def test_the_gain_of_a_hidden_cause_is_the_price_of_the_edges_that_it_spares():
    """a → x ↔ y ← b: in a DAG with x → y, the cause a of x must also be a parent of y."""
    own = np.eye(4)
    own[0, 2], own[1, 3] = 0.7, 1.3
    errors = np.eye(4)
    errors[2, 3] = errors[3, 2] = 0.5
    errors[0, 1] = errors[1, 0] = 0.3
    S = own.T @ errors @ own
    dag = np.zeros((4, 4), np.bool_)
    dag[0, 2] = dag[0, 3] = dag[1, 3] = dag[2, 3] = True
    ((gain, group),) = model_fit.hidden_causes(S, dag, 1000, 12.0, 4)
    assert gain == pytest.approx(6.0, abs=1e-6)
    assert group == (2, 3)
    chain = np.eye(4, k=1, dtype=np.bool_)
    W = 0.8 * chain
    inverse = np.linalg.inv(np.eye(4) - W)
    assert not model_fit.hidden_causes(inverse.T @ inverse, chain, 1000, 12.0, 4)


@pytest.mark.parametrize("seed", range(4))
def test_hidden_causes_are_a_misfit_and_weak_effects_are_none(seed):
    rng = np.random.default_rng(seed)
    for rows, expected in ((hidden_causes(rng, 2000), True), (linear(rng, 2000), False)):
        S = np.cov(rows.T)
        dag, price = best(S, len(rows) - 1)
        assert (misfit(S, dag, len(rows) - 1, price, 20).evidence > 1) == expected


def silos(rows):
    return dict(zip("pqr", np.split(rows, 3), strict=True))


def test_without_a_fitting_dag_edges_must_explain_more_and_the_finding_says_so():
    """z explains 2 % of the last variable: enough for an edge in an exact model, but not in an approximate one."""
    rng = np.random.default_rng(1)
    rows = hidden_causes(rng, 3000)
    z = rng.normal(size=len(rows))
    rows = np.column_stack([rows, z, 0.143 * z + rng.normal(size=len(rows))])
    options = {"parameters": False, "bootstrap": 0}
    approximate = learn(silos(rows), "secure-linear", **options).result
    assert not approximate.structure.adjacency[20:, 20:].any()
    assert [one.name for one in approximate.diagnosed.findings] == [findings.MISFIT]
    assert any("No DAG with few edges" in one for one in approximate.basis)
    exact = learn(silos(rows[:, [*range(10), 20, 21]]), "secure-linear", error_variances="free", **options).result
    assert exact.structure.adjacency[10:, 10:].any()
    assert not any("No DAG" in one for one in exact.basis)
    assert findings.MISFIT not in [one.name for one in exact.diagnosed.findings]


def test_errors_direct_no_edge_where_no_dag_fits():
    """Exponential errors direct x → y, but with hidden causes no linear model is used for directions."""
    rng = np.random.default_rng(2)
    x = rng.exponential(size=3000) - 1
    y = x + rng.exponential(size=3000) - 1
    rows = np.column_stack([hidden_causes(rng, 3000), x, y])
    pair = learn(silos(rows), "secure-linear", parameters=False, bootstrap=0).result.structure.adjacency[20:, 20:]
    assert (pair == [[False, True], [True, False]]).all()
    alone = learn(silos(np.column_stack([x, y / 3])), "secure-linear", parameters=False, bootstrap=0).result
    assert (alone.structure.adjacency == [[False, True], [False, False]]).all()


def test_a_true_graph_of_many_variables_is_no_misfit():
    """The gain is a sum over more edges than in small graphs: up to 14 nats for true graphs of these rows."""
    drawn = [network("arth150", 1, 5000, seed) for seed in range(1000, 1012)]
    S = [np.cov(one.tables["silo-1"].T) for one in drawn]
    price = math.log(5000) + 2 * math.log(len(S[0]))
    assert (
        max(misfit(C, one.truth.adjacency, 4999, price, len(C)).evidence for C, one in zip(S, drawn, strict=True)) < 0.9
    )


def test_a_hidden_cause_of_three_variables_is_one_group_and_puts_its_arrows_in_doubt():
    """Three variables share a hidden cause, and each has two observed causes of its own."""
    rng = np.random.default_rng(3)
    own, hidden = rng.normal(size=(3000, 6)), rng.normal(size=(3000, 1))
    rows = np.column_stack([own, own[:, :3] + own[:, 3:] + 1.5 * hidden + 0.7 * rng.normal(size=(3000, 3))])
    result = learn(silos(rows), "secure-linear", bootstrap=0).result
    (found,) = (one for one in result.diagnosed.findings if one.name == findings.MISFIT)
    names = result.structure.variables[6:]
    assert set(found.pairs) == {(names[0], names[1]), (names[0], names[2]), (names[1], names[2])}
    arrows = [edge for edge in result.edges if edge.directed and {edge.source, edge.target} <= set(names)]
    assert arrows
    assert all("may share a cause that is not in the data" in result.basis_of(edge) for edge in arrows)


def aggregated(rng, n, steps, d=6):
    """Means of `steps` steps of series with persistence and a chain of lagged effects."""
    effects = 0.6 * np.eye(d) + 0.6 * np.diag([1.0, -1.0, 1.0, -1.0, 1.0], 1)
    x = np.zeros((n * steps, d))
    for t in range(1, len(x)):
        x[t] = x[t - 1] @ effects + rng.normal(size=d) * np.linspace(1.4, 0.5, d)
    means = x.reshape(n, steps, d).mean(axis=1)
    return pd.DataFrame(means, columns=list("abcdef")).assign(time=np.arange(n))


@pytest.mark.parametrize("seed", range(3))
def test_series_in_steps_longer_than_their_effects_are_a_misfit(seed):
    rng = np.random.default_rng(seed)
    for steps in (1, 5):
        found = learn({silo: aggregated(rng, 700, steps) for silo in "pqr"}, bootstrap=0).result.diagnosed.findings
        (said,) = [one.message for one in found if one.name == findings.MISFIT] or [""]
        assert ("longer than the time to an effect" in said) == (steps > 1), said
