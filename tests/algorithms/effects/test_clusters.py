"""Intervals of effects if rows have clusters: a sandwich of sums by cluster, against statsmodels on pooled rows."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import Replies
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.effects.adjusted_regressions import Question, aggregate, answers, open_silo, part, start
from fedbnsl.algorithms.effects.linear import quantile
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.design_effect import ClusteredRows

SILOS = {"clinic": 60, "lab": 90, "ward": 30}
Z, X, Y = range(3)
QUESTION = Question(X, (Z,), (0.0, 1.0))


def drawn(rng, *, labels=False, gaps=False, visits=5):
    """By silo, rows of z → x → y ← z of patients with `visits` rows each, in random order, with an own mean of y."""
    found = {}
    for number, (silo, k) in enumerate(SILOS.items()):
        clusters = rng.permutation(np.repeat(np.arange(k), visits))
        E = np.sqrt(0.5) * (rng.normal(size=(k, 3))[clusters] + rng.normal(size=(k * visits, 3)))
        x = 0.7 * E[:, 0] + E[:, 1]
        y = 0.5 * x + 0.4 * E[:, 0] + E[:, 2]
        table = np.column_stack([E[:, 0], x, (y > 0) * 1.0 if labels else y + 3 * number])
        if gaps:
            table[rng.random(table.shape) < 0.05] = np.nan
        found[silo] = ClusteredRows(table, clusters)
    return found


def answer(rows, *, labels=False, clustered=True):
    """The estimate over the silos."""
    levels = {"y": ("no", "yes")} if labels else {}
    sizes = {silo: len(one.table) for silo, one in rows.items()}
    schema = Schema(("z", "x", "y"), sizes, "mixed" if labels else "continuous", levels)
    server = start(schema, Y, [QUESTION], clustered=clustered)
    silos = [open_silo(rows[silo], schema, silo, np.random.default_rng(0)) for silo in schema.silos]
    while not server.newton.finished.all():
        server = aggregate(server, Replies(schema.silos, total=sum(part(one, server.request) for one in silos)))
    return answers(server, [QUESTION])[0]


def pooled(rows):
    """The design of the pooled complete rows, with an indicator of each silo, and their outcomes and clusters."""
    designs, outcomes, clusters = [], [], []
    for number, (silo, one) in enumerate(sorted(rows.items())):
        complete = ~np.isnan(one.table).any(axis=1)
        own = np.zeros((complete.sum(), len(rows)))
        own[:, number] = 1
        designs.append(np.column_stack([one.table[complete][:, [X, Z]], own]))
        outcomes.append(one.table[complete, Y])
        clusters += [f"{silo}{cluster}" for cluster in one.clusters[complete]]
    return np.concatenate(designs), np.concatenate(outcomes), np.unique(clusters, return_inverse=True)[1]


@pytest.mark.parametrize("gaps", [False, True])
def test_intervals_of_numbers_are_those_of_pooled_rows_with_a_sandwich(gaps):
    api = pytest.importorskip("statsmodels.api")
    rows = drawn(np.random.default_rng(1), gaps=gaps)
    design, y, clusters = pooled(rows)
    options = {"groups": clusters, "use_correction": False}
    expected = api.OLS(y, design).fit(cov_type="cluster", cov_kwds=options)
    found, k = answer(rows), clusters.max() + 1
    degrees = k - 2 - len(rows)
    assert found.value == pytest.approx(expected.params[0], rel=1e-9)
    assert found.standard_error == pytest.approx(expected.bse[0] * np.sqrt(k / degrees), rel=1e-9)
    assert found.interval[1] - found.value == pytest.approx(quantile(degrees) * found.standard_error, rel=1e-9)
    assert found.degrees is None


def test_the_slopes_of_labels_have_a_sandwich():
    """The risk difference of two nearby values of x divided by their distance has the error of slope and intercepts."""
    rows = drawn(np.random.default_rng(2), labels=True)
    independent, found = answer(rows, labels=True, clustered=False), answer(rows, labels=True)
    assert found.value == independent.value
    assert 1.1 < (found.standard_error / independent.standard_error) ** 2 < 4
    one_each = {silo: ClusteredRows(one.table, np.arange(len(one.clusters))) for silo, one in rows.items()}
    apart = answer(one_each, labels=True)
    assert apart.standard_error == pytest.approx(independent.standard_error, rel=0.05)


@pytest.mark.parametrize("labels", [False, True])
def test_repeated_rows_have_the_error_of_the_rows_themselves(labels):
    """Five copies of a row in one cluster are one row."""
    rows = drawn(np.random.default_rng(3), labels=labels, visits=1)
    copies = {
        silo: ClusteredRows(np.repeat(one.table, 5, axis=0), np.repeat(one.clusters, 5)) for silo, one in rows.items()
    }
    found, expected = answer(copies, labels=labels), answer(rows, labels=labels)
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-6)


def test_clusters_must_be_known_and_enough():
    rows = drawn(np.random.default_rng(4))
    with pytest.raises(BadInput, match="need rows whose clusters a column names"):
        answer({"lab": ClusteredRows(rows["lab"].table, None)})
    few = {silo: ClusteredRows(one.table, one.clusters % 2) for silo, one in rows.items()}
    assert answer({"lab": few["lab"]}) == "2 clusters in 1 silos are too few for 2 regressors"


def test_intervals_cover_the_effect():
    rng = np.random.default_rng(5)
    found = [answer(drawn(rng)) for _ in range(800)]
    covered = np.mean([one.interval[0] <= 0.5 <= one.interval[1] for one in found])
    assert 0.93 <= covered <= 0.97
    naive = [answer(drawn(rng), clustered=False) for _ in range(200)]
    assert np.mean([one.interval[0] <= 0.5 <= one.interval[1] for one in naive]) < 0.9
