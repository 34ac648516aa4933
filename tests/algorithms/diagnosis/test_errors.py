"""Checks of errors and rows: what the sums are, when they raise an alarm, and how often they do so by chance."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis.errors import (
    BOUND,
    LAGS,
    Broadcast,
    ErrorChecks,
    build,
    explained_squares,
    fitted_model,
    independent_rows,
    rows_from_elsewhere,
    start,
)
from fedbnsl.algorithms.statistics.moments import regression_weights, residual_variances
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.statistics.test_passes import Cut

D = 6
DAG = np.triu(np.ones((D, D), bool), 1) & (np.add.outer(np.arange(D), np.arange(D)) % 2 == 1)


def checked(tables, dag=DAG, coded=lambda z: z, own=False, read=lambda rows: rows, **options):
    """The state after the check of the pooled fit of `dag`, whose columns are those of `coded`."""
    schema = Schema(tuple("abcdef"), {silo: len(rows) for silo, rows in tables.items()})
    centred = np.vstack([rows - rows.mean(axis=0) for rows in tables.values()])
    scales = centred.std(axis=0)
    columns = np.vstack([coded((rows - rows.mean(axis=0)) / scales) for rows in tables.values()])
    model = fitted_model(np.cov(columns.T), dag, scales)
    if own:
        model = Broadcast(dag, scales, np.empty((0, 0)))
    federation = InProcessFederation(schema, {silo: read(rows) for silo, rows in tables.items()}, **options)
    *_, last = rounds(build(ErrorChecks()), federation, (0, start(schema, model)))
    return last.server


def drawn(rng, n, spread=lambda causes: 1.0, effect=lambda causes: causes.sum(axis=1), errors=None):
    """Rows of a model over `DAG` whose errors are multiplied by `spread` of the causes."""
    errors = rng.normal(size=(n, D)) if errors is None else errors
    X = np.zeros((n, D))
    for j in range(D):
        causes = X[:, DAG[:, j]]
        X[:, j] = 0.6 * effect(causes) + errors[:, j] * (spread(causes) if causes.shape[1] else 1.0)
    return X


def in_silos(X, sizes=(0.2, 0.5)):
    parts = np.split(X, (np.cumsum(sizes) * len(X)).astype(int))
    return {f"s{k}": part + 3 * k for k, part in enumerate(parts)}


@pytest.mark.parametrize("secure", [False, True])
def test_the_sums_are_those_of_the_pooled_residuals(secure):
    tables = in_silos(drawn(np.random.default_rng(0), 600))
    server = checked(tables, secure=secure)
    centred = [rows - rows.mean(axis=0) for rows in tables.values()]
    S = np.cov(np.vstack(centred).T)
    squares, following = np.zeros((D, D)), np.zeros((D, D))
    for rows in centred:
        e = rows - rows @ regression_weights(S, DAG)
        e = np.clip(e / np.sqrt(residual_variances(S, regression_weights(S, DAG))), -BOUND, BOUND)
        squares += (e**2).T @ e**2
        for lag in range(1, LAGS + 1):
            both = e[:-lag] * e[lag:]
            following += both.T @ both
    np.testing.assert_allclose(server.squares[1:, 1:], squares / 600, rtol=5e-3)
    np.testing.assert_allclose(server.following, following / 600, rtol=2e-2, atol=5e-3)
    assert server.rows == 600


def test_errors_that_depend_on_the_causes_are_found_and_others_are_not():
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(40):
        errors = rng.exponential(size=(1500, D)) - 1
        alarms += explained_squares(checked(in_silos(drawn(rng, 1500, errors=errors))))[1].sum()
    assert alarms <= 2  # of 200
    spread = drawn(rng, 1500, spread=lambda causes: np.exp(0.4 * causes[:, 0].clip(-2, 2)))
    shares, dependent = explained_squares(checked(in_silos(spread)))
    assert dependent.all()
    assert shares.min() > 0.02


def test_curves_that_the_model_has_leave_independent_errors():
    def cubes(z):
        return np.stack([z, z**2, np.clip(z, -4, 4) ** 3], axis=2).reshape(len(z), -1)

    rng = np.random.default_rng(2)
    X = drawn(rng, 3000, effect=lambda causes: (causes + causes**2 / (1 + causes.var(axis=0))).sum(axis=1))
    assert explained_squares(checked(in_silos(X)))[1].any()
    assert explained_squares(checked(in_silos(X), coded=cubes))[0].mean() < 0.005


def test_silos_that_fit_their_own_weights_have_independent_errors_if_only_weights_differ():
    rng = np.random.default_rng(3)
    tables = {f"s{k}": drawn(rng, 800, effect=lambda causes, k=k: (k - 1.0) * 2 * causes.sum(axis=1)) for k in range(3)}
    assert explained_squares(checked(tables))[1].all()
    assert not explained_squares(checked(tables, own=True))[1].any()


@pytest.mark.parametrize(
    ("times", "least", "most"), [pytest.param(1, 1, 1, id="once"), pytest.param(5, 4, 6, id="five times")]
)
def test_repeated_rows_count_once(times, least, most):
    rng = np.random.default_rng(4)
    X = np.repeat(drawn(rng, 3000 // times), times, axis=0)
    assert least <= 1 / independent_rows(checked(in_silos(X))).share <= most


def test_rows_in_the_order_of_time_count_for_fewer():
    """The variance of a mean of products of two series is 1 + 2 Σ ρ² (Bartlett 1946): here 1 + 2 · .81 / .19."""
    rng = np.random.default_rng(5)
    errors = rng.normal(size=(6000, D))
    for t in range(1, len(errors)):
        errors[t] = 0.9 * errors[t - 1] + np.sqrt(1 - 0.81) * errors[t]
    found = independent_rows(checked(in_silos(drawn(rng, 6000, errors=errors))))
    assert found.spread == 1
    assert 1 / found.share == pytest.approx(1 + 2 * 0.81 / 0.19, rel=0.25)


def test_independent_rows_count_fully_whatever_the_errors():
    rng = np.random.default_rng(6)
    shares = []
    for draw in (rng.normal, rng.exponential, rng.laplace, lambda size: rng.standard_t(4, size)):
        for n in (100, 1000):
            shares += [
                independent_rows(checked(in_silos(drawn(rng, n, errors=draw(size=(n, D)))))).share for _ in range(25)
            ]
    assert sum(share < 1 for share in shares) <= 1  # of 200


def test_rows_from_elsewhere_are_told_from_heavy_tails():
    rng = np.random.default_rng(7)
    X = drawn(rng, 3000, errors=rng.standard_t(3, (3000, D)))
    assert rows_from_elsewhere(checked(in_silos(X))) == 0
    X = drawn(rng, 3000)
    assert rows_from_elsewhere(checked(in_silos(X))) == 0
    strange = rng.random(len(X)) < 0.02
    X[strange] = 4 * X.std(axis=0) * rng.choice([-1.0, 1.0], (strange.sum(), D))
    assert rows_from_elsewhere(checked(in_silos(X))) == pytest.approx(strange.mean(), rel=0.25)


def test_tables_that_are_read_in_passes_have_the_same_sums():
    tables = in_silos(drawn(np.random.default_rng(8), 900))
    whole = checked(tables)
    passes = checked(tables, read=lambda rows: Cut(rows, 7))
    for name in ("squares", "following", "far", "near"):
        np.testing.assert_allclose(getattr(passes, name), getattr(whole, name), rtol=1e-9, atol=1e-12)
    for one, other in zip(passes.families, whole.families, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
