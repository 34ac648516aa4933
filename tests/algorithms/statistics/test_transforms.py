"""Transforms inside a silo: formulas, ranks, tables in passes, and the shapes that suggest them."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.outliers import without_far_cells
from fedbnsl.algorithms.statistics.transforms import (
    FORMULAS,
    apply,
    has_far_numbers,
    inverse,
    transform_gain,
    transformed,
)


def test_normal_scores_are_those_of_mean_ranks_and_leave_empty_cells():
    values = np.array([3.0, np.nan, -1.0, 3.0, 8.0, 1e9])
    known = values[~np.isnan(values)]
    scores = apply(values, "normal-scores")
    np.testing.assert_allclose(scores[~np.isnan(values)], norm.ppf(rankdata(known) / 6))
    assert np.isnan(scores[1])


def test_normal_scores_forget_units_and_monotone_scales():
    x = np.random.default_rng(1).normal(size=300)
    np.testing.assert_array_equal(apply(np.exp(3 * x), "normal-scores"), apply(x, "normal-scores"))


@pytest.mark.parametrize(
    ("transform", "value"), [("log", np.log(5)), ("log1p", np.log(6)), ("sqrt", 5**0.5), ("anscombe", 5.375**0.5)]
)
def test_formulas(transform, value):
    out = apply(np.array([5.0, np.nan]), transform)
    assert out[0] == pytest.approx(value)
    assert np.isnan(out[1])
    assert np.isfinite(apply(np.array([-1.0, 0.0]), transform)).all()
    assert transform in FORMULAS


@dataclass
class Passes:
    """A table in chunks of 7 rows."""

    table: np.ndarray

    @property
    def shape(self):
        return self.table.shape

    def __iter__(self):
        return iter(np.array_split(self.table, range(7, len(self.table), 7)))


def test_a_table_in_passes_is_transformed_as_in_memory():
    table = np.random.default_rng(2).lognormal(size=(50, 3))
    table[3, 1] = np.nan
    schema = Schema(("a", "b", "c"), {"s": 50}, transforms={"a": "log", "b": "normal-scores"})
    whole = transformed(table, schema, "s")
    np.testing.assert_array_equal(np.concatenate([*transformed(Passes(table), schema, "s")]), whole)
    np.testing.assert_array_equal(whole[:, 2], table[:, 2])
    assert transformed(table, Schema(("a", "b", "c"), {"s": 50}), "s") is table


def test_pooled_rows_are_ranked_within_each_silo():
    one, other = np.random.default_rng(3).normal(size=(2, 20, 1))
    schema = Schema(("a",), {"pooled": 40}, stretches={"pooled": (20, 20)}, transforms={"a": "normal-scores"})
    pooled = transformed(np.concatenate([one, 1000 + other]), schema, "pooled")
    np.testing.assert_array_equal(
        pooled, np.concatenate([apply(one[:, 0], "normal-scores"), apply(other[:, 0], "normal-scores")])[:, None]
    )


def test_cells_are_far_after_their_transform():
    x = np.random.default_rng(6).lognormal(sigma=1.5, size=4000)
    assert np.isnan(without_far_cells(x)).sum() > 100
    assert not np.isnan(without_far_cells(x, "log")).any()
    x[7] = 1e9
    assert np.flatnonzero(np.isnan(without_far_cells(x, "log"))).tolist() == [7]


@pytest.mark.parametrize("errors", ["exponential", "lognormal", "normal"])
def test_a_transform_gains_where_it_straightens_and_not_where_errors_are_skewed(errors):
    rng = np.random.default_rng(5)
    x = getattr(rng, errors)(size=2000)
    y = x + getattr(rng, errors)(size=2000)
    linear = np.column_stack([x, y, y + rng.normal(size=2000)])
    if errors != "normal":
        assert transform_gain(linear, {0: "normal-scores", 1: "normal-scores"}) < 0
    else:
        assert transform_gain(np.exp(linear), {0: "log", 1: "log", 2: "log"}) > 0.3
        gaps = np.where(rng.random(linear.shape) < 0.1, np.nan, np.exp(linear))
        assert transform_gain(gaps, {0: "log", 1: "normal-scores", 2: "log"}) > 0.2
    constant = np.column_stack([linear, np.ones(2000), linear[:, 0]])
    assert np.isfinite(transform_gain(constant, {0: "normal-scores", 3: "normal-scores"}))
    assert transform_gain(linear, {}) == 0


def test_log_ratios_do_not_depend_on_the_whole_and_zeros_stay_smallest():
    rng = np.random.default_rng(0)
    parts, wholes = rng.lognormal(size=(50, 6)), rng.lognormal(size=(50, 1))
    parts[0, 0] = 0.0
    names = tuple("abcdef")
    schema = Schema(names, {"a": 50}, transforms=dict.fromkeys(names, "log-ratio"))
    table = transformed(parts, schema, "a")
    np.testing.assert_array_equal(np.concatenate([*transformed(Passes(parts), schema, "a")]), table)
    assert table[1:] == pytest.approx(transformed(parts * wholes, schema, "a")[1:])
    assert np.median(table, axis=1) == pytest.approx(0)
    assert np.isfinite(table).all()
    assert table[0, 0] == table[0].min()
    parts[1, 1] = np.nan
    assert np.isnan(transformed(parts, schema, "a")[1]).tolist() == [False, True, *[False] * 4]


def bounded(table, **options):
    """The columns a and b of a table with a third column c, which has no bound."""
    schema = Schema(("a", "b", "c"), {"s": table.shape[0]}, transforms={"a": "bounded", "b": "bounded"}, **options)
    return transformed(table, schema, "s")


def test_a_far_number_is_bounded_if_it_is_alone_in_its_row():
    table = np.random.default_rng(3).normal(size=(2000, 3))
    centre = np.median(table, axis=0)
    typical = np.quantile(np.abs(table - centre), 0.99, axis=0, method="lower")
    table[5, 0] = centre[0] - 11 * typical[0]  # far, and alone
    table[6, 0] = centre[0] - 9 * typical[0]  # not far
    table[7, 0], table[7, 2] = centre[0] + 50 * typical[0], centre[2] + 3.5 * typical[2]  # far, and not alone
    table[8, :2] = 1e9  # not alone, and beyond what any distribution has
    table[9, 2] = 1e9  # in a column without a bound
    table[10, 0] = np.nan
    found = bounded(table)
    changed = (found != table) & ~np.isnan(table)
    assert sorted(map(tuple, np.argwhere(changed).tolist())) == [(5, 0), (8, 0), (8, 1)]
    expected = [centre[0] - typical[0], centre[0] + typical[0], centre[1] + typical[1]]
    np.testing.assert_allclose(found[changed], expected, rtol=0.05)
    assert np.isnan(found[10, 0])


def test_bounds_in_passes_are_those_in_memory():
    table = np.random.default_rng(4).standard_t(1.2, size=(400, 3))
    table[3, 1] = np.nan
    found = bounded(table)
    assert 0 < (found != table)[~np.isnan(table)].sum() < 40
    np.testing.assert_array_equal(np.concatenate(list(bounded(Passes(table)))), found)


def test_a_single_column_has_a_bound():
    table = np.random.default_rng(5).normal(size=(100, 1))
    table[2] = 1e6
    found = transformed(table, Schema(("a",), {"s": 100}, transforms={"a": "bounded"}), "s")
    assert found.max() < 5


def test_what_is_far_depends_on_what_is_typical():
    rng = np.random.default_rng(6)
    sample = np.column_stack([rng.normal(size=300), rng.normal(size=300), np.zeros(300), np.full(300, np.nan)])
    low, high = np.array([-15.0, -40.0, -1e9, -1e9]), np.array([15.0, 3.0, 1e9, 1e9])
    assert has_far_numbers(sample, low, high).tolist() == [False, True, False, False]
    assert not has_far_numbers(sample[:19], low, high).any()
    assert has_far_numbers(sample[:20], low, high).tolist() == [False, True, False, False]
    assert not has_far_numbers(np.where(np.arange(300)[:, None] < 19, sample, np.nan), low, high).any()


def test_a_bounded_number_is_its_own_inverse():
    values = np.array([-3.0, 1e12])
    assert inverse(apply(values, "bounded"), "bounded").tolist() == values.tolist()
