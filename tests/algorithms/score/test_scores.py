"""BDeu, BIC and Gaussian BIC against pgmpy, closed forms and each other."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pgmpy.structure_score import BIC, BDeu

from fedbnsl.algorithms.score import discrete
from fedbnsl.algorithms.score.discrete import EXCLUDED_SCORE, create_criterion, score_rows, score_tables, sets_of
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.gaussian import score_moments
from fedbnsl.algorithms.score.settings import ScoreSettings, SearchSettings
from fedbnsl.algorithms.statistics.count_tables import count_occurring
from fedbnsl.algorithms.statistics.moments import pooled_moments

CHECKED = settings(deadline=None, max_examples=20)


def batch(*families):
    first = np.cumsum([0, *map(len, families)])
    return Batch(first, np.array([v for family in families for v in family], np.uint16))


@st.composite
def tables(draw):
    """Rows in which every level of every variable occurs, and a family of them."""
    d, rows = draw(st.integers(2, 6)), draw(st.integers(4, 60))
    levels = np.array(draw(st.lists(st.integers(1, 4), min_size=d, max_size=d)))
    table = np.random.default_rng(draw(st.integers(0, 10**6))).integers(0, levels, (rows, d))
    for v in range(d):
        table[: levels[v], v] = np.arange(levels[v])
    family = draw(st.permutations(range(d)))[: draw(st.integers(1, d))]
    return table, levels, (family[0], *sorted(family[1:]))


def pgmpys(score, table, levels, family, **settings):
    frame = pd.DataFrame({str(v): table[:, v].astype(str) for v in range(len(levels))})
    names = {str(v): [str(level) for level in range(levels[v])] for v in range(len(levels))}
    return score(frame, state_names=names, **settings).local_score(str(family[0]), tuple(map(str, family[1:])))


def mine(table, levels, family, most=math.inf, **settings):
    columns = np.ascontiguousarray(table.T, np.int16)
    return score_rows(columns, levels, batch(family), ScoreSettings(expected_parents=0, **settings), most)[0]


class TestPgmpy:
    @CHECKED
    @given(data=tables(), ess=st.sampled_from([0.5, 1.0, 10.0]))
    def test_bdeu(self, data, ess):
        assert mine(*data, ess=ess) == pytest.approx(pgmpys(BDeu, *data, equivalent_sample_size=ess), abs=1e-8)

    @CHECKED
    @given(data=tables())
    def test_bic(self, data):
        assert mine(*data, score="bic") == pytest.approx(pgmpys(BIC, *data), abs=1e-8)


@pytest.mark.parametrize("score", ["bdeu", "bic"])
class TestHoweverItIsCounted:
    """Counts by cells, by occurring states, or from a larger table give the same score bit for bit."""

    def test_wide_families_are_scored_as_narrow_ones(self, score, monkeypatch):
        @CHECKED
        @given(data=tables())
        def check(data):
            cell_by_cell = mine(*data, score=score)
            with monkeypatch.context() as patched:
                patched.setattr(discrete, "MAX_DENSE_CELLS", 0)
                assert mine(*data, score=score) == cell_by_cell

        check()

    @CHECKED
    @given(data=tables())
    def test_a_table_over_one_variable_more_scores_a_family(self, score, data):
        table, levels, family = data
        others = [v for v in range(len(levels)) if v not in family]
        more = (*sorted((*family, *others[:1])),)
        asked = batch(family, more)
        shared = sets_of(asked, levels, 1e9)
        assert len(shared.sets) == 1
        whole = np.zeros(levels[list(more)], np.int64)
        np.add.at(whole, tuple(table[:, list(more)].T), 1)
        settings = SearchSettings(expected_parents=0, score=score)
        by = create_criterion(settings, len(levels), len(table))
        assert score_tables(whole.ravel(), asked, levels, by, settings)[0] == mine(*data, score=score)

    def test_states_beyond_any_integer(self, score):
        """70 parents of 8 levels: 2^210 states, of which each row has its own."""
        rng = np.random.default_rng(0)
        table = rng.integers(0, 8, (50, 71))
        levels = np.full(71, 8)
        family = (70, *range(70))
        q, r = 8.0**70, 8
        alone = math.log(1 / r) if score == "bdeu" else 0.0  # a row alone in its state
        expected = 50 * alone - (0 if score == "bdeu" else 0.5 * math.log(50) * q * (r - 1))
        assert mine(table, levels, family, score=score) == pytest.approx(expected, rel=1e-9)

    def test_a_family_of_too_many_cells_is_not_considered(self, score):
        table, levels = np.zeros((5, 3), np.int64), np.array([2, 3, 4])
        assert mine(table, levels, (0, 1, 2), most=23, score=score) == EXCLUDED_SCORE
        assert mine(table, levels, (0, 1, 2), most=24, score=score) > EXCLUDED_SCORE


def test_states_are_ranked_in_order_even_where_codes_would_overflow():
    rng = np.random.default_rng(1)
    columns = rng.integers(0, 3, (45, 30)).astype(np.int16)
    columns[:40, 10:] = columns[:40, :20]  # rows 10-29 repeat the parents of rows 0-19
    parents = np.arange(44, dtype=np.uint16)
    state, count = count_occurring(columns, np.full(45, 3), parents, 44)
    rows = pd.DataFrame(columns.T).groupby([*range(44), 44]).size()
    np.testing.assert_array_equal(count, rows.to_numpy())
    np.testing.assert_array_equal(state, rows.groupby(level=[*range(44)]).ngroup().to_numpy())


class TestProperties:
    @CHECKED
    @given(data=tables(), score=st.sampled_from(["bdeu", "bic"]))
    def test_turning_a_covered_edge_changes_nothing(self, data, score):
        table, levels, family = data
        x, y, shared = family[0], family[-1], family[1:-1]
        if x == y:
            return
        one = mine(table, levels, (x, *shared), score=score) + mine(
            table, levels, (y, *sorted((*shared, x))), score=score
        )
        two = mine(table, levels, (y, *shared), score=score) + mine(
            table, levels, (x, *sorted((*shared, y))), score=score
        )
        assert one == pytest.approx(two, abs=1e-8)

    def test_the_prior_is_of_each_other_variable_being_a_parent(self):
        prior = create_criterion(ScoreSettings(expected_parents=1), 11, 100).prior
        p = 1 / 10
        np.testing.assert_allclose(prior, [k * math.log(p) + (10 - k) * math.log(1 - p) for k in range(11)])
        chances = sum(math.comb(10, k) * math.exp(prior[k]) for k in range(11))
        assert chances == pytest.approx(1)
        np.testing.assert_allclose(np.diff(prior), -math.log(9))
        assert not create_criterion(ScoreSettings(expected_parents=0), 11, 100).prior.any()

    def test_the_prior_of_two_or_one_variables_is_no_trap(self):
        assert np.isfinite(create_criterion(ScoreSettings(), 2, 10).prior).all()
        assert np.isfinite(create_criterion(ScoreSettings(expected_parents=50), 3, 10).prior).all()
        assert np.isfinite(create_criterion(ScoreSettings(), 1, 10).prior).all()


class TestGaussian:
    def rows(self, seed=0, n=40, d=5):
        rng = np.random.default_rng(seed)
        return rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + rng.standard_normal(d)

    @pytest.mark.parametrize("family", [(0,), (2, 0), (4, 0, 1, 3)])
    def test_it_is_the_likelihood_of_least_squares(self, family):
        table = self.rows()
        n, child, parents = len(table), family[0], list(family[1:])
        design = np.column_stack([np.ones(n), table[:, parents]])
        residual = table[:, child] - design @ np.linalg.lstsq(design, table[:, child], rcond=None)[0]
        variance = residual @ residual / n
        density = -0.5 * n * math.log(2 * math.pi * variance) - 0.5 * residual @ residual / variance
        expected = density - 0.5 * math.log(n) * (len(parents) + 2)
        assert score_moments(pooled_moments(table), 5, batch(family))[0] == pytest.approx(expected, abs=1e-8)

    def test_moments_of_silos_add_up(self):
        table = self.rows()
        parts = sum(pooled_moments(part) for part in np.split(table, [7, 19]))
        asked = batch((1, 0, 3), (0,))
        np.testing.assert_allclose(
            score_moments(parts, 5, asked), score_moments(pooled_moments(table), 5, asked), rtol=1e-10
        )

    def test_a_parent_that_the_others_determine_adds_nothing_but_its_price(self):
        table = self.rows()
        table[:, 3] = 2 * table[:, 0] - table[:, 1] + 1
        one, two = score_moments(pooled_moments(table), 5, batch((2, 0, 1), (2, 0, 1, 3)))
        assert two == pytest.approx(one - 0.5 * math.log(40), abs=1e-6)

    def test_a_variable_that_its_parents_determine_has_a_finite_score(self):
        table = self.rows()
        table[:, 3] = 2 * table[:, 0]
        assert np.isfinite(score_moments(pooled_moments(table), 5, batch((3, 0), (0, 3)))).all()


@pytest.mark.parametrize("filled", [False, True])
def test_gaps_are_priced_by_the_rows_they_are_worth(filled):
    """The node-average log-likelihood before imputation, and BIC with a higher penalty after it, by hand."""
    rng, levels, n, worth = np.random.default_rng(6), np.array([2, 3, 2]), 400, 180
    table = np.column_stack([rng.integers(0, size, n) for size in levels])
    table[:, 2] = np.where(rng.random(n) < 0.7, table[:, 0], table[:, 2])
    if not filled:
        table[rng.random(table.shape) < 0.3] = -1
    asked = batch((2,), (2, 0, 1))
    complete, known = table[(table >= 0).all(axis=1)], table[table[:, 2] >= 0, 2]
    settings = SearchSettings(score="bic")
    by = create_criterion(settings, 3, n, worth, filled=filled)
    assert sets_of(asked, levels, 1e9).sets.tolist() == [[0, 1, 2], [2, -1, -1]]
    whole = np.zeros(levels, np.int64)
    np.add.at(whole, tuple(complete.T), 1)
    alone, family = score_tables(
        np.concatenate([whole.ravel(), np.bincount(known, minlength=2)]), asked, levels, by, settings
    )
    counts = whole.reshape(6, 2)
    margin = counts.sum(axis=0)
    given = (counts * np.log(np.maximum(counts, 1) / np.maximum(counts.sum(axis=1, keepdims=True), 1))).sum()
    free = (margin * np.log(margin / margin.sum())).sum()
    price = 0.5 * n * np.log(worth) / worth
    if filled:
        np.testing.assert_allclose([alone, family], [free - price, given - 6 * price])
    else:
        np.testing.assert_allclose([alone, family], [0.0, n * (given - free) / margin.sum() - 5 * price], atol=1e-9)
