"""Published counts: what stays hidden from a reader who knows the rule, with one table or several overlapping ones."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.parameters.networks import DiscreteNetwork
from fedbnsl.algorithms.parameters.tables import smooth_counts
from fedbnsl.algorithms.privacy.disclosure_control import (
    MIN_COUNT,
    SMALL_CELL,
    CountTable,
    PublishedTable,
    estimated_counts,
    provable_bounds,
    publishable_counts,
    publishable_stack,
    publishable_tables,
    share_class,
)

SHAPES = st.tuples(st.integers(1, 4), st.integers(2, 4))
COUNTS = SHAPES.flatmap(lambda shape: arrays(np.int64, shape, elements=st.integers(0, 60)))
GRIDS = st.sampled_from([3, 6, 12])


@given(COUNTS, GRIDS, st.integers(0, 3))
def test_a_published_count_is_half_a_row_or_a_multiple_beside_the_exact_one(counts, grid, draw):
    published = publishable_counts(counts, grid, draw)
    small = counts < grid
    assert (published[small] == SMALL_CELL).all()
    assert (published[~small] >= grid).all()
    assert (published[~small] % grid == 0).all()
    assert (np.abs(published - counts)[~small] < grid).all()


@given(COUNTS, st.data())
def test_tables_that_differ_in_small_cells_only_are_published_alike(counts, data):
    small = counts < MIN_COUNT
    others = data.draw(arrays(np.int64, counts.shape, elements=st.integers(0, MIN_COUNT - 1)))
    twin = np.where(small, others, counts)
    np.testing.assert_array_equal(publishable_counts(counts), publishable_counts(twin))


def test_the_direction_of_the_rounding_is_right_on_average():
    counts = np.arange(300, 3300).reshape(30, 100)
    assert abs((publishable_counts(counts) - counts).mean()) < 0.1
    assert (publishable_counts(counts) != publishable_counts(counts, draw=1)).mean() > 0.1


@st.composite
def families(draw):
    """The count tables of random families over the same rows, some of whose levels are rare."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    levels, rows = rng.integers(2, 4, 4), draw(st.integers(5, 120))
    shares = [rng.dirichlet([0.2] * k) for k in levels]
    codes = np.column_stack([rng.choice(k, rows, p=p) for k, p in zip(levels, shares, strict=True)])
    shapes = {tuple(sorted(rng.choice(4, rng.integers(1, 4), replace=False).tolist())) for _ in range(5)}
    tables = []
    for chosen in sorted(shapes):
        shape = tuple(levels[[*chosen]])
        cells = np.ravel_multi_index(tuple(codes[:, [*chosen]].T), shape)
        tables.append(CountTable(chosen, np.bincount(cells, minlength=np.prod(shape)).reshape(shape)))
    return tables, rows


def proven(bounds):
    """The number of cells that provably have 1 or 2 rows."""
    return sum(int(((low >= 1) & (high < MIN_COUNT)).sum()) for low, high in bounds)


def test_tables_of_a_stack_are_rounded_each_by_itself():
    tables = np.random.default_rng(8).integers(0, 40, (30, 2, 3))
    expected = [publishable_counts(one, 6, 1) for one in tables]
    np.testing.assert_array_equal(publishable_stack(tables, 6, 1), expected)


@settings(deadline=None)
@given(families())
def test_the_bounds_of_a_reader_contain_the_exact_counts(drawn):
    tables, rows = drawn
    first = [PublishedTable(one.variables, publishable_counts(one.counts)) for one in tables]
    for table, (low, high) in zip(tables, provable_bounds(first, rows), strict=True):
        assert (low <= table.counts).all()
        assert (table.counts <= high).all()


@settings(deadline=None)
@given(families())
def test_no_small_cell_follows_from_tables_that_share_margins(drawn):
    tables, rows = drawn
    published = publishable_tables(tables, rows)
    assert proven(provable_bounds(published, rows)) == 0
    for one in published:
        large = one.counts[one.counts != SMALL_CELL]
        assert ((large >= one.grid) & (large % one.grid == 0)).all()


def test_a_small_cell_that_is_a_difference_is_hidden_in_the_other_table():
    """3 rows of a level are published as 3; if another table split them into 1 and 2, both cells would be revealed."""
    one = CountTable((0,), np.array([97, 3]))
    both = CountTable((0, 1), np.array([[50, 47], [1, 2]]))
    alone = [PublishedTable(t.variables, publishable_counts(t.counts)) for t in (one, both)]
    assert proven(provable_bounds(alone, 100)) == 2
    published = publishable_tables([one, both], 100)
    assert published[0].counts[1] == SMALL_CELL
    assert publishable_tables([one, both], None)[0].counts[1] == 3


def test_a_small_level_does_not_follow_from_the_number_of_rows():
    """998 and 2 of 1000 rows: a published 996 would reveal a remainder of 2 or more."""
    table = CountTable((0,), np.array([998, 2]))
    assert proven(provable_bounds([PublishedTable((0,), np.array([996.0, SMALL_CELL]))], 1000)) == 1
    (published,) = publishable_tables([table], 1000)
    assert published.counts.tolist() == [999.0, SMALL_CELL]


def network_of(tables, ess):
    names = tuple(f"x{v}" for v in range(len(tables)))
    levels = {name: tuple(map(str, range(table.shape[-1]))) for name, table in zip(names, tables, strict=True)}
    parents = {name: ("x0",) if table.ndim == 2 else () for name, table in zip(names, tables, strict=True)}
    smooth = {name: smooth_counts(table.astype(float), ess) for name, table in zip(names, tables, strict=True)}
    return DiscreteNetwork(names, levels, parents, smooth)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=4, unique=True), st.sampled_from([0.5, 1.0, 10.0]))
def test_smoothing_hides_nothing(counts, ess):
    single = np.array([0, *counts])
    table = np.array([single, single[::-1] + 1])
    found = estimated_counts(network_of([np.full(2, 40), table], ess), ess, 500)
    np.testing.assert_allclose(found["x1"][0], single, atol=1e-4)


def test_a_blank_configuration_is_estimated_as_one_without_rows():
    table = publishable_counts(np.array([[40, 60], [1, 1]]))
    found = estimated_counts(network_of([np.full(2, 40), table], 1.0), 1.0, 500)
    assert found["x1"][1].tolist() == pytest.approx([0.0, 0.0])


@given(st.floats(0, 1))
@example(0.01)
@example(0.05)
@example(0.2)
def test_classes_are_in_order(share):
    names = ["under 1 %", "1-5 %", "5-20 %", "over 20 %"]
    assert names.index(share_class(share)) == sum(share >= end for end in (0.01, 0.05, 0.2))


def test_a_published_count_bounds_the_exact_one_exactly():
    """996 means at most 998, so of 999 rows the small cell has at least one; of 998 it may have none."""
    table = PublishedTable((0,), np.array([996.0, SMALL_CELL]))
    assert proven(provable_bounds([table], 999)) == 1
    assert proven(provable_bounds([table], 998)) == 0
