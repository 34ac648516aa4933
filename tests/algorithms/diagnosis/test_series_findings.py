"""Weights that change over time are reported in a run, masked or not, for all silos or for one."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.diagnosis.change import ChangeTests
from fedbnsl.algorithms.diagnosis.exchange import start
from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.algorithms.diagnosis.series_findings import CHANGE, COMPARE_HALVES, change_findings
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, time_series
from fedbnsl.flows.job.follow_up import ALLOWED_FOR

NAMES = ("x", "y", "z")


def series(rng, n, change, at):
    """Series of x → y → z with lags, in which the effect of x changes after the share `at`."""
    x = np.zeros((n, 3))
    for t in range(1, n):
        e = rng.normal(size=3)
        x[t, 0] = 0.4 * x[t - 1, 0] + e[0]
        x[t, 1] = (0.5 + change * (t > at * n)) * x[t, 0] + 0.4 * x[t - 1, 1] + e[1]
        x[t, 2] = 0.5 * x[t, 1] + 0.4 * x[t - 1, 2] + e[2]
    return x + 4.0


def data_of(changes, n=250, at=0.75):
    rng = np.random.default_rng(3)
    tables = {f"s{k}": series(rng, n + k, change, at) for k, change in enumerate(changes)}
    return FederatedData(time_series(tables, {silo: (len(X),) for silo, X in tables.items()}, NAMES), tables)


def found_in(data, *args, **options):
    result = learn(data, *args, parameters=False, bootstrap=0, **options).result
    return next((one for one in result.diagnosed.findings if one.name == CHANGE), None), result


@pytest.mark.parametrize("secure", [False, True])
def test_a_change_in_all_silos_is_named_with_its_variable_and_its_time(secure):
    found, _ = found_in(data_of([0.6] * 4), "secure-linear", secure=secure)
    assert re.search(r"causes of y change over time, most about 75 % into", found.message)
    assert found.silos == ()


def test_a_change_in_one_silo_is_its_own():
    found, _ = found_in(data_of([*[0.0] * 15, 1.2, *[0.0] * 15], n=150, at=0.5), "secure-linear")
    assert found.silos == ("s15",)
    assert found.message == "s15: weights change over time within the series, most for y."


def test_changes_in_opposite_directions_are_found_by_the_silos():
    found, _ = found_in(data_of([-0.8, 0.8], n=400, at=0.5), "secure-linear")
    assert set(found.silos) <= {"s0", "s1"}
    assert found.silos
    assert "most for y" in found.message


def test_constant_weights_are_not_named():
    found, _ = found_in(data_of([0.0] * 4), "secure-linear")
    assert found is None


def test_a_trend_explains_it():
    data = data_of([0.6] * 4)
    tables = {silo: X + np.linspace(0, 8, len(X))[:, None] for silo, X in data.tables.items()}
    found, result = found_in(FederatedData(data.schema, tables), "secure-linear")
    assert found is None
    assert any(one.name == "trend" for one in result.diagnosed.findings)


def test_the_advice_is_followed_by_auto_where_bic_prefers_it():
    found, result = found_in(data_of([1.0] * 3, n=400, at=0.5))
    assert (result.algorithm, found.advice) == ("secure-boss", ALLOWED_FOR)
    assert "2 parts of its series" in " ".join(result.basis)
    kept, linear = found_in(data_of([0.6] * 4))
    assert linear.algorithm == "secure-linear"
    assert "did not support them" in kept.message


def test_labels_have_no_own_scores_to_advise():
    data = data_of([0.6] * 4)
    rng = np.random.default_rng(0)
    tables = {silo: np.column_stack([X, rng.integers(0, 2, len(X))]) for silo, X in data.tables.items()}
    schema = replace(data.schema, variables=(*NAMES, "s"), levels={"s": ("off", "on")})
    found, _ = found_in(FederatedData(schema, tables))
    assert found.advice == COMPARE_HALVES


@pytest.mark.parametrize("name", ["unit root", "slow series"])
def test_random_walks_explain_weights_that_differ_and_change(name):
    """Neither is reported until the series are differenced; the other findings stay."""
    found = [
        Finding(one, "", "") for one in (name, "weights differ", "silo with different weights", CHANGE, "few rows")
    ]
    assert [one.name for one in change_findings(None, found)] == [name, "few rows"]


def test_the_time_of_the_change_is_that_of_the_variable_that_changes_most():
    """It is named first, although it is not the first of the columns; x has no causes, so y and z are tested."""
    chain = Structure(NAMES, np.diag([0.5, 0.5], 1), lagged=np.zeros((1, 3, 3)))
    server = replace(
        start(data_of([0.0] * 2).schema, chain), changes=ChangeTests(np.array([2.0, 5.0]), np.array([0.25, 0.7]))
    )
    (found,) = change_findings(server, [])
    assert found.message == ("The weights of the causes of z, y change over time, most about 70 % into the series.")
