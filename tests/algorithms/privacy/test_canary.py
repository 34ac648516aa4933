"""A canary record in a silo cannot be detected from all releases better than ε allows.

The runs use two tables that differ in one worst-case record, and each run draws its own noise. The noise keys come from
a seed, so the result of this test is reproducible. Half of the runs choose the statistic of the attack; the other half
give a lower bound on ε with high confidence. Masks are left out because they do not change sums.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.moments import summed
from fedbnsl.tasks.transport.in_process import federate
from tests.algorithms.privacy.audit import audit

EPSILON, DELTA = 1.0, 1e-3
RUNS = 300
D, ROWS = 3, 12
SILOS = {"dp-covariance": 1, "secure-sum": 3}  # a single release, or the sum of several
PARAMS = {"epsilon": EPSILON, "delta": DELTA, "known_scale": 1.0}
HERE, GONE = np.full(D, 1e6), np.array([1e6, -1e6, 0.0])


def tables(silos, canary):
    rng = np.random.default_rng(0)
    given = {f"silo-{k}": rng.normal(size=(ROWS, D)) for k in range(silos)}
    given["silo-0"][0] = canary
    return given


def outcomes(name, canary):
    """Return the coordinator's view of every run, projected on the direction in which the canaries differ."""
    seed = 1 if canary is HERE else 2
    one, other = (record / np.linalg.norm(record) for record in (HERE, GONE))
    direction = (np.outer(one, one) - np.outer(other, other)) * (2 - np.eye(D))
    given, seen = tables(SILOS[name], canary), []
    for number in range(RUNS):
        settings = {**PARAMS, "insecure_seed": seed * RUNS + number}
        algorithm = replace(registry.build(registry.specify(name, settings)), needs_secure_sum=False)
        federation = federate(given)
        asked = algorithm.broadcast(algorithm.open_server(federation.schema))
        replies, _ = federation.exchange(algorithm, 1, asked)
        seen.append(float(direction[np.triu_indices(D)] @ replies.total))
    return np.array(seen)


def bound(name):
    return audit(outcomes(name, HERE), outcomes(name, GONE), DELTA, 0.999)


each = pytest.mark.parametrize("name", ["dp-covariance", pytest.param("secure-sum", marks=pytest.mark.slow)])
"""three silos take three times as long as one"""


@each
def test_the_canary_is_hidden(name):
    assert bound(name) <= EPSILON


def too_little(rng):
    """Mutant: noise of a hundredth of its variance."""

    def noise(bits, variance, size):
        return np.rint(rng.normal(0, math.sqrt(variance) / 10, size)).astype(np.int64)

    return noise


@each
def test_too_little_noise_is_caught(name, monkeypatch):
    monkeypatch.setattr(summed, "discrete_gaussian", too_little(np.random.default_rng(3)))
    assert bound(name) > EPSILON


@pytest.mark.slow
def test_shares_that_count_on_more_silos_than_are_sure_are_caught(monkeypatch):
    """Mutant: silos assume the noise shares of 300 times as many silos."""
    planned = summed.SummedMoments.shares

    def tenth(self, schema, sure, protects):
        return planned(self, schema, sure, protects) if sure == 1 else planned(self, schema, 300 * sure, protects)

    monkeypatch.setattr(summed.SummedMoments, "shares", tenth)
    assert bound("secure-sum") > EPSILON


def test_a_run_releases_once():
    algorithm = registry.build(registry.specify("dp-covariance", PARAMS))
    federation = federate(tables(1, np.ones(D)))
    server = algorithm.open_server(federation.schema)
    federation.exchange(algorithm, 1, algorithm.broadcast(server))
    with pytest.raises(ValueError, match="round 2 is not one of its 1 round"):
        federation.exchange(algorithm, 2, algorithm.broadcast(replace(server)))
