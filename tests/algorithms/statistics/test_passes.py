"""Sums over a table that is read in passes equal those of the table in memory, for any chunks."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.count_tables import CodePasses, count
from fedbnsl.algorithms.statistics.moments import (
    Chunked,
    about_means,
    centred_moments,
    column_summaries,
    products,
    sum_over_chunks,
    thin_rows,
)
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.statistics.passes import DrawnTable, peak_of


@dataclass
class Cut:
    """A table in memory that is read in parts of a given number of rows."""

    table: np.ndarray
    size: int
    passes: list[int] = field(default_factory=list)

    @property
    def shape(self):
        return self.table.shape

    def __iter__(self):
        self.passes.append(1)
        return (self.table[begin : begin + self.size] for begin in range(0, len(self.table), self.size))


TABLES = arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, width=32))


@given(TABLES, st.integers(1, 41))
@settings(deadline=None)
def test_moments_and_columns_do_not_depend_on_where_a_table_is_cut(table, size):
    cut = Cut(table, size)
    assert isinstance(cut, Chunked)
    scale = 1e-9 * max(1.0, np.abs(table).max() ** 2) * len(table)
    means, within = about_means(cut)
    assert np.allclose(means, table.mean(axis=0), rtol=1e-12, atol=1e-9)
    assert np.allclose(within, products(table, center=True), atol=scale)
    assert np.allclose(products(cut), table.T @ table, atol=scale)
    assert np.allclose(centred_moments(cut, (len(table),)), centred_moments(table, (len(table),)), atol=scale)
    columns = column_summaries(cut)
    assert np.allclose(columns.variances, table.var(axis=0), atol=scale)
    assert np.array_equal(columns.greatest, np.abs(table).max(axis=0))
    assert len(cut.passes) == 4


@given(TABLES)
@settings(deadline=None)
def test_a_table_in_memory_gives_the_same_bits_as_without_passes(table):
    centred = table - table.mean(axis=0)
    assert np.array_equal(products(table, center=True), centred.T @ centred)
    assert np.array_equal(products(table), table.T @ table)
    assert np.array_equal(np.sqrt(column_summaries(table).variances), table.std(axis=0))
    assert np.array_equal(sum_over_chunks(table, lambda rows: rows.sum(axis=0)), table.sum(axis=0))
    assert thin_rows(table, 1) is table


def test_nothing_cancels_where_columns_stand_far_from_zero_in_sorted_rows():
    rng = np.random.default_rng(100)
    near = np.sort(rng.normal(size=(10_000, 3)), axis=0)
    far = near + 1e9
    exact = products(far - 1e9, center=True)  # the residue of the rounding of the cells
    assert np.allclose(about_means(Cut(far, 37))[1], exact, rtol=1e-6)
    assert np.allclose(column_summaries(Cut(far, 37)).squares, np.diag(exact), rtol=1e-6)


@given(st.integers(1, 41), st.integers(0, 5))
@settings(deadline=None)
def test_empty_cells_are_left_out_of_columns(size, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(5, 1, (40, 3))
    table[rng.random(table.shape) < 0.4] = np.nan
    table[:, 2] = np.nan
    columns = column_summaries(Cut(table, size))
    assert columns.cells.tolist() == (~np.isnan(table)).sum(axis=0).tolist()
    assert np.allclose(columns.means[:2], np.nanmean(table[:, :2], axis=0))
    assert np.allclose(columns.variances[:2], np.nanvar(table[:, :2], axis=0))
    assert (columns.means[2], columns.variances[2], columns.greatest[2]) == (0, 0, 0)


@given(st.integers(1, 300), st.integers(1, 400))
@settings(deadline=None)
def test_thinned_rows_are_evenly_spaced_and_no_more_than_asked_for(size, most):
    table = np.arange(1000.0)[:, None]
    kept = thin_rows(Cut(table, size), most)[:, 0]
    assert len(kept) <= most
    assert set(np.diff(kept)) <= {float(-(-1000 // most))}
    assert kept[0] == 0


@given(st.integers(1, 41))
@settings(deadline=None)
def test_counts_are_the_same(size):
    codes = np.random.default_rng(1).integers(-1, 3, (40, 3))
    sets, levels = np.array([[0, -1, -1], [0, 1, 2], [1, 2, -1]], np.int16), np.array([3, 3, 3])
    codes = np.abs(codes)
    whole = count(np.ascontiguousarray(codes.T, np.int16), levels, sets)
    cut = count(CodePasses(Cut(codes, size)), levels, sets)
    assert cut.dtype == whole.dtype
    assert np.array_equal(cut, whole)


def _numbers(rows, d=5):
    rng = np.random.default_rng(7)
    weights = np.triu(rng.uniform(0.5, 1.5, (d, d)) * rng.choice([-1, 1], (d, d)), 1)
    noise = rng.exponential(size=(rows, d)) - 1
    return np.asarray(noise @ np.linalg.inv(np.eye(d) - weights)) + rng.normal(0, 50, d)


STREAMING = [name for name, entry in registry.ALGORITHMS.items() if "rows in passes" in entry.takes]


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("name", STREAMING)
def test_every_algorithm_that_may_read_in_passes_learns_the_same(name, kind):
    if kind not in registry.entry(name).kinds:
        pytest.skip("not of this kind of data")
    table = _numbers(900)
    names = tuple("abcde")
    levels = {}
    if kind == "discrete":
        table = np.digitize(table - table.mean(axis=0), [-1.0, 0.0, 1.0])
        levels = dict.fromkeys(names, ("p", "q", "r", "s"))
    tables = {"one": table[:300], "two": table[300:]}
    schema = Schema(names, {silo: len(rows) for silo, rows in tables.items()}, kind, levels)
    settings = {"insecure_seed": "1", "epsilon": "1000"} if name == "dp-covariance" else {}
    algorithm = registry.build(registry.specify(name, settings))
    found = []
    for held in (tables, {silo: Cut(rows, 77) for silo, rows in tables.items()}):
        *_, last = rounds(algorithm, InProcessFederation(schema, held, seed=3))
        found.append(algorithm.structure(last.server))
    whole, cut = found
    assert (whole.adjacency == cut.adjacency).all()
    assert whole.adjacency.any()
    assert np.allclose(whole.weights, cut.weights, rtol=1e-6, atol=1e-9)


def test_memory_does_not_grow_with_the_rows():
    def peak(rows):
        table = DrawnTable(rows, lambda rng, shape: rng.normal(size=shape))
        schema = Schema(tuple("abcdefghij"), {"one": rows})
        algorithm = registry.build(registry.specify("secure-linear", {}))

        def read():
            list(rounds(algorithm, InProcessFederation(schema, {"one": table})))
            column_summaries(table)
            assert len(thin_rows(table, 100)) == 100

        return peak_of(read)

    peak(2000)
    few, many = peak(10_000), peak(200_000)
    assert many < 1.5 * few + 1e5
