"""Effects over resamples, each with its own graph, and between silos: weights, quantiles, and Cochran's Q."""

import numpy as np
import pytest
from scipy.stats import chi2

from fedbnsl.algorithms.effects.linear import Estimate, WithinMoments, adjusted_effect
from fedbnsl.algorithms.effects.variability import Placebo, between_silos, over_resamples, placebo_of, pooled
from fedbnsl.algorithms.graphs.structure import Structure

NAMES = ("x", "y", "z")


def graph(*edges, kind="dag"):
    weights = np.zeros((3, 3))
    for edge in edges:
        weights[NAMES.index(edge[0]), NAMES.index(edge[1])] = 1
        if kind == "cpdag":
            weights[NAMES.index(edge[1]), NAMES.index(edge[0])] = 1
    return Structure(NAMES, weights, kind=kind)


def moments(slope, rows=400, silos=1):
    """The population moments of x → y with this slope and unit errors, and of an independent z."""
    S = np.eye(3)
    S[0, 1] = S[1, 0] = slope
    S[1, 1] = 1 + slope**2
    return WithinMoments(S, rows, silos)


def test_a_graph_without_the_edge_counts_as_zero():
    slopes = [1.0, 1.1, 1.2, 1.3, 1.4]
    graphs = [graph("xy")] * 4 + [graph("yx")]
    found = over_resamples(graphs, [moments(one) for one in slopes], 0, 1, "total")
    assert (found.resamples, found.no_cause, found.not_identified) == (5, pytest.approx(0.2), 0)
    assert found.median == pytest.approx(1.1)
    assert found.interval[0] < 0.2
    assert found.interval[1] == pytest.approx(1.3)


def test_a_range_shares_the_weight_of_its_resample():
    """If x – y is undirected, the effect is the slope or zero, and each value counts as half a resample."""
    found = over_resamples([graph("xy", kind="cpdag"), graph("xy")], [moments(1.0)] * 2, 0, 1, "total")
    assert found.no_cause == pytest.approx(0.25)
    assert found.median == pytest.approx(1.0)


def test_adjustment_sets_of_one_resample_are_no_resamples():
    """One of four graphs gives a range of two values, and one, a quarter of them, does not identify the effect."""
    graphs = [graph("xy", kind="cpdag"), graph("xy"), graph("xy"), graph("xy", "yz", "zx")]
    found = over_resamples(graphs, [moments(1.0)] * 4, 0, 1, "total")
    assert (found.not_identified, found.no_cause) == (pytest.approx(1 / 4), pytest.approx(0.5 / 3))


def estimate(value, half):
    return Estimate(value, (value - half, value + half))


def test_placebos_are_apart_from_zero_on_either_side():
    found = placebo_of([estimate(-3, 1), estimate(-1, 2), estimate(1, 1), estimate(5, 1), Estimate(9.0)])
    assert found == Placebo((-3, -1, 1, 5, 9.0), 2)
    assert placebo_of([]) is None


def test_graphs_that_do_not_identify_the_effect_are_counted_apart():
    constant = WithinMoments(np.diag([0.0, 1.0, 1.0]), 400, 1)
    cyclic = graph("xy", "yz", "zx")
    found = over_resamples([graph("xy"), cyclic, graph("xy")], [moments(2.0), moments(9.0), constant], 0, 1, "total")
    assert found.not_identified == pytest.approx(2 / 3)
    assert found.interval == (pytest.approx(2.0), pytest.approx(2.0))
    nothing = over_resamples([cyclic], [moments(1.0)], 0, 1, "total")
    assert (nothing.interval, nothing.median, nothing.not_identified) == (None, None, 1)


def test_a_negative_change_swaps_the_ends():
    found = over_resamples([graph("xy")] * 3, [moments(one) for one in (1.0, 2.0, 3.0)], 0, 1, "total").scaled(-2)
    assert found.median == pytest.approx(-4.0)
    assert found.interval[0] < -4.0 < found.interval[1]


def test_heterogeneity_is_that_of_cochran():
    own = {"a": moments(1.0, 200), "b": moments(1.1, 400), "c": moments(1.6, 300)}
    found = between_silos(own, 0, 1, ())
    b = np.array([adjusted_effect(one, 0, 1, ()).value for one in own.values()])
    s = np.array([adjusted_effect(one, 0, 1, ()).standard_error for one in own.values()])
    mean = np.average(b, weights=1 / s**2)
    q = (((b - mean) / s) ** 2).sum()
    assert found.q == pytest.approx(q)
    assert found.p_value == pytest.approx(chi2.sf(q, 2))
    assert found.i_squared == pytest.approx((q - 2) / q)
    assert found.without_one["a"].value == pytest.approx((400 * 1.1 + 300 * 1.6) / 700)
    same = between_silos(dict.fromkeys("abc", moments(1.0)), 0, 1, ())
    assert (same.q, same.i_squared, same.p_value) == (pytest.approx(0, abs=1e-9), 0, pytest.approx(1))


def test_a_silo_without_enough_rows_is_named():
    found = between_silos({"a": moments(1.0), "b": moments(1.2), "tiny": moments(1.0, rows=2)}, 0, 1, ())
    assert set(found.estimates) == {"a", "b"}
    assert found.left_out == ("tiny",)
    assert between_silos({"a": moments(1.0), "tiny": moments(1.0, rows=2)}, 0, 1, ()) is None


def test_pooled_moments_are_those_of_all_rows():
    rng = np.random.default_rng(3)
    tables = [rng.normal(size=(n, 3)) + 5 * rng.normal(size=3) for n in (40, 90)]
    centred = [table - table.mean(axis=0) for table in tables]
    parts = [WithinMoments(one.T @ one / len(one), len(one), 1) for one in centred]
    rows = np.vstack(centred)
    np.testing.assert_allclose(pooled(parts).covariance, rows.T @ rows / 130)
    assert (pooled(parts).rows, pooled(parts).silos) == (130, 2)
