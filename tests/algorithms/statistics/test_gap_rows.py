"""Effective numbers of rows with empty cells, in EM and in expected moments, recomputed by pandas from pooled rows."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation, build
from fedbnsl.algorithms.statistics.expected_moments import own_moments
from fedbnsl.data.federated import with_gaps
from tests.algorithms.losing import Losing, last_of

NAMES = tuple("abcd")
SHARES = np.array([0.05, 0.2, 0.35, 0.5])
"""of empty cells, by column"""


def holed(sizes, seed=0):
    """Silos of unequal rows, means and shares of empty cells, and their schema."""
    rng, tables = np.random.default_rng(seed), {}
    for k, (silo, n) in enumerate(sizes.items()):
        table = rng.standard_normal((n, 4)) @ np.triu(np.ones((4, 4))) + 7 * k
        table[rng.random(table.shape) < SHARES * (1 + 0.3 * k)] = np.nan
        tables[silo] = table
    return tables, with_gaps(Schema(NAMES, {silo: len(table) for silo, table in tables.items()}), tables)


def pairs_together(tables):
    """The mean over all pairs of columns of the rows in which both cells are there."""
    rows = pd.concat([pd.DataFrame(table, columns=NAMES) for table in tables.values()])
    return np.mean([rows[list(pair)].dropna().shape[0] for pair in combinations(NAMES, 2)])


def by_em(schema, tables, lost=None, **settings):
    algorithm = build(ExpectationMaximisation(**settings))
    return last_of(algorithm, Losing(schema, tables, lost or {})).server


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_worth_the_mean_of_all_pairs_of_columns(seed):
    tables, schema = holed({"s": 60, "t": 150, "u": 240}, seed)
    assert by_em(schema, tables, rounds=2).rows == round(pairs_together(tables))


def test_one_column_is_worth_its_own_cells():
    table = np.array([[1.0], [np.nan], [3.0], [5.0]])
    schema = with_gaps(Schema(("a",), {"s": 4}), {"s": table})
    assert by_em(schema, {"s": table}, rounds=2).rows == 3


def test_a_lost_silo_leaves_the_covariance_of_the_others_and_their_share_of_cells():
    tables, schema = holed({"s": 60, "t": 150, "u": 240})
    left = {silo: table for silo, table in tables.items() if silo != "t"}
    alone = with_gaps(Schema(NAMES, {silo: len(table) for silo, table in left.items()}), left)
    found, expected = (by_em(*given) for given in ((schema, tables, {"t": 1}), (alone, left)))
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)
    assert found.rows / 450 == pytest.approx(expected.rows / 300, abs=2 / 300)


@pytest.mark.parametrize("name", ["secure-linear", "secure-sum"])
def test_a_silo_lost_before_and_in_the_run_leaves_what_the_others_would_have_found(name):
    tables, schema = holed({"s": 60, "t": 150, "u": 240})
    left = {silo: table for silo, table in tables.items() if silo != "t"}
    alone = with_gaps(Schema(NAMES, {silo: len(table) for silo, table in left.items()}), left)
    learner = replace(registry.build(registry.specify(name)), needs_secure_sum=False)
    found = []
    for known, given, lost in ((schema, tables, {"t": 1}), (alone, left, {})):
        known = replace(known, imputation_model=by_em(known, given, lost, tolerance=1e-4).imputation_model)
        found.append(last_of(learner, Losing(known, given, lost)).server)
    one, other = found
    np.testing.assert_allclose(one.S, other.S, rtol=1e-9)
    worth = "rows" if name == "secure-linear" else "counted"
    assert getattr(one, worth) == pytest.approx(getattr(other, worth), abs=1)


def test_each_stretch_costs_the_rows_behind_moments_one():
    """A row with gaps counts as a share of a complete row, and so does each mean that was subtracted."""
    tables, _ = holed({"s": 60, "t": 150})
    stretches = {"s": (20, 10, 30), "t": (150,)}
    schema = replace(with_gaps(Schema(NAMES, {"s": 60, "t": 150}), tables), stretches=stretches)
    S = np.cov(np.nan_to_num(np.vstack(list(tables.values()))).T)
    schema = replace(schema, imputation_model=ImputationModel(covariance=S, rows=84))
    assert own_moments(tables["s"], schema, "s")[0] == pytest.approx(84 / 210 * (60 - 3))
    assert own_moments(tables["t"], schema, "t")[0] == pytest.approx(84 / 210 * (150 - 1))


def test_without_gaps_moments_have_the_rows_less_one_a_stretch():
    table = np.random.default_rng(0).standard_normal((60, 4))
    schema = Schema(NAMES, {"s": 60}, stretches={"s": (20, 10, 30)})
    found = own_moments(table, schema, "s")
    parts = [part - part.mean(axis=0) for part in np.split(table, [20, 30])]
    products = sum(part.T @ part for part in parts)
    assert found[0] == 57
    np.testing.assert_allclose(found[-10:], products[np.triu_indices(4)], rtol=1e-9)
