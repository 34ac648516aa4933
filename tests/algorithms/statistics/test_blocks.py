"""Correlations of coded tables: log determinants against numpy, and the columns that are left out."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.coding import RARE_LEVEL_ROWS, blocks_of, coding_of, log_residual_det
from fedbnsl.algorithms.statistics.moments import centred_moments
from fedbnsl.data.generators.mixed import mixed


def blocks_of_table(table, levels, silos=1):
    names = tuple("abcdef"[: table.shape[1]])
    schema = Schema(names, {"s": len(table)}, "mixed", {names[j]: tuple("uvwxyz"[:k]) for j, k in levels.items()})
    coding = coding_of(schema)
    parts = np.array_split(table, silos)
    return blocks_of(sum(centred_moments(coding.encode(part), (len(part),)) for part in parts), coding)


def labelled(counts, seed=0):
    """A table of a number and a label with the given numbers of rows by level."""
    codes = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=len(codes)), rng.permutation(codes)])


def columns(blocks, members):
    return np.concatenate([np.arange(blocks.first[v], blocks.first[v + 1]) for v in members] or [[]]).astype(int)


def logdet(blocks, members):
    at = columns(blocks, members)
    return np.linalg.slogdet(blocks.R[np.ix_(at, at)])[1] if len(at) else 0.0


@pytest.mark.parametrize("seed", range(4))
def test_what_parents_leave_is_a_difference_of_log_determinants(seed):
    data = mixed(6, 3, 300, seed, edges=8, levels=(2, 5))
    coding = coding_of(data.schema)
    blocks = blocks_of(sum(centred_moments(coding.encode(t), (len(t),)) for t in data.tables.values()), coding)
    assert blocks.rows == 900 - 3
    rng = np.random.default_rng(seed)
    for _ in range(20):
        child, *parents = rng.permutation(6)[: rng.integers(1, 6)]
        expected = logdet(blocks, [*parents, child]) - logdet(blocks, parents)
        got = log_residual_det(blocks.R, blocks.first, child, np.array(parents, np.int64))
        assert got == pytest.approx(expected, abs=1e-9)


def test_correlations_are_those_of_columns_about_each_silos_means():
    table = labelled((300, 200, 100))
    blocks = blocks_of_table(table, {1: 3}, silos=2)
    coded = np.column_stack([table[:, 0], table[:, 1] == 1, table[:, 1] == 2])
    centred = np.concatenate([part - part.mean(axis=0) for part in np.array_split(coded, 2)])
    np.testing.assert_allclose(blocks.R, np.corrcoef(centred.T), atol=1e-12)
    assert blocks.first.tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ((300, 200, RARE_LEVEL_ROWS - 1), [(0, 2), (1,)]),  # the rare level is merged with the first
        ((RARE_LEVEL_ROWS - 1, 300, 200), [(0, 1), (2,)]),  # a rare first level is merged with the most frequent one
        ((RARE_LEVEL_ROWS - 1, 200, 300), [(0, 2), (1,)]),
        ((300, 200, 100), [(0,), (1,), (2,)]),
    ],
)
def test_rare_levels_are_merged(counts, groups):
    table = labelled(counts)
    merged = np.column_stack([table[:, 0], [next(g for g, of in enumerate(groups) if c in of) for c in table[:, 1]]])
    one, other = blocks_of_table(table, {1: 3}), blocks_of_table(merged, {1: len(groups)})
    assert one.first.tolist() == [0, 1, len(groups)]
    # The level without an indicator is arbitrary, but the residual of the number given the label is not.
    left = [log_residual_det(b.R, b.first, 0, np.array([1])) for b in (one, other)]
    assert left[0] == pytest.approx(left[1], abs=1e-12)


def test_a_variable_that_tells_nothing_has_no_column():
    table = np.column_stack([labelled((400, RARE_LEVEL_ROWS)), np.full(400 + RARE_LEVEL_ROWS, 7.5)])
    blocks = blocks_of_table(table, {1: 2})
    assert blocks.first.tolist() == [0, 1, 1, 1]
    assert log_residual_det(blocks.R, blocks.first, 1, np.array([0])) == 0.0
    assert log_residual_det(blocks.R, blocks.first, 0, np.array([1, 2])) == 0.0


def test_a_column_that_another_determines_is_left_no_less_than_rounding():
    table = labelled((200, 200, 200))
    table = np.column_stack([table, (table[:, 1] + 1) % 3])
    blocks = blocks_of_table(table, {1: 3, 2: 3})
    assert log_residual_det(blocks.R, blocks.first, 2, np.array([1])) == pytest.approx(2 * np.log(1e-10))
    both, one = (log_residual_det(blocks.R, blocks.first, 0, np.array(given)) for given in ([1, 2], [1]))
    assert both == pytest.approx(one, abs=1e-9)
