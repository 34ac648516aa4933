"""The contribution of each edge to the fit, against regressions and count tables over the pooled rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis import implied_tables
from fedbnsl.algorithms.diagnosis.edge_figures import Bdeu, figures_of_moments, figures_of_tables, keys_of
from fedbnsl.algorithms.score.discrete import create_criterion, score_rows
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.settings import ScoreSettings
from tests.algorithms.diagnosis.test_implied import SIZES, random_dag, silos_of


def residuals(silo, rows, y, given):
    """The residual sum of squares of a regression of column `y` on `given`, with an intercept for each silo."""
    design = np.column_stack([np.eye(len(SIZES))[silo], rows[:, given]])
    return np.linalg.lstsq(design, rows[:, y])[1][0], design.shape[1]


def test_numbers_are_compared_as_regressions_with_and_without_the_edge():
    rng = np.random.default_rng(3)
    dag = random_dag(rng, 7)
    owners = np.array([0, 1, 2, 3, 4, 5, 6, 6])  # the last variable has labels, and two columns
    tables = [np.column_stack([table, rng.normal(size=len(table))]) for table in silos_of(dag, rng)]
    dag[:, 6], dag[6, :] = False, False
    dag[6, 2] = True
    tables = [table + 0.3 * np.outer(table[:, 7], np.eye(8)[2]) for table in tables]
    rows, silo = np.vstack(tables), np.repeat(np.arange(len(SIZES)), SIZES)
    centred = np.vstack([table - table.mean(axis=0) for table in tables])
    n, numeric = len(rows), np.arange(7) < 6
    found = figures_of_moments(centred.T @ centred / n, n, len(SIZES), dag, owners, numeric)
    assert set(found) == {(i, j) for i, j in np.argwhere(dag) if numeric[j]}
    for (i, j), one in found.items():
        parents = np.flatnonzero(dag[:, j])
        others = np.flatnonzero(np.isin(owners, parents[parents != i]))
        own = np.flatnonzero(owners == i)
        less, _ = residuals(silo, rows, j, others)
        more, used = residuals(silo, rows, j, [*others, *own])
        gain = n / 2 * math.log(less / more)
        assert one.log_likelihood == pytest.approx(gain, rel=1e-9)
        assert one.bic == pytest.approx(gain - 0.5 * math.log(n) * len(own), rel=1e-9)
        F = (less - more) / len(own) / (more / (n - used))
        assert one.p_value == pytest.approx(stats.f.sf(F, len(own), n - used), rel=1e-6)


def counted(dag, codes, levels):
    """The server of the fit after the exchange of one silo with the rows `codes`."""
    names = tuple(f"v{k}" for k in range(len(dag)))
    labels = {name: tuple("abc"[:k]) for name, k in zip(names, levels, strict=True)}
    schema = Schema(names, {"all": len(codes)}, "discrete", labels)
    server, counts = implied_tables.start(schema, dag), []
    for members in server.sets:
        chosen = [v for v in members if v >= 0]
        table = np.zeros([levels[v] for v in chosen], int)
        np.add.at(table, tuple(codes[:, chosen].T), 1)
        counts.append(table.ravel())
    return replace(server, counts=np.concatenate(counts))


def test_labels_are_compared_by_their_tables_and_scored_as_the_search_does():
    rng, levels = np.random.default_rng(8), [2, 3, 2, 3]
    codes = np.column_stack([rng.integers(k, size=900) for k in levels])
    codes[:, 3] = np.where(rng.random(900) < 0.7, codes[:, 1], codes[:, 3])
    dag = np.zeros((4, 4), bool)
    dag[[0, 1], 3] = dag[2, 0] = True
    settings = ScoreSettings(ess=2.0, expected_parents=1.0)
    price = -float(np.diff(create_criterion(settings, 4, 900).prior[:2])[0])
    found = figures_of_tables(counted(dag, codes, levels), Bdeu(2.0, price), blank=False)
    assert set(found) == {(0, 3), (1, 3), (2, 0)}
    for (i, j), one in found.items():
        others = [v for v in np.flatnonzero(dag[:, j]).tolist() if v != i]
        state = codes[:, others] @ (3 ** np.arange(len(others)))
        gain, degrees = 0.0, 0
        for value in np.unique(state):
            table = np.zeros((levels[i], levels[j]))
            np.add.at(table, tuple(codes[state == value][:, [i, j]].T), 1)
            g, _, df, _ = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
            gain, degrees = gain + g / 2, degrees + df
        assert one.log_likelihood == pytest.approx(gain, rel=1e-9)
        assert one.bic == pytest.approx(gain - 0.5 * math.log(900) * degrees, rel=1e-9)
        families = [[j, *others], sorted([i, *others])]
        members = np.array([*families[0], j, *families[1]], np.uint16)
        batch = Batch(np.array([0, len(families[0]), len(members)]), members)
        without, with_edge = score_rows(codes.T.astype(np.int16), np.array(levels), batch, settings)
        assert one.score == pytest.approx(with_edge - without, rel=1e-9)
    assert found[1, 3].p_value < 1e-50 < found[2, 0].p_value


def test_keys_name_the_lag_and_do_not_depend_on_the_direction_within_a_step():
    dag = np.zeros((4, 4), bool)
    dag[1, 0] = dag[2, 1] = True
    assert keys_of(dag, ("b", "a"), 1) == {(1, 0): ("a", "b", 0), (2, 1): ("b", "a", 1)}
