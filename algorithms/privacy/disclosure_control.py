"""Disclosure control: the publishable form of exact counts, and the inferences it permits (ours).

Runs without an ε compute exact sums. A reader can undo the smoothing of a probability table and obtain its counts, and
a count of 1 describes a person. The complement of a small cell describes the same person: of 300 rows, 299 without a
property leave one with it. Published tables therefore follow these rules, similar to those of DataSHIELD:

- A level of 0, 1 or 2 rows is merged with the most frequent level of its variable, in all tables. So all published
  counts are those of rows in which the rare level does not occur.
- In the table of a child and its parents, the rows of the remaining cells of 1 or 2 rows count in the largest cell of
  the same distribution of the child or, if this distribution has only small cells, in the largest cell of the table.
- A small cell is published as half a row, so counts of 0, 1 and 2 cannot be distinguished. The distribution for a
  configuration of the parents with 0, 1 or 2 rows in all is uniform.
- Any other count is published as one of the two multiples of 3 around it. The direction is random, with probabilities
  that make the rounding unbiased. It is drawn from a digest of these larger counts, so the same rows give the same
  model.
- Tables that share variables share margins, and a difference of margins could reveal a small cell. Suppose that a
  reader knows the rules, the number of rows and all tables. `provable_bounds` computes what this reader can prove about
  each count from the shared margins. If a cell provably has 1 or 2 rows, its table is rounded again, together with the
  tables that share most variables with it. If that does not suffice, the grid gets coarser, and more cells count as
  small.

So the published form of each table is also the published form of a table without counts of 1 and 2, and no such count
follows from it. Two data sets have the same published model if their rows differ only in whether 0, 1 or 2 rows have a
rare level instead of the most frequent one. Two tables have the same published form if they differ only in whether 0, 1
or 2 rows are in a small cell instead of the largest cell of its distribution. No rule can promise this for every pair
of cells: a chain of such changes, from a large cell over a small one to another large cell, leads from any table to any
other.

A reader can infer three things. A cell of half a row has at most 2 rows, or fewer rows than the grid if the grid is
coarser. A larger count is known up to the grid and the rows of small cells beside it. A cell is empty if the counts
beside it leave no room for a row. The digest does not help the reader: for each count it reveals less than one bit, and
to select one of the five counts behind a published multiple of 3 takes more than two. The rules do not protect from a
reader who knows some of the rows: whoever has all rows but one can guess and test the last row. They do not protect
from stronger methods than bounds from single margins, such as integer programming over all tables at once. Only an ε
protects from every reader.

The rules cost little or no accuracy, because half a row acts as smoothing where counts are smallest
(`benchmarks/disclosure.py`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray

MIN_COUNT = 3
"""smallest number of rows on which a published figure may rest"""
GRID = 3
"""distance between neighbouring published counts, in rows"""
SMALL_CELL = 0.5
"""the published count of a cell of fewer than `MIN_COUNT` rows"""
DRAWS_PER_GRID = 4
"""number of roundings that are tried before the grid gets coarser"""
SHARE_CLASSES = ((0.01, "under 1 %"), (0.05, "1-5 %"), (0.2, "5-20 %"))
"""upper ends and names of the classes in which shares of cells are published; there is one more class above them"""
MAX_SWEEPS = 50
"""largest number of passes over all shared margins"""

Ints = NDArray[np.int64]
Variables = tuple[int, ...]
Bounds = tuple[Ints, Ints]
"""the least and the largest possible count of every cell of a table"""
Margins = dict[Variables, list[int]]
"""sets of variables, each with the numbers of the tables that contain it"""


@dataclass(frozen=True, eq=False)
class CountTable:
    """The number of rows for each combination of levels of some variables."""

    variables: Variables
    """the indices of the variables, ascending"""
    counts: Ints
    """the numbers of rows, with one axis for the levels of each variable, in order"""
    child: int | None = None
    """the variable of whose distributions given the other variables a model consists; None without such a variable"""

    @property
    def axis(self) -> int | None:
        """The axis of the child."""
        return None if self.child is None else self.variables.index(self.child)


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """The published counts of a table, the grid on which they lie, and the axis of the child."""

    variables: Variables
    counts: FloatArray
    grid: int = GRID
    axis: int | None = None


def publishable_counts(
    counts: NDArray[np.integer], grid: int = GRID, draw: int = 0, axis: int | None = None
) -> FloatArray:
    """The publishable counts of one table: half a row for small cells, multiples of `grid` for other cells.

    A cell is small if its count is below `grid`. `draw` numbers the roundings of a table that is rounded repeatedly.
    `axis` is the axis of the child, if the table has one.
    """
    return np.asarray(publishable_stack(np.asarray(counts)[None], grid, draw, axis)[0])


def publishable_stack(
    tables: NDArray[np.integer], grid: int = GRID, draw: int = 0, axis: int | None = None
) -> FloatArray:
    """The publishable counts of each of the `tables` `[n_tables, ...]`, as in `publishable_counts`."""
    exact = without_rare_levels(tables)
    if axis is not None:
        exact = _small_cells_in_largest(exact, grid, axis + 1)
    large, terms = np.where(exact < grid, 0, exact), f"{exact.shape[1:]} {grid} {draw}".encode("ascii")
    size = 8 * large[:1].size
    digests = b"".join(hashlib.shake_256(table.tobytes() + terms).digest(size) for table in large)
    # The upper 53 bits of a word are a number from 0 to 1.
    chance = (np.frombuffer(digests, "<u8").reshape(exact.shape) >> 11) * 2.0**-53
    below, share = large - large % grid, large % grid / grid
    return np.where(exact < grid, SMALL_CELL, below + grid * (chance < share))


def without_rare_levels(tables: NDArray[np.integer]) -> Ints:
    """The counts of each of the `tables` `[n_tables, ...]` after merging rare levels with the most frequent level.

    A level is rare if it has fewer than `MIN_COUNT` rows in all; if all levels of a variable are rare, they stay. The
    result does not depend on the order of the axes.
    """
    merged = np.array(tables, np.int64)
    for axis in range(1, merged.ndim):
        margins = merged.sum(axis=tuple(other for other in range(1, merged.ndim) if other != axis))
        rare = margins < MIN_COUNT
        if not rare.any():
            continue
        for table in np.flatnonzero(rare.any(axis=-1) & ~rare.all(axis=-1)):
            levels, cells = rare[table], np.moveaxis(merged[table], axis - 1, -1)
            cells[..., margins[table].argmax()] += cells[..., levels].sum(axis=-1)
            cells[..., levels] = 0
    return merged


def rare_indicators(labels: Ints, means: FloatArray, rows: int) -> NDArray[np.bool_]:
    """Whether each column is an indicator without which no rare level is distinguished from others.

    `labels` has the variable of each indicator, and -1 for other columns. `means` are those of all `rows`. If the first
    level, which has no indicator, is rare, the most frequent other level is merged with it.
    """
    rare = (labels >= 0) & (means * rows < MIN_COUNT - 0.5)
    for variable in np.unique(labels[labels >= 0]):
        own = np.flatnonzero(labels == variable)
        if (1 - means[own].sum()) * rows < MIN_COUNT - 0.5:
            rare[own[np.argmax(means[own])]] = True
    return rare


def _small_cells_in_largest(exact: Ints, grid: int, axis: int) -> Ints:
    """The tables without small cells, whose rows are in the largest cell of their distribution along `axis`.

    The rows of a distribution without a large cell are in the largest cell of the table, unless it is small, too.
    """
    kept = np.where(exact < grid, 0, exact)
    moved = (exact - kept).sum(axis=axis, keepdims=True)
    largest = np.expand_dims(kept.argmax(axis=axis), axis)
    stays = kept.max(axis=axis, keepdims=True) >= grid
    np.put_along_axis(kept, largest, np.take_along_axis(kept, largest, axis) + np.where(stays, moved, 0), axis)
    for table, own, rows in zip(kept, exact, np.where(stays, 0, moved), strict=True):
        table.flat[int(own.argmax())] += rows.sum() if own.max() >= grid else 0
    return kept


def publishable_tables(tables: Sequence[CountTable], rows: int | None) -> list[PublishedTable]:
    """The publishable counts of all `tables` of one model, from which no small cell can be proved.

    `rows` is the public number of rows that every table counts. It is None if each table counts the rows without empty
    cells in its variables; then margins do not agree, and each table is rounded separately.
    """
    published = [_published(table) for table in tables]
    if rows is None:
        return published
    shapes = [table.variables for table in tables]
    draws, tries = [0] * len(tables), [0] * len(tables)
    while disclosing := [t for t, one in enumerate(provable_bounds(published, rows)) if _discloses(*one)]:
        for t in disclosing:
            tries[t] += 1
            for u in _closest(t, shapes, tries[t] // DRAWS_PER_GRID):
                grid = published[u].grid * (1 if tries[t] % DRAWS_PER_GRID else 2)
                draws[u] += 1
                published[u] = _published(tables[u], grid, draws[u])
    return published


def _published(table: CountTable, grid: int = GRID, draw: int = 0) -> PublishedTable:
    counts = publishable_counts(table.counts, grid, draw, table.axis)
    return PublishedTable(table.variables, counts, grid, table.axis)


def _discloses(low: Ints, high: Ints) -> bool:
    """Whether the bounds `low` and `high` prove that some cell has 1 or 2 rows."""
    return bool(((low >= 1) & (high < MIN_COUNT)).any())


def _closest(t: int, shapes: Sequence[Variables], steps: int) -> list[int]:
    """Table `t`, and the tables that share the largest number of variables with it, or up to `steps` fewer."""
    shared = [len(set(shapes[t]).intersection(variables)) for variables in shapes]
    most = max((size for u, size in enumerate(shared) if u != t), default=0)
    return [u for u, size in enumerate(shared) if u == t or size >= max(1, most - steps)]


def provable_bounds(tables: Sequence[PublishedTable], rows: int) -> list[Bounds]:
    """The bounds that a reader can prove for the cells of published `tables`, all of which count the same `rows`.

    The reader knows the rules of this module and the grids of the tables. The bounds are for the rows after merging
    rare levels; nothing that is published depends on the rare levels themselves.
    """
    given = [_given_parents(table) for table in tables if table.axis is not None and table.counts.ndim > 1]
    shapes = [*(table.variables for table in tables), *(variables for variables, _ in given)]
    bounds = [*(_rounding_bounds(table, rows) for table in tables), *(one for _, one in given)]
    return _narrow(shapes, bounds, shared_margins(shapes), rows)[: len(tables)]


def _rounding_bounds(table: PublishedTable, rows: int) -> Bounds:
    """The least and the largest counts that are published as in `table`; no count exceeds `rows`."""
    published, grid = table.counts, table.grid
    small = published < grid
    low = np.where(small, 0, np.maximum(published - grid + 1, grid)).astype(np.int64)
    high = np.where(small, grid - 1, published + grid - 1).astype(np.int64)
    if table.axis is not None:
        own, others = _moved_rows(table, low, high)
        low = np.where(small, low, np.maximum(low - own - others, grid))
    return low, np.minimum(high, rows)


def _moved_rows(table: PublishedTable, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """The largest numbers of rows of small cells that each published count may include.

    The first are from its own distribution, the second from distributions without a large cell. `low` and `high` are
    bounds of these counts.
    """
    assert table.axis is not None
    small, least = table.counts < table.grid, np.where(table.counts < table.grid, 0, low)
    cells = small.sum(axis=table.axis, keepdims=True)
    alone = int(cells[cells == small.shape[table.axis]].sum())
    largest = ~small & (high >= least.max(axis=table.axis, keepdims=True))
    own = np.where(largest, (table.grid - 1) * cells, 0)
    return own, np.where(~small & (high >= least.max()), (table.grid - 1) * alone, 0)


def _given_parents(table: PublishedTable) -> tuple[Variables, Bounds]:
    """The parents in a published `table`, and the bounds of the numbers of rows of their configurations."""
    axis, grid = table.axis, table.grid
    assert axis is not None
    small = table.counts < grid
    low = np.where(small, 0, np.maximum(table.counts - grid + 1, grid)).astype(np.int64)
    high = np.where(small, 0, table.counts + grid - 1).astype(np.int64)
    _, others = _moved_rows(table, low, high)
    alone = np.where(small.all(axis=axis), (grid - 1) * small.shape[axis], 0)
    parents = tuple(v for k, v in enumerate(table.variables) if k != axis)
    return parents, (np.maximum(low.sum(axis=axis) - others.max(axis=axis), 0), high.sum(axis=axis) + alone)


def shared_margins(tables: Sequence[Variables]) -> Margins:
    """The sets of variables that two `tables` share, and the empty set, whose margin is the number of rows."""
    of_variable: dict[int, list[int]] = {}
    for t, variables in enumerate(tables):
        for v in variables:
            of_variable.setdefault(v, []).append(t)
    members = [frozenset(variables) for variables in tables]
    pairs = {pair for of_one in of_variable.values() for pair in combinations(of_one, 2)}
    shared = {tuple(sorted(members[s] & members[t])) for s, t in pairs}
    margins: Margins = {(): list(range(len(tables)))}
    for chosen in sorted(shared):
        candidates = min((of_variable[v] for v in chosen), key=len)
        margins[chosen] = [t for t in candidates if members[t].issuperset(chosen)]
    return margins


def _narrow(shapes: Sequence[Variables], bounds: Sequence[Bounds], margins: Margins, rows: int) -> list[Bounds]:
    """`bounds` narrowed by every shared margin, repeated until nothing changes."""
    narrowed, stale = list(bounds), set(range(len(shapes)))
    for _ in range(MAX_SWEEPS):
        changed: set[int] = set()
        for chosen, members in margins.items():
            if stale.isdisjoint(members) and changed.isdisjoint(members):
                continue
            changed |= _narrow_by(chosen, members, shapes, narrowed, rows)
        if not changed:
            break
        stale = changed
    return narrowed


def _narrow_by(
    chosen: Variables, members: Iterable[int], shapes: Sequence[Variables], bounds: list[Bounds], rows: int
) -> set[int]:
    """Narrow the `bounds` of the tables `members` by their margin over `chosen`; returns the changed tables.

    Every one of these tables has the same margin. So a cell is at least the least value of the margin minus the largest
    values of the other cells, and at most the largest value of the margin minus the least values of the other cells.
    """
    axes = {t: tuple(k for k, v in enumerate(shapes[t]) if v not in chosen) for t in members}
    sums = {t: tuple(one.sum(axis=axes[t], keepdims=True) for one in bounds[t]) for t in members}
    least, largest = (0, rows) if chosen else (rows, rows)
    low, high = np.int64(least), np.int64(largest)
    for of_low, of_high in sums.values():
        low, high = np.maximum(low, np.squeeze(of_low)), np.minimum(high, np.squeeze(of_high))
    changed = set()
    for t in members:
        (cell_low, cell_high), (of_low, of_high) = bounds[t], sums[t]
        new_low = np.maximum(cell_low, low.reshape(of_low.shape) - (of_high - cell_high))
        new_high = np.minimum(cell_high, high.reshape(of_high.shape) - (of_low - cell_low))
        if (new_low > cell_low).any() or (new_high < cell_high).any():
            bounds[t] = new_low, new_high
            changed.add(t)
    return changed


def estimated_counts(tables: Mapping[str, FloatArray], ess: float, rows: int) -> dict[str, FloatArray]:
    """The counts behind the `tables` of a published network (`Network.tables`): an attack that undoes the smoothing.

    A probability is (N + α)/(N_row + r α) with the public α = `ess`/cells. So the number of rows N_row of a parent
    configuration is estimated as the smallest number, up to `rows`, for which all its counts are whole or half numbers.
    A uniform distribution is estimated as a configuration without rows.

    Returns
    -------
    dict of str to ndarray
        By variable, the estimated counts in the shape of its table.
    """
    return {name: _unsmoothed(table, ess, rows) for name, table in tables.items()}


TOLERANCE = 1e-6
"""largest distance from a multiple of half a row at which an estimated count fits, relative to the number of rows"""


def _unsmoothed(table: FloatArray, ess: float, rows: int) -> FloatArray:
    alpha, levels = ess / table.size, table.shape[-1]
    totals = np.arange(0.0, rows + levels, SMALL_CELL)
    counts = np.empty((prod(table.shape[:-1]), levels))
    for j, probabilities in enumerate(table.reshape(-1, levels)):
        candidates = (totals + levels * alpha)[:, None] * probabilities - alpha
        misfit = np.abs(candidates / SMALL_CELL - np.rint(candidates / SMALL_CELL)).max(axis=1)
        misfit = np.where((candidates < -TOLERANCE).any(axis=1), 1.0, misfit)
        fits = np.flatnonzero(misfit <= TOLERANCE * (1 + totals) * min(alpha, 1.0))
        counts[j] = candidates[fits[0] if len(fits) else int(misfit.argmin())]
    return counts.reshape(table.shape)


def share_class(share: float) -> str:
    """The class in which a share of cells is published, because an exact share would reveal the number of cells.

    Examples
    --------
    >>> [share_class(share) for share in (0.002, 0.03, 0.07, 0.5)]
    ['under 1 %', '1-5 %', '5-20 %', 'over 20 %']
    """
    return next((name for end, name in SHARE_CLASSES if share < end), "over 20 %")
