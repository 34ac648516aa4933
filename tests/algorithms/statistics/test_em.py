"""EM over silos gives the maximum likelihood covariance for any split of rows and any site means."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.anderson import Iteration, anderson_step
from fedbnsl.algorithms.statistics.em import ExpectationMaximisation, build
from fedbnsl.data.federated import with_gaps
from fedbnsl.tasks.transport.in_process import InProcessFederation

NAMES = tuple("abcde")


def silos(seed: int, share: float, shift: float = 0.0, rows: int = 400):
    rng = np.random.default_rng(seed)
    factor = np.triu(rng.uniform(0.5, 1.5, (5, 5)))
    tables = {}
    for k in range(3):
        table = rng.standard_normal((rows + 50 * k, 5)) @ factor + shift * rng.standard_normal(5)
        table[rng.random(table.shape) < share] = np.nan
        tables[f"s{k}"] = table
    return tables, factor.T @ factor


def found(tables, secure: bool = False, **settings):
    schema = with_gaps(Schema(NAMES, {silo: len(table) for silo, table in tables.items()}), tables)
    if secure:
        schema = replace(schema, units=(1.0,) * 5)
    *_, last = rounds(build(ExpectationMaximisation(**settings)), InProcessFederation(schema, tables, secure=secure))
    return last


def log_likelihood(tables, S):
    """The log-likelihood of S with each silo's best mean, by scipy's density of each row's cells."""
    from scipy.stats import multivariate_normal

    total = 0.0
    for table in tables.values():
        precision, weighted = np.zeros((5, 5)), np.zeros(5)
        rows = [np.flatnonzero(~np.isnan(x)) for x in table]
        for x, o in zip(table, rows, strict=True):
            K = np.linalg.inv(S[np.ix_(o, o)])
            precision[np.ix_(o, o)] += K
            weighted[o] += K @ x[o]
        mean = np.linalg.solve(precision, weighted)
        total += sum(
            multivariate_normal.logpdf(x[o], mean[o], S[np.ix_(o, o)])
            for x, o in zip(table, rows, strict=True)
            if len(o)
        )
    return total


@pytest.mark.compiles
def test_no_covariance_near_it_is_likelier():
    tables, _ = silos(1, 0.3, rows=60)
    last = found(tables, tolerance=1e-7, rounds=300)
    rows = sum(map(len, tables.values()))
    S = last.server.covariance * (rows - 3) / rows  # the likelihood divides by all rows
    best = log_likelihood(tables, S)
    rng = np.random.default_rng(0)
    for _ in range(10):
        E = rng.standard_normal((5, 5)) * 0.03
        assert log_likelihood(tables, (np.eye(5) + E) @ S @ (np.eye(5) + E).T) < best + 1e-3


def test_it_comes_near_the_truth_and_counts_the_pairs():
    tables, truth = silos(2, 0.25, shift=10.0, rows=2000)
    server = found(tables).server
    assert np.abs(server.covariance / truth - 1).max() < 0.15
    rows = sum(map(len, tables.values()))
    assert server.rows == pytest.approx(rows * 0.75**2, rel=0.02)


def test_each_silos_means_cost_a_degree_of_freedom():
    tables, _ = silos(8, 0.0, rows=12)
    tables = {silo: table[:12] for silo, table in tables.items()}
    within = sum((t - t.mean(axis=0)).T @ (t - t.mean(axis=0)) for t in tables.values()) / (36 - 3)
    tables["s0"][0, 4] = np.nan
    S = found(tables, tolerance=1e-6).server.covariance
    np.testing.assert_allclose(S[:4, :4], within[:4, :4], rtol=1e-3)


def test_where_sites_stand_makes_no_difference():
    near, _ = silos(3, 0.3)
    far = {silo: table + 100.0 * k for k, (silo, table) in enumerate(near.items())}
    one, other = found(near).server.covariance, found(far).server.covariance
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_masked_it_is_the_same():
    tables, _ = silos(4, 0.2)
    np.testing.assert_allclose(
        found(tables, secure=True).server.covariance, found(tables).server.covariance, rtol=1e-5, atol=1e-5
    )


def test_it_ends_before_long_even_where_columns_nearly_determine_each_other():
    rng = np.random.default_rng(5)
    tables = {}
    for k in range(2):
        cause = rng.standard_normal(1500)
        table = cause[:, None] + 0.05 * rng.standard_normal((1500, 5))
        table[rng.random(table.shape) < 0.3] = np.nan
        tables[f"s{k}"] = table
    last = found(tables)
    assert last.outcome == "converged"
    assert last.number <= 20
    small = np.linalg.eigvalsh(last.server.covariance)[0]
    assert small == pytest.approx(0.05**2, rel=0.15)


def test_a_column_that_never_varies_is_named():
    tables, _ = silos(6, 0.1)
    for table in tables.values():
        table[:, 3] = np.where(np.isnan(table[:, 3]), np.nan, 7.0)
    with pytest.raises(BadInput, match="column 'd' has no variance within any silo"):
        found(tables)


@pytest.mark.parametrize("secure", [False, True])
def test_a_declared_level_that_no_row_has_changes_nothing(secure):
    tables = {name: table.copy() for name, table in silos(8, 0.1)[0].items()}
    for table in tables.values():
        table[:, 4] = np.where(np.isnan(table[:, 4]), np.nan, table[:, 4] > 0)
    own = []
    for levels in (("no", "yes"), ("no", "yes", "divers")):
        rows = {silo: len(table) for silo, table in tables.items()}
        schema = with_gaps(Schema(NAMES, rows, "mixed", {"e": levels}), tables)
        federation = InProcessFederation(replace(schema, units=(1.0,) * 5), tables, secure=secure)
        *_, last = rounds(build(ExpectationMaximisation()), federation)
        assert last.outcome == "converged"
        own.append(last.server.covariance)
    assert own[1][:5, :5] == pytest.approx(own[0], rel=1e-3)
    assert np.linalg.eigvalsh(own[1])[0] > 0
    assert own[1][5, 5] == pytest.approx(0.5 / sum(len(table) for table in tables.values()), rel=1e-3)


def test_acceleration_reaches_the_fixed_point_of_a_slow_iteration_in_few_steps():
    rng = np.random.default_rng(7)
    goal = np.cov(rng.standard_normal((4, 40)))
    rates = rng.uniform(0.5, 0.97, (4, 4))
    rates = np.triu(rates) + np.triu(rates, 1).T

    def step(S):
        return goal + rates * (S - goal)

    iteration, plain = Iteration(goal * 1.2), goal * 1.2
    for _ in range(12):
        iteration, plain = anderson_step(iteration, step(iteration.point)), step(plain)
    error, unhelped = np.abs(iteration.point - goal).max(), np.abs(plain - goal).max()
    assert error < 0.05 * unhelped
