"""EM over windows of series with empty cells, and learners on them, against a simple EM and pooled series."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.moments.secure_linear import SecureLinear
from fedbnsl.algorithms.parameters import regressions
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation, build
from fedbnsl.algorithms.statistics.lagged import window_schema, windows
from fedbnsl.data.federated import FederatedData, pool, time_series, with_gaps
from fedbnsl.data.generators.dynamic import svar
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.losing import Losing, last_of

NAMES, LAGS = ("a", "b", "c"), 2
STRETCHES = {"s": (90,), "t": (30, 12, 15), "u": (160,)}
"""unequal silos; two stretches of t are too short for means of their own"""


def holed(seed=0, share=0.15, order=(0, 1, 2)):
    """Series of unequal silos with levels of their own, and their schema; columns in this `order`."""
    rng, model = np.random.default_rng(seed), np.zeros((2, 3, 3))
    model[0, 0, 1], model[1, 0, 0], model[1, 1, 2], model[1, 2, 2] = 0.8, 0.6, 0.7, -0.5
    tables = {}
    for k, (silo, lengths) in enumerate(STRETCHES.items()):
        parts = [svar(model, length + 1, rng, "gaussian") + 5 * k - at for at, length in enumerate(lengths)]
        table = np.vstack([part[-length:] for part, length in zip(parts, lengths, strict=True)])
        table[rng.random(table.shape) < share * (1 + 0.4 * k)] = np.nan
        tables[silo] = table
    tables["u"][40:60, 2] = np.nan
    tables["u"][50] = np.nan  # windows in which nothing is there
    tables = {silo: table[:, order] for silo, table in tables.items()}
    names = tuple(NAMES[v] for v in order)
    return tables, with_gaps(time_series(tables, STRETCHES, names), tables)


def by_em(tables, schema, lost=None, **settings):
    algorithm = build(ExpectationMaximisation(lags=LAGS, **settings))
    return last_of(algorithm, Losing(schema, tables, lost or {})).server


def learned(tables, schema, lost=None, **settings):
    """The last state of `secure-linear`, unmasked, after EM."""
    model = by_em(tables, schema, lost, tolerance=1e-6, rounds=200).imputation_model
    learner = replace(registry.build(registry.specify("secure-linear", {"lags": LAGS})), needs_secure_sum=False)
    return learner, last_of(learner, Losing(replace(schema, imputation_model=model), tables, lost or {})).server


def plain_em(parts):
    """The covariance of rows with gaps, each part about its own mean, by the textbook: a row at a time."""
    S = np.eye(parts[0].shape[1])
    for _ in range(500):
        total = np.zeros_like(S)
        for part in parts:
            keep = ~np.isnan(part)
            K, weighted, rows = np.zeros_like(S), np.zeros(len(S)), []
            for x, o in zip(part, keep, strict=True):
                inverse = np.linalg.inv(S[np.ix_(o, o)])
                K[np.ix_(o, o)] += inverse
                weighted[o] += inverse @ x[o]
            mean = np.linalg.solve(K, weighted)
            for x, o in zip(part, keep, strict=True):
                y, m = np.where(o, x - mean, 0.0), ~o
                effect = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
                y[m] = effect @ y[o]
                rows.append(y)
                total[np.ix_(m, m)] += S[np.ix_(m, m)] - effect @ S[np.ix_(o, m)]
            total += np.transpose(rows) @ np.array(rows)
        before, S = S, total / (sum(map(len, parts)) - len(parts))
        if np.abs(S - before).max() < 1e-6:
            break
    return S


def test_em_over_windows_of_unequal_silos_is_a_plain_em_over_all_windows():
    tables, schema = holed()
    cut = {silo: windows(table, STRETCHES[silo], LAGS) for silo, table in tables.items()}
    parts = [cut["s"], cut["t"][:28], cut["t"][28:], cut["u"]]
    found = by_em(tables, schema, tolerance=1e-7, rounds=300)
    np.testing.assert_allclose(found.covariance, plain_em(parts), atol=2e-4)
    assert found.imputation_model.windows == sum(map(len, parts))


def test_unequal_silos_learn_what_their_pooled_series_give():
    tables, schema = holed()
    whole = pool(FederatedData(schema, tables, None, {}, {}))
    (learner, found), (_, pooled) = learned(tables, schema), learned(dict(whole.tables), whole.schema)
    # the short stretches of t have common means, in t and in the pooled series
    np.testing.assert_allclose(found.S, pooled.S, rtol=1e-4, atol=1e-5)
    assert found.rows == pooled.rows
    one, other = learner.structure(found), learner.structure(pooled)
    np.testing.assert_array_equal(one.adjacency != 0, other.adjacency != 0)
    np.testing.assert_array_equal(one.lagged != 0, other.lagged != 0)


def test_columns_in_another_order_have_the_same_covariance():
    (tables, schema), (permuted, other) = holed(), holed(order=(2, 0, 1))
    found, again = (by_em(*one, tolerance=1e-6, rounds=200).covariance for one in ((tables, schema), (permuted, other)))
    columns = [3 * lag + v for lag in range(LAGS + 1) for v in (2, 0, 1)]
    np.testing.assert_allclose(found[np.ix_(columns, columns)], again, rtol=1e-3, atol=1e-4)


def test_a_lost_silo_leaves_what_the_others_find():
    tables, schema = holed()
    left = {silo: table for silo, table in tables.items() if silo != "t"}
    (_, found), (_, alone) = learned(tables, schema, {"t": 1}), learned(left, schema.of_silos(("s", "u")))
    np.testing.assert_allclose(found.S, alone.S, rtol=1e-6)
    assert found.rows == pytest.approx(alone.rows, abs=2)


def test_masked_exchanges_give_the_same_covariance():
    tables, schema = holed()
    algorithm = build(ExpectationMaximisation(lags=LAGS, masked=True))
    *_, last = rounds(algorithm, InProcessFederation(replace(schema, units=(1.0, 1.0, 1.0)), tables, secure=True))
    np.testing.assert_allclose(last.server.covariance, by_em(tables, schema).covariance, atol=1e-5)


def test_shorter_windows_have_the_margin_of_the_covariance_and_their_share_of_rows():
    tables, schema = holed()
    model = by_em(tables, schema).imputation_model
    known = replace(schema, imputation_model=model)
    shorter = window_schema(known, 1)
    np.testing.assert_array_equal(shorter.imputation_model.covariance, model.covariance[:6, :6])
    assert shorter.imputation_model.rows == round(model.rows * sum(shorter.rows.values()) / model.windows)
    assert shorter.gaps
    assert window_schema(known, LAGS).imputation_model.rows == model.rows


def test_the_regressions_of_a_model_use_windows_with_gaps():
    tables, schema = holed(share=0.2)
    learner, found = learned(tables, schema)
    structure = learner.structure(found)
    model = by_em(tables, schema, tolerance=1e-6, rounds=200).imputation_model
    settings = regressions.Regressions(lags=structure.lags, center=True)
    start = regressions.start(schema, structure.adjacency != 0, structure.lagged)
    federation = Losing(replace(schema, imputation_model=model), tables, {})
    last = last_of(regressions.build(settings), federation, start)
    network = regressions.network(last.server, settings)
    assert abs(network.structure.weights[0, 1] - 0.8) < 0.15


def test_series_that_are_not_centred_are_refused():
    tables, schema = holed()
    known = replace(schema, imputation_model=by_em(tables, schema).imputation_model)
    learner = registry.build(registry.specify("secure-linear", {"lags": LAGS, "center_series": False}))
    with pytest.raises(BadInput, match="series with empty cells need center_series=true"):
        learner.open_silo(tables["s"], known, "s", np.random.default_rng(0))


def test_of_series_with_gaps_only_the_longest_windows_are_summed():
    _, schema = holed()
    assert SecureLinear().shorter(schema) == range(1, 1)
    assert len(SecureLinear().shorter(replace(schema, empty={}))) > 0


def test_a_column_with_few_cells_counts_for_few_rows():
    tables, schema = holed(share=0.0)
    (_, few), (_, full) = learned(*holed(share=0.25)), learned(tables, schema)
    model = by_em(*holed(share=0.25)).imputation_model
    assert few.rows < 0.75 * full.rows
    assert few.rows == pytest.approx(model.rows, rel=0.05)
