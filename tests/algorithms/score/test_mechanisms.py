"""Classes of conditions that share a mechanism, and the scores of families with them."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.mechanisms import (
    FALSE_CHANGES,
    classes_of,
    parameters_of_tables,
    score_by_mechanism,
    sums_of_numbers,
    sums_of_tables,
)
from fedbnsl.algorithms.score.settings import SearchSettings
from fedbnsl.algorithms.statistics.count_tables import count
from fedbnsl.algorithms.statistics.moments import about_means, pooled_packing

PAIR = Batch(np.array([0, 2, 3]), np.array([1, 0, 0], np.uint16))
"""y given x, and x alone"""


def draw(weights, spreads, n=2000, seed=0):
    """A table of x and y = weight·x + noise for each condition, with offsets of its own."""
    rng, tables = np.random.default_rng(seed), []
    for weight, spread in zip(weights, spreads, strict=True):
        x = spread * rng.normal(size=n)
        tables.append(np.column_stack([x, weight * x + rng.normal(size=n)]) + rng.normal(0, 5, 2))
    return tables


def sums_of(tables, price=0.0):
    own = (pooled_packing(2).pack(rows=len(X) - 1.0, sums=np.zeros(2), products=about_means(X)[1]) for X in tables)
    return sums_of_numbers(np.stack(list(own)), 2, price)


def groups(of_condition):
    """The classes as sets of the numbers of conditions."""
    return {frozenset(np.flatnonzero(of_condition == one).tolist()) for one in of_condition}


def test_conditions_with_one_mechanism_are_one_class_whatever_their_offsets():
    found = classes_of(PAIR, sums_of(draw([1, 1, 1, -0.5, 1], [1, 1, 2, 1, 2])))
    assert groups(found.of_condition[0]) == {frozenset({0, 1, 2, 4}), frozenset({3})}
    assert groups(found.of_condition[1]) == {frozenset({0, 1, 3}), frozenset({2, 4})}
    assert found.number.tolist() == [2, 2]


def test_the_score_is_that_of_least_squares_in_each_class():
    tables, price = draw([1, 1, 0.2], [1, 1, 1], n=400, seed=1), 1.5
    scores = score_by_mechanism(PAIR, sums_of(tables, price))
    centred = [X - X.mean(axis=0) for X in tables]

    def likelihood(conditions):
        X = np.vstack([centred[k] for k in conditions])
        n = len(X) - len(conditions)
        residual = X[:, 1] - X[:, 0] * (X[:, 0] @ X[:, 1]) / (X[:, 0] @ X[:, 0])
        return -n / 2 * math.log((residual**2).sum() / (n - 1))

    per_class = max(0.5 * 2 * math.log(399), 0.5 * chi2.isf(FALSE_CHANGES / 6, 2))
    expected = likelihood([0, 1]) + likelihood([2]) - per_class - math.log(3 * 399) - price
    assert scores[0] == pytest.approx(expected)


def test_the_right_direction_scores_better_where_a_cause_varies():
    """Only the distribution of x changes; in the wrong direction, those of y and of x given y both change."""
    sums = sums_of(draw([1, 1, 1, 1], [1, 1, 1, 3]))
    right = score_by_mechanism(PAIR, sums).sum()
    wrong = score_by_mechanism(Batch(np.array([0, 2, 3]), np.array([0, 1, 1], np.uint16)), sums).sum()
    assert right > wrong + 5


def test_the_classes_of_labels_are_those_of_their_tables():
    rng, tables = np.random.default_rng(2), []
    levels, sets = np.array([2, 3]), np.array([[0, 1]], np.int16)
    for kept in (0.8, 0.8, 0.3):
        x = rng.integers(2, size=1500)
        y = np.where(rng.random(1500) < kept, x, rng.integers(3, size=1500))
        tables.append(count(np.stack([x, y]).astype(np.int16), levels, sets))
    rows = np.full(3, 1500)
    found = classes_of(PAIR, sums_of_tables(np.stack(tables).astype(float), rows, levels, SearchSettings()))
    assert groups(found.of_condition[0]) == {frozenset({0, 1}), frozenset({2})}
    assert found.number.tolist() == [2, 1]
    cells = np.stack(tables).reshape(3, 2, 3)
    expected = 0.0
    for table in (cells[:2].sum(axis=0), cells[2]):
        expected += (table * np.log(table / table.sum(axis=1, keepdims=True))).sum()
    assert found.likelihood[0] == pytest.approx(expected)


def test_the_parameters_of_tables():
    batch = Batch(np.array([0, 2, 5]), np.array([1, 0, 2, 0, 3], np.uint16))
    assert parameters_of_tables(batch, np.array([2, 3, 2, 4])).tolist() == [2 * 2, 8 * 1]
