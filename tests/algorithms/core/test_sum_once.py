"""An algorithm given by one summand and one server function: the Chow-Liu tree of the rows of all silos."""

import networkx as nx
import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import SiloLost, rounds, sum_once
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tasks.transport.in_process import InProcessFederation


def pair_counts(table, schema):
    """How often each pair of levels occurs, `[d·d·4]`, of binary codes."""
    indicators = np.stack([table == 0, table == 1]).astype(np.int64)
    return np.einsum("ani,bnj->ijab", indicators, indicators).ravel()


def tree(counts, schema):
    """The maximum spanning tree of the pairs' mutual information (Chow, Liu 1968), directed away from the first."""
    d = len(schema.variables)
    joint = counts.reshape(d, d, 2, 2) / sum(schema.rows.values())
    product = joint.sum(axis=3, keepdims=True) * joint.sum(axis=2, keepdims=True)
    information = np.where(joint > 0, joint * np.log(np.where(joint > 0, joint / product, 1.0)), 0.0).sum(axis=(2, 3))
    graph = nx.maximum_spanning_tree(nx.from_numpy_array(information - np.diag(np.diag(information))))
    weights = np.zeros((d, d))
    for cause, effect in nx.bfs_edges(graph, 0):
        weights[cause, effect] = 1.0
    return Structure(schema.variables, weights)


CHOW_LIU = sum_once(pair_counts, tree, whole_numbers=True)
NAMES = ("a", "b", "c", "d")


def chain(rows, rng):
    """Rows of a → b → c → d, each a noisy copy of the one before."""
    table = [rng.integers(0, 2, rows)]
    for _ in NAMES[1:]:
        table.append(np.where(rng.random(rows) < 0.2, 1 - table[-1], table[-1]))
    return np.stack(table, axis=1)


@pytest.fixture
def silos():
    rng = np.random.default_rng(5)
    return {name: chain(rows, rng) for name, rows in (("s0", 300), ("s1", 40), ("s2", 700))}


def schema_of(tables):
    return Schema(
        NAMES, {silo: len(table) for silo, table in tables.items()}, "discrete", dict.fromkeys(NAMES, ("0", "1"))
    )


def last(federation):
    *_, found = rounds(CHOW_LIU, federation)
    return found


@pytest.mark.parametrize("secure", [False, True])
def test_the_sum_is_that_of_the_pooled_rows_and_the_structure_is_learned_from_it(silos, secure):
    found = last(InProcessFederation(schema_of(silos), silos, secure=secure))
    np.testing.assert_array_equal(found.server.total, pair_counts(np.vstack(list(silos.values())), None))
    edges = np.argwhere(CHOW_LIU.structure(found.server).adjacency)
    assert edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert found.outcome == "converged"
    assert found.number == 1


def test_without_a_sum_there_is_no_edge(silos):
    server = CHOW_LIU.open_server(schema_of(silos))
    assert not CHOW_LIU.structure(server).adjacency.any()


def test_a_lost_silo_is_left_out_of_the_sum_and_of_the_schema(silos, monkeypatch):
    from fedbnsl.tasks.silo.service import SiloService

    whole = SiloService.solve

    def solve(self, *given):
        if self.name == "s1":
            raise SiloLost(("s1",), "its worker ended")
        return whole(self, *given)

    monkeypatch.setattr(SiloService, "solve", solve)
    found = last(InProcessFederation(schema_of(silos), silos))
    np.testing.assert_array_equal(found.server.total, pair_counts(np.vstack([silos["s0"], silos["s2"]]), None))
    assert found.server.schema.rows == {"s0": 300, "s2": 700}
