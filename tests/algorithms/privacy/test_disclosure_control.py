"""Published counts: what stays hidden from a reader who knows the rule, with one table or several overlapping ones.

The oracles are independent of the module: the rules written as plain loops, and enumerations of all tables.
"""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.parameters.networks import Network
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


def merged(table):
    """The counts in which every level of 0, 1 or 2 rows has become the most frequent level, cell by cell."""
    margins = [[np.take(table, k, axis).sum() for k in range(size)] for axis, size in enumerate(table.shape)]
    found = np.zeros_like(table)
    for cell in np.ndindex(table.shape):
        to = [int(np.argmax(own)) if own[k] < 3 <= max(own) else k for k, own in zip(cell, margins, strict=True)]
        found[tuple(to)] += table[cell]
    return found


def without_small_cells(table, grid, axis):
    """The counts in which the rows of small cells are in the largest cell of their distribution along `axis`.

    Those of a distribution of small cells are in the largest cell of the table.
    """
    found = table.copy()
    for cell in np.ndindex(table.shape):
        if table[cell] < grid:
            candidates = [(*cell[:axis], k, *cell[axis + 1 :]) for k in range(table.shape[axis])]
            if max(table[one] for one in candidates) < grid:
                candidates = list(np.ndindex(table.shape))
            largest = max(candidates, key=lambda one: (table[one], [-k for k in one]))
            if table[largest] >= grid:
                found[largest] += table[cell]
                found[cell] = 0
    return found


@given(COUNTS, GRIDS, st.integers(0, 3), st.sampled_from([None, 0, 1]))
def test_a_published_count_is_half_a_row_or_a_multiple_beside_the_exact_one(counts, grid, draw, axis):
    published, exact = publishable_counts(counts, grid, draw, axis), merged(counts)
    exact = exact if axis is None else without_small_cells(exact, grid, axis)
    small = exact < grid
    assert (published[small] == SMALL_CELL).all()
    assert (published[~small] >= grid).all()
    assert (published[~small] % grid == 0).all()
    assert (np.abs(published - exact)[~small] < grid).all()


