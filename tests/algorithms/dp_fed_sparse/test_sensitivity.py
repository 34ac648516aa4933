"""Each release moves by at most its stated sensitivity when one record is replaced by the worst one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.privacy import gram, private_scales
from fedbnsl.tasks.transport.in_process import federate

ROWS = 6
D = 4
SCALES = np.array([0.5, 1.0, 4.0, 30.0])
extreme = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-30, -1e300, 1e300, 7.0]))
records = arrays(np.float64, D, elements=extreme)
tables = arrays(np.float64, (ROWS, D), elements=st.floats(-100, 100))


def replaced(table, record):
    other = table.copy()
    other[0] = record
    return other


def gram_distance(table, other, clip=gram.clipped):
    """The ℓ₂ distance of the two triangles, entries off the diagonal counted twice."""
    unit, R, bits = gram.units(SCALES), gram.radius(SCALES, 0.6), 12
    i, j = np.triu_indices(D)
    parts = [clip(one, unit, R, bits) for one in (table, other)]
    moved = [(q.T @ q)[i, j] for q in parts]
    weights = np.where(i == j, 1.0, 2.0)
    return float(np.sqrt(weights @ (moved[0] - moved[1]) ** 2)), gram.gram_sensitivity(bits)


@settings(max_examples=200, deadline=None)
@given(tables, records, records)
def test_second_moments(table, one, other):
    distance, allowed = gram_distance(replaced(table, one), replaced(table, other))
    assert distance <= allowed


def test_second_moments_reach_what_is_stated():
    """The bound is not just safe: two long rows at right angles come within a thousandth of it."""
    one, other = np.array([1e9, 0, 0, 0]), np.array([0, 1e9, 0, 0])
    distance, allowed = gram_distance(replaced(np.zeros((ROWS, D)), one), replaced(np.zeros((ROWS, D)), other))
    assert 0.999 * allowed < distance <= allowed


def clip_the_average(table, unit, R, bits):
    """Mutant: scale the whole table by its mean norm instead of every row by its own."""
    q = table / unit
    return np.trunc(q * 2.0**bits / R * min(1.0, R / np.sqrt((q**2).sum(axis=1)).mean()))


def clip_each_coordinate(table, unit, R, bits):
    """Mutant: bound coordinates where the norm is what counts."""
    return np.trunc(np.clip(table / unit, -R, R) * 2.0**bits / R)


@pytest.mark.parametrize("mutant", [clip_the_average, clip_each_coordinate])
def test_a_wrong_clip_is_caught(mutant):
    one, other = np.full(D, 1e9), np.full(D, 1e9) * [1, -1, 1, -1]
    distance, allowed = gram_distance(replaced(np.zeros((ROWS, D)), one), replaced(np.zeros((ROWS, D)), other), mutant)
    assert distance > allowed


@settings(max_examples=200, deadline=None)
@given(tables, records, records)
def test_bucket_counts(table, one, other):
    counts = [private_scales.bucket_counts(replaced(table, record)) for record in (one, other)]
    assert np.linalg.norm(counts[0] - counts[1]) <= private_scales.counts_sensitivity(D) * (1 + 1e-12)


def test_bucket_counts_reach_what_is_stated():
    counts = [private_scales.bucket_counts(np.full((1, D), value)) for value in (1.0, 1e9)]
    assert np.linalg.norm(counts[0] - counts[1]) == pytest.approx(private_scales.counts_sensitivity(D))


@settings(max_examples=100, deadline=None)
@given(arrays(np.float64, (ROWS, D), elements=extreme))
def test_no_row_is_longer_than_the_norm_it_is_clipped_to(table):
    bits = 12
    q = gram.clipped(table, gram.units(SCALES), gram.radius(SCALES, 0.6), bits)
    assert (q == np.trunc(q)).all()
    assert ((q**2).sum(axis=1) <= 4.0**bits).all()


def test_the_bounds_are_not_read_off_the_data():
    """A hundred times the values: the same clip, so no more of each row gets in."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(50, D)) * SCALES
    unit, R = gram.units(SCALES), gram.radius(SCALES, 0.6)
    small, large = (np.trace(_square(gram.clipped(by * table, unit, R, 12))) for by in (1, 100))
    assert small <= large <= 50 * 4.0**12


def _square(q):
    return q.T @ q


@given(st.integers(2, 10**6))
def test_sums_of_integers_are_exact(rows):
    bits = gram.bits_for(rows)
    assert rows * 4.0**bits < 2.0**53
    assert bits >= 10


@pytest.mark.parametrize("scale", [1e-4, 0.3, 1.0, 250.0, 4e4])
def test_scales_are_found_also_under_noise(scale):
    rng = np.random.default_rng(1)
    counts = private_scales.bucket_counts(rng.normal(0, scale, (20_000, 1)))
    (exact,) = private_scales.scales(counts, ("x",))
    (noisy,) = private_scales.scales(counts + np.rint(rng.normal(0, 300, counts.shape)).astype(np.int64), ("x",))
    assert exact == pytest.approx(scale, rel=0.06)
    assert noisy == pytest.approx(scale, rel=0.12)


@pytest.mark.parametrize(("deviation", "wrong"), [(0.99, 0.05), (2.0, 0.3)])
def test_a_sufficient_signal_is_mostly_right_and_a_lesser_one_is_refused(deviation, wrong):
    """Deviations of the noise relative to the greatest that is allowed: a scale is wrong when it is off by half."""
    rng, rows = np.random.default_rng(3), 2000
    most = rows * np.linalg.norm(private_scales.profiles()[190]) / private_scales.MIN_SIGNAL_TO_NOISE
    noise = np.rint(rng.normal(0, deviation * most, (400, private_scales.BUCKETS))).astype(np.int64)
    counts = private_scales.bucket_counts(rng.normal(size=(rows, 1))) + noise
    off = np.abs(np.log2(private_scales.CANDIDATES[(counts @ private_scales.profiles().T).argmax(axis=1)])) > 1
    if deviation < 1:
        private_scales.require_signal(rows, deviation * most)
        assert off.mean() < wrong
    else:
        with pytest.raises(ValueError, match="2000 rows are too few for this budget"):
            private_scales.require_signal(rows, deviation * most)
        assert off.mean() > wrong


@pytest.mark.parametrize("name", ["secure-sum", "dp-covariance", "dp-fed-sparse"])
def test_a_hopeless_budget_is_refused_before_anything_is_spent(name):
    federation = federate({f"s{k}": np.random.default_rng(k).normal(size=(40, 5)) for k in range(3)})
    algorithm = registry.build(registry.specify(name, {"epsilon": 0.1}))
    with pytest.raises(ValueError, match="120 rows are too few for this budget"):
        next(rounds(algorithm, federation))
    assert not any(federation.charges().values())


def test_a_scale_outside_the_grid_is_refused_by_name():
    with pytest.raises(ValueError, match="column 'salt': its scale is outside"):
        private_scales.scales(private_scales.bucket_counts(np.full((50, 1), 1e12)), ("salt",))


def test_the_covariance_comes_back_from_its_integers():
    rng = np.random.default_rng(2)
    table = rng.normal(size=(5000, D)) * SCALES
    unit, R, bits = gram.units(SCALES), gram.radius(SCALES, 100.0), 14
    S = gram.covariance(gram.integer_gram(table, unit, R, bits), unit, R, bits, 5000)
    np.testing.assert_allclose(S, table.T @ table / 5000, atol=0.05 * SCALES.max())
    assert (np.linalg.eigvalsh(gram.positive_definite(S - 5 * np.eye(D), SCALES, 1e-3)) > 0).all()
