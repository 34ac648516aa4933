"""Parameters and forecast errors of dynamic structures from sums, against all windows pooled, row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.protocol import rounds, silo_generator
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import unrolled_weights
from fedbnsl.algorithms.parameters.regressions import Regressions, build, forecasts, network, pairs, start
from tests.algorithms.parameters.series import NAMES, all_windows, dynamic, federation, series


def learned(tables, schema, structure, *, secure=False, **given):
    settings = Regressions(lags=structure.lags, **given)
    begun = start(schema, structure.adjacency, structure.lagged)
    (only,) = rounds(build(settings), federation(tables, schema, secure=secure), resume=(0, begun))
    found = network(only.server, settings)
    return found, forecasts(only.server, settings, found)


def regressed(rows, structure):
    """Weights `[(lags + 1)·d, d]`, intercepts and variances by least squares on the windows themselves."""
    d = len(structure.variables)
    parents = unrolled_weights(structure.weights, structure.lagged)[:, :d] != 0
    weights, intercepts, variances = np.zeros(parents.shape), np.zeros(d), np.zeros(d)
    for j in range(d):
        design = np.column_stack([np.ones(len(rows)), rows[:, parents[:, j]]])
        found, *_ = np.linalg.lstsq(design, rows[:, j], rcond=None)
        intercepts[j], weights[parents[:, j], j] = found[0], found[1:]
        variances[j] = ((rows[:, j] - design @ found) ** 2).mean()
    return weights, intercepts, variances


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 99), lags=st.integers(1, 3), silos=st.sampled_from([1, 3]))
def test_the_parameters_are_the_regressions_of_all_windows(seed, lags, silos):
    structure = dynamic(seed, lags)
    tables, schema = series(structure, seed, silos, means=5.0)
    found, _ = learned(tables, schema, structure)
    rows = all_windows(tables, schema, lags)
    weights, intercepts, variances = regressed(rows, structure)
    np.testing.assert_allclose(found.structure.weights, weights[:4], atol=1e-6)
    np.testing.assert_allclose(found.lagged.reshape(-1, 4), weights[4:], atol=1e-6)
    np.testing.assert_allclose(found.intercepts, intercepts, atol=1e-5)
    np.testing.assert_allclose(found.variances, variances, rtol=1e-6)
    np.testing.assert_allclose(found.means, rows[:, :4].mean(axis=0))
    np.testing.assert_allclose(found.spreads, rows[:, :4].var(axis=0))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 99), lags=st.integers(1, 3))
def test_the_errors_of_the_forecasts_are_those_of_the_rows(seed, lags):
    structure = dynamic(seed, lags)
    tables, schema = series(structure, seed, means=5.0)
    found, errors = learned(tables, schema, structure)
    rows = all_windows(tables, schema, lags)
    past = rows[:, 4:].reshape(-1, lags, 4)[:, ::-1]  # the latest row last
    missed = rows[:, :4] - [found.forecast(one) for one in past]
    np.testing.assert_allclose(errors.model, (missed**2).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(errors.persistence, ((rows[:, :4] - rows[:, 4:8]) ** 2).mean(axis=0), rtol=1e-8)


def test_the_model_of_the_true_structure_beats_persistence():
    structure = dynamic(3)
    _, errors = learned(*series(structure, 3, stretches=(400, 300)), structure)
    assert (errors.model < errors.persistence).all()


def test_silos_at_levels_of_their_own_forecast_from_these_where_the_run_was_centred():
    structure = dynamic(4)
    tables, schema = series(structure, 4)
    moved = {silo: table + 50.0 * k for k, (silo, table) in enumerate(tables.items())}
    one, errors = learned(tables, schema, structure, center=True)
    other, moved_errors = learned(moved, schema, structure, center=True)
    np.testing.assert_allclose(other.lagged, one.lagged, atol=1e-6)
    np.testing.assert_allclose(moved_errors.model, errors.model, rtol=1e-6)


def test_masked_sums_give_the_same():
    structure = dynamic(5, 2)
    tables, schema = series(structure, 5)
    (plain, errors), (hidden, masked) = (learned(tables, schema, structure, secure=secure) for secure in (False, True))
    np.testing.assert_allclose(hidden.lagged, plain.lagged, atol=1e-5)
    np.testing.assert_allclose(masked.model, errors.model, rtol=1e-4)


def test_a_silo_sends_no_moment_that_nothing_needs():
    """a → b within one time, c[t-1] → a: forecasts need the moment of c[t-1] and b, but not that of c and d."""
    W, A = np.zeros((4, 4)), np.zeros((1, 4, 4))
    d, c, b, a = range(4)
    W[a, b] = A[0, c, a] = 1.0
    structure = Structure(NAMES, W, lagged=A)
    asked = set(map(tuple, pairs(unrolled_weights(W, A) != 0, 1).tolist()))
    assert {(b, a), (a, 4 + c), (b, 4 + c), (d, 4 + d), (4 + c, 4 + b)} <= asked
    assert not {(d, c), (c, b), (c, a), (d, 4 + c), (c, 4 + b)} & asked
    tables, schema = series(structure, 0)
    algorithm = build(Regressions(lags=1))
    silo = algorithm.open_silo(tables["s0"], schema, "s0", silo_generator(0, "s0"))
    _, reply = algorithm.local_solve(silo, algorithm.broadcast(start(schema, structure.adjacency, structure.lagged)))
    assert reply.values.shape == (1 + 8 + len(asked),)
    assert reply.values[0] == pytest.approx(1 / 3)
