"""secure-sum on mixed data: equal to secure-boss without ε; with ε, the effect of one record and of the noise."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.moments.mixed import all_scales, coded_rows, summed_columns
from fedbnsl.algorithms.moments.secure_sum import SecureSum, secure_sum_plan
from fedbnsl.algorithms.moments.summed import clipping_ball
from fedbnsl.algorithms.privacy import gram, private_scales
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.tasks.transport.in_process import InProcessFederation

SCHEMA = Schema(("x", "label", "y", "flag"), {"s": 7}, "mixed", {"label": ("a", "b", "c", "d"), "flag": ("no", "yes")})
WAYS = ("pairs", "means")
extreme = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-30, -1e300, 1e300, 1.7e308, -1.7e308]))
records = st.tuples(extreme, st.integers(0, 3), extreme, st.integers(0, 1))


def learned(name, data, secure=False, **params):
    algorithm = registry.build(registry.specify(name, params))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables, secure=secure))
    return algorithm.structure(last.server)


def table(rows=7, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(size=rows), rng.integers(0, 4, rows), rng.normal(size=rows), np.arange(rows) % 2]
    )


def replaced(at, record):
    other = table()
    other[at] = record
    return other


def released(one, how):
    """The integers that a silo adds up before noise, and their maximum change by one record."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = coded_rows(one, SCHEMA, "s", how)
        unit, R = clipping_ball(all_scales(SCHEMA, how, np.array([0.5, 30.0])), 0.6, mixed=True)
        return gram.integer_gram(rows, unit, R, 12)


def distance(one, other, m):
    i, j = np.triu_indices(m)
    return float(np.sqrt(np.where(i == j, 1.0, 2.0) @ (one - other).astype(float) ** 2))


@pytest.mark.parametrize("how", WAYS)
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 6), records, records)
def test_no_record_moves_the_second_moments_by_more_than_is_stated(how, at, one, other):
    m = len(summed_columns(SCHEMA, how).variables)
    moved = distance(released(replaced(at, one), how), released(replaced(at, other), how), m)
    assert moved <= gram.gram_sensitivity(12)


def test_what_is_stated_is_reached():
    moved = distance(*(released(replaced(0, record), "pairs") for record in ((1e9, 0, 0, 0), (0, 0, 1e9, 0))), 6)
    assert 0.999 * gram.gram_sensitivity(12) < moved


@pytest.mark.parametrize("how", WAYS)
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 6), records, records)
def test_no_record_moves_the_bucket_counts_of_the_numbers_by_more_than_is_stated(how, at, one, other):
    numbers = [0, 4]
    counts = [
        private_scales.bucket_counts(coded_rows(replaced(at, record), SCHEMA, "s", how)[:, numbers])
        for record in (one, other)
    ]
    assert np.linalg.norm(counts[0] - counts[1]) <= private_scales.counts_sensitivity(2) * (1 + 1e-12)


def test_the_noise_is_planned_for_two_scales_and_six_columns_and_delta_for_all_rows():
    schema = replace(SCHEMA, rows={"s": 1000, "t": 1001})
    asked = SecureSum(epsilon=1.0)
    shares = secure_sum_plan(asked, schema)
    numbers = secure_sum_plan(asked, Schema(("x", "y"), {"s": 1000, "t": 1001}))
    assert shares.promise.delta == pytest.approx(1e-6)
    assert shares.count_variance == numbers.count_variance
    assert asked.columns(schema).rows == {"s": 500, "t": 500}
    assert len(asked.columns(schema).variables) == 6


def test_what_a_whole_silo_has_in_common_is_in_no_pair():
    plain, moved = table(), table() + np.array([1e3, 0, -5.0, 0])
    np.testing.assert_allclose(*(coded_rows(one, SCHEMA, "s", "pairs") for one in (plain, moved)), atol=1e-12)
    rows = coded_rows(plain, SCHEMA, "s", "means")
    assert (rows[:, -1] == 1).all()
    np.testing.assert_allclose(rows[:, 1:4], (plain[:, 1:2] == [1, 2, 3]) - 0.25)


def test_pairs_vary_as_rows_do():
    rows = np.tile(table(6), (4000, 1))[np.random.default_rng(2).permutation(24_000)]
    pairs = coded_rows(rows, SCHEMA, "s", "pairs")
    assert len(pairs) == 12_000
    expected = np.cov(coded_rows(rows, SCHEMA, "s", "centred").T, bias=True)
    np.testing.assert_allclose(pairs.T @ pairs / len(pairs), expected, atol=0.04)


@pytest.mark.parametrize("effects", ["additive", "slopes"])
def test_without_noise_it_is_secure_boss(effects):
    data = mixed(12, 4, 300, 31, edges=20, effects=effects)
    expected = learned("secure-boss", data)
    for secure in (False, True):
        found = learned("secure-sum", data, secure)
        assert found.kind == "cpdag"
        np.testing.assert_array_equal(found.weights, expected.weights)


def test_means_of_silos_are_kept_where_that_is_asked_for():
    """If silo means are kept, numbers depend on each other through these means; if all means are equal, they do not."""
    apart, alike = (mixed(8, 6, 400, 5, edges=8, site_means=means, unequal=False) for means in (2.0, 0.0))
    edges = {
        center: [learned("secure-sum", data, center=center).adjacency.sum() for data in (apart, alike)]
        for center in (True, False)
    }
    assert edges[True][0] == edges[True][1] == edges[False][1]
    assert edges[False][0] > edges[True][0] + 4


def test_a_greater_epsilon_comes_nearer_to_what_is_found_without_noise():
    shd = dict.fromkeys((0.5, 2.0, 50.0, 0.0), 0.0)
    for seed in range(200, 204):
        data = mixed(10, 5, 2000, seed, edges=10)
        for epsilon in shd:
            found = learned("secure-sum", data, epsilon=epsilon, insecure_seed=seed)
            shd[epsilon] += compare(found, data.truth)["shd"] / 4
    assert shd[0.5] > shd[2.0] + 1
    assert shd[2.0] >= shd[50.0]
    assert shd[50.0] <= shd[0.0] + 1


def test_another_learner_is_refused():
    with pytest.raises(BadInput, match="learner is pc: mixed data have their own learner"):
        learned("secure-sum", mixed(4, 2, 50, 0), learner="pc")


def test_directions_are_not_said_to_rest_on_variances():
    spec = registry.specify("secure-sum", {})
    found = learned("secure-sum", mixed(6, 2, 200, 3))
    assert "conditional independences" in registry.direction_assumptions(spec, found)[0]
