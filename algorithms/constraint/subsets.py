"""The order of independence tests: the conditioning sets of one size, the most promising first.

PC-stable (Colombo & Maathuis 2014) fixes the pools from which conditioning sets are drawn at the start of each level,
so the order of its tests is free. Here the data determine the order in which the sets of a pair (i, j) are tried. A
variable is promising if both i and j depend on it strongly. All subsets of the k most promising variables precede any
set with the next variable. So separating sets are found early. Except for ties, the first set found does not depend
on the order of the columns.

Compiled functions use explicit loops, because numba takes seconds to compile each slice or sort.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.count_tables import PAD

Tests = NDArray[np.int16]
"""independence tests `[n_tests, 2 + size]`: x, y and the conditioning set, padded with -1"""


def stack(one: Tests, other: Tests) -> Tests:
    """Both lists of tests as one, padded to the larger conditioning set."""
    stacked = np.full((len(one) + len(other), max(one.shape[1], other.shape[1])), PAD, np.int16)
    stacked[: len(one), : one.shape[1]] = one
    stacked[len(one) :, : other.shape[1]] = other
    return stacked


def cells_of(tests: Tests, cardinalities: NDArray[np.int64]) -> float:
    """The number of cells of the tables of `tests`, counting a shared table once for each of its tests."""
    return float(np.where(tests == PAD, 1, cardinalities[tests]).prod(axis=1, dtype=np.float64).sum())


@dataclass(frozen=True)
class SubsetSource:
    """The source of the conditioning sets of one size, for `d` variables."""

    size: int
    pools: NDArray[np.bool_]
    """row i: the variables from which the conditioning sets of i are drawn, `[d, d]`"""
    exhausted: NDArray[np.bool_]
    """`[d, d]` by rows: the sets of a pair (i, j) within row i or within row j have all been tried, and are skipped"""
    strength: FloatArray
    """strength of the dependence of two variables, `[d, d]`"""
    cardinalities: NDArray[np.int64]
    blocks: NDArray[np.bool_]
    """sets of variables, `[n_blocks, d]`; the conditioning sets of a pair are subsets of the pair's block"""
    block_of: NDArray[np.int64]
    """the block of each pair, `[d, d]`"""
    max_sets: int
    """largest number of conditioning sets for a pair"""
    most_cells: float
    """tests whose tables would have more cells are omitted"""


def next_tests(
    source: SubsetSource, pairs: NDArray[np.int64], n_tried: NDArray[np.int64], budget: float
) -> tuple[Tests, NDArray[np.int64], int]:
    """The next tests of each of the `pairs` `[n_pairs, 2]`, of which `n_tried` `[n_pairs]` sets have been tried before.

    Also returns the new number of tried sets for each pair, and the number of tests omitted because their tables are
    too large. The tables of all tests together have about `budget` cells, shared equally by the pairs with sets left.
    """
    share = budget / max(len(pairs), 1)
    pairs, n_tried = np.ascontiguousarray(pairs), np.ascontiguousarray(n_tried)
    packed = (
        source.size,
        *map(np.ascontiguousarray, (source.pools, source.exhausted, source.strength, source.cardinalities)),
        *map(np.ascontiguousarray, (source.blocks, source.block_of)),
        source.max_sets,
        float(source.most_cells),
    )
    while True:
        tests, now_tried, left_out, used, all_drawn = _next_tests(pairs, n_tried, share, packed)
        if all_drawn or 2 * used > budget:
            return tests, now_tried, int(left_out)
        share *= 2


@njit(cache=True)
def _next_tests(pairs, n_tried, share, source):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """As `next_tests`, but each pair has about `share` cells.

    Also returns the number of cells of all tables, and whether all sets of all pairs have been tried.
    """
    width = 2 + source[0]
    tests = np.empty((max(64, len(pairs)), width), np.int16)
    now_tried = np.empty(len(pairs), np.int64)
    n_tests, left_out, used, all_drawn = 0, 0, 0.0, True
    for pair in range(len(pairs)):
        pair_tests, n, now_tried[pair], cells, too_large, drawn = _pair_tests(
            pairs[pair, 0], pairs[pair, 1], n_tried[pair], share, source
        )
        while n_tests + n > len(tests):
            tests = _doubled(tests)
        for t in range(n):
            for column in range(width):
                tests[n_tests + t, column] = pair_tests[t, column]
        n_tests += n
        left_out += too_large
        used += cells
        all_drawn = all_drawn and drawn
    return tests[:n_tests], now_tried, left_out, used, all_drawn


