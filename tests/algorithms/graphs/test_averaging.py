"""The averaged network and its threshold, against a search over all thresholds."""

import numpy as np
import pytest

from fedbnsl.algorithms.graphs.strengths import averaged_network, edge_shares, edge_strengths, inclusion_threshold
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = ("a", "b", "c")


def structures(kind="dag", **times):
    """Structures over a, b, c: ab_bc=3 means three structures with the edges a → b and b → c."""
    found = []
    for edges, count in times.items():
        weights = np.zeros((3, 3))
        for edge in edges.split("_"):
            weights[NAMES.index(edge[0]), NAMES.index(edge[1])] = 1.0
        found += [Structure(NAMES, weights, kind)] * count
    return found


def edges_of(structure):
    return {f"{NAMES[i]}{NAMES[j]}" for i, j in np.argwhere(structure.adjacency)}


def l1(strengths, t, fine=20_000):
    """The distance between the empirical distribution function and the constant t, by the midpoint rule."""
    x = (np.arange(fine) + 0.5) / fine
    F = np.searchsorted(np.sort(strengths), x, side="right") / len(strengths)
    return np.abs(F - t).mean()


@pytest.mark.parametrize("seed", range(8))
def test_the_threshold_is_that_of_the_least_distance(seed):
    rng = np.random.default_rng(seed)
    strengths = np.round(np.concatenate([rng.beta(0.3, 0.8, 40), rng.uniform(size=20)]), 2)
    threshold = inclusion_threshold(strengths)
    assert threshold in strengths
    least = min(l1(strengths, t) for t in np.linspace(0, 1, 241))
    assert l1(strengths, np.mean(strengths <= threshold)) <= least + 1e-9
    assert l1(strengths, np.mean(strengths <= 0.9)) > least + 1e-3


def test_a_threshold_by_hand():
    # F is ¼ from 0.1, ½ from 0.4, ¾ from 0.9: it is ½ over most of [0, 1], and F⁻¹(½) = 0.4.
    assert inclusion_threshold(np.array([0.9, 0.1, 1.0, 0.4])) == 0.4
    assert inclusion_threshold(np.array([0.9, 1.0])) == 0.0
    assert inclusion_threshold(np.zeros(0)) == 0.0


def test_all_pairs_and_all_lags_count_for_the_threshold():
    lagged = np.zeros((1, 3, 3))
    lagged[0, 0, 1] = 1.0
    one = Structure(NAMES, np.zeros((3, 3)), lagged=lagged)
    other = Structure(NAMES, np.zeros((3, 3)), lagged=np.zeros((1, 3, 3)))
    found = edge_strengths([one, one, other])
    assert len(edge_shares(found)) == 3 + 9
    averaged = averaged_network(found)
    assert averaged.lagged is not None
    np.testing.assert_array_equal(averaged.lagged, lagged)
    assert averaged_network(edge_strengths([one, other, other])).lagged.sum() == 0


def test_an_edge_in_half_of_the_structures_is_not_significant():
    assert edges_of(averaged_network(edge_strengths(structures(ab=3, bc=3)))) == set()
    assert edges_of(averaged_network(edge_strengths(structures(ab=4, bc=3)))) == {"ab"}


def test_edges_point_the_way_that_most_structures_have_them():
    averaged = averaged_network(edge_strengths(structures(ab_bc=2, ba_bc=3)))
    assert (edges_of(averaged), averaged.kind) == ({"ba", "bc"}, "dag")


def test_an_edge_that_has_both_ways_equally_often_is_not_directed():
    averaged = averaged_network(edge_strengths(structures(ab_bc=2, ba_bc=2)))
    assert (edges_of(averaged), averaged.kind) == ({"ab", "ba", "bc"}, "cpdag")


def test_what_most_cpdags_leave_open_stays_open():
    averaged = averaged_network(edge_strengths(structures("cpdag", ab_ba=6, ab=4)))
    assert (edges_of(averaged), averaged.kind) == ({"ab", "ba"}, "cpdag")
    averaged = averaged_network(edge_strengths(structures("cpdag", ab_ba=4, ab=6)))
    assert (edges_of(averaged), averaged.kind) == ({"ab"}, "cpdag")


def test_of_a_cycle_the_weakest_edge_is_left_out():
    averaged = averaged_network(edge_strengths(structures(ab_bc=4, bc_ca=3, ab_ca=5)))
    # ab is in 9 of 12, ca in 8, bc in 7: bc would close the cycle a → b → c → a.
    assert edges_of(averaged) == {"ab", "ca"}
    assert averaged.acyclic


@pytest.mark.parametrize(("times", "kept"), [(5, False), (6, True)])
def test_an_edge_is_kept_if_more_than_half_of_the_structures_have_it(times, kept):
    """Exactly half of ten structures is not enough, for any strengths of the other edges."""
    others = structures(bc=10 - times)
    found = edge_strengths([*structures(ab_bc=times), *others])
    assert edges_of(averaged_network(found)) == ({"ab", "bc"} if kept else {"bc"})
    assert inclusion_threshold(edge_shares(found)) == (0.0 if kept else 0.5)


@pytest.mark.parametrize(("onwards", "expected"), [(6, {"ab"}), (5, {"ab", "ba"}), (4, {"ba"})])
def test_an_edge_has_the_direction_that_more_than_half_of_its_structures_give_it(onwards, expected):
    assert edges_of(averaged_network(edge_strengths(structures(ab=onwards, ba=10 - onwards)))) == expected
