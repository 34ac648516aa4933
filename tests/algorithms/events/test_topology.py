"""Links between devices: the likelihood against sums over all pairs of events, and runs with links."""

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.events.hawkes import CURVATURE, design, family_sums
from fedbnsl.algorithms.events.silo import Broadcast, Silo, local_solve
from fedbnsl.algorithms.events.topology import linked_design, neighbours_of, reach_of
from fedbnsl.data.federated import pool
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.events import linked_events
from fedbnsl.flows.options.prepare import recipe
from fedbnsl.tasks.transport.in_process import InProcessFederation

# Devices 0 - 1 - 3 - 2; device 3 has no events. Windows differ.
TABLE = np.array(
    [
        [0, 1.0, 0, 0, 9, 1, -1],
        [0, 4.0, 1, 0, 9, 1, -1],
        [0, 6.0, 0, 0, 9, 1, -1],
        [1, 2.0, 1, 2, 5, 0, 3],
        [1, 4.0, 0, 2, 5, 0, 3],
        [1, 4.5, 1, 2, 5, 0, 3],
        [2, 0.5, 0, 0.5, 8, 3, -1],
        [2, 7.0, 1, 0.5, 8, 3, -1],
    ]
)
DISTANCE = {(0, 1): 1, (0, 2): 3, (1, 2): 2}


def share(sender, receiver, hops, weight):
    """The share of an excitation that arrives; device 1 has two devices at distance 1, other devices one."""
    if sender == receiver:
        return 1.0
    k = DISTANCE[min(sender, receiver), max(sender, receiver)]
    at_distance = 2 if sender == 1 and k == 1 else 1
    return weight**k / at_distance if k <= hops else 0.0


def log_likelihood(table, target, theta, rate, hops, weight):
    """The log-likelihood of two types by its definition, with the integrals in closed form."""
    total = 0.0
    for receiver in (0, 1, 2):
        own = table[table[:, 0] == receiver]
        start, end = own[0, 3:5]
        total -= theta[0] * (end - start)
        for sender, t, cause in table[:, :3]:
            s = share(int(sender), receiver, hops, weight)
            area = np.exp(-rate * max(start - t, 0)) - np.exp(-rate * max(end - t, 0))
            total -= theta[1 + int(cause)] * s * area
        for now in own[own[:, 2] == target, 1]:
            total += np.log(
                theta[0]
                + sum(
                    theta[1 + int(cause)]
                    * share(int(sender), receiver, hops, weight)
                    * rate
                    * np.exp(-rate * (now - t))
                    for sender, t, cause in table[:, :3]
                    if t < now
                )
            )
    return total


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_likelihood_is_that_of_the_definition(hops):
    theta, rate = np.array([0.2, 0.5, 0.3]), 0.8
    whole = linked_design(TABLE, 2, rate, 1.0, reach_of(TABLE, hops, 0.6))
    for target in (0, 1):
        columns = whole.columns[TABLE[:, 2] == target]
        sums = family_sums(columns, whole.compensators, np.arange(3), theta, CURVATURE)
        assert sums[0] == pytest.approx(log_likelihood(TABLE, target, theta, rate, hops, 0.6), rel=1e-12)


def test_links_are_undirected_and_without_hops_nothing_spreads():
    assert neighbours_of(TABLE) == [{1}, {0, 3}, {3}, {1, 2}]
    one = TABLE.copy()
    one[TABLE[:, 0] == 1, 5:] = -1
    one[TABLE[:, 0] == 2, 5:] = -1
    assert neighbours_of(one) == [{1}, {0}, set()]
    alone, plain = linked_design(TABLE, 2, 0.8, 2.0, reach_of(TABLE, 0, 0.5)), design(TABLE, 2, 0.8, 2.0)
    assert alone.columns == pytest.approx(plain.columns)
    assert alone.compensators == pytest.approx(plain.compensators)


def learned(data, **params):
    algorithm = registry.build(registry.specify("fed-hawkes", params))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    return algorithm, last


def test_links_are_weighed_by_likelihood_and_silos_equal_the_pooled_devices():
    data = linked_events(6, 3, 6000, 8, 3, 1.0)
    data.tables["silo-2"] = np.hstack([data.tables["silo-2"], np.full((len(data.tables["silo-2"]), 1), -1.0)])
    algorithm, last = learned(data, hops=1)
    structure = algorithm.structure(last.server)
    assert last.outcome == "converged"
    assert last.server.weights.tolist() == [1.0]
    assert (structure.adjacency == data.truth.adjacency).all()
    assert structure.weights[structure.adjacency] == pytest.approx(data.truth.weights[structure.adjacency], abs=0.12)
    assert any("over up to 1 link, on others" in one for one in algorithm.basis(last.server))
    whole, at_once = learned(pool(data), hops=1)
    assert whole.structure(at_once.server).weights == pytest.approx(structure.weights, abs=1e-9)


def test_links_that_explain_nothing_have_no_weight():
    data = linked_events(6, 2, 4000, 8, 4, 0.0)
    algorithm, last = learned(data, hops=2)
    assert last.server.weights.tolist() == [0.0]
    assert any("Links between devices do not raise the likelihood" in one for one in algorithm.basis(last.server))
    without, alone = learned(data)
    assert without.structure(alone.server).weights == pytest.approx(algorithm.structure(last.server).weights, abs=0.02)


def test_a_fixed_delay_and_a_fixed_weight_are_kept():
    data = linked_events(4, 2, 2000, 6, 5, 1.0)
    server = learned(data, hops=1, hop_weight=0.7, delay=1.0)[1].server
    assert (server.weights.tolist(), server.rates.tolist()) == ([0.7], [1.0])
    server = learned(data, hops=1, delay=1.0)[1].server
    assert server.rates.tolist() == [1.0]
    assert server.weights.tolist() in ([1.0], [4.0], [0.25])


@pytest.mark.parametrize("wrong", [{"hops": 11}, {"hops": -1}, {"weights": np.ones(2)}, {"weights": np.array([-1.0])}])
def test_a_request_for_other_hops_is_refused(wrong):
    request = {
        "rates": np.array([0.5]),
        "unit": 1.0,
        "pooled": False,
        "target": np.array([0]),
        "rate": np.array([0]),
        "member": np.ones((1, 3), np.bool_),
        "trials": np.full((1, 1, 3), 0.1),
        "weights": np.array([0.5]),
        "hops": 1,
    }
    local_solve(Silo(TABLE, 2, 8), Broadcast(**request))
    with pytest.raises(BadInput, match="does not list families"):
        local_solve(Silo(TABLE, 2, 8), Broadcast(**(request | wrong)))


def test_links_are_weighed_under_a_mask(tmp_path):
    """The data are a folder of `prepare events --links`; the true graph has the effects on the device itself."""
    drawn = recipe("events", variables=4, silos=3, events=3000, devices=19, links=1.0, seed=6).build()
    assert [len(np.unique(table[:, 0])) for table in drawn.tables.values()] == [6, 6, 6]
    assert drawn.about["parameters"]["hop_weight"] == 1.0
    write_folder(tmp_path / "study", drawn)
    masked, plain = (
        learn(tmp_path / "study", "fed-hawkes", hops=1, secure=secure, out=tmp_path / str(secure)).result
        for secure in (True, False)
    )
    assert any("over up to 1 link" in one for one in masked.basis)
    assert masked.structure.weights == pytest.approx(plain.structure.weights, abs=1e-6)
    assert (masked.structure.adjacency == drawn.truth.adjacency).all()
