"""Cells far from the rest of their column or improbable given their row: which are emptied and which are kept."""

from itertools import permutations

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.outliers import farthest_cell, screen, screened, without_far_cells
from fedbnsl.data.federated import FederatedData, continuous, outlier_notes, without_outliers
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.options.learn import LearnOptions


def test_a_cell_is_far_from_six_deviations_on():
    column = np.concatenate([np.linspace(-1, 1, 200_001), [0.0]])
    for deviations, expected in ((5.99, 0), (6.01, 1)):
        column[-1] = deviations * 1.4826 * 0.5  # the median stays 0, and half of the cells are within 0.5
        assert np.isnan(without_far_cells(column)).sum() == expected


def test_the_farthest_cell_has_its_row_and_the_median():
    column = np.array([1.0, 2.0, 50.0, 3.0, -900.0, np.nan, 4.0, 5.0])
    assert farthest_cell(column) == (4, 3.0)
    assert farthest_cell(column[[0, 1, 3, 5, 6]]) is None


def test_no_cell_of_a_column_whose_median_deviation_is_zero_is_far():
    column = np.array([0.0] * 60 + [1.0] * 39 + [1e9])
    assert without_far_cells(column) is column


def test_of_gaussian_columns_next_to_nothing_is_far_or_unlikely():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 6)) @ rng.normal(size=(6, 6))
    assert not any(np.isnan(without_far_cells(column)).any() for column in X.T)
    schema = Schema(tuple("abcdef"), {"s": len(X)})
    assert np.isnan(screen(X, schema, np.cov(X.T))).mean() < 2e-4


def test_a_cell_that_does_not_fit_its_row_is_set_aside_and_its_row_kept():
    rng = np.random.default_rng(1)
    a = rng.normal(size=500)
    X = np.column_stack([a, a + 0.1 * rng.normal(size=500), rng.normal(size=500)])
    schema, S = Schema(("a", "b", "c"), {"s": 500}), np.cov(X.T)
    X[7, 1] = X[7, 0] + 2.0  # within the range of b, far from what a predicts
    X[9, 2] = np.nan
    out = screen(X, schema, S)
    hit = np.argwhere(np.isnan(out)).tolist()
    assert [9, 2] in hit
    assert {row for row, _ in hit} == {7, 9}
    assert sum(row == 7 for row, _ in hit) == 1
    assert np.array_equal(out[~np.isnan(out)], X[~np.isnan(out)])


def test_a_row_from_elsewhere_is_set_aside_as_a_whole_and_a_row_with_a_wrong_cell_is_not():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 12)) @ np.triu(rng.normal(size=(12, 12)))
    schema, S = Schema(tuple("abcdefghijkl"), {"s": 2000}), np.cov(X.T)
    X[5] = 3 * X.std(axis=0) * rng.choice([-1.0, 1.0], 12)
    X[6, 11] += 10 * X[:, 11].std()
    empty = np.isnan(screen(X, schema, S))
    assert empty[5].all()
    assert empty[6].sum() == 1
    assert empty.sum(axis=1)[7:].max() <= 1


def test_of_several_unlikely_cells_of_a_row_the_least_likely_is_set_aside():
    """Wherever it is, and by its deviation, not its size; the others are for the next screen."""
    rng = np.random.default_rng(5)
    scales = np.array([1.0, 100.0, 0.01, 3.0])
    X = rng.normal(size=(400, 4)).clip(-3, 3) * scales
    rows = np.array(list(permutations((9.0, -7.0, 5.5, 0.2))))
    X[: len(rows)] = rows * scales
    schema, S = Schema(tuple("abcd"), {"s": len(X)}), np.diag(scales**2)
    first = screen(X, schema, S)
    np.testing.assert_array_equal(np.isnan(first[: len(rows)]), rows == 9.0)
    assert not np.isnan(first[len(rows) :]).any()
    np.testing.assert_array_equal(np.isnan(screen(first, schema, S)[: len(rows)]), np.abs(rows) >= 7.0)


