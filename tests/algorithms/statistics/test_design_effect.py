"""The design effect of clusters of rows, from the sum over silos, and resamples of whole clusters."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms.core.protocol import SumServer
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import SamplingScheme, resample
from fedbnsl.algorithms.statistics.design_effect import ClusteredRows, cluster_positions, design_effect, part, shrunk

SILOS = ("clinic", "lab", "ward")


def clustered(rng, k, m, icc, d, silos=SILOS):
    """By silo, rows with `k` clusters of `m` rows in random order, whose columns have these intraclass correlations."""
    found = {}
    for number, silo in enumerate(silos):
        clusters, common = np.repeat(np.arange(k), m), np.sqrt(icc) * rng.normal(size=(k, d))
        X = common[clusters] + np.sqrt(1 - np.asarray(icc)) * rng.normal(size=(k * m, d))
        order = rng.permutation(k * m)
        found[silo] = ClusteredRows(X[order] + 10.0 * number, clusters[order])
    return found


def effect_of(rows, levels=(), answered=None):
    """The design effect of these rows by silo; `levels` are the numbers of levels of the first columns."""
    d = next(iter(rows.values())).table.shape[1]
    names = tuple(f"x{j}" for j in range(d))
    labels = {name: tuple(map(str, range(n))) for name, n in zip(names, levels, strict=False)}
    kind = "discrete" if len(labels) == d else "mixed" if labels else "continuous"
    schema = Schema(names, {silo: len(one.clusters) for silo, one in rows.items()}, kind, labels)
    own = schema.of_silos(answered or tuple(rows))
    total = sum(part(rows[silo], schema) for silo in own.silos)
    return design_effect(SumServer(own, total), sum(schema.rows.values()))


def test_rows_that_occur_five_times_count_as_one():
    rows = clustered(np.random.default_rng(1), 80, 5, 1.0, 6)
    assert effect_of(rows) == pytest.approx(5)


def test_the_mean_is_that_of_moulton_and_no_effect_is_found_in_independent_rows():
    """1 + (m − 1)ρ² for errors of one ρ, within a tenth on average, whatever the number of variables."""
    rng = np.random.default_rng(2)
    for d in (4, 20):
        found = [effect_of(clustered(rng, 60, 5, 0.5, d)) for _ in range(30)]
        assert np.mean(found) == pytest.approx(1 + 4 * 0.25, abs=0.1)
        assert np.mean([effect_of(clustered(rng, 60, 5, 0.0, d)) for _ in range(30)]) < 1.02


def test_the_two_variables_with_the_largest_correlations_count():
    """Two columns are constant within clusters, as those of a patient: rows of these are worth one each."""
    icc = np.array([1.0, 1.0, 0.2, 0.2, 0.2, 0.2])
    found = effect_of(clustered(np.random.default_rng(3), 150, 5, icc, 6))
    assert found == pytest.approx(5, abs=0.2)
    icc[1] = 0.2
    found = effect_of(clustered(np.random.default_rng(3), 300, 5, icc, 6))
    assert found == pytest.approx(1 + 4 * 0.2, abs=0.2)


def test_a_residual_may_be_more_alike_within_clusters_than_its_variable():
    """y = 3x + e: x differs from row to row, and e is that of the cluster, as z is."""
    rows = clustered(np.random.default_rng(4), 200, 5, np.array([0.0, 1.0, 1.0]), 3)
    for one in rows.values():
        one.table[:, 1] += 3 * one.table[:, 0]
    assert effect_of(rows) == pytest.approx(5, abs=0.2)


def test_the_sum_is_the_analysis_of_variance_of_the_pooled_rows():
    """The correlations of one-way analysis of variance with unequal clusters."""
    rng, frames, rows = np.random.default_rng(5), [], {}
    for silo, k in zip(SILOS, (40, 70, 25), strict=True):
        clusters = np.repeat(np.arange(k), rng.integers(1, 9, k))
        X = rng.normal(size=(k, 2))[clusters] + rng.normal(size=(len(clusters), 2)) + rng.normal()
        rows[silo] = ClusteredRows(X, clusters)
        frames.append(pd.DataFrame(X - X.mean(axis=0)).assign(cluster=[f"{silo}{c}" for c in clusters], silo=silo))
    frame = pd.concat(frames)
    sizes = frame.groupby("cluster").size()
    n, k, per_silo = len(frame), len(sizes), frame.groupby(["silo", "cluster"]).size()
    spread = n - sum((own**2).sum() / own.sum() for _, own in per_silo.groupby("silo"))
    correlations = []
    for name in (0, 1):
        means = frame.groupby("cluster")[name].transform("mean")
        between = (means**2).sum() / (k - 3)
        within = ((frame[name] - means) ** 2).sum() / (n - k)
        variance = (between - within) * (k - 3) / spread
        correlations.append(variance / (variance + within))
    expected = 1 + ((sizes**2).sum() / n - 1) * np.prod(
        shrunk(np.array(correlations), np.full(2, k - 3), spread / (k - 3))
    )
    assert effect_of(rows) == pytest.approx(expected, rel=0.02)  # residuals given the other column hardly differ


def test_units_offsets_order_and_names_of_clusters_do_not_matter():
    rng = np.random.default_rng(6)
    rows = clustered(rng, 50, 4, 0.4, 5)
    expected = effect_of(rows)
    for silo, one in rows.items():
        order, names = rng.permutation(len(one.clusters)), rng.permutation(50)
        scaled = one.table[order] * 10.0 ** np.arange(-2, 3) + rng.normal(size=5)
        rows[silo] = ClusteredRows(scaled, names[one.clusters[order]])
    assert effect_of(rows) == pytest.approx(expected, rel=1e-6)


def test_labels_count_by_the_indicators_of_their_levels():
    rng = np.random.default_rng(7)
    rows = clustered(rng, 100, 5, 1.0, 4)
    for silo, one in rows.items():
        cut = np.digitize(one.table - one.table.mean(axis=0), (-0.5, 0.5))
        rows[silo] = ClusteredRows(cut.astype(np.int64), one.clusters)
    assert effect_of(rows, levels=(3, 3, 3, 3)) == pytest.approx(5)
    mixed = {
        silo: ClusteredRows(np.column_stack([one.table[:, :2], rng.normal(size=(500, 2))]), one.clusters)
        for silo, one in rows.items()
    }
    assert effect_of(mixed, levels=(3, 3)) == pytest.approx(5, abs=0.05)


def test_rows_with_an_empty_cell_count_only_in_the_sizes_of_clusters():
    rng = np.random.default_rng(8)
    rows = clustered(rng, 100, 5, 1.0, 4)
    for one in rows.values():
        one.table[rng.random(one.table.shape) < 0.05] = np.nan
    assert effect_of(rows) == pytest.approx(5)
    rows["lab"].table[:, 0] = np.nan
    assert effect_of(rows) == pytest.approx(5)


def test_a_lost_silo_leaves_the_effect_of_the_others():
    rows = clustered(np.random.default_rng(9), 60, 5, 0.5, 4)
    others = {silo: one for silo, one in rows.items() if silo != "lab"}
    assert effect_of(rows, answered=("clinic", "ward")) == pytest.approx(effect_of(others), rel=1e-9)


def test_clusters_that_cannot_be_compared():
    rows = clustered(np.random.default_rng(10), 1, 40, 0.0, 3)
    with pytest.raises(BadInput, match="no silo has complete rows of two clusters or more"):
        effect_of(rows)
    rows = clustered(np.random.default_rng(10), 40, 1, 0.0, 3)
    assert effect_of(rows) == 1
    with pytest.raises(BadInput, match="needs rows whose clusters a column names"):
        part(rows["lab"].table, Schema(("x", "y", "z"), {"lab": 40}))


def test_columns_that_others_determine_do_not_matter(monkeypatch):
    """The rounding of masked sums is larger than the residuals of such columns; a constant column has none."""
    exact = part
    monkeypatch.setitem(globals(), "part", lambda *own: np.rint(exact(*own) * 2**32) / 2**32)
    for seed in (8, 24, 30):
        rows, wider = clustered(np.random.default_rng(seed), 100, 5, 0.3, 4), {}
        for silo, one in rows.items():
            nearly = 3 * one.table[:, 2] + 1e-4 * np.random.default_rng(1).normal(size=500)
            determined = np.column_stack([one.table, one.table[:, 0] + one.table[:, 1], nearly])
            wider[silo] = replace(one, table=determined)
        assert effect_of(wider) == pytest.approx(effect_of(rows), abs=0.1)
    constant = {silo: replace(one, table=np.column_stack([one.table, np.ones(500)])) for silo, one in rows.items()}
    assert effect_of(constant) == pytest.approx(effect_of(rows), abs=0.1)


def test_estimates_that_differ_by_chance_are_drawn_to_their_mean():
    rng, many = np.random.default_rng(12), np.full(30, 100)
    alike = shrunk(0.5 + 0.03 * rng.normal(size=30), many, 5.0)
    assert alike.max() < 0.53
    assert shrunk(np.repeat([0.1, 0.9], 15), many, 5.0).max() > 0.89
    np.testing.assert_array_equal(shrunk(np.ones(3), many[:3], 5.0), 1.0)


def test_resamples_have_whole_clusters():
    rng = np.random.default_rng(13)
    clusters = rng.permutation(np.repeat(np.arange(50), rng.integers(1, 9, 50)))
    sizes = np.bincount(clusters)
    half = cluster_positions(clusters, len(clusters) // 2, False, rng)
    assert len(half) == len(set(half.tolist())) == len(clusters) // 2
    drawn = np.bincount(clusters[half], minlength=50)
    assert ((drawn > 0) & (drawn < sizes)).sum() <= 1
    again = cluster_positions(clusters, len(clusters), True, rng)
    drawn = np.bincount(clusters[again], minlength=50)
    assert len(again) == len(clusters)
    assert (drawn > sizes).any()
    assert (drawn % sizes != 0).sum() <= 1
    schema, table = Schema(("x",), {"lab": len(clusters)}), np.arange(len(clusters))[:, None]
    rows = resample(ClusteredRows(table, clusters), schema, "lab", SamplingScheme(), rng)
    assert len(rows) == len(clusters) - len(clusters) // 2
    drawn = np.bincount(clusters[rows[:, 0]], minlength=50)
    assert ((drawn > 0) & (drawn < sizes)).sum() <= 1
