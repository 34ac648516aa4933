"""The server's cache of counts: scores from corners equal scores from rows, and no corner is requested twice."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.score.discrete import EXCLUDED_SCORE, create_criterion, score_rows
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.known_counts import no_counts
from fedbnsl.algorithms.score.secure_search import secure_boss, secure_ges
from fedbnsl.algorithms.score.settings import ScoreSettings, SecureSearch
from fedbnsl.algorithms.statistics.corner_counts import count_corners


def families(*members):
    return Batch(np.cumsum([0, *map(len, members)]), np.array([v for one in members for v in one], np.uint16))


@pytest.mark.compiles
@settings(deadline=None, max_examples=40)
@given(
    batches=st.lists(
        st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), min_size=1, max_size=8),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 999),
    criterion=st.sampled_from(["bdeu", "bic"]),
)
def test_scores_are_those_of_the_rows_in_any_exchange(batches, seed, criterion):
    rng = np.random.default_rng(seed)
    levels = rng.integers(1, 5, 6)
    columns = (rng.random((6, 300)) ** 3 * levels[:, None]).astype(np.int16)
    of_score = ScoreSettings(score=criterion)
    by, known, asked = create_criterion(of_score, 6, 300), no_counts(6), set()
    for batch in (families(*one) for one in batches):
        known = known.requesting(batch, levels, 40)
        requested = [tuple(v for v in one if v >= 0) for one in known.requested.tolist()]
        assert not asked & set(requested)
        assert len(set(requested)) == len(requested)
        asked |= set(requested)
        if requested:
            total = count_corners(columns, levels, known.requested, known.common)
            known = known.with_sum(total.astype(np.float64) + 1e-4, levels, 300)
        found = known.scores(batch, levels, 300, by, 40)
        np.testing.assert_array_equal(found, score_rows(columns, levels, batch, of_score, 40))
        wide = [math.prod(levels[batch.members[a:b]]) > 40 for a, b in zip(batch.first, batch.first[1:], strict=False)]
        np.testing.assert_array_equal(found == EXCLUDED_SCORE, wide)


def test_the_common_levels_are_those_of_most_rows():
    levels = np.array([3, 2, 4])
    columns = np.array([[2, 2, 2, 0, 1], [0, 1, 1, 1, 0], [0, 0, 3, 3, 3]], np.int16)
    known = no_counts(3).requesting(families((0, 1), (2,)), levels, 100)
    known = known.with_sum(count_corners(columns, levels, known.requested, known.common), levels, 5)
    assert known.common.tolist() == [2, 1, 3]
    again = count_corners(columns, levels, np.array([[0, -1], [1, -1], [0, 1], [2, -1]], np.int16), known.common)
    np.testing.assert_array_equal(known.cells, again)


def test_a_set_is_found_after_the_tree_has_grown():
    """More sets than the first tree has room for are requested once, and all of them are found again."""
    levels, d = np.full(60, 2), 60
    pairs = families(*((x, y) for y in range(d) for x in range(y)))
    known = no_counts(d).requesting(pairs, levels, 100)
    requested = [tuple(v for v in one if v >= 0) for one in known.requested.tolist()]
    assert len(requested) == len(set(requested)) == d + d * (d - 1) // 2
    assert len(requested) > 1024
    columns = (np.random.default_rng(0).random((d, 50)) < 0.4).astype(np.int16)
    known = known.with_sum(count_corners(columns, levels, known.requested, known.common), levels, 50)
    again = known.requesting(pairs, levels, 100)
    assert not len(again.requested)
    by, of_score = create_criterion(ScoreSettings(), d, 50), ScoreSettings()
    np.testing.assert_array_equal(
        again.scores(pairs, levels, 50, by, 100), score_rows(columns, levels, pairs, of_score, 100)
    )


@pytest.mark.parametrize("search", [secure_boss, secure_ges])
def test_a_run_counts_each_set_once(search, drawing):
    """This includes the last exchanges, whose families are subsets of sets counted for other families."""
    algorithm, drawn = search(SecureSearch(lookahead=2)), drawing(8, 1500, 3)
    federation, requested = drawn.dealt(3), []
    for progress in rounds(algorithm, federation):
        if not progress.server.done:
            pending = algorithm.broadcast(progress.server).sets
            requested += [tuple(v for v in one if v >= 0) for one in pending.tolist()]
    assert len(requested) > 50
    assert len(set(requested)) == len(requested)
    assert {len(one) for one in requested} >= {3, 4}


@pytest.mark.parametrize("rows", [200, 255, 256, 65_535, 65_536, 200_000])
def test_counts_of_any_number_of_rows_are_exact(rows):
    """Cells are kept in the smallest type that has room for all rows, also after later exchanges."""
    levels, known = np.array([2, 3]), no_counts(2)
    columns = np.stack([np.arange(rows) < rows // 3, np.minimum(np.arange(rows) // max(rows // 2, 1), 2)])
    columns = columns.astype(np.int16)
    by, of_score = create_criterion(ScoreSettings(), 2, rows), ScoreSettings()
    for batch in (families((0,)), families((1,), (0, 1))):
        known = known.requesting(batch, levels, 100)
        if len(known.requested):
            total = count_corners(columns, levels, known.requested, known.common)
            known = known.with_sum(total.astype(np.float64), levels, rows)
        np.testing.assert_array_equal(
            known.scores(batch, levels, rows, by, 100), score_rows(columns, levels, batch, of_score, 100)
        )
