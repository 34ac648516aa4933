"""Forward sampling draws from the network: tested against exact marginals, and with planted defects."""

import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.data.generators import sampling
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.data.generators.random_network import random_network
from fedbnsl.data.generators.sampling import cumulative_rows, forward_sample, inverse_cdf
from fedbnsl.data.networks.published import discrete_network


def misfit(network, codes):
    """The largest deviation of a level's conditional frequency from its table, in standard errors."""
    worst = 0.0
    place = {name: v for v, name in enumerate(network.variables)}
    for name, table in network.tables.items():
        sizes = table.shape
        given = codes[:, [place[parent] for parent in network.parents[name]]]
        row = np.ravel_multi_index(tuple(given.T), sizes[:-1]) if given.shape[1] else np.zeros(len(codes), dtype=int)
        rows = int(np.prod(sizes[:-1]))
        counts = np.bincount(row * sizes[-1] + codes[:, place[name]], minlength=rows * sizes[-1]).reshape(rows, -1)
        n, p = counts.sum(axis=1, keepdims=True), cumulative_rows(table).reshape(rows, -1)
        p = np.diff(p, axis=1, prepend=0.0)
        assert not counts[p == 0].any(), "a level of probability 0 was drawn"
        often = (n * p > 5) & (n * (1 - p) > 5)
        deviations = (counts - n * p)[often] / np.sqrt(n * p * (1 - p))[often]
        worst = max(worst, abs(deviations).max(initial=0.0))
    return worst


@pytest.mark.parametrize("name", ["asia", "child", "alarm", "sachs"])
def test_the_tables_are_those_of_the_network(name):
    network = discrete_network(name)
    assert misfit(network, forward_sample(network, 20_000, np.random.default_rng(0))) < 5


def swapped(network):
    """The network with the first two parents of every variable swapped."""
    tables = {
        name: np.swapaxes(table, 0, 1) if table.ndim > 2 and table.shape[0] == table.shape[1] else table
        for name, table in network.tables.items()
    }
    return replace(network, distributions=tables)


def rolled(network):
    return replace(network, distributions={name: np.roll(table, 1, axis=-1) for name, table in network.tables.items()})


def unconditional(network):
    tables = {
        name: np.broadcast_to(table.mean(axis=tuple(range(table.ndim - 1))), table.shape)
        for name, table in network.tables.items()
    }
    return replace(network, distributions=tables)


@pytest.mark.parametrize("defect", [swapped, rolled, unconditional])
def test_a_planted_defect_is_seen(defect):
    network = discrete_network("sachs")
    codes = forward_sample(defect(network), 20_000, np.random.default_rng(0))
    smooth = replace(
        network,
        distributions={name: (table + 1e-9) / (1 + 1e-9 * table.shape[-1]) for name, table in network.tables.items()},
    )
    assert misfit(smooth, codes) > 10


@pytest.mark.parametrize("name", ["asia", "survey", "cancer"])
def test_single_and_joint_marginals_are_those_of_exact_inference(name):
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    network = discrete_network(name)
    model = DiscreteBayesianNetwork(list(network.structure.to_networkx().edges))
    for v, table in network.tables.items():
        given, sizes = list(network.parents[v]), list(table.shape[:-1])
        model.add_cpds(TabularCPD(v, table.shape[-1], table.reshape(-1, table.shape[-1]).T, given, sizes))
    exact = VariableElimination(model)
    rows = 40_000
    codes = forward_sample(network, rows, np.random.default_rng(1))
    for one, other in combinations(range(len(network.variables)), 2):
        names = [network.variables[one], network.variables[other]]
        factor = exact.query(names, show_progress=False)
        order = [factor.variables.index(v) for v in names]
        p = np.transpose(factor.values, order)
        found = np.zeros(p.shape)
        np.add.at(found, (codes[:, one], codes[:, other]), 1 / rows)
        assert (abs(found - p) < 5 * np.sqrt(p * (1 - p) / rows) + 1e-9).all(), names


@given(st.integers(1, 6), st.integers(0, 9), st.integers(1, 40), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_first_rows_stay_when_more_are_drawn(variables, edges, rows, seed):
    rng = np.random.default_rng(seed)
    dag = random_dag(variables + 1, min(edges, (variables + 1) * variables // 2), rng)
    network = random_network(dag, tuple(f"v{i}" for i in range(variables + 1)), (2, 5), None, rng)
    more = forward_sample(network, rows + 30, np.random.default_rng(seed))
    assert np.array_equal(forward_sample(network, rows, np.random.default_rng(seed)), more[:rows])
    assert (more.dtype, more.shape, more.flags.c_contiguous) == (np.int64, (rows + 30, variables + 1), True)


def test_blocks_are_one_stream(monkeypatch):
    network = discrete_network("child")
    whole = forward_sample(network, 1000, np.random.default_rng(3))
    monkeypatch.setattr(sampling, "BLOCK_ROWS", 64)
    assert np.array_equal(forward_sample(network, 1000, np.random.default_rng(3)), whole)


def test_the_edges_of_a_distribution():
    """Uniform numbers lie in [0, 1): 0 gives the first level with positive probability, the largest number the last."""
    table = np.array([[0.0, 0.3, 0.7 - 3e-7, 0.0], [1.0, 0.0, 0.0, 0.0]])
    cumulative = cumulative_rows(table)
    below = np.nextafter(1.0, 0.0)
    rows = np.array([0, 0, 1, 1])
    assert inverse_cdf(cumulative, rows, np.array([0.0, below, 0.0, below])).tolist() == [1, 2, 0, 0]


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="b: its distribution does not fit its levels and its parents"):
        Network(
            ("a", "b"),
            {"a": ("x", "y"), "b": ("x", "y")},
            {"a": (), "b": ("a",)},
            {"a": np.array([0.5, 0.5]), "b": np.array([0.5, 0.5])},
        )


def test_5000_rows_of_link_take_less_than_two_seconds():
    network = discrete_network("link")
    before = time.process_time()
    assert forward_sample(network, 5000, np.random.default_rng(0)).shape == (5000, 724)
    assert time.process_time() - before < 2
