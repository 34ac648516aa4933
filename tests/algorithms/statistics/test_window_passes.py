"""Windows of series that are read in passes: the same sums as in memory, for any chunk boundaries."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.statistics.lagged import (
    MIN_CENTRED_WINDOWS,
    WindowPasses,
    centred_window_passes,
    silo_windows,
    window_moments,
    windows,
)
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.statistics.passes import DrawnTable, peak_of


@dataclass
class Cut:
    """A table in memory that is handed out in chunks that end at these rows."""

    table: np.ndarray
    ends: tuple[int, ...]

    @property
    def shape(self):
        return self.table.shape

    def __iter__(self):
        return iter(np.split(self.table, self.ends))


LENGTHS = st.one_of(st.integers(1, 6), st.integers(MIN_CENTRED_WINDOWS - 1, MIN_CENTRED_WINDOWS + 5), st.just(70))


@st.composite
def cut_series(draw):
    """Series far from zero, in any stretches and chunks, including empty ones, and a number of lags."""
    stretches, lags = tuple(draw(st.lists(LENGTHS, min_size=1, max_size=6))), draw(st.integers(1, 3))
    n = sum(stretches)
    ends = tuple(sorted(draw(st.lists(st.integers(0, n), max_size=8))))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    table = rng.normal(size=(n, 2)).cumsum(axis=0) + rng.normal(0, 1e3, 2)
    return table, stretches, lags, Cut(table, ends)


@given(cut_series())
@settings(deadline=None, max_examples=150)
def test_windows_do_not_depend_on_where_the_series_are_cut(drawn):
    table, stretches, lags, cut = drawn
    whole, passes = windows(table, stretches, lags), WindowPasses(cut, stretches, lags)
    assert passes.shape == whole.shape
    found = np.concatenate([np.empty((0, whole.shape[1])), *passes])
    assert np.array_equal(found, whole)
    for center in (True, False) if len(whole) else ():
        (rows, products), (read, summed) = (window_moments(one, stretches, lags, center=center) for one in (table, cut))
        assert np.allclose(np.concatenate(list(read)), rows, rtol=0, atol=1e-9)
        assert np.allclose(summed, products, rtol=1e-12, atol=1e-12 * max(np.abs(products).max(), 1.0))
    if len(whole):
        assert np.allclose(centred_window_passes(cut, stretches, lags).mean, whole.mean(axis=0), rtol=1e-12)


@given(cut_series())
@settings(deadline=None)
def test_levels_do_not_depend_on_where_the_series_are_cut(drawn):
    table, stretches, lags, cut = drawn
    schema = Schema(("a", "b"), {"one": len(table)}, "time-series", stretches={"one": stretches})
    if max(stretches) <= lags:
        return
    whole, read = (silo_windows(one, schema, "one", lags, center=True) for one in (table, cut))
    assert np.allclose(np.concatenate(list(read)), whole, rtol=0, atol=1e-9)


STREAMING = [
    name
    for name, entry in registry.ALGORITHMS.items()
    if "series in passes" in entry.takes and "time-series" in entry.kinds
]


@pytest.mark.parametrize("name", STREAMING)
def test_every_algorithm_that_may_read_series_in_passes_learns_the_same(name):
    data = dynamic(5, 2, 900, 7)
    stretches = {silo: (400, 3, 15, len(rows) - 418) for silo, rows in data.tables.items()}
    schema = Schema(data.schema.variables, data.schema.rows, "time-series", stretches=stretches)
    given = {"insecure_seed": "1", "epsilon": "1000"} if name == "dp-covariance" else {}
    given |= {"lags": "1"} if registry.entry(name).lags_before else {}
    algorithm = registry.build(registry.specify(name, given))
    found = []
    for held in (data.tables, {silo: Cut(rows, tuple(range(77, 900, 77))) for silo, rows in data.tables.items()}):
        *_, last = rounds(algorithm, InProcessFederation(schema, held, seed=3))
        found.append(algorithm.structure(last.server))
    whole, read = found
    assert np.array_equal(whole.lagged != 0, read.lagged != 0)
    assert np.array_equal(whole.adjacency, read.adjacency)
    assert whole.lagged.any()
    assert np.allclose(whole.lagged, read.lagged, rtol=1e-6, atol=1e-9)


def test_memory_does_not_grow_with_the_rows():
    def peak(rows):
        table = DrawnTable(rows, lambda rng, shape: rng.exponential(size=shape))
        stretches = (rows - 100, 90, 10)
        schema = Schema(tuple("abcdefghij"), {"one": rows}, "time-series", stretches={"one": stretches})
        algorithm = registry.build(registry.specify("secure-linear", {}))
        return peak_of(lambda: list(rounds(algorithm, InProcessFederation(schema, {"one": table})))[-1])

    peak(2000)
    few, many = peak(10_000), peak(200_000)
    assert many < 1.5 * few + 1e5
