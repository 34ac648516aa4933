"""Figures by which a silo that errs is named, edges that rest on one silo, and sums that silos cannot have sent."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Replies
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis import exchange, implied_tables, tables
from fedbnsl.algorithms.diagnosis.exchange import COMMON_FIGURES, FIGURES, Server
from fedbnsl.algorithms.diagnosis.findings import (
    RULES,
    influence_findings,
    same_rows_findings,
    silo_findings,
)
from fedbnsl.algorithms.diagnosis.silo_faults import (
    FAULT_FIGURES,
    evidence,
    fault_figures,
    influence_edges,
    require_scales_of_a_sum,
    resting_on_one_silo,
)
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import empty_structure
from fedbnsl.algorithms.statistics.count_tables import offsets
from fedbnsl.algorithms.statistics.declared_sums import (
    require_counts,
    require_declared_rows,
    require_second_moments,
)
from fedbnsl.algorithms.statistics.moments import require_positive_definite
from fedbnsl.tasks.silo.runs import built

NAMES = ("a", "b", "c", "d", "e")
EDGES = {("a", "b"): 0.9, ("b", "c"): -0.8, ("d", "c"): 0.7}


def silos(count=5, rows=300, seed=1):
    """Tables of one linear model, with other means at each silo."""
    rng = np.random.default_rng(seed)
    found = {}
    for k in range(count):
        a, d, e = rng.normal(size=(3, rows))
        b = 0.9 * a + rng.normal(size=rows)
        c = -0.8 * b + 0.7 * d + rng.normal(size=rows)
        found[f"s{k}"] = np.column_stack([a, b, c, d, e]) + rng.normal(5, 0.7, 5)
    return found


def figures_of(table, others, columns=None):
    """The figures, by name, of a silo with `table` where the others have the rows `others`."""
    moments = [(X.mean(axis=0), np.cov(X.T, bias=True)) for X in (table, others)]
    columns = np.arange(table.shape[1]) if columns is None else columns
    found = fault_figures(table, *moments, len(others), columns)
    return {name: (float(value), int(at)) for name, (value, at) in zip(FAULT_FIGURES, found, strict=True)}


@pytest.fixture(scope="module")
def others():
    return np.vstack([table - table.mean(axis=0) + 5 for table in silos(8, seed=7).values()])


@pytest.fixture
def own():
    table = silos(1, rows=400, seed=8)["s0"]
    return table - table.mean(axis=0) + 5


class TestFigures:
    def test_of_an_honest_silo_are_small(self, own, others):
        found = figures_of(own, others)
        assert found["larger"][0] < 0.1
        assert found["smaller"][0] < 0.1
        assert found["sign"][0] == 0
        assert found["correlations"][0] < 3
        assert figures_of(own[:, :2], others[:, :2])["correlations"][0] == 0
        assert found["far rows"][0] < 0.005
        assert found["repeated rows"][0] == 0

    def test_a_larger_and_a_smaller_scale(self, own, others):
        own[:, 3] *= 100
        found = figures_of(own, others)
        assert found["larger"] == (pytest.approx(np.log(100), abs=0.1), 3)
        assert found["smaller"][0] < 0.1
        own[:, 3] /= 1e5
        assert figures_of(own, others)["smaller"] == (pytest.approx(np.log(1000), abs=0.1), 3)

    def test_another_sign_of_a_mean(self, own, others):
        own[:, 1] *= -1
        value, at = figures_of(own, others)["sign"]
        assert at == 1
        assert value == pytest.approx(min(5 / own[:, 1].std(), 5 / others[:, 1].std()), rel=1e-6)

    def test_another_sign_of_correlations_without_a_mean(self, own, others):
        own[:, 1] = 10 - own[:, 1]
        found = figures_of(own, others)
        assert found["sign"][0] == 0
        assert found["correlations"][1] == 1
        x, y = (own - own.mean(axis=0))[:, :2].T
        assert found["correlations"][0] >= abs((x * y).sum()) / np.sqrt((x**2 * y**2).sum()) - 1e-6
        assert found["correlations"][0] > 8

    def test_heavy_tails_do_not_give_correlations_another_sign(self):
        """Two rows of hundreds have most of a correlation."""
        rng = np.random.default_rng(0)
        own, others = (rng.normal(size=(n, 5)) for n in (200, 2000))
        others[:, 1] += 0.5 * others[:, 0]
        own[:2, :2] = [[30, -30], [-30, 30]]
        assert np.corrcoef(own.T)[0, 1] < -0.8
        assert figures_of(own, others)["correlations"][0] < 3

    def test_far_rows_whatever_the_common_factor_of_variances(self, own, others):
        rng = np.random.default_rng(0)
        spread = 5 + 3 * (own - 5)
        assert figures_of(spread, others)["far rows"][0] < 0.005
        own[:80] = rng.uniform(own.min(axis=0), own.max(axis=0), (80, 5))
        assert 0.05 < figures_of(own, others)["far rows"][0] <= 0.2

    def test_far_rows_ignore_combinations_that_rounding_changes(self, own, others):
        """A column that is the sum of two others up to rounding has no distance of its own."""
        rng = np.random.default_rng(0)
        both = [np.column_stack([X, X[:, 0] + X[:, 3] + 1e-5 * rng.normal(size=len(X))]) for X in (own, others)]
        both[0][:40, 5] += 0.01
        assert figures_of(*both)["far rows"][0] < 0.005

    def test_repeated_rows(self, own, others):
        own[:40] = own[40:80]
        assert figures_of(own, others)["repeated rows"][0] == pytest.approx(0.1)

    def test_rows_that_are_equal_by_chance_do_not_count(self, own, others):
        coarse = [np.round(X) for X in (own, others)]
        assert len(np.unique(coarse[0], axis=0)) < len(own)
        assert figures_of(*coarse, np.arange(2))["repeated rows"][0] == 0

    def test_zeros_of_both_signs_are_equal(self, own, others):
        own[0, :], own[1, :] = 0.0, -0.0
        assert figures_of(own, others)["repeated rows"][0] == pytest.approx(1 / 400)

    def test_empty_cells_leave_out_their_rows(self, own, others):
        own[:40] = own[40:80]
        means, S = own.mean(axis=0), np.cov(own.T, bias=True)
        own[:20, 2] = np.nan
        rest = (others.mean(axis=0), np.cov(others.T, bias=True))
        found = fault_figures(own, (means, S), rest, len(others), np.arange(5))
        assert found[FAULT_FIGURES.index("repeated rows"), 0] == pytest.approx(20 / 380)

    def test_columns_of_labels_and_constants_are_not_compared(self, own, others):
        own[:, 3] *= 100
        own[:, 4] = 1.0
        assert figures_of(own, others, np.array([0, 1, 4]))["larger"][0] < 0.1
        assert not fault_figures(own, (own[0], np.eye(5)), (own[0], np.eye(5)), 9, np.arange(0)).any()


def named(tables, **options):
    """By finding, the silos that a run on `tables` names."""

    frames = {silo: pd.DataFrame(X, columns=list(NAMES)) for silo, X in tables.items()}
    found = learn(frames, "secure-linear", bootstrap=0, **options).result.diagnosed.findings
    return {one.name: one.silos for one in found}


class TestRuns:
    """Of five silos, of which the second errs; replies are masked."""

    def test_honest_silos_are_not_accused(self):
        assert set(named(silos())) <= {"site means", "shifted silo"}

    def test_a_scaled_silo_is_named_although_it_dominates_all_sums(self):
        tables = silos()
        tables["s1"] = tables["s1"] * 100
        found = named(tables)
        assert found["silo with another scale"] == ("s1",)
        assert "scales differ" not in found

    def test_a_silo_in_larger_units_is_named(self):
        tables = silos()
        tables["s1"] = tables["s1"] / 50
        assert named(tables)["silo with another scale"] == ("s1",)

    def test_a_flipped_silo_is_named(self):
        tables = silos()
        tables["s1"] = -tables["s1"]
        assert named(tables)["silo with another sign"] == ("s1",)

    def test_signs_that_differ_everywhere_accuse_nobody(self):
        tables = {silo: X - 5 + 9 * (-1) ** k for k, (silo, X) in enumerate(silos(4).items())}
        assert "silo with another sign" not in named(tables)

    def test_repeated_rows_are_named(self):
        tables = silos()
        tables["s1"] = np.vstack([tables["s1"]] * 2)
        assert named(tables)["silo with repeated rows"] == ("s1",)

    def test_the_rows_of_another_silo_are_named(self):
        tables = silos()
        tables["s1"] = np.random.default_rng(0).permutation(tables["s3"])
        assert named(tables)["same rows"] == ("s1", "s3")

    def test_invented_rows_are_named(self):
        tables, rng = silos(), np.random.default_rng(0)
        X = tables["s1"]
        X[:60] = rng.uniform(X.min(axis=0), X.max(axis=0), (60, 5))
        assert named(tables)["silo with far rows"] == ("s1",)

    def test_heavy_tails_everywhere_accuse_nobody(self):
        rng = np.random.default_rng(0)
        tables = {f"s{k}": rng.standard_t(3, size=(400, 5)) for k in range(5)}
        assert "silo with far rows" not in named(tables)

    def test_an_edge_that_rests_on_one_silo_is_named_with_it(self):
        tables, rng = silos(), np.random.default_rng(0)
        tables["s1"][:, 4] = 5 + 3 * (tables["s1"][:, 0] - tables["s1"][:, 0].mean()) + rng.normal(size=300)
        assert named(tables)["edges that fall without one silo"] == ("s1",)

    def test_an_edge_of_a_rare_level_is_not_judged(self, monkeypatch):
        """Whether it falls without a silo would disclose the few rows with the level."""
        monkeypatch.setattr(exchange, "rare_indicators", lambda labels, means, rows: np.arange(len(labels)) == 4)
        tables, rng = silos(), np.random.default_rng(0)
        tables["s1"][:, 4] = 5 + 3 * (tables["s1"][:, 0] - tables["s1"][:, 0].mean()) + rng.normal(size=300)
        assert "edges that fall without one silo" not in named(tables)

    def test_masked_and_plain_runs_name_the_same(self):
        tables = silos()
        tables["s1"] = tables["s1"] * 100
        assert named(tables, secure=True) == named(tables)


class TestInfluence:
    S = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.0]])

    def test_evidence_is_the_gain_in_bic_of_each_parent(self):
        """Compared with regressions by least squares on rows with exactly these moments."""
        rng = np.random.default_rng(0)
        n = 500
        Z = rng.normal(size=(n, 3))
        Z -= Z.mean(axis=0)
        X = Z @ np.linalg.inv(np.linalg.cholesky(np.cov(Z.T, bias=True))).T @ np.linalg.cholesky(self.S).T
        parents = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], bool)

        def rss(columns):
            return np.linalg.lstsq(X[:, columns], X[:, 1], rcond=None)[1][0] if columns else X[:, 1] @ X[:, 1]

        expected = [0.5 * n * np.log(rss(rest) / rss([0, 2])) - 0.5 * np.log(n) for rest in ([2], [0])]
        np.testing.assert_allclose(evidence(self.S, n, parents), expected, rtol=1e-6)
        assert influence_edges(parents).tolist() == [[0, 1], [2, 1]]

    @pytest.mark.parametrize(
        ("fallen", "rows", "expected"),
        [
            ([[1, 3], [0, 0]], 500, {(0, 1): 2}),
            ([[1, 3], [1, 1]], 500, {(0, 1): 2, (2, 1): 0}),
            ([[2, 3], [0, 0]], 500, {}),  # without either of two silos
            ([[1, 3], [1, 1]], 30, {}),  # too little evidence
        ],
    )
    def test_edges_rest_on_the_one_silo_without_which_they_fall(self, fallen, rows, expected):
        parents = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]], bool)
        assert resting_on_one_silo(self.S, rows, parents, np.array(fallen, float)) == expected

    @pytest.mark.parametrize(
        ("fallen", "expected"), [([[1, 3], [1, 3]], {(0, 1): 2}), ([[1, 3], [0, 0]], {}), ([[1, 3], [1, 2]], {})]
    )
    def test_an_edge_without_a_direction_falls_if_it_falls_both_ways(self, fallen, expected):
        parents = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
        assert resting_on_one_silo(self.S, 500, parents, np.array(fallen, float)) == expected


def server_of(figures, silos=4, **more):

    schema = Schema(("a", "b", "c"), {f"s{k}": 250 for k in range(silos)})
    nothing = np.zeros((3, 3), bool)
    parents = more.pop("parents", nothing)
    return Server(schema, parents, 1000, np.zeros(3), np.eye(3), np.ones(silos, bool), figures, np.arange(3), **more)


class TestFindings:
    def figures(self, name, values):
        found = np.zeros((4, len(FIGURES), 2))
        found[:, FIGURES.index(name), 0] = values
        return found

    def test_the_rules_are_in_the_order_of_the_figures(self):
        assert tuple(RULES) == FIGURES == (*COMMON_FIGURES, *FAULT_FIGURES)

    @pytest.mark.parametrize(
        ("name", "least"),
        [
            ("larger", np.log(10)),
            ("smaller", np.log(10)),
            ("sign", 2),
            ("correlations", 5),
            ("far rows", 0.02),
            ("repeated rows", 0.05),
        ],
    )
    def test_thresholds(self, name, least):
        assert silo_findings(server_of(self.figures(name, [0, 0.99 * least, 0, 0])), RULES) == []
        (found,) = silo_findings(server_of(self.figures(name, [0, 1.01 * least, 0, 0])), RULES)
        assert found.silos == ("s1",)

    def test_far_rows_count_beyond_twice_the_median(self):
        assert silo_findings(server_of(self.figures("far rows", [0.05, 0.11, 0.05, 0.05])), RULES) == []
        (found,) = silo_findings(server_of(self.figures("far rows", [0.05, 0.13, 0.05, 0.05])), RULES)
        assert found.silos == ("s1",)

    def test_one_or_two_rows_are_not_disclosed(self):
        tiny = server_of(self.figures("far rows", [0, 0.03, 0, 0]))

        few = replace(tiny, schema=replace(tiny.schema, rows={f"s{k}": 60 for k in range(4)}))
        assert len(silo_findings(tiny, RULES)) == 1
        assert silo_findings(few, RULES) == []

    def test_same_rows_need_all_figures_alike(self):
        figures = np.random.default_rng(0).random((4, len(FIGURES), 2))
        figures[:, 1:, 0] = 0
        assert same_rows_findings(server_of(figures)) == []
        figures[3] = figures[1]
        assert same_rows_findings(server_of(figures))[0].silos == ("s1", "s3")
        figures[3, 2, 0] += 1e-3
        assert same_rows_findings(server_of(figures)) == []
        figures[:, 0, 0] = figures[3, 2, 0] = 0
        assert same_rows_findings(server_of(np.zeros_like(figures))) == []

    def test_an_edge_that_rests_on_one_silo_is_named(self):
        parents = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], bool)

        strong = np.array([[1.0, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
        found = server_of(np.zeros((4, len(FIGURES), 2)), parents=parents, fallen=np.array([[1.0, 2.0]]))
        (one,) = influence_findings(replace(found, within=strong))
        assert one.silos == ("s1",)
        assert "an edge between a and b (BIC)" in one.message
        assert influence_findings(replace(found, within=strong, fallen=np.empty((0, 2)))) == []


class TestDeclaredSums:
    @pytest.mark.parametrize("rows", [0.0, 999.0, 1001.0, 2000.0, float("nan"), float("inf"), -1000.0])
    def test_other_rows_than_declared_are_refused(self, rows):
        require_declared_rows(1000 * (1 + 1e-9), 1000)
        with pytest.raises(BadInput, match="the silos declared 1,000: the reply of a silo is wrong"):
            require_declared_rows(rows, 1000)

    @pytest.mark.parametrize(
        "S",
        [
            [[1.0, 2.0], [2.0, 1.0]],
            [[-1.0, 0.0], [0.0, 1.0]],
            [[1.0, float("nan")], [float("nan"), 1.0]],
            [[1e-9, 0.0], [0.0, -1e-9]],
        ],
    )
    def test_matrices_that_are_no_second_moments_are_refused(self, S):
        with pytest.raises(BadInput, match="not positive semidefinite"):
            require_second_moments(np.array(S))

    def test_singular_and_rounded_moments_are_accepted(self):
        require_second_moments(np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]]))
        require_second_moments(np.array([[1.0, 0.0], [0.0, 0.0]]))

    @pytest.mark.parametrize(
        ("counts", "valid"), [([5, 5, 10, 0], True), ([5, 6, 5, 5], False), ([5, -1, 5, 5], False)]
    )
    def test_counts(self, counts, valid):
        begins = np.array([0, 2, 4])
        if valid:
            require_counts(np.array(counts), begins, 10)
            return
        with pytest.raises(BadInput, match="a sum of counts is over"):
            require_counts(np.array(counts), begins, 10)

    def test_learners_refuse_a_sum_that_is_no_sum_of_second_moments(self):

        schema = Schema(("a", "b"), {"s": 10})
        with pytest.raises(BadInput, match="not positive semidefinite"):
            require_positive_definite(np.array([[1.0, 2.0], [2.0, 1.0]]), schema)

    @pytest.mark.parametrize("factor", [2.0, 100.0, -1.0, 0.99])
    def test_a_silo_that_multiplies_its_part_is_refused(self, factor, monkeypatch):

        honest = exchange.answer
        built.cache_clear()

        def lie(silo, request):
            packed = honest(silo, request)
            return factor * packed if silo.place == 1 and not request.rows else packed

        monkeypatch.setattr(exchange, "answer", lie)

        registry._built.cache_clear()
        try:
            with pytest.raises(BadInput, match="the reply of a silo is wrong, and masks hide whose"):
                named(silos(), secure=True)
        finally:
            built.cache_clear()
            registry._built.cache_clear()

    @pytest.mark.parametrize(
        ("larger", "smaller", "valid"),
        [
            ([0, 0, 0], [0.5, 0.4, 0.5], False),
            ([0.5, 0.4, 0.5], [0, 0, 0], False),
            ([0.1, 0, 0], [0.5, 0.4, 0.5], True),
            ([0, 0, 0], [0.5, 0, 0.5], True),
            ([0, 0, 0], [0, 0, 0], True),
            ([0, np.nan, 0], [0.5, np.nan, 0.5], True),
        ],
    )
    def test_variances_that_are_all_on_one_side_of_their_sum_are_refused(self, larger, smaller, valid):
        figures = np.zeros((3, len(FAULT_FIGURES), 2))
        figures[:, 0, 0], figures[:, 1, 0] = larger, smaller
        if valid:
            require_scales_of_a_sum(figures)
            return
        with pytest.raises(BadInput, match="the variances of all silos differ to the same side from their sum"):
            require_scales_of_a_sum(figures)

    @pytest.mark.parametrize("factor", [100.0, -1.0])
    def test_a_silo_that_multiplies_its_second_moments_is_refused(self, factor, monkeypatch):
        honest = exchange.answer

        def lie(silo, request):
            packed = honest(silo, request).copy()
            packed[6:] *= factor if silo.place == 1 and not request.rows else 1.0
            return packed

        monkeypatch.setattr(exchange, "answer", lie)
        built.cache_clear()
        registry._built.cache_clear()
        try:
            with pytest.raises(BadInput, match="the reply of a silo is wrong, and masks hide whose"):
                named(silos(), secure=True)
        finally:
            built.cache_clear()
            registry._built.cache_clear()

    def test_labels_of_a_silo_that_counts_twice_are_refused(self, monkeypatch):

        schema = Schema(("a", "b"), {"s": 6, "t": 4}, "discrete", levels={"a": ("x", "y"), "b": ("x", "y")})
        replies = Replies(("s", "t"), total=np.array([5, 5, 5, 6]))
        with pytest.raises(BadInput, match="over 11 rows"):
            tables.aggregate(tables.start(schema, empty_structure(("a", "b"))), replies)
        server = implied_tables.start(schema, np.zeros((2, 2), bool))
        total = np.zeros(offsets(server.sets, np.array([2, 2]))[-1], np.int64)
        total[0] = 11
        with pytest.raises(BadInput, match="over 11 rows"):
            implied_tables.aggregate(server, Replies(("s", "t"), total=total))
