"""The stated sensitivities by brute force: the largest distance over all neighbours of small tables on a small grid."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.promise import ReplaceOne
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dp_fed_sparse.clipping import huber, product
from fedbnsl.algorithms.dp_fed_sparse.silo import PrivateProblem, entries, score_sensitivity, scores
from fedbnsl.algorithms.dp_fed_sparse.step_noise import SLACK, rounding_margin, shares_sensitivity, truncated_squares
from fedbnsl.algorithms.moments.mixed import coded_rows
from fedbnsl.algorithms.privacy import gram, private_scales
from fedbnsl.algorithms.privacy.zcdp import distributed_gaussian_cost
from fedbnsl.algorithms.secure.masks import default_threshold
from fedbnsl.algorithms.statistics.count_tables import count
from fedbnsl.algorithms.statistics.lagged import windows

BITS = 6
GRID = [np.array(row) for row in itertools.product((-9.0, -1.0, 0.0, 0.3, 9.0), repeat=2)]
REST = np.array([[0.5, -0.2], [1.0, 2.0]])


def products_of(rows):
    """The integer second moments of `rows` clipped to norm 1, off-diagonal entries times √2, as in the cost."""
    unit = np.ones(rows.shape[1])
    i, j = np.triu_indices(rows.shape[1])
    return gram.integer_gram(rows, unit, 1.0, BITS) * np.where(i == j, 1.0, math.sqrt(2))


def largest_move(statistic, records, table):
    """The largest ℓ₂ distance of `statistic` between two tables whose first rows are any two of `records`."""
    found = [np.asarray(statistic(np.vstack([record, table])), float).ravel() for record in records]
    return max(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(found, 2))


def test_second_moments_of_clipped_rows():
    moved = largest_move(products_of, GRID, REST)
    assert 0.9 * gram.gram_sensitivity(BITS) < moved <= gram.gram_sensitivity(BITS)


def test_bucket_counts():
    assert largest_move(private_scales.bucket_counts, GRID, REST) == pytest.approx(private_scales.counts_sensitivity(2))


def test_the_rounding_of_a_root_is_within_the_margin_of_its_cost():
    for d in range(1, 300):
        cost = distributed_gaussian_cost(private_scales.counts_sensitivity(d), 2**20, 1, d, ReplaceOne)
        assert Fraction(cost.rho) >= Fraction(2 * d, 2 * 2**20)


def test_count_tables():
    sets = np.array([[0, -1], [1, -1], [0, 1], [0, 1]], np.int16)
    records = [np.array(row) for row in itertools.product(range(2), range(3))]
    moved = largest_move(
        lambda rows: count(rows.astype(np.int16).T, np.array([2, 3]), sets).astype(float), records, np.zeros((2, 2))
    )
    assert moved == pytest.approx(math.sqrt(2 * len(sets)))


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_a_record_is_in_one_pair(rows):
    """A record in a pair moves the sum as much as one clipped row; the last of an odd number is in no pair."""
    schema = Schema(("x", "y"), {"s": rows}, "mixed")
    rest = np.random.default_rng(rows).normal(size=(rows, 2))
    for place in range(rows):
        found = []
        for record in GRID:
            table = rest.copy()
            table[place] = record
            found.append(products_of(coded_rows(table, schema, "s", "pairs")))
        moved = max(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(found, 2))
        assert moved <= gram.gram_sensitivity(BITS)
        assert (moved == 0) == (place == rows - 1 and rows % 2 == 1)


@pytest.mark.parametrize(
    ("protect", "lags", "length"), [("row", 1, 5), ("row", 2, 5), ("row", 2, 4), ("stretch", 1, 4)]
)
def test_the_group_of_a_unit_of_series_covers_all_its_windows(protect, lags, length):
    settings = registry.specify("secure-sum", {"epsilon": 1.0, "protect": protect, "lags": lags}).settings
    group = settings.group(Schema(("x",), {"s": length}, "time-series", stretches={"s": (length,)}))
    touched = 0
    for place in range(length):
        one, other = (np.arange(length, dtype=float)[:, None].copy() for _ in range(2))
        other[place if protect == "row" else slice(None)] -= 100.0
        apart = windows(one, (length,), lags) != windows(other, (length,), lags)
        touched = max(touched, int(apart.any(axis=1).sum()))
    assert touched == group


@pytest.mark.parametrize("kind", ["huber", "product"])
def test_gradients_of_steps(kind):
    scale, B = np.array([1.0, 2.0]), np.array([[0.0, 0.8], [0.0, 0.0]])
    clip = huber(0.7 * scale, 0.7 * scale, scale, scale) if kind == "huber" else product("product", 3.0, scale**2)
    unit = 2 * clip.reach / (len(REST) + 1)

    def gradient(rows):
        residuals = np.ascontiguousarray((rows - rows @ B).T)
        return clip.gradient(clip.factors(rows), residuals, slice(None)) / unit

    found = [gradient(np.vstack([record, REST])) for record in GRID]
    moved = max(float(np.abs(a - b).max()) for a, b in itertools.combinations(found, 2))
    assert 0.9 < moved <= 1 + 1e-9


def test_truncated_squares():
    moved = largest_move(lambda rows: truncated_squares(rows, np.ones(2)), GRID, REST)
    assert moved == pytest.approx(shares_sensitivity(2, 3))


@pytest.mark.parametrize("rows", [1, 1000, 40_000])
def test_sums_of_few_rows_need_no_margin_but_the_slack(rows):
    assert rounding_margin(rows) == 1.0
    assert rows**2 * 2.0**-52 <= (SLACK - 1) / 2


def test_float_sums_of_many_rows_are_within_their_margin():
    """One sum reaches a power of two, above which 0.55 is rounded up and −0.45 to zero; the other does not."""
    half, ulp = 2**20, 2.0**-32
    terms = np.concatenate([np.ones(half), np.tile([0.55 * ulp, -0.45 * ulp], half)])
    sums = []
    for first in (1.0, -1.0):
        terms[0] = first
        sums.append(float(np.cumsum(terms)[-1]))
    moved = abs(sums[0] - sums[1])
    assert moved > 2 * (1 + 100 * (SLACK - 1))
    assert moved <= 2 * rounding_margin(len(terms))


@pytest.mark.parametrize("weight", [1.0, 1e6])
def test_a_score_moves_by_less_than_its_sensitivity_even_if_only_by_rounding(weight):
    """With a weight of 1e6, the score changes in steps of 1e-10, far more than the effect of a clipped record."""
    d, rows = 2, 100
    spread, start = np.full(d, 1e-10), np.array([[0.0, weight], [0.0, 0.0]])
    problem = PrivateProblem(
        linear=np.zeros((d, d)), r=np.zeros(d), M=np.ones(d), l1=np.zeros(d), allowed=~np.eye(d, dtype=bool),
        start=start, clip=huber(np.full(d, 0.7), 0.7 * spread, np.ones(d), spread), weights=np.ones(d),
    )  # fmt: skip
    where, found = entries(problem.allowed), []
    for share in np.linspace(-1, 1, 301):
        G = np.array([share * problem.clip.reach[0, 1], 0.0])
        found.append(float(scores(problem, G, start[:, 1], where, 1)[0]))
    steps = np.abs(np.diff(found)).max()
    assert steps <= score_sensitivity(problem, rows)
    if weight > 1:
        assert steps > 2 * problem.clip.reach[0, 1] / rows * SLACK


@pytest.mark.parametrize("silos", range(2, 257))
def test_two_sums_of_one_round_need_many_silos_that_answer_both(silos):
    """Two sets of t silos share at least 2t − P ≥ 1 silos; these would have to break the rule of one sum."""
    shared = 2 * default_threshold(silos) - silos
    assert shared >= max(1, silos / 3)