def test_screens_follow_each_other():
    rng = np.random.default_rng(2)
    a = rng.normal(size=400)
    X = np.column_stack([a, a + 0.1 * rng.normal(size=400), a + 0.1 * rng.normal(size=400)])
    S = np.cov(X.T)
    X[3, 1], X[3, 2] = X[3, 0] + 3, X[3, 0] - 4
    schema = Schema(("a", "b", "c"), {"s": 400})
    once, twice = (
        screened(X, Schema(schema.variables, schema.rows, imputation_model=ImputationModel(screens=(S,) * n)))
        for n in (1, 2)
    )
    assert np.isnan(once[3]).sum() == 1
    assert np.isnan(twice[3]).sum() == 2


def corrupted(seed, noise):
    """Eight silos, with one wrong cell in a hundred."""
    data = homogeneous(variables=10, silos=4, rows=2000, seed=seed)
    rng, tables = np.random.default_rng(seed), {}
    for silo, X in data.tables.items():
        wrong = rng.random(X.shape) < 0.01
        tables[silo] = np.where(wrong, X + noise * X.std(axis=0) * rng.choice([-1, 1], X.shape), X)
    return FederatedData(data.schema, tables, data.truth)


@pytest.mark.parametrize("noise", [30.0, 7.0])
def test_one_wrong_cell_in_a_hundred_does_no_harm_once_set_aside(noise):
    data = corrupted(3, noise)
    kept = learn(data, parameters=False, diagnose=False)
    aside = learn(data, parameters=False, diagnose=False, outliers="set-aside")
    assert aside.metrics["shd"] == 0
    assert kept.metrics["shd"] > 3


def test_the_advice_of_the_diagnosis_works_on_that_data(tmp_path):
    data = corrupted(4, 30.0)
    write_folder(tmp_path / "data", data)
    first = learn(tmp_path / "data", parameters=False)
    found = {one.name: one for one in first.result.diagnosed.findings}
    assert "--outliers set-aside" in found["outliers"].advice
    second = learn(tmp_path / "data", parameters=False, outliers="set-aside")
    assert second.metrics["shd"] == 0
    assert "outliers" not in {one.name for one in second.result.diagnosed.findings}


def test_a_folder_and_tables_in_memory_give_the_same(tmp_path):
    data = corrupted(5, 30.0)
    write_folder(tmp_path / "data", data)
    one = learn(data, parameters=False, diagnose=False, outliers="set-aside").result.structure
    two = learn(tmp_path / "data", parameters=False, diagnose=False, outliers="set-aside").result.structure
    assert np.array_equal(one.weights, two.weights)


def test_what_is_set_aside_is_reported_by_column_and_silo_in_classes():
    schema = Schema(("x", "y"), {"a": 100, "b": 100})
    (note,) = outlier_notes(schema, {"a": (7, 0), "b": (2, 0)})
    assert note == "outliers: 1-5 % of the cells are set aside, mostly x of a (5-20 %)"
    assert outlier_notes(schema, {"a": (2, 1), "b": (0, 0)}) == (
        "outliers: hardly any cell is far from the others of its column",
    )
    tables = {"a": np.concatenate([np.random.default_rng(0).normal(size=(97, 2)), np.full((3, 2), 1e6)])}
    data = FederatedData(continuous(tables, ("x", "y")), tables)
    assert without_outliers(data).notes == (
        "outliers: 1-5 % of the cells are set aside, mostly y of a (1-5 %), x of a (1-5 %)",
    )
    assert without_outliers(data).schema.empty == {"a": (3, 3)}


def test_where_outliers_cannot_be_set_aside_one_line_says_so(tmp_path):
    data = corrupted(6, 30.0)
    with pytest.raises(BadInput, match="with an ε, values are clipped instead"):
        learn(data, epsilon=8.0, outliers="set-aside")
    with pytest.raises(BadInput, match="needs complete tables"):
        learn(data, "notears", outliers="set-aside")
    with pytest.raises(BadInput, match="missing='refuse' allows no empty cell"):
        learn(data, missing="refuse", outliers="set-aside")
    assert LearnOptions().outliers == "keep"
