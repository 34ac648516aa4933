"""Findings from summed counts of discrete data: a deviating silo, duplicate columns, too few rows; otherwise none."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis import findings, tables
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.networks.published import network
from fedbnsl.tasks.transport.in_process import InProcessFederation

SEEDS = range(2, 12)
ODD = "silo-4"


def diagnosed(data, structure, masked=False):
    """The findings of a structure on data."""
    steps = registry.build(AlgorithmSpec("diagnosis-tables", tables.TableDiagnosis(masked)))
    federation = InProcessFederation(data.schema, data.tables)
    *_, last = rounds(steps, federation, resume=(0, tables.start(data.schema, structure)))
    found = findings.table_fit_findings(last.server, structure) + findings.silo_findings(
        last.server, findings.TABLE_RULES
    )
    return last.server, {one.name: one.silos for one in found}


def drawn(seed):
    """ALARM and random networks in turn, 2000 rows in each of eight silos."""
    return network("alarm", 8, 2000, seed) if seed % 2 else discrete(12, 8, 2000, seed, degree=3.0)


def shifted(data, rng):
    """The same data, but in the odd silo a variable's most frequent level loses a fifth of all rows."""
    table = data.tables[ODD].copy()
    while True:
        column = table[:, rng.integers(table.shape[1])]
        common = np.flatnonzero(column == np.bincount(column).argmax())
        other = np.setdiff1d(np.arange(len(table)), common)
        if len(other) >= 20 and len(common) >= len(table) // 5:
            break
    gone = rng.choice(common, len(table) // 5, replace=False)
    table[gone] = table[rng.choice(other, len(gone))]
    return replace(data, tables={**data.tables, ODD: table})


def unhinged(data, rng):
    """The same data, but in the odd silo the child of one edge depends on no other variable."""
    table = data.tables[ODD].copy()
    edges = np.argwhere(data.truth.adjacency)
    child = edges[rng.integers(len(edges)), 1]
    table[:, child] = rng.permutation(table[:, child])
    return replace(data, tables={**data.tables, ODD: table})


@pytest.mark.parametrize(("change", "name"), [(shifted, "shifted silo"), (unhinged, "silo with different weights")])
def test_the_odd_silo_is_named(change, name):
    named = []
    for seed in SEEDS:
        data = drawn(seed)
        _, found = diagnosed(change(data, np.random.default_rng(seed)), data.truth)
        named.append(found.get(name) == (ODD,))
    assert sum(named) >= 9


def test_no_silo_is_named_where_all_are_alike():
    named = [any(diagnosed(data, data.truth)[1].values()) for data in map(drawn, SEEDS)]
    assert sum(named) <= 1


def test_the_figures_are_those_of_the_counts():
    """The figures equal a computation from the rows alone: shares, and scipy's relative entropy."""
    rng = np.random.default_rng(0)
    own, rest = rng.integers(5, 60, (3, 2)).astype(float), rng.integers(5, 60, (3, 2)).astype(float)
    n, m = own.sum(), rest.sum()
    smooth = rest + 1 / 6
    expected = entropy(own.ravel(), smooth.ravel())
    expected -= entropy(own.sum(0), smooth.sum(0)) + entropy(own.sum(1), smooth.sum(1))
    assert tables.dependence(own, rest) == pytest.approx(expected - (1 / n + 1 / m))
    p, q = own.sum(1) / n, rest.sum(1) / m
    far = tables.distance(own.sum(1), rest.sum(1))
    assert 0.5 * np.abs(p - q).sum() - 0.1 < far < 0.5 * np.abs(p - q).sum()
    equal = [tables.distance(*rng.multinomial(500, [0.2, 0.3, 0.5], 2).astype(float)) for _ in range(4000)]
    assert abs(np.mean(equal)) < 0.001


def test_masked_sums_say_the_same():
    data = drawn(3)
    data = shifted(data, np.random.default_rng(1))
    plain, masked = (diagnosed(data, data.truth, hidden)[0] for hidden in (False, True))
    np.testing.assert_array_equal(masked.counts, plain.counts)
    np.testing.assert_allclose(masked.figures, plain.figures, atol=1e-8)


def test_columns_that_determine_each_other_are_named():
    data = drawn(2)
    table = {silo: np.column_stack([rows[:, :2], rows[:, 0]]) for silo, rows in data.tables.items()}
    names = (*data.schema.variables[:2], "twin")
    levels = {name: data.schema.levels[name] for name in names[:2]} | {"twin": data.schema.levels[names[0]]}
    data = replace(data, schema=replace(data.schema, variables=names, levels=levels), tables=table, truth=None)
    joined = Structure(names, np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0.0]]))
    server, found = diagnosed(data, joined)
    assert "one-to-one" in found
    (pair,) = (one.message for one in findings.table_fit_findings(server, joined) if one.name == "one-to-one")
    assert pair.startswith(f"Each of {names[0]} and twin ")


def test_more_parameters_than_rows_bear():
    data = network("asia", 2, 30, 2)
    assert "few rows" in diagnosed(data, data.truth)[1]  # 18 parameters, 60 rows
    assert "few rows" not in diagnosed(network("asia", 2, 60, 2), data.truth)[1]


def test_a_single_silo_has_nobody_to_differ_from():
    data = network("asia", 1, 200, 2)
    server, found = diagnosed(data, data.truth)
    assert not server.figures.any()
    assert not found
