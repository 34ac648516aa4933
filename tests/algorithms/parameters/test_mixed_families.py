"""Networks of mixed variables: regressions equal those of pooled rows for any split, and samples follow them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.diagnosis import exchange
from fedbnsl.algorithms.parameters.distributions import Linear, Logistic, Tabular
from fedbnsl.algorithms.parameters.inference import NetworkQuery, answer
from fedbnsl.algorithms.parameters.mixed_families import MixedFamilies, build, network, start
from fedbnsl.algorithms.parameters.network_json import network_as_json
from fedbnsl.algorithms.statistics import em
from fedbnsl.data.federated import mixed, with_gaps
from fedbnsl.tasks.transport.in_process import InProcessFederation

NAMES = ("dose", "sex", "stage", "weight")
LEVELS = {"sex": ("f", "m"), "stage": ("i", "ii", "iii")}
DAG = np.zeros((4, 4), np.bool_)
DAG[0, 2] = DAG[1, 2] = True  # a logistic regression on a number and a label
DAG[2, 3] = DAG[0, 3] = True  # a linear one on a label and a number


def rows_of(seed: int, n: int):
    rng = np.random.default_rng(seed)
    dose, sex = rng.normal(2.0, 1.5, n), rng.integers(0, 2, n)
    scores = np.column_stack([np.zeros(n), 0.8 * dose - 1.0 + sex, 1.5 * dose - 3.0 - sex])
    stage = (rng.gumbel(size=(n, 3)) + scores).argmax(axis=1)
    weight = 50 + np.array([0.0, 4.0, -3.0])[stage] + 2 * dose + rng.normal(0, 2.0, n)
    return np.column_stack([dose, sex, stage, weight])


def learned(tables, ess=1.0, secure=False):
    schema = with_gaps(mixed(tables, NAMES, LEVELS), tables)
    algorithm = build(MixedFamilies(ess=ess))
    federation = InProcessFederation(schema, tables, secure=secure)
    *_, last = rounds(algorithm, federation, (0, start(schema, DAG)))
    assert last.outcome == "converged"
    return network(last.server, ess)


@pytest.fixture(scope="module")
def whole():
    return rows_of(1, 3000)


def test_each_variable_has_the_regression_or_table_that_suits_it(whole):
    found = learned({"s": whole})
    assert [type(one) for one in found.local] == [Linear, Tabular, Logistic, Linear]
    design = np.column_stack([np.ones(3000), whole[:, 0], whole[:, 2] == 1, whole[:, 2] == 2])
    weights, left, *_ = np.linalg.lstsq(design, whole[:, 3], rcond=None)
    linear = found.local[3]
    np.testing.assert_allclose([linear.intercept, *linear.weights], weights, rtol=1e-6)
    assert linear.variance == pytest.approx(left[0] / 3000)
    shares = np.bincount(whole[:, 1].astype(int)) / 3000
    np.testing.assert_allclose(found.local[1].table, (shares * 3000 + 0.5) / 3001)


def test_the_logistic_regression_is_the_penalised_maximum(whole):
    found = learned({"s": whole}, ess=5.0).local[2]
    columns = whole[:, :2]
    means, spread = columns.mean(axis=0), columns.std(axis=0)
    design = np.column_stack([np.ones(3000), (columns - means) / spread])
    hit = np.eye(3)[whole[:, 2].astype(int)]

    def loss(flat):
        scores = np.column_stack([np.zeros(3000), design @ flat.reshape(2, 3).T])
        fit = (hit * scores).sum() - np.logaddexp.reduce(scores, axis=1).sum()
        return -fit + 0.5 * 5.0 * (flat.reshape(2, 3)[:, 1:] ** 2).sum()

    best = minimize(loss, np.zeros(6), tol=1e-12).x.reshape(2, 3)
    np.testing.assert_allclose(found.weights[1:] * spread, best[:, 1:], atol=2e-3)
    np.testing.assert_allclose(found.intercepts[1:] + found.weights[1:] @ means, best[:, 0], atol=2e-3)


@pytest.mark.parametrize("secure", [False, True])
def test_however_the_rows_are_split(whole, secure):
    """The silos have equal means of numbers, because differences between silos are removed."""
    parts = {"a": np.concatenate([whole, whole]), "b": whole}
    twice = network_as_json(learned({"s": np.concatenate([whole, whole, whole])}))
    split = network_as_json(learned(parts, secure=secure))
    for name in NAMES:
        if "variance" in twice["cpds"][name]:
            mine, theirs = (found["cpds"][name] for found in (split, twice))
            assert mine["variance"] == pytest.approx(theirs["variance"], rel=1e-5)
            assert mine["coefficients"]["(Intercept)"] == pytest.approx(theirs["coefficients"]["(Intercept)"], rel=1e-5)
    for label in LEVELS["stage"]:
        mine, theirs = (found["cpds"]["stage"]["coefficients"][label]["dose"] for found in (split, twice))
        assert mine == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("secure", [False, True])
def test_moments_that_are_known_save_an_exchange_and_change_no_bit(whole, secure):
    tables = {"a": whole[:500], "b": whole[500:1900], "c": whole[1900:]}
    schema = mixed(tables, NAMES, LEVELS)
    if secure:
        schema = replace(schema, units=(2.0, 1.0, 1.0, 4.0))
    federation = InProcessFederation(schema, tables, secure=secure)
    first, _ = rounds(exchange.build(exchange.Diagnosis()), federation)
    every = [
        list(rounds(build(MixedFamilies()), InProcessFederation(schema, tables, secure=secure), (0, begin)))
        for begin in (start(schema, DAG), start(schema, DAG, known=first.server.moments))
    ]
    assert len(every[1]) == len(every[0]) - 1
    asked, known = (one[-1].server for one in every)
    assert wire.encode(replace(known, schema=asked.schema)) == wire.encode(asked)


def test_a_level_that_is_told_apart_perfectly_has_finite_weights():
    table = rows_of(3, 400)
    table[:, 2] = table[:, 0] > 2.0
    found = learned({"s": table}).local[2]
    assert np.isfinite(found.weights).all()
    assert np.abs(found.weights).max() < 100


def test_drawn_rows_are_like_those_it_was_learned_from(whole):
    found = learned({"s": whole})
    rows, weights = found.sample(20_000, np.random.default_rng(2))
    assert (weights == 1).all()
    np.testing.assert_allclose(rows.mean(axis=0), whole.mean(axis=0), atol=0.25)
    np.testing.assert_allclose(rows.std(axis=0), whole.std(axis=0), rtol=0.1)
    for stage in range(3):
        there, real = rows[rows[:, 2] == stage, 3], whole[whole[:, 2] == stage, 3]
        assert there.mean() == pytest.approx(real.mean(), abs=0.3)


def test_questions_are_answered_as_the_rows_would(whole):
    found, rng = learned({"s": whole}), np.random.default_rng(4)
    men = whole[(whole[:, 1] == 1) & (np.abs(whole[:, 3] - 50) < 1)]
    given = {"sex": "m", "weight": 50.0}
    stages = answer(found, NetworkQuery(("stage",), given=given), rng, 60_000).probabilities
    assert stages["i",] > answer(found, NetworkQuery(("stage",), given={"sex": "m"}), rng).probabilities["i",] + 0.3
    assert sum(stages.values()) == pytest.approx(1)
    for code, label in enumerate(LEVELS["stage"]):
        assert stages[label,] == pytest.approx((men[:, 2] == code).mean(), abs=0.12)
    weight = answer(found, NetworkQuery(("weight",), given={"stage": "ii"}), rng, 40_000)
    assert weight.mean == pytest.approx(whole[whole[:, 2] == 1, 3].mean(), abs=0.3)


def test_rows_with_empty_cells_still_give_tables_and_regressions(whole):
    rng, table = np.random.default_rng(5), whole.copy()
    table[rng.random(table.shape) < 0.2] = np.nan
    schema = with_gaps(mixed({"s": table}, NAMES, LEVELS), {"s": table})
    federation = InProcessFederation(schema, {"s": table})
    *_, ended = rounds(em.build(em.ExpectationMaximisation()), federation)
    schema = replace(schema, imputation_model=ended.server.imputation_model)
    *_, last = rounds(build(MixedFamilies()), InProcessFederation(schema, {"s": table}), (0, start(schema, DAG)))
    found, full = network(last.server, 1.0), learned({"s": whole})
    np.testing.assert_allclose(found.local[3].weights, full.local[3].weights, atol=0.4)
    np.testing.assert_allclose(found.local[2].weights, full.local[2].weights, atol=0.4)
