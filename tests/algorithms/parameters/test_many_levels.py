"""Labels with many levels: curvature of a logistic regression in blocks, errors of effects, and the time they take."""

import time

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.parameters import mixed_families
from fedbnsl.algorithms.parameters.distributions import softmax
from fedbnsl.algorithms.parameters.mixed_families import logistic_curvature


@pytest.mark.parametrize("cells", [1, 64, 1 << 21])
def test_the_curvature_is_that_of_the_definition_whatever_the_blocks(monkeypatch, cells):
    monkeypatch.setattr(mixed_families, "BLOCK_CELLS", cells)
    rng = np.random.default_rng(0)
    X, weights = np.column_stack([np.ones(40), rng.normal(size=(40, 2))]), rng.normal(size=(4, 3))
    P = softmax(np.column_stack([np.zeros(40), X @ weights.T]))[:, 1:]
    expected = np.zeros((12, 12))
    for x, p in zip(X, P, strict=True):
        expected += np.kron(np.diag(p) - np.outer(p, p), np.outer(x, x))
    assert np.allclose(logistic_curvature(X, P), expected)


def many_levels(rows, levels, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.integers(levels, size=rows)
    a = rng.normal(size=levels)[city] + rng.normal(size=rows)
    return pd.DataFrame({"city": [f"c{k:03d}" for k in city], "a": a, "b": 0.5 * a + rng.normal(size=rows)})


def test_a_hundred_levels_take_seconds():
    tables = {f"s{k}": many_levels(3000, 100, seed=0).sample(frac=1, random_state=k) for k in range(3)}
    learn({silo: table[:300] for silo, table in tables.items()}, bootstrap=0)  # compiles
    begin = time.process_time()
    found = learn(tables, bootstrap=0).result
    assert time.process_time() - begin < 15
    assert found.structure.adjacency.any()


def test_an_effect_on_a_label_has_the_error_of_the_delta_method():
    """The derivatives of the mean probabilities are those of finite differences."""
    from fedbnsl.algorithms.effects.g_formula import _mean_slopes

    rng = np.random.default_rng(1)
    X, weights = np.column_stack([np.ones(60), rng.normal(size=60)]), rng.normal(size=(3, 2))

    def means(w):
        return softmax(np.column_stack([np.zeros(60), X @ w.T])).mean(axis=0)

    P = softmax(np.column_stack([np.zeros(60), X @ weights.T]))
    steps = np.eye(6).reshape(6, 3, 2) * 1e-6
    expected = np.stack([(means(weights + step) - means(weights - step)) / 2e-6 for step in steps], axis=1)
    assert np.allclose(_mean_slopes(P, X), expected, atol=1e-8)
