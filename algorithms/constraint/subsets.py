"""Which independence tests to make next: the conditioning sets of one size, the most promising first.

PC-stable (Colombo & Maathuis 2014) fixes the pools from which conditioning sets are drawn at the start of each level,
so the order of its tests is free. Here the data decide the order in which the sets of a pair (i, j) are tried: a
variable is promising if both i and j depend on it strongly, and all subsets of the k most promising variables come
before any set with the next one. Separating sets are found early, and which one is found first does not depend on the
order of the columns.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.count_tables import PAD

Tests = NDArray[np.int16]
"""independence tests `[n_tests, 2 + size]`: x, y and the conditioning set, filled up with -1"""


def stack(one: Tests, other: Tests) -> Tests:
    """Both lists of tests as one, filled up to the larger conditioning set."""
    width = max(one.shape[1], other.shape[1])
    filled = [np.pad(tests, ((0, 0), (0, width - tests.shape[1])), constant_values=PAD) for tests in (one, other)]
    return np.concatenate(filled)


def cells_of(tests: Tests, cardinalities: NDArray[np.int64]) -> float:
    """How many cells the tables of `tests` have, counting a shared table once for each test it serves."""
    return float(np.where(tests == PAD, 1, cardinalities[tests]).prod(axis=1, dtype=np.float64).sum())


@dataclass(frozen=True)
class Draw:
    """Where the conditioning sets of one size come from, for `d` variables."""

    size: int
    pools: NDArray[np.bool_]
    """row i: the variables in i's conditioning sets, `[d, d]`"""
    tried: NDArray[np.bool_]
    """sets within row i or j were tried for the pair (i, j) before and are not drawn again, `[d, d]`"""
    strength: FloatArray
    """how strongly two variables depend on each other, `[d, d]`"""
    cardinalities: NDArray[np.int64]
    blocks: NDArray[np.bool_]
    """sets of variables, `[n_blocks, d]`; a pair's conditioning sets stay within its block"""
    block_of: NDArray[np.int64]
    """which block a pair has, `[d, d]`"""
    most_sets: int
    """most conditioning sets drawn for a pair"""
    most_cells: float
    """a test whose table would have more cells is left out"""


def next_tests(
    draw: Draw, pairs: NDArray[np.int64], asked: NDArray[np.int64], cells: float
) -> tuple[Tests, NDArray[np.int64], int]:
    """The next tests of each of the `pairs` `[n_pairs, 2]`, for which `asked` sets have been tried before.

    Also return how many sets have been tried for each pair now, and how many tests were left out. The tables of the
    tests have about `cells` cells, shared equally by all pairs with sets left; each of these gets at least one test.
    """
    share = cells / max(len(pairs), 1)
    pairs, asked = np.ascontiguousarray(pairs), np.ascontiguousarray(asked)
    packed = (
        draw.size,
        *map(np.ascontiguousarray, (draw.pools, draw.tried, draw.strength, draw.cardinalities)),
        *map(np.ascontiguousarray, (draw.blocks, draw.block_of)),
        draw.most_sets,
        float(draw.most_cells),
    )
    while True:
        tests, now_asked, left_out, used, all_drawn = _next_tests(pairs, asked, share, packed)
        if all_drawn or 2 * used > cells:
            return tests, now_asked, int(left_out)
        share *= 2


# These kernels spell out loops where a slice or a sort would do: each of those takes numba seconds to compile.


@njit(cache=True)
def _next_tests(pairs, asked, share, draw):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """As `next_tests`; return also how many cells the tables have, and whether no pair has any set left."""
    width = 2 + draw[0]
    tests = np.empty((max(64, len(pairs)), width), np.int16)
    now_asked = np.empty(len(pairs), np.int64)
    n_tests, left_out, used, all_drawn = 0, 0, 0.0, True
    for pair in range(len(pairs)):
        of_pair, n, now_asked[pair], cells, too_large, drawn = _of_pair(
            pairs[pair, 0], pairs[pair, 1], asked[pair], share, draw
        )
        while n_tests + n > len(tests):
            tests = _twice(tests)
        for t in range(n):
            for column in range(width):
                tests[n_tests + t, column] = of_pair[t, column]
        n_tests += n
        left_out += too_large
        used += cells
        all_drawn = all_drawn and drawn
    return tests[:n_tests], now_asked, left_out, used, all_drawn


@njit(cache=True)
def _of_pair(i, j, asked, share, draw):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Go through the subsets of both pools together, in one colexicographic order, past the first `asked` of them."""
    size, pools, tried, strength, cardinalities, blocks, block_of, most_sets, most_cells = draw
    candidates, mine, theirs = _by_promise(i, j, pools, blocks[block_of[i, j]], strength)
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
        if size > 0 and (_within(given, tried, i) or _within(given, tried, j)):
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
            tests = _twice(tests)
        tests[n_tests, 0], tests[n_tests, 1] = i, j
        for t in range(size):
            tests[n_tests, 2 + t] = given[t]
        n_tests += 1
        cells += product
    drawn = seen >= most_sets or not (one_left or other_left)
    return tests, n_tests, max(seen, asked), cells, too_large, drawn


@njit(cache=True)
def _twice(tests):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """`tests` with room for twice as many."""
    longer = np.empty((2 * len(tests), tests.shape[1]), np.int16)
    for t in range(len(tests)):
        for column in range(tests.shape[1]):
            longer[t, column] = tests[t, column]
    return longer


@njit(cache=True)
def _by_promise(i, j, pools, block, strength):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The variables in the pools of i and j, most promising first, and the places of i's and of j's among them.

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
            here, to = candidates[at], at
            while to >= gap and _after(candidates[to - gap], here, promise):
                candidates[to] = candidates[to - gap]
                to -= gap
            candidates[to] = here
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
def _after(k, other, promise):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return promise[k] < promise[other] or (promise[k] == promise[other] and k > other)


@njit(cache=True)
def _compare(one, mine, one_left, other, theirs, other_left):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """-1 if `one` comes first, 1 if `other` does, 0 if they are the same set: the least greatest member wins."""
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
def _within(given, tried, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether row i of `tried` has all of `given`."""
    inside = True
    for k in given:
        inside = inside and tried[i, k]
    return inside
