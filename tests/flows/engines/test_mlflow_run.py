"""The name of a run in MLflow, and its parameters there."""

from datetime import datetime

import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.registry import ALGORITHMS, by_family
from fedbnsl.flows.engines.mlflow_run import mlflow_params, mlflow_run_name
from fedbnsl.flows.job.check import create_job
from fedbnsl.flows.options.learn import LearnSettings

SCHEMA = Schema(("a", "b"), {"north": 900, "south": 900})


def job(**options):
    settings = LearnSettings(data="/data/hospital", **options).named(datetime(2026, 1, 2, 3, 4, 5))
    return create_job(settings, "id", "prefect", SCHEMA, {}, None, {})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"algorithm": "fed-sparse", "seed": 3}, "fed-sparse s3 03:04:05 20260102 hospital"),
        ({}, "secure-linear s0 03:04:05 20260102 hospital"),
        ({"name": "mine"}, "mine"),
    ],
)
def test_what_differs_stands_first_in_the_name(options, expected):
    assert mlflow_run_name(job(**options)) == expected


def test_runs_are_found_by_algorithm_data_and_engine():
    told = mlflow_params(job(algorithm="fed-pc", secure=True), SCHEMA)
    expected = {"algorithm": "fed-pc", "family": "independence tests", "dataset": "hospital", "engine": "prefect"}
    assert expected.items() <= told.items()
    assert (told["secure"], told["seed"]) == (True, 0)


def test_epsilon_is_told_where_there_is_one():
    assert "epsilon" not in mlflow_params(job(algorithm="secure-sum"), SCHEMA)
    told = mlflow_params(job(algorithm="secure-sum", epsilon=2.0), SCHEMA)
    assert (told["epsilon"], told["delta"]) == (2.0, 1 / 900**2)


def test_every_algorithm_has_a_family():
    found = by_family()
    assert sorted(name for names in found.values() for name in names) == sorted(ALGORITHMS)
    assert found["time series"] == ["fdbnl", "pfdbnl"]
    assert "dynotears" in found["baselines"]
    assert "" not in found
