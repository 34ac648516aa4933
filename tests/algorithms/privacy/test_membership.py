"""Membership attacks on whole private runs (benchmarks/audit.py) at small scale gain no more than the noise allows.

At ε = 8 the best attacks come close to the limit set by the noise, so the test would notice if half of the noise were
missing. All noise is seeded.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.constraint import private_counts
from fedbnsl.algorithms.dp_fed_sparse import silo, step_noise
from fedbnsl.algorithms.moments import summed
from fedbnsl.algorithms.privacy.discrete_gaussian import discrete_gaussian

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
EPSILON, RUNS = 8.0, 120


def script():
    """The benchmark, which imports another one."""
    found = importlib.util.spec_from_file_location("audit", BENCHMARKS / "audit.py")
    module = importlib.util.module_from_spec(found)
    sys.modules["audit"] = module
    sys.path.insert(0, str(BENCHMARKS))
    try:
        found.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


audit = script()
QUICK = {"dp-covariance": {"learner": "equal-variance"}, "dp-fed-sparse": {"rounds": 2, "smoothness_share": 0.8}}
CASES = {name: replace(case, params=case.params | QUICK.get(name, {})) for name, case in audit.CASES.items()}


def measured(name):
    return audit.measure(*audit.outcomes(CASES[name], EPSILON, RUNS))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_attack_gains_more_than_the_noise_allows(name):
    found, by_noise = measured(name), audit.allowed_by_noise(CASES[name], EPSILON)
    assert 0.2 < found.lower <= by_noise < audit.allowed(EPSILON)
    assert set(found.advantages) == set(audit.ATTACKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-covariance", "secure-sum", "fed-pc"])
def test_half_of_the_noise_is_caught(name, monkeypatch):
    for module in (summed, private_counts):
        monkeypatch.setattr(
            module, "discrete_gaussian", lambda bits, variance, size: discrete_gaussian(bits, variance / 4, size)
        )
    assert measured(name).lower > audit.allowed_by_noise(CASES[name], EPSILON)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_noise_is_caught(name, monkeypatch):
    for module in (summed, private_counts):
        monkeypatch.setattr(module, "discrete_gaussian", lambda bits, variance, size: np.zeros(size, np.int64))
    for module in (silo, step_noise):
        monkeypatch.setattr(module, "release_on_grid", lambda bits, value, *_: value)
    assert measured(name).lower > audit.allowed_by_noise(CASES[name], EPSILON)


def test_what_epsilon_allows():
    assert audit.allowed(0.0) == pytest.approx(audit.DELTA)
    assert audit.allowed(1.0) == pytest.approx((np.e - 1 + 2 * audit.DELTA) / (np.e + 1))
    assert audit.allowed(1e4) == 1.0


def test_an_advantage_is_measured_on_other_runs_than_it_is_sought_on():
    """With pure noise, a threshold has an advantage on the runs that chose it, but not on others."""
    random = np.random.default_rng(0)
    here, gone = ({name: random.normal(size=400) for name in audit.ATTACKS} for _ in range(2))
    assert audit.measure(here, gone).lower == 0.0
    apart = {name: values + 10 for name, values in here.items()}
    assert audit.measure(apart, gone).lower > 0.9
    assert audit.measure(gone, apart).lower > 0.9