@njit(cache=True)
def _pair_tests(i, j, n_tried, share, source):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The tests of a pair: the subsets of both pools in one colexicographic order, after the first `n_tried`."""
    size, pools, exhausted, strength, cardinalities, blocks, block_of, max_sets, most_cells = source
    candidates, mine, theirs = _rank_candidates(i, j, pools, blocks[block_of[i, j]], strength)
    one, other, given = np.arange(size), np.arange(size), np.empty(size, np.int64)
    one_left, other_left = len(mine) >= size, len(theirs) >= size
    tests, n_tests = np.empty((4, 2 + size), np.int16), 0
    cells, seen, too_large = 0.0, 0, 0
    while (one_left or other_left) and cells < share and seen < max_sets:
        order = _compare(one, mine, one_left, other, theirs, other_left)
        for t in range(size):
            given[t] = candidates[mine[one[t]]] if order <= 0 else candidates[theirs[other[t]]]
        if order <= 0:
            one_left = _advance(one, len(mine))
        if order >= 0:
            other_left = _advance(other, len(theirs))
        if size > 0 and (_within(given, exhausted, i) or _within(given, exhausted, j)):
            continue
        seen += 1
        if seen <= n_tried:
            continue
        product = float(cardinalities[i] * cardinalities[j])
        for k in given:
            product *= cardinalities[k]
        if product > most_cells:
            too_large += 1
            continue
        if n_tests == len(tests):
            tests = _doubled(tests)
        tests[n_tests, 0], tests[n_tests, 1] = i, j
        for t in range(size):
            tests[n_tests, 2 + t] = given[t]
        n_tests += 1
        cells += product
    drawn = seen >= max_sets or not (one_left or other_left)
    return tests, n_tests, max(seen, n_tried), cells, too_large, drawn


@njit(cache=True)
def _doubled(tests):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`tests` with twice the capacity."""
    longer = np.empty((2 * len(tests), tests.shape[1]), np.int16)
    for t in range(len(tests)):
        for column in range(tests.shape[1]):
            longer[t, column] = tests[t, column]
    return longer


@njit(cache=True)
def _rank_candidates(i, j, pools, block, strength):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The variables in the pools of i and j, most promising first, and the positions of i's and of j's among them.

    A Shell sort by promise; ties are broken by the number of the variable.
    """
    d, n = len(block), 0
    candidates, promise = np.empty(d, np.int64), np.empty(d)
    for k in range(d):
        if k != i and k != j and block[k] and (pools[i, k] or pools[j, k]):
            candidates[n], promise[k] = k, min(strength[i, k], strength[j, k])
            n += 1
    gap = n // 2
    while gap > 0:
        for at in range(gap, n):
            current, to = candidates[at], at
            while to >= gap and _ranks_below(candidates[to - gap], current, promise):
                candidates[to] = candidates[to - gap]
                to -= gap
            candidates[to] = current
        gap //= 2
    mine, theirs, n_mine, n_theirs = np.empty(n, np.int64), np.empty(n, np.int64), 0, 0
    for at in range(n):
        if pools[i, candidates[at]]:
            mine[n_mine] = at
            n_mine += 1
        if pools[j, candidates[at]]:
            theirs[n_theirs] = at
            n_theirs += 1
    return candidates, mine[:n_mine], theirs[:n_theirs]


@njit(cache=True)
def _ranks_below(k, other, promise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return promise[k] < promise[other] or (promise[k] == promise[other] and k > other)


@njit(cache=True)
def _compare(one, mine, one_left, other, theirs, other_left):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """-1 if `one` precedes `other`, 1 if it follows, 0 if they are the same set, in colexicographic order."""
    if not one_left:
        return 1
    if not other_left:
        return -1
    for t in range(len(one) - 1, -1, -1):
        if mine[one[t]] != theirs[other[t]]:
            return -1 if mine[one[t]] < theirs[other[t]] else 1
    return 0


@njit(cache=True)
def _advance(chosen, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Advance to the next subset of range(n) in colexicographic order; return False if there is none."""
    size = len(chosen)
    if size == 0:
        return False
    t = 0
    while t < size - 1 and chosen[t] + 1 == chosen[t + 1]:
        chosen[t] = t
        t += 1
    chosen[t] += 1
    return chosen[size - 1] < n


@njit(cache=True)
def _within(given, exhausted, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether row i of `exhausted` has all of `given`."""
    inside = True
    for k in given:
        inside = inside and exhausted[i, k]
    return inside
