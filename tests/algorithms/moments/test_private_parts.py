"""The noise in a silo's part of a private sum has the planned variance, and twice that on the diagonal."""

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.moments.summed import Broadcast

D, RUNS = 12, 60
SCHEMA = Schema(tuple(f"x{j}" for j in range(D)), {"s": 200, "t": 200, "u": 200})


@pytest.fixture(scope="module")
def silo():
    """A silo of zeros: everything that it sends except counts is noise."""
    algorithm = registry.build(registry.specify("secure-sum", {"epsilon": 1.0}))
    return algorithm, algorithm.open_silo(np.zeros((200, D)), SCHEMA, "s", np.random.default_rng(0))


def drawn(silo, scales):
    algorithm, opened = silo
    keyed = (algorithm.private.with_key(opened, k.to_bytes(32, "big")) for k in range(RUNS))
    return np.array([algorithm.local_solve(one, Broadcast(scales))[1].values for one in keyed], dtype=float)


def test_of_second_moments(silo):
    i, j = np.triu_indices(D)
    entries, variance = drawn(silo, np.ones(D)), float(silo[1].plan.gram_variance)
    assert entries[:, i == j].var() == pytest.approx(variance, rel=0.2)
    assert entries[:, i != j].var() == pytest.approx(variance / 2, rel=0.1)


def test_of_bucket_counts(silo):
    counts = drawn(silo, np.empty(0)).reshape(RUNS, D, -1)[:, :, 1:]  # the first bucket has all the zeros
    assert counts.var() == pytest.approx(float(silo[1].plan.count_variance), rel=0.05)


def test_the_two_sums_have_noise_of_their_own(silo):
    algorithm, opened = silo
    keyed = algorithm.private.with_key(opened, bytes(32))
    counts, moments = (algorithm.local_solve(keyed, Broadcast(s))[1].values for s in (np.empty(0), np.ones(D)))
    length = min(len(counts), len(moments)) - 1
    assert abs(np.corrcoef(counts[1 : length + 1], moments[1 : length + 1])[0, 1]) < 0.5
