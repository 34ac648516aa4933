import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.baselines.local import Server, local_structures, vote
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import federate


def server(*weights: list[list[float]]) -> Server:
    stacked = np.array(weights, dtype=float)
    return Server(("a", "b"), tuple(f"s{k}" for k in range(len(weights))), stacked, np.abs(stacked))


def test_an_edge_needs_more_than_half_of_the_votes() -> None:
    forward, backward, none = [[0, 0.8], [0, 0]], [[0, 0], [0.5, 0]], [[0, 0], [0, 0]]
    assert vote(server(forward, forward, backward)).weights[0, 1] == 0.8
    assert not vote(server(forward, backward)).weights.any()
    assert not vote(server(forward, none)).weights.any()


def test_the_elected_weight_is_the_mean_of_those_who_found_it() -> None:
    elected = vote(server([[0, 0.6], [0, 0]], [[0, 1.0], [0, 0]], [[0, 0], [0, 0]]))
    assert elected.weights[0, 1] == 0.8
    assert elected.scores is not None
    assert elected.scores[0, 1] == 2 / 3


def test_each_silo_learns_from_its_own_rows_alone() -> None:
    data = homogeneous(6, 3, 500, 1)
    algorithm = registry.build(registry.specify("notears-local", {}))
    (only,) = rounds(algorithm, federate(data.tables))
    each = local_structures(only.server)
    assert set(each) == set(data.tables)
    alone = next(iter(rounds(algorithm, federate({"silo-1": data.tables["silo-1"]}))))
    np.testing.assert_array_equal(each["silo-1"].weights, alone.server.weights[0])
    shown = algorithm.structure(only.server)
    assert any(np.array_equal(shown.weights, one.weights) for one in each.values())
