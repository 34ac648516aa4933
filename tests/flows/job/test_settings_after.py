"""Steps after the rounds use the run's own settings: the centre of series, the prior of mixed tables."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.data.federated import FederatedData, mixed, time_series
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.options.learn import LearnSettings


def result_of(data, **options):
    settings = LearnSettings(data="tables", **{"bootstrap": 0, **options})
    return run_inline(job_inline(settings, "run", data), data)


def far_series():
    """Two silos of series whose mean is far from 0."""
    rng, tables = np.random.default_rng(3), {}
    for silo, n in (("a", 80), ("b", 140)):
        x = rng.normal(size=(n, 3))
        x[1:, 1] += 0.6 * x[:-1, 0]
        tables[silo] = x + np.array([0.0, 8.0, 0.0])
    return FederatedData(time_series(tables, {"a": (80,), "b": (100, 40)}, ("x", "y", "z")), tables, None, {})


@pytest.mark.parametrize(("center", "center_series"), [(True, False), (False, True)])
def test_the_diagnosis_of_series_follows_their_own_setting(center, center_series):
    params = {"lags": 1, "center": center, "center_series": center_series}
    found = result_of(far_series(), algorithm="secure-sum", params=params, parameters=False).diagnosed.findings
    said = [one.message for one in found if one.name == "means"]
    assert len(said) == (not center_series)
    assert all(one.startswith("The mean of y is ") for one in said)


@pytest.mark.parametrize("center", [True, False])
def test_the_diagnosis_of_tables_follows_theirs(center):
    rng = np.random.default_rng(4)
    tables = {silo: rng.normal(size=(n, 3)) + np.array([0.0, 0.0, 9.0]) for silo, n in (("a", 70), ("b", 120))}
    data = FederatedData(Schema(("x", "y", "z"), {"a": 70, "b": 120}), tables, None, {})
    found = result_of(data, algorithm="secure-sum", params={"center": center}, parameters=False).diagnosed.findings
    assert ("means" in [one.name for one in found]) == (not center)


LEVELS = {"sex": ("f", "m"), "stage": ("i", "ii", "iii")}


@pytest.fixture(scope="module")
def patients():
    rng, tables = np.random.default_rng(5), {}
    for silo, n in (("a", 60), ("b", 150)):
        dose, sex = rng.normal(2, 1.5, n), rng.integers(0, 2, n)
        stage = (rng.gumbel(size=(n, 3)) + np.column_stack([0 * dose, 2 * dose - 4, sex * 3])).argmax(axis=1)
        tables[silo] = np.column_stack([dose, sex, stage]).astype(float)
    return FederatedData(mixed(tables, ("dose", "sex", "stage"), LEVELS), tables, None, {})


@pytest.mark.parametrize("smoothing", [0.5, 1.0, 8.0])
def test_smoothing_is_the_prior_of_mixed_tables(patients, smoothing):
    """The prior adds this number of rows to each table, evenly over its cells; it shrinks the weights, too."""
    known = {"forbidden_arcs": "stage->dose,stage->sex", "required_arcs": "dose->stage,sex->stage"}
    network = result_of(patients, smoothing=smoothing, small_cells="keep", diagnose=False, **known).parameters.network
    rows = np.vstack(list(patients.tables.values()))
    counts = np.bincount(rows[:, 1].astype(int)) + smoothing / 2
    table, regression = network.local[1], network.local[2]
    np.testing.assert_allclose(table.table, counts / counts.sum(), rtol=1e-9)
    other = result_of(
        patients, smoothing=2 * smoothing, small_cells="keep", diagnose=False, **known
    ).parameters.network.local[2]
    assert np.linalg.norm(other.weights) < 0.999 * np.linalg.norm(regression.weights)
