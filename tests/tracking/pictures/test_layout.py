import numpy as np
import pytest

from fedbnsl.tracking.pictures.drawing import route_path
from fedbnsl.tracking.pictures.layout import (
    assign_layers,
    crossings,
    isotonic,
    layered,
    order_rows,
    reverse_feedback_arcs,
    topological,
)

CASES = [(8, 2, 0), (20, 4, 1), (50, 4, 2), (50, 1, 3), (30, 12, 4), (1, 0, 5)]


def acyclic_arcs(random_case, d, degree, seed):
    return [(int(i), int(j)) for i, j in np.argwhere(random_case(d, degree, seed)[1].adjacency)]


def boxes(layout):
    half = np.stack([layout.widths / 2, np.full(len(layout.widths), layout.height / 2)], axis=1)
    return layout.centres - half, layout.centres + half


@pytest.mark.parametrize(("d", "degree", "seed"), CASES)
def test_no_two_nodes_overlap(random_case, d, degree, seed):
    arcs = acyclic_arcs(random_case, d, degree, seed)
    lower, upper = boxes(layered(np.linspace(0.4, 1.6, d), arcs))
    apart = (lower[:, None] > upper[None, :]).any(axis=2)
    assert (apart | apart.T | np.eye(d, dtype=bool)).all()


@pytest.mark.parametrize(("d", "degree", "seed"), CASES)
def test_edges_of_a_dag_run_downwards(random_case, d, degree, seed):
    arcs = acyclic_arcs(random_case, d, degree, seed)
    layout = layered([0.5] * d, arcs)
    assert all(layout.down)
    for (source, target), route in zip(arcs, layout.routes, strict=True):
        assert layout.layers[source] < layout.layers[target]
        assert (np.diff(route[:, 1]) < 0).all()


@pytest.mark.parametrize(("d", "degree", "seed"), CASES)
def test_no_edge_runs_through_a_node(random_case, d, degree, seed):
    arcs = acyclic_arcs(random_case, d, degree, seed)
    layout = layered(np.linspace(0.4, 1.6, d), arcs)
    lower, upper = (corner[:, None] for corner in boxes(layout))
    for route in layout.routes:
        points = np.concatenate(route_path(route).to_polygons(closed_only=False))[None]
        assert not ((points > lower + 1e-6) & (points < upper - 1e-6)).all(axis=2).any()


def test_of_a_cycle_the_last_arc_is_turned():
    assert reverse_feedback_arcs(3, [(0, 1), (1, 2), (2, 0)]) == [(0, 1), (1, 2), (0, 2)]
    layout = layered([0.5] * 3, [(0, 1), (1, 2), (2, 0)])
    assert layout.down == (True, True, False)


@pytest.mark.parametrize("seed", range(10))
def test_turned_arcs_make_no_cycle(seed):
    arcs = [(int(i), int(j)) for i, j in np.random.default_rng(seed).integers(12, size=(60, 2)) if i != j]
    turned = reverse_feedback_arcs(12, arcs)
    place = {node: rank for rank, node in enumerate(topological(12, turned))}
    assert len(place) == 12
    assert all(place[upper] < place[lower] for upper, lower in turned)


def test_a_layer_is_not_overfull():
    star = [(0, child) for child in range(1, 40)]
    layers = assign_layers(42, star, capacity=9)
    assert max(np.bincount([layers[node] for node in range(40)])) <= 9
    assert min(layers[40:]) > max(layers[:40])


def test_two_edges_are_uncrossed():
    rows, chains = [[0, 1], [2, 3]], [[0, 3], [1, 2]]
    below = [[3], [2], [], []]
    assert crossings(rows, below) == 1
    assert crossings(order_rows(rows, chains), below) == 0


def test_the_same_graph_is_laid_out_the_same(random_case):
    arcs = acyclic_arcs(random_case, 20, 4, 1)
    once, again = layered([0.5] * 20, arcs), layered([0.5] * 20, arcs)
    np.testing.assert_array_equal(once.centres, again.centres)


@pytest.mark.parametrize("seed", range(20))
def test_isotonic_regression_agrees_with_scipy(seed):
    from scipy.optimize import isotonic_regression

    generator = np.random.default_rng(seed)
    wanted = generator.normal(size=generator.integers(1, 40)).round(1)  # rounded, so that some are equal
    weights = generator.uniform(0.01, 3.0, size=len(wanted))
    expected = isotonic_regression(wanted, weights=weights).x
    assert isotonic(wanted, weights) == pytest.approx(expected, abs=1e-12)
