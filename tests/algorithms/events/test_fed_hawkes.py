"""Fed-Hawkes: its likelihood against sums over all pairs of events, its graphs, and the telecom alarms."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.events.hawkes import CURVATURE, MIN_SCALE, design, family_length, family_sums, newton_step
from fedbnsl.algorithms.events.silo import Broadcast, Silo, local_solve
from fedbnsl.data.federated import pool
from fedbnsl.data.generators.events import events
from fedbnsl.tasks.transport.in_process import InProcessFederation

TELECOM = Path(os.environ.get("FEDBNSL_DATA", Path(__file__).parents[4] / "shared" / "data")) / "telecom_alarm"
"""the folder of the alarms, if there is one"""


def log_likelihood(table, target, causes, theta, rate):
    """The log-likelihood by its definition: a double sum over the events of each device."""
    total = 0.0
    for device in np.unique(table[:, 0]):
        own = table[table[:, 0] == device]
        start, end = own[0, 3:]
        total -= theta[0] * (end - start)
        for cause, alpha in zip(causes, theta[1:], strict=True):
            total -= alpha * (1 - np.exp(-rate * (end - own[own[:, 2] == cause, 1]))).sum()
        for t in own[own[:, 2] == target, 1]:
            earlier = own[own[:, 1] < t]
            kernel = rate * np.exp(-rate * (t - earlier[:, 1]))
            total += np.log(
                theta[0] + sum(a * kernel[earlier[:, 2] == j].sum() for j, a in zip(causes, theta[1:], strict=True))
            )
    return total


@pytest.mark.parametrize(
    "theta", [(0.03, 0.2, 0.1), (0.03, 0.0, 0.1), (0.03, 0.2, 0.0), (0.05, 0.0, 0.0), (0.03, 1e-6, 0.1)], ids=str
)
def test_the_likelihood_and_its_derivatives_are_those_of_the_definition(theta):
    """Derivatives are in units of the parameters, or of the least unit for those that are nearly 0."""
    table = events(3, 1, 120, 3, 5, degree=0.5).tables["silo-1"].copy()
    table[5, 1] = table[4, 1]  # events at the same time do not excite each other
    rate, causes, theta = 0.7, (0, 2), np.array(theta)
    whole = design(table, 3, rate, 1.0)
    own = whole.columns[table[:, 2] == 2]
    sums = family_sums(own, whole.compensators, np.array([0, 1, 3]), theta, CURVATURE)
    assert sums[0] == pytest.approx(log_likelihood(table, 2, causes, theta, rate), rel=1e-10)
    for a in range(3):
        ends, unit = [], max(theta[a], MIN_SCALE)
        for h in (1e-4, -1e-4):
            moved = theta.copy()
            moved[a] += unit * h
            ends.append(log_likelihood(table, 2, causes, moved, rate))
        assert sums[1 + a] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-4, abs=1e-6)


REQUEST = {
    "rates": np.array([0.5, 2.0]),
    "unit": 1.0,
    "pooled": False,
    "target": np.array([0, 2]),
    "rate": np.array([0, 1]),
    "member": np.array([[1, 1, 0, 0], [1, 0, 1, 1]], np.bool_),
    "trials": np.full((2, 1, 4), 0.1),
}
WRONG_REQUESTS = [
    {"target": np.array([0, 3])},
    {"target": np.array([-1, 2])},
    {"target": np.array([0.0, 2.0])},
    {"target": np.array([[0], [2]])},
    {"rate": np.array([0, 2])},
    {"rate": np.array([0, -1])},
    {"rates": np.array([0.5, np.nan])},
    {"rates": np.array([0.5, 0.0])},
    {"rates": np.array([0.5, np.inf])},
    {"unit": np.nan},
    {"unit": 0.0},
    {"pooled": True},
    {"member": np.ones((2, 5), np.bool_), "trials": np.full((2, 1, 5), 0.1)},
    {"member": np.ones((1, 4), np.bool_)},
    {"member": np.ones((2, 4))},
    {"member": np.array([[1, 1, 0, 0], [0, 0, 1, 1]], np.bool_)},
    {"trials": np.full((2, 4), 0.1)},
    {"trials": np.full((3, 1, 4), 0.1)},
    {"trials": np.full((2, 1, 3), 0.1)},
    {"trials": np.zeros((2, 1, 4))},
    {"trials": np.full((2, 1, 4), np.inf)},
    {"trials": np.array([[[0.1, -0.1, 0, 0]], [[0.1, 0.1, 0, 0]]])},
]


@pytest.mark.parametrize("wrong", WRONG_REQUESTS)
def test_a_request_that_lists_no_families_is_refused(wrong):
    """Compiled code does not check its indices, and a failing logarithm would reveal something about one silo."""
    table = events(3, 1, 120, 3, 5, degree=0.5).tables["silo-1"]
    silo = Silo(table, 3, len(table))
    _, reply = local_solve(silo, Broadcast(**REQUEST))
    assert len(reply.values) == sum(family_length(int(n)) for n in REQUEST["member"].sum(axis=1))
    with pytest.raises(BadInput, match="does not list families of their types with positive base rates"):
        local_solve(silo, Broadcast(**(REQUEST | wrong)))


def test_a_newton_step_stops_at_the_bound():
    H = np.array([[2.0, 1.0], [1.0, 2.0]])
    step, value = newton_step(np.array([1.0, -3.0]), H, np.array([1.0, 0.5]), np.zeros(2))
    assert step == pytest.approx([0.75, -0.5])
    assert value == pytest.approx(np.array([1.0, -3.0]) @ step - step @ H @ step / 2)


def learned(data, **params):
    algorithm = registry.build(registry.specify("fed-hawkes", params))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    return algorithm, last


def test_it_finds_the_graph_the_delay_and_the_weights_and_equals_the_pooled_devices():
    data = events(6, 3, 6000, 30, 7)
    algorithm, last = learned(data)
    structure, process = algorithm.structure(last.server), last.server.intensities
    assert last.outcome == "converged"
    assert (structure.adjacency == data.truth.adjacency).all()
    assert process.delay == pytest.approx(1.0, rel=0.15)
    assert structure.weights[structure.adjacency] == pytest.approx(data.truth.weights[structure.adjacency], abs=0.12)
    whole, at_once = learned(pool(data))
    assert whole.structure(at_once.server).weights == pytest.approx(structure.weights, abs=1e-9)


def test_one_move_at_a_time_and_a_fixed_delay():
    data = events(5, 2, 3000, 20, 8)
    algorithm, last = learned(data, batch=1.0, delay=1.0)
    assert (algorithm.structure(last.server).adjacency == data.truth.adjacency).all()
    assert last.server.intensities.delay == 1.0


def test_an_epsilon_is_refused_in_one_line():
    with pytest.raises(BadInput, match="--epsilon: fed-hawkes is not private") as refused:
        registry.specify("fed-hawkes", epsilon=1.0)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(not TELECOM.exists(), reason="the telecom alarms are not here")
def test_the_telecom_alarms(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    sys.modules.pop("events", None)
    import events as benchmark

    scores, _ = benchmark.measured(benchmark.telecom(TELECOM, 1000))
    assert scores["f1"] >= 0.66
    assert scores["exchanges"] <= 60
