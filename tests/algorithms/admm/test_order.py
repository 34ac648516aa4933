from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.admm.model_metric import least_squares
from fedbnsl.algorithms.admm.orders import forward, free_entries, settled_order
from fedbnsl.algorithms.admm.phases import Stage, first_phase, next_phase
from fedbnsl.algorithms.admm.settings import RefinedSettings
from fedbnsl.algorithms.core.knowledge import no_prior


@given(st.integers(0, 10_000))
def test_a_dag_is_kept_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mix = rng.permutation(7)
    W = (np.triu(rng.random((7, 7)), 1) * (rng.random((7, 7)) < 0.5))[np.ix_(mix, mix)]
    place = settled_order(W)
    assert sorted(place) == list(range(7))
    assert forward(place, 7)[W > 0].all()


@given(st.integers(0, 10_000))
def test_what_is_left_out_of_a_cyclic_graph_closes_a_cycle_with_stronger_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    strength = rng.random((6, 6)) * (rng.random((6, 6)) < 0.5)
    np.fill_diagonal(strength, 0)
    ahead = forward(settled_order(strength), 6)
    for i, j in np.argwhere((strength > 0) & ~ahead):
        stronger = nx.from_numpy_array(np.where(ahead & (strength > strength[i, j]), 1, 0), create_using=nx.DiGraph)
        assert nx.has_path(stronger, j, i)


def test_without_an_order_all_but_the_diagonal_is_allowed() -> None:
    np.testing.assert_array_equal(forward(np.empty(0, dtype=np.int64), 3), ~np.eye(3, dtype=bool))


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 6), st.booleans())
def test_each_column_is_solved_over_its_own_free_entries(seed: int, d: int, lagged: int, in_order: bool) -> None:
    """If the free entries follow an order, lagged rows first, all columns share one factorisation."""
    rng = np.random.default_rng(seed)
    m = d + lagged
    support = np.ones((m, d), bool) if in_order else rng.random((m, d)) < 0.6
    free = free_entries(rng.permutation(d), support)
    X, right = rng.normal(size=(3 * m, m)), rng.normal(size=(m, d))
    found = least_squares(X.T @ X, right, free)
    assert not found[~free].any()
    for j in range(d):
        rows = free[:, j]
        np.testing.assert_allclose((X.T @ X)[rows][:, rows] @ found[rows, j], right[rows, j], atol=1e-9)


@pytest.mark.parametrize(
    ("d", "h", "stage"),
    [
        (10, 0.0019, "ordered"),
        (10, 0.0021, "free"),
        (20, 0.0021, "free"),
        (60, 0.0059, "ordered"),
        (60, 0.0061, "free"),
    ],
)
def test_an_order_is_fixed_once_h_is_small_for_so_many_variables(d: int, h: float, stage: str) -> None:
    phase = replace(first_phase(~np.eye(d, dtype=bool)), rounds=5)
    following = next_phase(
        phase,
        np.zeros((d, d)),
        np.ones(d),
        h=h,
        in_agreement=False,
        rounds=5,
        worth=0.0,
        last=Stage.ORDERED,
        prior=no_prior(d),
        settings=RefinedSettings(),
    )
    assert following.stage == stage