@st.composite
def rows_with_a_rare_level(draw):
    """Codes `[n, 3]` of three variables, the first of which has a frequent level 0, a level 1 and a rare level 2."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.integers(20, 200))
    first = np.where(rng.random(n) < 0.3, 1, 0)
    return np.column_stack([first, rng.integers(0, 2, n), rng.choice(3, n, p=[0.6, 0.35, 0.05])]), rng


def tables_of(codes, families, shape):
    tables = []
    for chosen, child in families:
        sizes = tuple(shape[v] for v in chosen)
        cells = np.ravel_multi_index(tuple(codes[:, [*chosen]].T), sizes)
        tables.append(CountTable(chosen, np.bincount(cells, minlength=np.prod(sizes)).reshape(sizes), child))
    return tables


@settings(deadline=None)
@given(rows_with_a_rare_level())
def test_nothing_depends_on_whether_0_1_or_2_rows_have_a_rare_level(drawn):
    """All tables of a model, whatever the other values of these rows: the complement shows nothing either."""
    codes, rng = drawn
    families = [((0,), 0), ((0, 1), 1), ((0, 2), 0), ((0, 1, 2), 2), ((1, 2), None)]
    usual = np.flatnonzero(codes[:, 0] == 0)
    assume(len(usual) > len(codes) // 2 + 2)
    published = []
    for rare in range(3):
        twin = codes.copy()
        twin[rng.choice(usual, rare, replace=False), 0] = 2
        published.append(publishable_tables(tables_of(twin, families, (3, 2, 3)), len(codes)))
    for others in published[1:]:
        for one, other in zip(published[0], others, strict=True):
            np.testing.assert_array_equal(one.counts, other.counts)


@given(COUNTS, st.data())
def test_nothing_depends_on_whether_0_1_or_2_rows_are_in_a_small_cell_of_a_distribution(counts, data):
    """Their rows count in the largest cell, so its published count is not the complement of the small cell."""
    counts = counts + 3
    counts[:, 0] = counts.max(axis=1) + 3
    k = data.draw(st.integers(1, counts.shape[1] - 1))
    state = data.draw(st.integers(0, len(counts) - 1))
    published = []
    for rows in range(3):
        twin = np.vstack([counts, counts[state]])  # another state of the parents: the level itself is not rare
        twin[state, 0] += twin[state, k] - rows
        twin[state, k] = rows
        published.append(publishable_counts(twin, axis=1))
    assert published[0][state, k] == SMALL_CELL
    np.testing.assert_array_equal(published[0], published[1])
    np.testing.assert_array_equal(published[0], published[2])


@given(st.integers(10, 99), st.integers(10, 99))
def test_small_cells_do_not_choose_the_direction_of_others(one, other):
    """Of tables without a child, such as those of a pair, small cells stay where they are."""
    published = [publishable_counts(np.array([[one, a], [3 - a, other]])) for a in (1, 2)]
    np.testing.assert_array_equal(published[0], published[1])


def all_tables(n):
    """All 2 x 2 tables of `n` rows."""
    return np.array([(a, b, c, n - a - b - c) for a, b, c in product(range(n + 1), repeat=3) if a + b + c <= n])


@pytest.mark.parametrize("n", [11, 20, 41])
def test_no_count_of_1_or_2_follows_by_trying_all_tables(n):
    """A reader who computes the publication of every table of `n` rows, digests included, proves no count of 1 or 2."""
    tables, by_publication = all_tables(n).reshape(-1, 2, 2), defaultdict(list)
    for table, published in zip(tables, publishable_stack(tables, axis=1), strict=True):
        by_publication[published.tobytes()].append(table)
    assert len(by_publication) < len(tables) / 2
    for possible in by_publication.values():
        for cell in np.ndindex(2, 2):
            assert not {int(table[cell]) for table in possible} <= {1, 2}


@pytest.mark.parametrize(("shape", "axis"), [((3,), None), ((3,), 0), ((2, 2), None), ((2, 2), 1)])
def test_the_bounds_of_a_reader_are_those_of_all_tables_that_can_be_published_so(shape, axis):
    """Both ends, for any direction of every rounding; a reader of one table without a child proves no less either."""
    n, possible = 14, defaultdict(list)
    size = int(np.prod(shape))
    for cells in product(range(n + 1), repeat=size - 1):
        if sum(cells) > n:
            continue
        exact = merged(np.array([*cells, n - sum(cells)]).reshape(shape))
        rounded = exact if axis is None else without_small_cells(exact, 3, axis)
        ways = [(SMALL_CELL,) if c < 3 else sorted({c // 3 * 3, -(-c // 3) * 3}) for c in rounded.ravel().tolist()]
        for published in product(*ways):
            possible[published].append(exact)
    for published, tables in possible.items():
        one = PublishedTable(tuple(range(len(shape))), np.array(published, float).reshape(shape), 3, axis)
        ((low, high),) = provable_bounds([one], n)
        assert (low <= np.min(tables, axis=0)).all()
        assert (high >= np.max(tables, axis=0)).all()
        if axis is None and len(shape) == 1 and 0 not in {int(table.min()) for table in tables}:
            np.testing.assert_array_equal(low, np.min(tables, axis=0))
            np.testing.assert_array_equal(high, np.max(tables, axis=0))


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
        child = draw(st.sampled_from([None, *chosen]))
        tables.append(CountTable(chosen, np.bincount(cells, minlength=np.prod(shape)).reshape(shape), child))
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
    first = [
        PublishedTable(one.variables, publishable_counts(one.counts, axis=one.axis), axis=one.axis) for one in tables
    ]
    for table, (low, high) in zip(tables, provable_bounds(first, rows), strict=True):
        assert (low <= merged(table.counts)).all()
        assert (merged(table.counts) <= high).all()


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
    return Network(names, levels, parents, smooth)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=4, unique=True), st.sampled_from([0.5, 1.0, 10.0]))
def test_smoothing_hides_nothing(counts, ess):
    single = np.array([0, *counts])
    table = np.array([single, single[::-1] + 1])
    found = estimated_counts(network_of([np.full(2, 40), table], ess).tables, ess, 500)
    np.testing.assert_allclose(found["x1"][0], single, atol=1e-4)


def test_a_blank_configuration_is_estimated_as_one_without_rows():
    table = publishable_counts(np.array([[40, 60], [1, 1]]))
    found = estimated_counts(network_of([np.full(2, 40), table], 1.0).tables, 1.0, 500)
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
