"""secure-linear on tables with gaps: the covariance by EM, effective rows, and directions from observed cells."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.moments.non_gaussian import GAMMA, contrast_sums, contrasts, dependences
from fedbnsl.algorithms.statistics import em
from fedbnsl.data.federated import with_gaps
from fedbnsl.tasks.transport.in_process import InProcessFederation

EDGES = np.array([[0, 1], [1, 2]], np.int32)
RHO = np.array([0.4, -0.3])


def test_rows_without_a_cell_that_an_edge_needs_count_as_the_mean_of_the_others():
    rng = np.random.default_rng(1)
    table, standard = rng.standard_normal((200, 3)), np.eye(3)
    standard[0, 1] = -0.5  # what is left of the second needs the first, too
    holed = table.copy()
    holed[:60, 0] = np.nan
    holed[150:, 2] = np.nan
    found = contrast_sums(holed, standard, EDGES, RHO)
    of_first = contrast_sums(table[60:], standard, EDGES[:1], RHO[:1])
    of_second = contrast_sums(table[60:150], standard, EDGES[1:], RHO[1:])
    np.testing.assert_allclose(found[0], of_first[0] * 200 / 140)
    np.testing.assert_allclose(found[1], of_second[0] * 200 / 90)


def test_an_edge_that_no_row_has_the_cells_for_counts_as_gaussian():
    table = np.full((50, 3), np.nan)
    table[:25, 0] = table[25:, 1] = 1.0
    means = contrast_sums(table, np.eye(3), EDGES[:1], RHO[:1]) / 50
    np.testing.assert_allclose(means[:, :8], [[GAMMA, 0.0] * 4])
    assert (contrasts(means), *dependences(means)[0]) == pytest.approx((0.0, 0.0, 0.0))


def test_the_server_learns_from_the_covariance_of_em_as_if_from_fewer_rows():
    rng = np.random.default_rng(2)
    tables = {silo: rng.standard_normal((300, 4)) @ np.triu(np.ones((4, 4))) + 5 * k for k, silo in enumerate("ab")}
    for table in tables.values():
        table[rng.random(table.shape) < 0.3] = np.nan
    schema = with_gaps(Schema(tuple("wxyz"), dict.fromkeys("ab", 300)), tables)
    *_, ended = rounds(em.build(em.ExpectationMaximisation(tolerance=1e-6)), InProcessFederation(schema, tables))
    schema = replace(schema, imputation_model=ended.server.imputation_model)
    learner = registry.build(registry.specify("secure-linear"))
    *_, last = rounds(learner, InProcessFederation(schema, tables))
    np.testing.assert_allclose(last.server.S, ended.server.covariance, rtol=1e-3)
    assert last.server.rows == round(598 * ended.server.rows / 600)
    assert 250 < last.server.rows < 340
