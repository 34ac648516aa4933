"""Which independence tests to make next: the conditioning sets of one size, the most promising first.

PC-stable (Colombo & Maathuis 2014) fixes the pools from which conditioning sets are drawn at the start of each level,
so the order of its tests is free. Here the sets of a pair (i, j) come in an order made from the data: a variable
promises much if both i and j depend on it strongly, and the sets of the k best variables come before any set with the
next. That finds separating sets early, and the set it finds first does not depend on the order of the columns.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..protocol import FloatArray

Tests = NDArray[np.int16]
"""independence tests `[n_tests, 2 + size]`: x, y and the conditioning set, filled up with -1"""

PAD = -1


@dataclass(frozen=True)
class Draw:
    """Where the conditioning sets of one size come from, for `d` variables."""

    size: int
    pools: NDArray[np.bool_]
    """row i: the variables in i's conditioning sets, `[d, d]`"""
    tried: NDArray[np.bool_]
    """a set within row i or j has been tried for the pair (i, j) and is not drawn again, `[d, d]`"""
    strength: FloatArray
    """how strongly two variables depend on each other, `[d, d]`"""
    cardinalities: NDArray[np.int64]
    blocks: NDArray[np.bool_]
    """sets of variables, `[n_blocks, d]`; a pair's conditioning sets stay within its block"""
    block_of: NDArray[np.int64]
    """which block a pair has, `[d, d]`"""
    most_sets: int
    """no more are drawn for a pair"""
    most_cells: float
    """a test whose table would have more is left out"""


def next_tests(
    draw: Draw, pairs: NDArray[np.int64], asked: NDArray[np.int64], cells: float
) -> tuple[Tests, NDArray[np.int64], int]:
    """Return the next tests of each of the `pairs` `[n_pairs, 2]`, which have been through `asked` sets before.

    Also how many sets each has been through now, and how many tests were left out. The tests' tables have about
    `cells` cells, in equal parts for all pairs that still have sets; a pair gets at least one test.
    """
    share = cells / max(len(pairs), 1)
    packed = (
        draw.size,
        draw.pools,
        draw.tried,
        draw.strength,
        draw.cardinalities,
        draw.blocks,
        draw.block_of,
        draw.most_sets,
        float(draw.most_cells),
    )
    while True:
        tests, now_asked, left_out, used, all_drawn = _next_tests(pairs, asked, share, packed)
        if all_drawn or 2 * used > cells:
            return tests, now_asked, int(left_out)
        share *= 2


@njit(cache=True)
def _next_tests(pairs, asked, share, draw):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return as `next_tests`, and how many cells the tests' tables have, and whether no pair has any set left."""
    size = draw[0]
    tests = np.empty((max(64, len(pairs)), 2 + size), np.int16)
    now_asked = asked.copy()
    n_tests, left_out, used, all_drawn = 0, 0, 0.0, True
    for pair in range(len(pairs)):
        of_pair, now_asked[pair], cells, too_large, drawn = _of_pair(
            pairs[pair, 0], pairs[pair, 1], asked[pair], share, draw
        )
        while n_tests + len(of_pair) > len(tests):
            tests = np.concatenate((tests, np.empty_like(tests)))
        tests[n_tests : n_tests + len(of_pair)] = of_pair
        n_tests += len(of_pair)
        left_out += too_large
        used += cells
        all_drawn = all_drawn and drawn
    return tests[:n_tests].copy(), now_asked, left_out, used, all_drawn


@njit(cache=True)
def _of_pair(i, j, asked, share, draw):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Go through the subsets of both pools together, in one colexicographic order, past the first `asked` of them."""
    size, pools, tried, strength, cardinalities, blocks, block_of, most_sets, most_cells = draw
    candidates = _by_promise(i, j, (pools[i] | pools[j]) & blocks[block_of[i, j]], strength)
    mine, theirs = np.flatnonzero(pools[i][candidates]), np.flatnonzero(pools[j][candidates])
    one, other, given = np.arange(size), np.arange(size), np.empty(size, np.int64)
    one_left, other_left = len(mine) >= size, len(theirs) >= size
    tests, n_tests = np.empty((4, 2 + size), np.int16), 0
    cells, seen, too_large = 0.0, 0, 0
    while (one_left or other_left) and cells < share and seen < most_sets:
        order = _compare(one, mine, one_left, other, theirs, other_left)
        for t in range(size):
            given[t] = candidates[mine[one[t]]] if order <= 0 else candidates[theirs[other[t]]]
        if order <= 0:
            one_left = _advance(one, len(mine))
        if order >= 0:
            other_left = _advance(other, len(theirs))
        if size > 0 and (_within(given, tried[i]) or _within(given, tried[j])):
            continue
        seen += 1
        if seen <= asked:
            continue
        product = float(cardinalities[i] * cardinalities[j])
        for k in given:
            product *= cardinalities[k]
        if product > most_cells:
            too_large += 1
            continue
        if n_tests == len(tests):
            tests = np.concatenate((tests, np.empty_like(tests)))
        tests[n_tests, 0], tests[n_tests, 1], tests[n_tests, 2:] = i, j, given
        n_tests += 1
        cells += product
    drawn = seen >= most_sets or not (one_left or other_left)
    return tests[:n_tests], max(seen, asked), cells, too_large, drawn


@njit(cache=True)
def _by_promise(i, j, pool, strength):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the variables in `pool`, the one on which both i and j depend most first."""
    found = np.flatnonzero(pool)
    found = found[(found != i) & (found != j)]
    promise = np.minimum(strength[i][found], strength[j][found])
    return found[np.argsort(-promise, kind="mergesort")]


@njit(cache=True)
def _compare(one, mine, one_left, other, theirs, other_left):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return -1 if `one` comes first, 1 if `other` does, 0 if they are the same set: the least greatest member wins."""
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
    """Go to the next subset of range(n) in colexicographic order; return False if there is none."""
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
def _within(given, pool):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return pool[given].all()
